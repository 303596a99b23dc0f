package script

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/exec"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

// Runner runs tasks of kind "script".
type Runner struct {
	exec.Base[kinds.Script, settings]
}

type settings kinds.ScriptSettings

var _ step.Settings = settings{}

// Run runs the script in the run's folder. The script gets what the step reads
// as a JSON object on its standard input; what it prints is the result.
func (s settings) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	if job.Step.Timeout > 0 {
		return s.run(ctx, job)
	}
	message := fmt.Sprintf("the script did not end within %d seconds", stepkind.ScriptSeconds)
	return step.Limit(ctx, stepkind.ScriptSeconds*time.Second, message, func(ctx context.Context) (step.Result, error) {
		return s.run(ctx, job)
	})
}

func (s settings) run(ctx context.Context, job *step.Job) (step.Result, error) {
	if err := job.MakeDir(); err != nil {
		return step.Result{}, err
	}
	p := exec.Program{Name: fmt.Sprintf("the script of step %q", job.Step.ID), CommandSpec: step.CommandSpec{
		Shown: s.Script, Wants: kinds.Script{}.Explored(job.Workflow, job.Step, job.Task),
	}}
	job.Explore(&p.Wants)
	var err error
	if p.Command, err = s.prepare(ctx, job); err != nil {
		return step.Result{}, err
	}
	stdout, err := p.Output(ctx, job)
	if err != nil {
		return step.Result{}, err
	}
	return step.Result{Value: value(stdout)}, nil
}

// interpreter runs the scripts of a language.
type interpreter struct {
	programs []string // the first that is installed is used
	flag     string   // before the script
	get      string   // how to install it
	// probe is a script that prints those of its arguments that are not
	// installed as modules of the language; "" when the language has none.
	probe string
	// install is the command that installs a module.
	install string
}

var interpreters = map[string]interpreter{
	"sh": {
		programs: []string{"sh"}, flag: "-c",
		get: "It comes with every Unix; on Windows, install Git for Windows or use WSL.",
	},
	"bash": {
		programs: []string{"bash"}, flag: "-c",
		get: "Install bash with the system's package manager, or write the script in sh.",
	},
	"python": {
		programs: []string{"python3", "python"}, flag: "-c",
		get: "Install Python 3 from python.org or with the system's package manager.",
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
		programs: []string{"node"}, flag: "-e",
		get: "Install Node.js from nodejs.org or with the system's package manager.",
		probe: `for (const name of process.argv.slice(1)) {
  try { require.resolve(name) } catch { console.log(name) }
}`,
		install: "npm install",
	},
}

// prepare returns the command, once everything that it needs is installed.
func (s settings) prepare(ctx context.Context, job *step.Job) (process.Command, error) {
	in, ok := interpreters[s.Language]
	if !ok {
		return process.Command{}, step.Errorf(ir.ClassMissing, "scripts in %q cannot be run", s.Language)
	}
	program := ""
	for _, name := range in.programs {
		if path, err := job.Machine.Find(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		return process.Command{}, step.Errorf(ir.ClassMissing,
			"step %q is written in %s, but %s is not installed. %s", job.Step.ID, s.Language, in.programs[0], in.get)
	}
	command := process.Command{
		Path: program, Args: []string{in.flag, s.Script}, Dir: job.Dir, Stdin: step.JSON(job.Object()),
		Env: exec.Environment(job),
	}
	if s.Folder != "" {
		command.Dir = filepath.FromSlash(s.Folder)
		if !filepath.IsAbs(command.Dir) {
			command.Dir = filepath.Join(job.Project, command.Dir)
		}
	}
	return command, s.checkDependencies(ctx, job, in, command)
}

// checkDependencies reports the dependencies that are not installed. None is
// ever installed.
func (s settings) checkDependencies(ctx context.Context, job *step.Job, in interpreter, probe process.Command) error {
	var missing []string
	for _, d := range s.Dependencies {
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
		probe.Args, probe.Stdin = append([]string{in.flag, in.probe}, missing...), nil
		if err := job.ApplySandbox(&probe); err != nil {
			return err
		}
		outcome, err := job.Machine.Run(ctx, job, step.CommandSpec{Command: probe})
		switch {
		case ctx.Err() != nil && err != nil:
			return err
		case err != nil || outcome.Exit != 0:
			p := exec.Program{Name: "the check"}
			return step.Errorf(ir.ClassMissing, "cannot check the dependencies of step %q: %v",
				job.Step.ID, cmp.Or(err, error(p.Failure(outcome))))
		}
		missing = strings.Fields(string(outcome.Stdout))
		help = fmt.Sprintf("Install them first: %s %s", in.install, strings.Join(missing, " "))
	}
	if len(missing) == 0 {
		return nil
	}
	return step.Errorf(ir.ClassMissing, "step %q has dependencies that are not installed: %s. %s",
		job.Step.ID, strings.Join(missing, ", "), help)
}

// plainName returns a dependency without its version.
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

// value returns what a script printed: JSON if it is JSON, else the text
// without its last line break.
func value(stdout []byte) json.RawMessage {
	text := exec.Text(stdout)
	var compact bytes.Buffer
	if json.Compact(&compact, []byte(text)) == nil && compact.Len() > 0 {
		return compact.Bytes()
	}
	return step.JSON(strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r"))
}
