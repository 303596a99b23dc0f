// Package artifact is the step kinds whose results are files: "artifact" lets
// an agent write one or several, "shell" runs a script among them, "handover"
// hands over what there is in the end.
package artifact

// What an agent writes is the step's result, in the journal; the file is made
// from it, for people and scripts. Later steps are given the result and not
// the file, so that a run can be carried on wherever the files went.
