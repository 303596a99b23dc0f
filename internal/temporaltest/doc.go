// Package temporaltest starts Temporal development servers for tests.
package temporaltest
