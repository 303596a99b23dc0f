package worker

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

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/schema"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/talk"
)

var _ step.Runner = Kind{}

// Recovery of a conversation is to go on; a command that may have run is for
// a person to decide about.
func (Kind) Recovery(_ *ir.Task, history []journal.TaskNoted) step.Recovery {
	if slices.ContainsFunc(history, func(n journal.TaskNoted) bool { return n.Kind == journal.NoteCommand }) {
		return step.Ask
	}
	return talk.Recovery(history)
}

// Run lets the agent work on the workload, which is what the task reads.
func (Kind) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	set, err := step.Decode[Settings](job.Task)
	if err != nil {
		return step.Result{}, step.Errorf(step.ClassInput, "%v", err)
	}
	if len(set.Command) > 0 {
		return command(ctx, job, set)
	}
	a, err := job.Agent(set.Agent)
	if err != nil {
		return step.Result{}, err
	}
	t := talk.Talk{Agent: a, Task: task, Form: talk.Form{Contract: replies(job.Workflow, job.Step)}}
	return t.Run(ctx, job)
}

var errSlow = fmt.Errorf("the command did not end within %d seconds", step.ScriptSeconds)

// command runs the agent's program with the workload on its standard input.
func command(ctx context.Context, job *step.Job, set Settings) (step.Result, error) {
	program, err := find(job, set.Command[0])
	if err != nil {
		return step.Result{}, step.Errorf(step.ClassMissing, "the command of the agent %q is not there: %v", set.Agent, err)
	}
	workload := json.RawMessage("{}")
	if len(job.Reads) > 0 {
		workload = job.Reads[0].Value
	}
	shown := strings.Join(set.Command, " ")
	ctx, stop := context.WithTimeoutCause(ctx, step.ScriptSeconds*time.Second, errSlow)
	defer stop()
	run := process.Command{
		Path: program, Args: set.Command[1:], Dir: job.Project, Stdin: workload,
		Env: process.Environment(os.Environ(), "ESPALIER_RUN_ID="+string(job.Run), "ESPALIER_STEP="+job.Step.ID, "ESPALIER_KEY="+job.Idempotency(job.Key), "TRACEPARENT="+job.TraceParent()),
	}
	if err := job.Secure(&run); err != nil {
		return step.Result{}, err
	}
	if job.Noted(journal.NoteCommand) == 0 {
		if err := job.Log.Note(ctx, step.Note{Kind: journal.NoteCommand, Data: journal.Command{Command: job.Machine.Shown(shown)}}); err != nil {
			return step.Result{}, err
		}
	}
	outcome, err := job.Machine.Run(ctx, job, step.Work{Command: run, Shown: shown, Agent: set.Agent, Wants: replies(job.Workflow, job.Step)})
	switch {
	case errors.Is(context.Cause(ctx), errSlow) && err != nil:
		return step.Result{}, step.Errorf(step.ClassTimeout, "%v", errSlow)
	case ctx.Err() != nil && err != nil:
		return step.Result{}, err
	case err != nil:
		return step.Result{}, step.Errorf(step.ClassCommand, "the command of the agent %q: %v", set.Agent, err)
	case outcome.Exit != 0:
		return step.Result{}, &step.Error{Class: step.ClassCommand, Exit: outcome.Exit, Message: fmt.Sprintf("the command of the agent %q ended with exit code %d%s", set.Agent, outcome.Exit, lastLine(outcome.Stderr))}
	}
	value, problems := read(outcome.Stdout)
	if len(problems) > 0 {
		return step.Result{}, step.Errorf(step.ClassInvalid, "the output of the agent %q does not keep to the contract: %s", set.Agent, strings.Join(problems, "; "))
	}
	return step.Result{Value: value}, nil
}

// find looks for a program: in the project when it has a slash, else on the
// path.
func find(job *step.Job, name string) (string, error) {
	if strings.ContainsAny(name, `/\`) && !filepath.IsAbs(name) {
		name = filepath.Join(job.Project, filepath.FromSlash(name))
	}
	return job.Machine.Find(name)
}

func lastLine(stderr []byte) string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(stderr), "�"))
	if text == "" {
		return ""
	}
	return ": " + text[strings.LastIndexByte(text, '\n')+1:]
}

// read holds an output against the contract.
func read(stdout []byte) (json.RawMessage, []string) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, stdout); err != nil || compact.Len() == 0 {
		return nil, []string{"it is not JSON"}
	}
	s, err := schema.Compile(output)
	if err != nil {
		return nil, []string{err.Error()}
	}
	found, err := s.Check(compact.Bytes())
	if err != nil {
		return nil, []string{err.Error()}
	}
	var out []string
	for _, p := range found {
		out = append(out, p.String())
	}
	return compact.Bytes(), out
}
