package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/builtin"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/report"
)

func (a *app) resumeCommand() *cobra.Command {
	var (
		raise, decide []string
		from          string
	)
	cmd := &cobra.Command{
		Use:   "resume RUN [--raise BUDGET=N]… [--decide STEP=rerun|skip|fail|result=JSON]… [--from STEP|current|previous]",
		Short: "Carry a run on",
		Long: `Carry a run on from where it stands: after a crash, an interruption or a pause,
with a higher budget, or with an answer about a step that nobody knows the end
of. The run goes on with the workflow as it was when it began; what has changed
since is told.

--from takes the run back to a step of its main line that it had come to
before: what earlier steps wrote is kept, the rest is done again. "current" is
the step that it stands at or failed at, "previous" the one before that. A run
that is over stays as it is; another one begins at that step with its values.`,
		Args:              takesRun(1, 1, "one run"),
		ValidArgsFunction: a.completeRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			says, err := resumeInputs(raise, decide)
			if err != nil {
				return err
			}
			return a.onRun(args[0], func(ctx context.Context, r *builtin.Runtime, entry journal.Entry) error {
				r.DeliverTelemetry() // of a run that was killed at its very end, too
				state, program, def, err := r.Engine.Load(ctx, entry.ID)
				if err != nil {
					return err
				}
				if program.Root().NoResume {
					return usage("The run can still be looked at.", "the workflow says \"resume_supported: false\"")
				}
				again := from == fromCurrent
				from, answers, err := anchor(ctx, r, entry, state, program, from)
				if err != nil {
					return err
				}
				if err := canReturn(entry.ID, program, from); err != nil {
					return err
				}
				says := append(says, answers...)
				if state.Finished != nil && from != "" {
					if err := readyAgain(r, state, def); err != nil {
						return err
					}
					a.tellChanges(def)
					return a.resumeOver(r, entry, from)
				}
				if state.Finished != nil {
					return journal.ErrFinished
				}
				if from != "" {
					back := plan.Rewind{Step: from, By: actor("")}
					if err := state.Check(program, back); err != nil {
						return err
					}
					if back.Was, err = r.Engine.Checkpoint(ctx, entry.ID, from); err != nil {
						return err
					}
					says = append(says, back)
				}
				if err := readyAgain(r, state, def); err != nil {
					return err
				}
				a.tellChanges(def)
				if state.Paused {
					says = append(says, plan.Continue{By: actor("")})
				}
				return a.drive(r, entry.ID, func(ctx context.Context) error {
					for _, in := range says {
						if err := r.Engine.Send(ctx, entry.ID, in, uuid.NewString()); err != nil {
							return err
						}
					}
					resume := r.Engine.Resume
					if again {
						resume = r.Engine.ResumeAgain
					}
					err := resume(ctx, entry.ID)
					var owned *journal.OwnedError
					if len(says) > 0 && errors.As(err, &owned) {
						return nil // its owner has heard it
					}
					return err
				})
			})
		},
	}
	flags := a.jsonFlag(cmd).Flags()
	flags.StringArrayVar(&raise, "raise", nil, "raise a budget: `BUDGET=N`, with one of "+strings.Join(raisable(), ", ")+", or by its name in the workflow, such as max_tokens")
	flags.StringVar(&from, "from", "", "go back to this `STEP`, with the values of the time when the run came to it")
	flags.StringArrayVar(&decide, "decide", nil, "say what happened to a step in doubt: `STEP=ANSWER`")
	return cmd
}

// readyAgain finds what a run lacks that is to go on.
func readyAgain(r *builtin.Runtime, state *plan.State, def *engine.Definition) error {
	var asked builtin.RunOptions
	if len(state.Options) > 0 {
		if err := json.Unmarshal(state.Options, &asked); err != nil {
			return nil // whoever goes on with it says so
		}
	}
	models, tools := r.Equipment()
	return ready(def.Program, models, tools, asked, oldRun)
}

// The words for steps that need not be known by name.
const (
	fromCurrent  = "current"
	fromPrevious = "previous"
)

