// Package conversation runs steps of kind "conversation", which send a model the
// author's prompt without additions and can continue the conversation of an
// earlier step.
package conversation
