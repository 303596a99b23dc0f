// Package otel exports runs as OpenTelemetry traces and metrics, with OTLP over HTTP, as the standard OTEL_ variables
// configure.
package otel

// A Tracer turns the events of a stream into spans. A span is made when it ends, from the journal alone, and its ids
// are hashes of names in the journal: every process exports the same span. So the only state is how far a run has been
// delivered, which is a small file for each run, and a checkpoint of each long run, from which the next process reads
// on. The Exporter follows the runs that this process drives; what cannot be delivered stays in the journal, and is
// recorded as owed, until a later process delivers it.
//
// The encodings are written by hand. The OpenTelemetry SDK creates spans as events happen, with random ids, does not
// report which of them have arrived, and does not support http/json. The tests decode with its generated types.
