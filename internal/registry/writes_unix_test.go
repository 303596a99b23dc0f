//go:build unix

package registry_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/trust"
)

// A storage folder can come with a project: its record of written files must not exhaust the memory or block.
func TestRecordOfWritesIsReadWithinBounds(t *testing.T) {
	sum := trust.Sum([]byte("echo"))
	files := []trust.File{{Path: "a.sh", SHA256: sum}, {Path: "b.sh", SHA256: trust.Sum(nil)}}
	for name, c := range map[string]struct {
		make func(path string) error
		fine bool
	}{
		"nothing":    {func(string) error { return nil }, true},
		"record":     {func(path string) error { return os.WriteFile(path, []byte(sum+"\n"), 0o600) }, true},
		"torn line":  {func(path string) error { return os.WriteFile(path, []byte(sum[:9]+sum+"\n"), 0o600) }, true},
		"device":     {func(path string) error { return os.Symlink("/dev/zero", path) }, false},
		"named pipe": {func(path string) error { return syscall.Mkfifo(path, 0o600) }, false},
		"one line": {func(path string) error {
			return os.WriteFile(path, []byte(strings.Repeat("x", 1<<20)), 0o600)
		}, false},
	} {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := c.make(filepath.Join(dir, "writes")); err != nil {
			t.Fatal(err)
		}
		written, err := registry.WrittenByRuns(dir, files)
		if (err == nil) != c.fine {
			t.Errorf("%s: %v, %v", name, written, err)
		}
		if want := c.fine && name != "nothing"; want != (len(written) == 1 && written[0].Path == "a.sh") {
			t.Errorf("%s: %v", name, written)
		}
	}
}
