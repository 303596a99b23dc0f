package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/format/agentfile"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

// Preview returns the first request that a step sends to a model. Values that are known only when the step runs are
// replaced with their names in parentheses.
//
// It runs the task as a run would, with a model that records the request and fails, a machine that starts nothing and a
// log that records nothing. So the code of a run builds the request.
func (t *Tools) Preview(ctx context.Context, p *ir.Program, s *ir.Step, models *Models) (*provider.Request, error) {
	task := s.Task()
	runners := Runners()
	// A step that asks no model could act instead.
	if task == nil || runners[task.Kind] == nil || !stepkind.AsksModel(catalog.Kinds()[task.Kind], p, s, task) {
		return nil, asksNoModel(s)
	}
	box := t.box(RunOptions{AllowShell: true}, nil)
	box.program = p
	model := &recorder{router: router{models: models}}
	job := &step.Job{
		Run: "preview", Root: "preview", Key: s.ID + "#0", Workflow: p, Step: s, Task: task,
		Host: step.Host{
			Project: t.root, Model: model, Tools: box, Log: noLog{}, Secrets: t.secrets, Machine: idleMachine{},
			Runners: func(kind string) step.Runner { return runners[kind] }, Kinds: catalog.Kinds(),
			Draft: agentfile.Draft,
		},
	}
	for _, r := range s.Reads {
		value := unknown(p, r.Path)
		if r.Path == "loop" {
			value = step.JSON(loopPlaceholder("loop", loopPaths(task)))
		}
		job.Reads = append(job.Reads, step.Read{Path: r.Path, Value: value})
	}
	if par, ok := s.Action.(ir.Parallel); ok {
		names := []string{"first worker", "second worker"}
		for i := range par.Branches {
			if i < len(names) {
				names[i] = par.Branches[i].Name
			}
		}
		for _, name := range names {
			value := claim(stepkind.Lenient[kinds.CombineSettings](task), name)
			job.Branches = append(job.Branches, step.Branch{Name: name, Outcome: ir.OK, Value: value})
		}
	}
	_, err := runners[task.Kind].Run(ctx, job)
	if model.request == nil && task.Kind == nodeKind {
		// The code of the node cannot compute with placeholders, so one placeholder replaces the whole workload.
		agent := stepkind.BoundOf(kinds.Node{}, p, s, task).Agent
		call := stepkind.Lenient[kinds.NodeSettings](task).Worker(agent, s.Span)
		job.Task = &call
		job.Reads = []step.Read{{Path: "workload", Value: step.JSON("(workload)")}}
		_, err = runners[workerKind].Run(ctx, job)
	}
	switch {
	case model.request != nil:
		return model.request, nil
	case err == nil || errors.Is(err, errPreviewed):
		return nil, asksNoModel(s)
	}
	return nil, err
}

var nodeKind, workerKind = kinds.Node{}.Name(), kinds.Worker{}.Name()

// ErrAsksNoModel reports a step without a request to preview.
var ErrAsksNoModel = errors.New("asks no model, so it has no reply contract")

func asksNoModel(s *ir.Step) error {
	return fmt.Errorf("step %q %w", s.Title(), ErrAsksNoModel)
}

// claim returns a worker's result that contradicts those of the others, because a merge asks a model only about
// contradictions.
func claim(merge kinds.CombineSettings, worker string) json.RawMessage {
	of := func(field string) string { return "(" + field + " as " + worker + " has it)" }
	out := map[string]any{}
	for _, name := range merge.RequiredFields {
		out[name] = of(name)
	}
	if len(merge.DedupeKey) > 0 { // items with the same key contradict each other
		item := map[string]any{"claim": of("claim")}
		for _, name := range merge.DedupeKey {
			item[name] = "(" + name + ")"
			delete(out, name)
		}
		if kind, ok := item["type"]; ok {
			out["type"] = kind
		}
		out["items"] = []any{item}
	}
	if len(out) == 0 {
		out["claim"] = of("claim")
	}
	return step.JSON(out)
}

// idleMachine is the step.Machine of previews: it starts nothing.
type idleMachine struct{}

var errIdle = errors.New("a preview starts no programs")

// Find finds every program.
func (idleMachine) Find(program string) (string, error) { return program, nil }

// IsFolder returns true, because an earlier step can create the folder.
func (idleMachine) IsFolder(string) bool { return true }

