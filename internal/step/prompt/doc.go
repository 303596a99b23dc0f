// Package prompt implements the step kind "prompt", which sends an agent the author's own prompt: it replaces
// names in the prompt, parses the reply as the agent's output format, and calls tools that the reply requests.
package prompt
