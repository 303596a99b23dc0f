// Package conversation is the step kind that asks a model with the author's own
// words, as they are, and may go on with what an earlier step and its model
// said to each other.
package conversation
