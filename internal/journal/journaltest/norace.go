//go:build !race

package journaltest

// many is how many runs a listing is tried with.
const many = 100_000
