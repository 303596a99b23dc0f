package otel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/redact"
	"github.com/espalier-run/espalier/internal/report"
)

// savedTracer is a Tracer between two events.
type savedTracer struct {
	Open   json.RawMessage `json:"open"` // what the interpreter has open
	Origin *Link           `json:"origin,omitempty"`
}

// savedOpen is an openRun or an openStep.
type savedOpen struct {
	ID       SpanID     `json:"id"`
	Events   []byte     `json:"events,omitempty"` // a span with the events
	Attempts int        `json:"attempts,omitempty"`
	Method   string     `json:"method,omitempty"`
	Task     *savedTask `json:"task,omitempty"`
}

// savedTask is an openTask. Actors are numbers of Actors; the first ones are those of who.
type savedTask struct {
	Work   journal.Work         `json:"work"`
	Actors []savedActor         `json:"actors"`
	Who    int                  `json:"who"`
	Held   map[int]savedHold    `json:"held,omitempty"`
	Wait   journal.Millis       `json:"wait,omitempty"`
	Tools  map[string]savedTool `json:"tools,omitempty"`
	Spans  []SpanID             `json:"spans,omitempty"`
	Last   journal.Millis       `json:"last"`
}

type savedActor struct {
	ID      SpanID         `json:"id"`
	Parent  SpanID         `json:"parent"`
	At      journal.Millis `json:"at"`
	Key     string         `json:"key,omitempty"`
	Name    string         `json:"name,omitempty"`
	Role    string         `json:"role,omitempty"`
	Model   string         `json:"model,omitempty"`
	HasSpan bool           `json:"has_span,omitempty"`
	Used    journal.Usage  `json:"used"`
	System  string         `json:"system,omitempty"`
	Asked   []message      `json:"asked,omitempty"`
}

type savedHold struct {
	Seq    journal.Seq    `json:"seq"`
	At     journal.Millis `json:"at"`
	Amount journal.Usage  `json:"amount"`
	Actor  int            `json:"actor"`
}

type savedTool struct {
	ID    SpanID          `json:"id"`
	At    journal.Millis  `json:"at"`
	Actor int             `json:"actor"`
	Use   journal.ToolUse `json:"use"`
}

// Save encodes the state of the Tracer.
func (t *Tracer) Save() ([]byte, error) {
	open, err := t.in.Save(report.ReaderData{Save: func(data any) (json.RawMessage, error) {
		switch x := data.(type) {
		case *openRun:
			events, err := saveEvents(x.events)
			if err != nil {
				return nil, err
			}
			return encodeOpen(&savedOpen{ID: x.id, Events: events})
		case *openStep:
			events, err := saveEvents(x.events)
			if err != nil {
				return nil, err
			}
			return encodeOpen(&savedOpen{
				ID: x.id, Events: events, Attempts: x.attempts, Method: x.method, Task: x.task.save(),
			})
		}
		return nil, fmt.Errorf("unknown data %T", data)
	}})
	if err != nil {
		return nil, err
	}
	return json.Marshal(savedTracer{Open: open, Origin: t.origin})
}

// Restore replaces the state of a new Tracer by what Save has encoded.
func (t *Tracer) Restore(raw []byte) error {
	var saved savedTracer
	if err := json.Unmarshal(raw, &saved); err != nil {
		return err
	}
	t.origin = saved.Origin
	return t.in.Restore(saved.Open, report.ReaderData{
		RestoreRun: func(run *report.Run, raw json.RawMessage) (any, error) {
			if raw == nil {
				return nil, nil
			}
			saved, events, err := restoreOpen(raw)
			if err != nil {
				return nil, err
			}
			open := &openRun{id: saved.ID, events: events}
			if t.o.Content {
				open.rules = redact.Of(true, run.Audits()...)
			}
			return open, nil
		},
		RestoreStep: func(step *report.Step, raw json.RawMessage) (any, error) {
			if raw == nil {
				return nil, nil
			}
			saved, events, err := restoreOpen(raw)
			if err != nil {
				return nil, err
			}
			open := &openStep{id: saved.ID, events: events, attempts: saved.Attempts, method: saved.Method}
			if saved.Task != nil {
				open.task, err = saved.Task.restore(step)
			}
			return open, err
		},
	})
}

// encodeOpen encodes as a string of bytes: what a tool has received must not be escaped another time.
func encodeOpen(open *savedOpen) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(open); err != nil {
		return nil, err
	}
	return json.Marshal(b.Bytes())
}

