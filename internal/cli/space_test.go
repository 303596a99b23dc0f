//go:build unix

package cli_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// largeFlow has a step whose output takes space and cannot be compressed.
const largeFlow = `name: large
states:
  initial: print
  print: {type: step, command: "head -c 300000 /dev/urandom | base64", on_success: done, on_failure: done}
  done: {type: terminal}
`

// newLargeProject has four finished runs, and returns their ids.
func newLargeProject(t *testing.T) (p *jsonProject, runs []string) {
	t.Helper()
	p = &jsonProject{T: t, dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(p.dir, "large.yaml"), []byte(largeFlow), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		run := fmt.Sprintf("%d0000000-0000-4000-8000-000000000000", i)
		p.must(0, "run", "large.yaml", "--allow-shell", "--run-id", run)
		runs = append(runs, run)
	}
	return p, runs
}

// Removing runs returns their space to the file system, whether they are named or selected.
func TestRemovingRunsReturnsSpace(t *testing.T) {
	p, runs := newLargeProject(t)
	size := func() (sum int64) {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(p.dir, ".espalier", "espalier.db*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			sum += info.Size()
		}
		return sum
	}
	const each = 300_000 // bytes at least of a run
	before := size()
	if before < 4*each {
		t.Fatalf("four runs take only %d bytes: the test shows nothing", before)
	}
	for _, args := range [][]string{{"runs", "rm", runs[0], runs[1]}, {"runs", "rm", "--keep", "1"}} {
		p.must(0, args...)
		after := size()
		if after > before-each {
			t.Errorf("%s leaves %d of %d bytes", strings.Join(args, " "), after, before)
		}
		before = after
	}
	p.must(0, "output", runs[3])
}

// store check reports damage to the structure of the database, which reading runs does not notice: an index that lacks
// an entry.
func TestStoreCheckFindsDamagedPages(t *testing.T) {
	p, runs := newLargeProject(t)
	p.must(0, "store", "check")
	path := filepath.Join(p.dir, ".espalier", "espalier.db")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const indexLeaf = 10 // the type of a page, see the file format of SQLite
	pageSize := int(binary.BigEndian.Uint16(whole[16:]))
	found := 0
	for page := pageSize; page < len(whole); page += pageSize {
		cells := binary.BigEndian.Uint16(whole[page+3:])
		if whole[page] != indexLeaf || cells < 2 || cells > uint16(pageSize/4) {
			continue
		}
		damaged := []byte(string(whole))
		binary.BigEndian.PutUint16(damaged[page+3:], cells-1)
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		readable, _, _ := p.try("output", runs[3])
		code, out, stderr := p.try("store", "check")
		switch {
		case code == 0:
			t.Errorf("the damage of page %d is not found: %s%s", page/pageSize+1, out, stderr)
		case code == 1 && readable == 0 && strings.Contains(out, "index"):
			found++
		}
	}
	if found == 0 {
		t.Error("no damage is reported that only the check notices")
	}
}
