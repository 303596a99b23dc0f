// Package api defines the JSON forms of runs, workflows and gates. The command
// line and the server share them, so that one thing has one name and one form
// everywhere.
package api
