package script

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/step"
)

var _ step.Runner = Kind{}

// Recovery is to ask a person, unless the script cannot have begun.
func (Kind) Recovery(_ *ir.Task, history []journal.TaskNoted) step.Recovery {
	if slices.ContainsFunc(history, func(n journal.TaskNoted) bool { return n.Kind == journal.NoteCommand }) {
		return step.Ask
	}
	return step.Rerun
}

// Run runs the script in the run's folder. It finds what the step reads as a
// JSON object on its standard input; what it prints is the result.
func (Kind) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	set, err := step.Decode[Settings](job.Task)
	if err != nil {
		return step.Result{}, step.Errorf(step.ClassInput, "%v", err)
	}
	if job.Step.Timeout == 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, step.ScriptSeconds*time.Second, errSlow)
		defer stop()
	}
	if err := job.MakeDir(); err != nil {
		return step.Result{}, err
	}
	command, err := prepare(ctx, job, set)
	if err != nil {
		return step.Result{}, timely(err)
	}
	if job.Noted(journal.NoteCommand) == 0 {
		if err := job.Log.Note(ctx, step.Note{Kind: journal.NoteCommand, Data: journal.Command{Command: job.Machine.Shown(set.Script)}}); err != nil {
			return step.Result{}, err
		}
	}
	work := step.Work{
		Command: command, Shown: set.Script,
		Wants: contract.Of(job.Workflow, job.Step, contract.Spec{}),
	}
	outcome, err := job.Machine.Run(ctx, job, work)
	switch {
	case errors.Is(err, process.ErrTooMuch):
		return step.Result{}, step.Errorf(step.ClassCommand, "the script of step %q was stopped: it wrote more than %d MiB", job.Step.ID, process.DefaultMaxOutput>>20)
	case ctx.Err() != nil && err != nil:
		return step.Result{}, timely(err)
	case err != nil:
		return step.Result{}, step.Errorf(step.ClassCommand, "the script of step %q: %v", job.Step.ID, err)
	case outcome.Exit != 0:
		return step.Result{}, &step.Error{Class: step.ClassCommand, Message: failure(job, outcome), Exit: outcome.Exit}
	}
	return step.Result{Value: value(outcome.Stdout)}, nil
}

var errSlow = fmt.Errorf("the script did not end within %d seconds", step.ScriptSeconds)

// timely turns our own time limit into a failure; other ends of the context
// are for the engine to understand.
func timely(err error) error {
	if errors.Is(err, errSlow) {
		return step.Errorf(step.ClassTimeout, "%v", errSlow)
	}
	return err
}

// interpreter is how scripts of a language are run.
type interpreter struct {
	programs []string // the first one that is there
	flag     string   // before the script
	get      string   // how to get it
	// probe is a script that prints those of its arguments that cannot be
	// found as modules of the language; "" when there are none.
	probe string
	// install is how to get a module.
	install string
}

var interpreters = map[string]interpreter{
	"sh":   {programs: []string{"sh"}, flag: "-c", get: "It comes with every Unix; on Windows, install Git for Windows or use WSL."},
	"bash": {programs: []string{"bash"}, flag: "-c", get: "Install bash with the system's package manager, or write the script in sh."},
	"python": {
		programs: []string{"python3", "python"}, flag: "-c", get: "Install Python 3 from python.org or with the system's package manager.",
		probe: `import sys, importlib.util, importlib.metadata
for name in sys.argv[1:]:
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        try:
            found = importlib.util.find_spec(name.replace("-", "_"))
        except (ImportError, ValueError):
            found = None
        if found is None:
            print(name)`,
		install: "pip install",
	},
	"javascript": {
		programs: []string{"node"}, flag: "-e", get: "Install Node.js from nodejs.org or with the system's package manager.",
		probe: `for (const name of process.argv.slice(1)) {
  try { require.resolve(name) } catch { console.log(name) }
}`,
		install: "npm install",
	},
}

