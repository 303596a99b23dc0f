//go:build !temporal

package registry_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/registry"
)

// A build without Temporal says so before anything is started.
func TestBuildWithoutTemporalSaysSo(t *testing.T) {
	for name, o := range map[string]registry.RuntimeOptions{
		"configured": {
			Config: &config.Config{Engine: config.EngineTemporal},
			Getenv: func(string) string { return "" },
		},
		"environment": {Getenv: func(name string) string {
			if name == registry.TemporalVariable {
				return "localhost:7233"
			}
			return ""
		}},
	} {
		r, err := registry.OpenRuntime(filepath.Join(t.TempDir(), ".espalier"), o)
		if err == nil {
			r.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "-tags temporal") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A server that no person has approved is not used, whatever the build.
func TestTemporalServerNeedsApproval(t *testing.T) {
	c := &config.Config{Engine: config.EngineTemporal}
	c.Temporal.Unapproved = true
	r, err := registry.OpenRuntime(filepath.Join(t.TempDir(), ".espalier"), registry.RuntimeOptions{
		Config: c, Getenv: func(string) string { return "" },
	})
	if err == nil {
		r.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "espalier trust") {
		t.Errorf("%v", err)
	}
}
