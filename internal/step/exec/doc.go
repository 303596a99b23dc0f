// Package exec implements what the steps that run commands share: the note
// before a command starts, its sandbox, environment and temporary files, and
// how it ended.
package exec
