package journal

import "fmt"

// Check returns an ErrInvalid if a batch is malformed, whatever the store
// contains. Stores call it first.
func (b *Batch) Check() error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("%w: run %s: %s", ErrInvalid, b.Run, fmt.Sprintf(format, args...))
	}
	if b.Run == "" {
		return invalid("it names no run")
	}
	for i := range b.Events {
		if want := b.After + Seq(i) + 1; b.Events[i].Seq != want {
			return invalid("found event %d, expected %d", b.Events[i].Seq, want)
		}
	}
	if b.After == 0 {
		if _, ok := b.Started(); !ok {
			return invalid("its first event is not RunStarted")
		}
		if b.Fence != FirstFence {
			return invalid("a new run has fence %d, not %d", FirstFence, b.Fence)
		}
	}
	for _, c := range b.Children {
		if c.Root != b.Run || c.ID == "" || c.ID == b.Run {
			return invalid("run %q is not its child", c.ID)
		}
	}
	return nil
}

// Started returns the RunStarted of a run's first batch; false for later batches.
func (b *Batch) Started() (RunStarted, bool) {
	if b.After != 0 || len(b.Events) == 0 {
		return RunStarted{}, false
	}
	f, ok := b.Events[0].Fact.(RunStarted)
	return f, ok
}

// LastSeq returns the run's last event after the batch.
func (b *Batch) LastSeq() Seq { return b.After + Seq(len(b.Events)) }

// At returns the time of the batch's last event; 0 if it has none.
func (b *Batch) At() Millis {
	if len(b.Events) == 0 {
		return 0
	}
	return b.Events[len(b.Events)-1].At
}
