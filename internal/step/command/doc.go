// Package command implements the step kinds that use a shell: "command" runs a
// command or a script and keeps its output, "hook" runs commands or logs lines
// before and after other steps.
package command

// A command is noted before it starts, so after a crash its notes tell whether
// it can have acted; then a person decides. What it prints, and how it ended,
// is its result also when it failed.
//
// Systems limit how long one argument may be. A text that comes near to that
// is put into a file of the run's folder, and the shell reads that.
