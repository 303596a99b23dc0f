// Package examples provides some of the example workflows to the program.
package examples
