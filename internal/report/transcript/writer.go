package transcript

import (
	"encoding/json"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/redact"
	"github.com/espalier-run/espalier/internal/report"
)

// Options configure a Writer; Dir is storage/transcripts.
type Options = report.RecordOptions

// Writer writes transcripts. It is a report.Sink.
type Writer = report.Writer

// New returns a Writer. Close it.
func New(o Options) *Writer {
	return report.NewWriter(report.WriterOptions{
		RecordOptions: o, What: "transcript", Ext: ".jsonl", WriteEach: true,
		New: func(s *report.Stream) report.Projector {
			p := &projector{in: report.NewInterpreter(s.Run, s.Outline), enc: encoder{value: s.Value}}
			p.emit = p.write
			return p
		},
	})
}

// projector encodes the events of one stream.
type projector struct {
	in   *report.Interpreter
	enc  encoder
	emit func(*report.Event) error
	out  report.Output
}

// Save implements report.Checkpointer.
func (p *projector) Save() ([]byte, error) { return p.in.Save(positions) }

// Restore implements report.Checkpointer.
func (p *projector) Restore(state []byte) error { return p.in.Restore(state, positions) }

// positions encodes and decodes the ends of files and the attempts of open steps.
var positions = report.ReaderData{
	Save: func(data any) (json.RawMessage, error) {
		if at, ok := data.(*position); ok {
			return json.Marshal(at.seq)
		}
		return json.Marshal(data.(attempts))
	},
	RestoreRun: func(run *report.Run, raw json.RawMessage) (any, error) {
		if raw == nil {
			return nil, nil
		}
		at := newPosition(run)
		return at, json.Unmarshal(raw, &at.seq)
	},
	RestoreStep: func(_ *report.Step, raw json.RawMessage) (any, error) {
		if raw == nil {
			return nil, nil
		}
		var seen attempts
		err := json.Unmarshal(raw, &seen)
		return seen, err
	},
}

// newPosition returns the start of a file, with the redaction rules of its run.
func newPosition(run *report.Run) *position {
	return &position{rules: redact.ForAudits(false, run.Audits()...)}
}

// position is the end of a file.
type position struct {
	seq int64 // of the last line
	// rules are those of the workflow and of its callers.
	rules *redact.Rules
}

// Apply implements report.Projector.
func (p *projector) Apply(e *journal.Event, out report.Output) error {
	p.out = out
	return p.in.Interpret(e, p.emit)
}

// write writes the line of an event, if a transcript has one for it.
func (p *projector) write(ev *report.Event) error {
	t := types[ev.Type]
	if t == "" || !pairs(ev) {
		return nil // a transcript does not have it
	}
	f, ok := ev.Run.Data.(*position)
	if !ok {
		f = newPosition(ev.Run)
		ev.Run.Data = f
	}
	if ev.Type == report.ModelStreamed && f.rules != nil {
		return nil // a match can be split over chunks; the reply follows as a whole
	}
	b, err := p.out.Begin(ev.Run)
	if err != nil {
		return err
	}
	f.seq++
	if b, err = p.enc.appendLine(b, t, f.seq, f.rules, ev); err != nil {
		return err
	}
	p.out.End(ev.Run, b, ev.Type == report.RunFinished)
	return nil
}

// attempts is the state of a step's attempts according to its lines so far.
type attempts struct {
	Last  int  `json:"last"` // the last one that has started
	Ended bool `json:"ended,omitempty"`
}

// pairs reports whether a line for the event keeps the lines of attempts in pairs: StepStarted and
// StepFinished are the start of the first attempt and the end of the last one. A step that ends
// between two attempts has no line for that.
func pairs(ev *report.Event) bool {
	if ev.Step == nil {
		return true
	}
	seen, _ := ev.Step.Data.(attempts)
	switch ev.Type {
	case report.StepRetrying:
		x, ok := ev.Fact.(journal.RetrySet)
		if !ok || x.Continues || ev.Outcome == "" || len(x.Branches) > 0 { // steps of frames have one pair
			return false
		}
		seen.Ended = true
	case report.TaskStarted:
		if ev.Work.Attempt <= seen.Last {
			return false // the first attempt, or one that runs again after a crash
		}
		seen = attempts{Last: ev.Work.Attempt}
	case report.StepFinished:
		return !seen.Ended
	default:
		return true
	}
	ev.Step.Data = seen
	return true
}
