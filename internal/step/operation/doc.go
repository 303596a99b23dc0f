// Package operation implements the step kind "operation", which calls a tool with
// inputs from templates and keeps its output as lines of text and as data.
package operation
