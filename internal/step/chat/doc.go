// Package chat implements the conversation of a step with a model: turns, tool
// calls, the contract of the reply, and resuming after a crash.
package chat

// Prompts, replies, tool calls and their results are noted. Resuming after a
// crash runs the same code: before it asks a model or calls a tool, the
// conversation looks for the answer in the notes. So no reply is paid for twice,
// and no tool that returned is called again.
//
// Notes are pending until the next durable write (a reservation, the intent to
// call a tool, the end of the task), so that a turn costs one write.
