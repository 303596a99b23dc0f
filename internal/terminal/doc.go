// Package terminal keeps text of models, files and tools from controlling a
// terminal.
package terminal
