// Package providertest provides the test suite for implementations of
// provider.Model.
package providertest

// The requests are fixed, so that scripts and test servers can prepare replies.
// The step in Request.For and the text of the message identify each request.
