package audit

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/report"
)

// moment writes what a moment of a run or a step is made of.
func (p *projector) moment(e *journal.Event, m *report.Moment) error {
	switch m.What {
	case report.RunBegan:
		return p.runStart(e, m)
	case report.RunEnded:
		return p.runEnd(e, m)
	case report.StepBegan:
		return p.stepStart(e, m)
	case report.StepEnded:
		return p.stepEnd(e, m)
	case report.StepSkipped:
		return p.write(m.Run, m.Step, StepSkipped, m.At, func(f *fields) error {
			if info := m.Step.Info; info != nil && info.Step.When != nil {
				f.text("condition", info.Step.When.Text)
			}
			f.text("reason_code", report.ReasonCondition)
			return nil
		})
	case report.StepNoted:
		return p.note(m)
	}
	return nil
}

func (p *projector) runStart(e *journal.Event, m *report.Moment) error {
	return p.write(m.Run, nil, RunStart, m.At, func(f *fields) error {
		f.text("audit_format", Format)
		f.text("workflow_name", m.Run.Name)
		f.text("definition", p.started.Definition)
		input, limits := p.started.Input, p.started.Budget
		if x, ok := e.Fact.(journal.FrameOpened); ok {
			input, limits = x.Vars["input"], x.Budget
			f.text("called_by_step", m.Run.At.Path)
		} else {
			f.text("format", p.started.Format)
			f.actor(p.started.By)
			if from := p.started.From; from != nil {
				f.text("continues_run", string(from.Run))
				f.text("continues_from", from.Step)
			}
			if err := p.sources(f); err != nil {
				return err
			}
		}
		if m.Run.Program != nil {
			f.text("version", m.Run.Program.Version)
		}
		f.object("budgets", budgets(limits))
		return p.value(f, "input_summary", input, someBytes)
	})
}

// sources names the files that the definition was made of.
func (p *projector) sources(f *fields) error {
	if p.files == nil {
		return nil
	}
	files, err := p.files(p.stream.Context(), p.started.Definition)
	if err != nil || len(files) == 0 {
		return err
	}
	b := append(f.values, '[')
	for i, one := range files {
		if i > 0 {
			b = append(b, ',')
		}
		var o fields
		o.text("path", one.Path)
		o.text("role", one.Role)
		o.text("sha256", one.SHA256)
		b = o.append(b)
	}
	f.add("files", append(b, ']'))
	return nil
}

// budgets are limits under the names of the specification.
func budgets(l *journal.Limits) *fields {
	f := &fields{}
	put := func(name string, limit *int64) {
		if limit != nil {
			f.number(name, *limit)
		}
	}
	if l != nil {
		put("max_steps", l.Steps)
		put("max_tool_calls", l.ToolCalls)
		put("max_tokens", l.Tokens)
		put("deadline_seconds", l.ActiveSeconds)
		put("max_cost_micro_dollars", l.MicroDollars)
	}
	return f
}

func (p *projector) runEnd(e *journal.Event, m *report.Moment) error {
	event, status := RunComplete, "completed"
	if m.Outcome != report.OutcomeOK {
		event, status = RunFailed, m.Outcome
	}
	var reason, last string
	switch x := e.Fact.(type) {
	case journal.RunFinished:
		reason, last = x.Reason, x.Last
	case journal.FrameClosed:
		reason, last = x.Reason, x.Step
		if reason == "" {
			reason = x.Class
		}
	}
	return p.write(m.Run, nil, event, m.At, func(f *fields) error {
		f.text("status", status)
		f.number("total_duration_ms", int64(m.At-m.Run.Began))
		f.usage("total_", m.Run.Used)
		f.text("last_step", last)
		switch {
		case event == RunFailed:
			f.says("error", m.Error)
			f.text("reason_code", report.FailCode(m.Outcome, reason))
		case reason == plan.ReasonStopNotMet:
			f.raw("stop_condition_met", "false")
		default:
			f.text("reason_code", report.ReasonCompleted)
		}
		return p.value(f, "output_summary", m.Value, someBytes)
	})
}

