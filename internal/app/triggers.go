package app

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/project"
	"github.com/espalier-run/espalier/internal/schedule"
	"github.com/espalier-run/espalier/internal/trigger"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Trigger is a way to start runs of a workflow, with its state.
type Trigger struct {
	// ID is the path of the workflow in the project and the name of the trigger: flows/report.md#schedule.
	ID       string
	Workflow string // its name
	Path     string // for display
	ir.Trigger
	Overlap schedule.Overlap // of a schedule
	CatchUp time.Duration
	Jitter  time.Duration

	Paused bool
	Next   time.Time        // when a schedule fires next; zero if it does not
	Queue  []time.Time      // scheduled times whose runs start when the previous run is over
	Missed []trigger.Missed // the latest firings that started no run, oldest first
	Active []journal.RunID  // runs that are not over
	// Problem says why the workflow cannot be read; the trigger is that of its last valid version.
	Problem string
}

// workflowTrigger is a trigger that a workflow declares.
type workflowTrigger struct {
	id       string
	name     string // of the trigger
	file     string // of the workflow, below the root
	workflow string
	path     string
	spec     ir.Trigger
	settings config.Trigger
	an       *Analysis // the last valid version; nil if this process has seen none
	problem  string    // why the current version is not valid
}

// triggerPrefix precedes the keys of the registers of triggers.
const triggerPrefix = "trigger/"

// triggerState is the stored state of a trigger.
type triggerState struct {
	trigger.State
	// Workflow and Spec describe the trigger, for the time when its file is not valid.
	Workflow string     `json:"workflow"`
	Spec     ir.Trigger `json:"spec"`
	// Active are the runs that were not over when the state was saved.
	Active []journal.RunID `json:"active,omitempty"`
	// Seen has the version of each file that a trigger for files has dealt with; nil before its first look.
	Seen map[string]string `json:"seen,omitzero"`
}

// sameTimes reports whether two triggers fire at the same times.
func sameTimes(x, y ir.Trigger) bool {
	return x.Kind == y.Kind && x.Schedule == y.Schedule && x.Timezone == y.Timezone
}

// schedule returns the schedule of a trigger; false if it is none.
func (d *workflowTrigger) schedule() (trigger.Schedule, bool) {
	if d.spec.Kind != ir.OnSchedule || d.spec.Off {
		return trigger.Schedule{}, false
	}
	zone, err := time.LoadLocation(d.spec.Timezone) // no name is UTC
	if err != nil {
		return trigger.Schedule{}, false // reported by the checks
	}
	times, err := schedule.Parse(d.spec.Schedule, zone)
	if err != nil {
		return trigger.Schedule{}, false
	}
	return trigger.Schedule{
		Workflow: d.file, Name: d.name, Times: times, Overlap: d.settings.Overlap,
		CatchUp: d.settings.CatchUp, Jitter: d.settings.Jitter,
	}, true
}

// triggerNames returns the names of the triggers of a program: their kinds, numbered from the second of a kind.
func triggerNames(list []ir.Trigger) []string {
	names, count := make([]string, len(list)), map[ir.TriggerKind]int{}
	for i, t := range list {
		count[t.Kind]++
		names[i] = string(t.Kind)
		if n := count[t.Kind]; n > 1 {
			names[i] = fmt.Sprintf("%s-%d", t.Kind, n)
		}
	}
	return names
}

// declaredTriggers discovers the triggers of the project. A workflow with errors keeps the triggers of before: those
// that this process has seen, or else those that the store has.
func (a *App) declaredTriggers(
	ctx context.Context, env *environment, before []*workflowTrigger,
) ([]*workflowTrigger, error) {
	space, root, err := a.currentProject()
	if err != nil {
		return nil, err
	}
	defer space.Close()
	found, err := (&resolver{ctx: ctx, space: space, reading: catalog.ReadOptions{Run: true}}).discover()
	if err != nil {
		return nil, err
	}
	var out []*workflowTrigger
	for _, w := range found.Workflows {
		an := w.Analysis
		if w.Scope != project.OfProject || w.ShadowedBy != "" || project.FindRoot(filepath.Dir(an.File.Abs)) != root {
			continue
		}
		file, err := filepath.Rel(root, an.File.Abs)
		if err != nil {
			continue // found below the root
		}
		file = filepath.ToSlash(file)
		// The settings are those of the configuration as it is now, also for the triggers of the last valid version.
		if err := an.Err(); err != nil {
			kept, err := env.keptTriggers(ctx, file, before)
			if err != nil {
				return nil, err
			}
			for _, d := range kept {
				d.path, d.problem = w.Path, an.Err().Error()
				d.settings = env.settings.Trigger(d.workflow)
			}
			out = append(out, kept...)
			continue
		}
		settings := env.settings.Trigger(w.Name)
		specs := withSchedule(an.Program.Triggers, settings)
		for i, name := range triggerNames(specs) {
			out = append(out, &workflowTrigger{
				id: file + "#" + name, name: name, file: file, workflow: w.Name, path: w.Path,
				spec: specs[i], settings: settings, an: an,
			})
		}
	}
	return append(out, env.webhooks(found, root)...), nil
}

