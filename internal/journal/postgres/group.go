package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/espalier-run/espalier/internal/journal"
)

// head is what a batch is checked against.
type head struct {
	n     int64 // 0 if the run begins in the same group
	seq   journal.Seq
	fence int64
	owner journal.Owner
	hash  journal.ChainHash // of the append that ends with seq
	// hashed says that hash is known: it is not if an earlier release has
	// written that append.
	hashed bool
	root   journal.RunID // of a child run
	start  *startRow     // of a run that begins in the same group
	row    *updateRow    // the change of the run's row by the same group
}

// group is the transaction of several batches. It lives for one attempt: newGroup checks the batches and collects rows,
// write sends them, and remember keeps what is known afterwards. Only the committer uses it.
type group struct {
	s         *Store
	jobs      []job
	refused   []error
	token     int64                  // of all attempts at this group; stored with its appends
	worker    journal.Owner          // the name of this process for this attempt
	past      map[journal.Owner]bool // earlier names, under which it was sealed
	committed bool                   // by an earlier attempt

	// What is known. A run that is looked up and does not exist has a nil head.
	lookedUp bool
	heads    map[journal.RunID]*head
	inbox    map[journal.InboxID]int64 // the runs of messages
	blobs    map[string]bool           // blobs in use

	starts    []*startRow
	appends   []appendRow
	updates   []*updateRow
	taken     []takenRow
	children  map[journal.RunID]int
	childRows []journal.Entry
	uses      []useRow
	snapshots map[journal.RunID]snapshotRow
	notify    bool  // a run that can be claimed is released
	base      int64 // the position before the group's first append, once it is committed
}

// startRow is a run that begins. Later batches of the group change row, so that it is inserted in its last form.
type startRow struct {
	id      journal.RunID
	started journal.RunStarted
	at      journal.Millis
	row     updateRow
}

// appendRow is an append. Its run has no number yet if it begins in the same group.
type appendRow struct {
	id   journal.RunID
	h    *head
	job  *job
	at   journal.Millis
	last journal.Seq
	hash journal.ChainHash
}

// updateRow is the new content of a run's row.
type updateRow struct {
	n, fence int64
	seq      journal.Seq
	at       journal.Millis
	index    *journal.Index
	owner    journal.Owner // of a run that begins
	release  bool
}

// takenRow is a message that a batch answers.
type takenRow struct {
	id journal.InboxID
	h  *head
}

// useRow says that a run uses a blob.
type useRow struct {
	id   journal.RunID
	h    *head
	hash string
}

// snapshotRow is the last snapshot that the group has of a run.
type snapshotRow struct {
	h     *head
	seq   journal.Seq
	state []byte
}

// newGroup checks batches. Unless lookUp is set, it relies on what this process
// knows and assumes that everything else is as expected: write fails as stale
// if it is not. If unknown is set, it first finds out whether an earlier attempt
// was committed.
func (s *Store) newGroup(
	ctx context.Context, jobs []job, refused []error, token int64, lookUp, unknown bool,
) (*group, error) {
	g := &group{
		s: s, jobs: jobs, refused: refused, token: token, lookedUp: lookUp,
		heads: map[journal.RunID]*head{}, inbox: map[journal.InboxID]int64{}, blobs: map[string]bool{},
		children: map[journal.RunID]int{}, snapshots: map[journal.RunID]snapshotRow{},
	}
	g.worker, g.past = s.worker.names()
	if unknown {
		if err := g.findCommitted(ctx); err != nil || g.committed {
			return g, err
		}
	}
	before := slices.Clone(refused)
	if err := g.lookUp(ctx); err != nil {
		return g, err
	}
	// Check the batches one after the other: each sees the changes of those before it.
	for i := range jobs {
		if jobs[i].err == nil {
			refused[i] = g.add(&jobs[i])
		}
	}
	if unknown && !slices.EqualFunc(before, refused, func(a, b error) bool { return (a == nil) == (b == nil) }) {
		// The earlier attempt may have been committed in the meantime: its own
		// appends are in the way of this attempt.
		after := slices.Clone(refused)
		copy(refused, before)
		if err := g.findCommitted(ctx); err != nil || g.committed {
			return g, err
		}
		copy(refused, after)
	}
	return g, g.storeBlobs(ctx)
}

