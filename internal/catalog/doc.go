// Package catalog lists what ships of the language: the file formats and the kinds of steps. It links nothing that runs
// workflows.
package catalog

// To ship another format or kind of step, add one line to catalog.go. Package registry has the runners of the kinds.
