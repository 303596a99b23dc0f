package report

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// A reader that starts in the middle of a run needs what is open there. Reading
// the run from its first event takes longer the longer the run is, so an
// Interpreter can be saved and restored. What is saved is a cache: the events
// yield the same.

// savedInterpreter is an Interpreter between two facts.
type savedInterpreter struct {
	Frames  []savedFrame  `json:"frames"` // each after the frame around it
	Budgets *savedTracker `json:"budgets,omitempty"`
}

// savedFrame is an open frame in a checkpoint. It has what cannot be found again in the program.
type savedFrame struct {
	Path string `json:"path"`
	position
	Run      *Run            `json:"run,omitempty"`     // the frame is the body of this run
	Input    journal.Value   `json:"input,omitzero"`    // of Run
	Options  json.RawMessage `json:"options,omitempty"` // of Run
	Offline  journal.Offline `json:"offline,omitempty"` // of Run
	RunData  json.RawMessage `json:"run_data,omitempty"`
	Step     *Step           `json:"step,omitempty"`
	StepData json.RawMessage `json:"step_data,omitempty"`
	Visit    int             `json:"visit,omitempty"` // of Step
	// Announced, Failed and Hooks are the unexported fields of Step.
	Announced bool           `json:"announced,omitempty"`
	Failed    *Ending        `json:"failed,omitempty"`
	Hooks     *journal.Hooks `json:"hooks,omitempty"`
}

// savedTracker is the state of the budgets in a checkpoint.
type savedTracker struct {
	State json.RawMessage `json:"state"` // a snapshot of the planner's state
	trackerState
}

// ReaderData encodes and decodes the Data that a reader keeps at runs and steps.
// The zero value drops it.
type ReaderData struct {
	Save func(data any) (json.RawMessage, error)
	// RestoreRun and RestoreStep return what Save has encoded. They are called for
	// every open run and step; raw is nil if nothing was saved.
	RestoreRun  func(run *Run, raw json.RawMessage) (any, error)
	RestoreStep func(step *Step, raw json.RawMessage) (any, error)
}

// Save encodes the Interpreter. It must not be called from emit.
func (in *Interpreter) Save(data ReaderData) ([]byte, error) {
	out := savedInterpreter{Frames: make([]savedFrame, 0, len(in.frames))}
	save := func(v any) (json.RawMessage, error) {
		if v == nil || data.Save == nil {
			return nil, nil
		}
		return data.Save(v)
	}
	for path, f := range in.frames {
		s := savedFrame{Path: path, position: f.position, Step: f.step}
		var err error
		if f.body() {
			s.Run, s.Input, s.Options, s.Offline = f.run, f.run.Input, f.run.Options, f.run.Offline
			if s.RunData, err = save(f.run.Data); err != nil {
				return nil, err
			}
		}
		if f.step != nil {
			s.Visit = f.step.Place.Visit
			s.Announced, s.Failed, s.Hooks = f.step.announced, f.step.failed, f.step.hooks
			if s.StepData, err = save(f.step.Data); err != nil {
				return nil, err
			}
		}
		out.Frames = append(out.Frames, s)
	}
	// The path of a frame is longer than that of the frame around it.
	slices.SortFunc(out.Frames, func(a, b savedFrame) int {
		return cmp.Or(cmp.Compare(len(a.Path), len(b.Path)), strings.Compare(a.Path, b.Path))
	})
	if t := in.budgets; t != nil {
		out.Budgets = &savedTracker{t.state.Snapshot(), t.trackerState}
	}
	return json.Marshal(out)
}

// body reports whether a frame is the body of a run.
func (f *frame) body() bool { return f.up == nil || f.run.Caller == f.up && f.Depth == 0 }

