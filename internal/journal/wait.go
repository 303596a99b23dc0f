package journal

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Append appends a batch and waits for the outcome. A context that has ended
// prevents the append; once the batch is queued, Append waits in any case, so
// that the outcome is never unknown.
func Append(ctx context.Context, s Writer, b Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	outcome := make(chan error, 1)
	s.Append(b, func(err error) { outcome <- err })
	return <-outcome
}

// ExceptTemporal wraps dead, which reports whether the process of an owner has ended, so that it returns false for
// Temporal: that owner is no process, and its runs are not taken over.
func ExceptTemporal(dead func(Owner) bool) func(Owner) bool {
	return func(o Owner) bool { return o != Temporal && dead(o) }
}

// ClaimByScan is ClaimNext for a store in which looking at all running runs is
// cheap. dead reports whether the process of an owner has ended.
func ClaimByScan(
	ctx context.Context, s Store, me Owner, n int, skip func(RunID) bool, dead func(Owner) bool,
) ([]RunID, error) {
	gone := map[Owner]bool{"": true, me: true}
	var claimed []RunID
	for entry, err := range s.Runs(ctx, Filter{Status: Running}) {
		if err != nil {
			return nil, err
		}
		free, known := gone[entry.Owner]
		if !known {
			free = dead(entry.Owner)
			gone[entry.Owner] = free
		}
		if !free || skip(entry.ID) {
			continue
		}
		_, err := s.Claim(ctx, entry.ID, me)
		if _, owned := errors.AsType[*OwnedError](err); owned || errors.Is(err, ErrUnknownRun) {
			continue // another process was faster
		}
		if err != nil {
			return nil, err
		}
		if claimed = append(claimed, entry.ID); len(claimed) == n {
			break
		}
	}
	return claimed, nil
}

// Follow is like Tail, but continues with later commits until ctx ends. It sees
// commits of this Store at once, and those of other processes within poll.
func Follow(ctx context.Context, s Tailer, after Pos, poll time.Duration) iter.Seq2[Appended, error] {
	return func(yield func(Appended, error) bool) {
		look := time.NewTicker(poll)
		defer look.Stop()
		for {
			changed := s.Changed() // before reading, so that no commit is missed
			for a, err := range s.Tail(ctx, after) {
				if !yield(a, err) || err != nil {
					return
				}
				after = a.Pos
			}
			select {
			case <-changed:
			case <-look.C:
			case <-ctx.Done():
				yield(Appended{}, ctx.Err())
				return
			}
		}
	}
}
