package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/espalier-run/espalier/internal/journal"
)

// call runs a statement of this Store, and gives its errors their meaning.
func (s *Store) call(ctx context.Context, do func() error) error {
	if s.closed.Load() {
		return journal.ErrClosed
	}
	limit := journal.WaitLimitOf(ctx)
	if err := limit.Err(); err != nil {
		return err
	}
	err := s.retry(ctx, do)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case s.closed.Load():
		return journal.ErrClosed
	}
	if refused, ok := errors.AsType[refusal](err); ok {
		return refused.error
	}
	err = explain(err)
	if errors.Is(err, journal.ErrUnavailable) {
		limit.Exceed(err)
	}
	return err
}

// refusal is an error of the journal, not of the server.
type refusal struct{ error }

// root is the row of a run that has a stream of its own.
type root struct {
	head
	definition string
	status     journal.Status
}

// findRoot reads the row of a root run.
func (s *Store) findRoot(ctx context.Context, id journal.RunID) (root, error) {
	var r root
	var hash []byte
	err := s.pool.QueryRow(ctx, s.q(`SELECT r.n,
		coalesce(a.last, r.seq), r.fence, r.owner, r.root, r.definition, r.status, a.hash`+
		entryTables+`WHERE r.id = $1`),
		encodeText(id)).Scan(&r.n, &r.seq, &r.fence, &r.owner, &r.root, &r.definition, &r.status, &hash)
	r.hash, r.hashed = journal.ParseChainHash(hash)
	decodeText(&r.owner)
	decodeText(&r.definition)
	return r, checkRoot(err, id, r.root)
}

// Claim implements journal.Ownership.
func (s *Store) Claim(ctx context.Context, id journal.RunID, me journal.Owner) (journal.Claim, error) {
	return s.claim(ctx, id, me, false)
}

// Renew implements journal.Ownership.
func (s *Store) Renew(ctx context.Context, id journal.RunID, me journal.Owner) (journal.Claim, error) {
	return s.claim(ctx, id, me, true)
}

// claim implements Claim and Renew. It seals a dead owner before it takes the run, so that the owner's group in flight
// is committed before, or refused. Owner and fence are compared and set in one statement; if they have changed, it
// starts again.
func (s *Store) claim(
	ctx context.Context, id journal.RunID, me journal.Owner, renew bool,
) (claim journal.Claim, err error) {
	err = s.call(ctx, func() error {
		for {
			r, err := s.findRoot(ctx, id)
			if err != nil {
				return err
			}
			var hash []byte
			if r.owner != me || renew {
				if r.owner != "" && r.owner != me {
					if dead, err := s.seal(ctx, r.owner); err != nil {
						return err
					} else if !dead {
						return refusal{&journal.OwnedError{Owner: r.owner}}
					}
				}
				err := s.inTransaction(ctx, func(tx pgx.Tx) error {
					if err := s.stayAlive(ctx, tx, me); err != nil {
						return err
					}
					// The sealed owner may have appended before it was sealed.
					return tx.QueryRow(ctx, s.q(`UPDATE @.runs r SET owner = $2, fence = fence + 1
						WHERE n = $1 AND owner = $3 AND fence = $4
						RETURNING fence,
							coalesce((SELECT last FROM @.appends WHERE run = r.n ORDER BY first DESC LIMIT 1), seq),
							(SELECT hash FROM @.appends WHERE run = r.n ORDER BY first DESC LIMIT 1)`),
						r.n, encodeText(me), encodeText(r.owner), r.fence).Scan(&r.fence, &r.seq, &hash)
				})
				if errors.Is(err, pgx.ErrNoRows) {
					continue // another process was faster
				}
				if err != nil {
					return err
				}
				r.owner = me
				r.hash, r.hashed = journal.ParseChainHash(hash)
			}
			s.claimed(id, r.head)
			claim = journal.Claim{Fence: r.fence, Seq: r.seq, Definition: r.definition}
			return nil
		}
	})
	return claim, s.fenced(me, err)
}

// inTransaction calls do in a transaction of several statements. Its locks keep other processes from declaring this one
// dead, so the server ends the transaction if this process sends no statement for the time of a lease: its machine may
// be gone.
func (s *Store) inTransaction(ctx context.Context, do func(pgx.Tx) error) error {
	begin := fmt.Sprintf("BEGIN; SET LOCAL idle_in_transaction_session_timeout = %d", s.lease.Milliseconds())
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{BeginQuery: begin}, do)
}

