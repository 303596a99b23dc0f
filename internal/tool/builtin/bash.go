package builtin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/tool"
)

// Shell configures how commands run.
type Shell struct {
	// Env are additional environment variables of commands.
	Env []string
	// MaxOutput limits the output of a command; 0 selects maxOutput.
	MaxOutput int
	// Sandbox confines commands; nil runs them with all permissions of the user.
	Sandbox *process.Sandbox
	// Limits bounds the resources of commands.
	Limits process.Limits
}

const (
	maxOutput      = 1 << 20
	defaultSeconds = 60
	maxSeconds     = 600
)

// bashTool returns the tool that runs a command. It is not repeatable, because the effects of a command before a crash
// are unknown. The timeout of the tool is longer than the longest timeout of a command, so that the command's own limit
// ends it and its output is kept.
func (o Options) bashTool() tool.Tool {
	type input struct {
		Command string `json:"command"`
		Timeout int    `json:"timeout_seconds"`
	}
	type output struct {
		Exit   int    `json:"exit"`
		Stdout string `json:"stdout"`
		Stderr string `json:"stderr,omitempty"`
		Signal string `json:"signal,omitempty"`
		Error  string `json:"error,omitempty"`
	}
	// People see the target when they approve a call.
	target := "a shell on this machine, in the run's folder"
	if o.Shell.Sandbox != nil {
		target = "a shell in a sandbox, in the run's folder"
	}
	return function[input]{
		spec: tool.Spec{
			Name:        ir.ShellTool,
			Description: "Run a shell command in the run's folder. $ESPALIER_PROJECT is the folder of the project.",
			Target:      target, SideEffects: true, Timeout: (maxSeconds + 30) * time.Second,
			Code: ir.ShellArgument,
			Schema: schemaOf(fmt.Sprintf(`{"type":"object","properties":{
				"command":{"type":"string","minLength":1},
				"timeout_seconds":{"type":"integer","minimum":1,"maximum":%d,"description":"Default: %d"}},
				"required":["command"],"additionalProperties":false}`, maxSeconds, defaultSeconds)),
			Returns: schemaOf(`{"type":"object","properties":{"exit":{"const":0},"stdout":{"type":"string"}},` +
				`"required":["exit","stdout"]}`),
		},
		call: func(ctx context.Context, call tool.Call, in input) (any, error) {
			in.Timeout = cmp.Or(in.Timeout, defaultSeconds)
			shell, err := shellPath()
			if err != nil {
				return nil, &tool.Error{Class: ir.ClassMissing, Message: err.Error()}
			}
			limit := cmp.Or(o.Shell.MaxOutput, maxOutput)
			more := append([]string{
				"ESPALIER_PROJECT=" + o.Root, "ESPALIER_KEY=" + call.Key,
				"TRACEPARENT=" + call.TraceParent,
			}, o.Shell.Env...)
			command := process.Command{
				Path: shell, Args: []string{"-c", in.Command}, Dir: call.Dir, MaxOutput: limit,
				Env: process.Environment(os.Environ(), more...), Sandbox: o.Shell.Sandbox.For(call.Dir),
				Limits: o.Shell.Limits,
			}
			bounded, stop := context.WithTimeoutCause(ctx, time.Duration(in.Timeout)*time.Second, errSlow)
			defer stop()
			outcome, err := process.Run(bounded, command)
			out := output{
				Exit: outcome.Exit, Stdout: shown(outcome.Stdout), Stderr: shown(outcome.Stderr),
				Signal: outcome.Signal,
			}
			switch {
			case errors.Is(err, process.ErrTooMuch):
				out.Error = fmt.Sprintf("stopped: it wrote more than %d bytes", limit)
			case errors.Is(err, errSlow):
				out.Error = fmt.Sprintf("stopped after %d seconds", in.Timeout)
			case err != nil:
				return nil, err
			case outcome.Exit == 0:
				return out, nil
			}
			return nil, toolFailure{value: out, summary: summarize(out.Exit, out.Signal, out.Error, out.Stderr)}
		},
	}
}

// summarize describes how a command failed, with the first line of its standard error. Codes 126 and 127 of a shell
// mean that it could not execute or find a command, often because of the working directory.
func summarize(exit int, signal, reason, stderr string) string {
	summary := fmt.Sprintf("exit code %d", exit)
	switch {
	case reason != "":
		summary = reason
	case signal != "":
		summary = "killed by a signal (" + signal + ")"
	}
	if line, _, _ := strings.Cut(strings.TrimSpace(stderr), "\n"); line != "" {
		summary += ": " + line
	}
	const notExecutable, notFound = 126, 127
	if exit == notExecutable || exit == notFound {
		summary += ". Commands of this tool run in the run's folder; $ESPALIER_PROJECT is the folder of the project"
	}
	return summary
}

var errSlow = errors.New("the command took too long")

// shellPath returns the path of bash, or of sh if bash is not installed.
func shellPath() (string, error) {
	if bash, err := exec.LookPath("bash"); err == nil {
		return bash, nil
	}
	return exec.LookPath("sh")
}

func shown(raw []byte) string { return strings.ToValidUTF8(string(raw), "�") }
