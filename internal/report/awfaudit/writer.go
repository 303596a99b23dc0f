package awfaudit

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/jsonfast"
	"github.com/espalier-run/espalier/internal/redact"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/secret"
)

// Format is the format of the workflows whose runs are recorded.
const Format = "awf"

// Options configure a Writer.
type Options struct {
	Path     string // of the file
	Position string // of the file that holds the position in the journal
	Source   journal.Reader
	Lock     report.Lock // nil when no other process writes here
	// Skip reports whether a run is left out; nil leaves out none.
	Skip func(journal.RunStarted) bool
	// Checkpoint returns a checkpoint of a run's audit log, nil if there is none; it may be nil.
	Checkpoint func(ctx context.Context, run journal.RunID) (*report.Checkpoint, error)
}

// Writer writes the file. It is a report.Sink.
type Writer struct {
	o     Options
	rules *redact.Rules

	mu        sync.Mutex
	streams   map[journal.RunID]*stream // open ones; nil for those that are not recorded
	came      journal.Pos               // everything up to here has been received
	pos       journal.Pos               // everything up to here is in the file
	saved     journal.Pos
	unwritten []record        // lines that could not be written yet
	gap       bool            // a read failed; the next process that starts at pos makes up for it
	left      os.FileInfo     // the file as this writer left it; nil before it has written
	there     map[string]bool // records that were in the file by then
}

var (
	_ report.Sink  = (*Writer)(nil)
	_ report.Idler = (*Writer)(nil)
)

// stream is an open root run.
type stream struct {
	in  *report.Interpreter
	seq journal.Seq // of the last event
}

// record is a line. The order of the fields is AWF's.
type record struct {
	Event     string          `json:"event"`
	Execution journal.RunID   `json:"execution_id"`
	Timestamp string          `json:"timestamp"`
	User      string          `json:"user"`
	Workflow  string          `json:"workflow_name"`
	Inputs    json.RawMessage `json:"inputs,omitempty"`
	Truncated bool            `json:"inputs_truncated,omitempty"`
	Status    string          `json:"status,omitempty"`
	ExitCode  *int            `json:"exit_code,omitempty"`
	Duration  *int64          `json:"duration_ms,omitempty"`
	Error     string          `json:"error,omitempty"`
	Schema    int             `json:"schema_version"`
}

const (
	started   = "workflow.started"
	completed = "workflow.completed"
	// maxStreams is how many streams stay in memory between appends; others are read again from the journal.
	maxStreams = 4096
	// maxLine is the longest line, so that one write appends it; maxError is how much of it an error text may take.
	maxLine  = 4096
	maxError = 2048
	// saveEvery is after how many positions without a line the position is saved: a process that takes over reads the
	// journal from there.
	saveEvery = 1024
)

// New returns a Writer. Close it.
func New(o Options) (*Writer, error) {
	rules, err := redact.New(false, true)
	if err != nil {
		return nil, err
	}
	return &Writer{o: o, rules: rules, streams: map[journal.RunID]*stream{}}, nil
}

// At returns the position in the journal to start from.
func (w *Writer) At() (journal.Pos, error) {
	n, err := report.ReadPosition(w.o.Position)
	if err != nil || n == 0 { // lines that are there already are not written again
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.came, w.pos, w.saved = n, n, n
	return n, nil
}

// Record writes the starts and ends of appends.
func (w *Writer) Record(ctx context.Context, appends ...journal.Appended) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for i := range appends {
		a := &appends[i]
		if a.Pos <= w.came || len(a.Events) == 0 {
			continue
		}
		w.came = a.Pos
		if err := w.record(ctx, a); err != nil {
			w.gap = true
			errs = append(errs, fmt.Errorf("AWF's audit trail: %w", err))
		}
	}
	return errors.Join(append(errs, w.flushUnwritten())...)
}

// record adds the lines of an append to the unwritten ones.
func (w *Writer) record(ctx context.Context, a *journal.Appended) error {
	s, known := w.streams[a.Run]
	if !known {
		var err error
		if s, err = w.open(ctx, a); err != nil {
			return err
		}
		w.streams[a.Run] = s
	}
	if s == nil {
		return nil
	}
	over := false
	for i := range a.Events {
		err := s.interpret(&a.Events[i], func(ev *report.Event) error {
			switch ev.Type {
			case report.RunStarted:
				line, err := w.start(ctx, ev)
				if err != nil {
					return err
				}
				w.unwritten = append(w.unwritten, line)
			case report.RunFinished:
				w.unwritten = append(w.unwritten, w.end(ev))
				over = ev.Run.ID == a.Run
			}
			return nil
		})
		if err != nil {
			w.streams[a.Run] = nil // the next process makes up for the rest, too
			return err
		}
	}
	if over {
		delete(w.streams, a.Run)
	}
	return nil
}

// interpret interprets an event. It skips one that it has interpreted already.
func (s *stream) interpret(e *journal.Event, emit func(*report.Event) error) error {
	if e.Seq <= s.seq {
		return nil
	}
	s.seq = e.Seq
	return s.in.Interpret(e, emit)
}

