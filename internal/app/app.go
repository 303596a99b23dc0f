package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/private"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/project"
	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/report/audit"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/trust"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Options configure an App. The zero value of each field but Dir is usable.
type Options struct {
	// Dir is the working folder. Names of workflows are resolved from it; runs are those of the project around it.
	Dir string
	// Home is the user's home folder; empty if there is none.
	Home string
	// Getenv reads the environment; nil is an empty one.
	Getenv func(string) string
	Now    func() time.Time // nil is time.Now
	Log    *slog.Logger     // nil discards
	// Version returns the version of the program, for telemetry; nil is unknown.
	Version func() string
	// Confined returns how commands are confined on this machine, or why they cannot be; nil asks the machine.
	Confined func() (process.Confinement, error)
	// Journal wraps the store of every project that is opened; nil leaves it unchanged.
	Journal func(journal.Store) journal.Store
	// Relaxed leaves out the fsync of each commit.
	Relaxed bool
	// RecordOnly makes the App record starts and messages and execute nothing: other processes drive the runs.
	RecordOnly bool
	// Worker makes the App accept runs that it cannot drive because their workflows need other labels: they wait for a
	// process that has them. Otherwise such a run is not ready.
	Worker bool
	// Labels are those of this process: it drives runs of workflows that need them.
	Labels []string
	// NoTriggers makes Work fire no triggers.
	NoTriggers bool
	// Notify receives what a person should know and what belongs to no response; nil discards it.
	Notify func(Notice)
}

// Notice is something that a person should know and that stops nothing.
type Notice struct {
	Text        string
	Diagnostics diag.List
	Files       source.Set // for Diagnostics
}

// App is one project with everything that analyzes its workflows and drives its runs. Storage is opened when an
// operation first needs it, once, and shared by all operations. Its methods may be called by many goroutines.
type App struct {
	o Options

	mu   sync.Mutex
	envs map[string]*environment // by root and configuration
	// changes wakes those who watch a run in one environment when another environment drives it.
	changes registry.Commits
	closed  bool

	triggers  *triggerService // nil unless this App fires triggers
	publicURL atomic.Pointer[serverURL]
	drained   chan struct{} // closed by watchDrain
}

// storageFolder is the name of a project's own folder.
const storageFolder = ".espalier"

// New returns an App. It reads and writes nothing yet.
func New(o Options) *App {
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Confined == nil {
		o.Confined = process.Confined
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Notify == nil {
		o.Notify = func(Notice) {}
	}
	return &App{o: o, envs: map[string]*environment{}, drained: make(chan struct{})}
}

// WarmUp prepares the codecs of runs in the background, for a caller that is about to start one.
func (a *App) WarmUp() { go engine.Prepare() }

// NewRunID returns a fresh run id.
func NewRunID() journal.RunID { return journal.RunID(uuid.NewString()) }

// space opens the files around the working folder, as they are now.
func (a *App) space() (*project.Workspace, error) { return a.spaceIn(a.o.Dir, nil) }

// spaceIn opens the files around a folder, as they are now except for unsaved texts.
func (a *App) spaceIn(dir string, unsaved map[string]string) (*project.Workspace, error) {
	config := a.o.Getenv("XDG_CONFIG_HOME")
	if config == "" && a.o.Home != "" {
		config = a.o.Home + "/.config"
	}
	if config != "" {
		config = filepath.Join(config, userFolder())
	}
	w, err := project.NewWorkspace(dir, a.o.Home, config, unsaved)
	if err != nil {
		return nil, fmt.Errorf("the working folder cannot be used: %w", err)
	}
	for kind, name := range map[project.LookupKind]string{
		project.Workflows: "AWF_WORKFLOWS_PATH", project.Roles: "AWF_ROLES_PATH", project.Skills: "AWF_SKILLS_PATH",
	} {
		w.SearchFirst(kind, filepath.SplitList(a.o.Getenv(name))...)
	}
	return w, nil
}

// userFolder returns the folder in the user's configuration that formats search.
func userFolder() string {
	for _, f := range catalog.Formats() {
		if folder := catalog.Formats().Conventions(f.Name()).UserFolder; folder != "" {
			return folder
		}
	}
	return ""
}

// currentProject opens the files around the working folder, and returns the root of the project around it.
func (a *App) currentProject() (*project.Workspace, string, error) {
	space, err := a.space()
	if err != nil {
		return nil, "", err
	}
	here, err := space.Here()
	if err != nil {
		space.Close()
		return nil, "", err
	}
	return space, here.Root, nil
}

// Root returns the root folder of the project around the working folder.
func (a *App) Root() (string, error) {
	space, root, err := a.currentProject()
	if err != nil {
		return "", err
	}
	return root, space.Close()
}

// TrustedStateDir returns the state folder of the project around the working folder. It reports false if this user has
// not created the folder on this machine: what is in it may have come with a repository.
func (a *App) TrustedStateDir() (dir string, ok bool) {
	root, err := a.Root()
	if err != nil {
		return "", false
	}
	dir = filepath.Join(root, storageFolder)
	return dir, private.Check(dir) == nil && !registry.ForeignStorage(dir, trust.Open(a.o.Getenv))
}

// Display returns a path as people read it: relative to the working folder where that is shorter.
func (a *App) Display(path string) string {
	space, err := a.space()
	if err != nil {
		return path
	}
	defer space.Close()
	return space.Display(path)
}

// ReadFile reads a file that a person has named, as text.
func (a *App) ReadFile(path string) (*source.File, error) {
	space, err := a.space()
	if err != nil {
		return nil, err
	}
	defer space.Close()
	_, f, err := space.File(path)
	return f, err
}

// environment holds the objects that runs of a project use under one state of its configuration: models, tools and,
// once something needs it, the storage with an engine of its own. Several environments of one project share the store
// like processes do, so that consent given for one run never extends to another.
type environment struct {
	app      *App
	root     string
	settings *settings
	models   *registry.Models
	tools    *registry.Tools

	opening           sync.Mutex // guards the rest until open has returned
	*registry.Runtime            // nil until it is opened
	listen            func()     // makes the engine read messages of other processes
	stop              context.CancelFunc
}

// now returns the time that all processes which share the store agree on.
func (env *environment) now() time.Time {
	if env.Clock != nil {
		return env.Clock()
	}
	return env.app.o.Now()
}

// environment returns the environment of a project for its configuration, shared with earlier callers.
func (a *App) environment(root string, s *settings) (*environment, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, fail(Interrupted, "", "interrupted")
	}
	// One environment for each configuration and each extent of consent: see environment.
	key := root + "\x00" + s.key()
	if env := a.envs[key]; env != nil {
		return env, nil
	}
	models := registry.NewModels(root, s.Config, a.o.Getenv)
	tools := registry.NewTools(root, s.Config, a.o.Getenv, models.Secrets)
	tools.Confined = a.o.Confined
	env := &environment{app: a, root: root, settings: s, models: models, tools: tools}
	a.envs[key] = env
	return env, nil
}

