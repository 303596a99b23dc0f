package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/trust"
)

// PruneRequest selects finished runs to remove. All conditions have to hold; the zero value selects all finished runs.
type PruneRequest struct {
	OlderThan time.Duration   // since the end of the run
	Outcome   journal.Outcome // empty: any
	Workflow  string          // empty: any
	Keep      int             // the newest of the selected runs stay
	DryRun    bool            // only list the runs
}

// Pruned is the result of Prune: the runs that it has removed.
type Pruned struct {
	Runs  []Run
	Freed int64 // bytes that the store has returned to the file system
}

// Prune removes finished runs with their records and files, and returns the space to the file system.
func (a *App) Prune(ctx context.Context, req PruneRequest, why journal.Removal) (*Pruned, error) {
	env, err := a.runs(ctx)
	if err != nil {
		return nil, err
	}
	if env.Clock != nil { // the ends of the runs are in its time
		why.At = journal.MillisOf(env.Clock())
	}
	out := &Pruned{Runs: []Run{}}
	before := journal.MillisOf(why.At.Time().Add(-req.OlderThan))
	kept := 0
	// Runs come newest first, so the first ones are those to keep.
	for entry, err := range env.Store.Runs(ctx, Filter{Status: journal.Finished, Name: req.Workflow}) {
		switch {
		case err != nil:
			return nil, err
		case req.Outcome != "" && entry.Outcome != req.Outcome:
		case kept < req.Keep:
			kept++
		case entry.Updated <= before:
			out.Runs = append(out.Runs, *env.run(ctx, entry))
		}
	}
	if req.DryRun {
		return out, nil
	}
	var failed error // of the first run that stays, such as a damaged one: it does not keep the others
	out.Runs = slices.DeleteFunc(out.Runs, func(run Run) bool {
		err := a.remove(ctx, run.ID, why)
		if err == nil || errors.Is(err, journal.ErrUnknownRun) { // another process may have removed it
			return false
		}
		failed = cmp.Or(failed, err)
		return true
	})
	if len(out.Runs) > 0 {
		out.Freed = a.compact(ctx)
	}
	return out, failed
}

// compact returns the space of removed runs to the file system if they occupied at least a quarter of the store, and
// returns the number of bytes. A store that other processes keep busy is compacted after the next removal. The removals
// before it have succeeded, so a failure is only a notice.
func (a *App) compact(ctx context.Context) (freed int64) {
	env, err := a.runs(ctx)
	if err == nil {
		if store, ok := env.Store.(journal.Maintainer); ok {
			freed, err = store.Compact(ctx)
		}
	}
	if err != nil && !errors.Is(err, journal.ErrBusy) {
		a.o.Notify(Notice{Text: fmt.Sprintf("The store was not compacted: %v. The next removal tries it again.", err)})
	}
	return freed
}

// retainEvery is how often old runs are looked for.
const retainEvery = time.Hour

// byRetention is the actor of removals by the configured retention, and its method.
const byRetention = "retention"

