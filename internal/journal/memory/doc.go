// Package memory implements a journal that ends with its process, for tests,
// simulations and benchmarks.
package memory

// It stores encoded events, so that facts cannot change afterwards, and
// everything that is read has been through the same encoding as in a durable
// store.