// open opens the storage, and creates it if needed.
func (env *environment) open(ctx context.Context) error {
	env.opening.Lock()
	defer env.opening.Unlock()
	if env.Runtime != nil {
		return nil
	}
	o, approvals := &env.app.o, trust.Open(env.app.o.Getenv)
	dir := filepath.Join(env.root, storageFolder)
	r, err := registry.OpenRuntime(dir, registry.RuntimeOptions{
		Relaxed: o.Relaxed, Log: o.Log, Config: env.settings.Config, Models: env.models, Tools: env.tools,
		Getenv: o.Getenv, Labels: o.Labels, Journal: o.Journal, Version: o.Version, Trust: &approvals,
		Changes: &env.app.changes, Notice: func(text string) { o.Notify(Notice{Text: text}) },
	})
	if err != nil {
		e := fail(StoreUnavailable, "", "the storage in %s cannot be opened: %v", env.app.Display(dir), err)
		e.Advice, e.Err = storeAdvice(err), err
		return e
	}
	if o.RecordOnly {
		r.Engine.Hold()
	}
	// What is due by now is decided before anything is shown, even if no process was running at that time.
	if err := r.Engine.CatchUp(ctx); err != nil {
		r.Close()
		return &Error{Kind: storeKind(err), Message: err.Error(), Advice: storeAdvice(err), Err: err}
	}
	// The engine listens until Close, and only once something drives runs: commands that only read need no wake-ups.
	listening, stop := context.WithCancel(context.Background())
	env.stop = stop
	env.listen = sync.OnceFunc(func() { go r.Engine.Listen(listening) })
	env.Runtime = r
	return nil
}

// auditLogs matches the audit logs below the storage folder.
const auditLogs = "storage/audit/*" + audit.Ext

// runs opens the storage of the project around the working folder for reading and for messages. It is an error if
// there is none. A configuration with errors does not hide what has happened: the runs can be read without it.
func (a *App) runs(ctx context.Context) (*environment, error) {
	space, root, err := a.currentProject()
	if err != nil {
		return nil, err
	}
	defer space.Close()
	if !a.hasStore(space, root) {
		e := fail(NotFound, NoRuns, "there are no runs in %s", folderName(space, root))
		e.Names = a.otherRuns(ctx, root)
		if exists(filepath.Join(root, storageFolder, registry.MigratedFile)) {
			e = e.advise("They were moved to a database. Set \"store\" in espalier.yaml, or %s, to its URL.",
				registry.StoreVariable)
		} else if logs, _ := filepath.Glob(filepath.Join(root, storageFolder, auditLogs)); len(logs) > 0 {
			runs := "1 run"
			if len(logs) > 1 {
				runs = fmt.Sprintf("%d runs", len(logs))
			}
			e.Message = fmt.Sprintf("the database of the runs in %s is missing, although there are audit logs of %s",
				folderName(space, root), runs)
			e = e.advise("Restore %s from a backup. The logs can be read as they are: %s",
				a.Display(filepath.Join(root, storageFolder, registry.JournalFile)), a.Display(filepath.Dir(logs[0])))
		}
		return nil, e
	}
	return a.opened(ctx, space, root)
}

