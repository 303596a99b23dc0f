// Package httptransport implements what all models that use HTTP have in
// common: how keys are sent, what error responses mean, and names and schemas that
// servers accept.
package httptransport

// The libraries of the providers find keys by themselves, in variables and
// files. Here they never get to use one: the transport takes off whatever they
// put into a request and puts in the key that was meant for this server, or
// none. So no key can reach a server that it was not meant for.