// Restore replaces the state of a new Interpreter by what Save has encoded. The
// next fact is the one that followed then. After an error, the Interpreter is as
// new.
func (in *Interpreter) Restore(raw []byte, data ReaderData) (err error) {
	defer func() {
		if err == nil {
			return
		}
		clear(in.frames)
		if in.budgets != nil {
			in.TrackBudgets()
		}
	}()
	var saved savedInterpreter
	if err := json.Unmarshal(raw, &saved); err != nil {
		return err
	}
	if in.budgets != nil {
		if err := in.budgets.restore(saved.Budgets); err != nil {
			return err
		}
	}
	for i := range saved.Frames {
		if err := in.restoreFrame(&saved.Frames[i], data); err != nil {
			return err
		}
	}
	return nil
}

// restoreFrame opens a saved frame. The frames around it must have been restored before.
func (in *Interpreter) restoreFrame(s *savedFrame, data ReaderData) error {
	f := &frame{position: s.position}
	if s.Path != "" {
		around := in.frames[s.Parent]
		if around == nil || around.step == nil {
			return fmt.Errorf("frame %q is not inside of an open step", s.Path)
		}
		f.run, f.up = around.run, around.step
	}
	if s.Run != nil {
		f.run = s.Run
		f.run.Caller, f.run.Input, f.run.Options, f.run.Offline = f.up, s.Input, s.Options, s.Offline
	}
	if f.run == nil {
		return errors.New("the first frame has no run")
	}
	if err := in.restoreUnit(f); err != nil {
		return err
	}
	if s.Run != nil && data.RestoreRun != nil {
		var err error
		if f.run.Data, err = data.RestoreRun(f.run, s.RunData); err != nil {
			return err
		}
	}
	if f.step = s.Step; f.step != nil {
		f.step.Run, f.step.Parent, f.step.Info = f.run, f.up, f.unit.step(f.Block, f.step.Name)
		f.step.Place = journal.Place{Frame: s.Path, Step: f.step.Name, Visit: s.Visit}
		f.step.announced, f.step.failed, f.step.hooks = s.Announced, s.Failed, s.Hooks
		if data.RestoreStep != nil {
			var err error
			if f.step.Data, err = data.RestoreStep(f.step, s.StepData); err != nil {
				return err
			}
		}
	}
	in.frames[s.Path] = f
	return nil
}

// restoreUnit finds the program of a frame.
func (in *Interpreter) restoreUnit(f *frame) error {
	if in.outline == nil {
		return nil
	}
	if in.program == nil {
		o, err := in.outline(f.run.Definition)
		if err != nil {
			return err
		}
		in.program = o
	}
	if f.unit = in.program.units[f.Program]; f.unit == nil {
		return fmt.Errorf("there is no program %q", f.Program)
	}
	if f.body() {
		f.run.Program = f.unit.program
	}
	return nil
}

// restore replaces the state of the budgets by a saved one.
func (t *tracker) restore(s *savedTracker) error {
	if s == nil {
		return errors.New("budgets were not saved")
	}
	state, err := plan.Restore(s.State)
	if err != nil {
		return err
	}
	t.state, t.trackerState = *state, s.trackerState
	return nil
}

// Checkpoint is where a reader of one stream can continue.
type Checkpoint struct {
	Seq journal.Seq `json:"seq"` // of the last event
	// Event is the hash of that event: in another history it is another one.
	Event string `json:"event"`
	// Files are the lengths of the open files, by run; everything before is written.
	Files map[journal.RunID]int64 `json:"files,omitempty"`
	State json.RawMessage         `json:"state"` // of the projector
}

// eventHash returns the hash of an event.
func eventHash(e *journal.Event) (string, error) {
	body, err := journal.Encode(nil, []journal.Event{*e})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:]), nil
}

// ReadCheckpoint reads a checkpoint of a run. It returns nil if there is none, or
// if it is not one of the history that the source has.
func ReadCheckpoint(
	ctx context.Context, path string, source journal.EventReader, run journal.RunID,
) (*Checkpoint, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{}
	if json.Unmarshal(text, c) != nil || c.Seq < 1 {
		return nil, nil // a crash has cut it off
	}
	for e, err := range source.Events(ctx, run, c.Seq-1) {
		if err != nil {
			return nil, err
		}
		hash, err := eventHash(&e)
		if err != nil || hash != c.Event {
			return nil, err
		}
		return c, nil
	}
	return nil, nil
}

