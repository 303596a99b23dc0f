package execution

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/jsonfast"
	"github.com/espalier-run/espalier/internal/manifest"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/protected"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/xmaps"
)

// FileName is the name of the record, in the folder of a run's outputs.
const FileName = "execution-state.json"

// Options configure a Writer.
type Options struct {
	Root string // of the project
	// Dir is the folder of checkpoints, from which another process continues a long run; empty for none.
	Dir     string
	Source  journal.Reader
	Program func(ctx context.Context, definition string) (*ir.Program, error)
}

// Writer writes the records. It is a report.Sink.
type Writer struct {
	Options
	mu        sync.Mutex
	runs      map[journal.RunID]*record // nil for a run of another format
	unwritten map[journal.RunID]bool    // records that could not be written
}

// format is the format whose runs have such a record.
const format = "agentfile"

var (
	_ report.Sink  = (*Writer)(nil)
	_ report.Idler = (*Writer)(nil)
)

// New returns a Writer. Close it.
func New(o Options) *Writer {
	return &Writer{Options: o, runs: map[journal.RunID]*record{}, unwritten: map[journal.RunID]bool{}}
}

// State is the record of a run, as other programs read it.
type State struct {
	Workflow  string  `json:"workflow"`
	RunID     string  `json:"run_id"`
	Run       string  `json:"espalier_run"`
	StartedAt string  `json:"started_at"`
	UpdatedAt string  `json:"updated_at"`
	Status    string  `json:"status"` // running, awaiting_approval, completed, failed
	Input     string  `json:"input"`
	Current   string  `json:"current_step,omitempty"`
	Steps     []Step  `json:"steps"`
	Errors    []Error `json:"errors"`
}

// Step is one step of the workflow.
type Step struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Status      string `json:"status"`
	StartedAt   string `json:"started_at,omitempty"`
	CompletedAt string `json:"completed_at,omitempty"`
	ApprovedAt  string `json:"approved_at,omitempty"`
	ApprovedBy  string `json:"approved_by,omitempty"`
	Artifact    string `json:"artifact,omitempty"`
	Error       string `json:"error,omitempty"`
}

// Error is an error of a step.
type Error struct {
	Step  string `json:"step"`
	Error string `json:"error"`
	At    string `json:"at"`
}

// record is a State under construction.
type record struct {
	State
	in     *report.Interpreter
	seen   journal.Seq
	last   journal.Event // the one with the number seen
	saved  journal.Seq   // of the checkpoint
	over   bool
	dir    string        // of the run's outputs, relative to the root
	staged string        // folder of the workflow that the run generates
	before journal.RunID // the run that this one continues
}

// Record applies appends, and then writes each record that has changed.
func (w *Writer) Record(ctx context.Context, appends ...journal.Appended) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	var changed map[journal.RunID]*record
	for i := range appends {
		a := &appends[i]
		if len(a.Events) == 0 {
			continue
		}
		r, err := w.update(ctx, a.Run, a.Events)
		if err != nil {
			errs = append(errs, w.fail(a.Run, err))
			delete(changed, a.Run)
		}
		if r != nil {
			xmaps.Set(&changed, a.Run, r)
		}
	}
	for run, r := range changed {
		if err := w.write(r); err != nil {
			errs = append(errs, w.fail(run, err))
			continue
		}
		delete(w.unwritten, run)
	}
	return errors.Join(errs...)
}

// fail drops a run from memory whose record could not be written: the next attempt
// reads the journal.
func (w *Writer) fail(run journal.RunID, err error) error {
	delete(w.runs, run)
	w.unwritten[run] = true
	return fmt.Errorf("%s of run %s: %w", FileName, run, err)
}

// update applies events to a run's record, and returns it if it has changed.
func (w *Writer) update(ctx context.Context, run journal.RunID, events []journal.Event) (*record, error) {
	r, known := w.runs[run]
	changed := false
	if !known {
		var err error
		if started, ok := events[0].Fact.(journal.RunStarted); ok {
			r, err = w.newRecord(ctx, run, started, events[0].At.Time())
		} else {
			r, err = w.load(ctx, run)
			changed = true
		}
		if err != nil {
			return nil, err
		}
		w.runs[run] = r
	}
	if _, over := events[len(events)-1].Fact.(journal.RunFinished); over {
		delete(w.runs, run)
	}
	if r == nil {
		return nil, nil
	}
	news, err := r.follow(events)
	if err != nil || !news && !changed {
		return nil, err
	}
	return r, nil
}

