package app

import (
	"context"

	"github.com/espalier-run/espalier/internal/journal"
)

// InboxReading is Inbox, and reads at most maxReads runs.
func (a *App) InboxReading(ctx context.Context, before journal.RunID, limit, maxReads int) (
	[]*Status, journal.RunID, error,
) {
	return a.inbox(ctx, before, limit, maxReads)
}
