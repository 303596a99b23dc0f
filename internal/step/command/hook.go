package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
)

// HookSettings is what a task of the kind "hook" says.
type HookSettings struct {
	Hooks []HookSetting `json:"hooks"`
	// Strict makes a hook that fails fail the step; otherwise that is only told.
	Strict bool `json:"strict,omitempty"`
	// Again ends the step as the one before it ended: a failure goes on.
	Again bool `json:"again,omitempty"`
	// Files must be there.
	Files []string `json:"files,omitempty"`
	// Failure is the error that the hooks see when the step before has not
	// failed: the run is about to end as failed all the same.
	Failure *Failure `json:"failure,omitempty"`
	// State is the one that the hooks are of: to them it is the current one.
	// Where there is none it is that of the failure, if there was one.
	State string `json:"state,omitempty"`

	Export []string `json:"export,omitempty"`
	// Doubts is that of Settings.
	Doubts []string `json:"doubts,omitempty"`
}

// Failure is that of a run which a state ends as failed.
type Failure struct {
	State   string `json:"state"`
	Message string `json:"message"` // a template
}

// HookSetting is one hook: a line to tell, or a command.
type HookSetting struct {
	Log     string    `json:"log,omitempty"`
	Command string    `json:"command,omitempty"`
	Timeout ir.Millis `json:"timeout,omitempty"`
}

// Hook is the step kind "hook".
type Hook struct{}

var (
	_ step.Kind   = Hook{}
	_ step.Runner = Hook{}
)

// Name is "hook".
func (Hook) Name() string { return "hook" }

// Understands wants settings of the right form.
func (Hook) Understands(t *ir.Task) error {
	_, err := step.Decode[HookSettings](t)
	return err
}

// Check has nothing to say.
func (Hook) Check(*ir.Program, *ir.Step, *ir.Task) diag.List { return nil }

// Uses are the hooks that are commands.
func (Hook) Uses(t *ir.Task) step.Uses {
	var u step.Uses
	for _, h := range step.Lenient[HookSettings](t).Hooks {
		if h.Command != "" {
			u.Commands = append(u.Commands, step.CommandUse{Text: h.Command})
		}
	}
	return u
}

// Bound is the time that commands may take.
func (Hook) Bound(_ *ir.Program, s *ir.Step, _ *ir.Task, _ *contract.Contract) step.Bound {
	return bound(s)
}

// Recovery is to ask a person, unless no command can have begun.
func (Hook) Recovery(_ *ir.Task, history []journal.TaskNoted) step.Recovery { return recovery(history) }

// classEnded is the class of a run's failure that its author has decided on.
const classEnded = "ENDED"

// Run does all hooks, one after the other.
func (Hook) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	set, err := step.Decode[HookSettings](job.Task)
	if err != nil {
		return step.Result{}, step.Errorf(step.ClassInput, "%v", err)
	}
	values := job.Values()
	for _, template := range set.Files {
		if err := there(job, template, values); err != nil {
			return step.Result{}, err
		}
	}
	if last, ok := values["last"].(map[string]any); ok && set.Failure != nil && last["outcome"] != string(ir.Failed) {
		message, err := job.Fill(set.Failure.Message, values)
		if err != nil {
			message = set.Failure.Message // the step that ends the run says what is wrong with it
		}
		values["last"] = map[string]any{"outcome": string(ir.Failed), "step": set.Failure.State, "error": message, "class": classEnded}
	}
	standAt(values, set.State)
	r := runner{job: job, values: values, export: set.Export, doubts: set.Doubts}
	defer r.close()
	var notes []step.Note
	begun := job.Noted(journal.NoteCommand)
	for _, h := range set.Hooks {
		said, err := r.hook(ctx, h, &begun)
		if ctx.Err() != nil && err != nil {
			return step.Result{Notes: notes}, context.Cause(ctx)
		}
		if err != nil && set.Strict {
			return step.Result{Notes: notes}, step.Errorf(step.ClassCommand, "a hook failed: %v", err)
		}
		if err != nil {
			said = fmt.Sprintf("a hook failed: %v", err)
		}
		if said != "" {
			notes = append(notes, step.Note{Kind: journal.NoteSaid, Data: journal.Said{Text: said}})
		}
	}
	if set.Again {
		return again(job, notes)
	}
	return step.Result{Value: json.RawMessage("{}"), Notes: notes}, nil
}