// stayAlive prevents other processes from declaring this one dead until the end of a transaction. If they have done so,
// it returns ErrFenced: the row of this process may be gone, and no other process would find a run that it claims.
func (s *Store) stayAlive(ctx context.Context, tx pgx.Tx, me journal.Owner) error {
	id, past := s.worker.names()
	if past[me] {
		return refusal{journal.ErrFenced}
	}
	if me != id {
		return nil // not a process
	}
	err := tx.QueryRow(ctx, s.q("SELECT id FROM @.workers WHERE id = $1 AND NOT sealed FOR SHARE"), id).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return refusal{journal.ErrFenced}
	}
	return err
}

// fenced gives this process a new name if it has an error because of the old one.
func (s *Store) fenced(me journal.Owner, err error) error {
	if errors.Is(err, journal.ErrFenced) {
		s.registerAgain(me)
	}
	return err
}

// claimed keeps the head of a run that this process owns now.
func (s *Store) claimed(id journal.RunID, h head) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.heads[id]; ok && known.fence == h.fence && known.seq > h.seq {
		return // an append was committed in the meantime
	}
	delete(s.heads, id)
	if current, _ := s.worker.names(); h.owner == current && h.hashed {
		s.heads[id] = h
	}
}

// claimPage is how many rows ClaimNext looks at in one transaction.
const claimPage = 64

// ClaimNext implements journal.Ownership.
func (s *Store) ClaimNext(
	ctx context.Context, me journal.Owner, n int, skip func(journal.RunID) bool,
) (claimed []journal.RunID, err error) {
	err = s.call(ctx, func() error {
		claimed = nil
		for after := int64(0); len(claimed) < n; {
			ids, last, err := s.claimSome(ctx, me, after, n-len(claimed), skip)
			if err != nil {
				return err
			}
			claimed = append(claimed, ids...)
			if last == 0 {
				return nil
			}
			after = last
		}
		return nil
	})
	return claimed, s.fenced(me, err)
}

// candidate is a run that ClaimNext may claim.
type candidate struct {
	n     int64
	id    journal.RunID
	owner journal.Owner
}

// claimSome is one transaction of ClaimNext. It returns the number of the last
// run that it looked at, or 0 if there are no more.
func (s *Store) claimSome(
	ctx context.Context, me journal.Owner, after int64, n int, skip func(journal.RunID) bool,
) (ids []journal.RunID, last int64, err error) {
	err = s.inTransaction(ctx, func(tx pgx.Tx) error {
		if err := s.stayAlive(ctx, tx, me); err != nil {
			return err
		}
		if s.worker.canDeclareDead() {
			// A process with a group in flight is alive, and so is this one.
			if _, err := tx.Exec(ctx, s.q(`WITH gone AS (
					SELECT id FROM @.workers WHERE NOT sealed AND id <> $1 AND until < clock_timestamp()
					FOR UPDATE SKIP LOCKED
				) UPDATE @.workers w SET sealed = true FROM gone WHERE w.id = gone.id`), encodeText(me)); err != nil {
				return err
			}
		}
		// Runs that another process is claiming at this moment are locked, and skipped. The next page starts after the
		// last run of this one, so they are ordered.
		rows, err := tx.Query(ctx, s.q(`SELECT n, id, owner FROM @.runs
			WHERE root = '' AND status = 'running' AND n > $2
				AND owner = ANY (ARRAY(SELECT id FROM @.workers WHERE sealed) || ARRAY['', $1])
			ORDER BY n LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED`), encodeText(me), after, claimPage)
		if err != nil {
			return err
		}
		var found []candidate
		var c candidate
		_, err = pgx.ForEachRow(rows, []any{&c.n, &c.id, &c.owner}, func() error {
			decodeText(&c.id)
			decodeText(&c.owner)
			found = append(found, c)
			return nil
		})
		if err != nil {
			return err
		}
		// Runs that this process owns already are returned without a change.
		var numbers []int64
		// A page that is full may not be the last one.
		for _, c := range found {
			if len(found) == claimPage {
				last = max(last, c.n)
			}
			if len(ids) < n && !skip(c.id) {
				ids = append(ids, c.id)
				if c.owner != me {
					numbers = append(numbers, c.n)
				}
			}
		}
		if len(numbers) == 0 {
			return nil
		}
		_, err = tx.Exec(ctx, s.q("UPDATE @.runs SET owner = $2, fence = fence + 1 WHERE n = ANY($1)"),
			numbers, encodeText(me))
		return err
	})
	return ids, last, err
}

