// Package openai implements provider.Model for OpenAI's Chat Completions and
// Responses APIs and for compatible servers.
package openai
