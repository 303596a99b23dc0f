package engine

import "github.com/espalier-run/espalier/internal/plan"

// Snapshots decides when the state of a run is stored. All snapshots together cost a constant share of what the run
// writes.
type Snapshots struct {
	Size    int // of the last one
	written int // bytes of events since then
}

const (
	minWritten    = 64 << 10 // bytes; runs that write less are folded from their first event
	snapshotShare = 4        // how many times the size of a snapshot is written before the next one
)

// Next returns the snapshot to store with events of a size; nil if it is too early for one.
func (s *Snapshots) Next(state *plan.State, written int) []byte {
	s.written += written
	if s.written <= max(minWritten, snapshotShare*s.Size) || state.Finished != nil {
		return nil
	}
	if s.Size = state.Size(); s.written <= snapshotShare*s.Size { // the state has grown
		return nil
	}
	raw := state.Snapshot()
	s.Size, s.written = len(raw), 0
	return raw
}
