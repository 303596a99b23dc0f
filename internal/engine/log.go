package engine

import (
	"context"
	"log/slog"

	"github.com/espalier-run/espalier/internal/journal"
)

// LogAppend logs what an append says about its run and, as details, about the
// steps of the run.
func (c *Core) LogAppend(b *journal.Batch) {
	if c.Log.Enabled(context.Background(), slog.LevelDebug) {
		for i := range b.Events {
			switch x := b.Events[i].Fact.(type) {
			case journal.TaskStarted:
				c.Log.Debug("step started", "run_id", b.Run, "step", x.Place.Key(), "attempt", x.Attempt)
			case journal.TaskEnded:
				c.Log.Debug("step ended", "run_id", b.Run, "step", x.Place.Key(), "outcome", x.Outcome)
			}
		}
	}
	if b.Index == nil || !c.Log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	details := []any{"run_id", b.Run, "state", b.Index.Status}
	if b.Index.Outcome != "" {
		details = append(details, "outcome", b.Index.Outcome)
	}
	if what := b.Index.Waiting.Label(); what != "" {
		details = append(details, "waiting_for", what)
	}
	c.Log.Info("run changed", details...)
}
