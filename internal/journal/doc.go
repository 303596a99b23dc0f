// Package journal is the only truth about a run: its facts, in order, and the
// stores that keep them.
package journal

// A fact is something that has been decided or has happened; it is never
// changed and never taken back. Facts carry everything that folding them
// needs, so that State can be rebuilt without the Program. All facts of one
// decision go into one Batch, which a Store appends whole or not at all.
