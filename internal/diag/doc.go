// Package diag is what Espalier says about a file: diagnostics with a stable
// code, a tight span, what is wrong and what to do.
package diag

// Everything that reads or checks returns a result and a List; nothing stops
// at the first mistake. Rendering (a code frame, JSON, SARIF) happens at the
// very end and is the only place that needs the files' text.
