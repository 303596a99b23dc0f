// Package report is what all readers of the journal share: how they follow
// it, where in a workflow an event belongs, and how records become files.
package report

// A reader (transcript, audit, console, …) turns events into something for
// people or machines and is never the truth: what it wrote can be deleted and
// made again. Follow feeds a Sink behind the journal, in a goroutine of its
// own, so that no reader slows a run. Trail gives events the names that people
// know: the run, the dotted path of the step, its kind and its iteration.
// Writer keeps one file for each run, made of the lines of a Projector.
