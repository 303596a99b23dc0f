package memorytest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/queue"
)

// Store is a journal.Store in memory.
type Store struct {
	appends *queue.Queue[job]
	stopped chan struct{}
	changes queue.Notifier
	dead    func(journal.Owner) bool

	mu      sync.Mutex
	closed  bool
	runs    map[journal.RunID]*run
	order   []*run // in the order of their starts
	log     []*row // in commit order
	lastPos journal.Pos
	// imported is the lowest position of an imported append; 0 if there is none.
	imported journal.Pos
	lastMsg  journal.InboxID
	blobs    map[string]*blob
	tombs    []journal.Link

	registers    map[string]journal.Register
	lastRegister int64
}

type run struct {
	journal.Entry
	fence    int64
	hash     journal.ChainHash
	rows     []*row
	inbox    []journal.InboxMessage
	snapshot []byte
	folded   journal.Seq // last event of the snapshot
	blobs    map[string]bool
}

type row struct {
	pos  journal.Pos
	run  journal.RunID
	last journal.Seq
	body []byte
	hash []byte
}

type blob struct {
	data  []byte
	users int
}

type job struct {
	batch journal.Batch
	body  []byte
	err   error // found before it was queued
	done  func(error)
}

var _ journal.Store = (*Store)(nil)

// New returns an empty store of a process that shares it with no living one.
func New() *Store { return NewShared(func(journal.Owner) bool { return true }) }

// NewShared returns an empty store. dead reports whether the process of an
// owner has ended; it must not call the store.
func NewShared(dead func(journal.Owner) bool) *Store {
	s := &Store{
		dead:    journal.ExceptTemporal(dead),
		appends: queue.New[job](),
		stopped: make(chan struct{}),
		runs:    map[journal.RunID]*run{},
		blobs:   map[string]*blob{},

		registers: map[string]journal.Register{},
	}
	go s.commit()
	return s
}

// Append implements journal.Store.
func (s *Store) Append(b journal.Batch, done func(error)) {
	j := job{batch: b, done: done, err: b.Check()}
	if j.err == nil {
		j.body, j.err = journal.Encode(nil, b.Events)
	}
	if !s.appends.Put(j) {
		go done(journal.ErrClosed)
	}
}

func (s *Store) commit() {
	defer close(s.stopped)
	s.appends.Drain(1, func(jobs []job) {
		j := &jobs[0]
		if j.err == nil {
			j.err = s.add(&j.batch, j.body)
		}
		if j.err == nil {
			s.changes.Broadcast()
		}
		j.done(j.err)
	})
}

func (s *Store) add(b *journal.Batch, body []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.writable(b)
	if err != nil {
		return err
	}
	for _, c := range b.Children {
		if old := s.runs[c.ID]; old != nil && old.Root != b.Run {
			return fmt.Errorf("%w: %s", journal.ErrExists, c.ID)
		}
	}
	for _, id := range b.Taken {
		if !slices.ContainsFunc(r.inbox, func(p journal.InboxMessage) bool { return p.ID == id }) {
			return journal.ErrConflict
		}
	}
	if err := s.keepBlobs(r, b); err != nil {
		return err
	}

	// Nothing is refused after this point.
	if b.After == 0 {
		s.runs[r.ID] = r
		s.order = append(s.order, r)
	}
	r.inbox = slices.DeleteFunc(r.inbox, func(p journal.InboxMessage) bool { return slices.Contains(b.Taken, p.ID) })
	r.Seq = b.LastSeq()
	if len(b.Events) > 0 {
		r.Updated = b.At()
		s.lastPos++
		r.hash = r.hash.Next(body)
		added := &row{pos: s.lastPos, run: r.ID, last: r.Seq, body: body, hash: slices.Clone(r.hash[:])}
		r.rows = append(r.rows, added)
		s.log = append(s.log, added)
	}
	if b.Index != nil {
		r.Index = *b.Index
	}
	if b.Snapshot != nil {
		r.snapshot, r.folded = slices.Clone(b.Snapshot), r.Seq
	}
	if b.Release {
		r.Owner = ""
		r.fence++
	}
	for _, c := range b.Children {
		c.Owner = ""
		if old := s.runs[c.ID]; old != nil {
			old.Entry = c
			continue
		}
		child := &run{Entry: c}
		s.runs[c.ID] = child
		s.order = append(s.order, child)
	}
	return nil
}

