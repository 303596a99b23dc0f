// Package combine implements the step kind that merges the results of parallel branches.
package combine
