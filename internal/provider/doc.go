// Package provider defines the interface to language models: one request, one
// streamed reply, in types that do not depend on a vendor's SDK.
//
// To add a provider:
//
//   - Implement Model in a package below this one; a provider on the network
//     also has Reach (see providertest.NetworkModel). Run the suite of
//     providertest in its tests.
//   - Add its API to APIs in config/models.go, and its code to the table apis in
//     registry/models.go.
//   - If it needs no entry in the configuration, add a row to BuiltInProviders
//     in config/models.go, and its name and variables to cli/help.go.
//   - Add its name in traces to report/otel/names.go, unless it is the name
//     here, and its prices to price/prices.json.
//   - Describe it in docs/models.md.
//
// A server that is compatible with an existing API needs only an entry in the
// configuration. Programs that act as models are dialects of package cliagent,
// created in registry/clis.go, with names in config/clis.go.
package provider