// writable returns the run that a batch can be appended to: a new one for its
// first batch. s.mu is held.
func (s *Store) writable(b *journal.Batch) (*run, error) {
	if started, ok := b.Started(); ok {
		if s.runs[b.Run] != nil {
			return nil, fmt.Errorf("%w: %s", journal.ErrExists, b.Run)
		}
		return &run{
			fence: journal.FirstFence,
			hash:  journal.ChainStart(b.Run),
			blobs: map[string]bool{},
			Entry: journal.Entry{
				ID: b.Run, Name: started.Name, Format: started.Format, Definition: started.Definition,
				Started: b.Events[0].At, Owner: b.Owner, Index: journal.Index{Status: journal.Running},
			},
		}, nil
	}
	r, err := s.root(b.Run)
	if err == nil && (r.fence != b.Fence || r.Seq != b.After) {
		err = journal.ErrConflict
	}
	return r, err
}

func (s *Store) keepBlobs(r *run, b *journal.Batch) error {
	if started, ok := b.Started(); ok && started.Definition != "" {
		brought := slices.ContainsFunc(b.Blobs, func(x journal.Blob) bool { return x.Hash == started.Definition })
		if !brought {
			have := s.blobs[started.Definition]
			if have == nil {
				return fmt.Errorf("%w: %s", journal.ErrUnknownBlob, started.Definition)
			}
			have.users++
			r.blobs[started.Definition] = true
		}
	}
	for _, x := range b.Blobs {
		have := s.blobs[x.Hash]
		if have == nil {
			have = &blob{data: slices.Clone(x.Data)}
			s.blobs[x.Hash] = have
		}
		if !r.blobs[x.Hash] {
			r.blobs[x.Hash] = true
			have.users++
		}
	}
	return nil
}

// root returns a root run. s.mu is held.
func (s *Store) root(id journal.RunID) (*run, error) {
	r := s.runs[id]
	switch {
	case s.closed:
		return nil, journal.ErrClosed
	case r == nil:
		return nil, fmt.Errorf("%w: %s", journal.ErrUnknownRun, id)
	case r.Root != "":
		return nil, &journal.ChildError{Root: r.Root}
	}
	return r, nil
}

// Events implements journal.Store.
func (s *Store) Events(ctx context.Context, id journal.RunID, after journal.Seq) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		s.mu.Lock()
		r, err := s.root(id)
		var rows []*row
		if err == nil {
			first, _ := slices.BinarySearchFunc(
				r.rows, after, func(x *row, after journal.Seq) int { return int(x.last - after - 1) },
			)
			rows = slices.Clone(r.rows[first:])
		}
		s.mu.Unlock()
		if err != nil {
			yield(journal.Event{}, err)
			return
		}
		for _, x := range rows {
			events, err := decode(ctx, x)
			if err != nil {
				yield(journal.Event{}, err)
				return
			}
			for _, e := range events {
				if e.Seq > after && !yield(e, nil) {
					return
				}
			}
		}
	}
}

func decode(ctx context.Context, x *row) ([]journal.Event, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	events, err := journal.Decode(x.body)
	if err != nil {
		return nil, &journal.CorruptError{Run: x.run, Pos: x.pos, Why: err}
	}
	return events, nil
}

