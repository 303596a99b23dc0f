package conversation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/talk"
)

var _ step.Runner = Kind{}

// Recovery is to go on where the conversation stood, unless a tool was called
// that may have acted and did not return.
func (Kind) Recovery(_ *ir.Task, history []journal.TaskNoted) step.Recovery {
	return talk.Recovery(history)
}

// state is what the step leaves behind.
type state struct {
	Output       string             `json:"Output"`
	Stderr       string             `json:"Stderr"`
	ExitCode     int                `json:"ExitCode"`
	Status       string             `json:"Status"`
	Error        string             `json:"Error,omitempty"`
	Response     json.RawMessage    `json:"Response"`
	JSON         json.RawMessage    `json:"JSON,omitempty"`
	TokensUsed   int64              `json:"TokensUsed"`
	TokensInput  int64              `json:"TokensInput"`
	TokensOutput int64              `json:"TokensOutput"`
	Estimated    bool               `json:"TokensEstimated"`
	Conversation []provider.Message `json:"Conversation,omitempty"`
	Session      talk.Session       `json:"Session,omitzero"`
}

// Run says the prompt and waits for the reply.
func (Kind) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	set, err := step.Decode[Settings](job.Task)
	if err != nil {
		return step.Result{}, step.Errorf(step.ClassInput, "%v", err)
	}
	a, err := job.Agent(set.Agent)
	if err != nil {
		return step.Result{}, err
	}
	values := job.Values()
	prompt, err := job.Fill(set.Prompt, values)
	if err != nil {
		return step.Result{}, err
	}
	if set.Provider != "" {
		named := *a
		if named.Provider, err = job.Fill(set.Provider, values); err != nil {
			return step.Result{}, err
		}
		a = &named
	}
	heard := &talk.Heard{}
	t := talk.Talk{Agent: a, Task: withSkills(set.Skills, prompt), System: set.System, Verbatim: true, Heard: heard, Form: talk.Form{Contract: replies(job.Workflow, job.Step, set)}}
	t.Form.Plain = !t.Form.Strict()
	if set.ContinueFrom != "" {
		if t.Before, err = earlier(job, set.ContinueFrom); err != nil {
			return step.Result{}, err
		}
		for _, r := range job.Reads {
			if r.Path == "states."+set.ContinueFrom+".Session" && !r.Missing && json.Unmarshal(r.Value, &t.Session) != nil {
				return step.Result{}, step.Errorf(step.ClassInput, "the session of step %q cannot be read", set.ContinueFrom)
			}
		}
	}
	result, err := job.Within(ctx, set.Timeout, func(ctx context.Context) (step.Result, error) { return t.Run(ctx, job) })
	if err != nil {
		return result, left(err, heard)
	}
	result.Value = step.JSON(leave(set, result.Value, heard))
	return result, nil
}

// left adds what was said last to the failure of a reply that cannot be used: the
// states that come next may want to show or mend it.
func left(err error, heard *talk.Heard) error {
	var failed *step.Error
	said := spoken(heard.Messages)
	if !errors.As(err, &failed) || failed.Class != step.ClassInvalid || len(said) == 0 || said[len(said)-1].Role != provider.Assistant {
		return err
	}
	out := state{
		Status: "failed", ExitCode: -1, Stderr: failed.Message, Error: failed.Message, Response: json.RawMessage("{}"), Estimated: heard.Estimated,
		TokensInput: heard.Usage.Input, TokensOutput: heard.Usage.Output, TokensUsed: heard.Usage.Input + heard.Usage.Output,
	}
	for _, b := range said[len(said)-1].Blocks {
		out.Output += b.Text
	}
	kept := *failed
	kept.Value = step.JSON(out)
	return &kept
}

// withSkills puts skills before a prompt, each marked as what it is.
func withSkills(skills []Skill, prompt string) string {
	var b strings.Builder
	for _, s := range skills {
		fmt.Fprintf(&b, "<skill_content name=%q>\n%s\n</skill_content>\n\n", s.Name, strings.TrimSpace(s.Text))
	}
	return b.String() + prompt
}

// earlier is what another step and its model said to each other.
func earlier(job *step.Job, from string) ([]provider.Message, error) {
	path := "states." + from + ".Conversation"
	for _, r := range job.Reads {
		if r.Path != path || r.Missing {
			continue
		}
		var messages []provider.Message
		if json.Unmarshal(r.Value, &messages) == nil && len(messages) > 0 {
			return messages, nil
		}
	}
	return nil, step.Errorf(step.ClassInput, "step %q goes on with the conversation of %q, which has none", job.Step.ID, from)
}

func leave(set Settings, value json.RawMessage, heard *talk.Heard) state {
	out := state{
		Status: "completed", TokensInput: heard.Usage.Input, TokensOutput: heard.Usage.Output, Estimated: heard.Estimated,
		TokensUsed: heard.Usage.Input + heard.Usage.Output, Response: json.RawMessage("{}"),
	}
	if set.Format == "json" {
		out.Output, out.JSON = string(value), value
	} else if json.Unmarshal(value, &out.Output) != nil {
		out.Output = string(value)
	}
	var object map[string]any
	if json.Unmarshal([]byte(strings.TrimSpace(out.Output)), &object) == nil && object != nil {
		out.Response = json.RawMessage(strings.TrimSpace(out.Output))
	}
	if set.Keep {
		out.Conversation, out.Session = spoken(heard.Messages), heard.Session
	}
	return out
}

// spoken are the words of a conversation: what tools did along the way is not
// needed to go on with it.
func spoken(messages []provider.Message) []provider.Message {
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
