// Package sqlite implements a journal in one SQLite file: durable, safe for
// several processes at once, and fast because appends that arrive together are
// committed together.
package sqlite

// Design notes:
//
//   - One goroutine of a process writes (commit.go). What was queued while it
//     committed one group is its next group: one transaction and one sync.
//     Callbacks run after the sync.
//   - An append is one row. Rows are in commit order, so that Tail is a range
//     scan; a row names the row of the run's previous append, so that a run is
//     read backwards along that chain. There is no index on them.
//   - Whether a batch follows the run's last event and has the right fence is
//     cached for runs that this process appends to, until another process
//     writes to the file; otherwise it is looked up.
//   - A run's index row is not written with each append: it may lag behind the
//     newest ones (newest.go). SQLite rewrites an index when its column appears
//     in an UPDATE, even unchanged, so indexed columns are named only when they
//     change.
//   - SQLite's busy handler lets a process that commits without pause starve
//     all others. It is off; a process that has to wait takes a file lock that
//     the committer of another process yields to (writeturn.go).
//   - Positions are never used again: deleting a run empties the newest row of
//     all instead of removing it.
