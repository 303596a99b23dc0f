package artifact

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/step"
)

// ShellSettings is what a task of the kind "shell" says.
type ShellSettings struct {
	Scripts  []Script `json:"scripts"`            // the first whose shell is there is run
	Variable string   `json:"variable,omitempty"` // that holds what the run was given
	Produces string   `json:"produces,omitempty"` // looked for afterwards
	Workflow string   `json:"workflow"`
	Folder   string   `json:"folder"` // of the workflow, in which scripts run
	Runs     string   `json:"runs,omitempty"`
}

// Script is a script for one shell.
type Script struct {
	Shell string `json:"shell"` // bash or pwsh
	Path  string `json:"path"`  // from the workflow's folder
	Text  string `json:"text"`  // as it was when the run began
}

// Shell is the step kind "shell".
type Shell struct{}

var (
	_ step.Kind   = Shell{}
	_ step.Runner = Shell{}
)

// Name is "shell".
func (Shell) Name() string { return "shell" }

// Understands wants a script.
func (Shell) Understands(t *ir.Task) error {
	set, err := step.Decode[ShellSettings](t)
	if len(set.Scripts) == 0 {
		err = errors.Join(err, errors.New("there is no script"))
	}
	return err
}

// Check has nothing to say: a shell takes any text.
func (Shell) Check(*ir.Program, *ir.Step, *ir.Task) diag.List { return nil }

// Uses names the scripts.
func (Shell) Uses(t *ir.Task) step.Uses {
	var u step.Uses
	for _, s := range step.Lenient[ShellSettings](t).Scripts {
		u.Commands = append(u.Commands, step.CommandUse{Text: s.Shell + " " + s.Path})
	}
	return u
}

// Bound is the time that a script may take.
func (Shell) Bound(_ *ir.Program, s *ir.Step, _ *ir.Task, _ *contract.Contract) step.Bound {
	worst := step.Amount{Unbounded: "a script has no time limit of its own"}
	if s.Timeout > 0 {
		worst = step.N(int64((s.Timeout + 999) / 1000))
	}
	return step.Bound{Base: step.Cost{Seconds: step.N(step.UsualScriptSeconds)}, Worst: step.Cost{Seconds: worst}}
}

// Recovery is to ask a person, unless the script cannot have begun.
func (Shell) Recovery(_ *ir.Task, history []journal.TaskNoted) step.Recovery {
	if slices.ContainsFunc(history, func(n journal.TaskNoted) bool { return n.Kind == journal.NoteCommand }) {
		return step.Ask
	}
	return step.Rerun
}

// Run runs the script.
func (Shell) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	set, err := step.Decode[ShellSettings](job.Task)
	if err != nil {
		return step.Result{}, step.Errorf(step.ClassInput, "%v", err)
	}
	at := newPlace(job, where{set.Workflow, set.Folder, set.Runs})
	shell, script, err := choose(job, set.Scripts)
	if err != nil {
		return step.Result{}, err
	}
	file, remove, err := scriptFile(job, at, script)
	if err != nil {
		return step.Result{}, err
	}
	defer remove()
	run := filepath.Join(at.root, filepath.FromSlash(at.runDir()))
	if err := os.MkdirAll(run, 0o755); err != nil {
		return step.Result{}, step.Errorf(step.ClassMissing, "the run's folder cannot be made: %v", err)
	}
	environ, input, err := environment(job, at, set, run)
	if err != nil {
		return step.Result{}, err
	}
	if input != "" {
		defer os.Remove(input)
	}
	command := process.Command{Path: shell, Args: []string{file}, Dir: at.folder, Env: environ}
	if script.Shell == "pwsh" {
		command.Args = []string{"-NoProfile", "-NonInteractive", "-File", file}
	}
	if err := job.Secure(&command, run); err != nil {
		return step.Result{}, err
	}
	if command.Sandbox != nil {
		command.Sandbox.Read = append(command.Sandbox.Read, file)
		if input != "" {
			command.Sandbox.Read = append(command.Sandbox.Read, input)
		}
	}
	note := shown(at, script)
	note.Command = job.Machine.Shown(note.Command)
	if job.Noted(journal.NoteCommand) == 0 {
		if err := job.Log.Note(ctx, step.Note{Kind: journal.NoteCommand, Data: note}); err != nil {
			return step.Result{}, err
		}
	}
	work := step.Work{Command: command, Shown: script.Shell + " " + script.Path}
	if set.Produces != "" {
		work.Leave = func(text string) error {
			if isFolder(set.Produces) {
				return at.write(set.Produces+"index.md", text)
			}
			return at.write(set.Produces, text)
		}
	}
	outcome, err := job.Machine.Run(ctx, job, work)
	switch {
	case errors.Is(err, process.ErrTooMuch):
		return step.Result{}, step.Errorf(step.ClassCommand, "the script of step %q was stopped: it wrote more than %d MiB", job.Step.ID, process.DefaultMaxOutput>>20)
	case err != nil && ctx.Err() != nil:
		return step.Result{}, err
	case err != nil:
		return step.Result{}, step.Errorf(step.ClassCommand, "the script of step %q: %v", job.Step.ID, err)
	case outcome.Exit != 0:
		message := strings.TrimSpace(strings.ToValidUTF8(string(outcome.Stderr), "�"))
		if message == "" {
			message = fmt.Sprintf("it ended with %d", outcome.Exit)
		}
		return step.Result{}, &step.Error{Class: step.ClassCommand, Message: fmt.Sprintf("%s: %s", script.Path, message), Exit: outcome.Exit}
	}
	if set.Produces == "" {
		return step.Result{Value: step.JSON(strings.ToValidUTF8(string(outcome.Stdout), "�"))}, nil
	}
	value, err := at.product(set.Produces)
	if err != nil {
		return step.Result{}, step.Errorf(step.ClassInvalid, "step %q should have made %s, which cannot be read: %v", job.Step.ID, set.Produces, err)
	}
	return step.Result{Value: value}, nil
}

