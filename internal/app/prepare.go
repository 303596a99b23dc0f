package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/check"
	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/xslices"
)

// RunOptions are how a run was asked for; they are pinned with the run.
type RunOptions = registry.RunOptions

// PrepareRequest describes a run to start.
type PrepareRequest struct {
	Workflow *Analysis
	// Options may leave out what the project's configuration decides.
	Options RunOptions
	// Sandbox overrides the configuration, if it is not nil.
	Sandbox *bool
	// Script is a file of replies that are played instead of asking models; nil for none.
	Script *source.File

	// Input is the whole input as JSON; Fields are added to it.
	Input  json.RawMessage
	Fields []Field
	// AllowUndeclared accepts inputs that the workflow does not declare.
	AllowUndeclared bool
	// Force starts a workflow that must not be started by hand.
	Force bool
	// Unattended starts a run for a trigger: no person has named the workflow, which would be consent to its commands.
	Unattended bool
	// InputOnly checks the configuration and the input, and not whether the run could start.
	InputOnly bool
}

// Finding is the result of one check before a run starts: a notice, or the problem that keeps the run from starting.
type Finding struct {
	Notice
	Problem *Error // nil for a notice
}

// Prepared is a run that can be started, unless Findings has a problem.
type Prepared struct {
	Workflow *Analysis
	Root     string // of the project that keeps the run
	Input    json.RawMessage
	Options  RunOptions
	// Findings are all notices and problems, in the order of the checks.
	Findings []Finding
	// ShellAllowed reports consent to the commands of the workflow.
	ShellAllowed bool
	// Billed reports whether the run asks models that can cost money.
	Billed bool
	// Unconfined names the MCP servers that run outside the sandbox which the run asks for.
	Unconfined []string

	env *environment
	def *engine.Definition
}

// Err returns the first problem; nil if the run can be started.
func (p *Prepared) Err() error {
	for _, f := range p.Findings {
		if f.Problem != nil {
			return f.Problem
		}
	}
	return nil
}

// warn adds a notice to the findings.
func (p *Prepared) warn(n Notice) { p.Findings = append(p.Findings, Finding{Notice: n}) }

// note adds a notice with a formatted text to the findings.
func (p *Prepared) note(format string, args ...any) {
	p.warn(Notice{Text: fmt.Sprintf(format, args...)})
}

// problem records an error; it returns the error if that is none of a kind that callers can act on.
func (p *Prepared) problem(err error) error {
	if known, ok := errors.AsType[*Error](err); ok {
		p.Findings = append(p.Findings, Finding{Problem: known})
		return nil
	}
	return err
}

// Prepare does everything that can fail before a run starts: it reads the configuration, puts the input together and
// checks it against its schema, and looks for missing consent, models, tools and programs. Nothing is started.
func (a *App) Prepare(ctx context.Context, req PrepareRequest) (*Prepared, error) {
	an := req.Workflow
	p := &Prepared{Workflow: an, Options: req.Options}
	if err := an.Err(); err != nil {
		return p, p.problem(err)
	}
	if forbidsManualRuns(an.Program) && !req.Force && !req.Unattended {
		_ = p.problem(fail(InvalidRequest, NotOnDemand,
			"the workflow says \"manual: false\": it is not meant to be run by hand"))
	}
	if req.Script != nil {
		p.script(ctx, a, req.Script, false)
	}
	if err := p.configure(a, &req); err != nil || p.env == nil {
		return p, err
	}
	if req.AllowUndeclared {
		if err := admitUndeclared(an.Program); err != nil {
			return p, err
		}
	}
	p.limitCost()
	input, err := p.input(ctx, &req, &a.o)
	if err := p.problem(err); err != nil {
		return p, err
	}
	// A problem with the input is recorded by now; the remaining checks go on, so that all findings are reported at
	// once.
	if p.Input = input; err == nil {
		p.noteLiteral(an.Program.Input)
	}
	if !req.InputOnly {
		p.readiness(a)
		p.def = an.definition(p.Root)
		go p.def.Prepare() // while the caller continues
	}
	return p, nil
}