// open returns the stream of an append with everything before it; nil if it is not recorded.
func (w *Writer) open(ctx context.Context, a *journal.Appended) (*stream, error) {
	first := &a.Events[0]
	s := &stream{in: report.NewInterpreter(a.Run, nil)}
	if x, ok := first.Fact.(journal.RunStarted); ok {
		if !w.wants(x) {
			return nil, nil
		}
		return s, nil
	}
	entry, err := w.o.Source.Entry(ctx, a.Run)
	if err != nil || entry.Format != Format {
		return nil, err
	}
	switch err := w.restore(ctx, s, a.Run, first.Seq); {
	case errors.Is(err, errSkipped):
		return nil, nil
	case err != nil:
		return nil, err
	}
	for e, err := range w.o.Source.Events(ctx, a.Run, s.seq) {
		if err != nil {
			return nil, err
		}
		if e.Seq >= first.Seq {
			break
		}
		if x, ok := e.Fact.(journal.RunStarted); ok && !w.wants(x) {
			return nil, nil
		}
		err = s.interpret(&e, func(ev *report.Event) error {
			if ev.Type != report.RunStarted {
				return nil
			}
			_, err := w.start(ctx, ev)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// errSkipped reports that a run is not recorded.
var errSkipped = errors.New("the run is not recorded")

// restore continues a new stream at a checkpoint before an event, if there is one.
func (w *Writer) restore(ctx context.Context, s *stream, run journal.RunID, before journal.Seq) error {
	if w.o.Checkpoint == nil {
		return nil
	}
	c, err := w.o.Checkpoint(ctx, run)
	if err != nil || c == nil || c.Seq >= before {
		return err
	}
	err = s.in.Restore(c.State, report.ReaderData{RestoreRun: func(r *report.Run, _ json.RawMessage) (any, error) {
		if r.Parent == "" && !w.wants(journal.RunStarted{Format: Format, Options: r.Options}) {
			return nil, errSkipped
		}
		raw, err := w.value(ctx, r.Input)
		if err != nil {
			return nil, err
		}
		return maskedValues(raw, w.masked(raw)), nil
	}})
	switch {
	case errors.Is(err, errSkipped):
		return err
	case err == nil:
		s.seq = c.Seq
	}
	return nil // without a checkpoint that fits, the run is read from its start
}

// value returns the JSON of a value.
func (w *Writer) value(ctx context.Context, v journal.Value) (json.RawMessage, error) {
	if v.Hash != "" {
		return w.o.Source.Blob(ctx, v.Hash)
	}
	return v.JSON, nil
}

// masked returns inputs without the values that must not be recorded.
func (w *Writer) masked(raw json.RawMessage) json.RawMessage {
	masked, _, err := w.rules.JSON(raw)
	if err != nil {
		masked = nil // not JSON, so there are no inputs
	}
	return maskNamed(masked)
}

// wants reports whether a run is recorded.
func (w *Writer) wants(x journal.RunStarted) bool {
	return x.Format == Format && (w.o.Skip == nil || !w.o.Skip(x))
}

// Idle writes what could not be written before.
func (w *Writer) Idle(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.streams) > maxStreams { // runs may wait for months
		w.streams = map[journal.RunID]*stream{}
	}
	return w.flushUnwritten()
}

// flushUnwritten writes the unwritten lines.
func (w *Writer) flushUnwritten() error {
	news := len(w.unwritten) > 0
	if news {
		if err := w.write(w.unwritten); err != nil {
			return fmt.Errorf("AWF's audit trail: %w", err)
		}
		w.unwritten = nil
	}
	if !w.gap {
		w.pos = w.came
	}
	if news || w.pos-w.saved >= saveEvery {
		return w.save()
	}
	return nil
}

// save writes the position up to which the file is complete.
func (w *Writer) save() error {
	if w.pos == w.saved {
		return nil
	}
	if err := report.WritePosition(w.o.Position, w.pos); err != nil {
		return fmt.Errorf("AWF's audit trail: %w", err)
	}
	w.saved = w.pos
	return nil
}

// Close writes the unwritten lines and saves the position, from which the next process starts.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.flushUnwritten(), w.save())
}

// start returns the record of a run that starts, and keeps its masked inputs with the run, for end.
func (w *Writer) start(ctx context.Context, ev *report.Event) (record, error) {
	line := newRecord(started, ev)
	raw, err := w.value(ctx, ev.Value)
	if err != nil {
		return line, err
	}
	masked := w.masked(raw)
	ev.Run.Data = maskedValues(raw, masked)
	if s := strings.TrimSpace(string(masked)); s != "{}" && s != "null" {
		line.Inputs = masked
	}
	for line.Inputs != nil && len(encoded(line)) > maxLine {
		line.Inputs, line.Truncated = truncated(line.Inputs), true
	}
	return line, nil
}

// newRecord returns a record with the members that all records have.
func newRecord(event string, ev *report.Event) record {
	return record{
		Event: event, Execution: ev.Run.ID, Timestamp: string(report.AppendTime(nil, ev.At)), User: ev.Run.By.User,
		Workflow: ev.Run.Name, Schema: 1,
	}
}

// end returns the record of a run that has finished.
func (w *Writer) end(ev *report.Event) record {
	line := newRecord(completed, ev)
	code, took := 0, int64(ev.At-ev.Run.Started)
	line.Status, line.ExitCode, line.Duration = "success", &code, &took
	if ev.Outcome != journal.OutcomeOK {
		line.Status, code = "failure", 1
		if ev.Status > 0 && ev.Status < 256 {
			code = ev.Status
		}
		masked, _ := w.rules.Text(ev.Run.Data.(*secret.Registry).Show(ev.Error))
		line.Error = shortened(cmp.Or(masked, string(ev.Outcome)), maxError)
	}
	return line
}

// secretNames are the prefixes of the names of inputs that AWF masks.
var secretNames = []string{"SECRET_", "API_KEY", "PASSWORD", "TOKEN"}

// maskNamed masks the inputs that are secrets by their names.
func maskNamed(inputs json.RawMessage) json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(inputs, &all) != nil {
		return inputs
	}
	hidden := false
	for name := range all {
		upper := strings.ToUpper(name)
		if slices.ContainsFunc(secretNames, func(prefix string) bool { return strings.HasPrefix(upper, prefix) }) {
			all[name], hidden = json.RawMessage(redactedSecret), true
		}
	}
	if !hidden {
		return inputs
	}
	return encoded(all)
}

// maskedValues returns the masked inputs, which errors must not contain either. It omits values that are too short to
// distinguish them from other text.
func maskedValues(inputs, masked json.RawMessage) *secret.Registry {
	var before, after map[string]json.RawMessage
	if json.Unmarshal(inputs, &before) != nil || json.Unmarshal(masked, &after) != nil {
		return nil
	}
	var sources []secret.Source
	for name, raw := range before {
		if string(after[name]) != redactedSecret {
			continue
		}
		value := string(raw)
		_ = json.Unmarshal(raw, &value) // other types are searched for as JSON
		sources = append(sources,
			secret.Source{Name: name, Find: func(context.Context) (string, error) { return value, nil }})
	}
	return secret.New(sources...)
}

// redactedSecret is written in the place of a secret.
const redactedSecret = `"[redacted secret]"`

// encoded returns a value as JSON without HTML escapes. It is called only with values that can be encoded.
func encoded(v any) json.RawMessage {
	raw, _ := jsonfast.Marshal(v)
	return raw
}

// truncated replaces the longest input by an ellipsis. It returns nil when that does not help.
func truncated(inputs json.RawMessage) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(inputs, &object) != nil {
		return nil
	}
	longest := ""
	for name, v := range object {
		if len(v) > len(object[longest]) || len(v) == len(object[longest]) && name < longest {
			longest = name
		}
	}
	const ellipsis = `"…"`
	if len(object[longest]) <= len(ellipsis) {
		return nil
	}
	object[longest] = json.RawMessage(ellipsis)
	return encoded(object)
}

