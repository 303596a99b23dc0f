// Package notebook is the tools with which an agent keeps notes from one run
// to the next: one file for each agent of each workflow.
package notebook

// A note is one line of JSON, appended with one write and marked with the key
// of the call that made it, so that a call that is made again after a crash
// leaves one note and not two.