// Enqueue implements journal.Ownership. The lock on the run's row makes the IDs
// of one inbox visible in their order.
func (s *Store) Enqueue(ctx context.Context, id journal.RunID, m journal.Message) (owner journal.Owner, err error) {
	token := rand.Text() // the insert may be repeated when its outcome is unknown
	err = s.call(ctx, func() error {
		var of journal.RunID
		var finished bool
		err := s.pool.QueryRow(ctx, s.q(`WITH r AS (
				SELECT n, owner, root, status = 'finished' AS finished FROM @.runs WHERE id = $1 FOR NO KEY UPDATE
			), i AS (
				INSERT INTO @.inbox (run, token, kind, data, at)
				SELECT n, $2, $3, $4, $5 FROM r WHERE root = '' AND NOT finished
				ON CONFLICT (token) DO NOTHING RETURNING 1
			) SELECT owner, root, finished AND NOT EXISTS (SELECT 1 FROM @.inbox WHERE token = $2) FROM r`),
			encodeText(id), token, encodeText(m.Kind), filled(m.Data), int64(m.At)).Scan(&owner, &of, &finished)
		decodeText(&owner)
		if err = checkRoot(err, id, of); err == nil && finished {
			err = refusal{fmt.Errorf("%w: %s", journal.ErrFinished, id)}
		}
		return err
	})
	return owner, err
}

// Remove implements journal.Admin.
func (s *Store) Remove(ctx context.Context, why journal.Removal, ids ...journal.RunID) error {
	for _, id := range ids {
		unknown := false // an earlier attempt may have been committed
		err := s.call(ctx, func() error {
			for {
				err := s.removeRun(ctx, why, id)
				if unknown && errors.Is(err, journal.ErrUnknownRun) {
					return nil
				}
				unknown = unknown || isRetryable(err) && !pgconn.SafeToRetry(err)
				if code(err) != codeForeignKey { // another run has begun to use a blob
					return err
				}
			}
		})
		if err != nil {
			return err
		}
	}
	if err := s.sweep(ctx); err != nil {
		s.log.Warn("objects of removed runs are not deleted yet", "error", err)
	}
	return nil
}

// intoGarbage marks the objects of blobs that are gone for sweep.
const intoGarbage = " INSERT INTO @.garbage (object, removed) SELECT object, true FROM gone WHERE object <> ''"

// removeRun removes a run, its children and what only they need, in one transaction.
func (s *Store) removeRun(ctx context.Context, why journal.Removal, id journal.RunID) error {
	return s.inTransaction(ctx, func(tx pgx.Tx) error {
		var n int64
		var of journal.RunID
		var name string
		var status journal.Status
		err := tx.QueryRow(ctx,
			s.q("SELECT n, root, status, name FROM @.runs WHERE id = $1 FOR UPDATE"), encodeText(id)).
			Scan(&n, &of, &status, &name)
		decodeText(&name)
		if err = checkRoot(err, id, of); err != nil {
			return err
		}
		if status != journal.Finished && !why.Damaged {
			return refusal{fmt.Errorf("%w: %s", journal.ErrUnfinished, id)}
		}
		// The update locks the row of the journal until the end of the
		// transaction, so that tombstones are added one after the other.
		if _, err := tx.Exec(ctx, s.q(`UPDATE @.journal
			SET mark = greatest(mark, (SELECT max(pos) FROM @.appends WHERE run = $1))`), n); err != nil {
			return err
		}
		if err := s.addTombstone(ctx, tx, n, id, name, why); err != nil {
			return err
		}
		// Uses and blobs are deleted in one statement, whose parts see the same rows: those from before it.
		batch := &pgx.Batch{}
		for _, text := range []string{
			"DELETE FROM @.appends WHERE run = $1",
			`WITH u AS (DELETE FROM @.uses WHERE run = $1 RETURNING blob), gone AS (
				DELETE FROM @.blobs b USING u WHERE b.n = u.blob
					AND NOT EXISTS (SELECT 1 FROM @.uses WHERE blob = b.n AND run <> $1) RETURNING object
				)` + intoGarbage,
			"DELETE FROM @.inbox WHERE run = $1",
			"DELETE FROM @.snapshots WHERE run = $1",
		} {
			batch.Queue(s.q(text), n)
		}
		batch.Queue(s.q("DELETE FROM @.runs WHERE root = $1 OR id = $1"), encodeText(id))
		// Blobs of refused appends. Those of appends that are being written have no use yet either.
		batch.Queue(s.q(`WITH gone AS (DELETE FROM @.blobs b WHERE added < now() - interval '1 hour'
			AND NOT EXISTS (SELECT 1 FROM @.uses WHERE blob = b.n) RETURNING object)` + intoGarbage))
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return err
		}
		s.mu.Lock()
		delete(s.heads, id)
		s.mu.Unlock()
		return nil
	})
}
