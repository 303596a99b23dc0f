package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/xslices"
)

// The words for steps that need not be known by name; see ResumeRequest.From.
const (
	FromCurrent  = "current"
	FromPrevious = "previous"
)

// ResumeRequest is a run that is to continue.
type ResumeRequest struct {
	Run journal.RunID
	// Messages are sent first: raised budgets, and decisions about steps whose outcome is unknown.
	Messages []Message
	// From is a step of the main line to go back to, FromCurrent or FromPrevious; empty continues where the run is.
	From string
	// Set edits variables of the new run that continues a finished one.
	Set []Edit
	By  journal.Actor
}

// Resumption is a run that can continue.
type Resumption struct {
	// Run is the run that continues: the one that was named, or a new one if that has finished.
	Run  journal.RunID
	Of   journal.RunID // the run that was named
	Step string        // that the new run starts from; empty unless Run is new
	// Changed lists the files that have changed since the run started. The run continues with what they were.
	Changed []ChangedFile

	from   string // Step as the person has named it
	by     journal.Actor
	set    []plan.Edit
	inputs []plan.Input
	again  bool // what was interrupted is done again without asking
	env    *environment
}

// ChangedFile is a file that a run was made from and that has changed since.
type ChangedFile struct {
	Path string
	Gone bool
}

// PrepareResume checks whether a run can continue, and what it lacks. Nothing is started.
func (a *App) PrepareResume(ctx context.Context, req ResumeRequest) (*Resumption, error) {
	env, err := a.driver(ctx, req.Run)
	if err != nil {
		return nil, err
	}
	r, err := env.prepareResume(ctx, &req)
	return r, env.runError(req.Run, err)
}

// driver opens the storage of a run for driving it.
func (a *App) driver(ctx context.Context, id journal.RunID) (*environment, error) {
	env, err := a.environmentFor(ctx, id)
	if err != nil {
		return nil, err
	}
	return env, env.driving()
}

// prepareResume is PrepareResume for the environment that drives the run. An unfinished run goes back by a rewind; a
// finished one never changes, so a new run continues from it.
func (env *environment) prepareResume(ctx context.Context, req *ResumeRequest) (*Resumption, error) {
	env.DeliverTelemetry() // also that of a run whose process was killed at its very end
	if err := env.checkStartedHere(ctx, req.Run); err != nil {
		entry, unknown := env.Store.Entry(ctx, req.Run)
		if unknown == nil && entry.Status == journal.Finished && req.From == "" {
			return nil, journal.ErrFinished // nothing has to continue
		}
		return nil, err
	}
	state, program, def, err := env.Engine.Load(ctx, req.Run)
	if err != nil {
		return nil, err
	}
	if err := env.reportSetBack(ctx, req.Run); err != nil {
		return nil, err
	}
	if program.Root().NoResume {
		return nil, fail(InvalidRequest, NotResumable, "the workflow says \"resume_supported: false\"")
	}
	r := &Resumption{Run: req.Run, Of: req.Run, from: req.From, by: req.By, again: req.From == FromCurrent, env: env}
	r.inputs = xslices.Map(req.Messages, func(m Message) plan.Input { return m.input(req.By) })
	// Find the step to continue from, then the way to get there.
	from, answers, err := env.startingStep(ctx, req, state, program)
	if err != nil {
		return nil, err
	}
	if err := canReturn(program, from, req.From); err != nil {
		return nil, err
	}
	r.inputs = append(r.inputs, answers...)
	for _, edit := range req.Set {
		r.set = append(r.set, plan.Edit{Path: edit.Variable, Value: edit.Value, By: req.By})
		if err := program.CheckEdit(&r.set[len(r.set)-1]); err != nil {
			return nil, err
		}
	}
	switch {
	case state.Finished == nil && len(r.set) > 0:
		return nil, fail(InvalidRequest, NotFinished, "the run has not finished: variables are set only in a new run "+
			"that continues a finished one")
	case state.Finished != nil && from == "":
		return nil, journal.ErrFinished
	case state.Finished != nil:
		r.Run, r.Step = NewRunID(), from
	case from != "":
		back := plan.Rewind{Step: from, By: req.By}
		if err := state.Check(program, back); err != nil {
			return nil, err
		}
		if back.Was, err = env.Engine.Checkpoint(ctx, req.Run, from); err != nil {
			return nil, notReached(err, req.From)
		}
		r.inputs = append(r.inputs, back)
		if l := state.Root().Ledger; l.Limits.Steps != nil {
			env.app.o.Notify(Notice{Text: fmt.Sprintf("Steps that run again count again: %d of %d steps of the budget "+
				"are used.", l.Used.Steps, *l.Limits.Steps)})
		}
	}
	if err := env.readyAgain(req.Run, state, def, from); err != nil {
		return nil, err
	}
	if state.Paused {
		r.inputs = append(r.inputs, plan.Continue{By: req.By})
	}
	r.Changed = changedFiles(env.root, def)
	if script := changedScript(env.root, state.Options); script != "" {
		r.Changed = append(r.Changed, ChangedFile{Path: script})
	}
	return r, nil
}

