package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/check"
	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/project"
	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/trust"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Run is a run in a list.
type Run struct {
	journal.Entry
	Reason string `json:"reason,omitempty"` // why it ended as it did
	Error  string `json:"error,omitempty"`
	Idle   bool   `json:"idle,omitempty"` // it could continue, and no process drives it
	// Queued means that an idle run has not been executed since it was started or since a message was accepted.
	Queued bool `json:"queued,omitempty"`
	// Driver is the living process that drives the run; nil if none does.
	Driver *Driver `json:"-"`
	// Queue is the place of the run among those that wait because of a concurrency limit, or the labels of workers for
	// which it waits; nil if it does not wait.
	Queue *QueuePlace `json:"queue,omitempty"`
}

// Driver is a process that drives a run.
type Driver struct {
	Name     string    // its command, process id and host
	Since    time.Time // when it started; zero if that is unknown
	Stopping bool      // it finishes the steps that are running, and starts no others
}

// String describes the process for people, with the local time.
func (d *Driver) String() string {
	text := d.Name
	if !d.Since.IsZero() {
		text += ", since " + d.Since.Local().Format(time.TimeOnly)
	}
	if d.Stopping {
		text += ", stopping"
	}
	return text
}

// QueuePlace is the place of a run among those that wait because of a concurrency limit.
type QueuePlace = registry.QueuePlace

// Filter selects runs.
type Filter = journal.Filter

// Start starts a prepared run and returns when that is durable; the run then continues in the background. An empty id
// is replaced by a fresh one.
func (a *App) Start(ctx context.Context, p *Prepared, id journal.RunID, by journal.Actor) (journal.RunID, error) {
	if err := p.Err(); err != nil {
		return "", err
	}
	id = cmp.Or(id, NewRunID())
	if registry.PreparePython(p.Workflow.Program) {
		a.o.Notify(Notice{Text: "Preparing the Python interpreter. This takes some seconds, once on this machine."})
	}
	// Nothing has been written up to here.
	if err := p.Open(ctx); err != nil {
		return "", err
	}
	if journal.WaitLimitOf(ctx) != nil {
		// The append of the start waits as long as the store does, so find out first whether it can be reached.
		if _, err := p.env.Store.Last(ctx); err != nil {
			return "", p.env.runError(id, err)
		}
		if err := p.env.engineReady(ctx); err != nil {
			return "", p.env.startError(ctx, id, err)
		}
	}
	options := p.Options
	if registry.CountsUsers(p.env.settings.Config) {
		options.User = by.User
	}
	if !registry.CountsTokens(p.env.settings.Config) {
		options.Token = ""
	}
	return id, p.env.startError(ctx, id, p.env.Engine.Start(ctx, id, p.def, p.Input, options.Encode(), by))
}

// Open opens the storage that keeps the run, which Start does otherwise.
func (p *Prepared) Open(ctx context.Context) error {
	if err := p.env.open(ctx); err != nil {
		return err
	}
	if p.env.ReadOnly() {
		return readOnly().advise("Nothing was started. Runs are kept in %s: make it writable.", p.env.Dir())
	}
	p.env.listen()
	return nil
}

// readOnly returns the error for work on a store that can only be read.
func readOnly() *Error {
	return &Error{Kind: storeKind(journal.ErrReadOnly), Message: journal.ErrReadOnly.Error(), Err: journal.ErrReadOnly}
}

// IsElsewhere reports whether the run is kept in another project than the one around the working folder.
func (a *App) IsElsewhere(p *Prepared) bool {
	root, err := a.Root()
	return err == nil && root != p.Root
}

// Wait returns when a run is at rest: it has finished, or waits for a person, an event or a budget. It drives the run
// unless another process does; a run that another process drives is returned as it is.
func (a *App) Wait(ctx context.Context, id journal.RunID) (*Run, error) {
	env, err := a.reader(ctx, id)
	if err != nil {
		return nil, err
	}
	entry, err := env.Engine.Wait(ctx, id)
	// A store whose file was removed or replaced may still answer, or not know the run: report that it is gone.
	if store, ok := env.Store.(journal.Presence); ok && (err == nil || errors.Is(err, journal.ErrUnknownRun)) {
		err = cmp.Or(store.Present(), err)
	}
	if err != nil {
		return nil, env.runError(id, err)
	}
	return env.run(ctx, entry), nil
}

