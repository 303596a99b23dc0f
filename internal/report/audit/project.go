package audit

import (
	"cmp"
	"encoding/json"

	"github.com/espalier-run/espalier/internal/auditevent"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/report"
)

// recipe says how an event becomes a record.
type recipe struct {
	name func(ev *report.Event) string // "" means that there is no record
	fill func(p *projector, ev *report.Event, f *fields) error
}

// recipes are the records of each event, in their order.
var recipes = map[report.EventType][]recipe{
	report.RunStarted:   {{always(auditevent.RunStart), (*projector).runStart}},
	report.RunFinished:  {{ofOutcome(auditevent.RunComplete, auditevent.RunFailed), (*projector).runEnd}},
	report.RunSuspended: {{always(auditevent.RunSuspended), suspended}},
	report.RunResumed:   {{always(auditevent.RunResumed), resumed}},
	report.RunPaused:    {{always(auditevent.RunPaused), none}},
	report.RunContinued: {{always(auditevent.RunContinued), none}},
	report.RunRewound: {{
		always(auditevent.RunRewound),
		of(func(f *fields, x journal.Rewound) { f.text("to_step", x.Step) }),
	}},
	report.CancelRequested: {{always(auditevent.CancelRequested), of(cancelRequested)}},
	report.StateEdited:     {{always(auditevent.StateEdited), (*projector).stateEdited}},
	report.SignalReceived:  {{always(auditevent.SignalReceived), of(signalReceived)}},
	report.InputRefused:    {{always(auditevent.InputRefused), of(inputRefused)}},
	report.DeadlineReached: {{always(auditevent.DeadlineReached), of(deadlineReached)}},
	report.BudgetRaised:    {{always(auditevent.BudgetRaised), of(budgetRaised)}},
	report.BudgetWaiting:   {{always(auditevent.BudgetWait), budgetWait}},
	report.BudgetRefused:   {{always(auditevent.BudgetRefused), of(budgetRefused)}},
	report.StepStarted:     {{when(auditevent.StepStart, isStep), stepStart}},
	report.StepSkipped:     {{always(auditevent.StepSkipped), stepSkipped}},
	report.StepFinished: {
		{when(auditevent.StepOutput, hasOutput), (*projector).stepOutput},
		{when(auditevent.StepComplete, isStep), (*projector).stepComplete},
		{when(auditevent.BudgetCheck, isStep), budgetCheck},
	},
	report.StepRetrying:    {{always(auditevent.StepRetry), stepRetry}},
	report.CheckpointSaved: {{always(auditevent.CheckpointSaved), checkpoint}},
	report.BranchFinished:  {{when(auditevent.WorkerSkipped, isSkipped), workerSkipped}},
	report.TaskLost:        {{when(auditevent.StepLost, hasStep), of(stepLost)}},
	report.GateOpened:      {{gateOpenedName, (*projector).gateOpened}},
	report.GateApproved:    {{always(auditevent.GateApproval), (*projector).gateApproved}},
	report.GateEscalated:   {{always(auditevent.GateEscalated), gateEscalated}},
	report.GateExpired:     {{always(auditevent.WaitpointTimeout), gateExpired}},
	report.GateDecided:     {{gateDecidedName, (*projector).gateDecided}},
	report.GateJudged:      {{always(auditevent.GateDecision), (*projector).gateJudged}},
	report.ModelReplied:    {{always(auditevent.ModelCall), note(modelCall)}},
	report.ModelFailed:     {{always(auditevent.ModelError), note(modelError)}},
	report.ModelRetried:    {{always(auditevent.ModelError), note(modelError)}},
	report.ToolReturned:    {{always(auditevent.ToolCall), note(toolCall)}},
	report.CommandStarted:  {{always(auditevent.CommandRun), note(commandRun)}},
	report.MergeDecided:    {{mergeName, note(merged)}},
}

