// Package plan decides what a run does next: State is the fold of a run's
// events, Decide turns what the world says into new ones.
package plan

// It is pure: no clock, no randomness, no input or output, no goroutines.
// Time, results, decisions and signals come in as inputs, which become facts
// or are refused with a reason. Only Apply writes State; deciding applies as
// it goes, because closing a frame may join a step, which enters the next one,
// and so on. Three laws hold after every batch and the tests keep them: the
// fold of the events equals the live state; marking everything and deciding
// retry yields nothing; a snapshot round trip changes nothing.
//
// Decide changes State before its events are durable. A caller whose append
// failed must throw the State away and fold again.
