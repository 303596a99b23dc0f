// Package trigger decides when a schedule, an event or a changed file starts a
// run, and which id the run has. Package app starts the runs.
package trigger

// Every firing has an id derived from what causes it: the workflow, the trigger,
// and the scheduled time, the event or the version of the file. The id is the
// id of the run that it starts, and the store accepts an id once. Therefore two
// servers, a crash between deciding and starting, or a clock that jumps back
// give one run, without a second record of what has fired.
//
// A schedule keeps a small State in the store: up to which time it has been
// handled, and which firings are queued. Servers update it by compare-and-swap
// after they have started the runs that it asks for.