// script checks a file of replies and adds it to the options. shared reports whether it also answers other workflows:
// then entries that this one does not use are warnings.
func (p *Prepared) script(ctx context.Context, a *App, f *source.File, shared bool) {
	script, problems := registry.Script(f)
	if script != nil {
		known := scriptFacts(p.Workflow.Program)
		known.OtherWorkflows = func() (names []string) {
			if found, err := a.Workflows(ctx, catalog.ReadOptions{}); err == nil {
				names = xslices.Map(found.Workflows, func(one Workflow) string { return one.Name })
			}
			return names
		}
		unused := script.Check(p.Workflow.Program, known)
		for i := range unused {
			if shared {
				unused[i].Severity = diag.Warning
			}
		}
		problems = append(problems, unused...)
	}
	if len(problems) > 0 {
		files := source.Set{}
		files.Add(f)
		p.warn(Notice{Diagnostics: problems.Sorted(), Files: files})
	}
	if problems.Errors() {
		_ = p.problem(fail(InvalidRequest, InvalidScript, "the script %q cannot be used", f.Path))
		return
	}
	p.Options.Script, p.Options.ScriptName = f.Text, f.Path
}

// scriptFacts returns what decides whether the entries of a script can answer. Budgets, which can be raised, do not.
func scriptFacts(p *ir.Program) (known registry.ScriptFacts) {
	known.Tools, known.OtherTools = registry.ToolNames(p)
	known.Activities = registry.ScriptActivities(p)
	unlimited := *p
	unlimited.Budget = ir.Budget{}
	dialogs := map[string]bool{}
	for s := range p.Steps() {
		if t := s.Task(); t != nil {
			dialogs[s.ID] = t.Describe().Dialog
		}
	}
	for _, cost := range check.Estimate(&unlimited, catalog.Kinds()).PerStep {
		id := cost.Step[strings.LastIndexByte(cost.Step, '/')+1:]
		b := registry.ScriptBound{Step: id, Agent: cost.Bound.Agent}
		if cost.Visits.Unbounded == "" {
			b.Visits = max(cost.Visits.N, 1)
		}
		if calls := cost.Bound.Worst.ModelCalls; calls.Unbounded == "" {
			b.Turns = calls.N // 0 for a tool, whose server may ask a model all the same
		}
		if dialogs[id] { // other steps continue it, in its name
			b.Visits, b.Turns = 0, 0
		}
		known.Bounds = append(known.Bounds, b)
	}
	return known
}

// configure reads the configuration of the workflow's project, and completes the options with it.
func (p *Prepared) configure(a *App, req *PrepareRequest) error {
	space, err := a.space()
	if err != nil {
		return err
	}
	defer space.Close()
	p.Root = p.Workflow.root
	asked := p.Options
	asked.Sandbox = req.Sandbox != nil && *req.Sandbox
	if p.env, err = a.configured(space, p.Root, consentOf(asked), p.warn); err != nil {
		return p.problem(err)
	}
	s, program, o := p.env.settings, p.Workflow.Program, &p.Options
	registry.ApplyDefaults(program, s.Config)
	o.NoAWFAudit = o.NoAWFAudit || registry.NoAWFAudit(a.o.Getenv)
	o.Pin(s.Config, p.env.models, req.Sandbox, a.o.Confined)
	// Three things are consent to the commands of a workflow: the option AllowShell, an earlier approval of the files,
	// and, in some formats, naming the workflow.
	files := filesOfCommands(p.Root, p.Workflow)
	if o.Named, err = a.namedConsent(p, req, files); err != nil {
		return p.problem(err)
	}
	if !o.AllowShell && !registry.Simulates(*o) {
		o.AllowShell, o.Approved = a.approvedCommands(files)
	}
	if registry.TelemetryMayBeEnabled(a.o.Getenv) {
		o.TraceParent = a.o.Getenv("TRACEPARENT")
	}
	p.ShellAllowed = o.AllowShell || s.Allow.Shell
	return nil
}

// namedConsent reports whether a person consents to the commands of the workflow by naming it.
func (a *App) namedConsent(p *Prepared, req *PrepareRequest, files *commandFiles) (bool, error) {
	o := &p.Options
	if !registry.NamedConsent(p.Workflow.Program) || req.Unattended || o.Untrusted {
		return false, nil
	}
	written, err := a.writtenPrograms(files)
	if err != nil {
		return false, err
	}
	for _, f := range written {
		if !o.AllowShell && !registry.Simulates(*o) {
			p.note("A run has written %s. Review it before you run it.", f.Path)
		}
	}
	return len(written) == 0, nil
}