// reader returns an environment whose store has a run: the one that has the run in memory, if any.
func (a *App) reader(ctx context.Context, id journal.RunID) (*environment, error) {
	if env := a.environmentHolding(id); env != nil {
		return env, nil
	}
	for _, env := range a.environments() {
		if env.isOpen() {
			if _, err := env.Store.Entry(ctx, id); err == nil {
				return env, nil
			}
		}
	}
	return a.runs(ctx)
}

// environmentFor returns the environment that continues a run: the one that has the run in memory, or else the one
// with the configuration that a person has approved by now.
func (a *App) environmentFor(ctx context.Context, id journal.RunID) (*environment, error) {
	found, err := a.reader(ctx, id)
	if err != nil || found.Engine.Owns(id) {
		return found, err
	}
	space, err := a.space()
	if err != nil {
		return nil, err
	}
	defer space.Close()
	now := a.settingsOrNone(space, found.root)
	if now.err != nil && found.settings.consent == approvedOnly {
		return found, nil // a file with errors changes nothing in a process that has read another one
	}
	env, err := a.environment(found.root, now)
	if err != nil {
		return nil, err
	}
	return env, env.open(ctx)
}

// run returns a run with what the index does not know: whether a process drives it, and which one. A run that is not
// running needs no driver.
func (env *environment) run(ctx context.Context, entry journal.Entry) *Run {
	r := &Run{Entry: entry}
	if entry.Status != journal.Running {
		return r
	}
	if r.Idle = env.Idle(entry); r.Idle {
		r.Queued = env.queued(ctx, entry)
		return r
	}
	if drives := env.Driven(entry); drives || entry.Owner != env.Process.ID() {
		r.Driver = env.describeOwner(entry.Owner)
		r.Driver.Stopping = !drives
	}
	return r
}

// queuedWithin is how many of the newest events of a run are searched for an accepted message: a message, and the
// decisions that follow from it.
const queuedWithin = 32

// queued reports whether nothing of a run has been executed since it was started or since a message was accepted. It
// reports false for a run that cannot be read. On Temporal, a step that has started may still wait in the task queue.
func (env *environment) queued(ctx context.Context, entry journal.Entry) bool {
	if entry.Owner == journal.Temporal {
		return true
	}
	queued := false
	for e, err := range env.Store.Events(ctx, entry.ID, max(entry.Seq, queuedWithin)-queuedWithin) {
		if err != nil {
			return false
		}
		if pending, known := report.Pending(e.Fact); known {
			queued = pending
		}
	}
	return queued
}

// queue adds the places of runs among those that wait because of a concurrency limit.
func (env *environment) queue(ctx context.Context, runs ...*Run) error {
	places, err := env.Queued(ctx)
	if err != nil {
		return err
	}
	lacking, err := env.Unserved(ctx)
	if err != nil {
		return err
	}
	for _, r := range runs {
		at, waits := places[r.ID]
		if r.Owner == journal.Temporal && !waits {
			at.Labels = lacking(r.Name)
			waits = len(at.Labels) > 0
		}
		if waits && r.Status == journal.Running && (r.Idle || at.Provider != "") {
			r.Queue = &at
		}
	}
	return nil
}

// entry returns the index row of a run, and the environment that reads the run.
func (a *App) entry(ctx context.Context, id journal.RunID) (*environment, journal.Entry, error) {
	env, err := a.reader(ctx, id)
	if err != nil {
		return nil, journal.Entry{}, err
	}
	entry, err := env.Store.Entry(ctx, id)
	if err != nil {
		return nil, entry, env.runError(id, err)
	}
	return env, entry, nil
}

// Get returns a run from the store.
func (a *App) Get(ctx context.Context, id journal.RunID) (*Run, error) {
	env, entry, err := a.entry(ctx, id)
	if err != nil {
		return nil, err
	}
	r := env.run(ctx, entry)
	return r, env.queue(ctx, r)
}