// shortened returns a text, or the start of it, that takes at most so many bytes as JSON.
func shortened(text string, most int) string {
	short := text
	for n := min(len(text), most); len(encoded(short)) > most; n = n * 3 / 4 {
		short = strings.ToValidUTF8(text[:n], "") + "…"
	}
	return short
}

// write appends the lines that the file does not have: the position may not have been saved in time.
func (w *Writer) write(lines []record) (err error) {
	if w.o.Lock != nil {
		if err := w.o.Lock.Exclusive(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, w.o.Lock.Unlock()) }()
	}
	if err := os.MkdirAll(filepath.Dir(w.o.Path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(w.o.Path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	torn, err := w.recent(f)
	if err != nil {
		return err
	}
	var b []byte
	if torn {
		b = append(b, '\n')
	}
	for _, line := range lines {
		if !w.there[line.Event+" "+string(line.Execution)] {
			b = append(append(b, encoded(line)...), '\n')
		}
	}
	w.left = nil
	if _, err = f.Write(b); err == nil {
		w.left, err = f.Stat()
	}
	return err
}

// recent reads which records the end of the file has, and reports whether a crash has torn its last line. It reads
// nothing if the file has not changed since this writer wrote it.
func (w *Writer) recent(f *os.File) (torn bool, err error) {
	const back = 256 << 10
	info, err := f.Stat()
	if err != nil || w.left != nil && os.SameFile(info, w.left) && info.Size() == w.left.Size() {
		return false, err
	}
	from := max(0, info.Size()-back)
	raw, err := io.ReadAll(io.NewSectionReader(f, from, info.Size()-from))
	if err != nil {
		return false, err
	}
	w.there = map[string]bool{}
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, back+1)
	for lines.Scan() {
		var r record
		if json.Unmarshal(lines.Bytes(), &r) == nil {
			w.there[r.Event+" "+string(r.Execution)] = true
		}
	}
	return len(raw) > 0 && raw[len(raw)-1] != '\n', lines.Err()
}