// findCommitted reports in g.committed whether an earlier attempt has been
// committed: its first append has the token, or its first release has happened.
// The refusals of that attempt hold then.
func (g *group) findCommitted(ctx context.Context) error {
	conn, err := g.s.connected(ctx)
	if err != nil {
		return err
	}
	index := int64(0)
	for i := range g.jobs {
		b := &g.jobs[i].batch
		if g.jobs[i].err != nil || g.refused[i] != nil {
			continue
		}
		if len(b.Events) > 0 {
			index++
			var pos int64
			err := conn.QueryRow(ctx, g.s.q(`SELECT a.pos FROM @.appends a JOIN @.runs r ON r.n = a.run
				WHERE r.id = $1 AND a.first = $2 AND a.token = $3`),
				encodeText(b.Run), int64(b.After)+1, g.token).Scan(&pos)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			g.committed = err == nil
			g.base = pos - index
			return err
		}
	}
	for i := range g.jobs {
		b := &g.jobs[i].batch
		if g.jobs[i].err != nil || g.refused[i] != nil || !b.Release {
			continue
		}
		// Nothing but the release of its owner changes the fence of a run
		// whose owner is not sealed.
		return conn.QueryRow(ctx, g.s.q("SELECT coalesce((SELECT fence > $2 FROM @.runs WHERE id = $1), false)"),
			encodeText(b.Run), b.Fence).Scan(&g.committed)
	}
	return nil
}

// lookUp reads what the batches are checked against.
func (g *group) lookUp(ctx context.Context) error {
	runs, inbox, blobs := map[string]bool{}, map[int64]bool{}, map[string]bool{}
	begun := map[journal.RunID]bool{}
	g.s.mu.Lock()
	// Collect what has to be read: without lookedUp only the heads of runs that are not cached, otherwise everything.
	for i := range g.jobs {
		b := &g.jobs[i].batch
		if g.jobs[i].err != nil {
			continue
		}
		started, first := b.Started()
		if known, ok := g.s.heads[b.Run]; ok && !g.lookedUp {
			g.heads[b.Run] = &known
		} else if g.lookedUp || !first && !begun[b.Run] {
			runs[encodeText(b.Run)] = true
		}
		begun[b.Run] = begun[b.Run] || first
		if !g.lookedUp {
			continue
		}
		for _, c := range b.Children {
			runs[encodeText(c.ID)] = true
		}
		for _, id := range b.Taken {
			inbox[int64(id)] = true
		}
		if first && started.Definition != "" {
			blobs[encodeText(started.Definition)] = true
		}
	}
	g.s.mu.Unlock()
	if len(runs)+len(inbox)+len(blobs) == 0 {
		return nil
	}
	conn, err := g.s.connected(ctx)
	if err != nil {
		return err
	}
	// One round trip for all.
	batch := &pgx.Batch{}
	batch.Queue(g.s.q(`SELECT r.id, r.n, coalesce(a.last, r.seq), r.fence, r.owner, r.root, a.hash FROM @.runs r
		LEFT JOIN LATERAL (SELECT last, hash FROM @.appends WHERE run = r.n ORDER BY first DESC LIMIT 1) a
			ON r.root = ''
		WHERE r.id = ANY($1)`), slices.Collect(maps.Keys(runs))).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var id journal.RunID
			var h head
			var hash []byte
			if err := rows.Scan(&id, &h.n, &h.seq, &h.fence, &h.owner, &h.root, &hash); err != nil {
				return err
			}
			h.hash, h.hashed = journal.ParseChainHash(hash)
			delete(runs, string(id))
			decodeText(&id)
			decodeText(&h.owner)
			decodeText(&h.root)
			g.heads[id] = &h
		}
		return rows.Err()
	})
	if len(inbox) > 0 {
		batch.Queue(g.s.q("SELECT id, run FROM @.inbox WHERE id = ANY($1) AND NOT taken"),
			slices.Collect(maps.Keys(inbox))).
			Query(func(rows pgx.Rows) error {
				var id journal.InboxID
				var run int64
				_, err := pgx.ForEachRow(rows, []any{&id, &run}, func() error { g.inbox[id] = run; return nil })
				return err
			})
	}
	if len(blobs) > 0 {
		batch.Queue(g.s.q(`SELECT hash FROM @.blobs b WHERE hash = ANY($1)
			AND EXISTS (SELECT 1 FROM @.uses WHERE blob = b.n)`),
			slices.Collect(maps.Keys(blobs))).Query(func(rows pgx.Rows) error {
			var hash string
			_, err := pgx.ForEachRow(rows, []any{&hash}, func() error { g.blobs[hash] = true; return nil })
			return err
		})
	}
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	if err := g.computeHashes(ctx, conn); err != nil {
		return err
	}
	// What was not found does not exist.
	for id := range runs {
		missing := journal.RunID(id)
		decodeText(&missing)
		g.heads[missing] = nil
	}
	return nil
}