// Runs lists the runs of the project, the newest first.
func (a *App) Runs(ctx context.Context, f Filter) ([]Run, error) {
	env, err := a.runs(ctx)
	if err != nil {
		return nil, err
	}
	list := []Run{}
	for entry, err := range env.Store.Runs(ctx, f) {
		if err != nil {
			return nil, err
		}
		list = append(list, *env.run(ctx, entry))
	}
	all := make([]*Run, len(list))
	// The index has outcomes only; reasons and errors of finished runs are in their last events.
	for i := range list {
		all[i] = &list[i]
	}
	if err := env.queue(ctx, all...); err != nil {
		return nil, err
	}
	for i := range list {
		if r := &list[i]; r.Status == journal.Finished && r.Root == "" {
			end, err := env.Engine.Ending(ctx, r.Entry)
			switch {
			case errors.Is(err, journal.ErrCorrupt), errors.Is(err, journal.ErrUnknownRun): // the others can be listed
				r.Error = err.Error()
			case err != nil:
				return nil, err
			default:
				r.Reason = end.Reason
				if r.Error, err = env.shownText(ctx, r.ID, end.Error); err != nil {
					return nil, err
				}
			}
		}
	}
	return list, nil
}

// Entries yields what the index of the store has about runs, the newest first; nothing if the project has no runs yet.
// It reads none of them.
func (a *App) Entries(ctx context.Context, f Filter) iter.Seq2[journal.Entry, error] {
	env, err := a.runs(ctx)
	if known, ok := errors.AsType[*Error](err); ok && known.Reason == NoRuns {
		return func(func(journal.Entry, error) bool) {}
	}
	if err != nil {
		return func(yield func(journal.Entry, error) bool) { yield(journal.Entry{}, err) }
	}
	return env.Store.Runs(ctx, f)
}

// Find returns the run that a person means: by its id, a unique prefix of it, or the time in the name of its folder.
func (a *App) Find(ctx context.Context, name string) (*Run, error) {
	_, r, err := a.find(ctx, name)
	return r, err
}

// find is Find, and also returns the environment that has the run. Six runs are read at most: enough to show that a
// prefix is ambiguous.
func (a *App) find(ctx context.Context, name string) (*environment, *Run, error) {
	env, err := a.runs(ctx)
	if err != nil {
		return nil, nil, err
	}
	// A time names folders, whose files name the runs; anything else is the beginning of an id.
	ids := byStamp(env.root, name)
	if len(ids) == 0 {
		ids = []string{name}
	}
	var found []journal.Entry
	for _, id := range ids {
		for entry, err := range env.Store.Runs(ctx, Filter{Prefix: strings.ToLower(id), Children: true, Limit: 6}) {
			if err != nil {
				return nil, nil, err
			}
			found = append(found, entry)
		}
	}
	switch {
	case name == "":
		return nil, nil, fail(InvalidRequest, NoRunName, "name a run by its ID, or the beginning of it")
	case len(found) == 0:
		e := fail(NotFound, NoRun, "unknown run %q", name)
		e.Name, e.Names = name, a.otherRuns(ctx, env.root)
		return nil, nil, e
	case len(found) > 1:
		e := fail(InvalidRequest, AmbiguousRun, "%q matches several runs", name)
		e.Names = xslices.Map(found, func(entry journal.Entry) string { return string(entry.ID) + "  " + entry.Name })
		return nil, nil, e
	}
	r := env.run(ctx, found[0])
	return env, r, env.queue(ctx, r)
}

// RootRun returns the run that a child run belongs to; any other run as it is.
func (a *App) RootRun(ctx context.Context, r *Run) (*Run, error) {
	if r.Root == "" {
		return r, nil
	}
	return a.Get(ctx, r.Root)
}

