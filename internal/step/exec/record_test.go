package exec

import (
	"context"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
)

// keptNotes is a log that keeps notes.
type keptNotes struct {
	step.Log
	all []step.Note
}

func (k *keptNotes) Note(_ context.Context, notes ...step.Note) error {
	k.all = append(k.all, notes...)
	return nil
}

// text returns what was noted of a stream.
func (k *keptNotes) text(stream string) string {
	var b strings.Builder
	for _, n := range k.all {
		if o := n.Data.(journal.Output); o.Stream == stream {
			b.WriteString(o.Chunk)
		}
	}
	return b.String()
}

// The output of a command is noted stream by stream, and a character that arrives in two parts stays whole.
func TestOutputIsRecorded(t *testing.T) {
	log := &keptNotes{}
	r := newRecorder(t.Context(), log)
	out, errs := r.stream(journal.Stdout), r.stream(journal.Stderr)
	for _, piece := range []string{"a\xe2\x82", "\xacb", "\xff"} {
		if _, err := out.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := errs.Write([]byte("why\xe2")); err != nil {
		t.Fatal(err)
	}
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	if got := log.text(journal.Stdout); got != "a€b�" {
		t.Errorf("standard output: %q", got)
	}
	if got := log.text(journal.Stderr); got != "why�" {
		t.Errorf("standard error: %q", got)
	}
}

// A command that writes without end fills no journal.
func TestRecordedOutputIsBounded(t *testing.T) {
	log := &keptNotes{}
	r := newRecorder(t.Context(), log)
	out := r.stream(journal.Stdout)
	for range 1000 {
		if _, err := out.Write([]byte(strings.Repeat("x", 1000) + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	if got := log.text(journal.Stdout); len(got) > maxRecorded+100 || !strings.HasSuffix(got, "is not recorded]\n") {
		t.Errorf("%d bytes were noted, ending with %q", len(got), got[len(got)-60:])
	}
}
