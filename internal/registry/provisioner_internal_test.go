package registry

import (
	"path/filepath"
	"testing"
)

// A server sees new options with almost every run, and must not keep all of them.
func TestEnvironmentsOfRunsAreBounded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), ".espalier")
	h := newProvisioner(dir, RuntimeOptions{Getenv: func(string) string { return "" }}.complete(dir))
	defer h.tools.Close()
	for i := range 4 * maxRunEnvs {
		if _, err := h.runEnv(RunOptions{Simulate: true, Seed: uint64(i)}.Encode()); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(h.envs); n > maxRunEnvs {
		t.Errorf("%d environments are cached", n)
	}
}
