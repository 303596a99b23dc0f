package stepkind

import (
	"fmt"
	"strings"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
)

// Kind is one kind of leaf work. Its methods accept every task of its name, also
// one with wrong settings: Understands reports them, the other methods ignore
// what they cannot use.
type Kind interface {
	// Name returns the value of ir.Task.Kind.
	Name() string
	// Understands returns an error if the settings do not fit the kind. That is a
	// mistake in a format, not in a workflow: formats report what they cannot
	// read themselves.
	Understands(t *ir.Task) error
	// Traits returns what readers of programs ask about a task instead of its kind.
	Traits(p *ir.Program, t *ir.Task) ir.Traits
	// Check reports mistakes of the author in the settings of a task. s is the
	// step that the task belongs to. Formats report missing and empty settings.
	Check(p *ir.Program, s *ir.Step, t *ir.Task) diag.List
	// Uses returns what the task names outside itself, for checks of the whole
	// program.
	Uses(t *ir.Task) Uses
	// Bound returns what one attempt can cost. reply is the contract of the model's
	// reply, or nil if the task asks no model. It is a parameter because deriving it
	// is most of the work; see BoundOf.
	Bound(p *ir.Program, s *ir.Step, t *ir.Task, reply *contract.Contract) Bound
}

// Asker is a Kind whose tasks ask a model.
type Asker interface {
	Kind
	// Contract returns the contract of the reply; false if the task asks no
	// model.
	Contract(p *ir.Program, s *ir.Step, t *ir.Task) (contract.Contract, bool)
}

// Explorer is a Kind whose results simulations vary, although its tasks ask no
// model.
type Explorer interface {
	Kind
	// Explored returns the contract of the result, with its probes.
	Explored(p *ir.Program, s *ir.Step, t *ir.Task) contract.Contract
}

// Caller is a Kind whose tasks call one tool, with arguments into which they insert values.
type Caller interface {
	Kind
	// CheckCode reports values in the argument ir.ShellArgument that the tool would execute. The tool is ir.ShellTool,
	// by its own name or another one.
	CheckCode(p *ir.Program, s *ir.Step, t *ir.Task) diag.List
}

// ValueAsCode returns the diagnostic of a value that a tool would execute.
func ValueAsCode(at source.Span, message, help string) diag.Diagnostic {
	return diag.Diagnostic{
		Code: CodeValueAsCode, Severity: diag.Error, Span: at,
		Message: strings.ToUpper(message[:1]) + message[1:] + ".", Help: help,
	}
}

// FailureReporter is a Kind whose tasks succeed although their work failed.
type FailureReporter interface {
	Kind
	// ReportsFailure reports whether conditions look at what a task says about
	// failures.
	ReportsFailure(p *ir.Program, s *ir.Step, t *ir.Task) bool
}

// ContractOf returns the contract of the reply that a task asks for, or nil if it
// asks no model.
func ContractOf(k Kind, p *ir.Program, s *ir.Step, t *ir.Task) *contract.Contract {
	if asker, ok := k.(Asker); ok {
		if c, asks := asker.Contract(p, s, t); asks {
			return &c
		}
	}
	return nil
}

// AsksModel reports whether a task can ask a model. It need not name one agent: an agent can be a command.
func AsksModel(k Kind, p *ir.Program, s *ir.Step, t *ir.Task) bool {
	return ContractOf(k, p, s, t) != nil || BoundOf(k, p, s, t).Agent != ""
}

// BoundOf returns what one attempt of a task can cost. It derives the contract of
// the reply.
func BoundOf(k Kind, p *ir.Program, s *ir.Step, t *ir.Task) Bound {
	return k.Bound(p, s, t, ContractOf(k, p, s, t))
}

// Uses is what a task names outside itself, and where.
type Uses struct {
	Agents  []ir.Name
	Tools   []ir.Name     // that the task itself calls; an agent has its own list
	Schemas []ir.Contract // JSON Schemas in the settings
	// Commands are the commands that the task runs on this machine.
	Commands []CommandUse
	// Verbatim says that agents get the author's prompt without additions, so
	// that a step without reads is no mistake.
	Verbatim bool
}

// CommandUse is a command that a task runs on this machine.
type CommandUse struct {
	Text string // as people read it
	// Dir is the folder that the command runs in, if the file names one.
	Dir string
	// Optional commands need no consent before a run starts: without consent they
	// are skipped, or a flag of their own gives it.
	Optional bool
}

// Bound is what one attempt of a task can cost.
type Bound struct {
	// Base is the cost of an attempt that succeeds at once.
	Base Cost `json:"base"`
	// Worst is the most that an attempt can cost.
	Worst Cost `json:"worst"`
	// Reserve is the number of tokens that must be free before the attempt can
	// start: the reservation of its first model call. A default cap on the reply
	// does not count, because it can be lowered.
	Reserve int64 `json:"reserve,omitempty"`
	// Agent is the agent that makes the model calls, "" if none does.
	Agent string `json:"agent,omitempty"`
	Model string `json:"model,omitempty"`
}

// Cost is what work uses.
type Cost struct {
	ModelCalls Amount `json:"model_calls"`
	ToolCalls  Amount `json:"tool_calls"`
	// PromptTokens is an estimate: the text that is known before the run, and the
	// largest replies that can become part of it.
	PromptTokens Amount `json:"prompt_tokens"`
	// ReplyTokens is a hard cap.
	ReplyTokens Amount `json:"reply_tokens"`
	Seconds     Amount `json:"seconds"` // active time
}

// Base implements Kind, except for Name, for settings that decode into S:
// nothing to check, the names under "agent" and "tool" as traits and uses, and no cost. The work acts on the world.
type Base[S any] struct{}

// Understands reports settings that do not decode.
func (Base[S]) Understands(t *ir.Task) error {
	_, err := Decode[S](t)
	return err
}

// Traits returns the agent and the tool that the settings name.
func (Base[S]) Traits(_ *ir.Program, t *ir.Task) ir.Traits {
	agent, _ := nameOf(t, "agent")
	tool, _ := nameOf(t, "tool")
	return ir.Traits{Nature: ir.Acts, Agent: agent.Name, Tool: tool.Name}
}

// Check finds nothing.
func (Base[S]) Check(*ir.Program, *ir.Step, *ir.Task) diag.List { return nil }

// Uses returns the agent and the tool that the settings name.
func (Base[S]) Uses(t *ir.Task) Uses { return Uses{Agents: Named(t, "agent"), Tools: Named(t, "tool")} }

// Bound returns no cost.
func (Base[S]) Bound(*ir.Program, *ir.Step, *ir.Task, *contract.Contract) Bound { return Bound{} }

// Set is a set of kinds by name.
type Set map[string]Kind

// NewSet indexes kinds by their names.
func NewSet(kinds ...Kind) Set {
	s := Set{}
	for _, k := range kinds {
		if s[k.Name()] != nil {
			panic(fmt.Sprintf("stepkind: two kinds are called %q", k.Name())) // a programming error
		}
		s[k.Name()] = k
	}
	return s
}

// Describe fills in the traits of all tasks of a program and of the programs that it calls. A task of a kind that is
// not in the set keeps its own.
func (s Set) Describe(p *ir.Program) {
	for step := range p.Steps() {
		t := step.Task()
		if t == nil || s[t.Kind] == nil {
			continue
		}
		traits := s[t.Kind].Traits(p, t)
		t.Traits = &traits
		if _, whole := step.Action.(ir.Task); whole {
			step.Action = *t
		}
	}
	for i := range p.Children {
		s.Describe(&p.Children[i])
	}
}
