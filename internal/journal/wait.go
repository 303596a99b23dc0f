package journal

import (
	"context"
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
