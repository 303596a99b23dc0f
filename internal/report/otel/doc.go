// Package otel exports runs as OpenTelemetry traces and metrics, with OTLP over HTTP, as the standard OTEL_ variables
// configure.
package otel

// A Tracer turns the events of a stream into spans. A span is made when it ends, from the journal alone, and its ids
// are hashes of names in the journal: every process exports the same span. So the only state is how far a run has been
// delivered, which is a small file for each run, and a checkpoint of each long run, from which the next process reads
// on. The Exporter follows the runs that this process drives; what cannot be delivered stays in the journal, and is
// marked as undelivered, until a later process delivers it.
//
// Spans and metrics are the generated types of opentelemetry-proto. The OpenTelemetry SDK is not used: it creates spans
// as events happen, with random ids, and its exporters neither report which spans have arrived nor support http/json.
