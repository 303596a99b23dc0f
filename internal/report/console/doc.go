// Package console shows the progress of a run: as one line for each event, as a status area redrawn in place, or as
// JSON.
package console

// Progress holds what there is to show; a Notice is one thing that happened, and both its forms, a line and JSON, are
// derived from it alone. What is drawn is a function of events, time and terminal size, so that tests need neither a
// clock nor a terminal. Sinks connect it to a writer.
