package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/step"
)

// Preview is the first request that a step sends to a model. What is known only
// when the step runs is replaced by its name in parentheses.
func (t *Tools) Preview(ctx context.Context, p *ir.Program, s *ir.Step) (*provider.Request, error) {
	task := s.Task()
	runners := Runners()
	if task == nil || runners[task.Kind] == nil {
		return nil, fmt.Errorf("step %q asks no model", s.ID)
	}
	box := t.box(RunOptions{AllowShell: true}, nil)
	box.program = p
	model := &recorder{}
	job := &step.Job{
		Run: "preview", Root: "preview", Key: s.ID + "#0", Workflow: p, Step: s, Task: task,
		Host: step.Host{
			Project: t.root, Model: model, Tools: box, Log: noLog{}, Secrets: t.secrets,
			Kinds: func(kind string) step.Runner { return runners[kind] },
		},
	}
	for _, r := range s.Reads {
		job.Reads = append(job.Reads, step.Read{Path: r.Path, Value: unknown(p, r.Path)})
	}
	if par, ok := s.Action.(ir.Parallel); ok {
		names := []string{"first worker", "second worker"}
		for i := range par.Branches {
			if i < len(names) {
				names[i] = par.Branches[i].Name
			}
		}
		for _, name := range names {
			job.Branches = append(job.Branches, step.Branch{Name: name, Outcome: ir.OK, Value: claim(task, name)})
		}
	}
	_, err := runners[task.Kind].Run(ctx, job)
	if model.request == nil {
		if err == nil || errors.Is(err, errPreviewed) {
			return nil, fmt.Errorf("step %q asks no model", s.ID)
		}
		return nil, err
	}
	return model.request, nil
}

// claim is a result of a worker that contradicts those of the others.
func claim(merge *ir.Task, worker string) json.RawMessage {
	fields := []string{"claim"}
	if raw := merge.Settings.Get("required_fields"); raw != nil {
		_ = json.Unmarshal(raw, &fields) // settings of another form were reported
	}
	out := map[string]string{}
	for _, name := range fields {
		out[name] = "(" + name + " as " + worker + " has it)"
	}
	return step.JSON(out)
}

// unknown returns a placeholder for a value that is known only when the step runs.
func unknown(p *ir.Program, path string) json.RawMessage {
	named := func(name string) string { return "(" + name + ")" }
	fields := map[string]string{}
	switch path {
	case "input":
		if p.Input == nil {
			break
		}
		var schema struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if json.Unmarshal(p.Input.Schema, &schema) == nil {
			for name := range schema.Properties {
				fields[name] = named("input." + name)
			}
		}
	case "context":
		for i := range p.Vars {
			if name, ok := strings.CutPrefix(p.Vars[i].Path, "context."); ok {
				fields[name] = named(name)
			}
		}
		for b := range p.Blocks {
			for i := range p.Blocks[b].Steps {
				for _, w := range p.Blocks[b].Steps[i].Writes {
					if name, ok := strings.CutPrefix(w.Path, "context."); ok && !strings.Contains(name, ".") {
						fields[name] = named(name)
					}
				}
			}
		}
	}
	switch {
	case len(fields) > 0:
		return step.JSON(fields)
	case strings.HasSuffix(path, ".Session"):
		return json.RawMessage("{}")
	case strings.HasSuffix(path, ".Conversation"):
		said := func(role provider.Role, text string) provider.Message {
			return provider.Message{Role: role, Blocks: []provider.Block{{Type: provider.Text, Text: named(text)}}}
		}
		return step.JSON([]provider.Message{
			said(provider.User, "the earlier prompt"),
			said(provider.Assistant, "the earlier reply"),
		})
	}
	return step.JSON(named(path))
}

var errPreviewed = errors.New("the request was only looked at")

// recorder is a model that keeps the first request and answers none.
type recorder struct{ request *provider.Request }

// Generate keeps the request.
func (r *recorder) Generate(_ context.Context, req provider.Request) iter.Seq2[provider.Chunk, error] {
	if r.request == nil {
		r.request = &req
	}
	return func(yield func(provider.Chunk, error) bool) { yield(provider.Chunk{}, errPreviewed) }
}

// noLog grants everything and keeps nothing.
type noLog struct{}

// Note does nothing.
func (noLog) Note(context.Context, ...step.Note) error { return nil }

// Reserve grants the amount.
func (noLog) Reserve(context.Context, journal.Usage, ...step.Note) (step.Reservation, error) {
	return 1, nil
}

// ReserveUpTo grants the amount.
func (noLog) ReserveUpTo(_ context.Context, most journal.Usage, _ int64, _ ...step.Note) (step.Reservation,
	journal.Usage, error,
) {
	return 1, most, nil
}
