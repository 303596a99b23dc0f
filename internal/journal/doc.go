// Package journal defines the events of runs and the interface of the stores that keep them. The journal is the
// only source about runs for all readers. On Temporal, events are durable in the workflow's history first, and
// activities copy them into the journal.
//
// Reader reads runs, Writer appends to them: what Writer.Append has reported as appended is durable. A Store does both,
// and decides which process owns a run.
package journal

// A fact is something that was decided or has happened (Fact), such as TaskStarted; it never changes. An event is a
// fact with its number, time and run (Event): streams consist of events. Facts contain everything that folding them
// needs, so that plan.State can be rebuilt without the program. The events of one decision are one Batch, which a Store
// appends atomically.
