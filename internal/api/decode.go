package api

import (
	"encoding/json"
	"math"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
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
			Index: journal.Index{Status: r.State.status(), Outcome: journal.Outcome(r.Outcome), Waiting: r.WaitingFor},
		},
		Reason: r.Reason, Error: r.Error, Driver: r.Driver.app(),
		Idle: r.State == Queued || r.State == Interrupted, Queued: r.State == Queued,
	}
	if r.Wakes != nil {
		out.Wake = journal.MillisOf(*r.Wakes)
	}
	if q := r.Queue; q != nil {
		out.Queue = &app.QueuePlace{Position: q.Position, Limit: q.Limit, Provider: q.Provider, Labels: q.Labels}
	}
	return out
}

// status returns the status of runs in a state.
func (s State) status() journal.Status {
	switch s {
	case Queued, Running, Interrupted:
		return journal.Running
	case Unknown:
		return journal.Waiting
	case Paused:
		return journal.PausedAt
	case Budget:
		return journal.Exceeded
	}
	return journal.Status(s)
}

// App returns the status of the form.
func (s *Status) App() *app.Status {
	run := s.Run.App()
	out := &app.Status{
		Entry: run.Entry, Step: s.Steps, Used: s.Used.journal(), Held: s.Reserved.journal(), Paused: s.Held, Idle: run.Idle,
		Queued: run.Queued, Queue: run.Queue, Driver: run.Driver,
		Reason: s.Reason, Error: s.Error, Offline: s.Simulated, Untrusted: s.Untrusted,
		Limits: journal.Limits{
			Steps: s.Limits.Steps, ToolCalls: s.Limits.ToolCalls, Tokens: s.Limits.Tokens, ActiveSeconds: s.Limits.ActiveSeconds,
		},
	}
	if d := s.Limits.Dollars; d != nil {
		micro := int64(math.Round(*d * 1e6))
		out.Limits.MicroDollars = &micro
	}
	for i := range s.Gates {
		out.Gates = append(out.Gates, s.Gates[i].app())
	}
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
	kinds := map[GateKind]journal.GateKind{
		Approval: app.GatePerson, ToolApproval: app.GateCall, EventGate: app.GateEvent, InputGate: app.GateEvent,
		Outcome: app.GateDoubt,
	}
	return app.Gate{
		Step: g.Step, Kind: kinds[g.Kind], Description: g.Description, Event: g.Event, Text: g.Kind == InputGate, Key: g.Key,
		Shows: g.Shows, Digest: g.Digest, Until: g.Until,
	}
}

// App returns the execution of the form.
func (e *Execution) App() *app.Execution {
	out := &app.Execution{
		Step: e.Step, Type: e.Kind, Description: e.Description, For: e.FallbackFor, Began: e.Started, Ended: e.Finished,
		Outcome: journal.Outcome(e.Outcome), Reason: e.Reason, Error: e.Error, Attempts: e.Attempts, Reads: e.Reads,
		Missing: e.Missing, Result: e.Result, Writes: e.Writes, Used: e.Used.journal(), State: e.State,
	}
	if d := e.Decision; d != nil {
		out.Decided = &app.Decided{
			By: journal.Actor{User: d.User, As: d.As, Method: d.Established}, Method: d.Method, Note: d.Note, Digest: d.Digest,
		}
	}
	return out
}

// Ending is how a run ended.
type Ending struct {
	Outcome    string          `json:"outcome"`
	Reason     string          `json:"reason,omitempty"`
	Error      string          `json:"error,omitempty"`
	Output     json.RawMessage `json:"output,omitempty"`
	ExitStatus int             `json:"exit_status,omitempty" doc:"Exit status that the workflow chose"`
	ResumeFrom string          `json:"resume_from,omitempty" doc:"Step from which a failed run can be resumed"`
}

// NewEnding returns the form of an ending.
func NewEnding(e *app.Ending) Ending {
	return Ending{
		Outcome: string(e.Outcome), Reason: e.Reason, Error: e.Error, Output: e.Output, ExitStatus: e.Status,
		ResumeFrom: e.From,
	}
}

// App returns the ending of the form.
func (e *Ending) App() *app.Ending {
	return &app.Ending{
		Outcome: journal.Outcome(e.Outcome), Reason: e.Reason, Error: e.Error, Output: e.Output, Status: e.ExitStatus,
		From: e.ResumeFrom,
	}
}

// Exhausted is the budget that a run waits for.
type Exhausted struct {
	Budget string `json:"budget"`
	Limit  *int64 `json:"limit,omitempty" doc:"Current limit; dollars in millionths"`
	Enough int64  `json:"enough,omitempty" doc:"A limit with which the run can continue"`
}

// NewExhausted returns the form of a budget.
func NewExhausted(b app.Budget) Exhausted {
	return Exhausted{Budget: b.Name, Limit: b.Limit, Enough: b.Enough}
}

// App returns the budget of the form.
func (e *Exhausted) App() app.Budget {
	return app.Budget{Name: e.Budget, Limit: e.Limit, Enough: e.Enough}
}
