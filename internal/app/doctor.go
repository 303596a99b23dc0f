package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/project"
	"github.com/espalier-run/espalier/internal/registry"
)

// Diagnosis is a list of components that are configured, reachable or missing.
type Diagnosis struct {
	Outcome    string      `json:"outcome"` // ready, or not_ready
	Config     string      `json:"config,omitempty"`
	Components []Component `json:"findings"`
}

// Component is something that runs may need, and its state.
type Component = registry.Component

// The states of a Component.
const (
	ComponentOK      = registry.ComponentOK
	ComponentMissing = registry.ComponentMissing
	ComponentUnset   = registry.ComponentUnset
	ComponentBroken  = registry.ComponentBroken
)

// Ready reports whether a workflow can ask a model and its runs can be stored.
func (d *Diagnosis) Ready() bool { return d.Outcome == "ready" }

// Diagnose examines the project around the working folder. With reach, it asks servers whether they are there and
// accept the key, which costs nothing.
func (a *App) Diagnose(ctx context.Context, reach bool) (*Diagnosis, error) {
	s, root, err := a.approvedSettings()
	if err != nil {
		return nil, err
	}
	d := &Diagnosis{Outcome: "ready", Components: []Component{}}
	file := Component{
		What: "configuration", Name: config.FileName, State: ComponentUnset, About: "not found (optional)",
	}
	if s.File != nil {
		d.Config = s.File.Path
		file.State, file.About = ComponentOK, s.File.Path
		if s.problems.Errors() {
			first := slices.IndexFunc(s.problems, func(d diag.Diagnostic) bool { return d.Severity == diag.Error })
			file.State, file.About = ComponentBroken, diag.Summary(s.problems)+": "+s.problems[first].Message
		}
	}
	d.Components = append(d.Components, file)
	if f := mcpComponent(&s.MCPFile); f != nil {
		d.Components = append(d.Components, *f)
	}
	env, err := a.environment(root, s)
	if err != nil {
		return nil, err
	}
	d.Components = append(d.Components, env.models.Examine(ctx, reach)...)
	d.Components = append(d.Components, registry.ExamineCommands(s.Config, a.o.Confined)...)
	for _, f := range []Component{
		a.storeComponent(ctx, root, s.Config, reach), env.models.ExamineEngine(ctx, reach),
	} {
		if s.problems.Errors() && f.Fix == config.Approval { // a file with errors cannot be approved
			f.About, f.Fix = "not checked, because "+config.FileName+" has errors", ""
		}
		d.Components = append(d.Components, f)
	}
	if slices.ContainsFunc(d.Components, func(f Component) bool {
		return f.State == ComponentMissing || f.State == ComponentBroken
	}) {
		d.Outcome = "not_ready"
	}
	d.Components = append(d.Components, registry.ExamineTelemetry(ctx, a.o.Getenv, reach)...) // runs work without it
	return d, nil
}

// ServerTools is an MCP server of the project with its tools.
type ServerTools = registry.ServerTools

// ListServers starts the MCP servers of the project around the working folder that a person has approved, and asks each
// for its tools. Secrets are masked.
func (a *App) ListServers(ctx context.Context) ([]ServerTools, error) {
	return a.listServers(ctx, true)
}

// SignIn lets a person sign in at an approved MCP server of the project around the working folder. It shows the address
// to open in a browser, and returns when the person has come back from there.
func (a *App) SignIn(ctx context.Context, server string, show func(address string)) error {
	env, err := a.approvedEnvironment()
	if err != nil {
		return err
	}
	return a.serverError(env.tools.SignIn(ctx, server, show))
}

// SignOut removes the sign-in at an MCP server, and reports whether there was one.
func (a *App) SignOut(server string) (bool, error) {
	env, err := a.approvedEnvironment()
	if err != nil {
		return false, err
	}
	found, err := env.tools.SignOut(server)
	return found, a.serverError(err)
}

// serverError returns an error for callers that know no MCP servers.
func (a *App) serverError(err error) error {
	if err == nil {
		return nil
	}
	e := fail(NotReady, "", "%v", err)
	if problem, ok := errors.AsType[*registry.Problem](err); ok {
		e = e.advise("%s", problem.Help)
	}
	return e
}

// approvedSettings returns what a person has approved of the configuration of the project around the working folder,
// and the root of the project.
func (a *App) approvedSettings() (*settings, string, error) {
	space, root, err := a.currentProject()
	if err != nil {
		return nil, "", err
	}
	defer space.Close()
	s, err := a.settings(space, root, approvedOnly)
	return s, root, err
}

// approvedEnvironment returns the environment of the project around the working folder, with what a person approved.
func (a *App) approvedEnvironment() (*environment, error) {
	s, root, err := a.approvedSettings()
	if err != nil {
		return nil, err
	}
	return a.environment(root, s)
}

