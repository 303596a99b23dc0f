package transcript

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
)

// Options are what a Writer works with.
type Options struct {
	Dir    string // storage/transcripts
	Source report.Source
	// Program gives the program of a definition that a run has pinned.
	Program func(ctx context.Context, definition string) (*ir.Program, error)
	// Lock is taken for each group of lines; nil when no other process writes here.
	Lock report.Lock
	// Skip tells which runs are to have no transcript; nil is none of them.
	Skip func(journal.RunStarted) bool
	Log  *slog.Logger     // nil is slog.Default
	Now  func() time.Time // nil is time.Now; no line depends on it
}

// Writer writes transcripts. It is a report.Sink.
type Writer struct {
	*report.Writer
	fan *FanOut
}

// New makes a Writer. Close it.
func New(o Options) *Writer {
	w := &Writer{fan: NewFanOut(o.Log, o.Now)}
	w.Writer = report.NewWriter(report.WriterOptions{
		What: "transcript", Dir: o.Dir, Ext: ".jsonl", Source: o.Source, Program: o.Program, Lock: o.Lock, Skip: o.Skip,
		WriteEach: true, Written: w.written, Log: o.Log, Now: o.Now,
		New: func(s *report.Stream) report.Projector {
			p := &projector{
				trail: report.NewTrail(s.Run, s.Outline), enc: encoder{value: s.Value},
			}
			p.emit = p.line
			return p
		},
	})
	return w
}

// FanOut gives events to live subscribers, each after it is on disk.
func (w *Writer) FanOut() *FanOut { return w.fan }

func (w *Writer) written(run journal.RunID, line []byte) {
	if !w.fan.Wanted(run) {
		return
	}
	if e, err := Decode(line); err == nil {
		e.Payload = slices.Clone(e.Payload)
		w.fan.Publish(e)
	}
}

// Close closes the files and ends all subscriptions. Closing again does nothing.
func (w *Writer) Close() error {
	err := w.Writer.Close()
	w.fan.Close()
	return err
}

// projector makes the lines of one stream.
type projector struct {
	trail *report.Trail
	enc   encoder

	// Of the event that is being taken.
	emit   func(*report.Moment)
	out    report.Output
	failed error
}

// position is how far a file has come.
type position struct {
	head string // what all lines have behind their seq
	seq  int64  // of the last line
}

// Take implements report.Projector.
func (p *projector) Take(e *journal.Event, out report.Output) error {
	p.out, p.failed = out, nil
	err := p.trail.Take(e, p.emit)
	p.out = nil
	return cmp.Or(p.failed, err)
}

func (p *projector) line(m *report.Moment) {
	if p.failed == nil {
		p.failed = p.write(m)
	}
}

func (p *projector) write(m *report.Moment) error {
	f, ok := m.Run.Own.(*position)
	if !ok {
		f = &position{head: head(m.Run)}
		m.Run.Own = f
	}
	b, err := p.out.Begin(m.Run)
	if err != nil {
		return err
	}
	before := len(b)
	if b, err = p.enc.appendLine(b, f.seq+1, f.head, m); err != nil {
		return err
	}
	if len(b) > before {
		f.seq++
	}
	over := m.What == report.RunEnded
	p.out.End(m.Run, b, over)
	return nil
}

func head(run *report.Run) string {
	b := journal.AppendString([]byte(`,"run_id":`), string(run.ID))
	if run.Parent != "" {
		b = append(b, `,"parent_run_id":`...)
		b = journal.AppendString(b, string(run.Parent))
	}
	return string(b)
}