// standAt makes a state the current one; those who wrote the hooks do not know
// the names of the steps that do them.
func standAt(values expr.Values, state string) {
	if last, ok := values["last"].(map[string]any); ok && state == "" && last["outcome"] == string(ir.Failed) {
		state, _ = last["step"].(string)
		if left, ok := last["value"].(map[string]any); ok && left[expr.HookedState] != nil {
			state, _ = left[expr.HookedState].(string)
		}
	}
	if run, ok := values["run"].(map[string]any); ok && state != "" {
		run = maps.Clone(run)
		run["step"] = state
		values["run"] = run
	}
}

// again ends the step as the one before it ended.
func again(job *step.Job, notes []step.Note) (step.Result, error) {
	var last struct {
		Outcome string          `json:"outcome"`
		Error   string          `json:"error"`
		Class   string          `json:"class"`
		Step    string          `json:"step"`
		Value   json.RawMessage `json:"value"`
	}
	for _, read := range job.Reads {
		if read.Path == "last" && !read.Missing {
			if err := json.Unmarshal(read.Value, &last); err != nil {
				return step.Result{Notes: notes}, step.Errorf(step.ClassInput, "%v", err)
			}
		}
	}
	if len(last.Value) == 0 {
		last.Value = json.RawMessage("null")
	}
	if last.Outcome == string(ir.Failed) {
		return step.Result{Notes: notes}, &step.Error{Class: last.Class, Message: last.Error, Value: failedAt(last.Step, last.Value)}
	}
	return step.Result{Value: last.Value, Notes: notes}, nil
}

// failedAt keeps with what a failed step left which step that was: of several
// hooks in a row the first one knows.
func failedAt(name string, value json.RawMessage) json.RawMessage {
	left := map[string]json.RawMessage{}
	if json.Unmarshal(value, &left) != nil || left == nil {
		left = map[string]json.RawMessage{}
	}
	if _, known := left[expr.HookedState]; !known {
		left[expr.HookedState] = step.JSON(name)
	}
	return step.JSON(left)
}

// hook does one hook and returns what there is to tell. begun is how many
// commands, from here on, were begun in an earlier life: all of them but the
// last were done then.
func (r *runner) hook(ctx context.Context, h HookSetting, begun *int) (said string, err error) {
	if h.Command == "" {
		return r.job.Fill(h.Log, r.values)
	}
	text, command, err := r.prepare(Settings{Command: h.Command})
	if err != nil {
		return "", err
	}
	*begun--
	if *begun > 0 {
		return "", nil
	}
	if *begun < 0 {
		if err := r.job.Log.Note(ctx, step.Note{Kind: journal.NoteCommand, Data: journal.Command{Command: r.job.Machine.Shown(shortened(text))}}); err != nil {
			return "", err
		}
	}
	if h.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, h.Timeout.Duration(), errSlow)
		defer stop()
	}
	outcome, err := r.job.Machine.Run(ctx, r.job, step.Work{Command: command, Shown: text})
	switch {
	case errors.Is(err, errSlow):
		return "", errSlow
	case err != nil:
		return "", err
	case outcome.Exit != 0:
		return "", errors.New(failure(outcome))
	}
	return "", nil
}

var errSlow = errors.New("the hook's time is up")

// there wants a file to exist.
func there(job *step.Job, template string, values expr.Values) error {
	path, err := job.Fill(template, values)
	if err != nil || path == "" {
		return err
	}
	full := home(path)
	if !filepath.IsAbs(full) {
		full = filepath.Join(job.Folder(), full)
	}
	if _, err := os.Stat(full); err != nil {
		return step.Errorf(step.ClassInput, "there is no file %q", path)
	}
	return nil
}
