package journal

import "fmt"

// Check reports whether a batch is well formed in itself. Stores call it
// before they look at what they hold.
func (b *Batch) Check() error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("%w: run %s: %s", ErrInvalid, b.Run, fmt.Sprintf(format, args...))
	}
	if b.Run == "" {
		return invalid("it names no run")
	}
	for i := range b.Events {
		if want := b.After + Seq(i) + 1; b.Events[i].Seq != want {
			return invalid("event %d stands where %d should", b.Events[i].Seq, want)
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

// Started is the fact that begins the run, in its first batch.
func (b *Batch) Started() (RunStarted, bool) {
	if b.After != 0 || len(b.Events) == 0 {
		return RunStarted{}, false
	}
	f, ok := b.Events[0].Fact.(RunStarted)
	return f, ok
}

// LastSeq is the run's last event once the batch is appended.
func (b *Batch) LastSeq() Seq { return b.After + Seq(len(b.Events)) }

// At is when the batch happened: the time of its last event, 0 when it has none.
func (b *Batch) At() Millis {
	if len(b.Events) == 0 {
		return 0
	}
	return b.Events[len(b.Events)-1].At
}