func (p *projector) stepStart(e *journal.Event, m *report.Moment) error {
	v := p.visit(m.Step)
	var missing []string
	if x, ok := e.Fact.(journal.TaskStarted); ok {
		missing = x.MissingReads
	}
	return p.write(m.Run, m.Step, StepStart, m.At, func(f *fields) error {
		typ := m.Step.Kind
		if info := m.Step.Info; info != nil {
			if info.Step.Type != "" {
				typ = info.Step.Type
			}
			f.text("description", info.Step.Description)
			textsOf(f, "reads", info.Step.Reads, func(r *ir.Ref) string { return r.Path })
			if task := info.Step.Task(); task != nil {
				if agent := task.Settings.Get("agent"); len(agent) > 0 && json.Unmarshal(agent, &v.agent) == nil {
					f.text("agent", v.agent)
				}
			}
		}
		f.text("type", typ)
		f.texts("missing_reads", missing)
		f.text("fallback_for", m.Step.For)
		f.text("child_run_id", string(m.Step.Child))
		return nil
	})
}

func (p *projector) stepEnd(e *journal.Event, m *report.Moment) error {
	v := p.visit(m.Step)
	if err := p.gateDecision(e, m, v); err != nil {
		return err
	}
	if !m.Value.IsZero() || len(v.missing) > 0 {
		err := p.write(m.Run, m.Step, StepOutput, m.At, func(f *fields) error {
			f.texts("missing_files", v.missing)
			err := p.value(f, "output_summary", m.Value, someBytes)
			textsOf(f, "writes", writes(e.Fact), func(w *journal.Write) string { return w.Path })
			return err
		})
		if err != nil {
			return err
		}
	}
	class, reason := report.Ending(e.Fact)
	err := p.write(m.Run, m.Step, StepComplete, m.At, func(f *fields) error {
		code, own := report.ReasonCode(m, class, reason)
		f.number("attempts", int64(max(v.attempts, 1)))
		f.text("child_run_id", string(m.Step.Child))
		f.text("declared_reason_code", own)
		f.text("done_by", v.doneBy)
		f.number("duration_ms", int64(m.At-m.Step.Began))
		f.says("error", m.Error)
		f.text("error_class", class)
		f.text("fallback_for", m.Step.For)
		f.usage("", m.Step.Used)
		f.text("reason_code", code)
		f.text("status", status(m))
		return nil
	})
	if err != nil {
		return err
	}
	at, _ := journal.PlaceOf(e.Fact)
	if err := p.budgetCheck(m, at.Frame); err != nil {
		return err
	}
	return p.checkpoint(e, m, at.Frame)
}

// status is how a step ended, in the words of the specification and of F16.
func status(m *report.Moment) string {
	switch m.Outcome {
	case report.OutcomeOK:
		return "completed"
	case report.OutcomeFailed:
		if m.Step.Info != nil && m.Step.Info.Step.SkipOnError {
			return "skipped_on_error"
		}
	}
	return m.Outcome
}

func writes(f journal.Fact) []journal.Write {
	switch x := f.(type) {
	case journal.TaskEnded:
		return x.Writes
	case journal.StepLeft:
		return x.Writes
	case journal.GateDecided:
		return x.Writes
	}
	return nil
}

// budgetCheck tells what the run has used and has left, and the same of the
// branch when it has a budget of its own.
func (p *projector) budgetCheck(m *report.Moment, frame string) error {
	return p.write(m.Run, m.Step, BudgetCheck, m.At, func(f *fields) error {
		root := p.state.Spent
		for at := p.state.Frames[frame]; at != nil; at = p.state.Frames[at.Parent] {
			if at.Path == "" {
				root = at.Ledger
				break
			}
			if at.Ledger != nil && at.Ledger.Limits != (journal.Limits{}) && !slices.ContainsFunc(f.list, func(one field) bool { return one.name == "branch" }) {
				var b fields
				ledger(&b, at.Ledger, m.At)
				b.text("name", at.Name)
				f.object("branch", &b)
			}
		}
		if root != nil {
			ledger(f, root, m.At)
		}
		return nil
	})
}

