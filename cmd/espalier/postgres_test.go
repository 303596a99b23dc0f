package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/espalier-run/espalier/internal/pgtest"
)

// TestScriptsOnPostgres runs scripts of the command line again with a
// PostgreSQL store: what people see does not depend on the store.
func TestScriptsOnPostgres(t *testing.T) {
	server := pgtest.Shared(t)
	t.Cleanup(pgtest.StopShared)
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, name := range []string{"run", "work", "resume-from", "resume-key", "resume-scripts", "agent-flow-run", "secrets"} {
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
			sum := sha256.Sum256([]byte(e.WorkDir))
			e.Setenv("ESPALIER_STORE", server.URL("postgres")+"&schema=s"+hex.EncodeToString(sum[:8]))
			return os.MkdirAll(filepath.Join(e.WorkDir, "home"), 0o755)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "isjson": isJSON, "isxml": isXML, "ispng": isPNG,
		},
	})
}
