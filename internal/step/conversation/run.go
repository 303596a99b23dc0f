package conversation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/chat"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

// state is the result of the step.
type state struct {
	kinds.State
	Response     json.RawMessage    `json:"Response"`
	JSON         json.RawMessage    `json:"JSON,omitempty"`
	TokensUsed   int64              `json:"TokensUsed"`
	TokensInput  int64              `json:"TokensInput"`
	TokensOutput int64              `json:"TokensOutput"`
	Estimated    bool               `json:"TokensEstimated"`
	Conversation []provider.Message `json:"Conversation,omitempty"`
	Session      chat.Session       `json:"Session,omitzero"`
	Turns        []turn             `json:"Turns,omitzero"` // that a task adds to a dialog
}

// Runner runs tasks of kind "conversation".
type Runner struct {
	chat.Base[kinds.Conversation, settings]
}

type settings kinds.ConversationSettings

var _ step.Settings = settings{}

// Run sends the prompt and returns the reply.
func (s settings) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	ask, _ := kinds.ConversationSettings(s).Ask(job.Workflow)
	c, err := chat.NewConversation(job, &ask)
	if err != nil {
		return step.Result{}, err
	}
	values := job.Values()
	var d dialog
	if s.Reply {
		if d, err = s.readDialog(job); err != nil {
			return step.Result{}, err
		}
		if d.said == "" {
			return step.Result{Value: step.JSON(s.ended(&d))}, nil
		}
	}
	prompt, system := d.said, s.System
	if !s.Reply {
		parts, err := job.FillParts(s.Prompt, values)
		if err != nil {
			return step.Result{}, err
		}
		text, delimits := chat.Insert(parts)
		if delimits {
			system = strings.TrimPrefix(system+"\n\n"+chat.AboutInserted, "\n\n")
		}
		prompt = withSkills(s.Skills, text)
	}
	if s.Provider != "" {
		named := *c.Agent
		if named.Provider, err = job.Fill(s.Provider, values); err != nil {
			return step.Result{}, err
		}
		c.Agent = &named
	}
	transcript := &chat.Transcript{}
	c.Task, c.System, c.Verbatim, c.Transcript = prompt, system, true, transcript
	c.Form.Plain = !c.Form.Strict()
	if s.Reply {
		c.Step, c.Before, c.TurnsBefore, c.Session = s.Dialog, d.messages, d.turns, d.session
	} else if err := s.resume(job, c); err != nil {
		return step.Result{}, err
	}
	result, err := job.LimitByTemplate(ctx, s.Timeout, func(ctx context.Context) (step.Result, error) {
		return c.Run(ctx, job)
	})
	if err != nil {
		return result, withReply(err, transcript)
	}
	out := s.state(result.Value, transcript)
	if s.Dialog != "" {
		s.addTurn(&out, &d, transcript)
	}
	result.Value = step.JSON(out)
	return result, nil
}

// resume adds the messages and the session of the step that the conversation
// continues.
func (s settings) resume(job *step.Job, c *chat.Conversation) error {
	if s.ContinueFrom == "" {
		return nil
	}
	from := "states." + s.ContinueFrom
	for _, r := range job.Reads {
		switch {
		case r.Missing:
		case r.Path == from+".Conversation":
			_ = json.Unmarshal(r.Value, &c.Before) // anything else has no messages
		case r.Path == from+".Session" && json.Unmarshal(r.Value, &c.Session) != nil:
			return step.Errorf(ir.ClassInput, "the session of step %q cannot be read", s.ContinueFrom)
		}
	}
	if len(c.Before) == 0 {
		return step.Errorf(ir.ClassInput, "step %q continues the conversation of %q, which has none",
			job.Step.ID, s.ContinueFrom)
	}
	return nil
}

// withReply adds the last reply to the failure of a reply that cannot be used,
// so that later states can show or correct it.
func withReply(err error, transcript *chat.Transcript) error {
	var failure *step.Error
	messages := textMessages(transcript.Messages)
	if !errors.As(err, &failure) || failure.Class != ir.ClassInvalid ||
		len(messages) == 0 || messages[len(messages)-1].Role != provider.Assistant {
		return err
	}
	out := newState(kinds.StateFailed, transcript)
	out.ExitCode, out.Stderr, out.Error = -1, failure.Message, failure.Message
	for _, b := range messages[len(messages)-1].Blocks {
		out.Output += b.Text
	}
	kept := *failure
	kept.Value = step.JSON(out)
	return &kept
}

// withSkills returns a prompt with skills before it, each in a tag of its own.
func withSkills(skills []kinds.ConversationSkill, prompt string) string {
	var b strings.Builder
	for _, s := range skills {
		fmt.Fprintf(&b, "<skill_content name=%q>\n%s\n</skill_content>\n\n", s.Name, strings.TrimSpace(s.Text))
	}
	return b.String() + prompt
}

func newState(status kinds.StateStatus, t *chat.Transcript) state {
	return state{
		State: kinds.State{Status: status}, Response: json.RawMessage("{}"), Estimated: t.Estimated,
		TokensInput: t.Usage.Input, TokensOutput: t.Usage.Output, TokensUsed: t.Usage.Input + t.Usage.Output,
	}
}

func (s settings) state(value json.RawMessage, transcript *chat.Transcript) state {
	out := newState(kinds.StateCompleted, transcript)
	if s.Format == "json" {
		out.Output, out.JSON = string(value), value
	} else if json.Unmarshal(value, &out.Output) != nil {
		out.Output = string(value)
	}
	// A list is a response only where the contract asks for JSON.
	if reply := strings.TrimSpace(out.Output); strings.HasPrefix(reply, "{") ||
		out.JSON != nil && strings.HasPrefix(reply, "[") {
		if json.Valid([]byte(reply)) {
			out.Response = json.RawMessage(reply)
		}
	}
	if s.Keep {
		out.Conversation, out.Session = textMessages(transcript.Messages), transcript.Session
	}
	return out
}

// textMessages returns the text messages of a conversation. Continuing it does not
// need the tool calls.
func textMessages(messages []provider.Message) []provider.Message {
	var out []provider.Message
	for _, m := range messages {
		kept := provider.Message{Role: m.Role}
		for _, b := range m.Blocks {
			if b.Type == provider.Text && b.Text != "" {
				kept.Blocks = append(kept.Blocks, provider.Block{Type: provider.Text, Text: b.Text})
			}
		}
		if len(kept.Blocks) > 0 {
			out = append(out, kept)
		}
	}
	return out
}
