package formattest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/espalier-run/espalier/internal/process"
)

// TestMain runs a command before all tests, so that the process watchdog starts outside of the
// tests' virtual time.
func TestMain(m *testing.M) {
	path, err := exec.LookPath("true")
	if err == nil {
		_, err = process.Run(context.Background(), process.Command{Path: path})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "no command can be run:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
