// Package operation runs steps of kind "operation", which call a tool with inputs from
// templates and keep its output as lines of text and as data.
package operation