// defaultMaxCost limits what a run may cost whose workflow and configuration do not, in millionths of a dollar.
const defaultMaxCost = 5_000_000

// limitCost sets Billed, and gives a run of models with known prices a budget of money if it has none.
func (p *Prepared) limitCost() {
	if p.Options.Simulate || p.Options.ScriptName != "" {
		return
	}
	program, limit := *p.Workflow.Program, int64(defaultMaxCost)
	if most := p.env.settings.Config.Defaults.MaxCost; most != nil {
		limit = *most
	}
	priced, billed := p.env.models.Billing(&program, p.Options)
	p.Billed = billed
	if billed && priced && limit > 0 && program.Budget.MicroDollars == nil {
		program.Budget.MicroDollars = &ir.Limit{Max: limit}
		p.Workflow.Program = &program
	}
}

// ConfirmedBefore reports whether a person agreed, in one of the latest runs of the workflow, to what a run can cost
// now, and adds that to the options. A cost that is not known is confirmed by a run whose cost was not known, or by one
// of a release that did not record the amount.
func (p *Prepared) ConfirmedBefore(ctx context.Context, m *Money) (bool, error) {
	const latest = 20
	most, known := m.Bound()
	for entry, err := range p.env.Store.Runs(ctx, journal.Filter{Name: p.Workflow.Program.Name, Limit: latest}) {
		if err != nil {
			return false, err
		}
		state, _, _, err := p.env.Engine.Load(ctx, entry.ID)
		if err != nil {
			continue // "runs" reports what is wrong with it
		}
		var o RunOptions
		if json.Unmarshal(state.Options, &o) != nil || !o.CostConfirmed {
			continue
		}
		agreed := o.ConfirmedMicroDollars
		if known && agreed != nil && most <= *agreed || !known && agreed == nil {
			p.Options.CostConfirmed, p.Options.ConfirmedMicroDollars = true, agreed
			return true, nil
		}
	}
	return false, nil
}

// Confirm adds to the options that a person has agreed to what the run can cost.
func (p *Prepared) Confirm(m *Money) {
	p.Options.CostConfirmed, p.Options.ConfirmedMicroDollars = true, nil
	if most, known := m.Bound(); known {
		p.Options.ConfirmedMicroDollars = &most
	}
}

// readiness checks whether the run could start.
func (p *Prepared) readiness(a *App) {
	s, o, program := p.env.settings, p.Options, p.Workflow.Program
	if len(s.ignored) > 0 {
		p.note("%s in %s is not approved on this machine and does not count. %s",
			strings.Join(s.ignored, ", "), config.FileName, config.Approval)
	}
	err := p.env.ready(program, o)
	if e, ok := errors.AsType[*Error](err); ok && e.Reason == NeedsConsent {
		if e.Changed = a.changedSince(p.Root, p.Workflow); len(e.Changed) > 0 {
			e.Message += "\nThe approval no longer counts. " + changedText(e.Changed)
		}
	}
	_ = p.problem(err) // it has no other errors
	python, simulates := p.Workflow.reading.Python, registry.Simulates(o)
	if python != "" && simulates {
		_ = p.problem(fail(InvalidRequest, PythonSimulated, "a simulated run starts no python3"))
	}
	// What real models lack is a notice if the run starts nevertheless.
	if !o.Simulate && o.ScriptName == "" {
		if o.Unready {
			strict := o
			strict.Unready = false
			for _, l := range p.env.models.Missing(program, strict) {
				p.note("Missing, so that what needs it fails: %s.", l.Text())
			}
		}
		for _, text := range p.env.models.Ignored(program, o) {
			p.note("%s", text)
		}
	}
	if python == catalog.PythonConfined {
		if _, err := a.o.Confined(); err != nil {
			_ = p.problem(fail(NotReady, NoSandbox, "%v", err))
		}
	}
	if o.Sandbox && !o.Simulate {
		p.Unconfined = p.env.tools.Unconfined(program)
	}
}

