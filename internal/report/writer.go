package report

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
)

// Lock excludes other processes while lines are written.
type Lock interface {
	Exclusive() error
	Unlock() error
}

// RecordOptions are the options of a Writer that do not depend on the kind of record.
type RecordOptions struct {
	Dir    string
	Source journal.Reader
	// Program returns the program of a pinned definition.
	Program func(ctx context.Context, definition string) (*ir.Program, error)
	// Lock is held for each group of lines; nil when no other process writes here.
	Lock Lock
	// Skip reports whether a run has no record; nil means that all runs have one.
	Skip func(journal.RunStarted) bool
	Log  *slog.Logger     // nil is slog.Default
	Now  func() time.Time // nil is time.Now; no line depends on it
	// CheckpointEvents is the smallest distance of checkpoints, in events; 0 is 1024.
	CheckpointEvents journal.Seq
}

// WriterOptions configure a Writer.
type WriterOptions struct {
	RecordOptions
	What string // name of the record in errors: "transcript"
	Ext  string // of file names, after the run's id
	// New returns the projector of a stream.
	New func(s *Stream) Projector
	// WriteEach writes each line by a system call of its own; otherwise all
	// lines that a file gets at the same time are written together.
	WriteEach bool
	// Seal compresses all but the newest lines of a long record. OpenRecord reads it.
	Seal bool
}

// Projector turns the events of one stream into lines of the files of its runs.
// A line must be a function of the events alone, down to its bytes: this is how
// several writers agree, and how a record is rebuilt.
type Projector interface {
	// Apply writes the lines of the next event. After an error the projector is
	// discarded.
	Apply(e *journal.Event, out Output) error
}

// Output is where a Projector writes its lines.
type Output interface {
	// Begin returns the buffer to which the next line of a run's file is appended.
	Begin(run *Run) ([]byte, error)
	// End gives the buffer back, with the line and its line feed. If nothing was
	// appended, it does nothing. over reports that the line is the file's last.
	End(run *Run, b []byte, over bool)
}

// Stream is what a Projector reads besides events.
type Stream struct {
	Run     journal.RunID
	ctx     context.Context // of the current call
	outline func(ctx context.Context, definition string) (*Outline, error)
	source  journal.Reader
}

// Context returns the context of the current call.
func (s *Stream) Context() context.Context { return s.ctx }

// Outline returns the outline of a pinned definition.
func (s *Stream) Outline(definition string) (*Outline, error) { return s.outline(s.ctx, definition) }

// Value returns the JSON of a value. A value that has been lost is replaced by
// its hash, so that the rest of the record can still be written.
func (s *Stream) Value(v journal.Value) (json.RawMessage, error) {
	if v.Hash == "" {
		return v.JSON, nil
	}
	raw, err := s.source.Blob(s.ctx, v.Hash)
	if errors.Is(err, journal.ErrUnknownBlob) {
		return fmt.Appendf(nil, `{"lost":{"sha256":%q,"bytes":%d}}`, v.Hash, v.Size), nil
	}
	return raw, err
}

// Writer writes records, one file for each run. It is a Sink. Its methods may
// be called by several goroutines.
//
// It compares what a file has with what it should have, skips what is there,
// truncates a torn line, and appends the rest. Resuming, rebuilding a deleted
// file and two processes that write at the same time need nothing else. There
// is no state besides the files; the position file only says where in the
// journal to start.
type Writer struct {
	o WriterOptions

	mu         sync.Mutex
	runs       map[journal.RunID]*stream
	open       map[*file]struct{} // files with an open descriptor
	outlines   map[string]*Outline
	ticks      int64
	behind     map[journal.RunID]backlog // runs that could not be written
	maintained time.Time
	mark       int64       // value of ticks at that time
	pos        journal.Pos // everything up to here has been received
	saved      journal.Pos
	dirty      []*stream // streams with lines that are not on disk yet
	gathered   int       // bytes of these lines
}

// Limits on memory. With more runs at the same time the Writer is slower, not
// wrong: a run that is not in memory is read again.
const (
	maxRuns     = 2048
	maxResting  = 256 // runs without events since the last maintenance
	maxOpen     = 1200
	maxPending  = 256 << 10 // bytes of lines of one run that are not on disk yet
	maxGathered = 128 << 10 // the same of all runs; about a processor cache
	maxOutlines = 64
)

