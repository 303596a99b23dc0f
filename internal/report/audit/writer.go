package audit

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/report/redact"
)

// Options are what a Writer works with.
type Options struct {
	Dir    string // storage/audit
	Source report.Source
	// Program gives the program of a definition that a run has pinned.
	Program func(ctx context.Context, definition string) (*ir.Program, error)
	// Files lists the files that went into a definition; nil is none.
	Files func(ctx context.Context, definition string) ([]ir.File, error)
	// Lock is taken for each group of lines; nil when no other process writes here.
	Lock report.Lock
	Log  *slog.Logger     // nil is slog.Default
	Now  func() time.Time // nil is time.Now; no line depends on it
}

// Writer writes audit logs. It is a report.Sink.
type Writer struct{ *report.Writer }

// New makes a Writer. Close it.
func New(o Options) *Writer {
	return &Writer{report.NewWriter(report.WriterOptions{
		What: "audit log", Dir: o.Dir, Ext: Ext, Source: o.Source, Program: o.Program, Lock: o.Lock, Log: o.Log, Now: o.Now,
		New: func(s *report.Stream) report.Projector {
			p := &projector{
				stream: s, files: o.Files, trail: report.NewTrail(s.Run, s.Outline), state: &plan.State{Run: s.Run},
			}
			p.gather = func(m *report.Moment) { p.moments = append(p.moments, *m) }
			return p
		},
	})}
}

// projector makes the records of one stream.
type projector struct {
	stream *report.Stream
	files  func(ctx context.Context, definition string) ([]ir.File, error)
	trail  *report.Trail
	state  *plan.State
	out    report.Output

	// What the next event needs, too.
	gather  func(*report.Moment)
	moments []report.Moment
	event   [1]journal.Event
	fields  fields

	started  journal.RunStarted
	opened   journal.FrameOpened // the last one
	waiting  bool                // the run is at rest
	since    journal.Millis
	newOwner string // who took the run over while it was at rest
	cause    string // what may have made it go on
}

// log is the audit log of one run.
type log struct {
	*chain
	rules *redact.Rules
	audit *ir.Audit
	steps int // of its body, that are complete
}

// logOf is the log of a run; nil before it begins, and when it is over.
func logOf(run *report.Run) *log {
	l, _ := run.Own.(*log)
	return l
}

// visit is what is known of a step that is open.
type visit struct {
	attempts int
	doneBy   string
	missing  []string // files that nobody made
	agent    string
	prompt   json.RawMessage // what a critic was asked
	opened   *journal.GateOpened
	at       journal.Millis // when the gate opened
}

// Take implements report.Projector.
func (p *projector) Take(e *journal.Event, out report.Output) error {
	p.out = out
	if x, ok := e.Fact.(journal.RunStarted); ok {
		p.started = x
	}
	before := p.trail.StepOf(e.Fact)
	p.moments = p.moments[:0]
	if err := p.trail.Take(e, p.gather); err != nil {
		return err
	}
	p.event[0] = *e
	p.state.Fold(p.event[:])
	// A run that goes on has been resumed before anything is done in it, but
	// after the decision that let it.
	why := cause(e.Fact)
	if why != "" {
		p.cause = why
	} else if err := p.resumed(e); err != nil {
		return err
	}
	if err := p.ahead(e, before); err != nil {
		return err
	}
	for i := range p.moments {
		if err := p.moment(e, &p.moments[i]); err != nil {
			return err
		}
	}
	if err := p.behind(e); err != nil {
		return err
	}
	if why != "" {
		if err := p.resumed(e); err != nil {
			return err
		}
	}
	return p.suspended(e)
}

func (p *projector) visit(s *report.Step) *visit {
	v, ok := s.Own.(*visit)
	if !ok {
		v = &visit{}
		s.Own = v
	}
	return v
}

// begin makes the log of a run. What the runs around it hide, it hides too.
func (p *projector) begin(run *report.Run) *log {
	l := &log{chain: newChain(run.ID, run.Parent, p.stream.Run)}
	if run.Program != nil {
		l.audit = run.Program.Audit
	}
	l.rules = redact.Of(false, run.Audits()...)
	run.Own = l
	return l
}

// wants tells whether an event is written at the audit level of the run (F44).
func (l *log) wants(event string) bool {
	if l.audit == nil || l.audit.Level == "" || l.audit.Level == "full" || standard[event] {
		return true
	}
	for _, name := range l.audit.RequiredEvents {
		if name.Name == event {
			return true
		}
	}
	return false
}

// write writes a record into a run's file.
func (p *projector) write(run *report.Run, step *report.Step, event string, at journal.Millis, fill func(f *fields) error) error {
	l := logOf(run)
	if l == nil {
		l = p.begin(run)
	}
	if !l.wants(event) {
		return nil
	}
	f, path := &p.fields, ""
	f.reset(l.rules)
	if err := fill(f); err != nil {
		return err
	}
	if step != nil {
		path = step.Path
		if step.Loop {
			f.number("iteration", int64(step.Index))
		}
		f.text("step_id", path)
	}
	b, err := p.out.Begin(run)
	if err != nil {
		return err
	}
	b = l.append(b, event, path, at, f)
	over := event == RunComplete || event == RunFailed
	p.out.End(run, append(b, '\n'), over)
	if over {
		run.Own = nil
	}
	return nil
}

// value is the content of a value of the journal.
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
