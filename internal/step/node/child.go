package node

import (
	"bufio"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/python"
	"github.com/espalier-run/espalier/internal/step"
)

//go:embed child.py
var childProgram string

// child runs the code in a real python3. The two talk in lines of JSON: the
// child asks for calls of agents, and says how it ended. It runs isolated (-I),
// in the folder of the run, with none of our environment but what programs
// need, and dies with the run. It is confined: it reaches neither the network
// nor files outside, unless somebody has said that it may.
func (h *host) child(ctx context.Context, state python.Value, confine func(string, ...string) (*process.Sandbox, error)) (python.Value, error) {
	program, err := h.job.Machine.Find("python3")
	if err != nil {
		return nil, step.Errorf(step.ClassMissing, "--python needs python3, and it is not there. Install Python 3, or run without --python.")
	}
	if err := h.job.MakeDir(); err != nil {
		return nil, err
	}
	command := process.Command{
		Path: program, Dir: h.job.Dir, Env: process.Environment(os.Environ()), Limits: h.job.Limits,
	}
	home, err := interpreter(ctx, h.job, &command)
	if err != nil {
		return nil, err
	}
	command.Args = []string{"-I", "-c", childProgram}
	if !h.set.Unconfined || h.job.Sandbox != nil {
		if confine == nil {
			confine = process.NewSandbox
		}
		box, err := confine(cmp.Or(h.job.Project, h.job.Dir), ".espalier", ".git", ".env")
		if err != nil {
			return nil, step.Errorf(step.ClassMissing, "python3 is not run, because it cannot be confined: %v. Start the run with --python=unconfined if you trust the code.", err)
		}
		box = box.For(h.job.Dir)
		box.Read = append(box.Read, home...)
		command.Sandbox = box
	}
	p, err := h.job.Machine.Start(ctx, command)
	if err != nil {
		return nil, step.Errorf(step.ClassCommand, "python3 cannot be started: %v", err)
	}
	defer func() {
		p.Stop()
		_ = p.Stdin.Close()
		_, _ = p.Wait() // how it ended, it has said itself
		_ = p.Stdout.Close()
	}()
	value, err := h.converse(ctx, p, state)
	if err == nil || h.ended != nil || ctx.Err() != nil {
		if ctx.Err() != nil && err != nil && h.ended == nil {
			err = context.Cause(ctx)
		}
		return value, err
	}
	return nil, err
}

// interpreter finds the real program behind the name python3, which may be a
// script that chooses one, and the folders that it needs to read.
func interpreter(ctx context.Context, job *step.Job, c *process.Command) ([]string, error) {
	ask := *c
	ask.Args = []string{"-I", "-c", "import sys; print(sys.executable); print(sys.base_prefix); print(sys.prefix)"}
	outcome, err := job.Machine.Run(ctx, job, step.Work{Command: ask})
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSpace(string(outcome.Stdout)), "\n")
	if outcome.Exit != 0 || len(lines) != 3 {
		return nil, step.Errorf(step.ClassMissing, "python3 does not work here: %.200s", strings.TrimSpace(string(outcome.Stderr)))
	}
	c.Path = lines[0]
	return append(lines[1:], filepath.Dir(lines[0])), nil
}

// childMessage is a line that the child writes.
type childMessage struct {
	Call     *string         `json:"call"` // key of an agent
	Workload json.RawMessage `json:"workload"`
	Printed  string          `json:"printed"`
	Done     bool            `json:"done"`
	Value    json.RawMessage `json:"value"`
	Failed   *string         `json:"failed"`
	Line     int             `json:"line"`
	Block    int             `json:"block"`
}

const maxLine = 16 << 20

func (h *host) converse(ctx context.Context, p *process.Process, state python.Value) (python.Value, error) {
	t := python.NewThread(ctx)
	raw, err := t.ToJSON(state)
	if err != nil {
		return nil, h.explain(err)
	}
	send := func(v any) error {
		_, err := p.Stdin.Write(append(step.JSON(v), '\n'))
		return err
	}
	if err := send(map[string]any{"code": h.set.Code, "function": h.set.Function, "state": raw, "file": h.set.File, "sdk": h.set.SDK}); err != nil {
		return nil, h.gone(p)
	}
	lines := bufio.NewScanner(p.Stdout)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var m childMessage
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return nil, step.Errorf(step.ClassCommand, "python3 said something that is not for us: %.100q", lines.Text())
		}
		h.print(m.Printed)
		switch {
		case m.Call != nil:
			workload, err := plain(t, m.Workload)
			if err != nil {
				return nil, step.Errorf(ClassCode, "%s: the workload of %q is not plain data: %v", h.set.File, *m.Call, err)
			}
			r, err := h.call(ctx, *m.Call, workload)
			if err != nil {
				return nil, err
			}
			if err := send(r); err != nil {
				return nil, h.gone(p)
			}
		case m.Failed != nil:
			where := h.set.File
			if m.Line > 0 && m.Block < len(h.set.Code) {
				where = fmt.Sprintf("%s:%d", where, m.Line+h.set.Code[m.Block].Line-1)
			}
			return nil, step.Errorf(ClassCode, "%s: %s", where, *m.Failed)
		case m.Done:
			if len(m.Value) == 0 || h.set.Function == "" {
				return nil, nil
			}
			v, err := python.FromJSON(m.Value)
			if err != nil {
				return nil, step.Errorf(ClassCode, "%s: in %s: what it returned is not plain data: %v", h.set.File, h.set.Function, err)
			}
			return v, nil
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return nil, step.Errorf(ClassCode, "%s: the code printed, returned or gave to an agent more than %d MiB at once", h.set.File, maxLine>>20)
	}
	return nil, h.gone(p)
}

// plain writes JSON of the child as our evaluator would, so that agents are
// asked the same, byte for byte.
func plain(t *python.Thread, raw json.RawMessage) (json.RawMessage, error) {
	v, err := python.FromJSON(raw)
	if err != nil {
		return nil, err
	}
	return t.ToJSON(v)
}

// gone is a child that ended without a word.
func (h *host) gone(p *process.Process) error {
	p.Stop()
	outcome, err := p.Wait()
	if err != nil {
		return step.Errorf(step.ClassCommand, "python3: %v", err)
	}
	text := strings.TrimSpace(strings.ToValidUTF8(string(p.Errors()), "�"))
	return step.Errorf(step.ClassCommand, "python3 ended with exit code %d before the code was done: %s", outcome.Exit, text[strings.LastIndexByte(text, '\n')+1:])
}
