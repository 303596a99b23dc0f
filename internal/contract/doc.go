// Package contract derives what the reply of a model must be: one reply
// contract for each step that asks a model, known before the run.
package contract

// A contract comes from three sources, in this order: what the author declares
// (a schema, the schema of the output that the step writes, a description such
// as "Object: { kind: a | b }"), how later steps use the value (a comparison
// with a number, a branch for each of three words, a list to go through), and
// otherwise nothing, which leaves free text. Everything is computed from the
// program, so that the same program always has the same contracts and nothing
// needs to be stored.
//
// contract.go has the result and puts the sources together, declared.go reads
// declared schemas, words.go descriptions in words, uses.go finds what happens
// to a value after the step, choices.go lists the values that decide where a
// run goes, explore.go the values that a simulation has to try.