// listServers returns the approved MCP servers and, with ask, their tools.
func (a *App) listServers(ctx context.Context, ask bool) ([]ServerTools, error) {
	env, err := a.approvedEnvironment()
	if err != nil {
		return nil, err
	}
	list := env.tools.ListServers(ctx, ask)
	for i := range list {
		list[i].Problem = env.models.Secrets.Show(list[i].Problem)
	}
	return list, nil
}

// DiagnoseServers returns the state of the MCP servers of the project around the working folder. With ask, it starts
// those that a person has approved, and lists their tools.
func (a *App) DiagnoseServers(ctx context.Context, ask bool) ([]Component, error) {
	list, err := a.listServers(ctx, ask)
	if err != nil {
		return nil, err
	}
	out := make([]Component, 0, len(list))
	for _, s := range list {
		f := Component{What: "MCP server", Name: s.Server, State: ComponentOK, About: "not started to find out"}
		switch {
		case s.Problem != "":
			f.State, f.About = ComponentBroken, s.Problem
			f.Fix = cmp.Or(s.Help, "Check its entry in "+config.FileName+" or "+config.MCPFileName+".")
		case ask:
			var names []string
			for _, tool := range s.Tools {
				names = append(names, tool.Name)
			}
			f.About = cmp.Or(strings.Join(names, ", "), "no tools")
		}
		out = append(out, f)
	}
	return out, nil
}

// DiagnoseWorkflows returns what the workflows of the project around the working folder lack to run, each problem once.
// It contacts no server.
func (a *App) DiagnoseWorkflows(ctx context.Context) ([]Component, error) {
	env, err := a.approvedEnvironment()
	if err != nil {
		return nil, err
	}
	found, err := a.Workflows(ctx, catalog.ReadOptions{})
	if err != nil {
		return nil, err
	}
	var problems []registry.Problem
	lacking := map[string][]string{} // names of workflows by message
	for _, w := range found.Workflows {
		if w.Scope != project.OfProject || w.ShadowedBy != "" || w.Analysis.Err() != nil {
			continue
		}
		program := w.Analysis.Program
		registry.ApplyDefaults(program, env.settings.Config)
		for _, m := range slices.Concat(
			env.models.Missing(program, RunOptions{}), env.tools.Missing(program, RunOptions{}, env.models),
		) {
			if lacking[m.Message] == nil {
				problems = append(problems, m.Problem)
			}
			lacking[m.Message] = append(lacking[m.Message], w.Name)
		}
	}
	out := make([]Component, 0, len(problems))
	for _, p := range problems {
		name, others := lacking[p.Message][0], len(lacking[p.Message])-1
		if others > 0 {
			name += fmt.Sprintf(" and %d more", others)
		}
		out = append(out, Component{
			What: "workflow", Name: name, State: ComponentMissing,
			About: env.models.Secrets.Show(p.Message), Fix: p.Help,
		})
	}
	return out, nil
}

// storeComponent returns the state of the project's store.
func (a *App) storeComponent(ctx context.Context, root string, c *config.Config, reach bool) Component {
	dir := filepath.Join(root, storageFolder)
	f, err := registry.ExamineStore(ctx, dir, c, a.o.Getenv, reach)
	f.About = strings.ReplaceAll(f.About, dir, a.Display(dir))
	if err == nil {
		return f
	}
	if f.About != "" {
		f.About += ": "
	}
	f.About += err.Error()
	f.Fix = cmp.Or(storeAdvice(err), "Write store: postgres://user@host/database.")
	return f
}

// mcpComponent returns the state of .mcp.json; nil without one.
func mcpComponent(file *config.MCPFile) *Component {
	f := &Component{What: "MCP servers", Name: config.MCPFileName, State: ComponentOK}
	switch {
	case file.Err != nil:
		f.State, f.About, f.Fix = ComponentBroken, file.Err.Error(), "Make it a file that can be read, or remove it."
	case file.File == nil:
		return nil
	case file.Problems.Errors():
		f.State, f.About = ComponentBroken, diag.Summary(file.Problems)
	default:
		f.About = file.File.Path
	}
	return f
}

// Notebook holds the notes of an agent of a workflow for its later runs.
type Notebook = registry.Notebook

// Notebooks lists the notebooks of the project.
func (a *App) Notebooks() ([]Notebook, error) {
	root, err := a.Root()
	if err != nil {
		return nil, err
	}
	return registry.Notebooks(root)
}

// Forget removes the notebooks of a workflow, or of one of its agents. It reports whether there were any.
func (a *App) Forget(workflow, agent string) (bool, error) {
	root, err := a.Root()
	if err != nil {
		return false, err
	}
	return registry.Forget(root, workflow, agent)
}
