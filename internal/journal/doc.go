// Package journal defines the facts about runs and the interface of the stores
// that keep them. The journal is the only source about runs for all readers. On
// Temporal, facts are durable in the workflow's history first, and activities
// copy them into the journal.
package journal

// A fact is something that was decided or has happened; it never changes. Facts
// contain everything that folding them needs, so that State can be rebuilt
// without the Program. All facts of one decision are one Batch, which a Store
// appends as a whole or not at all.