// reportSetBack warns if the audit log of a run has records that the journal lacks. The journal was set back
// then, as by a file that was cut off or restored, and steps that it does not know of may run again.
func (env *environment) reportSetBack(ctx context.Context, id journal.RunID) error {
	lost, err := lostRecords(env.Process.Drives,
		func() (journal.Entry, error) { return env.Store.Entry(ctx, id) },
		func(last journal.Seq) (int, error) { return env.Audits.UnmatchedLines(ctx, id, last) })
	if err != nil || lost == 0 {
		return err
	}
	env.app.o.Notify(Notice{Text: fmt.Sprintf("The journal of run %s was set back: its audit log has %d more records. "+
		"The run continues from what the journal has, and may repeat steps. The log is kept beside the new one.",
		id.Short(), lost)})
	return nil
}

// lostRecords returns how many records of a run its journal lacks. ahead counts the records after those of the event
// with number last. Its count means a loss only if no process drives the run, and if the journal has not grown
// meanwhile: a process appends to the journal first and to the audit log afterwards.
func lostRecords(drives func(journal.Owner) bool, entry func() (journal.Entry, error),
	ahead func(last journal.Seq) (int, error),
) (int, error) {
	before, err := entry()
	// Entry, records and entry again: the count holds if the journal was the same before and after it.
	for {
		if err != nil || before.Owner != "" && drives(before.Owner) {
			return 0, err
		}
		lost, err := ahead(before.Seq)
		if err != nil || lost == 0 {
			return 0, err
		}
		after, err := entry()
		if err != nil || after.Seq == before.Seq && after.Owner == before.Owner {
			return lost, err
		}
		before = after
	}
}

// Resume continues a run. It returns when that is durable; the run then continues in the background.
func (a *App) Resume(ctx context.Context, r *Resumption) error {
	env := r.env
	if r.Step != "" {
		err := env.Engine.StartFrom(ctx, r.Run, r.Of, r.Step, r.by, r.set...)
		if _, remote := errors.AsType[*engine.UnavailableError](err); remote {
			return env.startError(ctx, r.Run, err)
		}
		return env.runError(r.Of, notReached(err, r.from))
	}
	return env.sendTo(ctx, r.Run, func() error {
		for _, in := range r.inputs {
			if err := env.Engine.Send(ctx, r.Run, in, uuid.NewString()); err != nil {
				return err
			}
		}
		// The messages come first: raised budgets and answers are what the run continues with.
		resume := env.Engine.Resume
		if r.again {
			resume = env.Engine.ResumeAgain
		}
		err := resume(ctx, r.Run)
		var owned *journal.OwnedError
		if len(r.inputs) > 0 && (errors.As(err, &owned) || errors.Is(err, journal.ErrFinished)) {
			return nil // its owner has the messages, and may be done already
		}
		return err
	})
}

// sendTo calls send, which sends a message to a run or resumes it. If that fails although this process has the run by
// now, the run is driven to its next resting point before sendTo returns: no process may keep a run that can continue
// without driving it.
func (env *environment) sendTo(ctx context.Context, id journal.RunID, send func() error) error {
	err := send()
	if err != nil && env.Engine.Owns(id) {
		_, _ = env.Engine.Wait(ctx, id) // err is what the caller asked about
	}
	return env.runError(id, err)
}

