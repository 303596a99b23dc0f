package otel

import (
	"encoding/json"
	"errors"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/espalier-run/espalier/internal/redact"
	"github.com/espalier-run/espalier/internal/report"
)

// savedTracer is a Tracer between two events.
type savedTracer struct {
	Open   json.RawMessage `json:"open"` // what the interpreter has open
	Origin *Link           `json:"origin,omitempty"`
}

// Save encodes the state of the Tracer.
func (t *Tracer) Save() ([]byte, error) {
	open, err := t.in.Save(report.ReaderData{Save: encodeOpen})
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
			open, err := decodeOpen[openRun](raw)
			if open == nil || err != nil {
				return nil, err
			}
			if t.o.Content {
				open.rules = redact.ForAudits(true, run.Audits()...)
			}
			return open, nil
		},
		RestoreStep: func(step *report.Step, raw json.RawMessage) (any, error) {
			open, err := decodeOpen[openStep](raw)
			if open == nil || err != nil {
				return nil, err
			}
			return open, open.Task.restore(step)
		},
	})
}

// encodeOpen encodes as a string of bytes: what a tool has received must not be escaped another time.
func encodeOpen(open any) (json.RawMessage, error) { return json.Marshal([]byte(encoded(open))) }

// decodeOpen returns nil if there is nothing to decode.
func decodeOpen[T any](raw json.RawMessage) (open *T, err error) {
	if raw == nil {
		return nil, nil
	}
	var text []byte
	if err = json.Unmarshal(raw, &text); err == nil {
		err = json.Unmarshal(text, &open)
	}
	return open, err
}

// restore completes a decoded task: whatever belongs to one actor refers to the same one again.
func (k *openTask) restore(step *report.Step) error {
	if k == nil {
		return nil
	}
	k.step = step
	complete := len(k.Who) > 0 && k.Held != nil && k.Tools != nil
	actors := map[SpanID]*actor{}
	same := func(a *actor) *actor {
		switch {
		case a == nil:
			complete = false
			return nil
		case actors[a.ID] == nil:
			actors[a.ID] = a
		}
		return actors[a.ID]
	}
	for i, a := range k.Who {
		k.Who[i] = same(a)
	}
	for n, h := range k.Held {
		h.Who = same(h.Who)
		k.Held[n] = h
	}
	for id, tool := range k.Tools {
		tool.Who = same(tool.Who)
		k.Tools[id] = tool
	}
	if !complete {
		return errors.New("a task is incomplete")
	}
	return nil
}

// spanEvents are the events of a span that has not ended. In JSON, they are a protobuf message.
type spanEvents []*tracepb.Span_Event

// MarshalJSON implements json.Marshaler.
func (e spanEvents) MarshalJSON() ([]byte, error) {
	raw, err := proto.Marshal(&tracepb.Span{Events: e})
	if err != nil {
		return nil, err
	}
	return json.Marshal(raw)
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *spanEvents) UnmarshalJSON(text []byte) error {
	var raw []byte
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	var span tracepb.Span
	err := proto.Unmarshal(raw, &span)
	*e = span.Events
	return err
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
	_ = x.ledger.exclusively(func() error {
		_, err := report.WriteCheckpoint(x.ledger.checkpoint(s.run), &s.last, nil, state)
		return err
	})
}
