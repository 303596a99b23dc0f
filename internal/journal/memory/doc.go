// Package memory is a journal that lives and dies with its process: the store
// of tests, simulations and measurements.
package memory

// It keeps events as their stored bytes, not as the values it was given, so
// that nobody can change a fact afterwards and everything read from it has
// been through the same encoding as with a durable store.
