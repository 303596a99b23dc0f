package kinds

import (
	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/xslices"
)

// ConversationSettings are the settings of a task of kind "conversation". Prompt and Provider are templates.
type ConversationSettings struct {
	Agent    string              `json:"agent"` // ID of the agent
	Prompt   string              `json:"prompt"`
	System   string              `json:"system,omitempty"`
	Skills   []ConversationSkill `json:"skills,omitempty"`
	Format   string              `json:"format,omitempty"`   // json: the reply must be JSON
	Provider string              `json:"provider,omitempty"` // replaces the agent's own
	Timeout  string              `json:"timeout,omitempty"`  // seconds, or a duration
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

// ConversationSkill is a text that precedes the prompt.
type ConversationSkill struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Conversation is the step kind "conversation".
type Conversation struct{ chatBase[ConversationSettings] }

// Name returns "conversation".
func (Conversation) Name() string { return "conversation" }

// Traits returns those of an agent that works, perhaps in turns with a person.
func (k Conversation) Traits(p *ir.Program, t *ir.Task) ir.Traits {
	traits := k.chatBase.Traits(p, t)
	traits.Dialog = stepkind.Lenient[ConversationSettings](t).Dialog != ""
	return traits
}

// Uses returns the agent.
func (Conversation) Uses(t *ir.Task) stepkind.Uses {
	return stepkind.Uses{Agents: stepkind.Named(t, "agent"), Verbatim: true}
}

// Ask returns the prompt and the contract of the reply.
func (s ConversationSettings) Ask(*ir.Program) (Ask, bool) {
	ask := Ask{Agent: s.Agent, Texts: []string{s.Prompt, s.System}, Reply: contract.Spec{
		Within: []string{"Output", "JSON", "Response"}, Texts: []string{"Output"},
	}}
	ask.Texts = append(ask.Texts, xslices.Map(s.Skills, func(one ConversationSkill) string { return one.Text })...)
	if s.Format == "json" {
		ask.Reply.Base = contract.AnyData
	}
	return ask, true
}