func restoreOpen(raw []byte) (saved savedOpen, events []*tracepb.Span_Event, err error) {
	var encoded []byte
	var span tracepb.Span
	if err = json.Unmarshal(raw, &encoded); err == nil {
		err = json.Unmarshal(encoded, &saved)
	}
	if err == nil {
		err = proto.Unmarshal(saved.Events, &span)
	}
	return saved, span.Events, err
}

func saveEvents(events []*tracepb.Span_Event) ([]byte, error) {
	return proto.Marshal(&tracepb.Span{Events: events})
}

// save returns nil for no task.
func (k *openTask) save() *savedTask {
	if k == nil {
		return nil
	}
	out := &savedTask{
		Work: k.work, Who: len(k.who), Wait: k.wait, Last: k.last, Spans: slices.Collect(maps.Keys(k.spans)),
		Held: map[int]savedHold{}, Tools: map[string]savedTool{},
	}
	numbers := map[*actor]int{}
	number := func(a *actor) int {
		if _, known := numbers[a]; !known {
			numbers[a] = len(out.Actors)
			out.Actors = append(out.Actors, savedActor{
				ID: a.id, Parent: a.parent, At: a.at, Key: a.key, Name: a.name, Role: a.role, Model: a.model,
				HasSpan: a.hasSpan, Used: a.used, System: a.system, Asked: a.asked,
			})
		}
		return numbers[a]
	}
	for _, a := range k.who {
		number(a)
	}
	for n, h := range k.held {
		out.Held[n] = savedHold{h.seq, h.at, h.amount, number(h.who)}
	}
	for id, tool := range k.tools {
		out.Tools[id] = savedTool{tool.id, tool.at, number(tool.who), tool.use}
	}
	return out
}

func (s *savedTask) restore(step *report.Step) (*openTask, error) {
	var actors []*actor
	for _, a := range s.Actors {
		actors = append(actors, &actor{
			id: a.ID, parent: a.Parent, at: a.At, key: a.Key, name: a.Name, role: a.Role, model: a.Model,
			hasSpan: a.HasSpan, used: a.Used, system: a.System, asked: a.Asked,
		})
	}
	if s.Who < 1 || s.Who > len(actors) {
		return nil, fmt.Errorf("a task has %d actors of %d", s.Who, len(actors))
	}
	out := &openTask{
		work: s.Work, step: step, who: actors[:s.Who:s.Who], wait: s.Wait, last: s.Last,
		held: map[int]hold{}, tools: map[string]openTool{}, spans: map[SpanID]bool{},
	}
	for n, h := range s.Held {
		if h.Actor < 0 || h.Actor >= len(actors) {
			return nil, fmt.Errorf("there is no actor %d", h.Actor)
		}
		out.held[n] = hold{h.Seq, h.At, h.Amount, actors[h.Actor]}
	}
	for id, tool := range s.Tools {
		if tool.Actor < 0 || tool.Actor >= len(actors) {
			return nil, fmt.Errorf("there is no actor %d", tool.Actor)
		}
		out.tools[id] = openTool{tool.ID, tool.At, actors[tool.Actor], tool.Use}
	}
	for _, id := range s.Spans {
		out.spans[id] = true
	}
	return out, nil
}

// restore continues a stream at its checkpoint, if it has one. Everything before the checkpoint has been delivered.
func (x *Exporter) restore(s *stream) error {
	c, err := report.ReadCheckpoint(x.ctx, x.ledger.checkpoint(s.run), x.o.Source, s.run)
	if err != nil || c == nil || c.Seq > min(s.done.Spans, s.done.Metrics) {
		return err
	}
	tracer := x.newTracer(s.run)
	if tracer.Restore(c.State) == nil { // otherwise the run is read from its start
		s.tracer, s.seq, s.kept = tracer, c.Seq, c.Seq
	}
	return nil
}

// keep saves a checkpoint of a stream of which everything has been delivered, if that is due. That it cannot be saved
// costs time later and is no error.
func (x *Exporter) keep(s *stream) {
	if s.finished || s.seq-s.kept < report.CheckpointEvents || !x.clean(s) {
		return
	}
	s.kept = s.seq // also after an error: not at each delivery
	state, err := s.tracer.Save()
	if err != nil {
		return
	}
	if c, err := report.NewCheckpoint(&s.last, state); err == nil {
		_ = x.ledger.alone(func() error {
			_, err := c.Write(x.ledger.checkpoint(s.run))
			return err
		})
	}
}