// startingStep returns the step that ResumeRequest.From means. Where the outcome of steps is unknown, continuing from
// the current step repeats these steps, in whatever loop or branch they are.
func (env *environment) startingStep(
	ctx context.Context, req *ResumeRequest, state *plan.State, program *plan.Program,
) (string, []plan.Input, error) {
	// A step of that name takes precedence over the words "current" and "previous".
	from := req.From
	if from != FromCurrent && from != FromPrevious || program.Root().Step(ir.Body, from) != nil {
		return stepID(program.Root(), from), nil, nil
	}
	if from == FromCurrent && state.Finished == nil {
		var answers []plan.Input
		for _, f := range state.OpenGates() {
			if f.Gate.Kind == journal.GateOutcome {
				answers = append(answers, plan.GateDecision{
					Frame: f.Path, Step: f.Step, Answer: journal.AnswerRerun, By: req.By,
				})
			}
		}
		return "", answers, nil
	}
	way, failed, err := env.mainLine(ctx, req.Run, program.Root())
	if err != nil {
		return "", nil, err
	}
	at := len(way) - 1
	if state.Finished != nil && failed >= 0 {
		at = failed
	}
	if from == FromPrevious {
		at--
	}
	if at < 0 {
		return "", nil, fail(InvalidRequest, NoEarlierStep, "there is no step before the first").
			advise("Name a step, or start a new run.")
	}
	return way[at], nil, nil
}

// stepID returns the ID of the step that a person means, by its ID or by its title, such as "gate of draft". A name of
// no step, or of several, is returned as it is.
func stepID(p *ir.Program, name string) string {
	titles := map[string]string{} // by the IDs of the steps
	for one := range p.All() {
		for s := range one.Steps() {
			titles[s.ID] = s.Title()
		}
	}
	if _, known := titles[name]; known {
		return name
	}
	var found []string
	for id, title := range titles {
		if title == name {
			found = append(found, id)
		}
	}
	if len(found) == 1 {
		return found[0]
	}
	return name
}

// canReturn returns an error that names another step if a run cannot go back to this one, which a person has named.
func canReturn(program *plan.Program, step, name string) error {
	if step == "" || program.CheckReturn(step) == nil {
		return nil
	}
	root := program.Root()
	var names []string
	for i := range root.Blocks[ir.Body].Steps {
		s := &root.Blocks[ir.Body].Steps[i]
		if contains(root, s, step) {
			e := fail(InvalidRequest, InnerStep,
				"%q lies inside of another step, and a run can go back only to steps of its main line", name)
			e.Name = s.ID
			return e
		}
		_, gate := s.Action.(ir.Gate)
		switch {
		case !s.Implied:
			names = append(names, s.ID)
		case gate:
			names = append(names, s.Title())
		}
	}
	return fail(NotFound, "", "unknown step %q", name).advise("%s", diag.DidYouMean(name, names))
}

// notReached names the step as the person did if a run has not reached it.
func notReached(err error, name string) error {
	if !errors.Is(err, engine.ErrNotReached) {
		return err
	}
	return fail(InvalidRequest, NotReached, "%v: %s", engine.ErrNotReached, name)
}

// contains reports whether a step of that name lies inside another one, at any depth.
func contains(p *ir.Program, s *ir.Step, name string) bool {
	within := func(p *ir.Program, b ir.BlockID) bool {
		return p.Step(b, name) != nil ||
			slices.ContainsFunc(p.Blocks[b].Steps, func(inner ir.Step) bool { return contains(p, &inner, name) })
	}
	switch a := s.Action.(type) {
	case ir.Loop:
		return within(p, a.Block)
	case ir.Parallel:
		return a.Each != nil && within(p, a.Each.Block) ||
			slices.ContainsFunc(a.Branches, func(b ir.Branch) bool { return within(p, b.Block) })
	case ir.Call:
		return a.Child < len(p.Children) && within(&p.Children[a.Child], ir.Body)
	}
	return false
}

