package journal

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
)

// Pages yields up to limit items, or all of them if limit is 0, and reads a page of at most size items at a time: a
// store holds no transaction while its caller works. next returns the next page of at most n items. A page that is not
// full is the last one.
func Pages[T any](size, limit int, next func(n int) ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for left := limit; ; {
			n := size
			if limit > 0 {
				n = min(n, left)
			}
			items, err := next(n)
			if err != nil {
				yield(*new(T), err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			left -= len(items)
			if len(items) < size || limit > 0 && left == 0 {
				return
			}
		}
	}
}

// StoredAppend is an append as a store keeps it.
type StoredAppend struct {
	Pos   Pos
	Run   RunID
	First Seq // 0 if the store does not keep the number of the first event
	Last  Seq
	Body  []byte
}

// Decode returns the events. Damage is a *CorruptError.
func (a *StoredAppend) Decode() ([]Event, error) {
	events, err := Decode(a.Body)
	switch n := len(events); {
	case err != nil:
	case a.First != 0 && (n == 0 || events[0].Seq != a.First || events[n-1].Seq != a.Last):
		err = fmt.Errorf("its events are not those from %d to %d", a.First, a.Last)
	case n == 0 || events[n-1].Seq != a.Last:
		err = fmt.Errorf("it does not end with event %d", a.Last)
	}
	for i := 1; i < len(events) && err == nil; i++ {
		if events[i].Seq != events[i-1].Seq+1 {
			err = fmt.Errorf("event %d follows event %d", events[i].Seq, events[i-1].Seq)
		}
	}
	if err != nil {
		return nil, &CorruptError{Run: a.Run, Pos: a.Pos, Why: err}
	}
	return events, nil
}

// TailPages implements Tailer.Tail. next returns at most size appends after a position.
func TailPages(
	ctx context.Context, after Pos, size int, next func(after Pos) ([]StoredAppend, error),
) iter.Seq2[Appended, error] {
	return func(yield func(Appended, error) bool) {
		after := after
		for row, err := range Pages(size, 0, func(int) ([]StoredAppend, error) { return next(after) }) {
			a := Appended{Pos: row.Pos, Run: row.Run}
			if err == nil {
				a.Events, err = row.Decode()
			}
			if err = cmp.Or(err, ctx.Err()); err != nil {
				yield(Appended{}, err)
				return
			}
			after = row.Pos
			if !yield(a, nil) {
				return
			}
		}
	}
}

// CheckBlob returns the data of a blob, or an ErrCorrupt if the data does not have the hash.
func CheckBlob(hash string, data []byte) ([]byte, error) {
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != hash {
		return nil, fmt.Errorf("%w: the value %s has another hash", ErrCorrupt, hash)
	}
	return data, nil
}
