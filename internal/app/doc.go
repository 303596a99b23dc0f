// Package app provides the operations of Espalier: analyze, prepare, start, resume, decide, watch and read records.
//
// Requests and responses are plain values. The package prints nothing, parses no flags and reads the variables that
// configure it only through Options, so that the command line, servers and tests share one implementation. Commands
// that runs start see the environment of the process.
//
// A run starts in App.Start, after App.Analyze and App.Prepare; it calls engine.Engine.Start, which returns when the
// start is durable in the journal. App.Resume and App.Send continue runs.
package app

// Concurrency: an App may be used by many goroutines. App.mu guards the map of environments; each environment opens
// its storage once, under its own mutex, and what is below (store, engine, record writers) is safe for concurrent use.
