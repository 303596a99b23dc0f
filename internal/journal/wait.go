package journal

import (
	"context"
	"iter"
	"time"
)

// Append appends a batch and waits. A context that is done already keeps the
// batch from being handed over; after that its outcome is always waited for,
// so that nobody is left not knowing.
func Append(ctx context.Context, s Writer, b Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	outcome := make(chan error, 1)
	s.Append(b, func(err error) { outcome <- err })
	return <-outcome
}

// Follow is a Tail without end: it goes on with what is committed later, until
// ctx is done. Appends of this Store are seen at once, those of other
// processes when it looks again after poll.
func Follow(ctx context.Context, s Tailer, after Pos, poll time.Duration) iter.Seq2[Appended, error] {
	return func(yield func(Appended, error) bool) {
		look := time.NewTicker(poll)
		defer look.Stop()
		for {
			changed := s.Changed() // before reading, so that nothing falls between
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
