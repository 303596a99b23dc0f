// Package simulated implements a provider.Model without a network. It generates
// replies that satisfy the contract of a request, are deterministic for a seed,
// and are always labeled as simulated.
package simulated

// A reply depends on the seed and on the purpose of the request, never on time,
// the order of calls or the output of other steps: a run that is killed and
// resumed gets the same replies. Booleans and choices between branches rotate:
// each visit of a step advances them by one, so every loop that waits for one
// of them ends.
//
// model.go selects the kind of reply, schema.go generates values for JSON
// Schemas, pattern.go texts for regular expressions, and words.go realistic
// values for names.
