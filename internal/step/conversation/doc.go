// Package conversation implements the step kind "conversation", which sends a
// model the author's prompt without additions and can continue the conversation
// of an earlier step.
package conversation
