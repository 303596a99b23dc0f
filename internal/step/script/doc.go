// Package script is the step kind that runs a script which stands in the
// workflow itself.
package script
