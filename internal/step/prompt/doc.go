// Package prompt implements the step kind "prompt", which asks an agent with a prompt of the
// author's own: names in it are filled in, the reply is read as the agent's
// output format says, and tools that the reply asks for are called.
package prompt