// add adds a batch to the group, or returns why it is refused.
func (g *group) add(j *job) error {
	b := &j.batch
	h := g.heads[b.Run]
	started, first := b.Started()
	if first {
		if h != nil {
			return fmt.Errorf("%w: %s", journal.ErrExists, b.Run)
		}
		if g.past[b.Owner] {
			return journal.ErrFenced
		}
		h = &head{fence: journal.FirstFence, owner: b.Owner, hash: journal.ChainStart(b.Run), hashed: true}
	}
	if err := g.check(b, h, first, &started); err != nil {
		return err
	}

	// From here on nothing is refused.
	g.heads[b.Run] = h
	if first {
		h.start = &startRow{id: b.Run, started: started, at: b.Events[0].At, row: updateRow{
			fence: journal.FirstFence, owner: b.Owner, index: &journal.Index{Status: journal.Running},
		}}
		g.starts = append(g.starts, h.start)
		h.row = &h.start.row
	}
	// From here on, h is the position after this batch, which the next batch of the run in this group is checked
	// against.
	h.seq = b.LastSeq()
	if len(b.Events) > 0 {
		h.hash = h.hash.Next(j.body)
		g.appends = append(g.appends, appendRow{id: b.Run, h: h, job: j, at: b.At(), last: h.seq, hash: h.hash})
	}
	// Several changes of a run's row by one group become one update with the last values.
	if b.Index != nil || b.Release || first {
		if h.row == nil {
			h.row = &updateRow{n: h.n, fence: h.fence}
			g.updates = append(g.updates, h.row)
		}
		h.row.seq, h.row.at = h.seq, max(h.row.at, b.At())
		if b.Index != nil {
			h.row.index = b.Index
		}
		if b.Release {
			h.row.release, h.owner = true, ""
			h.fence++
			g.notify = g.notify || b.Index == nil || b.Index.Status == journal.Running
		}
	}
	for _, id := range b.Taken {
		g.taken = append(g.taken, takenRow{id, h})
		delete(g.inbox, id)
	}
	// The last row of a child replaces earlier ones of the group.
	for _, c := range b.Children {
		if at, ok := g.children[c.ID]; ok {
			g.childRows[at] = c
			continue
		}
		g.children[c.ID] = len(g.childRows)
		g.childRows = append(g.childRows, c)
		g.heads[c.ID] = &head{root: c.Root}
	}
	if first && started.Definition != "" {
		g.uses = append(g.uses, useRow{b.Run, h, started.Definition})
	}
	for _, x := range b.Blobs {
		g.uses = append(g.uses, useRow{b.Run, h, x.Hash})
	}
	if b.Snapshot != nil {
		g.snapshots[b.Run] = snapshotRow{h, h.seq, b.Snapshot}
	}
	return nil
}

