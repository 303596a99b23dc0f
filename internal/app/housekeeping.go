package app

import (
	"cmp"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/text"
)

// Housekeeping is a summary of the storage of a project for people who operate it.
type Housekeeping struct {
	Store         string // where runs are kept, without a password
	Bytes         int64  // of the store and, on this machine, of records and files of runs
	OlderThan     time.Duration
	Keep          int64 // finished runs that stay, however old
	Notifications []NotificationTarget
}

// NotificationTarget is a target of notifications.
type NotificationTarget struct {
	Name      string
	Address   string              // of a webhook, or a reference to the secret that has the address
	On        []journal.Attention // empty: every reason
	Workflows []string            // empty: all
	Approved  bool
}

// Housekeeping returns where runs are kept, how much space they use, when they are removed and who is notified.
func (a *App) Housekeeping(ctx context.Context) (*Housekeeping, error) {
	env, err := a.runs(ctx)
	if err != nil {
		return nil, err
	}
	c := env.settings
	out := &Housekeeping{OlderThan: c.Retention.OlderThan, Keep: c.Retention.Keep}
	if out.Bytes, err = folderSize(env.Dir()); err != nil {
		return nil, err
	}
	out.Store = filepath.Join(env.Dir(), registry.JournalFile)
	if sized, ok := env.Store.(interface {
		Size(ctx context.Context) (int64, error)
	}); ok {
		out.Store = c.Store.Shown()
		bytes, err := sized.Size(ctx)
		if err != nil {
			return nil, err
		}
		out.Bytes += bytes
	}
	for i := range c.Notifications {
		out.Notifications = append(out.Notifications, notificationTarget(&c.Notifications[i]))
	}
	return out, nil
}

// notificationTarget describes a target without values of secrets.
func notificationTarget(n *config.Named[config.Notification]) NotificationTarget {
	return NotificationTarget{
		Name: n.Name.Value, Address: cmp.Or(n.Is.URL.Value, n.Is.Webhook.Value), On: n.Is.On,
		Workflows: text.Values(n.Is.Workflows), Approved: !n.Is.Unapproved,
	}
}

// folderSize returns the size of all files in a folder. Files that disappear meanwhile do not count.
func folderSize(dir string) (int64, error) {
	var total int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total, err
}
