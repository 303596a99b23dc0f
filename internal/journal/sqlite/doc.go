// Package sqlite is a journal in one SQLite file: durable, safe for several
// processes at once, and quick because appends that come together are
// committed together.
package sqlite

// How it is built:
//
//   - All writes of a process go through one goroutine (commit.go). What came
//     in while it was committing is its next group: one transaction, one fsync,
//     which is ours and not SQLite's (disk.go).
//   - An append is one row. Rows are in commit order, so that Tail is a range
//     scan; a row names the row of the run's previous append, so that a run is
//     read backwards along that chain. There is no index on them at all.
//   - Whether a batch follows the last event and has the right fence is known by
//     heart of the runs that this process appends to, as long as no other one has
//     written; else it is looked up.
//   - A run's index row is not written with each append: it may be behind the
//     newest ones (newest.go). Naming an indexed column rewrites its index even
//     when the value stays, so they are only named when they change.
//   - SQLite's busy handler lets a process that commits without pause starve
//     all others. So it is off, and who has to wait says so (want.go).
//   - Positions are never used again: the newest row of all is not deleted but
//     emptied.