// anchor finds the step that "current" or "previous" stands for. Where a run
// stands in doubt, to go on from there is to do again what is in doubt, in
// whatever loop or branch that is.
func anchor(ctx context.Context, r *builtin.Runtime, entry journal.Entry, state *plan.State, program *plan.Program, from string) (string, []plan.Input, error) {
	if from != fromCurrent && from != fromPrevious || program.Root().Step(ir.Body, from) != nil {
		return from, nil, nil
	}
	if from == fromCurrent && state.Finished == nil {
		var answers []plan.Input
		for _, f := range state.OpenGates() {
			if f.Gate.Kind == journal.GateInDoubt {
				answers = append(answers, plan.Decision{Frame: f.Path, Step: f.Step, Answer: plan.AnswerRerun, By: actor("")})
			}
		}
		return "", answers, nil
	}
	way, failed, err := mainLine(ctx, r, entry.ID, program.Root())
	if err != nil {
		return "", nil, err
	}
	at := len(way) - 1
	if state.Finished != nil && failed >= 0 {
		at = failed
	}
	if from == fromPrevious {
		at--
	}
	if at < 0 {
		return "", nil, usage("Name a step, or begin a new run.", "there is no step before the first")
	}
	return way[at], nil, nil
}

// canReturn says which step to name instead of one that a run cannot go back to.
func canReturn(id journal.RunID, program *plan.Program, step string) error {
	if step == "" || program.CheckReturn(step) == nil {
		return nil
	}
	root := program.Root()
	var names []string
	for i := range root.Blocks[ir.Body].Steps {
		s := &root.Blocks[ir.Body].Steps[i]
		if holds(root, s, step) {
			return usage(fmt.Sprintf("Go back to the step that it is a part of: espalier resume %s --from %s", short(id), s.ID),
				"%q lies inside of another step, and a run can go back only to steps of its main line", step)
		}
		if !s.Implied {
			names = append(names, s.ID)
		}
	}
	return usage(diag.DidYouMean(step, names), "there is no step %q", step)
}

// holds tells whether a step of that name lies in another one, however deep.
func holds(p *ir.Program, s *ir.Step, name string) bool {
	within := func(p *ir.Program, b ir.BlockID) bool {
		return p.Step(b, name) != nil || slices.ContainsFunc(p.Blocks[b].Steps, func(inner ir.Step) bool { return holds(p, &inner, name) })
	}
	switch a := s.Action.(type) {
	case ir.Loop:
		return within(p, a.Block)
	case ir.Parallel:
		return a.Each != nil && within(p, a.Each.Block) || slices.ContainsFunc(a.Branches, func(b ir.Branch) bool { return within(p, b.Block) })
	case ir.Call:
		return a.Child < len(p.Children) && within(&p.Children[a.Child], ir.Body)
	}
	return false
}

// mainLine is the steps of the body that a run has come to, without those that
// only end it or that nobody wrote, and the place of the last one that failed.
// What came before a run that goes on from another one is a part of it.
func mainLine(ctx context.Context, r *builtin.Runtime, id journal.RunID, p *ir.Program) (way []string, failed int, err error) {
	failed = -1
	note := func(at journal.Place, outcome journal.Outcome) {
		step := p.Step(ir.Body, at.Step)
		if at.Frame != "" || step == nil || step.Implied {
			return
		}
		if _, end := step.Action.(ir.End); end {
			return
		}
		if len(way) == 0 || way[len(way)-1] != at.Step {
			way = append(way, at.Step)
		}
		if outcome == journal.OutcomeFailed {
			failed = len(way) - 1
		}
	}
	for e, err := range r.Store.Events(ctx, id, 0) {
		if err != nil {
			return nil, -1, err
		}
		switch x := e.Fact.(type) {
		case journal.RunStarted:
			if x.From == nil {
				break
			}
			before, _, err := mainLine(ctx, r, x.From.Run, p)
			if err != nil && !errors.Is(err, journal.ErrUnknownRun) {
				return nil, -1, err
			}
			for i, step := range slices.Backward(before) {
				if step == x.From.Step {
					way = before[:i]
					break
				}
			}
		case journal.TaskStarted:
			note(x.Place, "")
		case journal.TaskEnded:
			note(x.Place, x.Outcome)
		case journal.StepEntered:
			note(x.Place, "")
		case journal.StepLeft:
			note(x.Place, x.Outcome)
		case journal.GateOpened:
			note(x.Place, "")
		}
	}
	return way, failed, nil
}

