package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/exec"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

// HookRunner runs tasks of kind "hook".
type HookRunner struct {
	exec.Base[kinds.Hook, hookSettings]
}

var _ step.Instant = HookRunner{}

type hookSettings kinds.HookSettings

var _ step.Settings = hookSettings{}

// Instant reports whether the hooks only log lines.
func (HookRunner) Instant(t *ir.Task) bool {
	return !slices.ContainsFunc(stepkind.Lenient[kinds.HookSettings](t).Hooks,
		func(h kinds.HookSetting) bool { return h.Command != "" })
}

// Run runs the hooks in order.
func (s hookSettings) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	values := job.Values()
	for _, template := range s.Files {
		if err := requireFile(job, template, values); err != nil {
			return step.Result{}, err
		}
	}
	if last, ok := values["last"].(map[string]any); ok && s.Failure != nil && last["outcome"] != string(ir.Failed) {
		message, err := job.Fill(s.Failure.Message, values)
		if err != nil {
			message = s.Failure.Message // the step that ends the run reports the error
		}
		values["last"] = map[string]any{
			"outcome": string(ir.Failed), "step": s.Failure.State,
			"error": message, "class": string(ir.ClassEnded),
		}
	}
	setCurrentState(values, s.State)
	r := newPreparer(job, values, s.Export, s.UntrustedRoots)
	defer r.Remove()
	var notes []step.Note
	var results journal.Hooks
	commands := 0
	for _, h := range s.Hooks {
		text, err := r.hook(ctx, h, &commands)
		if ctx.Err() != nil && err != nil {
			return step.Result{Notes: notes}, context.Cause(ctx)
		}
		one := journal.HookResult{Log: text, Command: h.Command}
		if err != nil {
			one.Error = err.Error()
			text = fmt.Sprintf("a hook failed: %v", err)
		}
		results.Hooks = append(results.Hooks, one)
		if err != nil && s.Strict {
			return step.Result{Notes: append(notes, step.Note{Kind: journal.NoteHooks, Data: results})},
				step.Errorf(ir.ClassCommand, "%s", text)
		}
		if text != "" {
			notes = append(notes, step.Note{Kind: journal.NoteLogLine, Data: journal.LogLine{Text: text}})
		}
	}
	if len(results.Hooks) > 0 {
		notes = append(notes, step.Note{Kind: journal.NoteHooks, Data: results})
	}
	if s.Again {
		return repeatOutcome(job, notes)
	}
	return step.Result{Value: json.RawMessage("{}"), Notes: notes}, nil
}

// setCurrentState makes a state the current one: authors of hooks do not know
// the names of the steps that run them.
func setCurrentState(values expr.Values, state string) {
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

// repeatOutcome ends the step as the step before it ended.
func repeatOutcome(job *step.Job, notes []step.Note) (step.Result, error) {
	var last struct {
		Outcome string          `json:"outcome"`
		Error   string          `json:"error"`
		Class   ir.Class        `json:"class"`
		Step    string          `json:"step"`
		Value   json.RawMessage `json:"value"`
	}
	for _, read := range job.Reads {
		if read.Path == "last" && !read.Missing {
			if err := json.Unmarshal(read.Value, &last); err != nil {
				return step.Result{Notes: notes}, step.Errorf(ir.ClassInput, "%v", err)
			}
		}
	}
	if len(last.Value) == 0 {
		last.Value = json.RawMessage("null")
	}
	if last.Outcome == string(ir.Failed) {
		return step.Result{Notes: notes}, &step.Error{
			Class: last.Class, Message: last.Error, Value: failedAt(last.Step, last.Value),
		}
	}
	return step.Result{Value: last.Value, Notes: notes}, nil
}

// failedAt adds the name of the failed step to the value that it left. Of
// several hooks in a row, the first one adds it.
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

// hook runs one hook and returns the line that it logs. commands counts the commands of the task. Of the
// commands that an earlier execution of this attempt noted, all but the last have ended.
func (r *preparer) hook(ctx context.Context, h kinds.HookSetting, commands *int) (string, error) {
	if h.Command == "" {
		return r.job.Fill(h.Log, r.values)
	}
	p, err := r.prepare(settings{Command: h.Command})
	if err != nil {
		return "", err
	}
	p.Index = *commands
	*commands++
	if *commands < r.job.NoteCount(journal.NoteCommand) {
		return "", nil
	}
	run := func(ctx context.Context) (step.Result, error) {
		outcome, err := p.Run(ctx, r.job)
		if err == nil && outcome.Exit != 0 {
			err = errors.New(failure(outcome))
		}
		return step.Result{}, err
	}
	if h.Timeout > 0 {
		message := fmt.Sprintf("the hook timed out after %s", h.Timeout.Duration())
		_, err = step.Limit(ctx, h.Timeout.Duration(), message, run)
	} else {
		_, err = run(ctx)
	}
	return "", err
}

// requireFile returns an error unless a file exists.
func requireFile(job *step.Job, template string, values expr.Values) error {
	path, err := job.Fill(template, values)
	if err != nil || path == "" {
		return err
	}
	full := home(path)
	if !filepath.IsAbs(full) {
		full = filepath.Join(job.Folder(), full)
	}
	switch info, err := os.Stat(full); {
	case err != nil:
		return step.Errorf(ir.ClassInput, "there is no file %q", path)
	case info.IsDir():
		return step.Errorf(ir.ClassInput, "%q is a folder, not a file", path)
	}
	return nil
}