// Tail implements journal.Store.
func (s *Store) Tail(ctx context.Context, after journal.Pos) iter.Seq2[journal.Appended, error] {
	return func(yield func(journal.Appended, error) bool) {
		for {
			s.mu.Lock()
			first, _ := slices.BinarySearchFunc(
				s.log, after+1, func(x *row, pos journal.Pos) int { return int(x.pos - pos) },
			)
			rows := slices.Clone(s.log[first:min(first+tailPage, len(s.log))])
			closed := s.closed
			s.mu.Unlock()
			if closed {
				yield(journal.Appended{}, journal.ErrClosed)
				return
			}
			for _, x := range rows {
				events, err := decode(ctx, x)
				if err != nil {
					yield(journal.Appended{}, err)
					return
				}
				if !yield(journal.Appended{Pos: x.pos, Run: x.run, Events: events}, nil) {
					return
				}
				after = x.pos
			}
			if len(rows) == 0 {
				return
			}
		}
	}
}

const tailPage = 256

// Last implements journal.Store.
func (s *Store) Last(context.Context) (journal.Pos, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastPos, s.open()
}

func (s *Store) open() error {
	if s.closed {
		return journal.ErrClosed
	}
	return nil
}

// Changed implements journal.Store.
func (s *Store) Changed() <-chan struct{} { return s.changes.Wait() }

// Claim implements journal.Store.
func (s *Store) Claim(_ context.Context, id journal.RunID, me journal.Owner) (journal.Claim, error) {
	return s.claim(id, me, false)
}

// Renew implements journal.Ownership.
func (s *Store) Renew(_ context.Context, id journal.RunID, me journal.Owner) (journal.Claim, error) {
	return s.claim(id, me, true)
}

func (s *Store) claim(id journal.RunID, me journal.Owner, renew bool) (journal.Claim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.root(id)
	if err != nil {
		return journal.Claim{}, err
	}
	if r.Owner != me || renew {
		if r.Owner != me && r.Owner != "" && !s.dead(r.Owner) {
			return journal.Claim{}, &journal.OwnedError{Owner: r.Owner}
		}
		r.Owner = me
		r.fence++
	}
	return journal.Claim{Fence: r.fence, Seq: r.Seq, Definition: r.Definition}, nil
}

// ClaimNext implements journal.Ownership.
func (s *Store) ClaimNext(
	ctx context.Context, me journal.Owner, n int, skip func(journal.RunID) bool,
) ([]journal.RunID, error) {
	return journal.ClaimByScan(ctx, s, me, n, skip, s.dead)
}

// Enqueue implements journal.Ownership.
func (s *Store) Enqueue(_ context.Context, id journal.RunID, m journal.Message) (journal.Owner, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.root(id)
	if err != nil {
		return "", err
	}
	if r.Status == journal.Finished {
		return "", fmt.Errorf("%w: %s", journal.ErrFinished, id)
	}
	s.lastMsg++
	m.Data = slices.Clone(m.Data)
	r.inbox = append(r.inbox, journal.InboxMessage{ID: s.lastMsg, Message: m})
	s.changes.Broadcast()
	return r.Owner, nil
}

// Inbox implements journal.Store.
func (s *Store) Inbox(_ context.Context, id journal.RunID) ([]journal.InboxMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.root(id)
	if err != nil {
		return nil, err
	}
	return slices.Clone(r.inbox), nil
}

// PendingInboxes implements journal.Store.
func (s *Store) PendingInboxes(context.Context) ([]journal.PendingInbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []journal.PendingInbox
	for _, r := range s.order {
		if len(r.inbox) > 0 && r.Status != journal.Finished {
			found = append(found, journal.PendingInbox{Run: r.ID, Owner: r.Owner})
		}
	}
	return found, s.open()
}

// Due implements journal.Store.
func (s *Store) Due(_ context.Context, now journal.Millis) ([]journal.RunID, journal.Millis, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var due []*run
	var next journal.Millis
	for _, r := range s.order {
		switch {
		case r.Wake == 0 || r.Status == journal.Finished || r.Root != "":
		case r.Wake <= now:
			due = append(due, r)
		case next == 0 || r.Wake < next:
			next = r.Wake
		}
	}
	slices.SortStableFunc(due, func(a, b *run) int { return int(a.Wake - b.Wake) })
	ids := make([]journal.RunID, len(due))
	for i, r := range due {
		ids[i] = r.ID
	}
	return ids, next, s.open()
}