// resumeOver goes on from a step of a run that is over, in another run.
func (a *app) resumeOver(r *builtin.Runtime, entry journal.Entry, step string) error {
	id := journal.RunID(uuid.NewString())
	return a.drive(r, id, func(ctx context.Context) error {
		if err := r.Engine.StartFrom(ctx, id, entry.ID, step, actor("")); err != nil {
			return a.runTrouble(r, entry.ID, err) // there is no other run to speak of
		}
		a.note("Run %s is over and stays as it is; run %s goes on from %s.", short(entry.ID), short(id), step)
		return nil
	})
}

// budgetName takes the names that workflows have for budgets, too.
func budgetName(name string) string {
	if name == "deadline_seconds" {
		return plan.BudgetDeadline
	}
	return strings.TrimPrefix(name, "max_")
}

func resumeInputs(raise, decide []string) ([]plan.Input, error) {
	var says []plan.Input
	for _, one := range raise {
		name, figure, ok := strings.Cut(one, "=")
		n, err := strconv.ParseInt(figure, 10, 64)
		name = budgetName(name)
		if name == report.CostBudget {
			dollars, bad := price.ParseRate(figure) // both count millionths
			name, n, err = plan.BudgetMoney, int64(dollars), bad
		}
		if !ok || err != nil {
			return nil, usage("Write --raise tokens=200000.", "--raise %q is not BUDGET=N", one)
		}
		if !slices.Contains(plan.Budgets, name) {
			return nil, usage(diag.DidYouMean(name, raisable()), "there is no budget %q", name)
		}
		says = append(says, plan.Raise{Budget: name, To: n, By: actor("")})
	}
	for _, one := range decide {
		step, answer, ok := strings.Cut(one, "=")
		value := ""
		if ok {
			answer, value, _ = strings.Cut(answer, "=")
		}
		d := plan.Decision{Step: step, Answer: answer, By: actor("")}
		switch {
		case !ok:
			return nil, usage("Write --decide STEP=rerun, skip, fail, or result=JSON.", "--decide %q has no \"=\"", one)
		case answer == plan.AnswerResult && json.Valid([]byte(value)):
			d.Value = json.RawMessage(value)
		case answer == plan.AnswerResult:
			return nil, usage(`Write the result as JSON, as in --decide send='result={"sent": true}'.`, "the result in --decide %q is not JSON", one)
		case answer != plan.AnswerRerun && answer != plan.AnswerSkip && answer != plan.AnswerFail:
			return nil, usage("Write rerun, skip, fail, or result=JSON.", "%q is no answer", answer)
		}
		says = append(says, d)
	}
	return says, nil
}

// raisable are the budgets, with that of money in dollars.
func raisable() []string {
	out := slices.Clone(plan.Budgets)
	for i := range out {
		out[i] = report.BudgetName(out[i])
	}
	return out
}

// tellChanges says which files have changed since the run began.
func (a *app) tellChanges(def *engine.Definition) {
	space, err := a.workspace()
	if err != nil {
		return
	}
	here, err := space.Here()
	if err != nil {
		return
	}
	for _, f := range def.Sources {
		path := filepath.Join(here.Root, filepath.FromSlash(f.Path))
		raw, err := os.ReadFile(path)
		sum := sha256.Sum256(raw)
		switch {
		case err != nil:
			a.note("%s is not there any more; the run goes on with what it was.", f.Path)
		case hex.EncodeToString(sum[:]) != f.SHA256:
			a.note("%s has changed since the run began; the run goes on with what it was.", f.Path)
		}
	}
}

// onRun opens the storage, finds a run and does something with it.
func (a *app) onRun(prefix string, do func(ctx context.Context, r *builtin.Runtime, entry journal.Entry) error) error {
	return a.find(a.existing, prefix, do)
}

