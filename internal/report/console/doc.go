// Package console is the progress of a run on a screen: as one line for each
// thing that happens, as a status area redrawn in place, or as JSON.
package console

// Progress folds events into what there is to show; Notice is one thing that
// happened, and both its forms, a line and JSON, come from it alone. Nothing
// here knows the time or the terminal: what to draw is a function of events,
// time and size, so tests need neither. Sinks tie it to a writer.