// WriteCheckpoint replaces the checkpoint file of a reader whose state includes everything up to an event, and returns
// its size. A crash may cut the new file off, or lose it: then the run is read from its start.
func WriteCheckpoint(
	path string, last *journal.Event, files map[journal.RunID]int64, state []byte,
) (size int, err error) {
	hash, err := eventHash(last)
	if err != nil {
		return 0, err
	}
	text, err := json.Marshal(Checkpoint{Seq: last.Seq, Event: hash, Files: files, State: state})
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return 0, err
	}
	return len(text), os.Rename(path+".new", path)
}

// CheckpointEvents is a distance of checkpoints that is read in some milliseconds.
const CheckpointEvents = 1024

// Checkpointer is a Projector that can be saved and restored.
type Checkpointer interface {
	Save() ([]byte, error)
	// Restore replaces the state of a new projector.
	Restore(state []byte) error
}

// checkpointShare is how many times the size of a checkpoint has to be written
// before the next one: all checkpoints together cost a constant share of what is
// written anyway.
const checkpointShare = 4

// CheckpointPath returns the file of a run's checkpoint.
func (w *Writer) CheckpointPath(run journal.RunID) (string, error) {
	name, err := fileName(run, w.o.Ext)
	return filepath.Join(w.o.Dir, "."+name+".checkpoint"), err
}

// Checkpoint returns the newest checkpoint of a root run; nil if there is none.
func (w *Writer) Checkpoint(ctx context.Context, run journal.RunID) (*Checkpoint, error) {
	path, err := w.CheckpointPath(run)
	if err != nil {
		return nil, err
	}
	return ReadCheckpoint(ctx, path, w.o.Source, run)
}

// checkpoint saves where a stream is, if that is due. Everything that the stream
// has made is on disk. That a checkpoint cannot be written costs time later and
// is no error.
func (w *Writer) checkpoint(s *stream) {
	if s.over || s.skip || s.seq-s.saved < w.o.CheckpointEvents || s.written < checkpointShare*s.savedSize {
		return
	}
	p, ok := s.projector.(Checkpointer)
	if !ok {
		return
	}
	if err := w.saveCheckpoint(s, p); err != nil {
		w.o.Log.Warn("checkpoint not written", "record", w.o.What, "run_id", s.Run, "error", err)
	}
}

// saveCheckpoint writes the state of a projector to a file, with the sizes of the records that it belongs to.
func (w *Writer) saveCheckpoint(s *stream, p Checkpointer) error {
	s.saved, s.written = s.seq, 0 // also after an error: not at each event
	state, err := p.Save()
	if err != nil {
		return err
	}
	files := make(map[journal.RunID]int64, len(s.files))
	for id, f := range s.files {
		files[id] = f.offset
	}
	path, err := w.CheckpointPath(s.Run)
	if err != nil {
		return err
	}
	s.savedSize, err = WriteCheckpoint(path, &s.last, files, state)
	return err
}

// restore continues a new stream at its checkpoint, if it has one.
func (w *Writer) restore(ctx context.Context, s *stream) error {
	c, err := w.Checkpoint(ctx, s.Run)
	if err != nil || c == nil {
		return err
	}
	s.ctx = ctx
	defer func() { s.ctx = nil }()
	projector := w.o.New(&s.Stream)
	p, ok := projector.(Checkpointer)
	if !ok {
		return nil
	}
	if err := p.Restore(c.State); err != nil {
		w.o.Log.Warn("checkpoint ignored", "record", w.o.What, "run_id", s.Run, "error", err)
		return nil
	}
	for id, offset := range c.Files {
		path, err := w.Path(id)
		if err != nil {
			return err
		}
		s.files[id] = &file{run: id, path: path, offset: offset, seals: w.o.Seal}
	}
	s.projector, s.seq, s.saved = projector, c.Seq, c.Seq
	return nil
}

// dropCheckpoint removes the checkpoint of a run.
func (w *Writer) dropCheckpoint(run journal.RunID) {
	if path, err := w.CheckpointPath(run); err == nil {
		os.Remove(path) // there may be none
	}
}
