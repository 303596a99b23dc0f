// Package provider defines the interface to language models: one request, one
// streamed reply, in types of our own that no vendor's library crosses.
//
// To add a provider, implement Model in a package below this one; a provider on
// the network also has Reach (see providertest.NetworkModel). Call the suite of
// providertest in its tests, add its API to config.APIs, and create it in
// registry/models.go.
package provider
