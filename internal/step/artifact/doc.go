// Package artifact implements the step kinds whose results are files: "artifact" has
// an agent write one or several, "shell" runs a script, and "handover"
// returns the output at the end.
package artifact

// What an agent writes is the step's result, in the journal; the file is made
// from it, for people and scripts. Later steps get the result and not
// the file, so that a run can be carried on wherever the files went.
