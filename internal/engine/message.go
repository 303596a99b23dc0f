package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// messages are the inputs that can be sent to a run, by the kind of their message. Messages of one release may be read
// by another one, so the kinds and the JSON names of these inputs must not change.
var messages = map[string]reflect.Type{
	"decision": reflect.TypeFor[plan.GateDecision](),
	"signal":   reflect.TypeFor[plan.Signal](),
	"cancel":   reflect.TypeFor[plan.Cancel](),
	"pause":    reflect.TypeFor[plan.Pause](),
	"continue": reflect.TypeFor[plan.Continue](),
	"raise":    reflect.TypeFor[plan.Raise](),
	"edit":     reflect.TypeFor[plan.Edit](),
	"rewind":   reflect.TypeFor[plan.Rewind](),
}

// message is the data of a journal.Message.
type message struct {
	Ref   string          `json:"ref"` // identifies the message in the answer
	Input json.RawMessage `json:"input"`
}

// EncodeMessage returns the message for an input.
func EncodeMessage(in plan.Input, ref string, at journal.Millis) (journal.Message, error) {
	for kind, typ := range messages {
		if reflect.TypeOf(in) != typ {
			continue
		}
		input, err := json.Marshal(in)
		if err != nil {
			return journal.Message{}, err
		}
		data, err := json.Marshal(message{Ref: ref, Input: input})
		return journal.Message{Kind: kind, Data: data, At: at}, err
	}
	return journal.Message{}, fmt.Errorf("engine: %T is not a message", in)
}

// DecodeMessage returns the input of a message and its ref.
func DecodeMessage(m journal.Message) (in plan.Input, ref string, err error) {
	var box message
	if err := json.Unmarshal(m.Data, &box); err != nil {
		return nil, "", fmt.Errorf("%w: inbox: %w", journal.ErrCorrupt, err)
	}
	typ, known := messages[m.Kind]
	if !known {
		return nil, box.Ref, fmt.Errorf("%w: inbox: a message of kind %q", journal.ErrCorrupt, m.Kind)
	}
	value := reflect.New(typ)
	if err := json.Unmarshal(box.Input, value.Interface()); err != nil {
		return nil, box.Ref, fmt.Errorf("%w: inbox: %w", journal.ErrCorrupt, err)
	}
	return value.Elem().Interface().(plan.Input), box.Ref, nil
}

// Check returns why a run refuses an input, as far as its events in the journal decide that.
func (c *Core) Check(ctx context.Context, id journal.RunID, in plan.Input) error {
	state, program, _, err := c.Load(ctx, id)
	if err != nil {
		return err
	}
	// A refusal is not final if the message may decide about a task whose process has died: the run learns of the loss
	// only when it is claimed.
	if err := state.Check(program, in); !state.MayHaveUnknownOutcome(in) {
		return err
	}
	return nil
}

// Hide masks secrets in an input.
func (c *Core) Hide(in plan.Input) (plan.Input, error) {
	if _, ok := in.(plan.Rewind); ok {
		return in, nil // its values come from the journal, where all secrets are masked
	}
	m, err := EncodeMessage(in, "", 0)
	if err != nil {
		return nil, err
	}
	hidden := c.Secrets.Hide(m.Data)
	if bytes.Equal(hidden, m.Data) {
		return in, nil
	}
	m.Data = hidden
	in, _, err = DecodeMessage(m)
	return in, err
}