// mainLine returns the steps of the body that a run has come to, without those that only end it or that the file does
// not have, and the index of the last one that failed, or -1. The steps before the start of a run that continues
// another one are included.
func (env *environment) mainLine(
	ctx context.Context, id journal.RunID, p *ir.Program,
) (way []string, failed int, err error) {
	failed = -1
	note := func(name string, outcome journal.Outcome) {
		step := p.Step(ir.Body, name)
		if step == nil || step.Implied {
			return
		}
		if _, end := step.Action.(ir.End); end {
			return
		}
		if len(way) == 0 || way[len(way)-1] != name {
			way = append(way, name)
		}
		switch {
		case outcome == journal.OutcomeFailed:
			failed = len(way) - 1
		case outcome == journal.OutcomeOK && failed == len(way)-1: // a later attempt
			failed = -1
		}
	}
	var own journal.Seq // of the last decision or end of a task, with which its step finishes
	for e, err := range report.Events(ctx, env.Store, id) {
		if err != nil {
			return nil, -1, err
		}
		if e.Type == report.TaskFinished || e.Type == report.GateDecided {
			own = e.Seq
		}
		// A run that continues another one starts with the steps of that one, up to its own first step.
		switch from := e.Run.From; {
		case e.Type == report.RunStarted && from != nil:
			before, _, err := env.mainLine(ctx, from.Run, p)
			if err != nil && !errors.Is(err, journal.ErrUnknownRun) {
				return nil, -1, err
			}
			for i, step := range slices.Backward(before) {
				if step == from.Step {
					way = before[:i]
					break
				}
			}
		case e.Step == nil || e.Step.Parent != nil:
		case e.Type == report.StepStarted, e.Type == report.StepSkipped, e.Type == report.TaskFinished:
			note(e.Step.Name, e.Outcome)
		case e.Type == report.StepFinished && e.Seq != own: // decisions and hooks are no failures of the step
			note(e.Step.Name, e.Outcome)
		}
	}
	return way, failed, nil
}

// resumeFrom returns the step from which a failed run can be resumed: the last one, or the one that led there if the
// last one only ends the run or is not in the file. It returns "" if there is none.
func (env *environment) resumeFrom(ctx context.Context, id journal.RunID, last string) (string, error) {
	_, program, _, err := env.Engine.Load(ctx, id)
	if err != nil {
		return "", err
	}
	step := program.Root().Step(ir.Body, last)
	if step == nil {
		return last, nil
	}
	if _, ends := step.Action.(ir.End); !ends && !step.Implied {
		return last, nil
	}
	way, failed, err := env.mainLine(ctx, id, program.Root())
	switch {
	case err != nil || len(way) == 0:
		return "", err
	case failed >= 0:
		return way[failed], nil
	}
	return way[len(way)-1], nil
}

// changedFiles returns the files of a definition that are not what they were.
func changedFiles(root string, def *engine.Definition) []ChangedFile {
	var out []ChangedFile
	for _, f := range def.Sources {
		raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(f.Path)))
		if err != nil || sha256Hex(raw) != f.SHA256 {
			out = append(out, ChangedFile{Path: f.Path, Gone: err != nil})
		}
	}
	return out
}

// changedScript returns the file of replies that a run was started with if it is there and has changed since.
func changedScript(root string, options json.RawMessage) string {
	var o registry.RunOptions
	if json.Unmarshal(options, &o) != nil || o.ScriptName == "" {
		return ""
	}
	path := o.ScriptName
	if !filepath.IsAbs(path) {
		path = filepath.Join(root, path)
	}
	if raw, err := os.ReadFile(path); err != nil || string(raw) == o.Script {
		return ""
	}
	return o.ScriptName
}

