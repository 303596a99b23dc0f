//go:build race

package journaltest

// many is how many runs a listing is tried with: the race detector makes
// SQLite some thirty times slower.
const many = 3_000
