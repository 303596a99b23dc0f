package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/schema"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/chat"
	"github.com/espalier-run/espalier/internal/step/exec"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Runner runs tasks of kind "worker".
type Runner struct {
	chat.Base[kinds.Worker, settings]
}

type settings kinds.WorkerSettings

var _ step.Settings = settings{}

// Recovery continues a conversation, and asks a person about a command that may
// have run.
func (Runner) Recovery(_ *ir.Task, history []journal.TaskNoted) step.Recovery {
	if exec.Recovery(history) == step.Ask {
		return step.Ask
	}
	return chat.Recovery(history)
}

// Run runs the agent on the workload, which is what the task reads.
func (s settings) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	ask, isModel := kinds.WorkerSettings(s).Ask(job.Workflow)
	if !isModel {
		message := fmt.Sprintf("the command did not end within %d seconds", stepkind.ScriptSeconds)
		return step.Limit(ctx, stepkind.ScriptSeconds*time.Second, message,
			func(ctx context.Context) (step.Result, error) { return s.runCommand(ctx, job, ask) })
	}
	return chat.Run(ctx, job, &ask, kinds.WorkerTask, "")
}

// runCommand runs the agent's program with the workload on its standard input.
func (s settings) runCommand(ctx context.Context, job *step.Job, ask kinds.Ask) (step.Result, error) {
	program, err := find(job, s.Command[0])
	if err != nil {
		return step.Result{}, step.Errorf(ir.ClassMissing,
			"the command of the agent %q is not installed: %v", s.Agent, err)
	}
	workload := json.RawMessage("{}")
	if len(job.Reads) > 0 {
		workload = job.Reads[0].Value
	}
	p := exec.Program{Name: fmt.Sprintf("the command of the agent %q", s.Agent), CommandSpec: step.CommandSpec{
		Command: process.Command{
			Path: program, Args: s.Command[1:], Dir: job.Project, Stdin: workload, Env: exec.Environment(job),
		},
		Shown: strings.Join(s.Command, " "), Agent: s.Agent, Wants: ask.Contract(job.Workflow, job.Step),
	}}
	stdout, err := p.Output(ctx, job)
	if err != nil {
		return step.Result{}, err
	}
	value, problems := read(stdout)
	if len(problems) > 0 {
		return step.Result{}, step.Errorf(ir.ClassInvalid,
			"the output of the agent %q does not meet its contract: %s", s.Agent, strings.Join(problems, "; "))
	}
	return step.Result{Value: value}, nil
}

// find returns the path of a program: in the project if its name has a slash,
// else on the PATH.
func find(job *step.Job, name string) (string, error) {
	if strings.ContainsAny(name, `/\`) && !filepath.IsAbs(name) {
		name = filepath.Join(job.Project, filepath.FromSlash(name))
	}
	return job.Machine.Find(name)
}

// read returns an output, or its problems.
func read(stdout []byte) (json.RawMessage, []string) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, stdout); err != nil || compact.Len() == 0 {
		return nil, []string{"it is not JSON"}
	}
	s, err := schema.Compile(json.RawMessage(stepkind.AgentOutput))
	if err != nil {
		return nil, []string{err.Error()}
	}
	found, err := s.Check(compact.Bytes())
	if err != nil {
		return nil, []string{err.Error()}
	}
	return compact.Bytes(), xslices.Map(found, schema.Problem.String)
}