// lookAt is onRun for those who start nothing.
func (a *app) lookAt(prefix string, do func(ctx context.Context, r *builtin.Runtime, entry journal.Entry) error) error {
	return a.find(a.looking, prefix, do)
}

func (a *app) find(open func() (*builtin.Runtime, error), prefix string, do func(ctx context.Context, r *builtin.Runtime, entry journal.Entry) error) error {
	r, err := open()
	if err != nil {
		return err
	}
	defer r.Close()
	ctx := context.Background()
	entry, err := a.findRun(ctx, r, prefix)
	if err != nil {
		return err
	}
	if entry.Root != "" {
		root, err := r.Store.Entry(ctx, entry.Root)
		if err != nil {
			return err
		}
		a.note("%s is a part of run %s.", short(entry.ID), short(root.ID))
		entry = root
	}
	if err := do(ctx, r, entry); err != nil {
		return a.runTrouble(r, entry.ID, err)
	}
	return nil
}

func (a *app) decisionCommand(verb, answer, about string) *cobra.Command {
	var (
		note, as, digest string
		leave            bool
	)
	cmd := &cobra.Command{
		Use:   verb + " RUN [STEP] [--note TEXT] [--as NAME] [--digest DIGEST] [--no-continue]",
		Short: about,
		Long: about + `, and carry the run on.

The decision is about exactly what the gate shows; "espalier status RUN" prints
that, with its digest. With --digest it is refused if that has changed since. It
is recorded with the user of this machine; --as adds whom they claim to be.`,
		Example:           "  espalier " + verb + " 5ff07bf3\n  espalier " + verb + ` 5ff07bf3 sign_off --note "read with the team"`,
		Args:              takesRun(1, 2, "a run, and a step when several wait"),
		ValidArgsFunction: a.completeRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onRun(args[0], func(ctx context.Context, r *builtin.Runtime, entry journal.Entry) error {
				d := plan.Decision{Answer: answer, Note: note, By: actor(as)}
				if len(args) > 1 {
					d.Step = args[1]
				}
				return a.say(r, entry.ID, leave, func(ctx context.Context) error {
					return a.decide(ctx, r, entry.ID, d, digest)
				})
			})
		},
	}
	flags := a.jsonFlag(cmd).Flags()
	flags.StringVar(&note, "note", "", "why, in a few words, `TEXT`: it is recorded as evidence")
	flags.StringVar(&as, "as", "", "the `NAME` of whom you act for; recorded as claimed")
	flags.StringVar(&digest, "digest", "", "decide only if the gate still shows what had this `DIGEST` in \"espalier status\"")
	flags.BoolVar(&leave, "no-continue", false, "record the decision and leave the run to others")
	return cmd
}

// decide sends a decision about what the gate shows now, or about what had the
// digest if there is one.
func (a *app) decide(ctx context.Context, r *builtin.Runtime, id journal.RunID, d plan.Decision, digest string) error {
	state, program, _, err := r.Engine.Load(ctx, id)
	if err != nil {
		return err
	}
	d.Step = gateNamed(state, d.Step)
	edited, err := a.takeEdits(ctx, r, id, state, program, d)
	if err != nil {
		return err
	}
	if edited {
		if state, program, _, err = r.Engine.Load(ctx, id); err != nil {
			return err
		}
	}
	for _, f := range state.OpenGates() {
		if d.Step == "" || d.Step == f.Step || d.Step == f.Place().Key() {
			_, d.Digest = state.Shown(program, f)
		}
	}
	d.Digest = cmp.Or(digest, d.Digest)
	if err := r.Engine.Send(ctx, id, d, uuid.NewString()); err != nil {
		return decidedBefore(ctx, r, id, d.Step, err)
	}
	return nil
}

