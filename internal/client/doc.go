// Package client implements a client of a project's server. Its methods have the names
// and results of those of [app.App], so that commands print the same whether
// they read the store or ask a server.
package client
