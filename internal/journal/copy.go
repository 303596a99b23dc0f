package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// Copied counts what Copy has added to a store.
type Copied struct {
	Runs       int `json:"runs"`       // root runs, finished or not
	Unfinished int `json:"unfinished"` // of these
	Tombstones int `json:"tombstones"`
	Registers  int `json:"registers"`
}

// ErrDiffers means that a store has something of the same name with another
// content.
var ErrDiffers = errors.New("the stores differ")

// Copy adds everything of one store to another: the runs with their inboxes,
// the tombstones and the registers. What the other store has already is
// compared, so that an interrupted copy can be repeated; a difference is an
// ErrDiffers. The caller makes sure that no process uses the stores meanwhile,
// and that none uses from afterwards: its unfinished runs would continue twice.
func Copy(ctx context.Context, from, to Store) (Copied, error) {
	var done Copied
	var entries []Entry
	for e, err := range from.Runs(ctx, Filter{}) {
		if err != nil {
			return done, err
		}
		entries = append(entries, e)
	}
	for _, e := range slices.Backward(entries) { // oldest first
		added, err := copyRun(ctx, from, to, e)
		if err != nil {
			return done, fmt.Errorf("run %s: %w", e.ID, err)
		}
		if added {
			done.Runs++
			if e.Status != Finished {
				done.Unfinished++
			}
		}
	}
	var err error
	if done.Tombstones, err = copyTombstones(ctx, from, to); err != nil {
		return done, err
	}
	done.Registers, err = copyRegisters(ctx, from, to)
	return done, err
}

// copyRun copies a run unless the other store has it. Only an undamaged run is
// copied.
func copyRun(ctx context.Context, from, to Store, e Entry) (added bool, err error) {
	head, err := VerifyChain(ctx, from, e.ID, nil)
	if err != nil {
		return false, err
	}
	if e.Owner == Temporal && e.Status != Finished {
		return false, &OwnedError{Owner: e.Owner}
	}
	in := ImportedRun{Moved: true, Links: from.Links(ctx, e.ID), Blobs: blobsOf(ctx, from, e.ID)}
	e.Owner = ""
	in.Runs = []Entry{e}
	for child, err := range from.Runs(ctx, Filter{Root: e.ID, Children: true}) {
		if err != nil {
			return false, err
		}
		child.Owner = ""
		in.Runs = append(in.Runs, child)
	}
	slices.Reverse(in.Runs[1:]) // oldest first
	if e.Status != Finished {
		if in.Inbox, err = from.Inbox(ctx, e.ID); err != nil {
			return false, err
		}
	}
	err = to.Import(ctx, in)
	if !errors.Is(err, ErrExists) {
		return err == nil, err
	}
	if is, err := VerifyChain(ctx, to, e.ID, nil); err != nil {
		return false, err
	} else if is.Hash != head.Hash {
		return false, ErrDiffers
	}
	return false, nil
}

// blobsOf reads the values that the events of a run name.
func blobsOf(ctx context.Context, s Reader, run RunID) iter.Seq2[Blob, error] {
	return func(yield func(Blob, error) bool) {
		seen := map[string]bool{}
		for e, err := range s.Events(ctx, run, 0) {
			if err != nil {
				yield(Blob{}, err)
				return
			}
			for hash := range References(e.Fact) {
				if seen[hash] {
					continue
				}
				seen[hash] = true
				data, err := s.Blob(ctx, hash)
				if !yield(Blob{Hash: hash, Data: data}, err) || err != nil {
					return
				}
			}
		}
	}
}

func copyTombstones(ctx context.Context, from, to Store) (int, error) {
	all, err := tombstones(ctx, from)
	if err != nil || len(all) == 0 {
		return 0, err
	}
	if err := to.ImportTombstones(ctx, all); !errors.Is(err, ErrExists) {
		return len(all), err
	}
	there, err := tombstones(ctx, to)
	if err != nil {
		return 0, err
	}
	if !slices.EqualFunc(all, there, func(a, b Link) bool { return bytes.Equal(a.Hash, b.Hash) }) {
		return 0, fmt.Errorf("the tombstones of removed runs: %w", ErrDiffers)
	}
	return 0, nil
}

func tombstones(ctx context.Context, s ChainReader) (all []Link, err error) {
	for link, err := range s.Tombstones(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, link)
	}
	return all, nil
}

func copyRegisters(ctx context.Context, from, to Store) (n int, err error) {
	all, err := from.List(ctx, "")
	if err != nil {
		return 0, err
	}
	for _, r := range all {
		switch _, err := to.Save(ctx, Register{Key: r.Key, Data: r.Data}); {
		case err == nil:
			n++
		case !errors.Is(err, ErrConflict):
			return n, err
		default:
			if there, err := to.Load(ctx, r.Key); err != nil {
				return n, err
			} else if !bytes.Equal(there.Data, r.Data) {
				return n, fmt.Errorf("register %s: %w", r.Key, ErrDiffers)
			}
		}
	}
	return n, nil
}
