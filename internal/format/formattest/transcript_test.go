package formattest

import (
	"log/slog"
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report/reporttest"
	"github.com/espalier-run/espalier/internal/report/transcript"
)

// transcribed holds the transcripts of a run to what is promised about them,
// whatever format it is of and whatever happened to it.
func (h *happened) transcribed(t *testing.T) {
	t.Helper()
	shelf := &reporttest.Shelf{Pinned: h.program, Appends: []journal.Appended{{Pos: 1, Run: theRun, Events: h.events}}}
	w := transcript.New(transcript.Options{Dir: t.TempDir(), Source: shelf, Program: shelf.Program, Log: slog.New(slog.DiscardHandler)})
	defer w.Close()
	made, err := w.Rebuild(t.Context(), theRun)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for run, text := range made {
		files[string(run)] = string(text)
	}
	for _, breach := range reporttest.Breaches(files, string(theRun), h.entry.Status == journal.Finished) {
		t.Error(breach)
	}
}