// check returns why a batch is refused, or nil. It changes nothing.
func (g *group) check(b *journal.Batch, h *head, first bool, started *journal.RunStarted) error {
	switch {
	case h == nil:
		return fmt.Errorf("%w: %s", journal.ErrUnknownRun, b.Run)
	case h.root != "":
		return &journal.ChildError{Root: h.root}
	case h.seq != b.After || h.fence != b.Fence:
		return journal.ErrConflict
	case g.past[h.owner]:
		return journal.ErrFenced
	}
	// A child must not take the id of another root's run.
	for _, c := range b.Children {
		if known := g.heads[c.ID]; known != nil && known.root != b.Run {
			return fmt.Errorf("%w: %s", journal.ErrExists, c.ID)
		}
	}
	// Messages and blobs are unknown at the first attempt. The server compares their numbers, and the group becomes
	// stale if they differ.
	if !g.lookedUp {
		return nil
	}
	for i, id := range b.Taken {
		if run, ok := g.inbox[id]; !ok || run != h.n || slices.Contains(b.Taken[:i], id) {
			return journal.ErrConflict
		}
	}
	if d := started.Definition; first && d != "" && !g.blobs[encodeText(d)] && !hasBlob(b, d) && !g.hasUse(d) {
		return fmt.Errorf("%w: %s", journal.ErrUnknownBlob, d)
	}
	return nil
}

// hasBlob reports whether a batch contains a blob.
func hasBlob(b *journal.Batch, hash string) bool {
	return slices.ContainsFunc(b.Blobs, func(x journal.Blob) bool { return x.Hash == hash })
}

// hasUse reports whether an earlier batch of the group uses a blob.
func (g *group) hasUse(hash string) bool {
	return slices.ContainsFunc(g.uses, func(u useRow) bool { return u.hash == hash })
}

// maxStored bounds the memory for the hashes of stored blobs.
const maxStored = 4096

// storeBlobs stores the blobs of the group in a transaction of their own, in
// the order of their hashes: a large blob must not hold up other processes, and
// two processes that store the same blobs must not wait for each other.
func (g *group) storeBlobs(ctx context.Context) error {
	missing, uploaded := map[string][]byte{}, map[string]string{}
	g.s.mu.Lock()
	for i := range g.jobs {
		if g.jobs[i].err != nil || g.refused[i] != nil {
			continue
		}
		for _, b := range g.jobs[i].batch.Blobs {
			if g.lookedUp || !g.s.stored[b.Hash] {
				missing[encodeText(b.Hash)] = b.Data
				if name := g.jobs[i].uploaded[b.Hash]; name != "" {
					uploaded[encodeText(b.Hash)] = name
				}
			}
		}
	}
	g.s.mu.Unlock()
	if len(missing) == 0 {
		return nil
	}
	conn, err := g.s.connected(ctx)
	if err != nil {
		return err
	}
	hashes := slices.Sorted(maps.Keys(missing))
	var have []string
	// Blobs that exist become young again, so that Remove does not take them for those of refused batches before this
	// group uses them.
	rows, err := conn.Query(ctx, g.s.q("UPDATE @.blobs SET added = now() WHERE hash = ANY($1) RETURNING hash"), hashes)
	if err == nil {
		have, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		return err
	}
	// ON CONFLICT DO NOTHING: another process may store the same blob meanwhile.
	batch := &pgx.Batch{}
	for _, hash := range hashes {
		if slices.Contains(have, hash) {
			continue
		}
		if name := uploaded[hash]; name != "" {
			g.s.queueObject(batch, hash, name)
		} else {
			batch.Queue(g.s.q("INSERT INTO @.blobs (hash, data) VALUES ($1, $2) ON CONFLICT (hash) DO NOTHING"), hash,
				filled(missing[hash]))
		}
	}
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	if len(g.s.stored) > maxStored {
		clear(g.s.stored)
	}
	for _, hash := range hashes {
		g.s.stored[hash] = true
	}
	return nil
}

