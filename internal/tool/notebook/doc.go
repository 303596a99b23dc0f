// Package notebook implements the tools with which an agent keeps notes between runs, in one file for each agent of
// each workflow.
package notebook

// A note is one line of JSON, appended with one write. It has the key of the call that added it, so that a call that is
// repeated after a crash adds no second note.
