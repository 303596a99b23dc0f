package awfaudit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/report/redact"
	"github.com/espalier-run/espalier/internal/secret"
)

// Format is the one whose runs are recorded.
const Format = "awf"

// Source is what writing needs of a journal.Store.
type Source interface {
	Events(ctx context.Context, run journal.RunID, after journal.Seq) iter.Seq2[journal.Event, error]
	Blob(ctx context.Context, hash string) ([]byte, error)
	Entry(ctx context.Context, run journal.RunID) (journal.Entry, error)
}

// Lock keeps other processes out while lines are written.
type Lock interface {
	Exclusive() error
	Unlock() error
}

// Options are what a Writer works with.
type Options struct {
	Path     string // of the file
	Position string // of the file that says how far in the journal it is
	Source   Source
	Lock     Lock // nil when no other process writes here
	// Skip tells of a run that nothing is to be written about; nil skips none.
	Skip func(journal.RunStarted) bool
}

// Writer writes the file. It is a report.Sink.
type Writer struct {
	o     Options
	rules *redact.Rules

	mu    sync.Mutex
	runs  map[journal.RunID]*execution // begun and not over
	roots map[journal.RunID]bool       // streams that are not over: whether they are of this format
	came  journal.Pos                  // everything up to here has come by
	pos   journal.Pos                  // everything up to here is in the file
	saved journal.Pos
	owed  []record        // what could not be written yet
	gap   bool            // something could not be read; whoever begins at pos makes up for it
	left  os.FileInfo     // the file as this writer left it; nil before it has written
	there map[string]bool // records that others, or an earlier life, had written by then
}

var (
	_ report.Sink    = (*Writer)(nil)
	_ report.Batcher = (*Writer)(nil)
	_ report.Idler   = (*Writer)(nil)
)

// execution is a run or a child run.
type execution struct {
	frame   string // that is all of it
	name    string
	user    string
	inputs  json.RawMessage
	secrets *secret.Registry // values of inputs that are masked
	started journal.Millis
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
	// mostRoots is how many streams are known by heart while nothing happens:
	// reading again what one is takes as long as the run is.
	mostRoots = 4096
	// mostBytes is how long a line may be, so that it is written at once;
	// mostError is how much of it the words of a failure may take.
	mostBytes = 4096
	mostError = 2048
)

// New makes a Writer.
func New(o Options) (*Writer, error) {
	rules, err := redact.New(false, true)
	if err != nil {
		return nil, err
	}
	return &Writer{o: o, rules: rules, runs: map[journal.RunID]*execution{}, roots: map[journal.RunID]bool{}}, nil
}

// At is where in the journal to begin to follow.
func (w *Writer) At() (journal.Pos, error) {
	n, err := report.ReadPosition(w.o.Position)
	if err != nil || n == 0 { // what is there already is not written again
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.came, w.pos, w.saved = n, n, n
	return n, nil
}

// Record writes what an append begins or ends.
func (w *Writer) Record(ctx context.Context, a journal.Appended) error {
	return w.RecordAll(ctx, []journal.Appended{a})
}

// RecordAll writes what appends begin or end.
func (w *Writer) RecordAll(ctx context.Context, appends []journal.Appended) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for i := range appends {
		a := &appends[i]
		if a.Pos <= w.came {
			continue
		}
		w.came = a.Pos
		for i := range a.Events {
			line, ok, err := w.line(ctx, a.Run, &a.Events[i])
			if err != nil {
				w.gap = true
				errs = append(errs, fmt.Errorf("AWF's audit trail: %w", err))
				break
			}
			if ok {
				w.owed = append(w.owed, line)
			}
		}
	}
	return errors.Join(append(errs, w.settle())...)
}

// Idle tries again what could not be written.
func (w *Writer) Idle(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.roots) > mostRoots { // runs may wait for months; what they are can be read again
		w.roots = map[journal.RunID]bool{}
	}
	return w.settle()
}