// load builds the record of a run from the journal; nil for runs that have none.
func (w *Writer) load(ctx context.Context, run journal.RunID) (r *record, err error) {
	entry, err := w.Source.Entry(ctx, run)
	if errors.Is(err, journal.ErrUnknownRun) {
		return nil, nil // it has been deleted
	}
	if err != nil || entry.Format != format {
		return nil, err
	}
	after := journal.Seq(0)
	if r, err = w.restore(ctx, run); err != nil {
		return nil, err
	} else if r != nil {
		after = r.seen
	}
	for e, err := range w.Source.Events(ctx, run, after) {
		if err != nil {
			return nil, err
		}
		if started, ok := e.Fact.(journal.RunStarted); ok {
			if r, err = w.newRecord(ctx, run, started, e.At.Time()); err != nil || r == nil {
				return nil, err
			}
		}
		if r != nil {
			if _, err := r.follow([]journal.Event{e}); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// follow applies the events that are new, and reports whether there were any.
func (r *record) follow(events []journal.Event) (news bool, err error) {
	for i := range events {
		if e := &events[i]; e.Seq > r.seen {
			if err := r.apply(r.in, e); err != nil {
				return news, err
			}
			r.seen, r.last, news = e.Seq, *e, true
		}
	}
	return news, nil
}

// Idle writes the records that could not be written before, and drops what can be read again.
func (w *Writer) Idle(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.flushUnwritten(ctx)
	if len(w.runs) > 0 { // clearing the map would keep its memory
		w.runs = map[journal.RunID]*record{}
	}
	return err
}

// flushUnwritten writes the records that could not be written before.
func (w *Writer) flushUnwritten(ctx context.Context) error {
	var errs []error
	for run := range w.unwritten {
		r, err := w.load(ctx, run)
		if err == nil && r != nil {
			err = w.write(r)
		}
		if err != nil {
			errs = append(errs, w.fail(run, err))
			continue
		}
		delete(w.unwritten, run)
	}
	return errors.Join(errs...)
}

// Close writes what could not be written before.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flushUnwritten(context.Background())
}

// newRecord returns the record of a run that starts; nil for runs without a folder of
// this format.
func (w *Writer) newRecord(ctx context.Context, id journal.RunID, s journal.RunStarted, at time.Time) (*record, error) {
	stamp, ok := s.Vars["agentfile.run"]
	if !ok || s.Format != format {
		return nil, nil
	}
	p, err := w.Program(ctx, s.Definition)
	if err != nil {
		return nil, err
	}
	r := &record{in: report.NewInterpreter(id, nil), State: State{
		Workflow: s.Name, RunID: text(stamp.JSON), Run: string(id), StartedAt: manifest.Time(at),
		Status: manifest.Running, Steps: []Step{}, Errors: []Error{},
	}}
	r.dir = path.Join("outputs", r.Workflow, r.RunID, "execution")
	if len(r.RunID) == 0 || strings.ContainsAny(r.RunID+s.Name, `/\`) || r.RunID == ".." || s.Name == ".." {
		return nil, nil
	}
	var input map[string]json.RawMessage
	if json.Unmarshal(s.Input.JSON, &input) != nil {
		r.Input = text(s.Input.JSON)
	}
	for name, value := range input {
		if name != "workflow_name" && name != "run_id" {
			r.Input = text(value)
		}
	}
	name, run := text(input["workflow_name"]), text(input["run_id"])
	if name != "" && run != "" && filepath.IsLocal(filepath.Join(name, run)) {
		r.staged = manifest.Staged(w.Root, name, run)
	}
	for i := range p.Blocks[ir.Body].Steps {
		s := &p.Blocks[ir.Body].Steps[i]
		if s.Implied {
			continue
		}
		one := Step{ID: s.ID, Name: s.Description, Status: manifest.Pending}
		if t := s.Task(); t != nil {
			one.Artifact = text(t.Settings.Get("produces"))
			var layout struct{ Dir string }
			if json.Unmarshal(t.Settings.Get("layout"), &layout) == nil && layout.Dir != "" {
				r.dir = strings.ReplaceAll(layout.Dir, "{run}", r.RunID)
			} else if runs := text(t.Settings.Get("runs")); runs != "" { // of a stored program
				r.dir = path.Join(runs, r.RunID)
			}
		}
		r.Steps = append(r.Steps, one)
	}
	return r, w.inherit(ctx, r, s.From)
}

// inherit adds what was done in the run that this one continues: other programs
// see one run that was rewound, with copies of its files.
func (w *Writer) inherit(ctx context.Context, r *record, from *journal.Origin) error {
	if from == nil {
		return nil
	}
	r.before = from.Run
	in := report.NewInterpreter(from.Run, nil)
	for e, err := range w.Source.Events(ctx, from.Run, 0) {
		if errors.Is(err, journal.ErrUnknownRun) {
			return nil // it has been deleted
		}
		if err != nil {
			return err
		}
		if s, ok := e.Fact.(journal.RunStarted); ok {
			if err := w.inherit(ctx, r, s.From); err != nil {
				return err
			}
			r.before = from.Run
		}
		if err := r.apply(in, &e); err != nil {
			return err
		}
	}
	r.back(from.Step)
	return nil
}

// text returns a JSON string as text, and any other JSON as it is.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return string(raw)
	}
	return s
}

// gateOf returns the step that a gate belongs to.
func gateOf(step string) string { return strings.TrimSuffix(step, ":gate") }

// step returns the step of a record. A step that the record does not have is a new one, whose changes have no effect.
func (r *record) step(id string) *Step {
	for i := range r.Steps {
		if r.Steps[i].ID == gateOf(id) {
			return &r.Steps[i]
		}
	}
	return &Step{} // generated, so the record does not have it
}

// apply updates the record. in is the interpreter of the run that e belongs to.
func (r *record) apply(in *report.Interpreter, e *journal.Event) error {
	r.UpdatedAt = manifest.Time(e.At.Time())
	return in.Interpret(e, func(ev *report.Event) error {
		if handle := handlers[ev.Type]; handle != nil {
			handle(r, ev, r.step(ev.Work.Step))
		}
		return nil
	})
}

// handlers update the record, whose UpdatedAt is the time of the event, and the
// step of the event.
var handlers = map[report.EventType]func(r *record, ev *report.Event, s *Step){
	report.TaskStarted: func(r *record, _ *report.Event, s *Step) {
		s.Status, s.StartedAt, s.Error, s.CompletedAt = manifest.InProgress, r.UpdatedAt, "", ""
		r.Status, r.Current = "running", s.ID
	},
	report.TaskFinished: func(r *record, ev *report.Event, s *Step) {
		switch {
		case ev.Outcome == journal.OutcomeOK:
			s.Status, s.CompletedAt = manifest.Completed, r.UpdatedAt
		case ev.Final():
			s.Status, s.CompletedAt, s.Error = manifest.StepFailed, r.UpdatedAt, ev.Error
			r.Errors = append(r.Errors, Error{Step: s.ID, Error: ev.Error, At: r.UpdatedAt})
		}
	},
	report.GateOpened: func(r *record, _ *report.Event, s *Step) {
		s.Status, r.Status, r.Current = manifest.Awaiting, manifest.Awaiting, s.ID
	},
	report.GateDecided: (*record).gateDecided,
	report.RunRewound:  func(r *record, ev *report.Event, _ *Step) { r.back(ev.Fact.(journal.Rewound).Step) },
	report.RunFinished: (*record).runFinished,
}

// gateDecided completes the step of an approved gate.
func (r *record) gateDecided(ev *report.Event, s *Step) {
	x := ev.Fact.(journal.GateDecided)
	r.Status = manifest.Running
	switch x.Outcome {
	case journal.OutcomeOK:
		s.Status, s.ApprovedAt, s.ApprovedBy = manifest.Completed, r.UpdatedAt, cmp.Or(x.By.As, x.By.User)
		if x.Method == journal.MethodAutoApprove {
			s.ApprovedBy = plan.AutoApprove
		}
	case journal.OutcomeRejected:
		s.Status, s.Error = manifest.StepFailed, "rejected"
		why := strings.TrimSuffix("rejected: "+x.Note, ": ")
		r.Errors = append(r.Errors, Error{Step: s.ID, Error: why, At: r.UpdatedAt})
	}
}

// runFinished sets how the root run ended. Steps that were still open have ended with it.
func (r *record) runFinished(ev *report.Event, _ *Step) {
	if ev.Run.Parent != "" {
		return
	}
	r.over, r.Current, r.Status = true, "", manifest.Completed
	if ev.Outcome != journal.OutcomeOK {
		r.Status = manifest.Failed
	}
	for i := range r.Steps {
		if s := &r.Steps[i]; s.Status == manifest.InProgress || s.Status == manifest.Awaiting {
			s.Status, s.CompletedAt, s.Error = manifest.StepFailed, r.UpdatedAt, string(ev.Outcome)
		}
	}
}

// back rewinds the record to a step.
func (r *record) back(step string) {
	r.over, r.Current, r.Status = false, "", manifest.Running
	again := false
	for i := range r.Steps {
		if again = again || r.Steps[i].ID == gateOf(step); again {
			s := &r.Steps[i]
			*s = Step{ID: s.ID, Name: s.Name, Artifact: s.Artifact, Status: manifest.Pending}
		}
	}
}

// write writes the files.
func (w *Writer) write(r *record) error {
	text, err := jsonfast.MarshalIndent(r.State)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(w.Root)
	if err != nil {
		return err
	}
	defer root.Close()
	modes := protected.Options{File: 0o644, Folder: 0o755}
	if err := protected.WriteFile(root, path.Join(r.dir, FileName), append(text, '\n'), modes); err != nil {
		return err
	}
	w.checkpoint(r)
	if r.staged == "" {
		return nil
	}
	return r.generation()
}

// savedRecord is the state of a checkpoint.
type savedRecord struct {
	State  State           `json:"state"`
	Dir    string          `json:"dir"`
	Staged string          `json:"staged,omitempty"`
	Before journal.RunID   `json:"before,omitempty"`
	Open   json.RawMessage `json:"open"` // what the interpreter has open
}

// checkpointPath returns the file in which the state of a run's record is saved.
func checkpointPath(dir string, run journal.RunID) string {
	return filepath.Join(dir, string(run)+".checkpoint")
}

// Forget removes the checkpoint of a run from the folder of a Writer.
func Forget(dir string, run journal.RunID) {
	if filepath.IsLocal(string(run)) {
		os.Remove(checkpointPath(dir, run)) // there may be none
	}
}

// checkpoint saves a record, if that is due. A run that is over needs none. That it cannot be saved costs time later
// and is no error.
func (w *Writer) checkpoint(r *record) {
	switch {
	case w.Dir == "" || !filepath.IsLocal(r.Run):
	case r.over:
		Forget(w.Dir, journal.RunID(r.Run))
	case r.seen-r.saved >= report.CheckpointEvents:
		r.saved = r.seen // also after an error: not at each event
		_ = w.save(r)
	}
}

// save writes the state of a record, from which another process continues it.
func (w *Writer) save(r *record) error {
	open, err := r.in.Save(report.ReaderData{})
	if err != nil {
		return err
	}
	state, err := json.Marshal(savedRecord{State: r.State, Dir: r.dir, Staged: r.staged, Before: r.before, Open: open})
	if err != nil {
		return err
	}
	if err := protected.MkdirIn(filepath.Split(w.Dir)); err != nil {
		return err
	}
	_, err = report.WriteCheckpoint(checkpointPath(w.Dir, journal.RunID(r.Run)), &r.last, nil, state)
	return err
}

// restore returns the record of a run from its checkpoint; nil if no checkpoint fits.
func (w *Writer) restore(ctx context.Context, run journal.RunID) (*record, error) {
	if w.Dir == "" || !filepath.IsLocal(string(run)) {
		return nil, nil
	}
	c, err := report.ReadCheckpoint(ctx, checkpointPath(w.Dir, run), w.Source, run)
	if err != nil || c == nil {
		return nil, err
	}
	var saved savedRecord
	in := report.NewInterpreter(run, nil)
	if json.Unmarshal(c.State, &saved) != nil || in.Restore(saved.Open, report.ReaderData{}) != nil {
		return nil, nil
	}
	return &record{
		State: saved.State, in: in, seen: c.Seq, saved: c.Seq,
		dir: saved.Dir, staged: saved.Staged, before: saved.Before,
	}, nil
}

// generation updates the manifest of the workflow that the run generates.
func (r *record) generation() error {
	m, err := manifest.Read(r.staged)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has been promoted or abandoned
	}
	if err != nil {
		return err
	}
	if m.Run == string(r.before) && m.Status == manifest.Failed { // this run continues it
		m.Run, m.Status = r.Run, manifest.Generating
		m.Phases.Generation.Status, m.Phases.Generation.CompletedAt = manifest.InProgress, ""
	}
	if m.Run != r.Run || m.Status != manifest.Generating {
		return nil
	}
	by := map[string]string{}
	m.Steps, m.Errors = nil, []manifest.Error{}
	for _, s := range r.Steps {
		m.Steps = append(m.Steps, manifest.Step{
			ID: s.ID, Name: s.Name, Status: s.Status, StartedAt: s.StartedAt, CompletedAt: s.CompletedAt,
		})
		if _, below, ok := strings.Cut(s.Artifact, "{run_id}/"); ok {
			by[below] = s.ID
		}
	}
	for _, e := range r.Errors {
		m.Errors = append(m.Errors, manifest.Error{At: e.At, Phase: "generation", Message: e.Error, StepID: e.Step})
	}
	if err := m.Register(r.staged, by); err != nil {
		return err
	}
	m.UpdatedAt = r.UpdatedAt
	if r.over {
		m.Phases.Generation.Status, m.Phases.Generation.CompletedAt = manifest.Completed, r.UpdatedAt
		m.Status = manifest.Generated
		if r.Status == manifest.Failed {
			m.Phases.Generation.Status, m.Status = manifest.StepFailed, manifest.Failed
		}
	}
	return m.Write(r.staged)
}