// prepare makes sure that everything is there before anything begins.
func prepare(ctx context.Context, job *step.Job, set Settings) (process.Command, error) {
	in, ok := interpreters[set.Language]
	if !ok {
		return process.Command{}, step.Errorf(step.ClassMissing, "scripts in %q cannot be run", set.Language)
	}
	program := ""
	for _, name := range in.programs {
		if path, err := job.Machine.Find(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		return process.Command{}, step.Errorf(step.ClassMissing, "step %q is written in %s, but %s is not there. %s", job.Step.ID, set.Language, in.programs[0], in.get)
	}
	command := process.Command{
		Path: program, Args: []string{in.flag, set.Script}, Dir: job.Dir, Stdin: step.JSON(job.Object()),
		Env: process.Environment(os.Environ(), "ESPALIER_RUN_ID="+string(job.Run), "ESPALIER_STEP="+job.Step.ID, "ESPALIER_KEY="+job.Idempotency(job.Key), "TRACEPARENT="+job.TraceParent()),
	}
	if set.Folder != "" {
		command.Dir = filepath.FromSlash(set.Folder)
		if !filepath.IsAbs(command.Dir) {
			command.Dir = filepath.Join(job.Project, command.Dir)
		}
	}
	if err := job.Secure(&command); err != nil {
		return process.Command{}, err
	}
	return command, needed(ctx, job, set, in, command)
}

// needed names the dependencies that are missing. None is ever installed (F46).
func needed(ctx context.Context, job *step.Job, set Settings, in interpreter, command process.Command) error {
	var missing []string
	for _, d := range set.Dependencies {
		name := plainName(d)
		if _, err := job.Machine.Find(name); err != nil && name != "" {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	help := "Install them, or remove them from \"dependencies\"."
	if in.probe != "" {
		command.Args, command.Stdin = append([]string{in.flag, in.probe}, missing...), nil
		outcome, err := job.Machine.Run(ctx, job, step.Work{Command: command})
		switch {
		case ctx.Err() != nil && err != nil:
			return err
		case err != nil || outcome.Exit != 0:
			return step.Errorf(step.ClassMissing, "the dependencies of step %q cannot be looked for: %s", job.Step.ID, failure(job, outcome))
		}
		missing = strings.Fields(string(outcome.Stdout))
		help = fmt.Sprintf("Install them first: %s %s", in.install, strings.Join(missing, " "))
	}
	if len(missing) == 0 {
		return nil
	}
	return step.Errorf(step.ClassMissing, "step %q needs what is not there: %s. %s", job.Step.ID, strings.Join(missing, ", "), help)
}

// plainName is a dependency without the version that it should have.
func plainName(dependency string) string {
	name := strings.TrimSpace(dependency)
	if end := strings.IndexAny(name, "<>=!~ ;["); end >= 0 {
		name = name[:end]
	}
	if at := strings.LastIndexByte(name, '@'); at > 0 { // lodash@4, but @scope/name stays
		name = name[:at]
	}
	return name
}

// failure says how a script ended, with the last lines that it wrote about it.
func failure(job *step.Job, o process.Outcome) string {
	how := fmt.Sprintf("with exit code %d", o.Exit)
	if o.Signal != "" {
		how = fmt.Sprintf("by a signal (%s)", o.Signal)
	}
	message := fmt.Sprintf("the script of step %q ended %s", job.Step.ID, how)
	if last := lastLines(o.Stderr); last != "" {
		message += ": " + last
	}
	return message
}

func lastLines(stderr []byte) string {
	const most = 20
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(stderr), "�")), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}

// value is what a script printed: JSON if it is, else the text without its
// last line break.
func value(stdout []byte) json.RawMessage {
	text := strings.ToValidUTF8(string(stdout), "�")
	var compact bytes.Buffer
	if json.Compact(&compact, []byte(text)) == nil && compact.Len() > 0 {
		return compact.Bytes()
	}
	return step.JSON(strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r"))
}