// Finish lets a run that was canceled do what it still has to do, unless another process drives it, and returns it.
func (a *App) Finish(ctx context.Context, id journal.RunID) (*Run, error) {
	env, err := a.driver(ctx, id)
	if err != nil {
		return nil, err
	}
	run, err := a.Get(ctx, id)
	if err != nil || run.Status == journal.Finished || !env.Idle(run.Entry) {
		return nil, err
	}
	err = env.sendTo(ctx, id, func() error {
		var owned *journal.OwnedError
		if err := env.Engine.Resume(ctx, id); err != nil && !errors.As(err, &owned) {
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return a.Wait(ctx, id)
}

// Message is a message to a run from a person, a program or a trigger.
type Message interface {
	input(by journal.Actor) plan.Input
}

// These decide a gate. An empty Step means the only gate that is open. With a Digest, the decision is refused if the
// gate no longer shows what had that digest.
type (
	// Approve approves a gate.
	Approve struct {
		Step, Note, Digest string
		// Roles are the approver roles that a server has established for who decides.
		Roles []string
		// Value is the answer to a question of a tool.
		Value json.RawMessage
		// Automated reports that no person decides, as with --auto-approve.
		Automated bool
	}
	// Reject rejects a gate.
	Reject struct {
		Step, Note, Digest string
		Roles              []string // as in Approve
	}
	// Resolve decides about a step whose outcome is unknown.
	Resolve struct {
		Step   string
		Answer journal.Answer  // one of journal.OutcomeAnswers
		Value  json.RawMessage // of AnswerResult
	}
	// Signal reports an event, to one step if Step is not empty.
	Signal struct {
		Event string
		Step  string
		Data  json.RawMessage
		Roles []string // as in Approve
		// Automated reports that a program sends it, which may not answer for a person.
		Automated bool
	}
	// Edit changes a variable.
	Edit struct {
		Variable string
		Value    json.RawMessage
	}
	// Raise raises a budget; money is in millionths of a dollar.
	Raise struct {
		Budget string
		To     int64
	}
	// Pause holds the run before its next step.
	Pause struct{}
	// Cancel ends the run.
	Cancel struct{ Reason string }
)

func (m Approve) input(by journal.Actor) plan.Input {
	return plan.GateDecision{
		Step: m.Step, Answer: journal.AnswerApprove, Note: m.Note, Digest: m.Digest, By: by, Roles: m.Roles,
		Value: m.Value, Automated: m.Automated,
	}
}

func (m Reject) input(by journal.Actor) plan.Input {
	return plan.GateDecision{
		Step: m.Step, Answer: journal.AnswerReject, Note: m.Note, Digest: m.Digest, By: by, Roles: m.Roles,
	}
}

func (m Resolve) input(by journal.Actor) plan.Input {
	return plan.GateDecision{Step: m.Step, Answer: m.Answer, Value: m.Value, By: by}
}

func (m Signal) input(by journal.Actor) plan.Input {
	return plan.Signal{
		Event: m.Event, Step: m.Step, Data: m.Data, By: by, Roles: m.Roles, Automated: m.Automated,
	}
}

func (m Edit) input(by journal.Actor) plan.Input {
	return plan.Edit{Path: m.Variable, Value: m.Value, By: by}
}

func (m Raise) input(by journal.Actor) plan.Input {
	return plan.Raise{Budget: m.Budget, To: m.To, By: by}
}
func (m Pause) input(by journal.Actor) plan.Input  { return plan.Pause{By: by} }
func (m Cancel) input(by journal.Actor) plan.Input { return plan.Cancel{By: by, Reason: m.Reason} }

// ValueOfText returns the value that a person means by a text: JSON, or else the text itself.
func ValueOfText(text string) json.RawMessage {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	raw, err := json.Marshal(text)
	if err != nil {
		return json.RawMessage("null") // strings always encode
	}
	return raw
}

// Budgets returns the names of the budgets.
func Budgets() []string { return slices.Clone(ir.Budgets) }

// maxLimit is the highest limit of a budget: 10^15, for money a thousand million dollars.
const maxLimit = 1_000_000_000_000_000

// ParseRaise returns the message that raises a budget to a limit that a person has written. The names that workflows
// have for budgets are accepted, too: max_tokens, deadline_seconds. Commas may separate thousands. The limit of
// journal.CostBudget is in dollars.
func ParseRaise(budget, limit string) (Raise, error) {
	if budget == "deadline_seconds" {
		budget = ir.BudgetDeadline
	}
	budget = strings.TrimPrefix(budget, "max_")
	unit, form := int64(1), "a whole number from 1 to 1000000000000000"
	m := Raise{Budget: budget}
	if budget == journal.CostBudget {
		m.Budget, unit = ir.BudgetMoney, 1_000_000
		form = "an amount in dollars from 0.000001 to 1000000000"
	}
	if !slices.Contains(ir.Budgets, m.Budget) {
		return m, fail(InvalidRequest, "", "unknown budget %q", budget).
			advise("%s", diag.DidYouMean(budget, xslices.Map(ir.Budgets, journal.BudgetName)))
	}
	n, ok := new(big.Rat).SetString(strings.ReplaceAll(limit, ",", ""))
	if ok && !strings.ContainsAny(limit, "/_xXpP") {
		n.Mul(n, big.NewRat(unit, 1))
		if n.IsInt() && n.Sign() > 0 && n.Cmp(big.NewRat(maxLimit, 1)) <= 0 {
			m.To = n.Num().Int64()
			return m, nil
		}
	}
	return m, fail(InvalidRequest, "", "the new limit %q is not %s", limit, form)
}