// otherRuns returns the projects within this one that have runs of their own, which are known only there.
func (a *App) otherRuns(ctx context.Context, root string) []string {
	space, err := a.space()
	if err != nil {
		return nil
	}
	defer space.Close()
	found, err := (&resolver{ctx: ctx, space: space}).discover()
	if err != nil {
		return nil
	}
	var dirs []string
	for _, w := range found.Workflows {
		if w.Scope != project.OfProject {
			continue
		}
		other := project.FindRoot(filepath.Dir(w.Analysis.File.Abs))
		if other != root && exists(filepath.Join(other, storageFolder, registry.JournalFile)) {
			dirs = append(dirs, space.Display(other))
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// stampForm matches the names of the folders of Agentfile's runs.
var stampForm = lazyregexp.New(`^\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}$`)

// byStamp returns the ids of Agentfile runs whose folders are named after the time at which they started, in either
// of the two layouts. Runs of different workflows may have started at one time.
func byStamp(root, stamp string) []string {
	if !stampForm().MatchString(stamp) {
		return nil
	}
	var ids []string
	const state = "execution-state.json"
	states, _ := filepath.Glob(filepath.Join(root, "outputs", "*", stamp, "execution",
		state)) // both patterns are valid
	more, _ := filepath.Glob(filepath.Join(root, "workflows", "*", "outputs", stamp, state))
	for _, name := range append(states, more...) {
		raw, err := os.ReadFile(name)
		var state struct {
			Run string `json:"espalier_run"`
		}
		if err == nil && json.Unmarshal(raw, &state) == nil && state.Run != "" {
			ids = append(ids, state.Run)
		}
	}
	return ids
}

// MayBeRun reports whether a name can be the id of a run: it looks like one, the project has runs, and no file has
// that name.
func (a *App) MayBeRun(name string) bool {
	if len(name) < 4 || strings.Trim(name, "0123456789abcdefABCDEF-") != "" && !stampForm().MatchString(name) {
		return false
	}
	space, err := a.space()
	if err != nil || space.Exists(name) {
		return false
	}
	defer space.Close()
	here, err := space.Here()
	return err == nil && a.hasStore(space, here.Root)
}

// Remove removes a finished or damaged run with its records and files, and compacts the store. What remains is a
// tombstone that names who removed the run, when and why.
func (a *App) Remove(ctx context.Context, id journal.RunID, why journal.Removal) error {
	if err := a.remove(ctx, id, why); err != nil {
		return err
	}
	a.compact(ctx)
	return nil
}

// remove is Remove without compacting the store.
func (a *App) remove(ctx context.Context, id journal.RunID, why journal.Removal) error {
	env, err := a.reader(ctx, id)
	if err != nil {
		return err
	}
	ids := []journal.RunID{id}
	for child, err := range env.Store.Runs(ctx, Filter{Root: id, Children: true}) {
		if err != nil {
			return err
		}
		ids = append(ids, child.ID)
	}
	// The ids of the children were read first, because their rows go with the run, and their files are still to be
	// removed. A crash in between leaves files, which CheckStore reports.
	err = env.Store.Remove(ctx, why, id)
	if damaged := env.damaged(ctx, id, err); damaged != nil {
		why.Damaged = true
		if err = env.Store.Remove(ctx, why, id); err == nil {
			a.o.Notify(Notice{Text: fmt.Sprintf("Run %s is damaged: %v. It is removed all the same, and the "+
				"record of its removal says that it was damaged.", id.Short(), damaged)})
		}
	}
	if errors.Is(err, journal.ErrUnfinished) || errors.Is(err, journal.ErrUnknownRun) {
		return env.runError(id, err)
	}
	if err != nil {
		return err
	}
	return env.RemoveFiles(ids...)
}

// CheckRemoval returns the error with which Remove would refuse a run.
func (a *App) CheckRemoval(ctx context.Context, run *Run) error {
	env, err := a.reader(ctx, run.ID)
	switch {
	case err != nil:
		return err
	case run.Root != "":
		return &journal.ChildError{Root: run.Root}
	case run.Status == journal.Finished || env.damaged(ctx, run.ID, journal.ErrUnfinished) != nil:
		return nil
	}
	return env.runError(run.ID, journal.ErrUnfinished)
}

// damaged returns the damage because of which a run was not removed: it makes the removal fail, or keeps the run from
// being canceled. It returns nil if there is another reason.
func (env *environment) damaged(ctx context.Context, id journal.RunID, err error) error {
	if errors.Is(err, journal.ErrUnfinished) {
		entry, unknown := env.Store.Entry(ctx, id)
		if unknown != nil || !env.Idle(entry) {
			return nil
		}
		_, _, _, err = env.Engine.Load(ctx, id)
	}
	if errors.Is(err, journal.ErrCorrupt) {
		return err
	}
	return nil
}

// Ending is how a run ended.
type Ending struct {
	Outcome journal.Outcome `json:"outcome"`
	Reason  string          `json:"reason,omitempty"`
	Error   string          `json:"error,omitempty"`
	Output  json.RawMessage `json:"output,omitempty"`
	Status  int             `json:"exit_status,omitempty" doc:"Exit status that the workflow chose"`
	From    string          `json:"resume_from,omitempty" doc:"Step from which a failed run can be resumed"`
}

// Ending returns how a run ended. It is an error if the run has not finished.
func (a *App) Ending(ctx context.Context, r *Run) (*Ending, error) {
	env, err := a.reader(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	if r.Status != journal.Finished {
		return nil, env.runError(r.ID, journal.ErrUnfinished)
	}
	end, err := env.Engine.Ending(ctx, r.Entry)
	if err != nil {
		return nil, err
	}
	out := &Ending{Outcome: end.Outcome, Reason: end.Reason, Status: end.Status}
	if out.Error, err = env.shownText(ctx, cmp.Or(r.Root, r.ID), end.Error); err != nil {
		return nil, err
	}
	if out.Output, err = env.Engine.Raw(end.Output); err != nil {
		return nil, err
	}
	if end.Outcome == journal.OutcomeFailed && end.Last != "" && env.checkStartedHere(ctx, r.ID) == nil {
		out.From, err = env.resumeFrom(ctx, r.ID, end.Last)
	}
	return out, err
}

// RedactValue redacts a value of a run as its workflow asks for.
func (a *App) RedactValue(ctx context.Context, r *Run, value json.RawMessage) (json.RawMessage, error) {
	env, err := a.reader(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	rules, err := env.Shown.Rules(ctx, cmp.Or(r.Root, r.ID))
	if err != nil {
		return nil, err
	}
	hidden, _, err := rules.JSON(value)
	return hidden, err
}

// shownText redacts a text of a run as its workflow asks for.
func (env *environment) shownText(ctx context.Context, root journal.RunID, text string) (string, error) {
	if text == "" {
		return "", nil
	}
	rules, err := env.Shown.Rules(ctx, root)
	hidden, _ := rules.Text(text)
	return hidden, err
}

// Exhausted is the budget that a run waits for. Limit is nil if it is unknown. Enough is twice the limit, more if the
// next step needs more, and the worst case of the workflow if that is not much more than the limit.
type Exhausted struct {
	Name   string `json:"budget"`
	Limit  *int64 `json:"limit,omitempty" doc:"Current limit; dollars in millionths"`
	Enough int64  `json:"enough,omitempty" doc:"A limit with which the run can continue"`
	// Next is what the request that waits needs, and Left is what it may use.
	Next int64 `json:"-"`
	Left int64 `json:"-"`
}

// Exhausted returns the budget that a run waits for.
func (a *App) Exhausted(ctx context.Context, id journal.RunID) (Exhausted, error) {
	env, err := a.reader(ctx, id)
	if err != nil {
		return Exhausted{}, err
	}
	s, _, def, err := env.Engine.Load(ctx, id)
	if err != nil {
		return Exhausted{}, err
	}
	b := Exhausted{Name: ir.BudgetDeadline}
	var next journal.Usage
	if len(s.BudgetWaiters) > 0 {
		b.Name, next = s.BudgetWaiters[0].Budget, s.BudgetWaiters[0].Amount
	}
	root := s.Root()
	if root == nil || root.Ledger == nil {
		return b, nil
	}
	if !s.Expired {
		_, b.Next, b.Left = s.Shortfall()
	}
	if b.Limit = root.Ledger.Limit(b.Name); b.Limit == nil {
		return b, nil
	}
	limit := max(1, *b.Limit)
	b.Enough = max(2*limit, root.Ledger.Needed(b.Name, next))
	// Estimate without the budget that is exhausted: it would bound the result.
	unlimited := *def.Program
	unlimited.Budget = ir.Budget{}
	report, err := env.estimateRun(&unlimited, s.Options)
	if err != nil {
		return b, err
	}
	if worst, known := worstOf(report.Report, b.Name); known && worst <= muchMore*limit {
		b.Enough = max(b.Enough, worst)
	}
	return b, nil
}

// muchMore is the multiple of a limit that is not suggested: a limit so high would be none.
const muchMore = 10

// worstOf returns the worst case of a report in the unit of a budget, if it has a bound.
func worstOf(r check.Report, budget string) (int64, bool) {
	figures := map[string]check.Range{
		ir.BudgetSteps: r.Steps, ir.BudgetTools: r.ToolCalls, ir.BudgetTokens: r.Tokens,
		ir.BudgetDeadline: r.ActiveSeconds,
	}
	figure, ok := figures[budget]
	return figure.Worst.N, ok && figure.Worst.Unbounded == ""
}

// Work drives every run of the project until the context ends: runs whose process has ended, timers, messages, and
// runs that were recorded only. Unless Options.NoTriggers is set, it also fires triggers. A run that lacks something
// is not driven: skipped is called with the reason, once.
func (a *App) Work(ctx context.Context, ready func(root string), skipped func(*Run, *Error)) error {
	env, err := a.openConfigured(ctx)
	if err != nil {
		return err
	}
	if env.ReadOnly() {
		return readOnly()
	}
	env.DeliverTelemetry()
	ctx, cancel := context.WithCancel(ctx)
	notified := make(chan struct{})
	go func() {
		defer close(notified)
		(&notifier{a, env}).serve(ctx)
	}()
	defer func() { <-notified }()
	if !a.o.NoTriggers {
		ended := a.serveTriggers(ctx, env)
		defer func() { <-ended }()
	}
	defer cancel() // first: what serves in the background ends with the work, also if that fails
	version := ""
	if a.o.Version != nil {
		version = a.o.Version()
	}
	if err := env.AnnounceWorker(version, a.o.Labels); err != nil {
		a.o.Log.Warn("other processes do not see that this one works", "error", err)
	}
	ready(env.root)
	go a.retain(ctx, env)
	go a.watchDrain(ctx, env)
	// The engine asks about each run again and again, so the answer is kept: a run that lacks something is skipped
	// until this process ends.
	var mu sync.Mutex
	lacks := map[journal.RunID]bool{}
	return env.runError("", env.Engine.Work(ctx, func(id journal.RunID) bool {
		mu.Lock()
		defer mu.Unlock()
		if skip, known := lacks[id]; known {
			return skip
		}
		state, _, def, err := env.Engine.Load(ctx, id)
		if err != nil || state.Finished != nil {
			return false // the engine handles it, and reports its errors
		}
		var missing *Error
		if lacks[id] = errors.As(env.readyAgain(id, state, def, ""), &missing); lacks[id] {
			skipped(&Run{Entry: journal.Entry{ID: id}}, missing)
		}
		return lacks[id]
	}))
}

// serveTriggers fires triggers in the background until the context ends. The channel is closed afterwards.
func (a *App) serveTriggers(ctx context.Context, env *environment) <-chan struct{} {
	service, ended := newTriggerService(a, env), make(chan struct{})
	a.mu.Lock()
	a.triggers = service
	a.mu.Unlock()
	go func() {
		defer close(ended)
		service.serve(ctx)
		a.mu.Lock()
		a.triggers = nil
		a.mu.Unlock()
	}()
	return ended
}

// StateDir returns the state folder of the project around the working folder, and creates it if needed.
func (a *App) StateDir(ctx context.Context) (string, error) {
	env, err := a.openConfigured(ctx)
	if err != nil {
		return "", err
	}
	return env.Dir(), nil
}

// ConfigFiles returns the files that decide how runs of the project around the working folder are driven: the
// configuration, and the files of its secrets. They need not exist.
func (a *App) ConfigFiles() []string {
	space, root, err := a.currentProject()
	if err != nil {
		return nil
	}
	defer space.Close()
	out := []string{filepath.Join(root, config.FileName), filepath.Join(root, config.MCPFileName)}
	written, _, err := rawConfig(space, root)
	if err != nil {
		return out
	}
	for _, one := range written.Secrets {
		if path := one.Is.Path(root, a.o.Getenv); path != "" {
			out = append(out, path)
		}
	}
	return out
}

// ApprovalFile returns the file with what a person has approved in the project around the working folder. It need not
// exist.
func (a *App) ApprovalFile() string {
	root, err := a.Root()
	if err != nil {
		return ""
	}
	return trust.Open(a.o.Getenv).File(root)
}

// ApprovedConfig identifies the configuration of the project around the working folder and what of it a person has
// approved: equal results have the same effect.
func (a *App) ApprovedConfig() string {
	space, root, err := a.currentProject()
	if err != nil {
		return ""
	}
	defer space.Close()
	return a.settingsOrNone(space, root).key()
}

// CheckConfig returns an error if the configuration of the project around the working folder cannot be used.
func (a *App) CheckConfig() error {
	_, err := a.configuredHere()
	return err
}

// configuredHere returns the environment of the project around the working folder. An error in its configuration is an
// error.
func (a *App) configuredHere() (*environment, error) {
	space, root, err := a.currentProject()
	if err != nil {
		return nil, err
	}
	defer space.Close()
	return a.configured(space, root, approvedOnly, a.o.Notify)
}

// openConfigured is configuredHere, and opens the storage.
func (a *App) openConfigured(ctx context.Context) (*environment, error) {
	env, err := a.configuredHere()
	if err != nil {
		return nil, err
	}
	return env, env.open(ctx)
}