// stream is a run, its children and their files. It is the Output of its projector.
type stream struct {
	Stream
	w         *Writer
	projector Projector
	seq       journal.Seq    // of the last event
	began     journal.Millis // when the run has started; 0 if a checkpoint was restored
	files     map[journal.RunID]*file
	at        *file       // file of the last line
	dirty     []*file     // files with pending lines, in the order of their first
	size      int         // of these lines
	since     journal.Pos // of the first append that these lines come from
	skip      bool        // there is no record
	over      bool        // everything is written; only seq still counts
	used      int64

	last      journal.Event // the event seq
	saved     journal.Seq   // of the newest checkpoint
	savedSize int           // of that checkpoint
	written   int           // bytes of lines since then
}

// NewWriter returns a Writer. Close it.
func NewWriter(o WriterOptions) *Writer {
	o.Log = cmp.Or(o.Log, slog.Default())
	if o.Now == nil {
		o.Now = time.Now
	}
	o.CheckpointEvents = cmp.Or(o.CheckpointEvents, CheckpointEvents)
	return &Writer{
		o: o, runs: map[journal.RunID]*stream{}, open: map[*file]struct{}{},
		outlines: map[string]*Outline{}, behind: map[journal.RunID]backlog{},
	}
}

// Path returns the file of a run.
func (w *Writer) Path(run journal.RunID) (string, error) {
	name, err := fileName(run, w.o.Ext)
	return filepath.Join(w.o.Dir, name), err
}

