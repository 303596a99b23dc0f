// Package temporal implements the engine that drives runs on Temporal. A run is
// a workflow, a task is an activity, and the journal is a projection of the
// workflow's history that all readers use.
package temporal

// The workflow executes the same deterministic plan as the embedded engine: it
// feeds what happens to plan.State, and the facts that follow start tasks and
// timers. These rules hold:
//
//   - One workflow per root run. Its id is the id of the run. The journal has
//     RunStarted before the workflow starts, so that a run exists once.
//   - The journal is the truth. A run whose workflow Temporal has lost or reset
//     continues from the journal, in a new workflow with a new fence (recover.go).
//   - Facts reach the journal by activities. An append is idempotent: what the
//     journal has already must equal, byte for byte, what is appended. The ids
//     of activities contain a hash of all facts so far. So Temporal itself
//     detects a replay that decides something else.
//   - An activity that runs a task first appends the facts that it depends on
//     and then reads its job from the journal. It has one attempt: the plan
//     decides about retries. Its result is a value, never an error.
//   - The notes of a task are durable when a synchronous heartbeat with all
//     notes that the workflow does not have yet has returned. If the worker
//     dies, the workflow gets them with the timeout of the heartbeat.
//   - A reservation of budget is an update of the workflow. If it has to wait,
//     the activity ends, and starts again when the budget is there.
//   - Messages of people are updates. Their validator refuses what the plan
//     refuses; they return when the journal has the answer.
//   - Values of more than 64 KiB are blobs in the journal, not in the history.
//   - The owner of the runs in the journal is journal.Temporal, so that no
//     process claims them.
