// Package memorytest implements a journal in memory, for tests.
package memorytest

// It stores encoded events, so that facts cannot change afterwards, and everything that is read has been through the
// same encoding as in a durable store.
