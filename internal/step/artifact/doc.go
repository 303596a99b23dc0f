// Package artifact runs steps whose results are files: "artifact" has an agent write one or several,
// "shell" runs a script, and "handover" returns the output at the end.
package artifact

// The files that an agent writes are the result of the step, in the journal; the files on disk are copies for people
// and scripts. Later steps read the result and not the files, so that a run can be resumed even if the files are gone.
