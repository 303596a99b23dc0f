// Package node is the step kinds that run functions over a shared state:
// "node" runs one, "collect" begins the state, joins what functions changed
// side by side, and gives the state back.
package node

// A function is Python code that stands in the workflow. It sees the fields of
// the state that its step reads, calls agents through AgentRunner.run, and
// returns the fields that it changes. Calls are made with step.Job.Do, so each
// is done once, however often the function is run again; that works because
// the evaluator gives a function nothing that differs between two runs.
//
// run.go is the kind, host.go what the code can call, pipeline.go the pipeline
// of Execution blocks, child.go the same host for a real python3, update.go
// what becomes of returned fields.
