package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/project"
	"github.com/espalier-run/espalier/internal/trigger"
)

// triggerService fires the triggers of a project.
type triggerService struct {
	app *App
	env *environment

	mu       sync.Mutex
	print    string               // of the files that were read
	declared []*workflowTrigger   // as last read, valid or of the last valid version
	read     bool                 // declared is known
	wake     map[string]time.Time // when to look at a schedule again
	reported map[string]string    // problem by file

	looks   map[string]map[string]string // the last look at the files of a trigger
	settled map[string]string            // the look at a file that was dealt with
	cleaned time.Time                    // when old events were removed

	scheduler engine.Scheduler // nil if this process keeps the time of schedules
}

// newTriggerService returns a service that has read no workflow yet.
func newTriggerService(a *App, env *environment) *triggerService {
	s := &triggerService{
		app: a, env: env, wake: map[string]time.Time{}, reported: map[string]string{},
		looks: map[string]map[string]string{}, settled: map[string]string{},
	}
	s.scheduler, _ = env.Engine.(engine.Scheduler)
	return s
}

// all returns the triggers as they were last read.
func (s *triggerService) all() []*workflowTrigger {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.declared
}

// reload reads the workflows again if one of their files has changed. It returns the folders to watch.
func (s *triggerService) reload(ctx context.Context) (folders []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	print, folders, err := s.app.fingerprint()
	if err != nil || print == s.print {
		return folders, err
	}
	all, err := s.app.declaredTriggers(ctx, s.env, s.declared)
	if err != nil {
		return folders, err
	}
	s.declared, s.print, s.read = all, print, true
	// Every schedule is looked at again, because its times may have changed.
	clear(s.wake)
	broken := map[string]string{}
	for _, d := range all {
		if d.problem != "" {
			broken[d.file] = d.problem
		}
	}
	for file, problem := range broken {
		if s.reported[file] != problem {
			s.app.o.Notify(Notice{Text: problem + ". Its triggers stay those of its last valid version."})
		}
	}
	for file := range s.reported {
		if broken[file] == "" {
			s.app.o.Notify(Notice{Text: file + " is valid again."})
		}
	}
	s.reported = broken
	return folders, nil
}

// fireDue fires what is due and returns when something is due next; zero if that is unknown.
func (s *triggerService) fireDue(ctx context.Context) (time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var next time.Time
	var errs []error
	for _, d := range s.declared {
		if _, ok := d.schedule(); !ok {
			continue
		}
		wake, known := s.wake[d.id]
		if !known || !wake.IsZero() && !wake.After(s.env.now()) {
			var err error
			if wake, err = s.fire(ctx, d); err != nil {
				errs = append(errs, err)
				continue // and look again
			}
			if s.scheduler != nil && !d.rechecksHere(wake, s.env.now()) {
				wake = time.Time{} // the engine fires it
			}
			s.wake[d.id] = wake
		}
		if !wake.IsZero() && (next.IsZero() || wake.Before(next)) {
			next = wake
		}
	}
	return next, errors.Join(errs...)
}

// fire fires what is due of a schedule and returns when to look again. Runs are started before the state is saved: a
// process that ends in between leaves firings that the next one repeats, with the same run ids.
func (s *triggerService) fire(ctx context.Context, d *workflowTrigger) (time.Time, error) {
	schedule, _ := d.schedule()
	for {
		// Each attempt starts from the stored state. After a conflict, another process has fired; the ids of runs are
		// derived, so that firings which both have started are one run.
		state, register, err := s.env.loadTrigger(ctx, d)
		if err != nil {
			return time.Time{}, err
		}
		now := s.env.now()
		next, firings := schedule.Due(state.State, now, len(state.Active))
		for _, f := range firings {
			if f.CancelOthers {
				if err := s.cancel(ctx, d, state.Active); err != nil {
					return time.Time{}, err
				}
			}
			switch err := s.app.startTriggered(ctx, d, f.Run, nil, triggerActor(d)); {
			case err == nil:
				state.Active = append(state.Active, f.Run)
			case isPermanent(err):
				next.Miss(f.At, s.app.Redact(Summary(err)))
				s.app.o.Notify(Notice{Text: "Trigger " + d.id + " started no run: " + s.app.Redact(Summary(err))})
			default:
				return time.Time{}, err
			}
		}
		if err := s.notifyMissed(ctx, d, state.Missed, next.Missed); err != nil {
			return time.Time{}, err
		}
		state.State = next
		err = s.env.saveTrigger(ctx, register, state)
		switch {
		case errors.Is(err, journal.ErrConflict):
			continue
		case err != nil:
			return time.Time{}, err
		case len(next.Queue) > 0:
			return now.Add(queuePoll), nil
		}
		return schedule.Wake(next), nil
	}
}

