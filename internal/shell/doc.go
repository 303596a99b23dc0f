// Package shell inserts values into shell commands as data.
//
// [Insert] parses a command with mvdan.cc/sh, replaces each value by the expansion of a variable, and prints the
// command again. The text of a value never becomes part of the command: the caller passes the variables in the
// environment. Only numbers in arithmetic are written out.
//
// A shell evaluates some text a second time: arithmetic, the names of variables, the arguments of eval. Other programs
// execute their arguments or their input as code. Insert follows values through the variables and pipes of a command
// and rejects a command that would execute one of them.
package shell
