// Package netguard makes HTTP clients that reach the open internet and nothing
// else, for addresses that a model or a file chose.
package netguard

// A name is resolved here, every address that it has is looked at, and that
// very address is dialled: a name that means something else a moment later
// gains nothing. Redirects come the same way. Proxies of the environment are
// not used, because they would do the resolving.
