package cli_test

import (
	"os"
	"testing"

	"github.com/espalier-run/espalier/internal/process"
)

// TestMain lets the test binary confine commands, as the program does.
func TestMain(m *testing.M) {
	process.Confine(os.Args)
	os.Exit(m.Run())
}
