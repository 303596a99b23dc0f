//go:build unix

package usertest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/espalier-run/espalier/internal/usertest"
)

// TestRunBecomesAnOrdinaryUser runs itself: an ordinary user cannot read the file of root.
func TestRunBecomesAnOrdinaryUser(t *testing.T) {
	const variable = "ESPALIER_TEST_FILE_OF_ROOT"
	if path := os.Getenv(variable); path != "" {
		if _, err := os.ReadFile(path); os.Geteuid() == 0 || err == nil {
			t.Errorf("uid %d reads the file of root: %v", os.Geteuid(), err)
		}
		return
	}
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(variable, path)
	usertest.Run(t, "^TestRunBecomesAnOrdinaryUser$")
}
