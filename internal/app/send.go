package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/schema"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Sent is the result of Send.
type Sent struct {
	// Edited names the variables whose files were edited; what the files hold now is what is approved.
	Edited []string
}

// Send sends messages to a run, and returns when they are durable. Unless the App is RecordOnly, the run then
// continues in the background; if it lacks something for that, the messages are refused with an error of kind NotReady.
func (a *App) Send(ctx context.Context, id journal.RunID, by journal.Actor, messages ...Message) (*Sent, error) {
	env, err := a.environmentFor(ctx, id)
	if err != nil {
		return nil, err
	}
	// Without the configuration, secrets in messages are not known and would be recorded.
	if slices.ContainsFunc(messages, carriesData) && env.settings.err != nil {
		return nil, env.settings.err
	}
	if !env.ReadOnly() {
		if err := env.reportSetBack(ctx, id); err != nil && !errors.Is(err, journal.ErrUnknownRun) {
			a.o.Log.Warn("the audit log is not compared with the journal", "run_id", id, "error", err)
		}
	}
	// A message makes this process responsible for the run (see engine.Driver.Send), so find out first whether it could
	// drive it.
	if !a.o.RecordOnly {
		if err := env.driving(); err != nil {
			return nil, err
		}
		if err := env.canContinue(ctx, id); err != nil {
			return nil, env.runError(id, err)
		}
	}
	sent := &Sent{}
	return sent, env.sendTo(ctx, id, func() error {
		for _, m := range messages {
			in := m.input(by)
			if signal, ok := in.(plan.Signal); ok && signal.Step != "" {
				if in, err = env.address(ctx, id, signal); err != nil {
					return err
				}
			}
			d, ok := in.(plan.GateDecision)
			if ok && (d.Answer == journal.AnswerApprove || d.Answer == journal.AnswerReject) {
				if err := env.decide(ctx, id, d, sent); err != nil {
					return err
				}
			} else if err := env.Engine.Send(ctx, id, in, uuid.NewString()); err != nil {
				if signal, ok := in.(plan.Signal); ok && signal.Step != "" {
					return env.decidedBefore(ctx, id, signal.Step, err)
				}
				return err
			}
		}
		return nil
	})
}

// carriesData reports whether a message has something that is recorded besides its kind.
func carriesData(m Message) bool {
	switch m.(type) {
	case Pause, Cancel:
		return false
	}
	return true
}

// canContinue returns what a run lacks to continue in this process. A run that another process drives lacks nothing.
func (env *environment) canContinue(ctx context.Context, id journal.RunID) error {
	entry, err := env.Store.Entry(ctx, id)
	if err != nil {
		return err
	}
	if entry.Status == journal.Finished || !env.Idle(entry) {
		return nil
	}
	state, _, def, err := env.Engine.Load(ctx, id)
	if err != nil {
		return err
	}
	return env.readyAgain(id, state, def, "")
}

// decide sends a decision about what the gate shows now, or about what had the digest of the decision. An approval is
// about the files that hold what the gate shows, as they are now.
func (env *environment) decide(ctx context.Context, id journal.RunID, d plan.GateDecision, sent *Sent) error {
	state, program, _, err := env.Engine.Load(ctx, id)
	if err != nil {
		return err
	}
	found := matchGates(state.OpenGates(), gateKey, d.Step)
	if len(found) > 1 && d.Step != "" {
		return &plan.Refusal{Code: plan.Ambiguous, Why: "several steps are waiting for a decision: name one of " +
			placeNames(found)}
	}
	// Otherwise the engine refuses the decision, and says why.
	if len(found) == 1 {
		d.Step = found[0].Place().Key()
		if err := env.mayClaim(state, program, found[0], d.By); err != nil {
			return err
		}
		if d.Automated {
			var o RunOptions
			if err := json.Unmarshal(state.Options, &o); err != nil {
				return err
			}
			if err := env.mayApproveItself(program.Root(), o); err != nil {
				return err
			}
		}
		shown, err := env.shown(ctx, id, state, program, found[0])
		if err == nil {
			err = checkAnswer(found[0], shown, &d)
		}
		if err != nil {
			return err
		}
		// Without edits the digest is that of the journal's values. With edits, an approval first makes them part of
		// the run, and then names the digest of the new values.
		switch {
		case len(shown.edits) == 0:
			d.Digest = cmp.Or(d.Digest, shown.digest)
		case d.Digest != "" && d.Digest != shown.digest:
			return &plan.Refusal{Code: plan.Changed, Why: fmt.Sprintf(
				"%s changed after it was shown; look at it and decide again",
				strings.Join(shown.paths(), ", "))}
		case d.Answer == journal.AnswerApprove:
			if sent.Edited, err = env.acceptEdits(ctx, id, shown, d.By); err != nil {
				return err
			}
			d.Digest = shown.digest
		default: // a rejection leaves the run as it is
			_, d.Digest = state.Shown(program, found[0])
		}
	}
	if err := env.Engine.Send(ctx, id, d, uuid.NewString()); err != nil {
		return env.decidedBefore(ctx, id, d.Step, err)
	}
	return nil
}