// retain removes old runs as the configuration says, until the context ends.
func (a *App) retain(ctx context.Context, env *environment) {
	r := env.settings.Retention
	if r.OlderThan == 0 {
		return
	}
	tick := time.NewTicker(retainEvery)
	defer tick.Stop()
	for {
		pruned, err := a.Prune(ctx, PruneRequest{OlderThan: r.OlderThan, Keep: int(r.Keep)}, journal.Removal{
			By: journal.Actor{User: byRetention, Method: byRetention}, At: journal.MillisOf(env.now()),
			Why: fmt.Sprintf("ended more than %s ago", r.OlderThan),
		})
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			a.o.Notify(Notice{Text: fmt.Sprintf("Old runs could not be removed: %v", err)})
		case len(pruned.Runs) > 0:
			a.o.Notify(Notice{Text: fmt.Sprintf("Removed %d runs that ended more than %s ago.",
				len(pruned.Runs), r.OlderThan)})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// StoreReport is the result of checking a store.
type StoreReport struct {
	Runs     int      `json:"runs"`
	Removed  int      `json:"removed"` // runs that left a tombstone
	Problems []string `json:"problems"`
}

// CheckStore checks the structure of the store, the chain and the index of every run, the tombstones, and that every
// record belongs to a run unless other machines use the store, too. It changes nothing.
func (a *App) CheckStore(ctx context.Context) (*StoreReport, error) {
	env, err := a.runs(ctx)
	if err != nil {
		return nil, err
	}
	out := &StoreReport{Problems: []string{}}
	if store, ok := env.Store.(journal.Maintainer); ok {
		if out.Problems, err = store.Check(ctx); err != nil {
			return nil, err
		}
	}
	// One pass over all runs, which also collects their ids for the search for orphans.
	known := map[string]bool{}
	for entry, err := range env.Store.Runs(ctx, Filter{Children: true}) {
		if err != nil {
			return nil, err
		}
		known[string(entry.ID)] = true
		if entry.Root != "" {
			continue
		}
		out.Runs++
		verified, err := engine.Verify(ctx, env.Store, entry.ID)
		if err != nil {
			out.Problems = append(out.Problems, fmt.Sprintf("run %s: %v", entry.ID, err))
		}
		for _, d := range verified.Damage {
			out.Problems = append(out.Problems, fmt.Sprintf("run %s: %s: %s", d.Run, d.Part, d.Message))
		}
	}
	if _, err := journal.VerifyTombstones(ctx, env.Store, func(journal.Tombstone, journal.ChainHash) {
		out.Removed++
	}); err != nil {
		out.Problems = append(out.Problems, err.Error())
	}
	if env.Shared() { // the records here may be of runs that were removed elsewhere, or of another schema
		return out, nil
	}
	orphans, err := env.orphans(known)
	out.Problems = append(slices.Clip(out.Problems), orphans...)
	return out, err
}

// orphans returns the records and folders of runs that the store does not have.
func (env *environment) orphans(known map[string]bool) ([]string, error) {
	var found []string
	storage := filepath.Join(env.Dir(), "storage")
	for _, dir := range []string{
		filepath.Join(storage, "transcripts"), filepath.Join(storage, "audit"), filepath.Join(env.Dir(), "runs"),
	} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			id, _, _ := strings.Cut(e.Name(), ".")
			if id != "" && !known[id] {
				found = append(found, fmt.Sprintf("%s belongs to no run", filepath.Join(dir, e.Name())))
			}
		}
	}
	return found, nil
}

// Migrate moves all runs from the folder of the project to a PostgreSQL database, unfinished ones and the state of
// schedules included. Without a URL it uses the store that the environment or the configuration names. It returns the
// path of the journal that the folder keeps under another name.
func (a *App) Migrate(ctx context.Context, url string) (done journal.Copied, kept string, err error) {
	space, root, err := a.currentProject()
	if err != nil {
		return done, "", err
	}
	defer space.Close()
	if url == "" {
		if url, err = registry.StoreURL(a.settingsOrNone(space, root).Config, a.o.Getenv); err != nil {
			return done, "", fail(InvalidRequest, "", "%v", err)
		}
	}
	if url == "" {
		return done, "", fail(InvalidRequest, NoDatabase, "no PostgreSQL database is named")
	}
	dir := filepath.Join(root, storageFolder)
	if !exists(filepath.Join(dir, registry.JournalFile)) {
		return done, "", fail(NotFound, NoRuns, "there are no runs in %s", folderName(space, root))
	}
	approvals := trust.Open(a.o.Getenv)
	done, kept, err = registry.MigrateStore(ctx, dir, url, &approvals, a.o.Log)
	if err == nil {
		return done, a.Display(kept), nil
	}
	e := fail(InvalidRequest, "", "the runs are not moved: %v", err)
	e.Err = err
	if _, busy := errors.AsType[registry.InUseError](err); busy {
		return done, "", e.advise("Stop them, and repeat the command.")
	}
	if _, owned := errors.AsType[*journal.OwnedError](err); owned {
		return done, "", e.advise("Temporal drives this run. Wait until it has finished, or cancel it.")
	}
	if errors.Is(err, journal.ErrDiffers) {
		return done, "", e.advise(
			"The database has been used for something else. Name an empty one, or another schema.")
	}
	if kind := storeKind(err); kind != Internal {
		e.Kind = kind
	}
	e.Advice = storeAdvice(err)
	return done, "", e
}

// Backup writes a copy of the project's store to a file that does not exist yet, while runs continue.
func (a *App) Backup(ctx context.Context, path string) error {
	env, err := a.runs(ctx)
	if err != nil {
		return err
	}
	store, ok := env.Store.(journal.Maintainer)
	if !ok {
		return fail(InvalidRequest, "", "the runs of this project are in a database").
			advise("Use the tools of the database for a backup, such as pg_dump.")
	}
	if err := store.Backup(ctx, path); errors.Is(err, fs.ErrExist) {
		return fail(InvalidRequest, "", "%s already exists", path).advise("Name a file that does not exist yet.")
	} else if err != nil {
		return err
	}
	return nil
}
