// Package engine defines the interface of engines (Engine) and implements what
// they share (Core). An engine lets package plan decide the next steps of a run
// and appends what was decided to the journal; then it starts the steps. Package
// embedded appends first. Package temporal has the decision in the history of a
// Temporal workflow first, and copies it to the journal.
package engine

// An engine makes a run happen: it feeds the plan with what happens, stores the
// facts that the plan decides on, and runs the tasks that those facts start.
// Package embedded is the engine that works in this process, on a journal.Store;
// package temporal is the engine on a Temporal server.
//
// What does not depend on where facts are stored and tasks run is here, in
// Core: pinned definitions, reading runs, the facts that start a run, the job of
// a task, the meaning of its result, and the form of messages.
