// Package engine executes runs: package plan decides what happens next, and an engine stores each decision and
// runs its tasks. The package defines the interface of engines (Engine) and implements what they share (Core).
// Package embedded runs in this process and appends decisions to a journal.Store. Package temporal stores
// decisions in the history of a Temporal workflow first, and copies them to the journal.
//
// Runs start with Engine.Start, which app.Start calls. A decision is made durable with journal.Writer.Append: package
// embedded passes it each decision as one journal.Batch, and the decision takes effect when Append reports success.
package engine

// Core implements what does not depend on where events are stored and tasks run: pinned definitions, reading runs, the
// facts that start a run, the job of a task, the meaning of its result, and the encoding of messages.