func ledger(f *fields, l *plan.Ledger, now journal.Millis) {
	put := func(remaining, used string, n int64, limit *int64) {
		if limit == nil {
			f.raw(remaining, "null")
		} else {
			f.number(remaining, *limit-n)
		}
		f.number(used, n)
	}
	var limit *int64
	if l.Limits.ActiveSeconds != nil {
		ms := *l.Limits.ActiveSeconds * 1000
		limit = &ms
	}
	put("active_ms_remaining", "active_ms_used", l.ActiveAt(now).Milliseconds(), limit)
	put("cost_micro_dollars_remaining", "cost_micro_dollars_used", l.Used.MicroDollars, l.Limits.MicroDollars)
	put("steps_remaining", "steps_used", l.Used.Steps, l.Limits.Steps)
	put("tokens_remaining", "tokens_used", l.Used.InputTokens+l.Used.OutputTokens, l.Limits.Tokens)
	put("tool_calls_remaining", "tool_calls_used", l.Used.ToolCalls, l.Limits.ToolCalls)
}

// checkpoint tells that all of the state up to here is durable, as often as
// the workflow asks for.
func (p *projector) checkpoint(e *journal.Event, m *report.Moment, frame string) error {
	l := logOf(m.Run)
	if l == nil || m.Step.Depth > 0 {
		return nil
	}
	l.steps++
	if m.Run.Program == nil || m.Run.Program.CheckpointEvery == 0 || l.steps%m.Run.Program.CheckpointEvery != 0 {
		return nil
	}
	return p.write(m.Run, m.Step, CheckpointSaved, m.At, func(f *fields) error {
		f.number("journal_seq", int64(e.Seq))
		f.number("steps_complete", int64(l.steps))
		if at := p.state.Frames[frame]; at != nil {
			f.texts("state", slices.Sorted(maps.Keys(at.Scope)))
		}
		return nil
	})
}

// note writes what happened inside a step.
func (p *projector) note(m *report.Moment) error {
	n := m.Note
	v := p.visit(m.Step)
	record := func(event string, into any, fill func(f *fields)) error {
		unreadable := journal.ReadNote(n.Data, into) != nil // the transcript has it as it is
		return p.write(m.Run, m.Step, event, m.At, func(f *fields) error {
			f.text("part", n.Part)
			f.some("attempt", int64(n.Attempt))
			f.flag("unreadable", unreadable)
			fill(f)
			return nil
		})
	}
	switch n.Kind {
	case journal.NotePrompt:
		v.prompt = n.Data
	case journal.NoteReply:
		var r journal.Reply
		return record(ModelCall, &r, func(f *fields) {
			f.text("agent", v.agent)
			f.text("model", r.Model)
			f.text("stop", r.Stop)
			f.text("offline", r.Offline)
			f.number("input_tokens", n.Usage.InputTokens)
			f.number("output_tokens", n.Usage.OutputTokens)
			f.some("cache_read_tokens", r.Usage.CacheRead)
			f.some("cache_write_tokens", r.Usage.CacheWrite)
			f.number("cost_micro_dollars", n.Usage.MicroDollars)
		})
	case journal.NoteModelError, journal.NoteModelRetry:
		var x journal.ModelRetry
		return record(ModelError, &x, func(f *fields) {
			f.text("error_class", x.Class)
			f.says("error", x.Message)
			f.some("http_status", int64(x.Status))
			if n.Kind == journal.NoteModelRetry {
				f.number("retried_after_ms", int64(x.Wait))
			}
			f.usage("", n.Usage)
		})
	case journal.NoteToolResult:
		var t journal.ToolUse
		return record(ToolCall, &t, func(f *fields) {
			f.text("tool", t.Name)
			f.text("call_id", t.CallID)
			f.text("offline", t.Offline)
			f.text("reported_by", t.Fidelity)
			f.says("error", t.Error)
			f.text("error_class", t.Class)
			f.value("input_summary", t.Input, someBytes)
			f.value("output_summary", t.Output, someBytes)
			f.number("cost_micro_dollars", n.Usage.MicroDollars)
		})
	case journal.NoteCommand:
		var c journal.Command
		return record(CommandRun, &c, func(f *fields) {
			if raw, err := json.Marshal(c.Command); err == nil {
				f.value("command", raw, someBytes)
			}
		})
	case journal.NoteMerge:
		var d journal.MergeDecision
		event := MergeConflict
		if journal.ReadNote(n.Data, &d) == nil && d.Why == "duplicate" {
			event = MergeDuplicate
		}
		return record(event, &d, func(f *fields) {
			f.says("key", d.Key)
			f.text("resolution", d.Why)
			f.says("reason", d.Reason)
			f.texts("from", d.From)
			f.value("kept", d.Kept, someBytes)
			if len(d.Dropped) > 0 {
				if raw, err := json.Marshal(d.Dropped); err == nil {
					f.value("dropped", raw, someBytes)
				}
			}
		})
	case journal.NoteDone:
		var d journal.DoneBy
		if journal.ReadNote(n.Data, &d) == nil {
			v.doneBy = d.By
		}
	case journal.NoteMissingFile:
		var x journal.MissingFile
		if journal.ReadNote(n.Data, &x) == nil {
			v.missing = append(v.missing, x.Path)
		}
	}
	return nil
}