// changedText names files that have changed since their approval.
func changedText(files []string) string {
	return "Changed since the approval: " + strings.Join(files, ", ")
}

// MayApproveItself returns an error unless nothing of the run is real, so that its gates can be approved without a
// person.
func (p *Prepared) MayApproveItself() error {
	return p.env.mayApproveItself(p.Workflow.Program, p.Options)
}

// mayApproveItself is the rule of MayApproveItself: the replies of models are simulated or from a script, and the run
// starts no command and calls no tool with side effects.
func (env *environment) mayApproveItself(p *ir.Program, o RunOptions) error {
	if !o.Simulate && o.Script == "" {
		return fail(InvalidRequest, NotOffline, "this run is not simulated")
	}
	if effects := env.tools.SideEffects(p, o); len(effects) > 0 {
		return fail(InvalidRequest, NotOffline, "this run would use %s", strings.Join(effects, ", "))
	}
	return nil
}

// forbidsManualRuns reports whether the workflow switches off its trigger for runs by hand.
func forbidsManualRuns(p *ir.Program) bool {
	return slices.ContainsFunc(p.Triggers, func(t ir.Trigger) bool { return t.Kind == ir.OnDemand && t.Off })
}

// labeled returns an *Error if this process must not drive runs of a program because it lacks labels.
func (env *environment) labeled(p *ir.Program) error {
	c := env.settings.Config
	if c == nil || len(c.Needs) == 0 {
		return nil
	}
	for _, name := range c.StepsWithNeeds(p.Name) {
		if !hasStep(p, name) {
			return fail(NotReady, "", "the needs of %q in %s name a step %q, which the workflow does not have", p.Name,
				config.FileName, name)
		}
	}
	if inner, missing := unstatedNeeds(c, p, c.LabelsOf(p.Name)); inner != "" {
		return fail(NotReady, "", "the workflow %q calls %q, which needs a worker with %s",
			p.Name, inner, LabelWords(missing)).
			advise("Runs are driven by one worker: add the labels to the needs of %q in %s.", p.Name, config.FileName)
	}
	missing := registry.MissingLabels(c, p.Name, env.app.o.Labels)
	if len(missing) == 0 || env.app.o.Worker || env.app.o.RecordOnly {
		return nil
	}
	e := fail(NotReady, MissingLabels, "the workflow %q needs a worker with %s, which this process does not have",
		p.Name, LabelWords(missing))
	e.Name, e.Names = p.Name, missing
	return e
}

// hasStep reports whether a step of any block has an id.
func hasStep(p *ir.Program, id string) bool {
	return slices.ContainsFunc(p.Blocks, func(b ir.Block) bool {
		return slices.ContainsFunc(b.Steps, func(s ir.Step) bool { return s.ID == id })
	})
}

// unstatedNeeds returns a workflow that a program calls and that needs labels which are not among stated, and these
// labels.
func unstatedNeeds(c *config.Config, p *ir.Program, stated []string) (workflow string, missing []string) {
	for i := range p.Children {
		child := &p.Children[i]
		if missing = registry.MissingLabels(c, child.Name, stated); len(missing) > 0 {
			return child.Name, missing
		}
		if workflow, missing = unstatedNeeds(c, child, stated); workflow != "" {
			return workflow, missing
		}
	}
	return "", nil
}

// LabelWords names labels in a message.
func LabelWords(labels []string) string {
	if len(labels) == 1 {
		return "the label " + labels[0]
	}
	return "the labels " + strings.Join(labels, ", ")
}

// ready returns an *Error with everything that a run lacks; if that is nothing, with the commands that need consent.
func (env *environment) ready(p *ir.Program, o RunOptions) error { return env.readyFrom(p, "", o) }