// decidedBefore says who was faster, when a decision was refused because there
// is nothing left to decide.
func decidedBefore(ctx context.Context, r *builtin.Runtime, id journal.RunID, step string, err error) error {
	refused, ok := plan.IsRefusal(err)
	if !errors.Is(err, journal.ErrFinished) && (!ok || refused.Code != plan.NoGate && refused.Code != plan.TooLate) {
		return err
	}
	var last *journal.GateDecided
	var at journal.Millis
	for e, failed := range r.Store.Events(ctx, id, 0) {
		if failed != nil {
			return err
		}
		if x, ok := e.Fact.(journal.GateDecided); ok && (step == "" || step == x.Step || step == x.Key()) {
			last, at = &x, e.At
		}
	}
	if last == nil {
		return err
	}
	answer := map[journal.Outcome]string{journal.OutcomeOK: "approved", journal.OutcomeRejected: "rejected"}[last.Outcome]
	if answer == "" {
		answer = "settled"
	}
	return &failure{
		code: exitUsage,
		message: fmt.Sprintf("%s was %s already, on %s by %s; a decision is for one use", last.Key(), answer,
			at.Time().Local().Format(time.DateTime), decider(last.By, last.Method, last.Note)),
		help: fmt.Sprintf("\"espalier status %s --step %s\" shows it.", short(id), last.Key()),
	}
}

// say sends a message to a run and, unless the run is to be left to others,
// drives it to its next resting point.
func (a *app) say(r *builtin.Runtime, id journal.RunID, leave bool, send func(context.Context) error) error {
	if !leave {
		ctx := context.Background()
		entry, err := r.Store.Entry(ctx, id)
		if err != nil {
			return err
		}
		// Whoever works on it already has what it needs.
		if entry.Status != journal.Finished && (entry.Owner == "" || r.Process.Dead(entry.Owner)) {
			state, _, def, err := r.Engine.Load(ctx, id)
			if err != nil {
				return err
			}
			if err := readyAgain(r, state, def); err != nil {
				a.note("Nothing was recorded. --no-continue records it and leaves the run to others.")
				return err
			}
		}
		return a.drive(r, id, send)
	}
	r.Engine.Hold()
	if err := send(context.Background()); err != nil {
		return err
	}
	letGo(r)
	a.note("Recorded.")
	return a.tellEntry(r, id)
}

// tellEntry says how a run stands that was told something and left.
func (a *app) tellEntry(r *builtin.Runtime, id journal.RunID) error {
	after, err := r.Store.Entry(context.Background(), id)
	if err != nil {
		return err
	}
	if a.json {
		return a.writeJSON(after)
	}
	a.note("Run %s: %s.", short(id), standing(after))
	return nil
}

func (a *app) signalCommand() *cobra.Command {
	var data string
	var leave bool
	cmd := &cobra.Command{
		Use:   "signal RUN EVENT [--data JSON]",
		Short: "Tell a run that an event has happened",
		Long: `Tell a run that an event has happened that it waits for, or will wait for, and
carry it on. "espalier status RUN" shows which event that is. What the event
carries becomes the result of the step.`,
		Example:           `  espalier signal 5ff07bf3 papers_received --data '{"pages": 12}'`,
		Args:              takesRun(2, 2, "a run and an event"),
		ValidArgsFunction: a.completeRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			if data != "" && !json.Valid([]byte(data)) {
				return usage(`Write it as JSON, as in --data '{"n": 1}'.`, "--data is not JSON")
			}
			return a.onRun(args[0], func(ctx context.Context, r *builtin.Runtime, entry journal.Entry) error {
				signal := plan.Signal{Event: args[1], Data: json.RawMessage(data), By: actor("")}
				return a.say(r, entry.ID, leave, func(ctx context.Context) error {
					return r.Engine.Send(ctx, entry.ID, signal, uuid.NewString())
				})
			})
		},
	}
	flags := a.jsonFlag(cmd).Flags()
	flags.StringVar(&data, "data", "", "what the event carries, as `JSON`")
	flags.BoolVar(&leave, "no-continue", false, "record the event and leave the run to others")
	return cmd
}

