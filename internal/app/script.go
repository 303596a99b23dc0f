package app

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/process"
)

// scriptFile is the path of the script that the agentfile CLI runs instead of a workflow, within the workflow's folder.
var scriptFile = filepath.Join("scripts", "cli", "run.sh")

// maxVariable bounds the texts that a script gets: systems allow as little as 128 KiB in a variable.
const maxVariable = 96 << 10

// Script is a workflow's own script, as the agentfile CLI runs it: in the workflow's folder, with the input, the
// model and the keys in its environment. Running it starts no run, and nothing is written to the journal.
type Script struct {
	Path string
	Name string // within the folder of the workflow

	shell, folder string
	variables     []string
}

// ScriptResult is how a script has ended.
type ScriptResult struct {
	Exit   int
	Signal string // the signal that ended it, if any
}

// Script returns the script of a prepared workflow. It returns an *Error if the script cannot run here.
func (a *App) Script(p *Prepared) (*Script, error) {
	folder := filepath.Dir(p.Workflow.File.Abs)
	s := &Script{Path: filepath.Join(folder, scriptFile), Name: filepath.ToSlash(scriptFile), folder: folder}
	shown := a.Display(s.Path)
	if _, err := os.Stat(s.Path); err != nil {
		return nil, fail(NotReady, NoScript, "there is no script %s to run", shown)
	}
	if !p.ShellAllowed {
		return nil, fail(NotReady, ScriptConsent, "running %s on this machine needs your consent", shown)
	}
	var err error
	if s.shell, err = exec.LookPath("bash"); err != nil {
		return nil, fail(NotReady, NoScript, "bash, which runs %s, is not installed here", shown)
	}
	return s, nil
}

// SetInput hands the model, the keys and the input of a prepared workflow to the script.
func (a *App) SetInput(s *Script, p *Prepared) error {
	for _, name := range []string{"ANTHROPIC_API_KEY", "AGENT_API_KEY", "AGENT_MODEL"} {
		value := a.o.Getenv(name)
		if name == "AGENT_MODEL" && p.Options.Model != "" {
			value = p.Options.Model
		}
		if value != "" {
			s.variables = append(s.variables, name+"="+value)
		}
	}
	var fields map[string]string
	if err := json.Unmarshal(p.Input, &fields); err != nil {
		return fail(InvalidRequest, "", "a script takes texts only: %v", err).advise("Pass every input as a text.")
	}
	for name, text := range fields {
		if len(text) > maxVariable || strings.ContainsRune(text, 0) {
			return fail(InvalidRequest, "", "the input %q cannot be handed to a script: the environment holds texts "+
				"of at most %d KiB, without NUL", name, maxVariable>>10).
				advise("Put it into a file, and give the script its name.")
		}
		s.variables = append(s.variables, name+"="+text)
		if _, there := fields[catalog.AgentInput]; !there && name == OnlyText(p.Workflow.Program) {
			s.variables = append(s.variables, catalog.AgentInput+"="+text)
		}
	}
	return nil
}

// Run runs the script until it ends, or until ctx ends: then it returns the cause.
func (s *Script) Run(ctx context.Context, stdout, stderr io.Writer) (ScriptResult, error) {
	script, err := process.Start(ctx, process.Command{
		Path: s.shell, Args: []string{scriptFile}, Dir: s.folder,
		Env: process.Environment(os.Environ(), s.variables...), Stderr: stderr,
	})
	if err != nil {
		return ScriptResult{}, err
	}
	script.Stdin.Close()
	_, _ = io.Copy(stdout, script.Stdout) // a closed stdout does not stop the script
	script.Stdout.Close()
	outcome, err := script.Wait()
	return ScriptResult{Exit: outcome.Exit, Signal: outcome.Signal}, err
}
