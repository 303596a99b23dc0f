package cli

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/check"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/manifest"
	"github.com/espalier-run/espalier/internal/project"
	"github.com/espalier-run/espalier/internal/source"
)

//go:embed creator
var creator embed.FS

const (
	creatorName = "workflow-creator"
	repairName  = "workflow-repair"
	// mostRepairs is how often a model may mend what it has generated.
	mostRepairs = 2
)

func (a *app) createCommand() *cobra.Command {
	g := generation{}
	cmd := a.jsonFlag(&cobra.Command{
		Use:   `create NAME ["WHAT IT SHOULD DO"] [--model MODEL|--simulate|--script FILE]`,
		Short: "Have a workflow made of what it should do",
		Long: `Have a workflow made: a workflow of our own asks a model for a design, a
workflow.yaml, agents, skills and scripts. They are staged in
artifacts/NAME/RUN/ with a manifest.json and checked; what is wrong goes back to
the model. "espalier promote NAME" then puts the workflow in its place.

A project's own workflows/workflow-creator is used instead of ours. Without
words, the newest generation is carried on: where it was interrupted or has
failed, and with the model that it began with; what is there by then is checked
once more. --simulate needs no model: the words themselves decide on the steps.`,
		Example: `  espalier create feedback-digest "Read the feedback, group it by theme, then write a summary"
  espalier create feedback-digest --simulate "Read the feedback and write a summary"`,
		Args:              takes(1, 2, "a name, and what the workflow should do"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(_ *cobra.Command, args []string) error {
			g.name = args[0]
			if err := checkName(g.name); err != nil {
				return err
			}
			if g.name[0] < 'a' || g.name[0] > 'z' {
				return usage("Begin with a letter.", "%q cannot be the name of a workflow", g.name)
			}
			if len(args) > 1 {
				g.request = strings.TrimSpace(args[1])
			}
			return a.create(&g)
		},
	})
	flags := cmd.Flags()
	flags.BoolVar(&g.options.Simulate, "simulate", false, "ask no model; make the workflow by rules")
	flags.StringVar(&g.script, "script", "", "play replies from this `FILE`")
	exclusive(cmd, "simulate", "script")
	flags.StringVar(&g.options.Model, "model", "", "the `MODEL` of all steps")
	flags.BoolVar(&g.options.AllowShell, "allow-shell", false, "let scripts of the project's own workflow-creator run")
	return cmd
}

// generation is one workflow that is being made.
type generation struct {
	name, request string
	script        string // file of replies
	options       registry.RunOptions

	project *project.Project
	run     string // as the format has it
	dir     string // where it is staged
	entry   *manifest.Manifest
}

func (a *app) create(g *generation) error {
	space, err := a.workspace()
	if err != nil {
		return err
	}
	if g.project, err = space.Here(); err != nil {
		return err
	}
	root := g.project.Root
	settings, err := a.config(root, consentOf(g.options))
	if err != nil {
		return err
	}
	models := registry.NewModels(root, settings, a.Getenv)
	g.options.Pin(settings, models)
	compiled, err := a.generator(g.project, creatorName)
	if err != nil {
		return err
	}
	registry.ApplyDefaults(compiled.program, settings)
	if g.script != "" {
		if err := a.readScript(&g.options, g.script, compiled.program); err != nil {
			return err
		}
	}
	tools := registry.NewTools(root, settings, a.Getenv, models.Secrets)
	tools.Confinable = a.Confinable
	defer tools.Close()
	again, err := g.find(root)
	if err != nil {
		return err
	}
	check := func() error { return ready(compiled.program, models, tools, g.options, newGeneration) }
	if !again {
		if err := check(); err != nil {
			return err
		}
	}
	r, err := a.runtime(root, registry.RuntimeOptions{Config: settings, Models: models, Tools: tools})
	if err != nil {
		return err
	}
	defer r.Close()
	id := journal.RunID(uuid.NewString())
	begin := func(ctx context.Context) error {
		return r.Engine.Start(ctx, id, compiled.definition(), g.input(g.request), g.options.Encode(), actor(""))
	}
	if again {
		var goOn func(context.Context) error
		if id, goOn, err = g.carryOn(r, id); goOn != nil {
			begin = goOn
		} else if err == nil { // interrupted before it began
			err = check()
		}
	} else {
		err = g.begin(root, string(id), a.Now)
	}
	if err != nil {
		return err
	}
	if g.entry.Status == manifest.Generating || g.entry.Status == manifest.Failed {
		if err := a.drive(r, id, begin); err != nil {
			return err
		}
		if err := r.Flush(context.Background()); err != nil {
			return err
		}
	}
	return a.validateGenerated(r, g)
}

// carryOn is what goes on with a generation: the run that it began with; or
// the fresh one, from where that has failed. There is nothing to go on with if
// that has never begun.
func (g *generation) carryOn(r *registry.Runtime, fresh journal.RunID) (id journal.RunID, goOn func(context.Context) error, err error) {
	ctx := context.Background()
	if err := r.Flush(ctx); err != nil { // somebody may have been stopped before the manifest was written
		return "", nil, err
	}
	if g.entry, err = manifest.Read(g.dir); err != nil {
		return "", nil, err
	}
	old := journal.RunID(g.entry.Run)
	state, _, def, err := r.Engine.Load(ctx, old)
	if errors.Is(err, journal.ErrUnknownRun) {
		return old, nil, nil
	}
	if err == nil {
		err = readyAgain(r, state, def)
	}
	if err == nil && !g.options.Simulate && g.options.ScriptName == "" && g.options.Model == "" { // for repairs
		err = json.Unmarshal(state.Options, &g.options)
	}
	if err != nil {
		return "", nil, err
	}
	failed := slices.IndexFunc(g.entry.Steps, func(s manifest.Step) bool { return s.Status == manifest.StepFailed })
	if g.entry.Status == manifest.Failed && failed >= 0 {
		step := g.entry.Steps[failed].ID
		return fresh, func(ctx context.Context) error { return r.Engine.StartFrom(ctx, fresh, old, step, actor("")) }, nil
	}
	return old, func(ctx context.Context) error { return r.Engine.Resume(ctx, old) }, nil
}

// find looks for a generation to carry on, when nobody says what to make.
func (g *generation) find(root string) (bool, error) {
	if g.request != "" {
		return false, nil
	}
	runs, err := os.ReadDir(filepath.Join(root, "artifacts", g.name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	for _, one := range slices.Backward(runs) {
		m, err := manifest.Read(manifest.Staged(root, g.name, one.Name()))
		if err != nil || m.Run == "" || !slices.Contains([]string{manifest.Generating, manifest.Generated, manifest.Validated, manifest.Failed}, m.Status) {
			continue
		}
		g.entry, g.run, g.dir, g.request = m, m.RunID, manifest.Staged(root, g.name, one.Name()), m.Request
		return true, nil
	}
	return false, usage(fmt.Sprintf(`Write "espalier create %s" and, in quotes, what it should do.`, g.name), "there is nothing to carry on, and nothing says what %q should do", g.name)
}

// begin makes the folder in which the workflow is staged.
func (g *generation) begin(root, run string, now clock) error {
	stamp, ok := registry.Stamp(root, "artifacts/"+g.name, now())
	if !ok {
		return &failure{code: exitNotReady, message: fmt.Sprintf("artifacts/%s cannot be written to", g.name)}
	}
	g.run, g.dir = stamp, manifest.Staged(root, g.name, stamp)
	g.entry = manifest.New(g.name, stamp, creatorName, g.request, now())
	g.entry.Run = run
	if err := manifest.IgnoreRuns(root); err != nil {
		return err
	}
	return g.entry.Write(g.dir)
}

func (g *generation) input(text string) json.RawMessage {
	raw, err := json.Marshal(map[string]string{"AGENT_INPUT": text, "workflow_name": g.name, "run_id": g.run})
	if err != nil {
		panic(err) // texts always encode
	}
	return raw
}

// definition is what a run of a generator pins.
func (an *analysis) definition() *engine.Definition {
	return &engine.Definition{Program: an.program, Path: an.file.Path, Sources: an.program.Files}
}

// generator is a workflow that makes workflows: the project's own, or ours.
func (a *app) generator(p *project.Project, name string) (*analysis, error) {
	own := path.Join("workflows", name, "workflow.yaml")
	if _, err := os.Stat(filepath.Join(p.Root, filepath.FromSlash(own))); err == nil {
		an, err := a.usable(a.display(filepath.Join(p.Root, filepath.FromSlash(own))))
		return &an, err
	}
	ours, err := fs.Sub(creator, "creator")
	if err != nil {
		return nil, err
	}
	return shipped(ours, own, p.Root)
}

// shipped compiles a workflow that is part of the program.
func shipped(files fs.FS, name, root string) (*analysis, error) {
	text, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, err
	}
	f := source.NewFile(name, string(text))
	r := registry.Formats().Compile(f, folder{files, root})
	if r.Program != nil {
		r.Diagnostics = append(r.Diagnostics, check.Program(r.Program, registry.Kinds())...)
	}
	if r.Diagnostics.Errors() {
		return nil, fmt.Errorf("%s: %s", name, r.Diagnostics[0].Message) // a programming mistake
	}
	return &analysis{file: f, format: r.Format, program: r.Program, files: r.Files}, nil
}

// folder is where a workflow's files are when they are not in the project: a
// file system, with what is shared in the project.
type folder struct {
	files fs.FS
	root  string
}

var _ format.Reader = folder{}

func (d folder) Read(from *source.File, ref string) (*source.File, error) {
	for _, name := range []string{path.Join(path.Dir(from.Path), ref), path.Clean(ref)} {
		if text, err := fs.ReadFile(d.files, name); err == nil {
			return source.NewFile(name, string(text)), nil
		}
	}
	if name := path.Clean(ref); strings.HasPrefix(name, "shared/") && d.root != "" {
		if text, err := os.ReadFile(filepath.Join(d.root, filepath.FromSlash(name))); err == nil {
			return source.NewFile(name, string(text)), nil
		}
	}
	return nil, &source.RefError{Ref: ref, Problem: source.RefMissing}
}

func (d folder) Skill(name string) (*source.File, error) {
	return nil, &source.RefError{Ref: name, Problem: source.RefMissing}
}

// staged is a generated workflow as it will lie in its folder.
type staged struct{ fs.FS }

func (s staged) Open(name string) (fs.File, error) {
	base := path.Base(name)
	if base == "workflow.yaml" {
		return s.FS.Open("03-workflow.yaml")
	}
	for from, to := range map[string]string{"agents/": "04-agents/", "skills/": "05-skills/", "scripts/": "06-scripts/"} {
		if i := strings.Index(name, "/"+from); i >= 0 {
			return s.FS.Open(to + name[i+1+len(from):])
		}
	}
	return nil, fs.ErrNotExist
}

// checkGenerated is everything that is wrong with what was generated.
func (g *generation) checkGenerated() (diag.List, source.Set, error) {
	files := staged{os.DirFS(g.dir)}
	name := path.Join("workflows", g.name, "workflow.yaml")
	text, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, nil, err
	}
	f := source.NewFile(name, string(text))
	r := registry.Formats().Compile(f, folder{files, g.project.Root})
	if r.Program != nil {
		r.Diagnostics = append(r.Diagnostics, check.Program(r.Program, registry.Kinds())...)
	}
	return r.Diagnostics.Sorted(), r.Files, nil
}

// validateGenerated checks what was generated, and has it mended if need be. A
// repair stands in the manifest before it begins: interrupted, it is carried on.
func (a *app) validateGenerated(r *registry.Runtime, g *generation) error {
	m, err := manifest.Read(g.dir)
	if err != nil {
		return err
	}
	g.entry = m
	if m.Phases.Validation.Status == manifest.StepFailed { // somebody may have mended it by hand
		m.Repairs = nil
	}
	m.Phases.Validation.Enter(manifest.InProgress, a.Now())
	if err := m.Write(g.dir); err != nil {
		return err
	}
	for {
		if err := a.carryOnRepair(r, g); err != nil {
			return err
		}
		list, files, err := g.checkGenerated()
		if err != nil {
			return err
		}
		if !list.Errors() {
			break
		}
		for _, d := range list {
			if d.Severity == diag.Error {
				m.Fail("validation", "", fmt.Sprintf("%s: %s", d.Code, d.Message), a.Now())
			}
		}
		if len(m.Repairs) == mostRepairs || g.options.Simulate {
			m.Phases.Validation.Enter(manifest.StepFailed, a.Now())
			err := errors.Join(m.Write(g.dir), (diag.Printer{Files: files, Color: a.colorErr}).Print(a.paintedErr(), list))
			if err != nil {
				return err
			}
			return &failure{
				code: exitInvalid, message: "what was generated is not a valid workflow",
				help: fmt.Sprintf("It is kept in %s. Mend it there and run \"espalier create %s\" once more, or begin again.", a.display(g.dir), g.name),
			}
		}
		m.Repairs = append(m.Repairs, uuid.NewString())
		if err := m.Write(g.dir); err != nil {
			return err
		}
	}
	if err := m.Register(g.dir, nil); err != nil {
		return err
	}
	m.Phases.Validation.Enter(manifest.Completed, a.Now())
	m.Status, m.UpdatedAt = manifest.Validated, manifest.Time(a.Now())
	if err := m.Write(g.dir); err != nil {
		return err
	}
	a.note("%s is staged in %s and passes its check. Next: \"espalier promote %s\".", g.name, a.display(g.dir), g.name)
	return nil
}

// carryOnRepair brings the last repair to its end: it begins it, or goes on
// where it was interrupted.
func (a *app) carryOnRepair(r *registry.Runtime, g *generation) error {
	if len(g.entry.Repairs) == 0 {
		return nil
	}
	id := journal.RunID(g.entry.Repairs[len(g.entry.Repairs)-1])
	entry, err := r.Store.Entry(context.Background(), id)
	switch {
	case errors.Is(err, journal.ErrUnknownRun):
		return a.repair(r, g, id)
	case err != nil:
		return err
	case entry.Status == journal.Finished:
		return nil
	}
	return a.drive(r, id, func(ctx context.Context) error { return r.Engine.Resume(ctx, id) })
}

// repair gives a model what the check has found, with the files.
func (a *app) repair(r *registry.Runtime, g *generation, id journal.RunID) error {
	compiled, err := a.generator(g.project, repairName)
	if err != nil {
		return err
	}
	list, _, err := g.checkGenerated()
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("The check has found:\n")
	for _, d := range list {
		fmt.Fprintf(&b, "- %s: %s %s\n", d.Span.File, d.Message, d.Help)
	}
	names, err := manifest.Files(g.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if manifest.Canonical(name) == "" {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(g.dir, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "\n=== %s ===\n\n%s", name, raw)
	}
	return a.drive(r, id, func(ctx context.Context) error {
		return r.Engine.Start(ctx, id, compiled.definition(), g.input(b.String()), g.options.Encode(), actor(""))
	})
}
