// Package journaltest is what every journal.Store promises, as tests.
package journaltest

// A store joins by one test that calls Run. What the suite builds (New,
// Steps, …) is exported for the stores' own tests and for the engine's.
