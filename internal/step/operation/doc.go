// Package operation is the step kind that calls a tool with inputs that
// templates write, and keeps what it gives as lines of text and as data.
package operation