func (a *app) interveneCommand(verb, about, more string, in func() plan.Input) *cobra.Command {
	cmd := &cobra.Command{
		Use:               verb + " RUN",
		Short:             about,
		Long:              about + ". " + more,
		Args:              takesRun(1, 1, "one run"),
		ValidArgsFunction: a.completeRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			var left journal.Entry
			err := a.lookAt(args[0], func(ctx context.Context, r *builtin.Runtime, entry journal.Entry) (err error) {
				if err := a.say(r, entry.ID, true, func(ctx context.Context) error {
					return r.Engine.Send(ctx, entry.ID, in(), uuid.NewString())
				}); err != nil {
					return err
				}
				left, err = r.Store.Entry(ctx, entry.ID)
				return err
			})
			if _, cancelled := in().(plan.Cancel); err != nil || !cancelled || left.Status == journal.Finished {
				return err
			}
			return a.cleanUp(left)
		},
	}
	return a.jsonFlag(cmd)
}

// cleanUp does what a run that was cancelled has still to do, unless another
// process works on it.
func (a *app) cleanUp(entry journal.Entry) error {
	return a.onRun(string(entry.ID), func(ctx context.Context, r *builtin.Runtime, entry journal.Entry) error {
		if entry.Status == journal.Finished || entry.Owner != "" && !r.Process.Dead(entry.Owner) {
			return nil
		}
		listen, stop := context.WithCancel(ctx)
		defer stop()
		go r.Engine.Listen(listen)
		_, err := r.Engine.Drive(ctx, entry.ID, func(ctx context.Context) error {
			var owned *journal.OwnedError
			if err := r.Engine.Resume(ctx, entry.ID); err != nil && !errors.As(err, &owned) {
				return err
			}
			return nil
		})
		if err != nil {
			return err
		}
		return a.tellEntry(r, entry.ID)
	})
}

func (a *app) editCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "edit RUN NAME=VALUE…",
		Short: "Change a variable of a run that waits",
		Long: `Change variables of a run between its steps. VALUE is JSON, or else text. The
workflow has to allow it (human_in_the_loop), and the change is recorded.`,
		Example:           `  espalier edit 3f2a state.draft="Dear Ms Brown, …"`,
		Args:              takesRun(2, 100, "a run and what to change"),
		ValidArgsFunction: a.completeRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			var edits []plan.Edit
			for _, one := range args[1:] {
				name, text, ok := strings.Cut(one, "=")
				if !ok {
					return usage("Write NAME=VALUE.", "%q has no \"=\"", one)
				}
				value := json.RawMessage(text)
				if !json.Valid(value) {
					value, _ = json.Marshal(text) // text always encodes
				}
				edits = append(edits, plan.Edit{Path: name, Value: value, By: actor("")})
			}
			return a.onRun(args[0], func(ctx context.Context, r *builtin.Runtime, entry journal.Entry) error {
				r.Engine.Hold()
				for _, edit := range edits {
					if err := r.Engine.Send(ctx, entry.ID, edit, uuid.NewString()); err != nil {
						return err
					}
				}
				letGo(r)
				a.note("Recorded.")
				return a.tellEntry(r, entry.ID)
			})
		},
	}
	return a.jsonFlag(cmd)
}

func (a *app) workCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "work",
		Short: "Drive every run of the project until interrupted",
		Long: `Stay in the foreground and drive every run of the project: runs whose process is
gone, timers, approvals, runs that were begun with --detach. A run that lacks a
key, a tool or the permission to run its scripts is left alone, and said so; the
others go on.

Interrupt it to stop: running steps finish first, and every run goes on from
where it stands with the next "espalier work" or "espalier resume". SIGTERM gives
running steps the grace period (grace_period in espalier.yaml, 10s by default).
SIGHUP reloads the configuration.`,
		Args: takes(0, 0, "nothing"),
		RunE: func(cmd *cobra.Command, args []string) error {
			space, err := a.workspace()
			if err != nil {
				return err
			}
			here, err := space.Here()
			if err != nil {
				return err
			}
			for {
				reload, err := a.work(here.Root)
				if !reload {
					return err
				}
			}
		},
	}
}

