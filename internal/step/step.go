package step

import (
	"fmt"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
)

// Kind is one kind of leaf work. Its methods accept any task of its name,
// also one whose settings are wrong: Understands says so, the others make the
// best of what there is.
type Kind interface {
	// Name is what ir.Task.Kind says.
	Name() string
	// Understands is an error when the settings are not of this kind's form.
	// That is a mistake of whoever made the program, not of its author: a
	// format reports what it cannot read in its own words.
	Understands(t *ir.Task) error
	// Check looks at what the author of the workflow wrote into the settings
	// of a task. s is the step that the task belongs to. A setting that is
	// missing or empty was already reported by the format.
	Check(p *ir.Program, s *ir.Step, t *ir.Task) diag.List
	// Uses lists what the task names outside itself, for checks that look at
	// the whole program.
	Uses(t *ir.Task) Uses
	// Bound returns what one attempt can cost. reply is the contract of the model's reply, or nil if
	// the task asks no model. It is a parameter because deriving it is most of the work; see BoundOf.
	Bound(p *ir.Program, s *ir.Step, t *ir.Task, reply *contract.Contract) Bound
}

// Asker is a Kind whose tasks ask a model.
type Asker interface {
	Kind
	// Contract is what the reply must be; false when the task asks no model.
	Contract(p *ir.Program, s *ir.Step, t *ir.Task) (contract.Contract, bool)
}

// ContractOf returns the contract of the reply that a task asks for, or nil if it asks no model.
func ContractOf(k Kind, p *ir.Program, s *ir.Step, t *ir.Task) *contract.Contract {
	if asker, ok := k.(Asker); ok {
		if c, asks := asker.Contract(p, s, t); asks {
			return &c
		}
	}
	return nil
}

// BoundOf returns what one attempt of a task can cost. It derives the contract of the reply.
func BoundOf(k Kind, p *ir.Program, s *ir.Step, t *ir.Task) Bound {
	return k.Bound(p, s, t, ContractOf(k, p, s, t))
}

// Uses is what a task names outside itself, and where.
type Uses struct {
	Agents  []ir.Name
	Tools   []ir.Name     // called by the task itself; an agent has its own list
	Schemas []ir.Contract // JSON Schemas that stand in the settings
	// Commands are what it runs on this machine.
	Commands []CommandUse
	// Verbatim says that the agents hear the author's words and nothing else, so
	// that reading nothing is no oversight.
	Verbatim bool
}

// CommandUse is a command that a task runs on this machine.
type CommandUse struct {
	Text string // as people read it
	// Optional commands need no consent before a run begins: they are left out
	// without it, or a flag of their own is the consent.
	Optional bool
}

// Bound is what one attempt of a task can cost.
type Bound struct {
	// Base is an attempt in which everything goes well at once.
	Base Cost `json:"base"`
	// Worst is the most that an attempt can cost.
	Worst Cost `json:"worst"`
	// Reserve is the fewest tokens that must be free before the attempt can
	// begin: what its first model call has to reserve. A reply cap that
	// nobody wrote down does not count, because it can be lowered.
	Reserve int64 `json:"reserve,omitempty"`
	// Agent is who makes the model calls, "" when nobody does.
	Agent string `json:"agent,omitempty"`
	Model string `json:"model,omitempty"`
}

// Cost is what work uses up.
type Cost struct {
	ModelCalls Amount `json:"model_calls"`
	ToolCalls  Amount `json:"tool_calls"`
	// PromptTokens is an estimate: the text that is known now, and the
	// largest replies that can flow into it.
	PromptTokens Amount `json:"prompt_tokens"`
	// ReplyTokens is a hard cap.
	ReplyTokens Amount `json:"reply_tokens"`
	Seconds     Amount `json:"seconds"` // active time
}

// Set is the kinds that ship, by name.
type Set map[string]Kind

// NewSet indexes kinds by their names.
func NewSet(kinds ...Kind) Set {
	s := Set{}
	for _, k := range kinds {
		if s[k.Name()] != nil {
			panic(fmt.Sprintf("step: there are two kinds called %q", k.Name())) // a programming mistake
		}
		s[k.Name()] = k
	}
	return s
}
