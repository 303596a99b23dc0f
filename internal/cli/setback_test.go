//go:build unix

package cli_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A write-ahead log that is cut off rolls a run back. The next command that continues the run says so, wherever the
// file was cut, and says nothing if no event is lost.
func TestCutWALIsSaidWhenTheRunContinues(t *testing.T) {
	p := &jsonProject{T: t, dir: t.TempDir()}
	if err := os.Mkdir(filepath.Join(p.dir, ".espalier"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.dir, "gated.md"), []byte(readOnlyFlow), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.dir, "running.yaml"), []byte(runningFlow), 0o600); err != nil {
		t.Fatal(err)
	}
	p.drive("running", runningRun, "running.yaml", "--allow-shell") // keeps the journal open, and so its log
	p.must(4, "run", "gated.md", "--simulate", "--run-id", waitingRun)
	for _, value := range []string{"2", "3", "4"} { // each is an append of its own
		p.must(0, "edit", waitingRun, "state.draft="+value)
	}
	seq := func(p *jsonProject) int {
		var status struct{ Seq int }
		if code, out, _ := p.try("status", waitingRun, "--json"); code != 0 ||
			json.Unmarshal([]byte(out), &status) != nil {
			return 0
		}
		return status.Seq
	}
	whole := seq(p)
	wal, err := os.Stat(filepath.Join(p.dir, ".espalier", "espalier.db-wal"))
	if err != nil {
		t.Fatal(err)
	}
	const pieces = 40
	seen := map[int]bool{}
	for n := range pieces {
		cut := &jsonProject{T: t, dir: t.TempDir()}
		copyFiles(t, p.dir, cut.dir)
		size := wal.Size() * int64(pieces-n) / pieces
		if err := os.Truncate(filepath.Join(cut.dir, ".espalier", "espalier.db-wal"), size); err != nil {
			t.Fatal(err)
		}
		left := seq(cut)
		if left == 0 {
			continue // the start of the run is lost, too
		}
		seen[left] = true
		_, _, stderr := cut.try("resume", waitingRun)
		if strings.Contains(stderr, "was set back: its audit log has") != (left < whole) {
			t.Errorf("%d of %d events are left, and resume says %s", left, whole, stderr)
		}
	}
	if len(seen) < 3 || !seen[whole] {
		t.Errorf("the cuts leave %v of %d events: the test shows nothing", seen, whole)
	}
}

// copyFiles copies a folder without its pipes.
func copyFiles(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		name := filepath.Join(to, strings.TrimPrefix(path, from))
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(name, 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(name, text, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}