// runNumber is the number of a run that may begin in the same transaction: its number is not known when the statements
// are sent, so the server looks it up.
const runNumber = "coalesce(nullif(u.n, 0), (SELECT r.n FROM @.runs r WHERE r.id = u.id))"

// stillOwner locks the row of this process, in each transaction that appends. Sealing takes a stronger lock, so it
// waits for the end of the transaction. If the process is sealed, there is no row, and nothing is appended.
const stillOwner = "@.workers WHERE id = $1 AND NOT sealed FOR KEY SHARE"

// basePos is the position before the first append of a transaction. The low ten bits number the appends of the
// transaction, which has room for 1,023. A later transaction id gives later positions; the era keeps them growing when
// ids start again.
const basePos = "(SELECT era + (pg_current_xact_id()::text::bigint << 10) FROM @.journal)"

// write commits the group in one round trip. The statements are sent together and share a transaction without BEGIN:
// the server ends it at the first error. Each statement that relies on what was looked up compares the number of its
// rows with the expected one (@.expect), and fails as fenced or stale otherwise.
func (g *group) write(ctx context.Context) error {
	others := len(g.updates) + len(g.taken) + len(g.childRows) + len(g.uses) + len(g.snapshots)
	if len(g.appends)+others == 0 {
		return nil
	}
	conn, err := g.s.connected(ctx)
	if err != nil {
		return err
	}
	if len(g.appends) == 1 && len(g.starts)+others == 0 {
		return g.writeOne(ctx, conn)
	}
	batch := &pgx.Batch{}
	queue := func(text string, args ...any) *pgx.QueuedQuery { return batch.Queue(g.s.q(text), args...) }
	g.queueStarts(queue)
	g.queueAppends(queue)
	g.queueUpdates(queue)
	g.queueTaken(queue)
	g.queueChildren(queue)
	g.queueUses(queue)
	g.queueSnapshots(queue)
	if g.notify {
		queue("SELECT pg_notify($1, '')", g.s.channel())
	}
	return conn.SendBatch(ctx, batch).Close()
}

// writeOne commits a group that is one append and nothing else: most groups of a process that drives few runs. It is
// one statement without arrays, which costs the server a third of the general form.
func (g *group) writeOne(ctx context.Context, conn *pgx.Conn) error {
	a := &g.appends[0]
	var pos int64
	err := conn.QueryRow(ctx, g.s.q(`INSERT INTO @.appends (run, first, last, at, pos, token, body, hash)
		SELECT $2, $3, $4, $5, `+basePos+` + 1, $6, $7, $8 FROM `+stillOwner+` RETURNING pos`),
		g.worker, a.h.n, int64(a.job.batch.After)+1, int64(a.last), int64(a.at), g.token,
		a.job.body, a.hash[:]).Scan(&pos)
	if errors.Is(err, pgx.ErrNoRows) {
		return &pgconn.PgError{Code: codeFenced}
	}
	g.base = pos - 1
	return err
}

// queueFunc adds a statement to the pipeline. Starts come first, because the others look up the numbers of new runs.
type queueFunc func(text string, args ...any) *pgx.QueuedQuery