// Shown returns the command.
func (idleMachine) Shown(command string) string { return command }

// Absent returns a placeholder, because an earlier step can create the file.
func (idleMachine) Absent(_ *step.Job, name string) (string, bool) {
	return "(content of " + name + ")", true
}

// Run fails.
func (idleMachine) Run(context.Context, *step.Job, step.CommandSpec) (process.Outcome, error) {
	return process.Outcome{}, errIdle
}

// Start fails.
func (idleMachine) Start(context.Context, process.Command) (*process.Process, error) {
	return nil, errIdle
}

// unknown returns a placeholder for a value that is known only when the step runs.
func unknown(p *ir.Program, path string) json.RawMessage {
	named := func(name string) string { return "(" + name + ")" }
	if slices.ContainsFunc(p.Vars, func(v ir.Var) bool { return v.Path == path && string(v.Init) == "[]" }) {
		return step.JSON([]string{named(path)})
	}
	if slices.ContainsFunc(p.Vars, func(v ir.Var) bool { return v.Path == path && v.NewFolder() }) {
		return step.JSON("RUN") // it is part of paths
	}
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
		for s := range p.Steps() {
			for _, w := range s.Writes {
				if name, ok := strings.CutPrefix(w.Path, "context."); ok && !strings.Contains(name, ".") {
					fields[name] = named(name)
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
		message := func(role provider.Role, text string) provider.Message {
			return provider.Message{Role: role, Blocks: []provider.Block{{Type: provider.Text, Text: named(text)}}}
		}
		return step.JSON([]provider.Message{
			message(provider.User, "the earlier prompt"),
			message(provider.Assistant, "the earlier reply"),
		})
	}
	return step.JSON(named(path))
}

// loopPaths returns the names below loop that the templates of a task read, as paths.
func loopPaths(task *ir.Task) [][]string {
	var out [][]string
	for _, s := range task.Settings {
		var template string
		if json.Unmarshal(s.Value, &template) != nil || !strings.Contains(template, "{{") {
			continue
		}
		e, problems := expr.Parse(expr.AWFTemplate, template, s.Span)
		if problems.Errors() {
			continue
		}
		for _, path := range e.Paths() {
			if path.Segments[0] == "loop" {
				out = append(out, path.Segments[1:])
			}
		}
	}
	return out
}

// loopPlaceholder returns the facts about the first iteration of a loop, with placeholders for the properties of the
// item that are read.
func loopPlaceholder(name string, paths [][]string) map[string]any {
	below := func(first string) (rest [][]string) {
		for _, p := range paths {
			if len(p) > 0 && p[0] == first {
				rest = append(rest, p[1:])
			}
		}
		return rest
	}
	out := map[string]any{
		"index": 0, "first": true, "last": false, "length": "(" + name + ".Length)",
		"item": placeholder(name+".Item", below("item")),
	}
	if outer := below("parent"); len(outer) > 0 {
		out["parent"] = loopPlaceholder(name+".Parent", outer)
	}
	return out
}

// placeholder returns a placeholder for a value: an object if its properties are read.
func placeholder(name string, paths [][]string) any {
	properties := map[string][][]string{}
	for _, p := range paths {
		if len(p) > 0 {
			properties[p[0]] = append(properties[p[0]], p[1:])
		}
	}
	if len(properties) == 0 {
		return "(" + name + ")"
	}
	out := map[string]any{}
	for property, rest := range properties {
		out[property] = placeholder(name+"."+property, rest)
	}
	return out
}

var errPreviewed = errors.New("the request was recorded, not sent")

// recorder is a model that records the first request and replies to none. Requests for programs are the same as in
// runs.
type recorder struct {
	router
	request *provider.Request
}

// Agent returns what the program behind a model can do; nil if the model is not a program.
func (r *recorder) Agent(model string) *provider.AgentInfo {
	if r.models == nil {
		return nil
	}
	return r.router.Agent(model)
}

// Generate keeps the request.
func (r *recorder) Generate(_ context.Context, req provider.Request) iter.Seq2[provider.Chunk, error] {
	if r.request == nil {
		r.request = &req
	}
	return func(yield func(provider.Chunk, error) bool) { yield(provider.Chunk{}, errPreviewed) }
}

// noLog is a step.Log that grants every reservation and records nothing.
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
