package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/process"
)

// cliScript is what the agentfile CLI runs in the place of a workflow.
var cliScript = filepath.Join("scripts", "cli", "run.sh")

// runCLIScript runs an Agentfile workflow's own script as the agentfile CLI
// does (G9): in the workflow's folder, with the input, the model and the keys
// in its environment. It is no run of ours: nothing is journalled.
func (a *app) runCLIScript(an *analysis, input json.RawMessage, c *config.Config, model string, allowed, dry bool) error {
	folder := filepath.Dir(an.file.Abs)
	path := filepath.Join(folder, cliScript)
	shown := a.display(path)
	if _, err := os.Stat(path); err != nil {
		return &failure{code: exitNotReady, message: fmt.Sprintf("there is no script %s to run", shown), help: "Nothing was started. Leave out --scripts: the workflow runs without."}
	}
	if !allowed && !c.Allow.Shell {
		return &failure{
			code: exitNotReady, message: fmt.Sprintf("--scripts runs %s on this machine, and nobody has allowed that", shown),
			help: "Nothing was started. Look at it; then use --allow-shell, or write \"allow: {shell: true}\" into " + config.FileName + ".",
		}
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		return &failure{code: exitNotReady, message: "bash, which runs " + shown + ", is not installed here", help: "Nothing was started. Leave out --scripts: the workflow runs without."}
	}
	if dry {
		a.note("%s is ready to run. Nothing was started.", an.name())
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
	if err := json.Unmarshal(input, &fields); err != nil {
		return usage("Write --input and a text.", "a script takes texts only: %v", err)
	}
	for name, text := range fields {
		more = append(more, name+"="+text)
		if _, there := fields["AGENT_INPUT"]; !there && name == onlyText(an.program) {
			more = append(more, "AGENT_INPUT="+text)
		}
	}
	a.note("Runs %s: bash %s", shown, filepath.ToSlash(cliScript))
	cmd := exec.Command(bash, cliScript)
	cmd.Dir, cmd.Env = folder, process.Environment(os.Environ(), more...)
	cmd.Stdout, cmd.Stderr = a.Stdout, a.stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return &failure{code: exitFailed, message: fmt.Sprintf("%s: %s", shown, exit), help: "It is the workflow's own script; without --scripts the workflow runs by itself."}
	}
	return err
}