// always names a record that is written for every event of its type.
func always(name string) func(*report.Event) string {
	return func(*report.Event) string { return name }
}

// ofOutcome names a record by whether the event is a success.
func ofOutcome(ok, failed string) func(*report.Event) string {
	return func(ev *report.Event) string {
		if ev.Outcome == journal.OutcomeOK {
			return ok
		}
		return failed
	}
}

// when names a record that is written if a condition holds.
func when(name string, holds func(*report.Event) bool) func(*report.Event) string {
	return func(ev *report.Event) string {
		if !holds(ev) {
			return ""
		}
		return name
	}
}

func hasStep(ev *report.Event) bool   { return ev.Step != nil }
func isSkipped(ev *report.Event) bool { return ev.Outcome == journal.OutcomeSkipped }
func hasOutput(ev *report.Event) bool {
	return isStep(ev) && (!ev.Value.IsZero() || len(visitOf(ev.Step).Missing) > 0)
}

// isStep reports whether the event is about the execution of a step. Waitpoints
// and the approval of the start are not; only the records of gates have them.
func isStep(ev *report.Event) bool { return ev.Step.Info == nil || !ev.Step.Info.Step.Uncounted }

// of fills a record from the fact of its event.
func of[F journal.Fact](fill func(f *fields, x F)) func(*projector, *report.Event, *fields) error {
	return func(_ *projector, ev *report.Event, f *fields) error {
		fill(f, ev.Fact.(F))
		return nil
	}
}

// none leaves a record with what all records have.
func none(*projector, *report.Event, *fields) error { return nil }

// note fills a record from the note of its event. The transcript has what
// cannot be read.
func note[T any](fill func(f *fields, ev *report.Event, x *T)) func(*projector, *report.Event, *fields) error {
	return func(_ *projector, ev *report.Event, f *fields) error {
		f.text("part", ev.Work.Part)
		f.nonZero("attempt", int64(ev.Work.Attempt))
		f.flag("unreadable", ev.Note.Unreadable)
		fill(f, ev, report.Body[T](ev.Note))
		return nil
	}
}

// runStart records what a run consists of, and by whom it was started. A called run has the format, the person and the
// options of its caller, whose record names them.
func (p *projector) runStart(ev *report.Event, f *fields) error {
	run := ev.Run
	f.text("audit_format", Format)
	f.text("workflow_name", run.Name)
	f.text("definition", run.Definition)
	if run.Caller != nil {
		f.text("called_by_step", run.Caller.Path)
	} else {
		f.text("format", run.Format)
		f.actor(run.By)
		if run.From != nil {
			f.text("continues_run", string(run.From.Run))
			f.text("continues_from", run.From.Step)
			if x, ok := ev.Fact.(journal.RunStarted); ok {
				textsOf(f, "approved_before", x.Approved, func(one *journal.Approved) string { return one.Gate })
			}
		}
		f.text(confinement, confinementOf(run.Options))
		if err := p.sources(run.Definition, f); err != nil {
			return err
		}
	}
	if run.Program != nil {
		f.text("version", run.Program.Version)
	}
	f.object("budgets", budgets(ev.Limits))
	return p.value(f, "input_summary", ev.Value, someBytes)
}

// confinementOf returns how the commands of a run are confined, and what is not confined, from the options of the run.
func confinementOf(options json.RawMessage) string {
	var o struct {
		Confinement string `json:"confinement"`
	}
	_ = json.Unmarshal(options, &o) // most runs have none
	return o.Confinement
}

// sources adds the files that the definition was made of.
func (p *projector) sources(definition string, f *fields) error {
	if p.files == nil {
		return nil
	}
	files, err := p.files(p.stream.Context(), definition)
	if err != nil || len(files) == 0 {
		return err
	}
	setList(f, "files", files, func(b []byte, one *ir.File) []byte {
		o := newFields(nil)
		o.text("path", one.Path)
		o.text("role", one.Role)
		o.text("sha256", one.SHA256)
		return o.append(b)
	})
	return nil
}

