package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/agent"
	"github.com/espalier-run/espalier/internal/step/steptest"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// outside is an external agent: it plants a tree with a tool of its own. It keeps its sessions, and stops when its
// consumer stops.
type outside struct {
	names, resumes bool
	own            []string
	sessions       map[string]*planting
	requests       []provider.Request
	planted        int
	answers        []string // by the number of answers that were given
	given          int
	// killed ends its work after it has reported its usage.
	killed func(context.Context, *provider.Reply) error
}

type planting struct{ called, done bool }

func (o *outside) Agent(model string) *provider.AgentInfo {
	if model != "outside" {
		return nil
	}
	return &provider.AgentInfo{
		Name: "outside", Tools: o.own, Resumes: o.resumes, NamesSession: o.names,
		Acts: func(g []provider.Grant) bool { return len(g) > 0 },
	}
}

func (o *outside) Generate(ctx context.Context, req provider.Request) iter.Seq2[provider.Chunk, error] {
	o.requests = append(o.requests, req)
	return func(yield func(provider.Chunk, error) bool) {
		id := req.Task.Session
		p := o.sessions[id]
		if id != "" && p == nil {
			yield(provider.Chunk{},
				&provider.Error{Class: ir.ClassBadRequest, Message: "no such session", NoSession: true})
			return
		}
		if p == nil {
			if id = req.Task.NewSession; id == "" {
				id = fmt.Sprintf("s%d", len(o.sessions)+1)
			}
			p = &planting{}
			o.sessions[id] = p
		}
		tell := func(c provider.Chunk) bool { return yield(c, nil) }
		if !tell(provider.Chunk{Session: id}) || !o.work(p, tell) {
			return
		}
		if o.killed != nil {
			used := &provider.Reply{
				Usage:       provider.Usage{Input: 200, Output: 40},
				AgentResult: &provider.AgentResult{Session: id, Turns: 2},
			}
			if tell(provider.Chunk{Used: used}) {
				yield(provider.Chunk{}, o.killed(ctx, used))
			}
			return
		}
		answer := o.answers[min(o.given, len(o.answers)-1)]
		o.given++
		cost := int64(1500)
		tell(provider.Chunk{Reply: &provider.Reply{
			Blocks: []provider.Block{
				{Type: provider.ToolUse, ToolID: "t1", ToolName: "Plant", Input: json.RawMessage(`{}`)}, {Type: provider.Text, Text: answer},
			},
			Stop: provider.Done, Model: "outside", Usage: provider.Usage{Input: 10, Output: 5},
			AgentResult: &provider.AgentResult{Session: id, Answer: answer, Turns: 3, MicroDollars: &cost},
		}})
	}
}

// work plants the tree unless that was done.
func (o *outside) work(p *planting, tell func(provider.Chunk) bool) bool {
	if p.done {
		return true
	}
	call := provider.AgentToolEvent{ID: "t1", Name: "Plant", Input: json.RawMessage(`{}`)}
	if !p.called && !tell(provider.Chunk{ToolEvent: &call}) {
		return false
	}
	p.called = true
	o.planted++
	p.done = true
	call.Returned, call.Output = true, json.RawMessage(`"planted"`)
	return tell(provider.Chunk{ToolEvent: &call})
}

func newOutside() *outside {
	return &outside{
		names: true, resumes: true, own: []string{"Plant"},
		sessions: map[string]*planting{}, answers: []string{"It is planted."},
	}
}

// outsideJob returns a step whose agent is outside.
func outsideJob(t *testing.T, o *outside, log *steptest.Log, set steptest.Settings) *step.Job {
	play := steptest.Play{Settings: set}
	job := play.Job("agent", t.TempDir(), log, &steptest.World{})
	job.Model = o
	job.Workflow.Tools.AllowAll = true
	for i := range job.Workflow.Agents {
		job.Workflow.Agents[i].Model = "outside"
		job.Workflow.Agents[i].Tools = []ir.Name{{Name: "Plant"}}
	}
	job.History = slices.Clone(log.Notes)
	return job
}

