// Package simulated is the model that answers without a network: made-up
// replies of the right form, the same ones for the same seed, always labelled
// as simulated.
package simulated

// A reply is chosen by the seed and by the purpose of the request, never by
// time, by order of calls or by what other steps have said: a run that was
// killed and resumed gets the same replies. Yes-or-no answers and choices
// between branches do not roll dice but go round: entering a step once more
// moves each of them on by one, so every loop that waits for one of them ends.
//
// model.go decides what kind of reply a request wants, expected.go reads what
// the author wrote about its form, schema.go makes up values for JSON Schemas,
// pattern.go texts for regular expressions, words.go what looks human.