// ahead writes what comes before the moments of an event. step is the one that
// was open before it.
func (p *projector) ahead(e *journal.Event, step *report.Step) error {
	switch x := e.Fact.(type) {
	case journal.TimerFired:
		if x.What != plan.TimerGate || step == nil {
			return nil
		}
		return p.write(step.Run, step, WaitpointTimeout, e.At, func(f *fields) error {
			f.text("reason_code", report.ReasonTimeout)
			if g, ok := gateOf(step); ok {
				f.text("waitpoint", g.Name)
				f.text("waiting_for", g.Event)
				f.text("on_timeout", string(g.OnTimeout))
			}
			return nil
		})
	case journal.TaskStarted:
		if step != nil {
			p.visit(step).attempts = x.Attempt + 1
		}
	}
	return nil
}

func gateOf(s *report.Step) (ir.Gate, bool) {
	if s.Info == nil {
		return ir.Gate{}, false
	}
	g, ok := s.Info.Step.Action.(ir.Gate)
	return g, ok
}

// behind writes what is not a moment of a step, or comes after it.
func (p *projector) behind(e *journal.Event) error {
	step := p.trail.StepOf(e.Fact)
	if step != nil {
		switch x := e.Fact.(type) {
		case journal.TaskStarted:
			p.visit(step).attempts = x.Attempt + 1
		case journal.RetrySet:
			return p.write(step.Run, step, StepRetry, e.At, func(f *fields) error {
				f.number("attempt", int64(x.Attempt)+1)
				f.text("due", x.Due.Time().Format(report.TimeFormat))
				if x.Continues {
					f.says("error", x.Why)
				} else if frame := p.state.Frames[x.Frame]; frame != nil {
					f.text("error_class", frame.Tried.Class)
					f.says("error", frame.Tried.Error)
				}
				return nil
			})
		case journal.TaskLost:
			return p.write(step.Run, step, StepLost, e.At, func(f *fields) error {
				f.says("why", x.Why)
				f.text("policy", x.Policy)
				f.usage("charged_", x.Charged)
				return nil
			})
		case journal.GateOpened:
			return p.gateOpened(e, step, &x)
		case journal.BudgetWait:
			return p.write(step.Run, step, BudgetWait, e.At, func(f *fields) error {
				f.text("budget", x.Budget)
				f.usage("wanted_", x.Amount)
				return nil
			})
		case journal.BudgetRefused:
			return p.write(step.Run, step, BudgetRefused, e.At, func(f *fields) error {
				f.text("budget", x.Budget)
				f.usage("wanted_", x.Amount)
				f.text("reason_code", report.ReasonBudget)
				return nil
			})
		case journal.GateDecided:
			if x.Outcome == report.OutcomeRerun {
				if v := p.visit(step); v.opened != nil && v.opened.Kind == report.GateCall {
					return p.callDecided(e, step, v, &x)
				}
				return p.doubtDecided(e, step, &x)
			}
		}
	}
	if x, ok := e.Fact.(journal.FrameOpened); ok {
		p.opened = x
		return nil
	}
	root := p.trail.Root()
	if root == nil {
		return nil
	}
	say := func(event string, fill func(f *fields)) error {
		return p.write(root, nil, event, e.At, func(f *fields) error { fill(f); return nil })
	}
	switch x := e.Fact.(type) {
	case journal.BudgetWait: // of a step that has not begun
		return say(BudgetWait, func(f *fields) {
			f.text("budget", x.Budget)
			f.text("before_step", x.Key())
			f.usage("wanted_", x.Amount)
			f.some("wanted_steps", x.Amount.Steps)
		})
	case journal.FrameClosed:
		if x.Outcome != report.OutcomeSkipped {
			return nil
		}
		return p.workerSkipped(e, &x)
	case journal.TimerFired:
		if x.What == plan.TimerDeadline {
			return say(DeadlineReached, func(f *fields) {
				f.text("reason_code", report.ReasonTimeout)
				if !x.Run {
					f.text("branch", x.Frame)
				}
			})
		}
	case journal.BudgetRaised:
		return say(BudgetRaised, func(f *fields) {
			f.text("budget", x.Budget)
			f.number("to", x.To)
			f.actor(x.By)
		})
	case journal.Signalled:
		return say(SignalReceived, func(f *fields) {
			f.text("signal", x.Event)
			f.value("data", x.Data, someBytes)
			f.actor(x.By)
		})
	case journal.InputRefused:
		return say(InputRefused, func(f *fields) {
			f.text("input", x.Input)
			f.text("code", x.Code)
			f.says("why", x.Why)
			f.actor(x.By)
		})
	case journal.CancelRequested:
		return say(CancelRequested, func(f *fields) {
			f.text("branch", x.Frame)
			f.says("reason", x.Reason)
			f.actor(x.By)
		})
	case journal.Paused:
		return say(RunPaused, func(f *fields) { f.actor(x.By) })
	case journal.Continued:
		return say(RunContinued, func(f *fields) { f.actor(x.By) })
	case journal.StateEdited:
		var failed error
		return orElse(say(StateEdited, func(f *fields) {
			f.text("path", x.Path)
			f.actor(x.By)
			failed = p.value(f, "value", x.Value, shownBytes)
		}), &failed)
	case journal.Rewound:
		return say(RunRewound, func(f *fields) {
			f.text("to_step", x.Step)
			f.actor(x.By)
		})
	case journal.Claimed:
		if p.waiting {
			p.newOwner = x.Owner
			return nil
		}
		return say(RunResumed, func(f *fields) {
			f.text("cause", causeTakenOver)
			f.text("process", x.Owner)
		})
	}
	return nil
}

