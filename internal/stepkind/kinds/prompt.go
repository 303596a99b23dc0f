package kinds

import (
	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// PromptSettings are the settings of a task of kind "prompt": an agent with its prompt, or a tool that receives the
// latest output.
type PromptSettings struct {
	Agent    string `json:"agent,omitempty"`    // ID of the agent
	Template string `json:"template,omitempty"` // with {{names}} in it
	Format   string `json:"format,omitempty"`   // of the reply: json, text, markdown; empty is JSON or else text
	Memory   bool   `json:"memory,omitempty"`   // the agent has a notebook that persists across runs
	Tool     string `json:"tool,omitempty"`
	Name     string `json:"name,omitempty"` // of a tool as a member of the flow
}

// Prompt is the step kind "prompt".
type Prompt struct{ chatBase[PromptSettings] }

// Name returns "prompt".
func (Prompt) Name() string { return "prompt" }

// Uses returns the agent or the tool, and the tools of the notebook.
func (k Prompt) Uses(t *ir.Task) stepkind.Uses {
	u := k.chatBase.Uses(t)
	if at := t.Settings.At("memory"); stepkind.Lenient[PromptSettings](t).Memory {
		u.Tools = append(u.Tools, ir.Name{Name: NotebookRead, Span: at}, ir.Name{Name: NotebookAdd, Span: at})
	}
	return u
}

// Ask returns the prompt and the contract of the reply; false for a tool.
func (s PromptSettings) Ask(*ir.Program) (Ask, bool) {
	ask := Ask{Agent: s.Agent, Texts: []string{s.Template}, Reply: contract.Spec{Within: []string{"output"}}}
	switch s.Format {
	case "json":
		ask.Reply.Base = contract.AnyData
	case "text", "markdown":
		ask.Reply.Text = true
	}
	return ask, s.Tool == ""
}

// Bound returns the cost of one tool call, or of the conversation and of the
// tools that are called before and after it.
func (k Prompt) Bound(p *ir.Program, s *ir.Step, t *ir.Task, reply *contract.Contract) stepkind.Bound {
	set := stepkind.Lenient[PromptSettings](t)
	if set.Tool != "" {
		return stepkind.OneCallBound()
	}
	calls := int64(0) // that the reply asks for
	if a := p.Agent(set.Agent); a != nil {
		calls = int64(len(a.Tools))
	}
	if set.Memory {
		calls += 2 // notes are read before, and one is added after
	}
	b := k.chatBase.Bound(p, s, t, reply)
	b.Worst.ToolCalls = b.Worst.ToolCalls.Plus(stepkind.N(calls))
	b.Worst.Seconds = b.Worst.Seconds.Plus(stepkind.N(stepkind.ToolCallSeconds).Times(calls))
	return b
}

// The tools of an agent's notebook.
const (
	NotebookRead = "notebook.read"
	NotebookAdd  = "notebook.add"
)
