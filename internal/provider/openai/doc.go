// Package openai is the models of OpenAI, and of the many servers that speak
// as OpenAI's Chat Completions or Responses do.
package openai