func orElse(err error, other *error) error {
	if err != nil {
		return err
	}
	return *other
}

// workerSkipped tells of a branch whose condition was false.
func (p *projector) workerSkipped(e *journal.Event, x *journal.FrameClosed) error {
	name := p.opened.Name // a branch that does not run is closed as soon as it is opened
	step := p.trail.At(p.opened.Parent)
	if step == nil || p.opened.Frame != x.Frame {
		return nil
	}
	return p.write(step.Run, step, WorkerSkipped, e.At, func(f *fields) error {
		f.text("worker", name)
		f.text("reason_code", x.Reason)
		if step.Info != nil {
			if par, ok := step.Info.Step.Action.(ir.Parallel); ok {
				for _, b := range par.Branches {
					if b.Name == name && b.When != nil {
						f.text("condition", b.When.Text)
					}
				}
			}
		}
		return nil
	})
}

// suspended tells that nothing is done any more until somebody or something
// comes; resumed, that it came. Only facts after which a run can come to rest
// are looked at, and only when no task is open: a fan-out over thousands stays
// linear.
func (p *projector) suspended(e *journal.Event) error {
	switch e.Fact.(type) {
	case journal.GateOpened, journal.BudgetWait, journal.Paused, journal.TimerFired, journal.FrameClosed, journal.RetrySet,
		journal.TaskEnded, journal.StepLeft, journal.GateDecided, journal.BudgetRefused:
	default:
		return nil
	}
	if p.waiting || p.goesOn(e) {
		return nil
	}
	index, rests := p.rest()
	if !rests {
		return nil
	}
	p.waiting, p.since = true, e.At
	return p.write(p.trail.Root(), nil, RunSuspended, e.At, func(f *fields) error {
		f.text("status", string(index.Status))
		f.text("waiting_for", index.Waiting)
		f.number("journal_seq", int64(e.Seq))
		switch {
		case index.Status != journal.Exceeded:
		case p.state.Expired:
			f.text("reason_code", report.ReasonTimeout)
		default:
			f.text("reason_code", report.ReasonBudget)
		}
		return nil
	})
}

