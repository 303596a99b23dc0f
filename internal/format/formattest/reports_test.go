package formattest

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/report/audit"
	"github.com/espalier-run/espalier/internal/report/otel"
	"github.com/espalier-run/espalier/internal/report/reporttest"
	"github.com/espalier-run/espalier/internal/report/transcript"
)

// The page that lists the keys of transcripts. It is read before tests change the working folder.
var transcriptPage, transcriptPageErr = os.ReadFile("../../../docs/transcript.md")

// reported checks the reports of a run against their guarantees, for any format and any
// sequence of events.
func (h *happened) reported(t *testing.T) {
	t.Helper()
	shelf := &reporttest.RecordingReader{
		Pinned: h.program, Appends: []journal.Appended{{Pos: 1, Run: theRun, Events: h.events}},
	}
	over := h.entry.Status == journal.Finished
	quiet := slog.New(slog.DiscardHandler)

	transcripts := transcript.New(transcript.Options{
		Dir: t.TempDir(), Source: shelf, Program: shelf.Program,
		Log: quiet,
	})
	defer transcripts.Close()
	made, err := reporttest.Rebuild(t.Context(), transcripts, theRun)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for run, text := range made {
		files[string(run)] = string(text)
	}
	for _, breach := range reporttest.Breaches(files, string(theRun), over) {
		t.Error(breach)
	}

	audits := audit.New(audit.Options{Dir: t.TempDir(), Source: shelf, Program: shelf.Program, Log: quiet})
	defer audits.Close()
	if logs, err := reporttest.Rebuild(t.Context(), audits, theRun); err != nil || len(logs) != len(made) {
		t.Errorf("there are %d transcripts and %d audit logs: %v", len(made), len(logs), err)
	}
	h.traced(t, over)
}

// documented checks that docs/transcript.md lists every key of the transcripts of a run.
func (h *happened) documented(t *testing.T) {
	t.Helper()
	if transcriptPageErr != nil {
		t.Fatal(transcriptPageErr)
	}
	shelf := &reporttest.RecordingReader{
		Pinned: h.program, Appends: []journal.Appended{{Pos: 1, Run: theRun, Events: h.events}},
	}
	transcripts := transcript.New(transcript.Options{
		Dir: t.TempDir(), Source: shelf, Program: shelf.Program, Log: slog.New(slog.DiscardHandler),
	})
	defer transcripts.Close()
	files, err := reporttest.Rebuild(t.Context(), transcripts, theRun)
	if err != nil {
		t.Fatal(err)
	}
	page := reporttest.ParseDocumented(string(transcriptPage))
	for _, text := range files {
		for line := range strings.Lines(string(text)) {
			if missing := page.Check([]byte(line)); len(missing) > 0 {
				t.Errorf("docs/transcript.md lacks %q", missing)
			}
		}
	}
}

// traced checks that the spans of a run form one trace.
func (h *happened) traced(t *testing.T, over bool) {
	t.Helper()
	tracer := otel.NewTracer(theRun, otel.TracerOptions{
		Content: true, Outline: func(string) (*report.Outline, error) { return report.NewOutline(h.program), nil },
	})
	var out otel.Yield
	for i := range h.events {
		if err := tracer.Apply(&h.events[i], &out); err != nil {
			t.Fatal(err)
		}
	}
	known := map[string]*tracepb.Span{}
	roots := 0
	for _, s := range out.Spans {
		if twice, ok := known[string(s.SpanId)]; ok {
			t.Errorf("two spans have one id: %s and %s", twice.Name, s.Name)
		}
		known[string(s.SpanId)] = s
		if len(s.ParentSpanId) == 0 {
			roots++
		}
		if otel.TraceID(s.TraceId) != otel.TraceOf(theRun) || s.EndTimeUnixNano < s.StartTimeUnixNano {
			t.Errorf("%s is of another trace, or ends before it begins", s.Name)
		}
	}
	if !over {
		return
	}
	if roots != 1 {
		t.Errorf("the trace has %d roots", roots)
	}
	for _, s := range out.Spans {
		up, ok := known[string(s.ParentSpanId)]
		switch {
		case len(s.ParentSpanId) == 0:
		case !ok:
			t.Errorf("%s lies in a span that there is not", s.Name)
		case s.StartTimeUnixNano < up.StartTimeUnixNano || s.EndTimeUnixNano > up.EndTimeUnixNano:
			t.Errorf("%s (%d to %d) does not lie within %s (%d to %d)", s.Name, s.StartTimeUnixNano, s.EndTimeUnixNano,
				up.Name, up.StartTimeUnixNano, up.EndTimeUnixNano)
		}
	}
}
