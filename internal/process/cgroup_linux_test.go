package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The files of cgroups are written as the kernel documents them. The test does not show that the kernel limits
// anything: it writes to a folder of files.
func TestCgroupsAreWrittenWhereDelegated(t *testing.T) {
	const self = "3:cpu:/old\n0::/user/scope\n"
	tree := func(controllers, procs string) string {
		mount := t.TempDir()
		dir := filepath.Join(mount, "user/scope")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"cgroup.controllers": controllers, "cgroup.procs": procs} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return mount
	}
	for name, c := range map[string]struct{ controllers, procs, self, want string }{
		"others":        {"cpu memory pids\n", "7\n8\n", self, "other processes"},
		"no controller": {"cpu memory\n", "7\n", self, `"pids" is not delegated`},
		"version 1":     {"cpu memory pids\n", "7\n", "3:cpu:/old\n", "no cgroup v2"},
		"elsewhere":     {"cpu memory pids\n", "7\n", "0::/other\n", "no cgroup v2"},
	} {
		if _, err := delegatedCgroup(tree(c.controllers, c.procs), c.self, 7); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if unix.Geteuid() != 0 { // root may write everywhere
		mount := tree("memory pids\n", "7\n")
		if err := os.Chmod(filepath.Join(mount, "user/scope"), 0o555); err != nil {
			t.Fatal(err)
		}
		if _, err := delegatedCgroup(mount, self, 7); err == nil || !strings.Contains(err.Error(), "not delegated") {
			t.Errorf("read-only: %v", err)
		}
	}

	mount := tree("cpu memory pids\n", "7\n")
	dir, err := delegatedCgroup(mount, self, 7)
	if err != nil {
		t.Fatal(err)
	}
	if err := prepareCgroup(dir, 7); err != nil {
		t.Fatal(err)
	}
	command, err := newCgroup(dir, Limits{Memory: 1 << 30, Processes: 64})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "espalier/cgroup.procs"):  "7",
		filepath.Join(dir, "cgroup.subtree_control"): "+memory +pids",
		filepath.Join(command, "memory.max"):         "1073741824",
		filepath.Join(command, "pids.max"):           "64",
	} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	unlimited, err := newCgroup(dir, Limits{Memory: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(unlimited, "pids.max")); err == nil {
		t.Error("a limit of zero is written")
	}
}