// goesOn tells whether an event has ended a step after which the run takes the
// next one at once, as most do.
func (p *projector) goesOn(e *journal.Event) bool {
	s := p.state
	if s.Expired || s.Paused || len(s.Starved) > 0 {
		return false
	}
	at, ok := journal.PlaceOf(e.Fact)
	f := s.Frames[at.Frame]
	return ok && f != nil && f.Phase == plan.Ended
}

func (p *projector) rest() (journal.Index, bool) {
	s := p.state
	if s.Finished != nil || s.Root() == nil || s.Open > 0 && len(s.Starved) == 0 && !s.Expired {
		return journal.Index{}, false
	}
	index := s.Summary()
	switch index.Status {
	case journal.PausedAt, journal.Exceeded:
		return index, true
	case journal.Waiting:
	default:
		return index, false
	}
	for _, f := range s.Frames {
		if f.Phase == plan.Grouped && p.moves(f) {
			return index, false
		}
	}
	return index, true
}

// moves tells whether a step that is made of frames goes on at once: its last
// frame has closed, or there is room for the next one.
func (p *projector) moves(f *plan.Frame) bool {
	g := f.Group
	if g.Live == 0 {
		return true
	}
	if g.Mode != plan.ModeParallel || g.Stopped || g.Next >= g.Total {
		return false
	}
	if step := p.trail.At(f.Path); step != nil && step.Info != nil {
		if par, ok := step.Info.Step.Action.(ir.Parallel); ok {
			return par.MaxConcurrent == 0 || g.Live < par.MaxConcurrent
		}
	}
	return false
}

func (p *projector) resumed(e *journal.Event) error {
	if !p.waiting {
		return nil
	}
	if _, rests := p.rest(); rests {
		return nil
	}
	p.waiting = false
	root := p.trail.Root()
	if root == nil { // the run is over
		return nil
	}
	owner := p.newOwner
	p.newOwner = ""
	return p.write(root, nil, RunResumed, e.At, func(f *fields) error {
		f.text("cause", p.cause)
		f.number("waited_ms", int64(e.At-p.since))
		f.text("process", owner)
		return nil
	})
}

// cause is what can make a run go on that is at rest; empty for anything else.
func cause(f journal.Fact) string {
	switch x := f.(type) {
	case journal.GateDecided:
		return x.Method
	case journal.TimerFired:
		return "timer"
	case journal.BudgetRaised:
		return "budget_raised"
	case journal.Continued:
		return "continued"
	case journal.CancelRequested:
		return "cancelled"
	}
	return ""
}
