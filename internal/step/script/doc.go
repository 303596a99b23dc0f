// Package script implements the step kind "script", which runs a script that
// the workflow contains.
package script
