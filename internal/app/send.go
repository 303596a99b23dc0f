package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/registry"
)

// Sent is what became of messages.
type Sent struct {
	// Edited names the variables whose files were edited; what the files hold now is what is approved.
	Edited []string
}

// Send says something to a run, and returns when the answer is durable. Unless the App is RecordOnly, the run then
// continues in the background; if it lacks something for that, the messages are refused with an error of kind NotReady.
func (a *App) Send(ctx context.Context, id journal.RunID, by journal.Actor, messages ...Message) (*Sent, error) {
	rt, err := a.keeper(ctx, id)
	if err != nil {
		return nil, err
	}
	// Without the configuration, secrets in messages are not known and would be recorded.
	if slices.ContainsFunc(messages, carriesData) && rt.settings.err != nil {
		return nil, rt.settings.err
	}
	if !a.o.RecordOnly {
		if err := rt.driving(); err != nil {
			return nil, err
		}
		if err := rt.canContinue(ctx, id); err != nil {
			return nil, rt.runError(id, err)
		}
	}
	sent := &Sent{}
	return sent, rt.tell(ctx, id, func() error {
		for _, m := range messages {
			in := m.input(by)
			if d, ok := in.(plan.Decision); ok && (d.Answer == plan.Approve || d.Answer == plan.Reject) {
				if err := rt.decide(ctx, id, d, sent); err != nil {
					return err
				}
			} else if err := rt.Engine.Send(ctx, id, in, uuid.NewString()); err != nil {
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
func (rt *environment) canContinue(ctx context.Context, id journal.RunID) error {
	entry, err := rt.Store.Entry(ctx, id)
	if err != nil {
		return err
	}
	if entry.Status == journal.Finished || !rt.Idle(entry) {
		return nil
	}
	state, _, def, err := rt.Engine.Load(ctx, id)
	if err != nil {
		return err
	}
	return rt.readyAgain(id, state, def)
}

// decide sends a decision about what the gate shows now, or about what had the digest of the decision.
func (rt *environment) decide(ctx context.Context, id journal.RunID, d plan.Decision, sent *Sent) error {
	state, program, _, err := rt.Engine.Load(ctx, id)
	if err != nil {
		return err
	}
	d.Step = gateOf(state, d.Step)
	if sent.Edited, err = rt.acceptEdits(ctx, id, state, program, d); err != nil {
		return err
	}
	if len(sent.Edited) > 0 {
		if state, program, _, err = rt.Engine.Load(ctx, id); err != nil {
			return err
		}
	}
	shown := ""
	for _, f := range state.OpenGates() {
		if d.Step == "" || d.Step == f.Step || d.Step == f.Place().Key() {
			_, shown = state.Shown(program, f)
		}
	}
	d.Digest = cmp.Or(d.Digest, shown)
	if err := rt.Engine.Send(ctx, id, d, uuid.NewString()); err != nil {
		return rt.decidedBefore(ctx, id, d.Step, err)
	}
	return nil
}

// gateOf returns the gate that belongs to a step; any other step as it is.
func gateOf(state *plan.State, step string) string {
	for _, f := range state.OpenGates() {
		if step != "" && f.Step == step+":gate" {
			return f.Step
		}
	}
	return step
}

// acceptEdits makes changes in the files that a gate shows part of the run, before it is approved: a decision is about
// what the journal has.
func (rt *environment) acceptEdits(
	ctx context.Context, id journal.RunID, state *plan.State, program *plan.Program, d plan.Decision,
) (edited []string, err error) {
	if d.Answer != plan.Approve {
		return nil, nil
	}
	for _, f := range state.OpenGates() {
		if d.Step != "" && d.Step != f.Step && d.Step != f.Place().Key() || f.Gate.Kind != journal.GatePerson {
			continue
		}
		shows, _ := state.Shown(program, f)
		changes, err := rt.editedFiles(ctx, id, shows)
		if err != nil {
			return nil, err
		}
		for _, variable := range slices.Sorted(maps.Keys(changes)) {
			edit := plan.Edit{Path: variable, Value: changes[variable], By: d.By}
			if err := rt.Engine.Send(ctx, id, edit, uuid.NewString()); err != nil {
				return nil, err
			}
			edited = append(edited, variable)
		}
	}
	return edited, nil
}

// editedFiles returns the variables of a gate whose files have been edited, with what the files hold now.
func (rt *environment) editedFiles(
	ctx context.Context, id journal.RunID, shows map[string]json.RawMessage,
) (map[string]json.RawMessage, error) {
	entry, err := rt.Store.Entry(ctx, id)
	if err != nil {
		return nil, err
	}
	program, err := rt.Program(ctx, entry.Definition)
	if err != nil {
		return nil, err
	}
	// Few workflows show files, so the run is read only when one does.
	var started journal.RunStarted
	var wrote map[string]json.RawMessage // by steps
	var failed error
	load := sync.OnceFunc(func() { started, wrote, failed = rt.written(ctx, id) })
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
	root := filepath.Dir(rt.Dir())
	out := map[string]json.RawMessage{}
	for variable, was := range shows {
		now, changed, err := registry.EditedArtifact(program, root, variable, was, read)
		if err != nil {
			return nil, err
		}
		if changed {
			load()
		}
		if failed != nil {
			return nil, failed
		}
		// If the variable was edited and its file was not, the variable counts.
		if changed && len(wrote[variable]) > 0 {
			if _, changed, err = registry.EditedArtifact(program, root, variable, wrote[variable], read); err != nil {
				return nil, err
			}
		}
		if changed {
			out[variable] = now
		}
	}
	return out, nil
}

// written returns how a run started, and the last value that a step has written to each variable.
func (rt *environment) written(ctx context.Context, id journal.RunID) (
	started journal.RunStarted, wrote map[string]json.RawMessage, err error,
) {
	wrote = map[string]json.RawMessage{}
	for e, err := range rt.Store.Events(ctx, id, 0) {
		if err != nil {
			return started, nil, err
		}
		switch x := e.Fact.(type) {
		case journal.RunStarted:
			started = x
		case journal.TaskEnded:
			for _, w := range x.Writes {
				wrote[w.Path] = x.Value.JSON
			}
		}
	}
	return started, wrote, nil
}

// decidedBefore names the earlier decision if one was refused because the gate is no longer open.
func (rt *environment) decidedBefore(ctx context.Context, id journal.RunID, step string, err error) error {
	refused, ok := plan.IsRefusal(err)
	if !errors.Is(err, journal.ErrFinished) && (!ok || refused.Code != plan.NoGate && refused.Code != plan.TooLate) {
		return err
	}
	var last *journal.GateDecided
	var at journal.Millis
	for e, failed := range rt.Store.Events(ctx, id, 0) {
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
	answer := cmp.Or(map[journal.Outcome]string{
		journal.OutcomeOK: "approved", journal.OutcomeRejected: "rejected",
	}[last.Outcome], "settled")
	e := fail(Refused, AlreadyDecided, "%s was %s already, on %s by %s; a decision is for one use", last.Key(), answer,
		at.Time().Local().Format(time.DateTime), DescribeActor(last.By, last.Method, last.Note))
	e.Run, e.Name = id, last.Key()
	return e
}

// DescribeActor returns who decided, how and why.
func DescribeActor(by journal.Actor, method, note string) string {
	who := cmp.Or(by.User, method)
	if by.As != "" {
		who += " (as " + by.As + ")"
	}
	if note != "" {
		who += ": " + note
	}
	return who
}
