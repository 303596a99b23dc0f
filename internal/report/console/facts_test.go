package console_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/report/console"
)

// stage is a run whose facts a test supplies.
type stage struct {
	t     *testing.T
	p     *console.Progress
	seq   journal.Seq
	lines []string
	last  console.Notice
}

func play(t *testing.T, facts ...journal.Fact) *stage {
	s := &stage{t: t, p: console.NewProgress(run, nil)}
	s.take(facts...)
	return s
}

func (s *stage) take(facts ...journal.Fact) {
	s.t.Helper()
	s.lines = nil
	for _, f := range facts {
		s.seq++
		notices, err := s.p.Apply(&journal.Event{Seq: s.seq, At: 1000, Fact: f})
		if err != nil {
			s.t.Fatal(err)
		}
		for _, n := range notices {
			s.last = n
			if line := n.Line(console.Style{}); line != "" {
				s.lines = append(s.lines, strings.TrimPrefix(line, "00:00:01  "))
			}
		}
	}
}

func (s *stage) expectLines(want ...string) {
	s.t.Helper()
	if got := strings.Join(s.lines, "\n"); got != strings.Join(want, "\n") {
		s.t.Errorf("got:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
}

// expectArea checks that the status area contains a text.
func (s *stage) expectArea(want string) {
	s.t.Helper()
	area := strings.Join(s.p.Area(time.UnixMilli(2000), console.Size{Columns: 160, Rows: 24}, console.Style{}), "\n")
	if !strings.Contains(area, want) {
		s.t.Errorf("%q is not in:\n%s", want, area)
	}
}

var work = journal.TaskID{Place: journal.Place{Step: "send"}}

func note(n int, kind string, data any) journal.TaskNoted {
	raw, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	return journal.TaskNoted{TaskID: work, N: n, Kind: kind, Data: raw}
}

// The line of a finished command has the last line of its output.
func TestFinishedCommandShowsOutput(t *testing.T) {
	for output, want := range map[string]string{
		"":                       "send  done",
		"built\n":                "send  done in 0 ms: built",
		"one\n\x1b[31mtwo\n\n":   "send  done in 0 ms: 2 lines, last: \ufffd[31mtwo",
		strings.Repeat("x", 300): "send  done in 0 ms: " + strings.Repeat("x", 99) + "…",
	} {
		raw, err := json.Marshal(map[string]any{"Output": output, "ExitCode": 0})
		if err != nil {
			t.Fatal(err)
		}
		s := play(t, journal.RunStarted{Name: "flow"}, journal.TaskStarted{TaskID: work, Kind: "command"})
		s.take(journal.TaskEnded{TaskID: work, Outcome: "ok", Final: true, Value: journal.Value{JSON: raw}})
		s.expectLines(want)
		if output == "built\n" {
			s.expectArea("✓ send  done in 0 ms: built")
		}
	}
}

func TestTotalsEqualThePlan(t *testing.T) {
	for _, r := range recordings(t) {
		var objects bytes.Buffer
		feed(t, console.NewJSON(&objects, r.options()), r.Appends)
		state := &plan.State{Run: run}
		for _, a := range r.Appends {
			state.Fold(a.Events)
		}
		for line := range strings.Lines(objects.String()) {
			var end struct {
				Event         console.Event
				Parent        string `json:"parent_run_id"`
				Steps, Tokens int64
			}
			if err := json.Unmarshal([]byte(line), &end); err != nil {
				t.Fatal(err)
			}
			if end.Event != console.RunFinished || end.Parent != "" {
				continue
			}
			used := state.Spent.Used
			if end.Steps != used.Steps || end.Tokens != used.InputTokens+used.OutputTokens {
				t.Errorf("%s: %+v, the plan has %+v", r.Name, end, used)
			}
		}
	}
}

func TestToolCallWaitsForApproval(t *testing.T) {
	opened := journal.GateOpened{
		Place: work.Place, Kind: journal.GateToolCall, Task: &work, Call: "send#0/call:1",
		Shows: map[string]journal.Value{"tool": {JSON: []byte(`"mail.send"`)}, "arguments": {JSON: []byte(`{}`)}},
	}
	for _, c := range []struct {
		decided journal.GateDecided
		outcome journal.Outcome
		want    string
	}{
		{
			journal.GateDecided{
				Method: journal.MethodPerson, Reason: plan.ReasonApproved, By: journal.Actor{User: "kim"},
			},
			"ok", "send  call to mail.send approved by kim",
		},
		{
			journal.GateDecided{Method: journal.MethodPerson, Reason: plan.ReasonDenied, Note: "not today"},
			"rejected", "send  call to mail.send rejected: not today",
		},
		{
			journal.GateDecided{Method: journal.MethodTimeout, Reason: plan.ReasonTimedOut},
			"failed", "send  call to mail.send timed out",
		},
	} {
		s := play(t, journal.RunStarted{Name: "flow"}, journal.TaskStarted{TaskID: work, Kind: "agent"})
		s.take(opened)
		s.expectLines("send  waiting for approval to call mail.send: espalier approve 11111111 send")
		s.expectArea("? send  waiting for approval to call mail.send")
		s.expectArea("1 step")
		c.decided.Place, c.decided.Outcome = work.Place, journal.OutcomeRerun
		s.take(c.decided)
		s.expectLines(c.want)
		if s.last.Outcome != c.outcome {
			t.Errorf("%s: the outcome is %q, want %q", c.want, s.last.Outcome, c.outcome)
		}
		s.take(journal.TaskStarted{TaskID: work, Kind: "agent", Rerun: 1},
			journal.TaskEnded{TaskID: work, Outcome: "ok", Final: true})
		s.expectLines("send  done")
		s.expectArea("1 step")
	}
}

// The command that is shown answers the gate: a person's reply needs a text. The --json output has the kinds of the
// API.
func TestReplyOfAPersonIsSentWithText(t *testing.T) {
	for text, want := range map[bool]string{
		false: "send  waiting for event answer: espalier signal 11111111 answer",
		true:  "send  waiting for a reply: espalier signal 11111111 answer --text TEXT",
	} {
		outline := report.NewOutline(&ir.Program{Blocks: []ir.Block{{Steps: []ir.Step{{
			ID: "send", Action: ir.Gate{Decider: ir.Event, Event: "answer", Text: text},
		}}}}})
		s := &stage{t: t, p: console.NewProgress(run, func(string) (*report.Outline, error) { return outline, nil })}
		s.take(journal.RunStarted{Name: "flow"})
		s.take(journal.GateOpened{Place: work.Place, Kind: journal.GateEvent, Event: "answer"})
		s.expectLines(want)
		s.expectArea("? " + want)
		if kind := journal.GateEvent.Asks(text); s.last.For != kind {
			t.Errorf("%q in JSON, want %q", s.last.For, kind)
		}
		s.take(journal.GateDecided{
			Place: work.Place, Outcome: journal.OutcomeOK, Method: journal.MethodEvent, Event: "answer",
			By: journal.Actor{User: "kim"},
		})
		s.expectLines("send  event answer received from kim")
	}
}

// A hook that repeats the failure before it does not show it again.
func TestHookDoesNotRepeatFailure(t *testing.T) {
	for _, again := range []bool{true, false} {
		outline := report.NewOutline(&ir.Program{Blocks: []ir.Block{{Steps: []ir.Step{{
			ID: "send", Type: ir.TypeHook, InheritOutcome: again, Action: ir.Task{Kind: "hook"},
		}}}}})
		s := &stage{t: t, p: console.NewProgress(run, func(string) (*report.Outline, error) { return outline, nil })}
		s.take(journal.RunStarted{Name: "flow"}, journal.TaskStarted{TaskID: work, Kind: "hook"})
		s.take(journal.TaskEnded{TaskID: work, Outcome: "failed", Error: "exit code 4", Final: true})
		want := []string{"send  failed after 0 ms: exit code 4"}
		if again {
			want = nil
		}
		s.expectLines(want...)
		s.take(journal.RunFinished{Outcome: "ok"})
		if got := strings.Join(s.p.Summary(console.Style{}), "\n"); strings.Contains(got, "exit code 4") == again {
			t.Errorf("at the end:\n%s", got)
		}
	}
}

// A loop that reaches its limit succeeds, and its line mentions the limit.
func TestLoopAtItsLimitShowsTheLimit(t *testing.T) {
	loop := journal.Place{Step: "wait"}
	for reason, want := range map[string]string{
		"":                        "wait  done",
		string(ir.ClassLoopLimit): "wait  stopped after 0 ms: iteration limit (2) reached",
	} {
		s := play(t, journal.RunStarted{Name: "flow"}, journal.StepEntered{Place: loop, Mode: "loop", Max: 2})
		s.take(journal.StepLeft{Place: loop, Outcome: "ok", Reason: reason})
		s.expectLines(want)
	}
}

func TestHookMessagesAreShown(t *testing.T) {
	s := play(t, journal.RunStarted{Name: "flow"})
	s.take(journal.TaskStarted{TaskID: work, Kind: "hook"})
	s.expectLines()
	s.take(note(1, journal.NoteLogLine, journal.LogLine{Text: "about to send"}))
	s.expectLines("send  about to send")
	s.expectArea("· send  about to send")
	s.take(journal.TaskEnded{TaskID: work, Outcome: "ok", Final: true})
	s.expectLines()
	s.take(journal.RunFinished{Outcome: "ok"})
	if got := strings.Join(s.p.Summary(console.Style{}),
		"\n"); got != "  · send  about to send\nflow  finished in 0 ms, 1 step" {
		t.Errorf("at the end:\n%s", got)
	}
}

func TestModelRetryIsShown(t *testing.T) {
	s := play(t, journal.RunStarted{Name: "flow"}, journal.TaskStarted{TaskID: work, Kind: "agent"})
	s.take(note(1, journal.NoteModelRetry,
		journal.ModelRetry{ModelError: journal.ModelError{Class: "RATE_LIMIT", Message: "slow down"}, Wait: 5000}))
	s.expectLines("send  model call failed: slow down; retrying in 5.0 s")
	s.expectArea("model call failed, retrying in 4.0 s")
	s.take(note(2, journal.NoteReply, journal.Reply{}))
	if area := s.p.Area(time.UnixMilli(2000), console.Size{},
		console.Style{}); strings.Contains(strings.Join(area, "\n"), "retrying") {
		t.Errorf("%q", area)
	}
}

func TestConcurrentToolCallsAreShown(t *testing.T) {
	s := play(t, journal.RunStarted{Name: "flow"}, journal.TaskStarted{TaskID: work, Kind: "agent"})
	s.take(note(1, journal.NoteToolCall, journal.ToolUse{Name: "look", CallID: "1"}),
		note(2, journal.NoteToolCall, journal.ToolUse{Name: "read", CallID: "2"}))
	s.expectArea("tool look and 1 more")
	s.take(note(3, journal.NoteToolResult, journal.ToolUse{Name: "look", CallID: "1"}))
	s.expectArea("tool read")
}

func TestToolProgressIsShown(t *testing.T) {
	s := play(t, journal.RunStarted{Name: "flow"}, journal.TaskStarted{TaskID: work, Kind: "agent"},
		note(1, journal.NoteToolCall, journal.ToolUse{Name: "look", CallID: "1"}))
	for i, c := range []struct {
		far  journal.Progress
		want string
	}{
		{journal.Progress{Done: 1, Total: 4, Message: "on the way"}, "tool look 25%: on the way"},
		{journal.Progress{Done: 9, Total: 4}, "tool look 100%"},
		{journal.Progress{Done: 3, Message: " third page\n"}, "tool look third page"},
		{journal.Progress{Done: 3}, "tool look running (3 so far)"},
	} {
		c.far.Name, c.far.CallID = "look", "1"
		s.take(note(2+i, journal.NoteProgress, c.far))
		s.expectLines("send  " + c.want)
		s.expectArea("▸ send  1.0 s · " + c.want)
	}
	s.take(note(9, journal.NoteToolResult, journal.ToolUse{Name: "look", CallID: "1"}))
	s.expectLines("send  tool look returned")
	n := console.Notice{Event: console.ToolProgress, Tool: "look", Done: 1, Total: 4}
	if line, err := n.JSON(); err != nil ||
		!strings.Contains(string(line), `"event":"tool.progress","tool":"look","done":1,"total":4}`) {
		t.Errorf("%s %v", line, err)
	}
}

func TestContinuedAndRewoundRuns(t *testing.T) {
	s := play(t, journal.RunStarted{Name: "flow", From: &journal.Origin{Run: "22222222-aaaa", Step: "send"}})
	s.expectLines("flow  run 11111111-1111-4111-8111-111111111111 started: continues run 22222222 from step send")
	s.take(journal.Rewound{Step: "send", By: journal.Actor{User: "kim"}})
	s.expectLines("flow  rewound to send by kim")
}

// With every budget, the first line fits 80 columns and says how much of each is left.
func TestEveryBudgetFitsTheLine(t *testing.T) {
	steps, tokens, tools, money, seconds := int64(10), int64(50_000), int64(40), int64(5_000_000), int64(600)
	s := play(t, journal.RunStarted{Name: "hello", Budget: &journal.Limits{
		Steps: &steps, Tokens: &tokens, ToolCalls: &tools, MicroDollars: &money, ActiveSeconds: &seconds,
	}}, journal.TaskStarted{TaskID: work, Kind: "agent"})
	line := s.p.Area(time.UnixMilli(2000), console.Size{Columns: 80, Rows: 24}, console.Style{})[0]
	if want := "left: 9 steps, 50,000 tokens, 40 tool calls, $5.00, 9 min 59 s"; !strings.Contains(line, want) {
		t.Errorf("got %q", line)
	}
}

// Where not every budget fits, those that do are shown whole.
func TestNoBudgetIsCutInTheMiddle(t *testing.T) {
	steps, tokens, tools, seconds := int64(30), int64(600_000), int64(40), int64(600)
	s := play(t, journal.RunStarted{
		Name:   "support-triage",
		Budget: &journal.Limits{Steps: &steps, Tokens: &tokens, ToolCalls: &tools, ActiveSeconds: &seconds},
	}, journal.TaskStarted{TaskID: work, Kind: "agent"})
	s.take(note(1, journal.NoteReply, journal.Reply{Offline: "scripted"}))
	line := s.p.Area(time.UnixMilli(2000), console.Size{Columns: 80, Rows: 24}, console.Style{})[0]
	if want := "scripted · left: 29 steps, 600,000 tokens, …"; !strings.HasSuffix(line, want) {
		t.Errorf("got %q", line)
	}
}

// The line of a budget of which something is left says what the next call may cost.
func TestCostBudgetIsTooSmallForNextCall(t *testing.T) {
	limit := int64(2_000_000)
	s := play(t, journal.RunStarted{Name: "flow", Budget: &journal.Limits{MicroDollars: &limit}},
		journal.TaskStarted{TaskID: work, Kind: "agent"})
	wait := journal.BudgetWait{TaskID: work, N: 1, Budget: ir.BudgetMoney}
	wait.Amount.MicroDollars = 2_750_000
	s.take(wait)
	s.expectLines("send  paused: the next model call may cost $2.75, and $2.00 of the cost budget is left")
	s.expectArea("the next model call may cost $2.75, and $2.00 of the cost budget is left")
}

func TestCostBudgetIsShown(t *testing.T) {
	limit, seconds := int64(2_000_000), int64(60)
	s := play(t, journal.RunStarted{
		Name:   "flow",
		Budget: &journal.Limits{MicroDollars: &limit, ActiveSeconds: &seconds},
	}, journal.TaskStarted{
		TaskID: work,
		Kind:   "agent",
	})
	reply := note(1, journal.NoteReply, journal.Reply{})
	reply.Usage.MicroDollars = 500_000
	s.take(reply)
	s.expectArea("$1.50 of $2.00 left")
	s.expectArea("59.0 s of 1 min left")
	s.expectArea("▸ send  1.0 s · $0.50")
	s.take(journal.BudgetWait{TaskID: work, N: 1, Budget: ir.BudgetMoney})
	s.expectLines("send  paused: cost budget ($2.00) exhausted")
	s.take(journal.BudgetRaised{Budget: ir.BudgetMoney, To: 3_000_000})
	s.expectLines("flow  cost budget raised to $3.00")
	s.take(journal.TaskEnded{TaskID: work, Outcome: "ok", Final: true}, journal.RunFinished{Outcome: "ok"})
	s.expectLines("send  done in 0 ms, $0.50", "flow  finished in 0 ms, 1 step, $0.50")
}

// A task that sleeps shows the reason, and when it continues.
func TestSleepingTaskSaysWhenItContinues(t *testing.T) {
	s := play(t, journal.RunStarted{Name: "w"}, journal.TaskStarted{TaskID: work, Kind: "agent"})
	s.take(journal.RetrySet{TaskID: work, Due: 1000 + 7_200_000, Continues: true, Why: "rate limit"})
	s.expectLines("send  waits: rate limit; continues in 2 h")
}