// queueStarts adds the rows of new runs, in the order of the batches, and learns their numbers.
func (g *group) queueStarts(queue queueFunc) {
	if len(g.starts) == 0 {
		return
	}
	n := len(g.starts)
	var ids, names, formats, definitions, owners, statuses, outcomes, waiting []string
	var started, updated, seqs, fences, wakes []int64
	byID := make(map[string]*startRow, n)
	for _, x := range g.starts {
		id, owner, fence := encodeText(x.id), encodeText(x.row.owner), x.row.fence
		if x.row.release {
			owner, fence = "", fence+1
		}
		byID[id] = x
		ids, names = append(ids, id), append(names, encodeText(x.started.Name))
		formats = append(formats, encodeText(x.started.Format))
		definitions, owners = append(definitions, encodeText(x.started.Definition)), append(owners, owner)
		statuses = append(statuses, encodeText(x.row.index.Status))
		outcomes = append(outcomes, encodeText(x.row.index.Outcome))
		waiting = append(waiting, encodeText(x.row.index.Waiting.String()))
		wakes = append(wakes, int64(x.row.index.Wake))
		started, updated = append(started, int64(x.at)), append(updated, int64(x.row.at))
		seqs, fences = append(seqs, int64(x.row.seq)), append(fences, fence)
	}
	// The numbers are identities in the order of insertion. A run that exists makes the count differ, so the group is
	// stale.
	var newIDs []string
	var numbers []int64
	queue(`WITH new AS (
		INSERT INTO @.runs (id, root, parent, name, format, definition, started, updated, seq, fence,
			owner, status, outcome, wake, waiting)
		SELECT u.id, '', '', u.name, u.format, u.definition, u.started, u.updated, u.seq, u.fence,
			u.owner, u.status, u.outcome, u.wake, u.waiting
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[],
			$8::bigint[], $9::text[],
			$10::text[], $11::text[], $12::bigint[], $13::text[]) WITH ORDINALITY
			u (id, name, format, definition, started, updated, seq, fence, owner, status, outcome, wake, waiting, nth)
		ORDER BY u.nth ON CONFLICT (id) DO NOTHING RETURNING id, n
	) SELECT @.expect((SELECT count(*) FROM new), $14, '`+codeStale+`')::text,
		(SELECT array_agg(id ORDER BY n) FROM new), (SELECT array_agg(n ORDER BY n) FROM new)`,
		ids, names, formats, definitions, started, updated, seqs, fences, owners, statuses, outcomes, wakes, waiting, n,
	).QueryRow(func(row pgx.Row) error {
		var void *string
		if err := row.Scan(&void, &newIDs, &numbers); err != nil {
			return err
		}
		for i, id := range newIDs {
			byID[id].row.n = numbers[i]
		}
		return nil
	})
}

// queueAppends adds the appends, and makes sure that this process is not sealed.
func (g *group) queueAppends(queue queueFunc) {
	if len(g.appends) == 0 {
		queue(`SELECT @.expect((SELECT count(*) FROM (SELECT 1 FROM `+stillOwner+`) w), 1, '`+codeFenced+`')`, g.worker)
		return
	}
	var ids []string
	var numbers, firsts, lasts, ats []int64
	var bodies, hashes [][]byte
	for i := range g.appends {
		a := &g.appends[i]
		ids, numbers = append(ids, encodeText(a.id)), append(numbers, a.h.n)
		firsts, lasts = append(firsts, int64(a.job.batch.After)+1), append(lasts, int64(a.last))
		ats, bodies = append(ats, int64(a.at)), append(bodies, a.job.body)
		hashes = append(hashes, a.hash[:])
	}
	// Looking up numbers costs a subquery per row, which only groups with new runs need.
	number := "u.n"
	if len(g.starts) > 0 {
		number = runNumber
	}
	queue(`WITH new AS (
		INSERT INTO @.appends (run, first, last, at, pos, token, body, hash)
		SELECT `+number+`, u.first, u.last, u.at, `+basePos+` + u.nth, $9, u.body, u.hash
		FROM (SELECT 1 FROM `+stillOwner+`) w,
			unnest($2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
			$7::bytea[], $8::bytea[]) WITH ORDINALITY u (id, n, first, last, at, body, hash, nth)
		RETURNING pos
	) SELECT @.expect(count(*), $10, '`+codeFenced+`')::text, min(pos) - 1 FROM new`,
		g.worker, ids, numbers, firsts, lasts, ats, bodies, hashes, g.token, len(g.appends),
	).QueryRow(func(row pgx.Row) error {
		var void *string
		return row.Scan(&void, &g.base)
	})
}

