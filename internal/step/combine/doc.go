// Package combine is the step kind that makes one result of the results of
// branches that ran side by side.
package combine