// settle writes what is owed.
func (w *Writer) settle() error {
	news := len(w.owed) > 0
	if news {
		if err := w.write(w.owed); err != nil {
			return fmt.Errorf("AWF's audit trail: %w", err)
		}
		w.owed = nil
	}
	if !w.gap {
		w.pos = w.came
	}
	if news {
		return w.save()
	}
	return nil
}

// save notes how far the file is.
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

// Close writes what is owed and notes how far the file is, so that the next one
// need not look further back.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.settle(), w.save())
}

// ours tells whether a stream is of an AWF workflow.
func (w *Writer) ours(ctx context.Context, run journal.RunID) (bool, error) {
	if known, ok := w.roots[run]; ok {
		return known, nil
	}
	entry, err := w.o.Source.Entry(ctx, run)
	if err != nil {
		return false, err
	}
	ours := entry.Format == Format
	if ours && w.o.Skip != nil {
		for e, err := range w.o.Source.Events(ctx, run, 0) {
			if err != nil {
				return false, err
			}
			begun, ok := e.Fact.(journal.RunStarted)
			ours = ok && w.wants(&begun)
			break
		}
	}
	w.roots[run] = ours
	return ours, nil
}

// wants tells whether a run is to be written about.
func (w *Writer) wants(x *journal.RunStarted) bool {
	return x.Format == Format && (w.o.Skip == nil || !w.o.Skip(*x))
}

// line is the record that an event makes, if it makes one.
func (w *Writer) line(ctx context.Context, root journal.RunID, e *journal.Event) (record, bool, error) {
	switch x := e.Fact.(type) {
	case journal.RunStarted:
		w.roots[root] = w.wants(&x)
	case journal.RunFinished, journal.FrameOpened, journal.FrameClosed:
	default:
		return record{}, false, nil
	}
	ours, err := w.ours(ctx, root)
	if _, over := e.Fact.(journal.RunFinished); over {
		delete(w.roots, root)
	}
	if err != nil || !ours {
		return record{}, false, err
	}
	switch x := e.Fact.(type) {
	case journal.RunStarted:
		one, err := w.begun(ctx, root, e)
		if err != nil {
			return record{}, false, err
		}
		w.runs[root] = one
		return w.start(root, one, e.At), true, nil
	case journal.FrameOpened:
		if x.Child == "" {
			return record{}, false, nil
		}
		one, err := w.begun(ctx, root, e)
		if err != nil {
			return record{}, false, err
		}
		w.runs[x.Child] = one
		return w.start(x.Child, one, e.At), true, nil
	case journal.RunFinished:
		one, err := w.execution(ctx, root, root)
		if err != nil {
			return record{}, false, err
		}
		return w.end(root, one, e.At, x.Outcome, x.Error, x.Status), true, nil
	case journal.FrameClosed:
		if e.Run == "" || e.Run == root {
			return record{}, false, nil
		}
		one, err := w.execution(ctx, root, e.Run)
		if err != nil || one.frame != x.Frame {
			return record{}, false, err
		}
		return w.end(e.Run, one, e.At, x.Outcome, x.Error, x.Status), true, nil
	}
	return record{}, false, nil
}

// execution is one that has begun, here or before this writer was made.
func (w *Writer) execution(ctx context.Context, root, id journal.RunID) (*execution, error) {
	if one := w.runs[id]; one != nil {
		return one, nil
	}
	for e, err := range w.o.Source.Events(ctx, root, 0) {
		if err != nil {
			return nil, err
		}
		begin, isRun := e.Fact.(journal.RunStarted)
		frame, isFrame := e.Fact.(journal.FrameOpened)
		if isRun && id == root && begin.Format == Format || isFrame && frame.Child == id {
			one, err := w.begun(ctx, root, &e)
			if err == nil {
				w.runs[id] = one
			}
			return one, err
		}
	}
	return nil, fmt.Errorf("run %s has an end and no beginning", id)
}