// AnswerSchema is the name under which a gate shows the schema of the answer that a tool asks for.
const AnswerSchema = step.AnswerSchema

// checkAnswer returns an error unless the value of an approval is what the gate asks for.
func checkAnswer(f *plan.Frame, shown *gateContent, d *plan.GateDecision) error {
	wants, name := shown.reads[step.AnswerSchema], journal.StepName(f.Step)
	if f.Gate.Kind != journal.GateToolCall || d.Answer != journal.AnswerApprove {
		wants = nil
	}
	switch {
	case len(wants) == 0 && len(d.Value) > 0:
		return fail(InvalidRequest, "", "step %q asks for a decision, not for a value", name)
	case len(wants) == 0:
		return nil
	case len(d.Value) == 0:
		d.Value = json.RawMessage("{}")
	}
	compiled, err := schema.Compile(wants)
	if err != nil {
		return fail(Refused, "", "the question of step %q has a schema that cannot be used: %v", name, err)
	}
	problems, err := compiled.Check(d.Value)
	if err != nil {
		return fail(InvalidRequest, "", "the answer is not JSON: %v", err)
	}
	if len(problems) == 0 {
		return nil
	}
	list := xslices.Map(problems, schema.Problem.String)
	return fail(InvalidRequest, "", "the answer to step %q does not fit its schema: %s", name, strings.Join(list, "; "))
}

// mayClaim refuses a claimed identity at a gate that names approvers, if the project has users: there, people decide
// with their own credentials.
func (env *environment) mayClaim(state *plan.State, program *plan.Program, f *plan.Frame, by journal.Actor) error {
	if by.Method != "" || by.As == "" || state.Approvers(program, f) == nil {
		return nil
	}
	users, err := identity.NewUsers(env.Dir()).List()
	if err != nil || len(users) == 0 {
		return err
	}
	return fail(Refused, ClaimedIdentity, "this project has users: %s cannot decide %s as %s", by.User,
		journal.PlaceName(f.Place().Key()), by.As)
}

// matchGates returns the gates that a person means: those with the key or the step that they name, or else those that
// belong to a step of the file with that name. Without a name, all gates are meant.
func matchGates[G any](open []G, key func(G) string, name string) []G {
	var exact, named []G
	for _, g := range open {
		switch k := key(g); name {
		case "", k, journal.StepID(k):
			exact = append(exact, g)
		case journal.StepName(k), journal.PlaceName(k), journal.LocalName(k), journal.LocalID(k):
			named = append(named, g)
		default:
			if slices.Contains(ir.GateTitles(journal.StepID(k)), name) {
				named = append(named, g)
			}
		}
	}
	if len(exact) > 0 {
		return exact
	}
	return named
}

// gateKey returns the key of a gate, by which decisions and records name it.
func gateKey(f *plan.Frame) string { return f.Place().Key() }

// placeNames lists gates for people.
func placeNames(gates []*plan.Frame) string {
	return strings.Join(journal.PlaceNames(xslices.Map(gates, gateKey)), ", ")
}

// address returns a signal with the key of the step that a person means by its name. The signal stays as it is if no
// such step waits for the event.
func (env *environment) address(ctx context.Context, id journal.RunID, s plan.Signal) (plan.Signal, error) {
	state, _, _, err := env.Engine.Load(ctx, id)
	if err != nil || state.Finished != nil {
		return s, err
	}
	open := slices.DeleteFunc(slices.Clone(state.OpenGates()),
		func(f *plan.Frame) bool { return f.Gate.Event != s.Event })
	found := matchGates(open, gateKey, s.Step)
	if len(found) > 1 {
		return s, &plan.Refusal{Code: plan.Ambiguous, Why: "several steps are waiting for the event: name one of " +
			placeNames(found)}
	}
	if len(found) == 1 {
		s.Step = gateKey(found[0])
	}
	return s, nil
}

// gateContent holds the values that a gate shows, with the files that hold them as they are now.
type gateContent struct {
	reads  map[string]json.RawMessage
	digest string
	files  map[string]string          // path of the file of a variable
	edits  map[string]json.RawMessage // variables whose files were edited, with what the files hold
}

// paths returns the files that were edited.
func (c *gateContent) paths() []string {
	out := xslices.Map(slices.Collect(maps.Keys(c.edits)), func(variable string) string { return c.files[variable] })
	slices.Sort(out)
	return out
}

// acceptEdits makes changes in the files that a gate shows part of the run, before it is approved: a decision is about
// what the journal has.
func (env *environment) acceptEdits(
	ctx context.Context, id journal.RunID, shown *gateContent, by journal.Actor,
) (edited []string, err error) {
	for _, variable := range slices.Sorted(maps.Keys(shown.edits)) {
		edit := plan.Edit{Path: variable, Value: shown.edits[variable], By: by}
		if err := env.Engine.Send(ctx, id, edit, uuid.NewString()); err != nil {
			return nil, err
		}
		edited = append(edited, variable)
	}
	return edited, nil
}