// readyFrom is ready for a run that continues with a step: it lacks only the models that this step and those that can
// follow need. All servers of tools count, because values of the run can contain secrets that only they provide.
func (env *environment) readyFrom(program *ir.Program, from string, o RunOptions) error {
	if err := env.labeled(program); err != nil {
		return err
	}
	p := check.From(program, from)
	var models []MissingDependency
	if o.ScriptName == "" && !o.Simulate {
		models = env.models.Missing(p, o)
	}
	tools := env.tools.Missing(program, o, env.models)
	e := &Error{Kind: NotReady, Missing: slices.Concat(models, tools)}
	switch {
	case len(e.Missing) == 0:
		return env.consented(program, o)
	case len(tools) == 0:
		e.Reason, e.Message = MissingModels, "the models are not ready:"
	case len(models) == 0:
		e.Reason, e.Message = MissingTools, "the tools are not ready:"
	default:
		e.Reason, e.Message = MissingBoth, "models and tools are not ready:"
	}
	sure := inevitable(p)
	needed := func(l MissingDependency) bool {
		return slices.ContainsFunc(l.Steps, func(step string) bool { return slices.Contains(sure, step) })
	}
	// Startable says that --unready would start the run: everything that it lacks belongs to steps that it may never
	// reach, or whose failure it handles.
	o.Unready = true
	e.Startable = len(tools) == 0 && len(env.models.Missing(p, o)) == 0 && !slices.ContainsFunc(e.Missing, needed)
	return e
}

// consented returns an *Error if a run would run commands to which no person has consented.
func (env *environment) consented(p *ir.Program, o RunOptions) error {
	commands := env.tools.Unapproved(p, o)
	if len(commands) == 0 {
		return nil
	}
	lines := xslices.Map(commands, func(c registry.Command) string { return c.String() })
	e := fail(NotReady, NeedsConsent, "the workflow runs commands on this machine, which needs your consent:\n  %s",
		strings.Join(lines, "\n  "))
	e.Commands = commands
	return e
}

// readyAgain returns what a run lacks that is to continue with a step; "" is where it is.
func (env *environment) readyAgain(id journal.RunID, state *plan.State, def *engine.Definition, from string) error {
	var asked RunOptions
	if len(state.Options) > 0 {
		if err := json.Unmarshal(state.Options, &asked); err != nil {
			return nil // the engine reports it
		}
	}
	if root := state.Root(); from == "" && state.Finished == nil && root != nil {
		from = position(root)
	}
	err := env.readyFrom(def.Program, from, asked)
	if missing, ok := errors.AsType[*Error](err); ok {
		missing.Run = id
	}
	return err
}

// inevitable returns the steps that every successful run reaches and whose failure the workflow does not handle.
func inevitable(p *ir.Program) []string {
	var way, out []string
	var at *ir.Step
	if body := p.Blocks[ir.Body].Steps; len(body) > 0 {
		at = &body[0]
	}
	// Follow the body from its first step, as long as there is only one way on.
	for at != nil && at.When == nil && !slices.Contains(way, at.ID) {
		way = append(way, at.ID)
		caught := slices.ContainsFunc(at.Next, func(e ir.Edge) bool {
			return slices.Contains(e.On, ir.Failed) && e.To.Step != ""
		})
		if !caught && at.Fallback == nil && !at.SkipOnError {
			out = append(out, at.ID)
		}
		on := slices.IndexFunc(at.Next, func(e ir.Edge) bool { return slices.Contains(e.On, ir.OK) })
		if on < 0 || at.Next[on].When != nil || at.Next[on].Limit > 0 || at.StopWhen != nil {
			break
		}
		at = p.Step(ir.Body, at.Next[on].To.Step)
	}
	return out
}

// admitUndeclared makes a workflow accept inputs that it does not declare. They are available to its templates, and
// are not exported to commands.
func admitUndeclared(p *ir.Program) error {
	if p.Input == nil || len(p.Input.Schema) == 0 {
		return nil
	}
	var contract map[string]json.RawMessage
	if err := json.Unmarshal(p.Input.Schema, &contract); err != nil {
		return err
	}
	delete(contract, "additionalProperties")
	open, err := json.Marshal(contract)
	if err != nil {
		return err
	}
	declared := *p.Input
	declared.Schema = open
	p.Input = &declared
	return nil
}

// sha256Hex returns a hash in the form in which definitions and approvals name files.
func sha256Hex(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// exists reports whether there is a file, a folder or a link.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// rewrite replaces the contents of a file.
func rewrite(path, text string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), info.Mode().Perm())
}