// shown is what people see before the script runs: where it is, and the
// command, which is run in the workflow's folder.
func shown(at *place, s Script) journal.Command {
	c := journal.Command{Command: s.Shell + " " + s.Path, Script: s.Path}
	if rel, err := filepath.Rel(at.root, filepath.Join(at.folder, filepath.FromSlash(s.Path))); err == nil {
		c.Script = filepath.ToSlash(rel)
	}
	return c
}

// choose takes the first script whose shell is there (G10).
func choose(job *step.Job, scripts []Script) (string, Script, error) {
	var missing []string
	for _, s := range scripts {
		if found, err := job.Machine.Find(s.Shell); err == nil {
			return found, s, nil
		}
		missing = append(missing, s.Shell)
	}
	return "", Script{}, step.Errorf(step.ClassMissing, "step %q needs %s, which is not installed here", job.Step.ID, strings.Join(missing, " or "))
}

// scriptFile is the file to run: the script itself, so that it finds what lies
// beside it; but one that was changed since the run began runs as it was then.
func scriptFile(job *step.Job, at *place, s Script) (string, func(), error) {
	own := filepath.Join(at.folder, filepath.FromSlash(s.Path))
	if raw, err := os.ReadFile(own); err == nil && string(raw) == s.Text {
		return own, func() {}, nil
	}
	dir, err := job.Scratch(s.Text)
	if err != nil {
		return "", nil, err
	}
	f, err := os.CreateTemp(dir, "*"+filepath.Ext(s.Path))
	if err != nil {
		return "", nil, step.Errorf(step.ClassMissing, "the run's folder cannot be written to: %v", err)
	}
	_, err = f.WriteString(s.Text)
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(f.Name())
		return "", nil, step.Errorf(step.ClassMissing, "the run's folder cannot be written to: %v", err)
	}
	return f.Name(), func() { os.Remove(f.Name()) }, nil
}

// environment is ours, with what G10 lists.
func environment(job *step.Job, at *place, set ShellSettings, run string) (environ []string, file string, err error) {
	more := []string{
		"AGENTFILE_RUN_ID=" + at.run, "AGENTFILE_RUN_DIR=" + run, "AGENTFILE_WORKFLOW=" + at.workflow,
		"ESPALIER_RUN_ID=" + string(job.Run), "ESPALIER_STEP=" + job.Step.ID, "ESPALIER_KEY=" + job.Idempotency(job.Key),
		"TRACEPARENT=" + job.TraceParent(),
	}
	for _, r := range job.Reads {
		if r.Path != "input."+set.Variable || r.Missing {
			continue
		}
		text := plain(r.Value)
		if len(text) < mostVariable && !strings.ContainsRune(text, 0) {
			more = append(more, "AGENT_INPUT="+text, set.Variable+"="+text)
			continue
		}
		// No environment can hold it: it lies in a file, whose name is there.
		dir, err := job.Scratch(text)
		if err != nil {
			return nil, "", err
		}
		f, err := os.CreateTemp(dir, ".input-*")
		if err != nil {
			return nil, "", step.Errorf(step.ClassMissing, "the run's folder cannot be written to: %v", err)
		}
		file = f.Name()
		_, err = f.WriteString(text)
		if err = errors.Join(err, f.Close()); err != nil {
			os.Remove(file)
			return nil, "", step.Errorf(step.ClassMissing, "the run's folder cannot be written to: %v", err)
		}
		more = append(more, "AGENT_INPUT_FILE="+file, set.Variable+"_FILE="+file)
	}
	return process.Environment(os.Environ(), more...), file, nil
}

// mostVariable is how long a variable may be: systems allow as little as 128 KiB.
const mostVariable = 96 << 10
