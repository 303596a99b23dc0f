//go:build temporal && linux

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/espalier-run/espalier/internal/temporaltest"
)

// TestScriptsOnTemporal runs scripts of the command line again with the Temporal
// engine: what people see does not depend on the engine.
func TestScriptsOnTemporal(t *testing.T) {
	server := temporaltest.Shared(t)
	t.Cleanup(temporaltest.StopShared)
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, name := range []string{
		"run", "work", "resume-from", "resume-key", "resume-scripts", "agent-flow-run", "secrets", "awf", "audit",
		"audit-verify",
	} {
		files = append(files, filepath.Join(root, "testdata", "script", name+".txtar"))
	}
	testscript.Run(t, testscript.Params{
		Files:               files,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("REPOSITORY", root)
			e.Setenv("GORACE", quickExit)
			e.Setenv("BARE_PATH", barePath(t))
			e.Setenv("ESPALIER_TEMPORAL", server.Address)
			return os.MkdirAll(filepath.Join(e.WorkDir, "home"), 0o755)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "isjson": isJSON, "isxml": isXML, "ispng": isPNG, "sql": runSQL,
		},
	})
}

// TestKilledOnTemporal kills the program as TestKilledAnywhere does. Temporal
// notices the death of a worker by its missing heartbeats.
func TestKilledOnTemporal(t *testing.T) {
	server := temporaltest.Shared(t)
	t.Cleanup(temporaltest.StopShared)
	killAnywhere(t, [][2]int{{1, 0}, {2, 1}, {3, 2}, {5, 0}, {6, 2}, {9, 1}}, "ESPALIER_TEMPORAL="+server.Address)
}
