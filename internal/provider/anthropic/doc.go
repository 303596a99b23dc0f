// Package anthropic is the models of Anthropic, and of servers that speak as
// Anthropic's Messages API does.
package anthropic
