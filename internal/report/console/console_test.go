package console_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/report/console"
	"github.com/espalier-run/espalier/internal/report/reporttest"
)

var update = flag.Bool("update", false, "write the expected texts anew")

var (
	_ report.Sink = (*console.Lines)(nil)
	_ report.Sink = (*console.JSON)(nil)
	_ report.Sink = (*console.Live)(nil)
)

// recording is a run that a console shows.
type recording struct {
	*reporttest.Recording
	outline func(string) (*report.Outline, error)
}

const run = reporttest.Run

func recordings(t testing.TB) []recording {
	var out []recording
	for _, r := range reporttest.All(t) {
		out = append(out, shown(r))
	}
	return out
}

func recorded(t testing.TB, name string) recording { return shown(reporttest.Recorded(t, name)) }

func shown(r *reporttest.Recording) recording {
	outline := report.NewOutline(r.Program)
	return recording{r, func(string) (*report.Outline, error) { return outline, nil }}
}

func (r recording) options() console.Options {
	return console.Options{Run: run, Source: &reporttest.RecordingReader{Appends: r.Appends}, Outline: r.outline}
}

func feed(t testing.TB, s report.Sink, appends []journal.Appended) {
	t.Helper()
	for _, a := range appends {
		if err := s.Record(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
}

// A console that continues where a checkpoint was written knows what the open gate asks for.
func TestDecisionAfterCheckpointNamesTheCall(t *testing.T) {
	r := recorded(t, "tool-question")
	o := r.options()
	o.Checkpoint = func(context.Context) (*report.Checkpoint, error) {
		in := report.NewInterpreter(run, r.outline).TrackBudgets()
		for e, err := range o.Source.Events(t.Context(), run, 0) {
			if err == nil {
				err = in.Interpret(&e, func(*report.Event) error { return nil })
			}
			if err != nil || e.Seq < 5 { // the gate opens
				continue
			}
			state, err := in.Save(report.ReaderData{})
			return &report.Checkpoint{Seq: e.Seq, State: state}, err
		}
		return nil, nil
	}
	var b strings.Builder
	feed(t, console.NewLines(&b, o), r.Appends[4:5])
	if want := "write  call to mail.send approved by eva: do"; !strings.Contains(b.String(), want) {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

// live returns the area after each append, a little later, and the summary.
func (r recording) live(t *testing.T, size console.Size) string {
	t.Helper()
	var b strings.Builder
	p := console.NewProgress(run, r.outline)
	for _, a := range r.Appends {
		for i := range a.Events {
			if _, err := p.Apply(&a.Events[i]); err != nil {
				t.Fatal(err)
			}
		}
		now := a.Events[len(a.Events)-1].At.Time().Add(130 * time.Millisecond)
		for _, line := range p.Area(now, size, console.Style{}) {
			if report.Width(line) >= size.Columns {
				t.Errorf("%d columns are too many: %q", report.Width(line), line)
			}
			fmt.Fprintln(&b, line)
		}
		fmt.Fprintln(&b)
	}
	for _, line := range p.Summary(console.Style{Width: size.Columns - 1}) {
		fmt.Fprintln(&b, line)
	}
	return b.String()
}

func TestAllFormsMatchGoldenFiles(t *testing.T) {
	for _, r := range recordings(t) {
		t.Run(r.Name, func(t *testing.T) {
			var lines, objects bytes.Buffer
			feed(t, console.NewLines(&lines, r.options()), r.Appends)
			feed(t, console.NewJSON(&objects, r.options()), r.Appends)
			got := string(txtar.Format(&txtar.Archive{Files: []txtar.File{
				{Name: "lines", Data: lines.Bytes()},
				{Name: "live, 80 columns", Data: []byte(r.live(t, console.Size{Columns: 80, Rows: 24}))},
				{Name: "live, 32 columns and 6 rows", Data: []byte(r.live(t, console.Size{Columns: 32, Rows: 6}))},
				{Name: "json", Data: objects.Bytes()},
			}}))
			reporttest.Golden(t, filepath.Join("testdata", r.Name+".txtar"), got, *update)
			for line := range strings.Lines(objects.String()) {
				if !json.Valid([]byte(line)) {
					t.Errorf("not JSON: %s", line)
				}
			}
		})
	}
}

// A console that starts later shows only what is new, and knows what came before.
func TestLateConsoleShowsOnlyNews(t *testing.T) {
	for _, r := range recordings(t) {
		var whole bytes.Buffer
		feed(t, console.NewLines(&whole, r.options()), r.Appends)
		for from := 1; from < len(r.Appends); from++ {
			var before, after bytes.Buffer
			feed(t, console.NewLines(&before, r.options()), r.Appends[:from])
			feed(t, console.NewLines(&after, r.options()), r.Appends[from:])
			if diff := cmp.Diff(whole.String(), before.String()+after.String()); diff != "" {
				t.Fatalf("%s from append %d: %s", r.Name, from, diff)
			}
		}
	}
}

// chunks has the data of each write.
type chunks []string

func (c *chunks) Write(p []byte) (int, error) {
	*c = append(*c, string(p))
	return len(p), nil
}

// A batch is printed by one write, with the same lines.
func TestBatchIsOneWrite(t *testing.T) {
	r := recorded(t, "linear")
	for _, console := range []func(io.Writer) report.Sink{
		func(w io.Writer) report.Sink { return console.NewLines(w, r.options()) },
		func(w io.Writer) report.Sink { return console.NewJSON(w, r.options()) },
	} {
		var each, all chunks
		one := console(&each)
		for _, a := range r.Appends {
			if err := one.Record(t.Context(), a); err != nil {
				t.Fatal(err)
			}
		}
		if err := console(&all).Record(t.Context(), r.Appends...); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.Join(each, ""), strings.Join(all, "")); diff != "" {
			t.Error(diff)
		}
		if len(all) != 1 || len(each) < 2 {
			t.Errorf("%d writes of what came together, %d of what came one by one", len(all), len(each))
		}
	}
}

// A write has at most 4 KiB, which a pipe takes atomically, so that lines of other programs are not mixed into it.
func TestWritesFitAPipe(t *testing.T) {
	most := 0
	for _, r := range recordings(t) {
		var all chunks
		if err := console.NewJSON(&all, r.options()).Record(t.Context(), r.Appends...); err != nil {
			t.Fatal(err)
		}
		most = max(most, len(all))
		for _, one := range all {
			if !strings.HasSuffix(one, "\n") || len(one) > 4096 && strings.Count(one, "\n") > 1 {
				t.Errorf("%s: %d bytes at once, up to %.20q", r.Name, len(one), one[max(len(one)-20, 0):])
			}
		}
	}
	if most < 2 {
		t.Error("none of the recordings is longer than that")
	}
}

func TestRepeatedAppendsAndOtherRunsAreIgnored(t *testing.T) {
	r := recorded(t, "linear")
	var once, again bytes.Buffer
	feed(t, console.NewLines(&once, r.options()), r.Appends)
	l := console.NewLines(&again, r.options())
	for _, a := range r.Appends {
		other := a
		other.Run = "another"
		feed(t, l, []journal.Appended{a, other, a})
	}
	if diff := cmp.Diff(once.String(), again.String()); diff != "" {
		t.Error(diff)
	}
}

// Control characters of models and files do not reach the terminal.
func TestControlCharactersDoNotReachTheTerminal(t *testing.T) {
	r := recorded(t, "gate-rejected")
	evil := "\x1b[2J\u009b31m\u202eevil\r\n\a"
	for _, a := range r.Appends {
		for i := range a.Events {
			switch x := a.Events[i].Fact.(type) {
			case journal.RunStarted:
				x.Name += evil
				a.Events[i].Fact = x
			case journal.GateDecided:
				x.Note, x.By.User = evil, evil
				a.Events[i].Fact = x
			case journal.TaskEnded:
				x.Outcome, x.Error = "failed", evil
				a.Events[i].Fact = x
			}
		}
	}
	var lines bytes.Buffer
	feed(t, console.NewLines(&lines, r.options()), r.Appends)
	text := lines.String() + r.live(t, console.Size{Columns: 60, Rows: 10})
	if !strings.Contains(text, "evil") || strings.ContainsAny(text, "\x1b\u009b\u202e\r\a") {
		t.Errorf("%q", text)
	}
}

// terminal emulates the control sequences that Screen uses.
type terminal struct {
	rows     []string
	row      int
	inside   bool // the cursor is not at the start of its row
	hidden   bool
	writes   int
	flickers int // number of writes after which the area was empty
	height   int // of the screen; 0 for a screen without an end
	scrolled []string
}

func (v *terminal) Write(p []byte) (int, error) {
	v.writes++
	text := string(p)
	for len(text) > 0 {
		switch {
		case strings.HasPrefix(text, "\x1b["):
			end := strings.IndexFunc(text[2:], func(r rune) bool { return r >= '@' && r <= '~' }) + 2
			v.command(text[2:end], text[end])
			text = text[end+1:]
		case text[0] == '\r':
			text, v.inside = text[1:], false
		case text[0] == '\n':
			text = text[1:]
			if v.row++; v.height > 0 && v.row >= v.height {
				v.line(v.row)
				v.scrolled, v.rows = append(v.scrolled, v.rows[0]), v.rows[1:v.row]
				v.row--
			}
		default:
			end := strings.IndexAny(text, "\x1b\r\n")
			if end < 0 {
				end = len(text)
			}
			v.set(v.row, text[:end])
			text, v.inside = text[end:], true
		}
	}
	for len(v.rows) > v.row && v.rows[len(v.rows)-1] == "" {
		v.rows = v.rows[:len(v.rows)-1]
	}
	if len(strings.TrimSpace(strings.Join(v.rows, ""))) == 0 {
		v.flickers++
	}
	return len(p), nil
}

func (v *terminal) line(i int) string {
	for len(v.rows) <= i {
		v.rows = append(v.rows, "")
	}
	return v.rows[i]
}

func (v *terminal) set(i int, text string) {
	v.line(i)
	v.rows[i] = text
}

func (v *terminal) command(args string, c byte) {
	switch {
	case args == "?25" && c == 'l':
		v.hidden = true
	case args == "?25" && c == 'h':
		v.hidden = false
	case c == 'A':
		n := 0
		fmt.Sscan(args, &n)
		v.row -= n
		if v.row < 0 && v.height > 0 {
			v.row = 0 // what has left the screen cannot be changed
		}
		if v.row < 0 {
			panic("above the top")
		}
	case c == 'K' && !v.inside:
		v.set(v.row, "")
	case c == 'J':
		if v.row == 0 && !v.inside && v.height > 0 { // as tmux does
			v.scrolled = append(v.scrolled, v.rows...)
		}
		v.line(v.row)
		v.rows = v.rows[:v.row]
	}
}

func TestLiveDrawsTheArea(t *testing.T) {
	for _, r := range recordings(t) {
		size := console.Size{Columns: 80, Rows: 24}
		v := &terminal{}
		now := r.Appends[0].Events[0].At.Time()
		l := console.NewLive(v, r.options(), func() console.Size { return size }, func() time.Time { return now })
		p := console.NewProgress(run, r.outline)
		v.Write([]byte("$ espalier run\r\n"))
		for _, a := range r.Appends {
			now = now.Add(time.Second)
			feed(t, l, []journal.Appended{a})
			for i := range a.Events {
				p.Apply(&a.Events[i])
			}
			now = now.Add(time.Second)
			if err := l.Tick(); err != nil {
				t.Fatal(err)
			}
			want := append([]string{"$ espalier run"}, p.Area(now, size, console.Style{})...)
			if diff := cmp.Diff(want, v.rows); diff != "" {
				t.Fatalf("%s: %s", r.Name, diff)
			}
			if !v.hidden {
				t.Error("the cursor blinks about")
			}
			before := v.writes
			now = now.Add(10 * time.Millisecond)
			if err := l.Tick(); err != nil || v.writes != before {
				t.Errorf("%s: drawn again so soon: %v", r.Name, err)
			}
		}
		for range 2 {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		want := append([]string{"$ espalier run"}, p.Summary(console.Style{Width: 79})...)
		if diff := cmp.Diff(want, v.rows); diff != "" || v.hidden || v.flickers > 0 {
			t.Errorf("%s: hidden %t, %d flickers: %s", r.Name, v.hidden, v.flickers, diff)
		}
		before := v.writes
		l.Tick()
		if v.writes != before {
			t.Error("drawn after the end")
		}
	}
}

// What is printed beside the area stays above it, also if the terminal has echoed a key.
func TestLivePrintsAboveTheArea(t *testing.T) {
	r := recorded(t, "waiting")
	size := console.Size{Columns: 80, Rows: 24}
	v := &terminal{}
	now := r.Appends[0].Events[0].At.Time()
	l := console.NewLive(v, r.options(), func() console.Size { return size }, func() time.Time { return now })
	p := console.NewProgress(run, r.outline)
	v.Write([]byte("$ espalier run\r\n"))
	tick := func() {
		t.Helper()
		now = now.Add(time.Second)
		if err := l.Tick(); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range r.Appends[:len(r.Appends)-1] {
		feed(t, l, []journal.Appended{a})
		for i := range a.Events {
			p.Apply(&a.Events[i])
		}
	}
	tick()
	v.Write([]byte("^C"))
	if err := l.Print("Stopping."); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		tick()
		want := append([]string{"$ espalier run", "Stopping."}, p.Area(now, size, console.Style{})...)
		if diff := cmp.Diff(want, v.rows); diff != "" || !v.hidden {
			t.Errorf("hidden %t: %s", v.hidden, diff)
		}
	}
}

// In a terminal that became narrower, what was drawn takes more rows, and all of them are overwritten.
func TestNarrowerTerminalIsRedrawnCompletely(t *testing.T) {
	r := recorded(t, "waiting")
	size := console.Size{Columns: 80, Rows: 24}
	var out bytes.Buffer
	now := time.UnixMilli(0)
	l := console.NewLive(&out, r.options(), func() console.Size { return size },
		func() time.Time { now = now.Add(time.Second); return now })
	feed(t, l, r.Appends[:len(r.Appends)-1])
	now = r.Appends[0].Events[0].At.Time()
	feed(t, l, r.Appends[len(r.Appends)-1:])
	drawn := out.String()[strings.LastIndex(out.String(), "\x1b[?2026h"):]
	out.Reset()
	size.Columns = 30
	if err := l.Tick(); err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(drawn) {
		if i := strings.LastIndex(line, "\x1b[K"); i >= 0 {
			text := line[:i]
			if j := strings.LastIndexByte(text, 'A'); strings.Contains(text, "\x1b[") && j >= 0 {
				text = text[j+1:]
			}
			rows += (report.Width(text) + 29) / 30
		}
	}
	if want := fmt.Sprintf("\r\x1b[%dA", rows); !strings.Contains(out.String(), want) {
		t.Errorf("%q is not in %q", want, out.String())
	}
}

func TestManyWorkersFitTheScreen(t *testing.T) {
	p := console.NewProgress(run, nil)
	seq := journal.Seq(0)
	take := func(f journal.Fact) {
		seq++
		if _, err := p.Apply(&journal.Event{Seq: seq, At: 1000, Fact: f}); err != nil {
			t.Fatal(err)
		}
	}
	take(journal.RunStarted{Name: "wide"})
	take(journal.StepEntered{Place: journal.Place{Step: "fan"}, Mode: "parallel", Total: 1000})
	for i := range 1000 {
		path := fmt.Sprintf("fan/%d", i)
		take(journal.FrameOpened{Frame: path, Step: "fan", Index: i})
		take(journal.TaskStarted{TaskID: journal.TaskID{Place: journal.Place{Frame: path, Step: "w"}}, Kind: "agent"})
	}
	for _, rows := range []int{1, 2, 3, 10, 24} {
		lines := p.Area(time.UnixMilli(2000), console.Size{Columns: 40, Rows: rows}, console.Style{})
		if len(lines) > max(rows-1, 2) {
			t.Errorf("%d lines in %d rows", len(lines), rows)
		}
	}
	lines := p.Area(time.UnixMilli(2000), console.Size{Columns: 40, Rows: 10}, console.Style{})
	if last := lines[len(lines)-1]; last != "  … 994 more running" {
		t.Errorf("%q", last)
	}
}

// A fan-out with more workers than the screen has lines leaves nothing behind, neither on the screen nor above it.
func TestTallFanOutLeavesNoStaleLines(t *testing.T) {
	const workers = 60
	size := console.Size{Columns: 80, Rows: 10}
	v := &terminal{height: size.Rows}
	now := time.UnixMilli(1000)
	options := console.Options{Run: run, Source: &reporttest.RecordingReader{}}
	l := console.NewLive(v, options, func() console.Size { return size }, func() time.Time { return now })
	p := console.NewProgress(run, nil)
	seq := journal.Seq(0)
	take := func(facts ...journal.Fact) {
		t.Helper()
		a := journal.Appended{Run: run}
		for _, f := range facts {
			seq++
			a.Events = append(a.Events, journal.Event{Seq: seq, At: journal.MillisOf(now), Fact: f})
		}
		feed(t, l, []journal.Appended{a})
		for i := range a.Events {
			p.Apply(&a.Events[i])
		}
	}
	shows := func(want []string) {
		t.Helper()
		want = append([]string{"$ espalier run"}, want...)
		if diff := cmp.Diff(want, append(slices.Clone(v.scrolled), v.rows...)); diff != "" {
			t.Fatal(diff)
		}
	}
	v.Write([]byte("$ espalier run\r\n"))
	take(journal.RunStarted{Name: "wide"},
		journal.StepEntered{Place: journal.Place{Step: "fan"}, Mode: "parallel", Total: workers})
	work := func(i int) journal.TaskID {
		return journal.TaskID{Place: journal.Place{Frame: fmt.Sprintf("fan/%d", i), Step: "w"}}
	}
	for i := range workers {
		now = now.Add(time.Second)
		take(journal.FrameOpened{Frame: work(i).Frame, Step: "fan", Index: i},
			journal.TaskStarted{TaskID: work(i), Kind: "agent"})
		if err := l.Tick(); err != nil {
			t.Fatal(err)
		}
		shows(p.Area(now, size, console.Style{}))
	}
	for i := range workers {
		now = now.Add(time.Second)
		take(journal.TaskEnded{TaskID: work(i), Outcome: "ok", Final: true},
			journal.FrameClosed{Frame: work(i).Frame, Outcome: "ok"})
		if err := l.Tick(); err != nil {
			t.Fatal(err)
		}
		shows(p.Area(now, size, console.Style{}))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	shows(p.Summary(console.Style{Width: size.Columns - 1}))
}

func TestColorsMatchTheGraph(t *testing.T) {
	r := recorded(t, "bundle")
	o := r.options()
	o.Style.Color = true
	var lines bytes.Buffer
	feed(t, console.NewLines(&lines, o), r.Appends)
	for what, color := range map[string]report.Color{
		"extract": report.Cyan, "extract.W1_ACTIONS": report.Purple,
		"publish": report.Green,
	} {
		if !strings.Contains(lines.String(), color.Paint(what)) {
			t.Errorf("%s is not painted as in the graph:\n%s", what, lines.String())
		}
	}
}

func BenchmarkProgress(b *testing.B) {
	r := recorded(b, "bundle")
	events := 0
	for b.Loop() {
		p := console.NewProgress(run, r.outline)
		for _, a := range r.Appends {
			for i := range a.Events {
				if _, err := p.Apply(&a.Events[i]); err != nil {
					b.Fatal(err)
				}
				events++
			}
		}
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}
