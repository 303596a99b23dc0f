package web

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
)

// endless is a record without an end. It fails after more than a page and a buffer have been read.
type endless struct{ n int }

func (e *endless) Read(b []byte) (int, error) {
	if e.n++; e.n > 20*linesPerPage {
		return 0, fmt.Errorf("%d lines were read", e.n)
	}
	return copy(b, fmt.Sprintf(`{"type":"step.started","path":"step%d"}`+"\n", e.n)), nil
}

// A page of a record reads the record line by line, and only up to the end of the page.
func TestPagesOfRecordsReadNoFurtherThanTheyShow(t *testing.T) {
	for query, first := range map[string]int{"": 1, "?from=250": 251, "?q=step1": 1} {
		r := &request{Request: httptest.NewRequest("GET", "/runs/r/transcript"+query, nil)}
		p := &runPage{Search: r.URL.Query().Get("q")}
		p.Run.ID = "r"
		lines, err := p.page(r, "transcript", &endless{}, func([]byte, *logLine) {})
		if err != nil || len(lines) != linesPerPage || lines[0].N != first || p.NextPage == "" {
			t.Errorf("%q: %d lines, the next page is %q, %v", query, len(lines), p.NextPage, err)
		}
	}
}

// Sentences start with a capital letter in any language; names stay as they are.
func TestSentencesStartWithCapitals(t *testing.T) {
	for text, want := range map[string]string{
		"exit code 1": "Exit code 1", "état inconnu": "État inconnu", "timeout: no answer": "Timeout: no answer",
		"state.text is missing": "state.text is missing", "kb.search: not found": "kb.search: not found",
		"天空": "天空", "": "", "\xff": "\xff",
	} {
		if got := sentence(text); got != want {
			t.Errorf("sentence(%q) = %q, want %q", text, got, want)
		}
	}
}

// The labels of a timeline name a unit once, so that they fit beside each other.
func TestAxisNamesAUnitOnce(t *testing.T) {
	for total, want := range map[time.Duration][]string{
		211 * time.Millisecond: {"0", "52", "105", "158", "211 ms"},
		16 * time.Second:       {"0", "4.0", "8.0", "12.0", "16.0 s"},
		2 * time.Second:        {"0", "500 ms", "1.0", "1.5", "2.0 s"},
		85 * time.Second:       {"0", "21.2 s", "42.5 s", "", "1 min 25 s"},
		2 * time.Millisecond:   {"0", "", "1", "", "2 ms"},
		3 * time.Minute:        {"0", "", "1 min 30 s", "", "3 min"},
	} {
		if got := axis(total); !slices.Equal(got, want) {
			t.Errorf("axis(%v) = %q, want %q", total, got, want)
		}
	}
}

// The inbox names the budget that a run has exhausted, also if it is that of money.
func TestInboxNamesTheExhaustedBudget(t *testing.T) {
	for waiting, want := range map[string]string{
		"budget: cost_usd": "Cost budget reached", "budget: tokens": "Token budget reached",
	} {
		st := api.Status{Run: api.Run{State: journal.StateBudget, WaitingFor: waiting}}
		if asks := asksOf(st.App()); len(asks) != 1 || asks[0].Title != want {
			t.Errorf("%s: got %+v, want %q", waiting, asks, want)
		}
	}
}

// The answer to a tool call is in the words that other decisions have, in the inbox and in the conversation of its
// step.
func TestDecisionsAboutToolCallsSayTheAnswer(t *testing.T) {
	place := journal.Place{Step: "act"}
	task := journal.TaskID{Place: place}
	by := journal.Actor{User: "ada"}
	for _, c := range []struct {
		decided      journal.GateDecided
		word, titled string
	}{
		{journal.GateDecided{Method: "human_review", Reason: "approved", By: by}, "Approved", "Approved by ada"},
		{journal.GateDecided{Method: "human_review", Reason: "rejected", By: by}, "Rejected", "Rejected by ada"},
		{journal.GateDecided{Method: "timeout", Reason: "timed out"}, "Timed out", "Timed out"},
	} {
		c.decided.Place, c.decided.Outcome = place, journal.OutcomeRerun
		facts := []journal.Event{
			{Seq: 1, Fact: journal.RunStarted{Name: "flow"}},
			{Seq: 2, Fact: journal.TaskStarted{TaskID: task, Kind: "agent"}},
			{Seq: 3, Fact: journal.GateOpened{Place: place, Kind: journal.GateToolCall, Task: &task}},
			{Seq: 4, Fact: c.decided},
		}
		stream := func(yield func(journal.Event, error) bool) {
			for _, e := range facts {
				if !yield(e, nil) {
					return
				}
			}
		}
		for d, err := range report.Decisions(stream) {
			view := newDecidedView(&app.Run{}, &d)
			if err != nil || view.Word != c.word || (view.Icon() == "i-check") != (c.word == "Approved") {
				t.Errorf("%s: got %+v, %v", c.word, view, err)
			}
		}
		in := report.NewInterpreter("r", nil)
		s := newStory(in, "r", everyStep)
		for e, err := range in.Events(stream) {
			if err != nil {
				t.Fatal(err)
			}
			s.apply(e)
		}
		if m := s.steps[0].Messages; len(m) != 1 || m[0].Title != c.titled {
			t.Errorf("%s: the messages are %+v", c.titled, m)
		}
	}
}