// budgets returns limits under the names of the specification.
func budgets(l *journal.Limits) *fields {
	f := newFields(nil)
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

// runEnd records the result of a run and what it used in total.
func (p *projector) runEnd(ev *report.Event, f *fields) error {
	f.text("status", status(ev))
	f.number("total_duration_ms", int64(ev.At-ev.Run.Started))
	f.usage("total_", ev.Run.Used)
	f.text("last_step", ev.Last)
	code, _ := ev.ReasonCode()
	switch {
	case ev.Outcome != journal.OutcomeOK:
		f.freeText("error", ev.Problem)
		f.text("reason_code", code)
	case cmp.Or(ev.Reason, string(ev.Class)) == plan.ReasonStopNotMet:
		f.set("stop_condition_met", []byte("false"))
	default:
		f.text("reason_code", code)
	}
	return p.value(f, "output_summary", ev.Value, someBytes)
}

// suspended records what a run at rest waits for. The position in the journal tells which events came before.
func suspended(_ *projector, ev *report.Event, f *fields) error {
	s := ev.Suspension
	f.text("status", string(s.Status))
	f.text("waiting_for", s.Waiting.String())
	f.number("journal_seq", int64(ev.Seq))
	switch {
	case s.Status != journal.Exceeded:
	case s.Expired:
		f.text("reason_code", report.ReasonTimeout)
	default:
		f.text("reason_code", report.ReasonBudget)
	}
	return nil
}

// resumed records why a run continues, and in which process.
func resumed(_ *projector, ev *report.Event, f *fields) error {
	s := ev.Suspension
	f.text("cause", s.Cause)
	if s.Cause != report.CauseTakenOver { // otherwise the run was not at rest
		f.number("waited_ms", int64(s.Rested))
	}
	f.text("process", s.Process)
	return nil
}

func cancelRequested(f *fields, x journal.CancelRequested) {
	f.text("branch", x.Frame)
	f.freeText("reason", x.Reason)
}

func (p *projector) stateEdited(ev *report.Event, f *fields) error {
	x := ev.Fact.(journal.StateEdited)
	f.text("path", x.Path)
	return p.value(f, "value", x.Value, shownBytes)
}

func signalReceived(f *fields, x journal.SignalReceived) {
	f.text("signal", x.Event)
	f.value("data", x.Data, someBytes)
}

func inputRefused(f *fields, x journal.InputRefused) {
	f.text("input", x.Input)
	f.text("code", x.Code)
	f.freeText("why", x.Why)
}

func deadlineReached(f *fields, x journal.TimerFired) {
	f.text("reason_code", report.ReasonTimeout)
	if !x.Run {
		f.text("branch", x.Frame)
	}
}

func budgetRaised(f *fields, x journal.BudgetRaised) {
	f.text("budget", x.Budget)
	f.number("to", x.To)
}

// budgetWait records that a limit does not admit the next amount. A step that has not started has no step_id, so its
// name is a member.
func budgetWait(_ *projector, ev *report.Event, f *fields) error {
	x := ev.Fact.(journal.BudgetWait)
	f.text("budget", x.Budget)
	f.usage("wanted_", x.Amount)
	if ev.Step == nil { // it has not started
		f.text("before_step", x.Key())
		f.nonZero("wanted_steps", x.Amount.Steps)
	}
	return nil
}

func budgetRefused(f *fields, x journal.BudgetRefused) {
	f.text("budget", x.Budget)
	f.usage("wanted_", x.Amount)
	f.text("reason_code", report.ReasonBudget)
}

// stepStart records a step as its author described it, and the variables that it reads but does not find.
func stepStart(_ *projector, ev *report.Event, f *fields) error {
	kind := ev.Step.Kind
	if info := ev.Step.Info; info != nil {
		kind = cmp.Or(info.Step.Type, kind)
		f.text("description", info.Step.Description)
		textsOf(f, "reads", info.Step.Reads, func(r *ir.Ref) string { return r.Path })
		f.text("agent", ev.Step.Agent)
	}
	f.text("type", kind)
	if x, ok := ev.Fact.(journal.TaskStarted); ok {
		f.texts("missing_reads", x.MissingReads)
	}
	f.text("fallback_for", ev.Step.FallbackFor)
	f.text("child_run_id", string(ev.Step.Child))
	return nil
}

func stepSkipped(_ *projector, ev *report.Event, f *fields) error {
	if info := ev.Step.Info; info != nil && info.Step.When != nil {
		f.text("condition", info.Step.When.Text)
	}
	f.text("reason_code", report.ReasonCondition)
	return nil
}

func (p *projector) stepOutput(ev *report.Event, f *fields) error {
	f.texts("missing_files", visitOf(ev.Step).Missing)
	textsOf(f, "writes", ev.Writes, func(w *journal.Write) string { return w.Path })
	return p.value(f, "output_summary", ev.Value, someBytes)
}

// stepComplete records how a step ended and what it used.
func (p *projector) stepComplete(ev *report.Event, f *fields) error {
	code, declared := ev.ReasonCode()
	f.number("attempts", int64(ev.Step.Attempt+1))
	f.text("child_run_id", string(ev.Step.Child))
	f.text("declared_reason_code", declared)
	f.text("done_by", visitOf(ev.Step).DoneBy)
	f.number("duration_ms", int64(ev.At-ev.Step.Started))
	f.freeText("error", ev.Problem)
	f.text("error_class", string(ev.Class))
	f.text("fallback_for", ev.Step.FallbackFor)
	f.usage("", ev.Step.Used)
	f.text("reason_code", code)
	f.text("status", status(ev))
	return nil
}

// status returns how a step or a run ended, in the words of the specification, which has none for a failure that the
// workflow skips.
func status(ev *report.Event) string {
	switch {
	case ev.Outcome == journal.OutcomeOK:
		return "completed"
	case ev.Outcome == journal.OutcomeFailed && ev.Step != nil && ev.Step.Info != nil && ev.Step.Info.Step.SkipOnError:
		return "skipped_on_error"
	}
	return string(ev.Outcome)
}

// budgetCheck writes what the run has used and has left, and the same of the
// branch if it has a budget of its own.
func budgetCheck(_ *projector, ev *report.Event, f *fields) error {
	if ev.Branch != nil {
		b := newFields(nil)
		remaining(b, ev.Branch)
		b.text("name", ev.Branch.Name)
		f.object("branch", b)
	}
	if ev.Budget != nil {
		remaining(f, ev.Budget)
	}
	return nil
}

// remaining adds what is used and left of each limit. A limit that is not set leaves null, so that all such records
// have the same members.
func remaining(f *fields, b *report.Budget) {
	put := func(remaining, used string, n int64, limit *int64) {
		if limit == nil {
			f.set(remaining, []byte("null"))
		} else {
			f.number(remaining, *limit-n)
		}
		f.number(used, n)
	}
	var active *int64
	if b.Limits.ActiveSeconds != nil {
		ms := *b.Limits.ActiveSeconds * 1000
		active = &ms
	}
	put("active_ms_remaining", "active_ms_used", int64(b.Active), active)
	put("cost_micro_dollars_remaining", "cost_micro_dollars_used", b.Used.MicroDollars, b.Limits.MicroDollars)
	put("steps_remaining", "steps_used", b.Used.Steps, b.Limits.Steps)
	put("tokens_remaining", "tokens_used", b.Used.InputTokens+b.Used.OutputTokens, b.Limits.Tokens)
	put("tool_calls_remaining", "tool_calls_used", b.Used.ToolCalls, b.Limits.ToolCalls)
}

// checkpoint records that all of the state up to here is durable.
func checkpoint(_ *projector, ev *report.Event, f *fields) error {
	f.number("journal_seq", int64(ev.Seq))
	f.number("steps_complete", int64(ev.Run.Steps))
	f.texts("state", ev.Variables)
	return nil
}

func stepRetry(_ *projector, ev *report.Event, f *fields) error {
	x := ev.Fact.(journal.RetrySet)
	f.number("attempt", int64(x.Attempt)+1)
	f.text("due", x.Due.Time().Format(report.TimeFormat))
	f.text("error_class", string(ev.Class))
	f.freeText("error", ev.Error)
	return nil
}

func stepLost(f *fields, x journal.TaskLost) {
	f.freeText("why", x.Why)
	f.text("policy", string(x.Policy))
	f.usage("charged_", x.Charged)
}

// workerSkipped records a branch whose condition was false.
func workerSkipped(_ *projector, ev *report.Event, f *fields) error {
	f.text("worker", ev.Name)
	f.text("reason_code", ev.Reason)
	if ev.Step.Info == nil {
		return nil
	}
	if par, ok := ev.Step.Info.Step.Action.(ir.Parallel); ok {
		for _, b := range par.Branches {
			if b.Name == ev.Name && b.When != nil {
				f.text("condition", b.When.Text)
			}
		}
	}
	return nil
}

func modelCall(f *fields, ev *report.Event, r *journal.Reply) {
	f.text("agent", ev.Step.Agent)
	f.text("model", r.Model)
	f.text("stop", r.Stop)
	f.text("offline", string(r.Offline))
	f.number("input_tokens", ev.Usage.InputTokens)
	f.number("output_tokens", ev.Usage.OutputTokens)
	f.nonZero("cache_read_tokens", r.Usage.CacheRead)
	f.nonZero("cache_write_tokens", r.Usage.CacheWrite)
	f.number("cost_micro_dollars", ev.Usage.MicroDollars)
}

func modelError(f *fields, ev *report.Event, x *journal.ModelRetry) {
	f.text("error_class", string(x.Class))
	f.freeText("error", x.Message)
	f.nonZero("http_status", int64(x.Status))
	if ev.Type == report.ModelRetried {
		f.number("retried_after_ms", int64(x.Wait))
	}
	f.usage("", ev.Usage)
}

func toolCall(f *fields, ev *report.Event, t *journal.ToolUse) {
	f.text("tool", t.Name)
	f.text("call_id", t.CallID)
	f.text("offline", string(t.Offline))
	f.text("reported_by", t.Fidelity)
	f.freeText("error", t.Error)
	f.text("error_class", string(t.Class))
	f.value("input_summary", t.Input, someBytes)
	f.value("output_summary", t.Output, someBytes)
	f.number("cost_micro_dollars", ev.Usage.MicroDollars)
}

func commandRun(f *fields, _ *report.Event, c *journal.Command) {
	if raw, err := json.Marshal(c.Command); err == nil {
		f.value("command", raw, someBytes)
	}
}

// mergeName returns the record of a merge: one for a value that is dropped as a duplicate, and one for any other
// conflict.
func mergeName(ev *report.Event) string {
	if !ev.Note.Unreadable && report.Body[journal.MergeDecision](ev.Note).Why == "duplicate" {
		return auditevent.MergeDuplicate
	}
	return auditevent.MergeConflict
}

// merged records which value of several branches was kept, and which were dropped.
func merged(f *fields, _ *report.Event, d *journal.MergeDecision) {
	f.freeText("key", d.Key)
	f.text("resolution", d.Why)
	f.freeText("reason", d.Reason)
	f.texts("from", d.From)
	f.value("kept", d.Kept, someBytes)
	if len(d.Dropped) > 0 {
		if raw, err := json.Marshal(d.Dropped); err == nil {
			f.value("dropped", raw, someBytes)
		}
	}
}
