package embedded_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
	"github.com/espalier-run/espalier/internal/step"
)

// The log has the same words for what a run waits for as all other outputs. The run waits because its process stopped.
func TestLogDescribesUnknownOutcomesInWords(t *testing.T) {
	disk := memorytest.New()
	begun := make(chan struct{})
	kind := &noting{Kind: enginetest.NewKind(), seen: make(chan string, 1)}
	kind.hold = func(ctx context.Context, _ *step.Job) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}
	e := open(t, disk, kind, "one")
	var log bytes.Buffer
	e.Log = slog.New(slog.NewTextHandler(&log, nil))
	enginetest.Begin(t, e, enginetest.Program([]ir.Step{enginetest.Task("a")}))
	<-begun
	enginetest.Stop(e)
	if !strings.Contains(log.String(), `state=waiting waiting_for="unknown outcome: a"`) {
		t.Error(log.String())
	}
}