// queueUpdates changes the rows of runs whose fence is still the expected one.
func (g *group) queueUpdates(queue queueFunc) {
	if len(g.updates) == 0 {
		return
	}
	var numbers, fences, seqs, ats, wakes []int64
	var statuses, outcomes, waiting []*string
	var releases []bool
	for _, u := range g.updates {
		numbers, fences = append(numbers, u.n), append(fences, u.fence)
		seqs, ats = append(seqs, int64(u.seq)), append(ats, int64(u.at))
		releases = append(releases, u.release)
		var status, outcome, waits *string
		wake := int64(0)
		if x := u.index; x != nil {
			status, outcome = new(encodeText(x.Status)), new(encodeText(x.Outcome))
			waits, wake = new(encodeText(x.Waiting.String())), int64(x.Wake)
		}
		statuses, outcomes, waiting = append(statuses, status), append(outcomes, outcome), append(waiting, waits)
		wakes = append(wakes, wake)
	}
	queue(`WITH u AS (
		UPDATE @.runs r SET seq = u.seq, updated = greatest(r.updated, u.at),
			status = coalesce(u.status, r.status), outcome = coalesce(u.outcome, r.outcome),
			wake = CASE WHEN u.status IS NULL THEN r.wake ELSE u.wake END, waiting = coalesce(u.waiting, r.waiting),
			owner = CASE WHEN u.release THEN '' ELSE r.owner END, fence = r.fence + u.release::int
		FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[],
			$7::bigint[], $8::text[], $9::boolean[])
			u (n, fence, seq, at, status, outcome, wake, waiting, release)
		WHERE r.n = u.n AND r.fence = u.fence RETURNING 1
	) SELECT @.expect((SELECT count(*) FROM u), $10, '`+codeStale+`')`,
		numbers, fences, seqs, ats, statuses, outcomes, wakes, waiting, releases, len(g.updates))
}

// queueTaken marks messages as taken. They are kept for a while, so that a repeated Enqueue finds its token.
func (g *group) queueTaken(queue queueFunc) {
	if len(g.taken) == 0 {
		return
	}
	var ids, runs []int64
	for _, t := range g.taken {
		ids, runs = append(ids, int64(t.id)), append(runs, t.h.n)
	}
	queue(`WITH u AS (
		UPDATE @.inbox i SET taken = true FROM unnest($1::bigint[], $2::bigint[]) u (id, run)
		WHERE i.id = u.id AND i.run = u.run AND NOT i.taken RETURNING 1
	) SELECT @.expect((SELECT count(*) FROM u), $3, '`+codeStale+`')`, ids, runs, len(g.taken))
}

// queueChildren adds or replaces the rows of child runs, except those of another root.
func (g *group) queueChildren(queue queueFunc) {
	for _, e := range g.childRows {
		queue(`WITH u AS (
			INSERT INTO @.runs AS r (id, root, parent, name, format, definition, started, updated, seq, fence,
			owner, status, outcome, wake, waiting)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0, '', $10, $11, $12, $13)
			ON CONFLICT (id) DO UPDATE SET parent = excluded.parent, name = excluded.name, format = excluded.format,
				definition = excluded.definition, started = excluded.started, updated = excluded.updated,
				seq = excluded.seq, status = excluded.status, outcome = excluded.outcome, wake = excluded.wake,
				waiting = excluded.waiting
			WHERE r.root = excluded.root RETURNING 1
		) SELECT @.expect((SELECT count(*) FROM u), 1, '`+codeStale+`')`,
			rowOf(&e)...)
	}
}

