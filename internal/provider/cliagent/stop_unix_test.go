//go:build unix

package cliagent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/provider/providertest"
)

// A program that ignores SIGTERM is killed with its children when the run is canceled and when the consumer stops
// reading.
func TestProgramThatIgnoresSIGTERMIsKilled(t *testing.T) {
	start := func(t *testing.T) (*Agent, func()) {
		file := filepath.Join(t.TempDir(), "pids")
		return fakeAgent(t, "ignore signals", fakeFile+"="+file), func() {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, field := range strings.Fields(string(raw)) {
				pid, _ := strconv.Atoi(field)
				if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
					t.Errorf("process %d is still there: %v", pid, err)
				}
			}
		}
	}
	t.Run("cancelled", func(t *testing.T) {
		a, gone := start(t)
		ctx, cancel := context.WithCancel(t.Context())
		var last error
		for c, err := range a.Generate(ctx, providertest.AskText()) {
			last = err
			if c.Session != "" {
				cancel() // the program has started
			}
		}
		cancel()
		if !errors.Is(last, context.Canceled) {
			t.Error(last)
		}
		gone()
	})
	t.Run("left", func(t *testing.T) {
		a, gone := start(t)
		for range a.Generate(t.Context(), providertest.AskText()) {
			break
		}
		gone()
	})
}

// A program that exceeds its timeout is stopped; the error has the class that retries expect.
func TestTimeoutStopsProgram(t *testing.T) {
	a := fakeAgent(t, "ignore signals")
	a.Timeout = time.Nanosecond
	if _, failed := generate(t, a, providertest.AskText()); failed == nil || failed.Class != ir.ClassTimeout ||
		!failed.Billable {
		t.Errorf("%+v", failed)
	}
}
