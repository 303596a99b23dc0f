// Package cli is the command line: one file for each command.
package cli

// Results go to stdout; notes, summaries and errors go to stderr. Nothing
// ever asks a question. A command returns an error and never exits: exit.go
// is the one place that turns errors into exit codes and says what to do
// next.
