// Package prompt runs steps of kind "prompt", which send an agent the author's own prompt: they replace names in
// the prompt, parse the reply as the agent's output format, and call tools that the reply requests.
package prompt
