package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/process"
)

// cliScript is what the agentfile CLI runs in the place of a workflow.
var cliScript = filepath.Join("scripts", "cli", "run.sh")

// runCLIScript runs an Agentfile workflow's own script as the agentfile CLI
// does (G9): in the workflow's folder, with the input, the model and the keys
// in its environment. It is no run of ours: nothing is journalled.
func (a *invocation) runCLIScript(p *app.Prepared, dry bool) error {
	an, model := p.Workflow, p.Options.Model
	folder := filepath.Dir(an.File.Abs)
	path := filepath.Join(folder, cliScript)
	shown := a.display(path)
	if _, err := os.Stat(path); err != nil {
		return &failure{
			code: exitNotReady, message: fmt.Sprintf("there is no script %s to run", shown),
			help: "Nothing was started. Leave out --scripts: the workflow runs without.",
		}
	}
	if !p.ShellAllowed {
		return &failure{
			code: exitNotReady, message: fmt.Sprintf("--scripts runs %s on this machine, which needs your consent",
				shown),
			help: "Nothing was started. Review it; then use --allow-shell.",
		}
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		return &failure{
			code: exitNotReady, message: "bash, which runs " + shown + ", is not installed here",
			help: "Nothing was started. Leave out --scripts: the workflow runs without.",
		}
	}
	if dry {
		a.note("%s is ready to run. Nothing was started.", an.Name())
		fmt.Fprintln(a.stdout, shown)
		return nil
	}
	var more []string
	for _, name := range []string{"ANTHROPIC_API_KEY", "AGENT_API_KEY", "AGENT_MODEL"} {
		value := a.Getenv(name)
		if name == "AGENT_MODEL" && model != "" {
			value = model
		}
		if value != "" {
			more = append(more, name+"="+value)
		}
	}
	var fields map[string]string
	if err := json.Unmarshal(p.Input, &fields); err != nil {
		return usage("Write --input and a text.", "a script takes texts only: %v", err)
	}
	for name, text := range fields {
		if len(text) > mostVariable || strings.ContainsRune(text, 0) {
			return usage("Put it into a file, and give the script its name.",
				"the input %q cannot be handed to a script: the environment holds texts of at most %d KiB, without NUL",
				name, mostVariable>>10)
		}
		more = append(more, name+"="+text)
		if _, there := fields[app.AgentInput]; !there && name == app.OnlyText(an.Program) {
			more = append(more, app.AgentInput+"="+text)
		}
	}
	a.note("Runs %s: bash %s", shown, filepath.ToSlash(cliScript))
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	signals, release := a.Signals.handle()
	defer release()
	go func() {
		select {
		case <-signals:
			stop(errInterrupted)
		case <-ctx.Done():
		}
	}()
	script, err := process.Start(ctx, process.Command{
		Path: bash, Args: []string{cliScript}, Dir: folder, Env: process.Environment(os.Environ(),
			more...), Stderr: a.stderr,
	})
	if err != nil {
		return err
	}
	script.Stdin.Close()
	_, _ = io.Copy(a.stdout, script.Stdout) // a closed stdout does not stop the script
	script.Stdout.Close()
	outcome, err := script.Wait()
	const help = "It is the workflow's own script; without --scripts the workflow runs by itself."
	switch {
	case errors.Is(err, errInterrupted):
		return &failure{code: exitInterrupted, message: shown + " was stopped", help: help}
	case err != nil:
		return err
	case outcome.Signal != "":
		return &failure{
			code: exitFailed, message: fmt.Sprintf("%s was ended by a signal (%s)", shown, outcome.Signal),
			help: help,
		}
	case outcome.Exit != 0:
		return &failure{code: exitFailed, message: fmt.Sprintf("%s: exit status %d", shown, outcome.Exit), help: help}
	}
	return nil
}

var errInterrupted = errors.New("interrupted")

// mostVariable is how long a variable may be: systems allow as little as 128 KiB.
const mostVariable = 96 << 10
