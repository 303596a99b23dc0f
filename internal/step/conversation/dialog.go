package conversation

import (
	"encoding/json"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/chat"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

// turn is one turn of a dialog: what it adds to the conversation, and what it cost. A run stores
// each turn once.
type turn struct {
	Messages  []provider.Message `json:"messages,omitempty"`
	Reply     string             `json:"reply,omitempty"`
	Session   chat.Session       `json:"session,omitzero"`
	Input     int64              `json:"input,omitempty"`
	Output    int64              `json:"output,omitempty"`
	Estimated bool               `json:"estimated,omitempty"`
}

// dialog is a conversation with a person, up to their latest text.
type dialog struct {
	turn     // the sum of the earlier turns
	messages []provider.Message
	session  chat.Session
	said     string
	turns    int
}

// readDialog reads the earlier turns and the person's text.
func (s settings) readDialog(job *step.Job) (dialog, error) {
	var d dialog
	var turns []turn
	for _, r := range job.Reads {
		var err error
		switch r.Path {
		case "turns." + s.Dialog:
			err = json.Unmarshal(r.Value, &turns)
		case "said." + s.Dialog:
			err = json.Unmarshal(r.Value, &d.said)
		}
		if err != nil {
			return d, step.Errorf(ir.ClassInput, "the conversation of step %q cannot be read: %v", s.Dialog, err)
		}
	}
	d.said = strings.TrimSpace(d.said)
	d.turns = len(turns)
	for _, t := range turns {
		d.messages, d.session, d.Reply = append(d.messages, t.Messages...), t.Session, t.Reply
		d.Input, d.Output, d.Estimated = d.Input+t.Input, d.Output+t.Output, d.Estimated || t.Estimated
	}
	return d, nil
}

// addTurn adds to the state of a turn what the turns before it used. The conversation waits for
// the person's next text, unless this was its last turn.
func (s settings) addTurn(out *state, before *dialog, transcript *chat.Transcript) {
	messages := textMessages(transcript.Messages)
	out.Turns = []turn{{
		Messages: messages[min(len(before.messages), len(messages)):], Session: transcript.Session, Reply: out.Output,
		Input: out.TokensInput, Output: out.TokensOutput, Estimated: out.Estimated,
	}}
	out.charge(before)
	if s.MaxTurns == 0 || before.turns+1 < s.MaxTurns {
		out.Status, out.Conversation, out.Session = kinds.StateWaiting, nil, chat.Session{}
	}
}

// ended returns the state of a conversation that the person has ended.
func (s settings) ended(d *dialog) state {
	reply := step.JSON(d.Reply)
	if s.Format == "json" {
		reply = json.RawMessage(d.Reply)
	}
	out := s.state(reply, &chat.Transcript{Messages: d.messages, Session: d.session})
	out.Turns = []turn{}
	out.charge(d)
	return out
}

// charge adds what earlier turns used.
func (s *state) charge(d *dialog) {
	s.TokensInput, s.TokensOutput = s.TokensInput+d.Input, s.TokensOutput+d.Output
	s.TokensUsed, s.Estimated = s.TokensInput+s.TokensOutput, s.Estimated || d.Estimated
}
