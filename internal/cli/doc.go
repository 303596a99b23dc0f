// Package cli is the command line: one file for each command.
package cli

// Results go to stdout; notes, summaries and errors go to stderr. Commands ask
// questions only on a terminal. A command returns an error and never exits:
// exit.go alone turns errors into exit codes and advice.
