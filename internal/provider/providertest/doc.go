// Package providertest is the suite that every model passes.
package providertest

// The requests are fixed, so that a model which answers from a file or through
// a server of ours can be prepared for them: by the name of the step in
// Request.For, or by the words of the message, which no other request has.
