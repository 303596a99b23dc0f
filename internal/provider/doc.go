// Package provider defines the interface to language models: one request, one
// streamed reply, in types of our own that no vendor's library crosses.
//
// To add a provider, implement Model in a package below this one; a provider on
// the network also has Reach (see providertest.NetworkModel). Call the suite of
// providertest in its tests, add its API to config.APIs, and create it in
// registry/models.go. Providers that need no entry in the configuration are in
// config.BuiltIn; prices are in price/prices.json. A server that is compatible with
// an API that exists needs only an entry in the configuration. Programs that act as
// models are dialects of package cliagent, created in registry/clis.go.
package provider
