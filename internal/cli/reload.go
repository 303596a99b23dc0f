package cli

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/espalier-run/espalier/internal/app"
)

// reloadInterval is the time between two looks at the files of the configuration.
const reloadInterval = 500 * time.Millisecond

// maxConfigFile is the size, in bytes, of the largest file whose content is compared. Larger ones are compared by size
// and time.
const maxConfigFile = 1 << 20

// configWatch detects changes of files by their contents, which also works for files that are mounted or replaced. Its
// owner looks when the ticker fires, so that nothing runs at the same time as a reload. It is used by one goroutine.
type configWatch struct {
	*time.Ticker
	app    *app.App
	files  []string
	known  string // what the current configuration was read from
	latest string // what the last look found
	// approvals is the file of approvals as the last look found it, and approved what of the configuration it approves.
	// An approval of something else changes nothing here.
	approvals, approved string
}

// watchConfig starts to watch the files that decide how the server works. Call it before the configuration is read, so
// that no change is missed.
func (a *invocation) watchConfig(more ...string) *configWatch {
	w := &configWatch{
		Ticker: time.NewTicker(reloadInterval), app: a.app(), files: append(a.app().ConfigFiles(), more...),
	}
	w.accept()
	return w
}

// accept takes the files as they are for the current configuration.
func (w *configWatch) accept() {
	w.known = w.scan()
	w.latest = w.known
}

// changed reports whether the files differ from the current configuration. A file counts as changed when two looks find
// the same content, because it may be half written before. A change is reported once.
func (w *configWatch) changed() bool {
	now := w.scan()
	settled := now == w.latest
	w.latest = now
	if !settled || now == w.known {
		return false
	}
	w.known = now
	return true
}

// scan returns a text that identifies the contents of the files and what of them is approved.
func (w *configWatch) scan() string {
	if approvals := content(w.app.ApprovalFile()); approvals != w.approvals {
		w.approvals, w.approved = approvals, w.app.ApprovedConfig()
	}
	var out strings.Builder
	for _, name := range w.files {
		fmt.Fprintln(&out, name, content(name))
	}
	return out.String() + w.approved
}

// content describes the content of a file.
func content(name string) string {
	info, err := os.Stat(name)
	switch {
	case err != nil || !info.Mode().IsRegular():
		return "absent"
	case info.Size() > maxConfigFile:
		return fmt.Sprint(info.Size(), info.ModTime().UnixNano())
	}
	text, _ := os.ReadFile(name) // a file that cannot be read is like an empty one
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

// waitForConfig waits until the files change again, if a reload has failed because of a mistake that was written after
// the configuration had been checked. It reports whether to try again.
func (a *invocation) waitForConfig(err error, watch *configWatch, say func(format string, args ...any)) bool {
	if known, ok := errors.AsType[*app.Error](err); !ok || known.Reason != app.InvalidConfig {
		return false
	}
	a.notifyError(err)
	say("The configuration was not reloaded: %v", err)
	signals, release := a.Signals.handle()
	defer release()
	for {
		select {
		case <-watch.C:
			if watch.changed() {
				return true
			}
		case sig := <-signals:
			return sig == syscall.SIGHUP
		}
	}
}
