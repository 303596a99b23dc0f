package registry

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/engine/embedded"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/bucket"
	"github.com/espalier-run/espalier/internal/journal/owner"
	"github.com/espalier-run/espalier/internal/journal/postgres"
	"github.com/espalier-run/espalier/internal/journal/sqlite"
)

// StoreVariable names the environment variable that chooses the store. It
// overrides the project's configuration.
const StoreVariable = "ESPALIER_STORE"

// Process is this process among those that share a store.
type Process interface {
	embedded.Process
	// Dead reports whether another process has certainly ended.
	Dead(journal.Owner) bool
	// Describe returns the published information about a living process.
	Describe(journal.Owner) (owner.Info, error)
	// Publish replaces the published information about this process.
	Publish(owner.Info) error
	// Workers lists the living processes. This process may be one of them.
	Workers(context.Context) ([]owner.Worker, error)
	Close() error
}

// Worker is a living process that uses a store.
type Worker = owner.Worker

// AnnounceWorker tells other processes that this one drives every run of the store whose needs its labels meet.
func (r *Runtime) AnnounceWorker(version string, labels []string) error {
	info := owner.Describe(version, true)
	info.Labels = labels
	return r.Process.Publish(info)
}

// StoreError reports why the configured store cannot be used.
type StoreError string

func (e StoreError) Error() string { return string(e) }

// StoreURL returns the URL of the database that keeps the runs of a project, or
// "" if they are kept in its folder.
func StoreURL(c *config.Config, getenv func(string) string) (string, error) {
	url := getenv(StoreVariable)
	if url == "" {
		url = c.Store.URL.Value
		if url != "" && c.Store.Unapproved {
			return "", StoreError(config.NotApproved("the store in "+config.FileName) + ". " + config.Approval)
		}
	}
	if url != "" && !postgres.IsURL(url) {
		return "", StoreError("the store is not a URL of the form postgres://user@host/database")
	}
	return url, nil
}

// openStore opens the store and registers this process with those that share it. It returns the clock of the engine;
// nil is the machine's. A database has its own clock, because the clocks of several machines differ. A folder that
// cannot be written is opened as a copy.
func (r *Runtime) openStore(o RuntimeOptions) (now func() time.Time, err error) {
	url, err := StoreURL(o.Config, o.Getenv)
	if err != nil {
		return nil, err
	}
	if url != "" {
		options := postgres.Options{
			Log: o.Log, ObjectsAbove: o.Config.Objects.Above,
			Notice: func(text string) { o.Notice(o.Models.Secrets.Show(text)) },
		}
		if options.Objects, err = objects(o); err != nil {
			return nil, err
		}
		store, err := postgres.Open(context.Background(), url, options)
		if err != nil {
			return nil, err
		}
		r.Store, r.Process, r.own = store, store, store.Own()
		return store.Now, nil
	}
	process, err := owner.New(filepath.Join(r.dir, "owners"))
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return nil, r.openCopy()
	}
	if err != nil {
		return nil, err
	}
	r.Process = process
	store, err := sqlite.Open(filepath.Join(r.dir, JournalFile), sqlite.Options{
		Relaxed: o.Relaxed, Dead: process.Dead, Changes: o.Changes,
	})
	if err != nil {
		return nil, err
	}
	r.Store = store
	return nil, nil
}

// objects returns the bucket for large values; nil if there is none.
func objects(o RuntimeOptions) (postgres.Objects, error) {
	c := &o.Config.Objects
	switch {
	case c.Endpoint.Value == "":
		return nil, nil
	case c.Unapproved:
		return nil, StoreError(config.NotApproved("the object storage in "+config.FileName) + ". " + config.Approval)
	}
	return bucket.New(bucket.Config{
		Endpoint: c.Endpoint.Value, Bucket: c.Bucket.Value, Prefix: c.Prefix.Value, Region: c.Region.Value,
		PathStyle: c.PathStyle,
		Keys: func(ctx context.Context) (id, secret string, err error) {
			if id, err = o.Models.resolve(ctx, c.AccessKey.Value); err == nil {
				secret, err = o.Models.resolve(ctx, c.SecretKey.Value)
			}
			return id, secret, err
		},
	}), nil
}

// monotonic returns the machine's monotonic clock. The engine compares its wall clock with it, also if that is the
// database's.
func monotonic() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// records returns the folder of the records that this machine keeps.
func (r *Runtime) records() string {
	if r.copied != "" {
		return recordsIn(r.copied, false)
	}
	return recordsIn(r.dir, r.own != nil)
}

// recordsIn returns the folder of records in a storage folder. Each kind of store has its own, because positions in one
// journal are invalid in another.
func recordsIn(dir string, database bool) string {
	if database {
		return filepath.Join(dir, "storage", "postgres")
	}
	return filepath.Join(dir, "storage")
}
