package agentflow_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/tools/txtar"
)

func caseNames(t testing.TB) []string {
	t.Helper()
	found, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(found) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	return found
}

func write(t testing.TB, name string, archive *txtar.Archive) {
	t.Helper()
	if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
		t.Fatal(err)
	}
}