// The tool calls and the usage that an external agent reports are recorded, and its session before anything else.
func TestExternalAgentIsRecorded(t *testing.T) {
	o, log := newOutside(), &steptest.Log{}
	result, err := agent.Runner{}.Run(t.Context(),
		outsideJob(t, o, log, steptest.Settings{"agent": "handy"}))
	log.Finish(result)
	if err != nil || string(result.Value) != `"It is planted."` || o.planted != 1 {
		t.Fatalf("%s, %v, planted %d", result.Value, err, o.planted)
	}
	want := []string{
		journal.NotePrompt, journal.NoteAgent, journal.NoteToolCall, journal.NoteToolResult, journal.NoteReply,
	}
	if !slices.Equal(log.Kinds(), want) {
		t.Errorf("%v", log.Kinds())
	}
	for _, n := range log.Notes[2:4] {
		if !strings.Contains(string(n.Data), `"fidelity":"agent_emitted"`) {
			t.Errorf("%s", n.Data)
		}
	}
	if log.Used != (journal.Usage{ModelCalls: 3, InputTokens: 10, OutputTokens: 5, MicroDollars: 1500}) ||
		len(log.Open) > 0 {
		t.Errorf("used %+v, open %v", log.Used, log.Open)
	}
	if log.Most.ModelCalls != stepkind.DefaultMaxTurns ||
		log.Most.OutputTokens != stepkind.DefaultMaxTurns*stepkind.DefaultReplyTokens {
		t.Errorf("set aside %+v", log.Most)
	}
	w := o.requests[0].Task
	if len(w.Grants) != 1 || w.Grants[0].Tool != "Plant" || w.Turns != stepkind.DefaultMaxTurns ||
		len(o.requests[0].Tools) > 0 {
		t.Errorf("%+v", w)
	}
}