// withSchedule returns the triggers of a workflow with the schedule that the configuration adds.
func withSchedule(triggers []ir.Trigger, settings config.Trigger) []ir.Trigger {
	at := settings.Schedule.Value
	if at == "" {
		return triggers
	}
	return append(slices.Clone(triggers),
		ir.Trigger{Kind: ir.OnSchedule, Schedule: at, Timezone: settings.Timezone.Value})
}

// TriggersOf returns the triggers that the file of a workflow declares, with the schedule and the webhooks of the
// configuration.
func (a *App) TriggersOf(an *Analysis) ([]ir.Trigger, error) {
	env, err := a.environmentOf(an, simulating)
	if err != nil {
		return nil, err
	}
	triggers := slices.Clone(withSchedule(an.Program.Triggers, env.settings.Trigger(an.Name())))
	for _, hook := range env.settings.Webhooks {
		if an.isNamed(hook.Is.Workflow.Value, env.root) {
			triggers = append(triggers, ir.Trigger{Kind: ir.OnWebhook, Event: hook.Name.Value})
		}
	}
	return triggers, nil
}

// isNamed reports whether the configuration of a project means the workflow: by its name, or by its path.
func (an *Analysis) isNamed(name, root string) bool {
	return name == an.Name() || name == an.placeOf(root, an.File.Path)
}

// webhooks returns the triggers that the configuration adds to workflows.
func (env *environment) webhooks(found *Discovery, root string) []*workflowTrigger {
	var out []*workflowTrigger
	for _, hook := range env.settings.Webhooks {
		for _, w := range found.Workflows {
			if !w.Analysis.isNamed(hook.Is.Workflow.Value, root) || w.Scope != project.OfProject || w.ShadowedBy != "" {
				continue
			}
			d := &workflowTrigger{
				name: "webhook:" + hook.Name.Value, file: w.Analysis.placeOf(root, w.Analysis.File.Path),
				workflow: w.Name, path: w.Path,
				spec: ir.Trigger{Kind: ir.OnWebhook, Event: hook.Name.Value},
				settings: config.Trigger{
					Simulate: hook.Is.Simulate || env.settings.Trigger(w.Name).Simulate, Map: hook.Is.Map,
				},
				an: w.Analysis,
			}
			d.id = d.file + "#" + d.name
			if err := w.Analysis.Err(); err != nil {
				d.an, d.problem = nil, err.Error()
			}
			out = append(out, d)
			break
		}
	}
	return out
}

