package engine

import (
	"cmp"
	"context"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// Children are the index rows of the open child runs of a run.
type Children map[journal.RunID]journal.Entry

// OpenChildren returns the rows of the open child runs of a run.
func (c *Core) OpenChildren(ctx context.Context, s *plan.State) (Children, error) {
	children := Children{}
	for _, f := range s.Frames {
		if f.Child == "" {
			continue
		}
		var err error
		if children[f.Child], err = c.reader.Entry(ctx, f.Child); err != nil {
			return nil, err
		}
	}
	return children, nil
}

// Update applies the events of a run and returns the rows of the child runs that
// they start or finish.
func (c Children) Update(s *plan.State, events []journal.Event) []journal.Entry {
	var changed []journal.Entry
	for i := range events {
		at := events[i].At
		switch x := events[i].Fact.(type) {
		case journal.FrameOpened:
			if x.Child == "" {
				continue
			}
			// The event belongs to the run that calls the child: a child may call another one.
			parent := cmp.Or(events[i].Run, s.Run)
			entry := journal.Entry{
				ID: x.Child, Root: s.Run, Parent: parent, Name: x.Name, Format: s.Format, Started: at, Updated: at,
				Index: journal.Index{Status: journal.Running},
			}
			c[x.Child] = entry
			changed = append(changed, entry)
		case journal.FrameClosed:
			if events[i].Run == "" || plan.ChildID(s.Run, x.Frame) != events[i].Run {
				continue
			}
			entry := c[events[i].Run]
			entry.ID, entry.Root, entry.Updated = events[i].Run, s.Run, at
			entry.Index = journal.Index{Status: journal.Finished, Outcome: x.Outcome}
			delete(c, entry.ID)
			changed = append(changed, entry)
		}
	}
	return changed
}
