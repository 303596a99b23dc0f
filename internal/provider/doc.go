// Package provider defines the interface to language models: one request, one
// streamed reply, in types that do not depend on a vendor's SDK.
//
// To add a provider, implement Model in a package below this one; a provider on
// the network also has Reach (see providertest.NetworkModel). Run the suite of
// providertest in its tests, add its API to config.APIs, and its code to the
// table in registry/models.go. Providers that need no entry in the configuration are in
// config.BuiltInProviders; prices are in price/prices.json. A server that is compatible with
// an existing API needs only an entry in the configuration. Programs that act as
// models are dialects of package cliagent, created in registry/clis.go.
package provider
