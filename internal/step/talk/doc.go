// Package talk is the conversation of a step with a model: turns, tools, the
// form of the answer, and going on after a crash where it had stopped.
package talk

// Everything that happens is noted: prompts, replies, calls of tools and their
// results. Going on after a crash is the same code: wherever the conversation
// would ask somebody, it first looks whether the notes have the answer. So no
// reply is paid for twice and no tool that returned is called again.
//
// Notes wait until the next thing that has to be durable (a reservation, the
// intent to call a tool, the end of the task), so that a turn costs one write.
