// Package node runs steps that compute a shared state with functions.
// "node" runs one function; "collect" initializes the state, merges the changes of
// parallel functions, and returns the state.
package node

// A function is Python code of the workflow. It gets the fields of the state that its
// step reads, calls agents through AgentRunner.run, and returns the fields that it
// changes. Calls are made with step.Job.Do, so that each is made once even if the
// function runs again. That requires that the function makes the same calls again: its
// clock is recorded (interpreter.go), and its random numbers follow from the run.
//
// run.go is the runner and host.go calls agents. protocol.go talks to the code in lines of
// JSON, which run in the built-in interpreter (interpreter.go) or in a python3
// (child.go). update.go merges returned fields into the state.
