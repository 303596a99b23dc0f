// Package worker is the step kind that lets an agent work on a workload and
// holds it to the output contract: by asking a model, or by running a command.
package worker

// A command gets the workload as JSON on its standard input and gives the
// output as JSON on its standard output. It runs in the folder of the project,
// as the user who runs the workflow; whoever names it in agents/KEY.md decides
// that it may.