// hasStore reports whether a project can have runs: there is a journal in its folder, or a database keeps them.
func (a *App) hasStore(space *project.Workspace, root string) bool {
	if exists(filepath.Join(root, storageFolder, registry.JournalFile)) || a.o.Getenv(registry.StoreVariable) != "" {
		return true
	}
	c, _, err := rawConfig(space, root)
	return err == nil && c.Store.URL.Value != ""
}

// opened opens the storage of a project with the configuration that a person has approved.
func (a *App) opened(ctx context.Context, space *project.Workspace, root string) (*environment, error) {
	env, err := a.environment(root, a.settingsOrNone(space, root))
	if err != nil {
		return nil, err
	}
	return env, env.open(ctx)
}

// driving returns an error if the environment cannot drive runs, because its configuration has errors. Warnings are
// passed on.
func (env *environment) driving() error {
	s := env.settings
	if s.err != nil {
		return s.err
	}
	if len(s.problems) > 0 {
		env.app.o.Notify(Notice{Diagnostics: s.problems, Files: s.files()})
	}
	env.listen()
	return nil
}

// environmentHolding returns the environment that has a run in memory; nil if none has.
func (a *App) environmentHolding(id journal.RunID) *environment {
	return xslices.Find(a.environments(), func(env *environment) bool { return env.isOpen() && env.Engine.Owns(id) })
}

// isOpen reports whether the storage is open. It waits for a call of open in progress.
func (env *environment) isOpen() bool {
	env.opening.Lock()
	defer env.opening.Unlock()
	return env.Runtime != nil
}

// environments returns all environments, in no particular order.
func (a *App) environments() []*environment {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Values(a.envs))
}

// GracePeriod returns how long commands may take to finish after a signal to stop.
func (a *App) GracePeriod() time.Duration {
	longest := time.Duration(0)
	for _, env := range a.environments() {
		longest = max(longest, cmp.Or(env.settings.GracePeriod, registry.DefaultGrace))
	}
	return longest
}

// Redact replaces the secrets that are known so far in text that is for people.
func (a *App) Redact(text string) string {
	for _, env := range a.environments() {
		text = env.models.Secrets.Show(text)
	}
	return text
}

// Park stops driving: no new task starts, and tasks that can be repeated are canceled. The others may finish until now
// is closed. Runs continue from there in another process. Only reading is possible afterwards. If parked is not nil, it
// is called when no task can start anymore.
func (a *App) Park(now <-chan struct{}, parked func()) {
	// First no environment starts a task anymore; then all of them wait for their tasks at the same time.
	for _, env := range a.environments() {
		if env.isOpen() {
			env.Engine.Park()
		}
	}
	if parked != nil {
		parked()
	}
	var all sync.WaitGroup
	for _, env := range a.environments() {
		if env.isOpen() {
			all.Go(func() { env.Engine.Close(now) })
		}
	}
	all.Wait()
}

// Release gives up all runs at once and wakes other processes, which can drive them. It is the end of what a
// RecordOnly App does; only reading is possible afterwards.
func (a *App) Release() {
	now := make(chan struct{})
	close(now)
	a.Park(now, nil)
	for _, env := range a.environments() {
		if env.isOpen() {
			env.Process.Wake("")
		}
	}
}

// Close drives the runs in memory to their next resting point and closes everything. Call Park first to stop sooner.
func (a *App) Close() error {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	var errs []error
	// No environment is added anymore, because closed is set under a.mu.
	for _, env := range a.environments() {
		env.opening.Lock()
		if env.Runtime != nil {
			errs = append(errs, env.Runtime.Close())
			env.stop()
		}
		env.tools.Close()
		env.opening.Unlock()
	}
	return errors.Join(errs...)
}

// describeOwner describes the process that owns a run, as far as that is known.
func (env *environment) describeOwner(o journal.Owner) *Driver {
	info, err := env.Process.Describe(o)
	if err != nil {
		return &Driver{Name: "another process"}
	}
	return &Driver{Name: fmt.Sprintf("%s, process %d on %s", info.Command, info.PID, info.Host), Since: info.Since}
}

// folderName names a folder within a sentence.
func folderName(space *project.Workspace, path string) string {
	if shown := space.Display(path); shown != "." {
		return shown
	}
	return "this folder"
}