// begun is what the event that begins an execution says of it.
func (w *Writer) begun(ctx context.Context, root journal.RunID, e *journal.Event) (*execution, error) {
	one := &execution{started: e.At}
	var input journal.Value
	switch x := e.Fact.(type) {
	case journal.RunStarted:
		one.name, one.user, input = x.Name, x.By.User, x.Input
	case journal.FrameOpened:
		one.frame, one.name, input = x.Frame, x.Name, x.Vars["input"]
		parent, err := w.execution(ctx, root, root)
		if err != nil {
			return nil, err
		}
		one.user = parent.user
	}
	raw := input.JSON
	if input.Hash != "" {
		stored, err := w.o.Source.Blob(ctx, input.Hash)
		if err != nil {
			return nil, err
		}
		raw = stored
	}
	masked, _, err := w.rules.JSON(raw)
	if err != nil {
		masked = nil // no JSON, so no inputs either
	}
	masked = unnamed(masked)
	one.secrets = maskedValues(raw, masked)
	if s := strings.TrimSpace(string(masked)); s != "{}" && s != "null" {
		one.inputs = masked
	}
	return one, nil
}

// secretNames are how the names of inputs begin that AWF keeps out of its trail.
var secretNames = []string{"SECRET_", "API_KEY", "PASSWORD", "TOKEN"}

// unnamed hides the inputs that are secrets by their names.
func unnamed(inputs json.RawMessage) json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(inputs, &all) != nil {
		return inputs
	}
	hidden := false
	for name := range all {
		if slices.ContainsFunc(secretNames, func(begin string) bool { return strings.HasPrefix(strings.ToUpper(name), begin) }) {
			all[name], hidden = json.RawMessage(redactedSecret), true
		}
	}
	if !hidden {
		return inputs
	}
	return encoded(all)
}

// maskedValues returns the inputs that are masked, which errors must not show either.
// Values that are too short to be told from other text are left out.
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
		_ = json.Unmarshal(raw, &value) // what is no text is looked for as JSON
		sources = append(sources, secret.Source{Name: name, Find: func(context.Context) (string, error) { return value, nil }})
	}
	return secret.New(sources...)
}

const redactedSecret = `"[redacted secret]"`

// encoded is a value as JSON, for people to read: <, > and & are themselves.
// What was read as JSON, and texts, can always be written so.
func encoded(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return bytes.TrimSpace(b.Bytes())
}

func stamp(at journal.Millis) string { return string(report.AppendTime(nil, at)) }

func (w *Writer) start(id journal.RunID, one *execution, at journal.Millis) record {
	line := record{Event: started, Execution: id, Timestamp: stamp(at), User: one.user, Workflow: one.name, Inputs: one.inputs, Schema: 1}
	for line.Inputs != nil && len(encoded(line)) > mostBytes {
		line.Inputs, line.Truncated = truncated(line.Inputs), true
	}
	return line
}

// truncated puts an ellipsis in the place of the longest input; nil when that
// would not help.
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

// shortened is a text, or the beginning of it, that takes up only so much as JSON.
func shortened(text string, most int) string {
	short := text
	for n := min(len(text), most); len(encoded(short)) > most; n = n * 3 / 4 {
		short = strings.ToValidUTF8(text[:n], "") + "…"
	}
	return short
}

func (w *Writer) end(id journal.RunID, one *execution, at journal.Millis, outcome, why string, status int) record {
	delete(w.runs, id)
	code, took := 0, int64(at-one.started)
	line := record{
		Event: completed, Execution: id, Timestamp: stamp(at), User: one.user, Workflow: one.name,
		Status: "success", ExitCode: &code, Duration: &took, Schema: 1,
	}
	if outcome != "ok" {
		line.Status, code = "failure", 1
		if status > 0 && status < 256 {
			code = status
		}
		line.Error, _ = w.rules.Text(one.secrets.Show(why))
		if line.Error == "" {
			line.Error = outcome
		}
		line.Error = shortened(line.Error, mostError)
	}
	return line
}

// write appends lines, but for those that are there already: the position may
// not have been saved in time.
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

// recent reads which records the end of the file has, and tells whether its
// last line was torn by a crash. When nobody has changed the file since, that
// is known.
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