// Runs implements journal.Store.
func (s *Store) Runs(ctx context.Context, f journal.Filter) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		s.mu.Lock()
		var found []journal.Entry
		reached := f.Before == ""
		for _, r := range slices.Backward(s.order) {
			if !reached {
				reached = r.ID == f.Before
				continue
			}
			if matches(&r.Entry, &f) {
				found = append(found, r.Entry)
			}
			if f.Limit > 0 && len(found) == f.Limit {
				break
			}
		}
		err := s.open()
		s.mu.Unlock()
		if err == nil && !reached {
			err = fmt.Errorf("%w: %s", journal.ErrUnknownRun, f.Before)
		}
		if err != nil {
			yield(journal.Entry{}, err)
			return
		}
		for _, e := range found {
			if err := ctx.Err(); err != nil {
				yield(journal.Entry{}, err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func matches(e *journal.Entry, f *journal.Filter) bool {
	switch {
	case f.Status != "" && e.Status != f.Status,
		f.Unfinished && e.Status == journal.Finished,
		f.Name != "" && e.Name != f.Name,
		f.Outcome != "" && e.Outcome != f.Outcome,
		!strings.Contains(e.Name, f.Text) && !strings.HasPrefix(string(e.ID), f.Text),
		e.Started < f.Since,
		f.Until != 0 && e.Started >= f.Until,
		!strings.HasPrefix(string(e.ID), f.Prefix),
		f.Root != "" && e.Root != f.Root,
		f.Root == "" && e.Root != "" && !f.Children:
		return false
	}
	return true
}

// Entry implements journal.Store.
func (s *Store) Entry(_ context.Context, id journal.RunID) (journal.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return journal.Entry{}, err
	}
	r := s.runs[id]
	if r == nil {
		return journal.Entry{}, fmt.Errorf("%w: %s", journal.ErrUnknownRun, id)
	}
	return r.Entry, nil
}

// Blob implements journal.Store.
func (s *Store) Blob(_ context.Context, hash string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return nil, err
	}
	b := s.blobs[hash]
	if b == nil {
		return nil, fmt.Errorf("%w: %s", journal.ErrUnknownBlob, hash)
	}
	return slices.Clone(b.data), nil
}

// Snapshot implements journal.Store.
func (s *Store) Snapshot(_ context.Context, id journal.RunID) (journal.Seq, []byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.root(id)
	if err != nil {
		return 0, nil, err
	}
	return r.folded, slices.Clone(r.snapshot), nil
}

// Links implements journal.ChainReader.
func (s *Store) Links(ctx context.Context, id journal.RunID) iter.Seq2[journal.Link, error] {
	return func(yield func(journal.Link, error) bool) {
		s.mu.Lock()
		r, err := s.root(id)
		var links []journal.Link
		if err == nil {
			for _, x := range r.rows {
				links = append(links, journal.Link{Pos: x.pos, Seq: x.last, Body: x.body, Hash: x.hash})
			}
		}
		s.mu.Unlock()
		yieldLinks(ctx, links, err, yield)
	}
}

// Tombstones implements journal.ChainReader.
func (s *Store) Tombstones(ctx context.Context) iter.Seq2[journal.Link, error] {
	return func(yield func(journal.Link, error) bool) {
		s.mu.Lock()
		links, err := slices.Clone(s.tombs), s.open()
		s.mu.Unlock()
		yieldLinks(ctx, links, err, yield)
	}
}

func yieldLinks(ctx context.Context, links []journal.Link, err error, yield func(journal.Link, error) bool) {
	if err != nil {
		yield(journal.Link{}, err)
		return
	}
	for _, link := range links {
		if err := ctx.Err(); err != nil {
			yield(journal.Link{}, err)
			return
		}
		if !yield(link, nil) {
			return
		}
	}
}

// Remove implements journal.Admin.
func (s *Store) Remove(ctx context.Context, why journal.Removal, ids ...journal.RunID) error {
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.remove(why, id); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) remove(why journal.Removal, id journal.RunID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.root(id)
	if err != nil {
		return err
	}
	if r.Status != journal.Finished && !why.Damaged {
		return fmt.Errorf("%w: %s", journal.ErrUnfinished, id)
	}
	prev := journal.TombstoneStart()
	if n := len(s.tombs); n > 0 {
		prev, _ = journal.ParseChainHash(s.tombs[n-1].Hash)
	}
	body := journal.NewTombstone(r.Name, journal.ChainHead{Run: id, Seq: r.Seq, Hash: r.hash}, why).Encode()
	hash := prev.Next(body)
	s.tombs = append(s.tombs, journal.Link{Pos: journal.Pos(len(s.tombs) + 1), Body: body, Hash: hash[:]})
	for hash := range r.blobs {
		if s.blobs[hash].users--; s.blobs[hash].users == 0 {
			delete(s.blobs, hash)
		}
	}
	s.log = slices.DeleteFunc(s.log, func(x *row) bool { return x.run == id })
	s.order = slices.DeleteFunc(s.order, func(x *run) bool {
		gone := x.ID == id || x.Root == id
		if gone {
			delete(s.runs, x.ID)
		}
		return gone
	})
	return nil
}

// Import implements journal.Admin.
func (s *Store) Import(_ context.Context, in journal.ImportedRun) error {
	if err := in.Check(); err != nil {
		return err
	}
	root := &run{
		Entry: in.Runs[0], fence: journal.FirstFence, hash: journal.ChainStart(in.Runs[0].ID),
		blobs: map[string]bool{},
	}
	root.Owner = ""
	for a, err := range in.Appends() {
		if err != nil {
			return err
		}
		root.hash = root.hash.Next(a.Body)
		root.rows = append(root.rows, &row{run: root.ID, last: a.Seq, body: a.Body, hash: a.Hash})
	}
	var blobs []journal.Blob
	for b, err := range in.Blobs {
		if err != nil {
			return err
		}
		blobs = append(blobs, b)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return journal.ErrClosed
	}
	for i := range in.Runs {
		if id := in.Runs[i].ID; s.runs[id] != nil {
			return fmt.Errorf("%w: %s", journal.ErrExists, id)
		}
	}
	// Positions below those of other appends: Tail does not come to them.
	for i, x := range root.rows {
		x.pos = s.imported - journal.Pos(len(root.rows)-i)
	}
	s.imported -= journal.Pos(len(root.rows))
	if err := s.keepBlobs(root, &journal.Batch{Blobs: blobs}); err != nil {
		return err
	}
	for _, m := range in.Inbox {
		s.lastMsg++
		root.inbox = append(root.inbox, journal.InboxMessage{ID: s.lastMsg, Message: m.Message})
	}
	s.runs[root.ID] = root
	s.order = append(s.order, root)
	for _, e := range in.Runs[1:] {
		e.Owner = ""
		child := &run{Entry: e}
		s.runs[e.ID] = child
		s.order = append(s.order, child)
	}
	return nil
}

// ImportTombstones implements journal.Admin.
func (s *Store) ImportTombstones(_ context.Context, all []journal.Link) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tombs) > 0 {
		return fmt.Errorf("%w: tombstones", journal.ErrExists)
	}
	for i, link := range all {
		s.tombs = append(s.tombs, journal.Link{Pos: journal.Pos(i + 1), Body: link.Body, Hash: link.Hash})
	}
	return nil
}

// Close implements journal.Store.
func (s *Store) Close() error {
	s.appends.Close()
	<-s.stopped
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}
