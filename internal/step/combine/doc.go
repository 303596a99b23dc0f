// Package combine runs steps of kind "combine", which merge the results of parallel branches.
package combine
