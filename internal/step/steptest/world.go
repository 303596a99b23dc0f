package steptest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/tool"
)

// ErrStopped is the error of a Log whose process was killed.
var ErrStopped = errors.New("the process is gone")

// Log is a step.Log in memory, which can stop like a process that is killed.
type Log struct {
	// Notes are durable.
	Notes []journal.TaskNoted
	// Open are the reservations that no note has settled.
	Open map[step.Reservation]journal.Usage
	// Used is the usage of the notes.
	Used journal.Usage
	// StopAt is the write, from 1, at which the process is killed: before it
	// is durable, or, with After, once it is. 0 is never.
	StopAt int
	After  bool
	// Refuse is the error of every reservation but the first RefuseAfter, if set.
	Refuse      error
	RefuseAfter int
	// Most is the largest reservation.
	Most journal.Usage

	writes int
	calls  step.Reservation
}

var _ step.Log = (*Log)(nil)

// Note keeps notes.
func (l *Log) Note(ctx context.Context, notes ...step.Note) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return l.write(func() { l.keep(notes) })
}

// Reserve grants everything, and keeps the notes.
func (l *Log) Reserve(ctx context.Context, amount journal.Usage, notes ...step.Note) (step.Reservation, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if l.Refuse != nil && int(l.calls) >= l.RefuseAfter {
		l.keep(notes)
		return 0, l.Refuse
	}
	err := l.write(func() {
		l.keep(notes)
		l.calls++
		if l.Open == nil {
			l.Open = map[step.Reservation]journal.Usage{}
		}
		l.Open[l.calls] = amount
		if amount.OutputTokens > l.Most.OutputTokens {
			l.Most = amount
		}
	})
	return l.calls, err
}

// ReserveUpTo grants everything.
func (l *Log) ReserveUpTo(
	ctx context.Context, most journal.Usage, _ int64, notes ...step.Note,
) (step.Reservation, journal.Usage, error) {
	n, err := l.Reserve(ctx, most, notes...)
	return n, most, err
}

func (l *Log) write(do func()) error {
	l.writes++
	switch {
	case l.StopAt == 0 || l.writes < l.StopAt:
		do()
		return nil
	case l.writes == l.StopAt && l.After:
		do()
	}
	return ErrStopped
}

func (l *Log) keep(notes []step.Note) {
	for _, n := range notes {
		data := step.JSON(n.Data)
		l.Notes = append(l.Notes, journal.TaskNoted{
			N: len(l.Notes) + 1, Kind: n.Kind, Data: data, Settles: int(n.Settles), Usage: n.Usage,
		})
		if n.Settles != 0 {
			if _, ok := l.Open[n.Settles]; !ok {
				panic(fmt.Sprintf("a %s settles reservation %d, which is not open", n.Kind, n.Settles))
			}
			delete(l.Open, n.Settles)
		}
		l.Used = l.Used.Plus(n.Usage)
	}
}

// Finish adds the end of a task: its last notes, and its remaining usage.
func (l *Log) Finish(r step.Result) {
	l.keep(r.Notes)
	l.Used = l.Used.Plus(r.Usage)
}

// Kinds returns the kinds of the notes, in order.
func (l *Log) Kinds() []string {
	out := make([]string, len(l.Notes))
	for i, n := range l.Notes {
		out[i] = n.Kind
	}
	return out
}

// Reply is the reply of the world's model in one turn.
type Reply struct {
	Text  string
	Calls []Call // of tools
	Stop  provider.StopReason
	// Refusal is the reason for a refusal.
	Refusal string
	Fail    error
}

// Call is a tool call that a model requests.
type Call struct {
	Tool  string
	Input string // JSON
	ID    string // of the call; empty: a unique one
}

// World is everything outside of a task. It counts requests.
type World struct {
	Replies []Reply // by turn
	Tools   map[string]Tool
	// Hold is called before every reply; its error is the reply.
	Hold func(ctx context.Context) error

	mu       sync.Mutex
	Requests []provider.Request
	Calls    map[string]int // of tools, by their keys
	// TraceParents are those of the calls.
	TraceParents []string
}

// Tool is a tool of the world.
type Tool struct {
	Spec   tool.Spec
	Answer string // JSON
	No     bool   // it says no
	Fail   error
}

// Generate returns the reply of the turn.
func (w *World) Generate(ctx context.Context, req provider.Request) iter.Seq2[provider.Chunk, error] {
	w.mu.Lock()
	req.Messages = slices.Clone(req.Messages)
	w.Requests = append(w.Requests, req)
	w.mu.Unlock()
	return func(yield func(provider.Chunk, error) bool) {
		if w.Hold != nil {
			if err := w.Hold(ctx); err != nil {
				yield(provider.Chunk{}, err)
				return
			}
		}
		if req.For.Turn >= len(w.Replies) {
			yield(provider.Chunk{}, fmt.Errorf("the world has no reply for turn %d", req.For.Turn))
			return
		}
		r := w.Replies[req.For.Turn]
		if r.Fail != nil {
			yield(provider.Chunk{}, r.Fail)
			return
		}
		reply := provider.Reply{Stop: provider.Done, Model: "world", Offline: "scripted"}
		if r.Text != "" {
			reply.Blocks = append(reply.Blocks, provider.Block{Type: provider.Text, Text: r.Text})
		}
		for i, c := range r.Calls {
			reply.Stop = provider.WantsTool
			reply.Blocks = append(reply.Blocks, provider.Block{
				Type: provider.ToolUse, ToolID: cmp.Or(c.ID, fmt.Sprintf("t%d-%d", req.For.Turn, i)),
				ToolName: c.Tool, Input: json.RawMessage(c.Input),
			})
		}
		if r.Stop != "" {
			reply.Stop, reply.Refusal = r.Stop, r.Refusal
		}
		provider.Play(ctx, req, reply)(yield)
	}
}

// Tool finds a tool.
func (w *World) Tool(name string) tool.Tool {
	if t, ok := w.Tools[name]; ok {
		t.Spec.Name = name
		return worldTool{w, t}
	}
	return nil
}

// Names returns the tools that match a pattern.
func (w *World) Names(pattern string) []string {
	var out []string
	for name := range w.Tools {
		if ir.MatchesTool(pattern, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

type worldTool struct {
	w *World
	t Tool
}

func (t worldTool) Spec() tool.Spec { return t.t.Spec }

func (t worldTool) Call(ctx context.Context, call tool.Call) (tool.Result, error) {
	t.w.mu.Lock()
	if t.w.Calls == nil {
		t.w.Calls = map[string]int{}
	}
	t.w.Calls[call.Key]++
	t.w.TraceParents = append(t.w.TraceParents, call.TraceParent)
	t.w.mu.Unlock()
	if t.w.Hold != nil {
		if err := t.w.Hold(ctx); err != nil {
			return tool.Result{}, err
		}
	}
	return tool.Result{Output: json.RawMessage(t.t.Answer), IsError: t.t.No, Offline: "scripted"}, t.t.Fail
}

// keys returns the keys of the calls that were made.
func (w *World) keys() []string { return slices.Sorted(maps.Keys(w.Calls)) }