func TestInputInOneLineSeparatesSentences(t *testing.T) {
	got := oneLine(json.RawMessage(`{"contract": "Liable without\n limit.", "customer": "C-1"}`))
	if want := "contract: Liable without limit. · customer: C-1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Time in which a step and the one that calls its workflow wait together counts once.
func TestLengthCountsTimeOnce(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	list := []interval{
		{Start: at(7), End: at(9)}, {Start: at(1), End: at(5)}, {Start: at(2), End: at(3)}, {Start: at(4), End: at(6)},
	}
	if got := length(list); got != 7*time.Second {
		t.Errorf("%s", got)
	}
}

// Calls of one task that overlap have a bar each, from the start of the call to its own end.
func TestTimelineShowsCallsThatOverlap(t *testing.T) {
	task := journal.TaskID{Place: journal.Place{Step: "act"}}
	note := func(n int, kind, data string) journal.Fact {
		return journal.TaskNoted{TaskID: task, N: n, Kind: kind, Data: json.RawMessage(data)}
	}
	in := report.NewInterpreter("r", nil)
	s := newStory(in, "r", everyStep)
	for i, fact := range []journal.Fact{ // one each second
		journal.RunStarted{Name: "flow"},
		journal.TaskStarted{TaskID: task, Kind: "agent"},
		note(1, journal.NotePrompt, `{}`),
		note(2, journal.NoteToolCall, `{"name": "read", "call_id": "a"}`),
		note(3, journal.NoteToolCall, `{"name": "list", "call_id": "b"}`),
		note(4, journal.NoteToolResult, `{"name": "read", "call_id": "a"}`),
		note(5, journal.NoteToolResult, `{"name": "read", "call_id": "reported by an agent"}`),
		note(6, journal.NoteReply, `{}`),
		note(7, journal.NoteToolResult, `{"name": "list", "call_id": "b"}`),
		note(8, journal.NoteToolCall, `{"name": "lost", "call_id": "a"}`),
		journal.TaskEnded{TaskID: task, Outcome: journal.OutcomeOK, Final: true},
		journal.RunFinished{Outcome: journal.OutcomeOK},
	} {
		e := journal.Event{Seq: journal.Seq(i + 1), At: journal.Millis(1000 * i), Fact: fact}
		err := in.Interpret(&e, func(e *event) error {
			s.apply(e)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, row := range s.timeline(s.Ended, s.steps[0], "", 0).Rows[1:] {
		bar := row.Segments[0]
		got = append(got, fmt.Sprint(row.Label, " ", bar.Class, " ", row.Took, " at ", bar.X))
	}
	want := []string{"model mdl 5.0 s at 18.182%", "read tl 2.0 s at 27.273%", "list tl 4.0 s at 36.364%"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	var took []string
	for _, m := range s.steps[0].Messages {
		if m.Tool != nil {
			took = append(took, fmt.Sprint(m.Tool.Name, " ", m.Tool.Took, " ", m.Tool.Done))
		}
	}
	if want := []string{"read 2s true", "list 4s true", "read 0s true", "lost 0s false"}; !slices.Equal(took, want) {
		t.Errorf("the messages are about %q, want %q", took, want)
	}
}

// The time between the last event of a process that was killed and the next process counts as waiting, and once.
func TestTimelineCountsTimeWithoutAProcessAsWaiting(t *testing.T) {
	judge := journal.TaskID{Place: journal.Place{Frame: "call", Step: "judge"}}
	in := report.NewInterpreter("r", nil).TrackBudgets()
	s := newStory(in, "r", noStep)
	for i, one := range []struct {
		at   journal.Millis
		fact journal.Fact
	}{
		{0, journal.RunStarted{Name: "flow"}},
		{0, journal.StepEntered{Place: journal.Place{Step: "call"}, Mode: "call", Total: 1}},
		{0, journal.FrameOpened{Frame: "call", Step: "call", Child: "child", Program: "judge"}},
		{0, journal.TaskStarted{TaskID: judge, Kind: "test"}},
		{4_000, journal.TaskNoted{TaskID: judge, N: 1, Kind: journal.NoteLogLine, Data: []byte(`{"text": "hm"}`)}},
		{12_000, journal.Claimed{Owner: "2"}},
	} {
		err := in.Interpret(&journal.Event{Seq: journal.Seq(i + 1), At: one.at, Fact: one.fact}, func(e *event) error {
			s.apply(e)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	s.Until(time.UnixMilli(14_000), false)
	if got := s.timeline(time.UnixMilli(14_000), nil, "", 0); got.Waited != "8.0 s" {
		t.Errorf("%s waiting", got.Waited)
	}
}