// notifyMissed puts messages about new missed firings into the outbox, before the state that has them is saved.
func (s *triggerService) notifyMissed(ctx context.Context, d *workflowTrigger, before, after []trigger.Missed) error {
	n := notifier{s.app, s.env}
	for _, m := range after {
		if !slices.ContainsFunc(before,
			func(o trigger.Missed) bool { return o.At.Equal(m.At) && o.Reason == m.Reason }) {
			if err := n.missed(ctx, d, m.At, m.Reason); err != nil {
				return err
			}
		}
	}
	return nil
}

// cancel cancels the runs that a new one replaces.
func (s *triggerService) cancel(ctx context.Context, d *workflowTrigger, runs []journal.RunID) error {
	for _, id := range runs {
		_, err := s.app.Send(ctx, id, triggerActor(d),
			Cancel{Reason: "a later firing of the schedule replaces this run"})
		failed, ok := errors.AsType[*Error](err)
		if err != nil && !(ok && (failed.Kind == Conflict || failed.Kind == Refused)) { // it has ended by itself
			return err
		}
	}
	return nil
}

const (
	// queuePoll is how often a schedule with queued firings looks whether its previous run is over.
	queuePoll = time.Second
	// filePoll is how often files are looked at, for changes that the system does not report.
	filePoll = time.Second
)

// serve fires triggers until the context ends.
func (s *triggerService) serve(ctx context.Context) {
	files := newFileWatcher()
	defer files.close()
	if s.scheduler != nil {
		kept := make(chan struct{})
		go func() {
			defer close(kept)
			s.keepSchedules(ctx)
		}()
		defer func() { <-kept }()
	}
	var looked, looks time.Time // at workflows, and at the files of triggers
	cost := time.Duration(0)    // of looking at the files
	for changed := true; ctx.Err() == nil; {
		// Looking at all files may be slow in large projects: it takes two percent of the time at most.
		if changed || time.Since(looked) > max(filePoll, 50*cost) {
			began := time.Now()
			folders, err := s.reload(ctx)
			if err != nil && ctx.Err() == nil {
				s.app.o.Notify(Notice{Text: "The triggers cannot be read: " + err.Error()})
			}
			files.watch(folders)
			looked, cost = time.Now(), time.Since(began)
		}
		var next time.Time
		var err error
		if s.scheduler == nil {
			next, err = s.fireDue(ctx)
		}
		if time.Since(looks) >= filePoll {
			err = errors.Join(err, s.fireFiles(ctx))
			looks = time.Now()
		}
		if time.Since(s.cleaned) > time.Hour {
			err = errors.Join(err, s.env.forgetEvents(ctx))
			s.cleaned = time.Now()
		}
		if err != nil && ctx.Err() == nil {
			s.app.o.Log.Error("triggers", "error", err)
		}
		// The clock may be set: look at least once per second.
		pause := filePoll
		if !next.IsZero() {
			pause = max(min(pause, next.Sub(s.env.now())), time.Millisecond)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
			changed = false
		case <-files.changed:
			changed = true
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// fingerprint returns a text that changes when a file that can declare triggers changes, and the folders of the files.
func (a *App) fingerprint() (print string, folders []string, err error) {
	space, root, err := a.currentProject()
	if err != nil {
		return "", nil, err
	}
	defer space.Close()
	here, err := space.Here()
	if err != nil {
		return "", nil, err
	}
	files, folders := here.WorkflowFiles(root)
	for _, name := range append(files, filepath.Join(root, config.FileName)) {
		if info, err := os.Stat(name); err == nil {
			print += fmt.Sprintln(name, info.ModTime().UnixNano(), info.Size())
		}
	}
	return print, folders, nil
}

// fileWatcher reports changes in folders, as far as the system does.
type fileWatcher struct {
	w       *fsnotify.Watcher // nil if the system reports no changes
	changed chan struct{}
	folders map[string]bool
}

// newFileWatcher returns a watcher that watches nothing yet. The channel changed has room for one value: several
// changes are one.
func newFileWatcher() *fileWatcher {
	f := &fileWatcher{changed: make(chan struct{}, 1), folders: map[string]bool{}}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return f
	}
	f.w = w
	go func() {
		for e := range w.Events {
			if e.Op == fsnotify.Chmod || !e.Has(fsnotify.Create|fsnotify.Remove|fsnotify.Rename) &&
				!project.CouldBeWorkflow(e.Name) {
				continue
			}
			select {
			case f.changed <- struct{}{}:
			default:
			}
		}
	}()
	go func() {
		for range w.Errors { // polling finds what was lost
		}
	}()
	return f
}

// watch makes the watcher watch these folders.
func (f *fileWatcher) watch(folders []string) {
	if f.w == nil {
		return
	}
	for _, dir := range folders {
		if !f.folders[dir] {
			f.folders[dir] = f.w.Add(dir) == nil
		}
	}
}

// close ends the watcher and its goroutines.
func (f *fileWatcher) close() {
	if f.w != nil {
		f.w.Close()
	}
}