// keptTriggers returns the triggers of the last valid version of a file.
func (env *environment) keptTriggers(
	ctx context.Context, file string, before []*workflowTrigger,
) ([]*workflowTrigger, error) {
	var out []*workflowTrigger
	for _, d := range before {
		if d.file == file {
			kept := *d
			out = append(out, &kept)
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	stored, err := env.Store.List(ctx, triggerPrefix+file+"#")
	if err != nil {
		return nil, err
	}
	for _, r := range stored {
		var state triggerState
		if err := r.Decode(&state); err != nil {
			return nil, err
		}
		id := strings.TrimPrefix(r.Key, triggerPrefix)
		_, name, _ := strings.Cut(id, "#")
		out = append(out, &workflowTrigger{id: id, name: name, file: file, workflow: state.Workflow, spec: state.Spec})
	}
	return out, nil
}

// loadTrigger returns the stored state of a trigger with the runs that are not over by now, and its register.
func (env *environment) loadTrigger(ctx context.Context, d *workflowTrigger) (triggerState, journal.Register, error) {
	var state triggerState
	register, err := env.Store.Load(ctx, triggerPrefix+d.id)
	if err != nil {
		return state, register, err
	}
	if err := register.Decode(&state); err != nil {
		return state, register, err
	}
	if !sameTimes(state.Spec, d.spec) {
		// The schedule has changed: its new times count from now on.
		state.Handled = time.Time{}
	}
	state.Workflow, state.Spec = d.workflow, d.spec
	// Runs that were removed count as over.
	var active []journal.RunID
	for _, id := range state.Active {
		entry, err := env.Store.Entry(ctx, id)
		switch {
		case errors.Is(err, journal.ErrUnknownRun):
		case err != nil:
			return state, register, err
		case entry.Status != journal.Finished:
			active = append(active, id)
		}
	}
	state.Active = active
	return state, register, nil
}

// saveTrigger stores the state of a trigger if it has changed. It returns journal.ErrConflict if another process was
// faster.
func (env *environment) saveTrigger(ctx context.Context, register journal.Register, state triggerState) error {
	data, err := json.Marshal(state)
	if err != nil || bytes.Equal(data, register.Data) {
		return err
	}
	register.Data = data
	_, err = env.Store.Save(ctx, register)
	return err
}

// changeTrigger changes the state of a trigger.
func (env *environment) changeTrigger(ctx context.Context, d *workflowTrigger, change func(*triggerState)) error {
	for {
		state, register, err := env.loadTrigger(ctx, d)
		if err != nil {
			return err
		}
		change(&state)
		if err := env.saveTrigger(ctx, register, state); !errors.Is(err, journal.ErrConflict) {
			return err
		}
	}
}

// known returns the declared triggers: those of the service that fires them, if this process has one.
func (a *App) known(ctx context.Context) (*environment, []*workflowTrigger, error) {
	a.mu.Lock()
	service := a.triggers
	a.mu.Unlock()
	if service != nil {
		if _, err := service.reload(ctx); err != nil {
			return nil, nil, err
		}
		return service.env, service.all(), nil
	}
	env, err := a.storage(ctx)
	if err != nil {
		return nil, nil, err
	}
	all, err := a.declaredTriggers(ctx, env, nil)
	return env, all, err
}

// Triggers lists the triggers of the project's workflows, except "manual".
func (a *App) Triggers(ctx context.Context) ([]Trigger, error) {
	env, all, err := a.known(ctx)
	if err != nil {
		return nil, err
	}
	out := []Trigger{}
	for _, d := range all {
		if d.spec.Kind == ir.OnDemand {
			continue
		}
		t, err := env.describeTrigger(ctx, d, env.now())
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// describeTrigger returns a trigger with its stored state.
func (env *environment) describeTrigger(ctx context.Context, d *workflowTrigger, now time.Time) (Trigger, error) {
	state, _, err := env.loadTrigger(ctx, d)
	if err != nil {
		return Trigger{}, err
	}
	t := Trigger{
		ID: d.id, Workflow: d.workflow, Path: d.path, Trigger: d.spec, Problem: d.problem,
		Paused: state.Paused, Queue: state.Queue, Missed: state.Missed, Active: state.Active,
	}
	if s, ok := d.schedule(); ok {
		t.Overlap, t.CatchUp, t.Jitter = s.Overlap, s.CatchUp, s.Jitter
		if !state.Paused {
			t.Next = s.Times.Next(now)
		}
	}
	return t, nil
}

// findTrigger returns the trigger that a person means: by its id, or by the workflow if that has only one that fits.
func (a *App) findTrigger(
	ctx context.Context, name string, fits func(ir.Trigger) bool,
) (*environment, *workflowTrigger, error) {
	env, all, err := a.known(ctx)
	if err != nil {
		return nil, nil, err
	}
	var found []*workflowTrigger
	var ids []string
	// The id is unique; all other names may fit several triggers.
	for _, d := range all {
		if d.spec.Kind == ir.OnDemand || d.spec.Off || !fits(d.spec) {
			continue
		}
		ids = append(ids, d.id)
		if d.id == name {
			return env, d, nil
		}
		if d.workflow == name || d.file == name || d.path == name || d.workflow+"#"+d.name == name {
			found = append(found, d)
		}
	}
	switch len(found) {
	case 1:
		return env, found[0], nil
	case 0:
		e := fail(NotFound, NoTrigger, "unknown trigger %q", name)
		e.Name, e.Names = name, ids
		return nil, nil, e
	}
	e := fail(InvalidRequest, AmbiguousTrigger, "%q has several triggers", name)
	e.Names = xslices.Map(found, func(d *workflowTrigger) string { return d.id })
	return nil, nil, e
}

// anyTrigger accepts every trigger.
func anyTrigger(ir.Trigger) bool { return true }

// PauseTrigger pauses a trigger, or resumes it. A paused trigger starts no runs; scheduled times that pass are recorded
// as missed.
func (a *App) PauseTrigger(ctx context.Context, name string, paused bool) (Trigger, error) {
	env, d, err := a.findTrigger(ctx, name, anyTrigger)
	if err != nil {
		return Trigger{}, err
	}
	now := env.now()
	err = env.changeTrigger(ctx, d, func(state *triggerState) {
		if s, ok := d.schedule(); ok && state.Paused && !paused {
			// What was due until now was missed because of the pause.
			state.State, _ = s.Due(state.State, now, len(state.Active))
		}
		state.Paused = paused
	})
	if err != nil {
		return Trigger{}, err
	}
	return env.describeTrigger(ctx, d, now)
}

// UpcomingTimes returns the next times at which a schedule fires.
func (a *App) UpcomingTimes(ctx context.Context, name string, n int) (Trigger, []time.Time, error) {
	env, d, err := a.findTrigger(ctx, name, func(t ir.Trigger) bool { return t.Kind == ir.OnSchedule })
	if err != nil {
		return Trigger{}, nil, err
	}
	now := env.now()
	t, err := env.describeTrigger(ctx, d, now)
	if err != nil {
		return t, nil, err
	}
	s, ok := d.schedule()
	if !ok {
		return t, nil, nil
	}
	var out []time.Time
	for at := s.Times.Next(now); !at.IsZero() && len(out) < n; at = s.Times.Next(at) {
		out = append(out, at)
	}
	return t, out, nil
}

// RunTrigger starts a run as a trigger does, now, also if the trigger is paused. It counts as a run of the trigger for
// later firings.
func (a *App) RunTrigger(ctx context.Context, name string, by journal.Actor) (journal.RunID, error) {
	env, d, err := a.findTrigger(ctx, name, anyTrigger)
	if err != nil {
		return "", err
	}
	id := NewRunID()
	if err := a.startTriggered(ctx, d, id, nil, by); err != nil {
		return "", err
	}
	return id, env.changeTrigger(ctx, d, func(state *triggerState) { state.Active = append(state.Active, id) })
}

// startTriggered starts a run for a trigger.
func (a *App) startTriggered(
	ctx context.Context, d *workflowTrigger, id journal.RunID, input json.RawMessage, by journal.Actor,
) error {
	an, err := d.analysis(ctx, a)
	if err != nil {
		return err
	}
	if input == nil {
		input = d.settings.Input
	}
	return a.startPrepared(ctx, PrepareRequest{
		Workflow: an, Input: input, Unattended: true, Options: RunOptions{Simulate: d.settings.Simulate},
	}, id, by)
}

// TriggerOptions returns the options of runs that start without a person, with input from outside of the project.
func (a *App) TriggerOptions(ctx context.Context, workflow string) RunOptions {
	o := RunOptions{Untrusted: true}
	if env, err := a.storage(ctx); err == nil {
		o.Simulate = env.settings.Trigger(workflow).Simulate
	}
	return o
}

// startPrepared prepares and starts a run. A run that exists already has been started by another process.
func (a *App) startPrepared(ctx context.Context, req PrepareRequest, id journal.RunID, by journal.Actor) error {
	prepared, err := a.Prepare(ctx, req)
	if err != nil {
		return err
	}
	_, err = a.Start(ctx, prepared, id, by)
	if failed, ok := errors.AsType[*Error](err); ok && failed.Reason == RunExists {
		return nil
	}
	return err
}

// analysis returns the workflow of a trigger as it is now or, if it has errors, its last valid version.
func (d *workflowTrigger) analysis(ctx context.Context, a *App) (*Analysis, error) {
	root, err := a.Root()
	if err != nil {
		return nil, err
	}
	an, err := a.Analyze(ctx, AnalyzeRequest{
		Workflow: filepath.Join(root, filepath.FromSlash(d.file)), Reading: catalog.ReadOptions{Run: true},
	})
	if err == nil {
		err = an.Err()
	}
	if err != nil && d.an != nil {
		return d.an, nil
	}
	return an, err
}

// isPermanent reports whether an error of a start repeats if the run is started again, so that the firing is missed.
func isPermanent(err error) bool {
	failed, ok := errors.AsType[*Error](err)
	return ok && slices.Contains([]ErrorKind{InvalidRequest, InvalidWorkflow, NotReady, NotFound, Refused}, failed.Kind)
}

// ByTrigger is the method of an actor that is a trigger; its user is the ID of the trigger.
const ByTrigger = "trigger"

// triggerActor is who starts the runs of a trigger.
func triggerActor(d *workflowTrigger) journal.Actor {
	return journal.Actor{User: d.id, Method: ByTrigger}
}

// Summary returns an error in one line, with everything that a run lacks.
func Summary(err error) string {
	first, _, _ := strings.Cut(err.Error(), "\n")
	if own, ok := errors.AsType[*Error](err); ok {
		missing := xslices.Map(own.Missing, func(m MissingDependency) string { return m.Message })
		missing = append(missing, xslices.Map(own.Commands, Command.String)...)
		if len(missing) > 0 {
			first += " " + strings.Join(missing, "; ")
		}
		if len(own.Changed) > 0 {
			first += ". " + changedText(own.Changed)
		}
	}
	return cmp.Or(first, "unknown")
}
