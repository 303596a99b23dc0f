package journal

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
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
// compared before anything is added; a difference is an ErrDiffers. An interrupted
// copy can be repeated, also if runs have continued in the other store since. The
// caller makes sure that no process uses the stores meanwhile, and that none uses
// from afterwards: its unfinished runs would continue twice.
func Copy(ctx context.Context, from, to Store) (Copied, error) {
	var done Copied
	var entries []Entry
	for e, err := range from.Runs(ctx, Filter{}) {
		if err != nil {
			return done, err
		}
		entries = append(entries, e)
	}
	slices.Reverse(entries) // oldest first
	missing := entries[:0]
	for _, e := range entries {
		there, err := compareRun(ctx, from, to, e)
		if err != nil {
			return done, fmt.Errorf("run %s: %w", e.ID, err)
		}
		if !there {
			missing = append(missing, e)
		}
	}
	var err error
	if done.Tombstones, done.Registers, err = copyRest(ctx, from, to); err != nil {
		return done, err
	}
	for _, e := range missing {
		if err := copyRun(ctx, from, to, e); err != nil {
			return done, fmt.Errorf("run %s: %w", e.ID, err)
		}
		done.Runs++
		if e.Status != Finished {
			done.Unfinished++
		}
	}
	return done, nil
}

// compareRun reports whether the other store has a run, which may have continued
// there. Only an undamaged run is copied.
func compareRun(ctx context.Context, from, to Store, e Entry) (there bool, err error) {
	head, err := VerifyChain(ctx, from, e.ID, nil)
	if err != nil {
		return false, err
	}
	if e.Owner == Temporal && e.Status != Finished {
		return false, &OwnedError{Owner: e.Owner}
	}
	same := false
	if _, err := to.Entry(ctx, e.ID); errors.Is(err, ErrUnknownRun) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	_, err = VerifyChain(ctx, to, e.ID, func(_ Link, hash ChainHash) { same = same || hash == head.Hash })
	if err == nil && !same {
		err = ErrDiffers
	}
	return true, err
}

// copyRun copies a run that the other store lacks.
func copyRun(ctx context.Context, from, to Store, e Entry) (err error) {
	in := ImportedRun{Moved: true, Links: from.Links(ctx, e.ID), Blobs: blobsOf(ctx, from, e.ID)}
	e.Owner = ""
	in.Runs = []Entry{e}
	for child, err := range from.Runs(ctx, Filter{Root: e.ID, Children: true}) {
		if err != nil {
			return err
		}
		child.Owner = ""
		in.Runs = append(in.Runs, child)
	}
	slices.Reverse(in.Runs[1:]) // oldest first
	if e.Status != Finished {
		if in.Inbox, err = from.Inbox(ctx, e.ID); err != nil {
			return err
		}
	}
	return to.Import(ctx, in)
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

// copiedPrefix precedes the name of a copy in the registers of both stores. The
// other store has it once it has the tombstones and registers, which then are its
// own: they change as runs continue there.
const copiedPrefix = "copied/"

// copyRest copies tombstones and registers, unless an earlier attempt has done so.
func copyRest(ctx context.Context, from, to Store) (removed, registers int, err error) {
	name, err := copyName(ctx, from)
	if err != nil {
		return 0, 0, err
	}
	if there, err := to.Load(ctx, name); err != nil || there.Version > 0 {
		return 0, 0, err
	}
	all, err := from.List(ctx, "")
	if err != nil {
		return 0, 0, err
	}
	all = slices.DeleteFunc(all, func(r Register) bool { return strings.HasPrefix(r.Key, copiedPrefix) })
	var missing []Register
	for _, r := range all {
		there, err := to.Load(ctx, r.Key)
		switch {
		case err != nil:
			return 0, 0, err
		case there.Version == 0:
			missing = append(missing, r)
		case !bytes.Equal(there.Data, r.Data):
			return 0, 0, fmt.Errorf("register %s: %w", r.Key, ErrDiffers)
		}
	}
	if removed, err = copyTombstones(ctx, from, to); err != nil {
		return removed, 0, err
	}
	for _, r := range append(missing, Register{Key: name, Data: []byte("{}")}) {
		if _, err := to.Save(ctx, Register{Key: r.Key, Data: r.Data}); err != nil {
			return removed, registers, err
		}
		registers++
	}
	return removed, registers - 1, nil // without the name
}

// copyName returns the name of the copies of a store.
func copyName(ctx context.Context, from Store) (string, error) {
	known, err := from.List(ctx, copiedPrefix)
	if err != nil || len(known) > 0 {
		if err == nil {
			return known[0].Key, nil
		}
		return "", err
	}
	name := copiedPrefix + rand.Text()
	_, err = from.Save(ctx, Register{Key: name, Data: []byte("{}")})
	return name, err
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
