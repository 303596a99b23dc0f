// Package worker runs steps of kind "worker": an agent works on a workload
// and its output meets the output contract. The agent is a model or a command.
package worker

// A command gets the workload as JSON on its standard input and prints the
// output as JSON. It runs in the folder of the project, as the user who runs the
// workflow. agents/KEY.md names it.