// A coding agent whose work ends early is charged the 240 tokens that it had reported, and not the worst case that was
// reserved for all its turns: if its program is killed, if its step is canceled, and if Espalier itself is killed.
func TestKilledCodingAgentIsChargedWhatItReported(t *testing.T) {
	want := journal.Usage{ModelCalls: 2, InputTokens: 200, OutputTokens: 40}
	for name, killed := range map[string]func(context.CancelFunc) func(context.Context, *provider.Reply) error{
		"program": func(context.CancelFunc) func(context.Context, *provider.Reply) error {
			return func(_ context.Context, used *provider.Reply) error {
				return &provider.Error{Class: ir.ClassAPI, Message: "killed", Billable: true, Partial: used}
			}
		},
		"step": func(cancel context.CancelFunc) func(context.Context, *provider.Reply) error {
			return func(ctx context.Context, used *provider.Reply) error {
				cancel()
				return &provider.Interrupted{Cause: ctx.Err(), Partial: used}
			}
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		o, log := newOutside(), &steptest.Log{}
		o.killed = killed(cancel)
		result, err := agent.Runner{}.Run(ctx, outsideJob(t, o, log, steptest.Settings{"agent": "handy"}))
		// A journal has all notes but the last, if Espalier is killed at this point.
		if used := journal.Reported(log.Notes); used == nil || *used != want {
			t.Errorf("%s: reported before the end: %+v", name, used)
		}
		log.Finish(result)
		if err == nil || log.Used != want || log.Most.OutputTokens <= 10*want.OutputTokens {
			t.Errorf("%s: charged %+v of at most %+v, %v", name, log.Used, log.Most, err)
		}
	}
}

// After a stop at any write, a session that can be resumed is resumed, and the tool acts once.
func TestExternalAgentResumesItsSession(t *testing.T) {
	for _, names := range []bool{true, false} {
		for at := 1; ; at++ {
			stopped := false
			for _, after := range []bool{false, true} {
				label := fmt.Sprintf("names %t, write %d, after %t", names, at, after)
				o, log := newOutside(), &steptest.Log{StopAt: at, After: after}
				o.names = names
				result, err := agent.Runner{}.Run(t.Context(),
					outsideJob(t, o, log, steptest.Settings{"agent": "handy"}))
				if !errors.Is(err, steptest.ErrStopped) {
					continue
				}
				stopped = true
				recovery := agent.Runner{}.Recovery(nil, log.Notes)
				known := slices.ContainsFunc(log.Notes, func(n journal.TaskNoted) bool {
					return n.Kind == journal.NoteAgent && strings.Contains(string(n.Data), `"session"`)
				})
				begun := slices.Contains(log.Kinds(), journal.NoteAgent)
				if want := map[bool]step.Recovery{true: step.Ask, false: step.Rerun}[begun &&
					!known]; recovery != want {
					t.Errorf("%s: %s, want %s", label, recovery, want)
				}
				log = steptest.Resumed(log.Notes)
				result, err = agent.Runner{}.Run(t.Context(),
					outsideJob(t, o, log, steptest.Settings{"agent": "handy"}))
				if err != nil || string(result.Value) != `"It is planted."` {
					t.Errorf("%s: %s, %v", label, result.Value, err)
				}
				if recovery == step.Rerun && o.planted != 1 {
					t.Errorf("%s: planted %d times", label, o.planted)
				}
				// And once more, when all of it is on record.
				log.Finish(result)
				asked := len(o.requests)
				again, err := agent.Runner{}.Run(t.Context(),
					outsideJob(t, o, steptest.Resumed(log.Notes), steptest.Settings{"agent": "handy"}))
				if err != nil || string(again.Value) != string(result.Value) || len(o.requests) != asked {
					t.Errorf("%s: replayed: %s, %v", label, again.Value, err)
				}
			}
			if !stopped {
				break
			}
		}
	}
}

// A lost session starts over if the agent has used no tool in it; otherwise the step fails, because the outcome is
// unknown.
func TestLostSessionStartsOverOnlyIfNothingWasDone(t *testing.T) {
	for at, want := range map[int]bool{1: true, 2: false} { // before and after the call of its tool is noted
		o, log := newOutside(), &steptest.Log{StopAt: at, After: true}
		_, err := agent.Runner{}.Run(t.Context(),
			outsideJob(t, o, log, steptest.Settings{"agent": "handy"}))
		if !errors.Is(err, steptest.ErrStopped) {
			t.Fatal(err)
		}
		o.sessions = map[string]*planting{}
		log = steptest.Resumed(log.Notes)
		result, err := agent.Runner{}.Run(t.Context(),
			outsideJob(t, o, log, steptest.Settings{"agent": "handy"}))
		if (err == nil) != want || err != nil && !strings.Contains(err.Error(), "it is not started over") {
			t.Errorf("stopped at %d: %s, %v", at, result.Value, err)
		}
	}
}

// An invalid reply is repaired in the same session.
func TestExternalAgentRepairsInTheSameSession(t *testing.T) {
	o, log := newOutside(), &steptest.Log{}
	o.answers = []string{"perhaps", `{"approved":true}`}
	result, err := agent.Runner{}.Run(t.Context(),
		outsideJob(t, o, log, steptest.Settings{"agent": "handy", "verdict": true}))
	if err != nil || string(result.Value) != `{"approved":true}` {
		t.Fatalf("%s, %v", result.Value, err)
	}
	if len(o.requests) != 2 || o.requests[1].Task.Session != o.requests[0].Task.NewSession || o.planted != 1 {
		t.Errorf("%+v", o.requests[1].Task)
	}
}

// A tool of the step that the external agent does not have is an error.
func TestExternalAgentUsesOnlyItsOwnTools(t *testing.T) {
	o := newOutside()
	o.own = []string{"Water"}
	_, err := agent.Runner{}.Run(t.Context(), outsideJob(t, o, &steptest.Log{}, steptest.Settings{"agent": "handy"}))
	var failed *step.Error
	if !errors.As(err, &failed) || failed.Class != ir.ClassMissing || !strings.Contains(failed.Message, `"Plant"`) || len(o.requests) > 0 {
		t.Errorf("%v", err)
	}
}
