// Package wire is what all models that are reached over the network have in
// common: how a key travels, what a refusal means, names and schemas that
// servers accept.
package httptransport

// The libraries of the providers find keys by themselves, in variables and
// files. Here they never get to use one: the transport takes off whatever they
// put into a request and puts in the key that was meant for this server, or
// none. So no key can reach a server that it was not meant for.
