package conversation

import (
	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/chat"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Settings are the settings of a task. Prompt and Provider are templates.
type Settings struct {
	Agent    string  `json:"agent"` // ID of the agent
	Prompt   string  `json:"prompt"`
	System   string  `json:"system,omitempty"`
	Skills   []Skill `json:"skills,omitempty"`
	Format   string  `json:"format,omitempty"`   // json: the reply must be JSON
	Provider string  `json:"provider,omitempty"` // replaces the agent's own
	Timeout  string  `json:"timeout,omitempty"`  // seconds, or a duration
	// ContinueFrom is the step whose conversation this one continues.
	ContinueFrom string `json:"continue_from,omitempty"`
	// Keep puts the messages into the result, so that other steps can continue
	// the conversation.
	Keep bool `json:"keep,omitempty"`
	// Dialog is the step whose conversation with a person the task is a turn of. The task reads
	// the earlier turns from the variable "turns.DIALOG". Its result has the new one.
	Dialog string `json:"dialog,omitempty"`
	// Reply makes the task a later turn: its prompt is the person's text, which it reads from
	// "said.DIALOG". An empty text ends the conversation.
	Reply bool `json:"reply,omitempty"`
	// MaxTurns ends the conversation after that many turns; 0 means unlimited.
	MaxTurns int `json:"max_turns,omitempty"`
}

// Skill is a text that precedes the prompt.
type Skill struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Kind is the step kind "conversation".
type Kind struct{ chat.Base[Settings] }

var _ step.Runner = Kind{}

// Name returns "conversation".
func (Kind) Name() string { return "conversation" }

// Uses returns the agent.
func (Kind) Uses(t *ir.Task) stepkind.Uses {
	return stepkind.Uses{Agents: stepkind.Named(t, "agent"), Verbatim: true}
}

// Ask returns the prompt and the contract of the reply.
func (s Settings) Ask(*ir.Program) (chat.Ask, bool) {
	ask := chat.Ask{Agent: s.Agent, Texts: []string{s.Prompt, s.System}, Reply: contract.Spec{
		Within: []string{"Output", "JSON", "Response"}, Texts: []string{"Output"},
	}}
	ask.Texts = append(ask.Texts, xslices.Map(s.Skills, func(one Skill) string { return one.Text })...)
	if s.Format == "json" {
		ask.Reply.Base = contract.AnyData
	}
	return ask, true
}
