// Package exec implements what the step kinds that run commands share: the note
// before a command starts, its sandbox, environment and temporary files, and
// how it ended.
package exec
