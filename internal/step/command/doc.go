// Package command runs steps that use a shell: "command" runs a command or a script and
// keeps its output, "hook" runs commands or logs lines before and after other steps.
package command

// A command is noted before it starts, so the notes show after a crash whether it may have run; if so, a person
// decides. The output and the exit status are the result, also if the command failed.
//
// Systems limit the length of one argument. A longer text goes into a file of the run's folder, which the shell
// reads.
