// Package report provides what all readers of the journal share: following it, interpreting its facts, and
// writing records to files.
package report

// A reader (transcript, audit, console, …) renders events for people or
// machines. Its output is never the source of truth: it can be deleted and
// rebuilt. Follow feeds a Sink from the journal in a goroutine of its own, so
// that no reader slows a run down. Interpreter turns facts into Events, which
// have everything that readers show; it is the only place that interprets
// facts. History and Variables are what several events of a run say together.
// Writer keeps one file for each run, made of the lines of a Projector.
