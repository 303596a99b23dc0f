package engine

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// The kinds of messages in a run's inbox: what people may say to a run.
const (
	msgDecision = "decision"
	msgSignal   = "signal"
	msgCancel   = "cancel"
	msgPause    = "pause"
	msgContinue = "continue"
	msgRaise    = "raise"
	msgEdit     = "edit"
	msgRewind   = "rewind"
)

// message is an input on its way to the owner of a run.
type message struct {
	Ref   string          `json:"ref"` // names the message in the answer
	Input json.RawMessage `json:"input"`
}

func encodeMessage(in plan.Input, ref string, at journal.Millis) (journal.Message, error) {
	var kind string
	switch in.(type) {
	case plan.Decision:
		kind = msgDecision
	case plan.Signal:
		kind = msgSignal
	case plan.Cancel:
		kind = msgCancel
	case plan.Pause:
		kind = msgPause
	case plan.Continue:
		kind = msgContinue
	case plan.Raise:
		kind = msgRaise
	case plan.Edit:
		kind = msgEdit
	case plan.Rewind:
		kind = msgRewind
	default:
		return journal.Message{}, fmt.Errorf("engine: a %T does not go through an inbox", in)
	}
	input, err := json.Marshal(in)
	if err != nil {
		return journal.Message{}, err
	}
	data, err := json.Marshal(message{Ref: ref, Input: input})
	if err != nil {
		return journal.Message{}, err
	}
	return journal.Message{Kind: kind, Data: data, At: at}, nil
}

func decodeMessage(m journal.Message) (in plan.Input, ref string, err error) {
	var box message
	if err := json.Unmarshal(m.Data, &box); err != nil {
		return nil, "", fmt.Errorf("%w: inbox: %w", journal.ErrCorrupt, err)
	}
	switch m.Kind {
	case msgDecision:
		in, err = decodeInput[plan.Decision](box.Input)
	case msgSignal:
		in, err = decodeInput[plan.Signal](box.Input)
	case msgCancel:
		in, err = decodeInput[plan.Cancel](box.Input)
	case msgPause:
		in, err = decodeInput[plan.Pause](box.Input)
	case msgContinue:
		in, err = decodeInput[plan.Continue](box.Input)
	case msgRaise:
		in, err = decodeInput[plan.Raise](box.Input)
	case msgEdit:
		in, err = decodeInput[plan.Edit](box.Input)
	case msgRewind:
		in, err = decodeInput[plan.Rewind](box.Input)
	default:
		err = fmt.Errorf("%w: inbox: a message of kind %q", journal.ErrCorrupt, m.Kind)
	}
	return in, box.Ref, err
}

// hide takes the values of secrets out of what somebody says to a run.
func (e *Engine) hide(in plan.Input) (plan.Input, error) {
	if _, ok := in.(plan.Rewind); ok {
		return in, nil // what it carries comes from the journal, where everything is hidden
	}
	m, err := encodeMessage(in, "", 0)
	if err != nil {
		return nil, err
	}
	hidden := e.Secrets.Hide(m.Data)
	if bytes.Equal(hidden, m.Data) {
		return in, nil
	}
	m.Data = hidden
	in, _, err = decodeMessage(m)
	return in, err
}

func decodeInput[T plan.Input](raw json.RawMessage) (plan.Input, error) {
	var in T
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, fmt.Errorf("%w: inbox: %w", journal.ErrCorrupt, err)
	}
	return in, nil
}
