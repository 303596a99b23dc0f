package api

import (
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/xslices"
)

// The methods below turn the forms back into what they were made from, as far as
// renderers need it. A client of a server prints with the same renderers as a
// command that reads the store.

// App returns the run of the form.
func (r *Run) App() *app.Run {
	out := &app.Run{
		Entry: journal.Entry{
			ID: journal.RunID(r.ID), Root: journal.RunID(r.Root), Parent: journal.RunID(r.Parent), Name: r.Workflow,
			Format:  r.Format,
			Started: journal.MillisOf(r.Started), Updated: journal.MillisOf(r.Updated), Seq: journal.Seq(r.Seq),
			Index: journal.Index{
				Status: r.State.Status(), Outcome: r.Outcome, Waiting: journal.ParseWait(r.WaitingFor),
			},
		},
		Reason: r.Reason, Error: r.Error, Driver: r.Driver.app(),
		Idle:   r.State == journal.StateQueued || r.State == journal.StateInterrupted,
		Queued: r.State == journal.StateQueued,
	}
	if r.Wakes != nil {
		out.Wake = journal.MillisOf(*r.Wakes)
	}
	if r.Queue != nil {
		out.Queue = new(app.QueuePlace(*r.Queue))
	}
	return out
}

// App returns the status of the form.
func (s *Status) App() *app.Status {
	out := &app.Status{
		Run: *s.Run.App(), Step: s.Steps, Used: s.Used.journal(), Held: s.Reserved.journal(), Paused: s.Held,
		Offline: s.Simulated, Untrusted: s.Untrusted,
		Limits: journal.Limits{
			Steps: s.Limits.Steps, ToolCalls: s.Limits.ToolCalls,
			Tokens: s.Limits.Tokens, ActiveSeconds: s.Limits.ActiveSeconds,
		},
	}
	if d := s.Limits.Dollars; d != nil {
		out.Limits.MicroDollars = new(price.MicroDollars(*d))
	}
	out.Gates = xslices.Map(s.Gates, func(one Gate) app.Gate { return one.app() })
	return out
}

func (u *Usage) journal() journal.Usage {
	out := journal.Usage{
		Steps: u.Steps, ModelCalls: u.ModelCalls, ToolCalls: u.ToolCalls, InputTokens: u.InputTokens,
		OutputTokens: u.OutputTokens, MicroDollars: u.MicroDollars,
	}
	if u.Lost != nil {
		out.Lost = *u.Lost
	}
	return out
}

func (g *Gate) app() app.Gate {
	return app.Gate{
		Step: g.Step, Kind: g.Kind, Description: g.Description, Event: g.Event, Key: g.Key, Shows: g.Shows,
		Order: g.Order, Digest: g.Digest, Until: g.Until, Files: g.Files,
		Approvers: g.Approvers.app(),
	}
}

func (a *Approvers) app() *app.Approvers {
	if a == nil {
		return nil
	}
	out := &app.Approvers{
		Roles: a.Roles, Required: a.Required, FourEyes: a.FourEyes, Starter: a.Starter, EscalatesTo: a.EscalatesTo,
		Escalated: a.Escalated,
	}
	if a.Escalates != nil {
		out.Escalates = journal.MillisOf(*a.Escalates)
	}
	for _, one := range a.Approvals {
		out.Approvals = append(out.Approvals, app.Approval{
			By: journal.Actor{User: one.User, As: one.As}, Note: one.Note, At: journal.MillisOf(one.At),
		})
	}
	return out
}

// App returns the execution of the form.
func (e *Execution) App() *app.Execution {
	out := e.Execution
	out.Used = e.Used.journal()
	if d := e.Decision; d != nil {
		out.Decided = &app.Decided{
			By: journal.Actor{User: d.User, As: d.As, Method: d.Established}, Method: d.Method,
			Note: d.Note, Digest: d.Digest,
		}
	}
	return &out
}
