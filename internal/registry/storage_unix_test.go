//go:build unix

package registry

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/espalier-run/espalier/internal/private"
	"github.com/espalier-run/espalier/internal/trust"
	"github.com/espalier-run/espalier/internal/usertest"
)

func approvalsIn(dir string) *trust.Store {
	s := trust.Open(func(name string) string { return map[string]string{"XDG_STATE_HOME": dir}[name] })
	return &s
}

// A storage folder is private for every user and umask.
func TestStorageIsPrivate(t *testing.T) {
	usertest.Run(t, "^TestStorageIsPrivate$")
	by := approvalsIn(t.TempDir())
	dir := filepath.Join(t.TempDir(), ".espalier")
	before := syscall.Umask(0)
	err := makeStorage(dir, by)
	syscall.Umask(before)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{
		dir: 0o700, filepath.Join(dir, signatureFile): 0o600,
		by.Dir(): 0o700,
	} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if err := makeStorage(dir, by); err != nil {
		t.Errorf("it cannot be opened again: %v", err)
	}
	// A clone may carry an empty folder.
	kept := filepath.Join(t.TempDir(), ".espalier")
	if err := errors.Join(os.Mkdir(kept, 0o755), os.WriteFile(filepath.Join(kept, ".keep"), nil, 0o644),
		makeStorage(kept, by), makeStorage(kept, by)); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(kept); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// A folder that others can change or that another user made is refused with
// what to do about it.
func TestStorageOfOthersIsRefused(t *testing.T) {
	usertest.Run(t, "^TestStorageOfOthersIsRefused$")
	by := approvalsIn(t.TempDir())
	for name, spoil := range map[string]func(dir string) error{
		"a link": func(dir string) error {
			return errors.Join(os.Rename(dir, dir+"2"),
				os.Symlink(dir+"2", dir))
		},
		"group writable": func(dir string) error { return os.Chmod(dir, 0o770) },
		"world writable": func(dir string) error { return os.Chmod(dir, 0o707) },
		"a linked journal": func(dir string) error {
			return os.Symlink("elsewhere",
				filepath.Join(dir, "espalier.db"))
		},
		"linked runs": func(dir string) error { return os.Symlink("/tmp", filepath.Join(dir, "runs")) },
		"an open journal": func(dir string) error {
			name := filepath.Join(dir, "espalier.db")
			return errors.Join(os.WriteFile(name, []byte("x"), 0o600), os.Chmod(name, 0o666))
		},
		"linked transcripts": func(dir string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "storage"), 0o700),
				os.Symlink("/tmp", filepath.Join(dir, "storage", "transcripts")))
		},
		"not signed": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, signatureFile), []byte("forged\n"), 0o600)
		},
		"without a signature": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, signatureFile)),
				os.Mkdir(filepath.Join(dir, "runs"), 0o700))
		},
		"a file": func(dir string) error { return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), ".espalier")
			if err := errors.Join(makeStorage(dir, by), spoil(dir)); err != nil {
				t.Fatal(err)
			}
			err := makeStorage(dir, by)
			if told, ok := errors.AsType[*private.Error](err); name != "a file" && (!ok || told.Help == "") ||
				err == nil {
				t.Errorf("it is used: %v", err)
			}
		})
	}
	// Every part counts: as a link, as a file that others can change, and as a file of another user.
	for _, name := range []string{
		"espalier.db", "espalier.db-wal", "espalier.db-want", signatureFile, ignoreFile, "users.json", "server-token",
		"server.json", "ended-sessions.json", "owners", "runs", "servers", notebookFolder, "telemetry", "storage",
		"storage/transcripts", "storage/audit", "storage/audit.jsonl", "storage/.awf-audit.position",
		"storage/postgres", "storage/postgres/audit",
	} {
		spoiled := map[string]func(path string) error{
			"a link": func(path string) error { return errors.Join(os.Remove(path), os.Symlink(t.TempDir(), path)) },
			"open":   func(path string) error { return os.Chmod(path, 0o666) },
		}
		if os.Geteuid() == 0 {
			spoiled["of another user"] = func(path string) error { return os.Lchown(path, 65534, 65534) }
		}
		for how, spoil := range spoiled {
			dir := filepath.Join(t.TempDir(), ".espalier")
			path := filepath.Join(dir, filepath.FromSlash(name))
			if err := errors.Join(makeStorage(dir, by), os.MkdirAll(filepath.Dir(path), 0o700)); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(path); err != nil {
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			refused, ok := errors.AsType[*private.Error](makeStorage(dir, by))
			if !ok || refused.Path != path || strings.Contains(refused.Why, "link") != (how == "a link") {
				t.Errorf("%s is %s, and the folder is used: %v", name, how, refused)
			}
		}
	}
	if os.Geteuid() == 0 {
		dir := filepath.Join(t.TempDir(), ".espalier")
		if err := errors.Join(makeStorage(dir, by), os.Chown(dir, 65534, 65534)); err != nil {
			t.Fatal(err)
		}
		if err := makeStorage(dir, by); err == nil {
			t.Error("another user's is used")
		}
	}
	// A key of another user, or of another machine, signs nothing here.
	dir := filepath.Join(t.TempDir(), ".espalier")
	other := approvalsIn(t.TempDir())
	if err := makeStorage(dir, other); err != nil {
		t.Fatal(err)
	}
	if err := makeStorage(dir, by); err == nil || !ForeignStorage(dir, *by) {
		t.Errorf("another user's signature counts: %v", err)
	}
	// After that, both machines use the folder.
	if err := errors.Join(AdoptStorage(dir, *by), makeStorage(dir, by), makeStorage(dir, other)); err != nil {
		t.Error(err)
	}
}
