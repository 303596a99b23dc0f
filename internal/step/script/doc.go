// Package script runs steps of kind "script", which run a script that the workflow
// contains.
package script
