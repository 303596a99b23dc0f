package artifact

import (
	"cmp"
	"context"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/protected"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/exec"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

// ShellRunner runs tasks of kind "shell".
type ShellRunner struct {
	exec.Base[kinds.Shell, shellSettings]
}

type shellSettings kinds.ShellSettings

var _ step.Settings = shellSettings{}

// Run runs the script.
func (s shellSettings) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	at, err := newPlace(job)
	if err != nil {
		return step.Result{}, err
	}
	shell, script, err := choose(job, s.Scripts)
	if err != nil {
		return step.Result{}, err
	}
	files := exec.Files{Job: job}
	defer files.Remove()
	file, err := scriptFile(&files, at, script)
	if err != nil {
		return step.Result{}, err
	}
	dir, err := at.makeRunDir()
	if err != nil {
		return step.Result{}, step.Errorf(ir.ClassMissing, "cannot create the run's folder: %v", err)
	}
	environ, err := environment(&files, at, s, dir)
	if err != nil {
		return step.Result{}, err
	}
	p := exec.Program{
		Name: script.Path, Script: script.Path, Reads: append(files.Paths, file), Writes: []string{dir},
		CommandSpec: step.CommandSpec{
			Command: process.Command{Path: shell, Args: []string{file}, Dir: at.folder, Env: environ},
			Shown:   script.Shell + " " + script.Path, Leave: at.leave(s.Produces),
		},
	}
	if rel, err := filepath.Rel(at.root, filepath.Join(at.folder, filepath.FromSlash(script.Path))); err == nil {
		p.Script = filepath.ToSlash(rel)
	}
	if script.Shell == "pwsh" {
		p.Command.Args = []string{"-NoProfile", "-NonInteractive", "-File", file}
	}
	stdout, err := p.Output(ctx, job)
	switch {
	case err != nil:
		return step.Result{}, err
	case s.Produces == "":
		return step.Result{Value: step.JSON(exec.Text(stdout))}, nil
	}
	value, err := at.product(s.Produces)
	if err != nil {
		return step.Result{},
			step.Errorf(ir.ClassInvalid, "step %q did not produce %s: %v", job.Step.ID, s.Produces, err)
	}
	return step.Result{Value: value}, nil
}

// makeRunDir creates the run's folder and returns its path. It refuses links to other folders, because a script may
// write to the folder even in a sandbox.
func (p *place) makeRunDir() (string, error) {
	root, err := os.OpenRoot(p.root)
	if err != nil {
		return "", err
	}
	defer root.Close()
	resolved, err := protected.Resolve(root, path.Join(p.runDir(), "file"))
	if err != nil {
		return "", err
	}
	dir := filepath.FromSlash(path.Dir(resolved))
	return filepath.Join(p.root, dir), root.MkdirAll(dir, 0o755)
}

// leave returns a function that writes a text to the place of a script's product; nil if the script produces nothing.
func (p *place) leave(produces string) func(text string) error {
	if produces == "" {
		return nil
	}
	if kinds.IsFolder(produces) {
		produces += "index.md"
	}
	return func(text string) error { return p.write(produces, text) }
}

// choose returns the first script whose shell is installed.
func choose(job *step.Job, scripts []kinds.ShellScript) (string, kinds.ShellScript, error) {
	var missing []string
	for _, s := range scripts {
		if found, err := job.Machine.Find(s.Shell); err == nil {
			return found, s, nil
		}
		missing = append(missing, s.Shell)
	}
	return "", kinds.ShellScript{},
		step.Errorf(ir.ClassMissing, "step %q needs %s, which is not installed", job.Step.ID,
			strings.Join(missing, " or "))
}

// scriptFile returns the file to run: the script itself, so that it finds the files beside it, or a copy of its content
// at the start of the run if it has changed since.
func scriptFile(files *exec.Files, at *place, s kinds.ShellScript) (string, error) {
	own := filepath.Join(at.folder, filepath.FromSlash(s.Path))
	if raw, err := os.ReadFile(own); err == nil && string(raw) == s.Text {
		return own, nil
	}
	return files.Add("*"+filepath.Ext(s.Path), s.Text)
}

// environment returns the environment of a script. An input that is too long for a variable is written to a file.
func environment(files *exec.Files, at *place, set shellSettings, dir string) ([]string, error) {
	job := files.Job
	sets := cmp.Or(set.Sets, &storedVariables)
	more := []string{sets.Run + "=" + at.run, sets.Dir + "=" + dir, sets.Workflow + "=" + at.workflow}
	for _, r := range job.Reads {
		if r.Path != "input."+set.Variable || r.Missing {
			continue
		}
		text := ir.PlainText(r.Value)
		if len(text) < exec.MaxVariable && !strings.ContainsRune(text, 0) {
			more = append(more, sets.Input+"="+text, set.Variable+"="+text)
			continue
		}
		file, err := files.Add(".input-*", text)
		if err != nil {
			return nil, err
		}
		more = append(more, sets.Input+"_FILE="+file, set.Variable+"_FILE="+file)
	}
	return exec.Environment(job, more...), nil
}
