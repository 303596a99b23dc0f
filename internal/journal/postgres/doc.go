// Package postgres implements a journal in PostgreSQL, for processes on several
// machines.
package postgres

// Design notes:
//
//   - One goroutine of a process commits (commit.go). Appends that arrive while
//     it commits one group are its next group: one pipelined transaction, which
//     is one round trip and one sync. A batch is checked against what this
//     process knows about the run; only if the server finds that to be wrong is
//     everything looked up (group.go). A refusal is the result of a check, not
//     an error of the server, so it does not concern the rest of its group.
//   - A process owns runs through its row in workers. The row has a lease in the
//     database's time. A process whose lease has ended is sealed before one of
//     its runs is claimed. Each group locks the row of its process, so sealing
//     waits for the group in flight, and every later group is refused with
//     ErrFenced. The process then continues under a new name (worker.go).
//   - The position of an append is derived from its transaction id. Tail stops at
//     the oldest transaction that is still running, so a transaction that commits
//     late is never skipped.
//   - When a connection is lost during a commit, the outcome is unknown. The group
//     has a random token that is stored with its appends, and (run, first event)
//     is unique: the committer looks for its token and otherwise repeats the group,
//     which waits for the lost transaction if it is still running.
//   - No statement depends on the state of a session, except LISTEN. Behind a
//     pooler there are no named statements, and without notifications processes
//     poll.
