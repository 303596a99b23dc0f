// Package netguard provides HTTP clients that can reach only public addresses,
// for requests whose URL was chosen by a model or a file.
package netguard

// The client resolves the host name, checks every resulting address, and dials
// a checked address rather than the name, so DNS rebinding has no effect.
// Redirects take the same path. Proxy settings of the environment are ignored,
// because a proxy would resolve the name itself.