// work drives every run of a project until a signal. It reports whether to
// begin again with the configuration as it is now: after SIGHUP, if that can be
// used.
func (a *app) work(root string) (reload bool, err error) {
	r, err := a.runtime(root, builtin.RuntimeOptions{})
	if err != nil {
		return false, err
	}
	defer r.Close()
	signals, release := a.Signals.handle()
	defer release()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	r.DeliverTelemetry()
	lacks := &lacking{app: a, runtime: r, asked: map[journal.RunID]bool{}}
	go func() { ended <- r.Engine.Work(ctx, lacks.leave) }()
	a.note("Working in %s. Interrupt to stop.", a.folder(root))
	for {
		select {
		case err := <-ended:
			return false, err
		case sig := <-signals:
			if sig == syscall.SIGHUP {
				if _, err := a.config(root, approvedOnly); err != nil {
					a.note("The configuration was not reloaded: %v", err)
					continue
				}
				a.note("Reloading the configuration.")
			}
			cancel()
			a.park(r, sig, signals)
			if sig == syscall.SIGHUP {
				return true, nil
			}
			return false, &failure{code: exitInterrupted, message: "stopped; the runs go on with the next \"espalier work\""}
		}
	}
}

// lacking remembers which runs a worker has to leave alone, because they lack
// something that will not come while it works, and says so of each once.
type lacking struct {
	*app
	runtime *builtin.Runtime
	mu      sync.Mutex
	asked   map[journal.RunID]bool
}

// leave tells whether a run lacks something.
func (l *lacking) leave(id journal.RunID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lacks, known := l.asked[id]; known {
		return lacks
	}
	state, _, def, err := l.runtime.Engine.Load(context.Background(), id)
	if err != nil || state.Finished != nil {
		return false // the engine deals with it, and with whatever is wrong with it
	}
	var lacks *failure
	l.asked[id] = errors.As(readyAgain(l.runtime, state, def), &lacks)
	if l.asked[id] {
		fmt.Fprintf(l.stderr, "Run %s is left alone: %s\n%s\nThe next \"espalier work\" looks again; \"espalier cancel %s\" ends the run.\n",
			short(id), l.secrets.Show(lacks.message), l.secrets.Show(lacks.help), short(id))
	}
	return l.asked[id]
}

// standing is how a run stands, in a few words.
func standing(e journal.Entry) string {
	switch {
	case e.Status == journal.Finished:
		return string(e.Outcome)
	case e.Status == journal.Sleeping && e.Wake != 0:
		return fmt.Sprintf("%s until %s (%s)", e.Status, e.Wake.Time().Local().Format(time.DateTime), e.Waiting)
	case e.Waiting != "" && e.Status != journal.PausedAt:
		return fmt.Sprintf("%s (%s)", e.Status, e.Waiting)
	}
	return string(e.Status)
}

// gateNamed is the gate that belongs to a step, when somebody names the step.
func gateNamed(state *plan.State, step string) string {
	for _, f := range state.OpenGates() {
		if step != "" && f.Step == step+":gate" {
			return f.Step
		}
	}
	return step
}

// takeEdits makes what somebody has changed in the files that a gate shows part
// of the run, before it is approved: what counts is what is in the journal.
func (a *app) takeEdits(ctx context.Context, r *builtin.Runtime, id journal.RunID, state *plan.State, program *plan.Program, d plan.Decision) (bool, error) {
	if d.Answer != plan.Approve {
		return false, nil
	}
	edited := false
	for _, f := range state.OpenGates() {
		if d.Step != "" && d.Step != f.Step && d.Step != f.Place().Key() || f.Gate.Kind != journal.GatePerson {
			continue
		}
		shows, _ := state.Shown(program, f)
		changes, err := r.Edited(ctx, id, shows)
		if err != nil {
			return false, err
		}
		for _, variable := range slices.Sorted(maps.Keys(changes)) {
			if err := r.Engine.Send(ctx, id, plan.Edit{Path: variable, Value: changes[variable], By: d.By}, uuid.NewString()); err != nil {
				return false, err
			}
			edited = true
			a.note("The file of %s was edited; what it holds now is what is approved.", variable)
		}
	}
	return edited, nil
}