// shown returns what an open gate shows. If a step has produced a value as a file, the file counts as it is now.
func (env *environment) shown(
	ctx context.Context, id journal.RunID, state *plan.State, program *plan.Program, f *plan.Frame,
) (*gateContent, error) {
	out := &gateContent{files: map[string]string{}, edits: map[string]json.RawMessage{}}
	out.reads, out.digest = state.Shown(program, f)
	if f.Gate.Kind != journal.GatePerson {
		return out, nil
	}
	// Few workflows show files, so the run is read only when one does.
	var started journal.RunStarted
	var wrote map[string]json.RawMessage // by steps
	var failed error
	load := sync.OnceFunc(func() { started, wrote, failed = env.written(ctx, id) })
	read := func(path string) string {
		load()
		raw := started.Vars[path].JSON
		if key, ok := strings.CutPrefix(path, "input."); ok {
			var input map[string]json.RawMessage
			if json.Unmarshal(started.Input.JSON, &input) == nil {
				raw = input[key]
			}
		}
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return ""
		}
		return text
	}
	root := filepath.Dir(env.Dir())
	for variable, was := range out.reads {
		file, err := registry.ArtifactFile(program.Root(), root, variable, was, read)
		if err != nil {
			return nil, err
		}
		if file == nil {
			continue
		}
		out.files[variable] = file.Path
		if rel, err := filepath.Rel(root, file.Path); err == nil && filepath.IsLocal(rel) {
			out.files[variable] = filepath.ToSlash(rel)
		}
		if !file.Changed {
			continue
		}
		if load(); failed != nil {
			return nil, failed
		}
		// If the variable was edited and its file was not, the variable counts.
		if len(wrote[variable]) > 0 {
			since, err := registry.ArtifactFile(program.Root(), root, variable, wrote[variable], read)
			if err != nil {
				return nil, err
			}
			if !since.Changed {
				continue
			}
		}
		out.edits[variable] = file.Now
	}
	// The gate shows what the files hold, and so does the digest.
	if len(out.edits) > 0 {
		maps.Copy(out.reads, out.edits)
		out.digest = journal.GateDigest(state.Run, f.Work().Key(), f.Gate.Kind, out.reads)
	}
	return out, nil
}

// written returns how a run started, and the last value that a step has written to each variable. The files of a run
// that continues another one hold what it started with.
func (env *environment) written(ctx context.Context, id journal.RunID) (
	started journal.RunStarted, wrote map[string]json.RawMessage, err error,
) {
	if started, err = report.Started(ctx, env.Store, id); err != nil {
		return started, nil, err
	}
	vars := report.Variables{}
	for e, err := range report.Events(ctx, env.Store, id) {
		if err != nil {
			return started, nil, err
		}
		vars.Apply(e)
	}
	wrote = map[string]json.RawMessage{}
	for path, v := range started.Vars {
		wrote[path] = v.JSON
	}
	for path, v := range vars {
		if v.Step != nil {
			wrote[path] = v.Written
		}
	}
	return started, wrote, nil
}

// decidedBefore names the earlier decision if one was refused because the gate is no longer open.
func (env *environment) decidedBefore(ctx context.Context, id journal.RunID, step string, err error) error {
	refused, ok := plan.IsRefusal(err)
	if !errors.Is(err, journal.ErrFinished) && (!ok || refused.Code != plan.NoGate && refused.Code != plan.TooLate) {
		return err
	}
	var last report.Decision
	run := id // of the gate: the workflow may have called another one
	// The last decision about a gate of that name counts, in this run or in one that it has called.
	for e, failed := range report.Events(ctx, env.Shown, id) {
		if failed != nil {
			return err
		}
		if e.Type != report.GateDecided {
			continue
		}
		d := e.Verdict()
		name, key := d.Gate.Step, d.Gate.Key()
		if slices.Contains(append(ir.GateTitles(name), "", name, key, journal.StepName(key), journal.PlaceName(key)),
			step) {
			last, run = d, e.Run.ID
		}
	}
	if last.Outcome == "" {
		return err
	}
	how := "was already " + cmp.Or(string(last.Answer), "decided")
	who := " by " + DescribeActor(last.By, last.Method, last.Note)
	if last.Answer == report.TimedOut {
		how, who = "has already timed out", ""
	}
	e := fail(Refused, AlreadyDecided, "gate %s %s, on %s%s; a gate is decided once",
		journal.PlaceName(last.Gate.Key()), how, last.At.Time().Local().Format(time.DateTime), who)
	e.Run, e.Name = run, last.Gate.Step
	return e
}

// DescribeActor returns who decided, how and why.
func DescribeActor(by journal.Actor, method journal.Method, note string) string {
	who := cmp.Or(by.User, string(method))
	if method == journal.MethodAutoApprove && who != plan.AutoApprove {
		who = plan.AutoApprove + " of " + who
	}
	if by.As != "" {
		who += " (as " + by.As + ")"
	}
	if note != "" {
		who += ": " + note
	}
	return who
}
