package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/espalier-run/espalier/internal/auditevent"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/redact"
	"github.com/espalier-run/espalier/internal/report"
)

// Options configure a Writer.
type Options struct {
	Dir    string // storage/audit
	Source journal.Reader
	// Program returns the program of a pinned definition.
	Program func(ctx context.Context, definition string) (*ir.Program, error)
	// Files returns the files that a definition was made of; nil if they are unknown.
	Files func(ctx context.Context, definition string) ([]ir.File, error)
	// Lock is held for each group of lines; nil when no other process writes here.
	Lock report.Lock
	Log  *slog.Logger     // nil is slog.Default
	Now  func() time.Time // nil is time.Now; no line depends on it
	// CheckpointEvents is the smallest distance of checkpoints, in events; 0 is 1024.
	CheckpointEvents journal.Seq
}

// Writer writes audit logs. It is a report.Sink.
type Writer struct{ *report.Writer }

// New returns a Writer. Close it.
func New(o Options) *Writer {
	return &Writer{report.NewWriter(report.WriterOptions{
		What: "audit log", Ext: Ext, Seal: true, RecordOptions: report.RecordOptions{
			Dir: o.Dir, Source: o.Source, Program: o.Program, Lock: o.Lock, Log: o.Log, Now: o.Now,
			CheckpointEvents: o.CheckpointEvents,
		},
		New: func(s *report.Stream) report.Projector {
			p := &projector{stream: s, files: o.Files, in: report.NewInterpreter(s.Run, s.Outline).TrackBudgets()}
			p.emit = p.records
			return p
		},
	})}
}

// projector writes the records of one stream.
type projector struct {
	stream *report.Stream
	files  func(ctx context.Context, definition string) ([]ir.File, error)
	in     *report.Interpreter
	emit   func(*report.Event) error
	out    report.Output
}

// log is the audit log of one run.
type log struct {
	chain
	rules *redact.Rules
	audit *ir.Audit
}

// visit is what the notes of an open step say for its later records. Its JSON is part of checkpoints.
type visit struct {
	DoneBy  string          `json:"done_by,omitempty"`
	Missing []string        `json:"missing,omitempty"` // declared files that were not made
	Prompt  json.RawMessage `json:"prompt,omitempty"`  // of a critic
}

// noVisit is the visit of a step without notes. It is only read.
var noVisit visit

// visitOf returns the visit of a step, for reading.
func visitOf(s *report.Step) *visit {
	if v, ok := s.Data.(*visit); ok {
		return v
	}
	return &noVisit
}

// Apply implements report.Projector.
func (p *projector) Apply(e *journal.Event, out report.Output) error {
	p.out = out
	return p.in.Interpret(e, p.emit)
}

// Save implements report.Checkpointer.
func (p *projector) Save() ([]byte, error) { return p.in.Save(p.data()) }

// Restore implements report.Checkpointer.
func (p *projector) Restore(state []byte) error { return p.in.Restore(state, p.data()) }

// savedLog is the end of a log in a checkpoint.
type savedLog struct {
	Seq  int64  `json:"seq,omitempty"`
	Prev string `json:"prev,omitempty"`
}

// data encodes and decodes logs and visits.
func (p *projector) data() report.ReaderData {
	return report.ReaderData{
		Save: func(data any) (json.RawMessage, error) {
			if l, ok := data.(*log); ok {
				data = savedLog{l.seq, l.prev}
			}
			return json.Marshal(data)
		},
		RestoreRun: func(run *report.Run, raw json.RawMessage) (any, error) {
			if raw == nil {
				return nil, nil
			}
			var s savedLog
			if err := json.Unmarshal(raw, &s); err != nil {
				return nil, err
			}
			if len(s.Prev) != len(Genesis) {
				return nil, fmt.Errorf("%q is not a hash", s.Prev)
			}
			l := p.openLog(run)
			l.seq, l.prev = s.Seq, s.Prev
			return l, nil
		},
		RestoreStep: func(_ *report.Step, raw json.RawMessage) (any, error) {
			if raw == nil {
				return nil, nil
			}
			v := &visit{}
			return v, json.Unmarshal(raw, v)
		},
	}
}

// records writes the records of an event, after it has taken up the event's note. It changes a copy of the step's
// visit, because visitOf returns the shared noVisit for a step without notes.
func (p *projector) records(ev *report.Event) error {
	if ev.Note != nil {
		note := *visitOf(ev.Step)
		switch n := ev.Note; {
		case ev.Type == report.ModelPrompted:
			note.Prompt = n.Data
		case ev.Type == report.WorkerChosen && !n.Unreadable:
			note.DoneBy = report.Body[journal.DoneBy](n).By
		case ev.Type == report.FileMissing && !n.Unreadable:
			note.Missing = append(note.Missing, report.Body[journal.MissingFile](n).Path)
		}
		ev.Step.Data = &note
	}
	for _, r := range recipes[ev.Type] {
		if err := p.write(ev, &r); err != nil {
			return err
		}
	}
	return nil
}

// openLog starts the log of a run. It hides what the calling runs hide.
func (p *projector) openLog(run *report.Run) *log {
	l := &log{chain: chain{run: run.ID, parent: run.Parent, trace: p.stream.Run, prev: Genesis}}
	if run.Program != nil {
		l.audit = run.Program.Audit
	}
	l.rules = redact.ForAudits(false, run.Audits()...)
	run.Data = l
	return l
}

// wants reports whether an event is written at the audit level of the run.
func (l *log) wants(event string) bool {
	return l.audit == nil || l.audit.Level == "" || l.audit.Level == "full" || auditevent.IsStandard(event) ||
		slices.ContainsFunc(l.audit.RequiredEvents, func(name ir.Name) bool { return name.Name == event })
}

// write appends a record to the log of the event's run.
func (p *projector) write(ev *report.Event, r *recipe) error {
	name, path := r.name(ev), ""
	if name == "" {
		return nil
	}
	l, ok := ev.Run.Data.(*log)
	if !ok {
		l = p.openLog(ev.Run)
	}
	if !l.wants(name) {
		return nil
	}
	f := newFields(l.rules)
	defer f.free()
	if err := r.fill(p, ev, f); err != nil {
		return err
	}
	f.actor(ev.By)
	if ev.Step != nil {
		path = ev.Step.Path
		if ev.Step.Loop {
			f.number("iteration", int64(ev.Step.Index))
		}
	} else if ev.Type == report.CheckpointSaved {
		path = ev.Work.Step
	}
	f.text("step_id", path)
	b, err := p.out.Begin(ev.Run)
	if err != nil {
		return err
	}
	p.out.End(ev.Run, append(l.appendNext(b, name, path, ev.At, f), '\n'), ev.Type == report.RunFinished)
	return nil
}

// value adds a value of the journal, which may be stored by hash.
func (p *projector) value(f *fields, name string, v journal.Value, most int) error {
	if v.IsZero() {
		return nil
	}
	raw, err := p.stream.Value(v)
	if err != nil {
		return err
	}
	f.value(name, raw, most)
	return nil
}
