package scripted

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/provider"
)

// Options configure how a script is played.
type Options struct {
	// Simulate answers requests without an entry if the script has "otherwise: simulate".
	Simulate provider.Model
	// Sleep waits for delays; nil selects a real timer.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Model returns a model that sends the script's replies.
func (s *Script) Model(o Options) provider.Model {
	if o.Sleep == nil {
		o.Sleep = provider.Sleep
	}
	return model{s, o}
}

type model struct {
	script  *Script
	options Options
}

// Generate streams the reply of the best matching entry.
func (m model) Generate(ctx context.Context, req provider.Request) iter.Seq2[provider.Chunk, error] {
	return func(yield func(provider.Chunk, error) bool) {
		from := originOf(req.For)
		e := choose(m.script.replies, from, func(e *entry) bool {
			return e.exit == nil && (!e.onlyCallsTools() || !e.asked(req))
		})
		switch {
		case e == nil && m.script.simulate && m.options.Simulate != nil:
			m.options.Simulate.Generate(ctx, req)(yield)
		case e == nil:
			yield(provider.Chunk{}, m.script.miss(from, req))
		default:
			m.play(ctx, req, e, yield)
		}
	}
}

// play streams an entry. A failure comes in place of the reply, after the chunks.
func (m model) play(ctx context.Context, req provider.Request, e *entry, yield func(provider.Chunk, error) bool) {
	if e.delay > 0 {
		if err := m.options.Sleep(ctx, e.delay); err != nil {
			yield(provider.Chunk{}, err)
			return
		}
	}
	for c, err := range provider.Play(ctx, req, e.answer(req)) {
		if c.Reply != nil && e.fail != nil {
			c, err = provider.Chunk{}, &provider.Error{
				Class: ir.Class(e.fail.class), Status: e.fail.status, RetryAfter: e.fail.retryAfter,
				Message: e.fail.message,
			}
		}
		if !yield(c, err) {
			return
		}
	}
}

// answer returns the entry as a reply. An entry with tool calls repeats them until the conversation contains them.
func (e *entry) answer(req provider.Request) provider.Reply {
	out := provider.Reply{Stop: provider.Done, Usage: e.usage, Model: Name, Offline: journal.OfflineScripted}
	if e.thinking != "" {
		out.Blocks = append(out.Blocks, provider.Block{Type: provider.Thinking, Text: e.thinking})
	}
	if len(e.calls) > 0 && !e.asked(req) {
		for i, c := range e.calls {
			out.Blocks = append(out.Blocks,
				provider.Block{Type: provider.ToolUse, ToolID: e.callID(i), ToolName: c.name.Value, Input: c.input})
		}
		out.Stop = provider.WantsTool
		return out
	}
	if e.reply != nil {
		out.Blocks = append(out.Blocks, provider.Block{Type: provider.Text, Text: *e.reply})
	}
	if e.stop != "" {
		out.Stop = e.stop
	}
	return out
}

func (e *entry) callID(i int) string { return fmt.Sprintf("script-%d-%d", e.line, i+1) }

// asked reports whether the conversation already contains the entry's tool calls, by the ID of the first one, which has
// the line of the entry.
func (e *entry) asked(req provider.Request) bool {
	for _, m := range req.Messages {
		for _, b := range m.Blocks {
			if b.Type == provider.ToolUse && b.ToolID == e.callID(0) {
				return true
			}
		}
	}
	return false
}

func originOf(p provider.Purpose) origin {
	return origin{
		workflow: p.Workflow, step: p.Step, agent: p.Agent, key: p.Key,
		attempt: p.Attempt + 1, visit: p.Visit + 1, iteration: p.Iteration + 1, turn: p.Turn + 1,
		call: p.Call,
	}
}

// miss returns the error for a request without an entry; it names the request and the nearest entry.
func (s *Script) miss(from origin, req provider.Request) *provider.Error {
	return provider.Errorf(ir.ClassBadRequest, "%s has no reply for %s%s.%s", s.path, from, asking(req),
		s.near(s.replies, from))
}

func (s *Script) near(entries []*entry, from origin) string {
	if len(entries) == 0 {
		return " It has no entries."
	}
	if e := nearest(entries, from); e != nil {
		return fmt.Sprintf(" The nearest entry, in line %d, is for %s.", e.line, e)
	}
	return ""
}

// asking returns the start of the last prompt.
func asking(req provider.Request) string {
	for i := len(req.Messages) - 1; i >= 0; i-- {
		for _, b := range req.Messages[i].Blocks {
			text := strings.Join(strings.Fields(b.Text), " ")
			if b.Type != provider.Text || req.Messages[i].Role != provider.User || text == "" {
				continue
			}
			return fmt.Sprintf(", whose prompt starts with %q", diag.Shorten(text, maxShown))
		}
	}
	return ""
}

// maxShown is how much of a request messages contain.
const maxShown = 120