// Remove removes the record of a run that has been deleted.
func (w *Writer) Remove(run journal.RunID) error {
	path, err := w.Path(run)
	if err != nil {
		return err
	}
	w.dropCheckpoint(run)
	var errs []error
	for _, name := range []string{path, path + sealedExt, emptyPath(path)} {
		if err := os.Remove(name); !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Omits reports whether a run has no record.
func (w *Writer) Omits(started journal.RunStarted) bool { return w.o.Skip != nil && w.o.Skip(started) }

// SetAside returns the files of a run that did not match it and were renamed.
func (w *Writer) SetAside(run journal.RunID) ([]string, error) {
	path, err := w.Path(run)
	if err != nil {
		return nil, err
	}
	all, err := filepath.Glob(path + damaged + "*")
	return slices.DeleteFunc(all, func(name string) bool { return strings.HasSuffix(name, sealedExt) }), err
}

// Record writes the lines of appends, those of each file together. Of a run that this writer has not seen from its
// start, it writes everything that is missing.
func (w *Writer) Record(ctx context.Context, appends ...journal.Appended) error {
	if len(appends) == 0 {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var t errorSummary
	if now := w.o.Now(); now.Sub(w.maintained) >= time.Second {
		t.add(w.maintain(ctx, now))
	}
	for i := range appends {
		a := &appends[i]
		s, since := w.runs[a.Run], a.Pos
		if s != nil && len(s.dirty) > 0 {
			since = s.since
		}
		if err := w.record(ctx, s, a); err != nil {
			t.add(w.fellBehind(a.Run, since, err))
		}
		if w.gathered >= maxGathered {
			t.add(w.writePending(ctx))
		}
	}
	t.add(w.writePending(ctx))
	w.pos = max(w.pos, appends[len(appends)-1].Pos)
	return t.err()
}

// backlog is what the record of a run lacks.
type backlog struct {
	since journal.Pos
	err   error // of the failed write
}

// fellBehind notes that the records of a run lack its events from pos on, and returns err. An earlier position stays.
func (w *Writer) fellBehind(run journal.RunID, pos journal.Pos, err error) error {
	if d, known := w.behind[run]; known {
		pos = min(pos, d.since)
	}
	w.behind[run] = backlog{pos, err}
	return err
}

// errorSummary collects errors. When a disk is full all runs have the same, so
// it keeps the first and counts the others.
type errorSummary struct {
	first error
	more  int
}

// add adds an error, or nil. An error like the first is not counted.
func (t *errorSummary) add(err error) {
	switch {
	case err == nil:
	case t.first == nil:
		t.first = err
	case !errors.Is(err, t.first):
		t.more++
	}
}

// err returns the first error with the number of the others.
func (t *errorSummary) err() error {
	if t.more == 0 {
		return t.first
	}
	return fmt.Errorf("%w (and %d more)", t.first, t.more)
}

// Idle does the maintenance that is due although nothing is appended.
func (w *Writer) Idle(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.maintain(ctx, w.o.Now())
}

// maintain retries what could not be written, saves the position, and closes
// files that have not been written since the last call.
func (w *Writer) maintain(ctx context.Context, now time.Time) error {
	w.maintained = now
	err := errors.Join(w.retry(ctx), w.save())
	for f := range w.open {
		if f.used <= w.mark {
			w.closeFile(f)
		}
	}
	w.forgetResting()
	w.mark = w.ticks
	return err
}

// forgetResting drops runs in which nothing happens, if there are many: they may
// wait for months, and reading them again is cheap.
func (w *Writer) forgetResting() {
	if len(w.runs) <= maxResting {
		return
	}
	var resting []*stream
	for _, s := range w.runs {
		if s.used <= w.mark {
			resting = append(resting, s)
		}
	}
	if len(resting) <= maxResting {
		return
	}
	slices.SortFunc(resting, func(a, b *stream) int { return int(a.used - b.used) })
	for _, s := range resting[:len(resting)-maxResting] {
		w.forget(s)
	}
}

// record makes the lines of an append; writePending writes them.
func (w *Writer) record(ctx context.Context, s *stream, a *journal.Appended) error {
	if len(a.Events) == 0 {
		return nil
	}
	if d, behind := w.behind[a.Run]; behind { // maintenance makes up for it
		return d.err
	}
	first, last := a.Events[0].Seq, a.Events[len(a.Events)-1].Seq
	switch {
	case s == nil && first == 1:
		s = w.newStream(a.Run)
	case s == nil, first > s.seq+1 && !s.skip:
		return w.catchUp(ctx, a.Run)
	case first == 1 && s.began != a.Events[0].At: // another run, which has the id of one that was removed
		w.forget(s)
		return w.catchUp(ctx, a.Run)
	}
	if s.skip || last <= s.seq {
		return nil
	}
	if len(s.dirty) == 0 {
		s.since = a.Pos
	}
	err := w.addLines(ctx, s, a.Events)
	if errors.Is(err, errRebuild) {
		w.warnAside(err)
		return w.catchUp(ctx, a.Run)
	}
	return err
}

// writePending writes all lines that have been made.
func (w *Writer) writePending(ctx context.Context) error {
	if len(w.dirty) == 0 {
		return nil
	}
	var t errorSummary
	var anew []*stream
	locked := w.lock()
	for _, s := range w.dirty {
		if w.runs[s.Run] != s || len(s.dirty) == 0 {
			continue
		}
		err := locked
		if err == nil {
			err = w.flush(s)
		}
		switch {
		case err == nil:
			w.checkpoint(s)
		case errors.Is(err, errRebuild):
			w.warnAside(err)
			anew = append(anew, s)
		case err != nil:
			w.forget(s)
			t.add(w.fellBehind(s.Run, s.since, w.wrapError(s.Run, err)))
		}
	}
	if locked == nil {
		t.add(w.unlock())
	}
	clear(w.dirty)
	w.dirty, w.gathered = w.dirty[:0], 0
	for _, s := range anew {
		w.forget(s)
		if err := w.catchUp(ctx, s.Run); err != nil {
			t.add(w.fellBehind(s.Run, s.since, err))
		}
	}
	return t.err()
}

// wrapError adds the kind of record and the run to an error.
func (w *Writer) wrapError(run journal.RunID, err error) error {
	return fmt.Errorf("%s of run %s: %w", w.o.What, run, err)
}

// lock excludes other processes that write the same records, if the options have a lock.
func (w *Writer) lock() error {
	if w.o.Lock == nil {
		return nil
	}
	return w.o.Lock.Exclusive()
}

// unlock releases the lock of lock.
func (w *Writer) unlock() error {
	if w.o.Lock == nil {
		return nil
	}
	return w.o.Lock.Unlock()
}

// CatchUp writes what the records of a root run and of its children lack,
// whatever the state of the files.
func (w *Writer) CatchUp(ctx context.Context, run journal.RunID) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget(w.runs[run]) // memory and checkpoint may not reflect a file that was changed
	w.dropCheckpoint(run)
	return w.catchUp(ctx, run)
}

// UnmatchedLines returns how many lines of the record of a root run follow those that its journal yields, up to the
// event with number last. It is 0 unless another process is writing, or the journal was restored from a backup: it has
// lost appends whose record survived.
func (w *Writer) UnmatchedLines(ctx context.Context, run journal.RunID, last journal.Seq) (lines int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.runs[run]; s != nil && s.seq > last {
		w.forget(s)
	}
	if c, err := w.Checkpoint(ctx, run); err != nil {
		return 0, err
	} else if c != nil && c.Seq > last {
		w.dropCheckpoint(run)
	}
	if err := w.catchUp(ctx, run); err != nil || w.runs[run] == nil || w.runs[run].files[run] == nil {
		return 0, err
	}
	at := w.runs[run].files[run]
	f, err := OpenRecord(at.path)
	if err != nil {
		return 0, err
	}
	rest := f.Part(at.offset, f.Size())
	defer rest.Close()
	for buffer := make([]byte, 64<<10); ; {
		n, err := rest.Read(buffer)
		lines += bytes.Count(buffer[:n], []byte{'\n'})
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// catchUp reads a run from the journal and completes its record. A run that has been removed has none.
func (w *Writer) catchUp(ctx context.Context, run journal.RunID) error {
	var err error
	for range 3 { // each time a file was set aside, or replaced by another process
		if err = w.read(ctx, run); !errors.Is(err, errRebuild) {
			break
		}
		w.dropCheckpoint(run)
		w.warnAside(err)
	}
	if errors.Is(err, journal.ErrUnknownRun) {
		err = nil
	}
	if err == nil {
		delete(w.behind, run)
	}
	return err
}

// warnAside logs a warning if the error says that a file has been moved aside.
func (w *Writer) warnAside(err error) {
	if aside := (*asideError)(nil); errors.As(err, &aside) {
		w.o.Log.Warn(aside.Error())
	}
}

// read applies the events after those in memory, or all of them.
func (w *Writer) read(ctx context.Context, run journal.RunID) error {
	s := w.runs[run]
	if s == nil {
		s = w.newStream(run)
		if err := w.restore(ctx, s); err != nil {
			w.forget(s)
			return err
		}
	}
	batch := make([]journal.Event, 0, 256)
	for e, err := range w.o.Source.Events(ctx, run, s.seq) {
		if err != nil {
			w.forget(s)
			return err
		}
		if batch = append(batch, e); len(batch) == cap(batch) {
			if err := w.write(ctx, s, batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
		if s.skip {
			break
		}
	}
	return w.write(ctx, s, batch)
}

// newStream adds a run to those in memory. If there are too many, it forgets the ones used least recently. Runs with
// lines that are not yet on disk stay.
func (w *Writer) newStream(run journal.RunID) *stream {
	if len(w.runs) >= maxRuns {
		var settled []*stream
		for _, s := range w.runs {
			if len(s.dirty) == 0 {
				settled = append(settled, s)
			}
		}
		for _, old := range oldest(settled, func(s *stream) int64 { return s.used }) {
			w.forget(old)
		}
	}
	s := &stream{
		Stream: Stream{Run: run, outline: w.outline, source: w.o.Source}, w: w,
		files: map[journal.RunID]*file{},
	}
	w.runs[run] = s
	return s
}

// oldest returns the least recently used half, so that the cost of sorting is
// shared by many.
func oldest[T any](all []T, used func(T) int64) []T {
	slices.SortFunc(all, func(a, b T) int { return int(used(a) - used(b)) })
	return all[:(len(all)+1)/2]
}

// forget drops what is in memory of a run; its files stay.
func (w *Writer) forget(s *stream) {
	if s == nil {
		return
	}
	for _, f := range s.files {
		w.closeFile(f)
	}
	delete(w.runs, s.Run)
}

// closeFile closes a file. It is opened again when there are more lines for it.
func (w *Writer) closeFile(f *file) {
	f.close()
	delete(w.open, f)
}

// addLines makes lines of events that have been appended; writePending writes them. After
// an error the run is dropped from memory, so that the next try starts with
// what is on disk.
func (w *Writer) addLines(ctx context.Context, s *stream, events []journal.Event) error {
	before := s.size
	if err := w.project(ctx, s, events); err != nil {
		w.forget(s)
		return w.wrapError(s.Run, err)
	}
	if before == 0 && s.size > 0 {
		w.dirty = append(w.dirty, s)
	}
	w.gathered += max(s.size-before, 0)
	return nil
}

// write makes lines of events that have been read, and writes them.
func (w *Writer) write(ctx context.Context, s *stream, events []journal.Event) error {
	err := w.project(ctx, s, events)
	if err == nil {
		err = w.flushAlone(s)
	}
	if err != nil {
		w.forget(s)
		return w.wrapError(s.Run, err)
	}
	w.checkpoint(s)
	return nil
}

// project applies events to the projector of a run. It skips events that have been applied already, so an event may be
// delivered twice.
func (w *Writer) project(ctx context.Context, s *stream, events []journal.Event) error {
	w.ticks++
	s.used = w.ticks
	s.ctx = ctx
	defer func() { s.ctx = nil }()
	if s.projector == nil && !s.over {
		s.projector = w.o.New(&s.Stream)
	}
	for i := range events {
		e := &events[i]
		if e.Seq <= s.seq {
			continue
		}
		if s.seq, s.last = e.Seq, *e; e.Seq == 1 {
			s.began = e.At
		}
		if x, ok := e.Fact.(journal.RunStarted); ok && w.o.Skip != nil && w.o.Skip(x) {
			s.skip = true
		}
		if s.skip {
			continue
		}
		if err := s.projector.Apply(e, s); err != nil {
			return err
		}
		if s.size >= maxPending {
			if err := w.flushAlone(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// file returns the file of a run, which mostly is that of the last line.
func (s *stream) file(run *Run) *file {
	if s.at == nil || s.at.run != run.ID {
		s.at = s.files[run.ID]
	}
	return s.at
}

// Begin implements Output.
func (s *stream) Begin(run *Run) ([]byte, error) {
	f := s.file(run)
	if f == nil {
		path, err := s.w.Path(run.ID)
		if err != nil {
			return nil, err
		}
		f = &file{run: run.ID, path: path, seals: s.w.o.Seal}
		s.files[run.ID] = f
	}
	return f.pending, nil
}

// End implements Output.
func (s *stream) End(run *Run, b []byte, over bool) {
	f := s.file(run)
	before := len(f.pending)
	if f.pending = b; len(b) == before {
		return
	}
	if before == 0 {
		s.dirty = append(s.dirty, f)
	}
	f.ends = append(f.ends, len(b))
	f.over = f.over || over
	s.size += len(b) - before
}

// flushAlone writes the pending lines of a stream.
func (w *Writer) flushAlone(s *stream) error {
	if len(s.dirty) == 0 {
		return nil
	}
	if err := w.lock(); err != nil {
		return err
	}
	return errors.Join(w.flush(s), w.unlock())
}

// flush writes the pending lines of a stream. The caller holds the lock.
func (w *Writer) flush(s *stream) error {
	s.written += s.size
	s.size = 0
	for _, f := range s.dirty {
		if f.f == nil && len(w.open) >= maxOpen {
			for _, old := range oldest(slices.Collect(maps.Keys(w.open)), func(f *file) int64 { return f.used }) {
				w.closeFile(old)
			}
		}
		w.ticks++
		f.used = w.ticks
		err := f.flush(w.o.WriteEach)
		if f.f != nil {
			w.open[f] = struct{}{}
		} else {
			delete(w.open, f)
		}
		if err != nil {
			return err
		}
		if f.seals && f.f != nil && f.offset >= f.sealAt {
			w.seal(f)
		}
		f.lines = lines{} // a waiting run takes little memory
		if f.over {
			w.closeFile(f)
			delete(s.files, f.run)
			s.at = nil
			s.over = s.over || f.run == s.Run
		}
	}
	s.dirty = s.dirty[:0]
	if s.over {
		s.projector, s.files, s.dirty = nil, nil, nil
	}
	return nil
}

// seal seals a file that has been flushed. That this fails costs space and is no error.
func (w *Writer) seal(f *file) {
	f.sealAt = f.offset + sealBytes
	if size, err := f.size(); err != nil || size != f.offset {
		return // another process is ahead
	}
	if err := f.seal(); err != nil {
		w.closeFile(f)
		w.o.Log.Warn("record not compressed", "record", w.o.What, "run_id", f.run, "error", err)
	}
	if f.f == nil {
		delete(w.open, f)
	}
}

// outline returns the outline of a definition. Outlines are kept in memory, because the runs of a definition share one.
func (w *Writer) outline(ctx context.Context, definition string) (*Outline, error) {
	if o := w.outlines[definition]; o != nil {
		return o, nil
	}
	p, err := w.o.Program(ctx, definition)
	if err != nil {
		return nil, err
	}
	if len(w.outlines) >= maxOutlines {
		clear(w.outlines)
	}
	o := NewOutline(p)
	w.outlines[definition] = o
	return o, nil
}

// retry writes what could not be written before.
func (w *Writer) retry(ctx context.Context) error {
	var t errorSummary
	for _, run := range slices.Sorted(maps.Keys(w.behind)) {
		if err := w.catchUp(ctx, run); err != nil {
			t.add(w.fellBehind(run, w.behind[run].since, err))
		}
	}
	return t.err()
}

// The position file says up to where in the journal every record is complete.
// Without it, or when it cannot be right, all records are compared.
const positionFile = ".position"

// Position returns the position in the journal to start from.
func (w *Writer) Position(ctx context.Context) (journal.Pos, error) {
	n, err := ReadPosition(filepath.Join(w.o.Dir, positionFile))
	if err != nil {
		return 0, err
	}
	last, err := w.o.Source.Last(ctx)
	if err != nil || n > last { // it belongs to another journal
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pos, w.saved = max(w.pos, n), n
	return n, nil
}

// save writes the position file.
func (w *Writer) save() error {
	pos := w.pos
	for _, d := range w.behind {
		pos = min(pos, d.since-1)
	}
	if pos == w.saved {
		return nil
	}
	if err := os.Mkdir(w.o.Dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := WritePosition(filepath.Join(w.o.Dir, positionFile), pos); err != nil {
		return err
	}
	w.saved = pos
	return nil
}

// ReadPosition reads a position file. It returns 0 if the file is missing or a
// crash has left it unreadable.
func ReadPosition(path string) (journal.Pos, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n < 0 {
		return 0, nil
	}
	return journal.Pos(n), nil
}

// WritePosition writes a position file. All positions have the same length and
// overwrite each other: some systems sync a file that is truncated first.
func WritePosition(path string, pos journal.Pos) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(fmt.Appendf(nil, "%020d\n", pos), 0)
	return errors.Join(err, f.Close())
}

// Close retries what could not be written and closes all files. It may be
// called again.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := errors.Join(w.retry(context.Background()), w.save())
	for _, s := range w.runs {
		w.forget(s)
	}
	return err
}

// Derive calls line for each line of the records of a root run and of its
// children from the journal, whatever is on disk. line must not keep its
// argument. applied, if it is not nil, is called after the lines of each event.
func (w *Writer) Derive(
	ctx context.Context, run journal.RunID, line func(run *Run, line []byte) error, applied func(journal.Seq),
) error {
	out := &derived{line: line}
	p := w.o.New(&Stream{Run: run, ctx: ctx, outline: func(ctx context.Context, definition string) (*Outline, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.outline(ctx, definition)
	}, source: w.o.Source})
	for e, err := range w.o.Source.Events(ctx, run, 0) {
		if err == nil {
			err = p.Apply(&e, out)
		}
		if err = cmp.Or(err, out.err); err != nil {
			return w.wrapError(run, err)
		}
		if applied != nil {
			applied(e.Seq)
		}
	}
	return nil
}

// derived is an Output that passes each line on.
type derived struct {
	line   func(run *Run, line []byte) error
	buffer []byte
	err    error
}

// Begin returns the buffer for the lines of a run, which each event uses again.
func (d *derived) Begin(*Run) ([]byte, error) { return d.buffer[:0], d.err }

// End passes the lines of an event on. After an error it passes nothing.
func (d *derived) End(run *Run, b []byte, _ bool) {
	if d.buffer = b; len(b) > 0 && d.err == nil {
		d.err = d.line(run, b)
	}
}
