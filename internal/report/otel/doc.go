// Package otel exports runs as OpenTelemetry traces and metrics, over OTLP and
// HTTP, where the standard OTEL_ variables say.
package otel

// A Tracer folds the events of a stream into spans. A span is made when it
// ends, from the journal alone, and its ids are hashes of the journal's own
// names: whichever process exports it, it is the same span. So nothing has to
// be remembered but how far a run has been delivered, which is a small file for
// each run. The Exporter is a report.Sink for the runs that this process
// drives; what cannot be delivered stays in the journal, and in debt, until a
// later process delivers it.
//
// The encodings are written by hand. The OpenTelemetry SDK makes spans while
// things happen, with ids of its own, and does not tell which of them have
// arrived; nor does it speak http/json. Its wire types are the oracle of the
// tests.