// rowOf returns the columns of the row of a run that its events determine.
func rowOf(e *journal.Entry) []any {
	return []any{
		encodeText(e.ID), encodeText(e.Root), encodeText(e.Parent), encodeText(e.Name), encodeText(e.Format),
		encodeText(e.Definition), int64(e.Started), int64(e.Updated), int64(e.Seq), encodeText(e.Status),
		encodeText(e.Outcome), int64(e.Wake), encodeText(e.Waiting.String()),
	}
}

// queueUses notes which runs use which blobs. A blob that is missing, because another process removed it since
// storeBlobs, makes the group stale; the next attempt stores it again.
func (g *group) queueUses(queue queueFunc) {
	if len(g.uses) == 0 {
		return
	}
	var ids, hashes []string
	var numbers []int64
	distinct := map[string]bool{}
	for _, u := range g.uses {
		ids, numbers, hashes = append(ids, encodeText(u.id)), append(numbers, u.h.n), append(hashes, encodeText(u.hash))
		distinct[encodeText(u.hash)] = true
	}
	queue(`SELECT @.expect((SELECT count(*) FROM @.blobs WHERE hash = ANY($1)), $2, '`+codeStale+`')`,
		slices.Sorted(maps.Keys(distinct)), len(distinct))
	queue(`INSERT INTO @.uses (run, blob) SELECT `+runNumber+`, b.n
		FROM unnest($1::text[], $2::bigint[], $3::text[]) u (id, n, hash) JOIN @.blobs b ON b.hash = u.hash
		ON CONFLICT DO NOTHING`, ids, numbers, hashes)
}

// queueSnapshots replaces snapshots, in the order of their runs.
func (g *group) queueSnapshots(queue queueFunc) {
	for _, id := range slices.Sorted(maps.Keys(g.snapshots)) {
		x := g.snapshots[id]
		queue(`INSERT INTO @.snapshots (run, seq, state)
			SELECT `+runNumber+`, u.seq, u.state
			FROM (SELECT $1::text AS id, $2::bigint AS n, $3::bigint AS seq, $4::bytea AS state) u
			ON CONFLICT (run) DO UPDATE SET seq = excluded.seq, state = excluded.state`,
			encodeText(id), x.h.n, int64(x.seq), x.state)
	}
}

// remember keeps what is known after the commit: the heads of runs that this
// process owns, and the appends for readers that follow this process.
func (g *group) remember() {
	if g.committed {
		g.rememberCommitted()
		return
	}
	g.s.mu.Lock()
	current, _ := g.s.worker.names()
	for id, h := range g.heads {
		if h == nil || h.root != "" {
			continue
		}
		n := h.n
		if h.start != nil {
			n = h.start.row.n
		}
		// Runs of another owner, and all runs after a change of the name, may be changed by other processes at any
		// time.
		if h.owner != g.worker || current != g.worker || n == 0 {
			delete(g.s.heads, id)
			continue
		}
		g.s.heads[id] = head{n: n, seq: h.seq, fence: h.fence, owner: h.owner, hash: h.hash, hashed: true}
	}
	g.s.mu.Unlock()
	for i, a := range g.appends {
		g.s.appended(journal.Pos(g.base+int64(i)+1), a.job)
	}
}

// rememberCommitted is remember for a group that an earlier attempt committed.
func (g *group) rememberCommitted() {
	pos := g.base
	for i := range g.jobs {
		j := &g.jobs[i]
		if j.err != nil {
			continue
		}
		g.s.mu.Lock()
		delete(g.s.heads, j.batch.Run)
		g.s.mu.Unlock()
		if len(j.batch.Events) > 0 {
			pos++
			g.s.appended(journal.Pos(pos), j)
		}
	}
}
