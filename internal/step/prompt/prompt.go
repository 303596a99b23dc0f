package prompt

import (
	"encoding/json"
	"errors"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step"
)

// Settings is what a task of this kind says: an agent with its prompt, or a
// tool that is given the latest output.
type Settings struct {
	Agent    string `json:"agent,omitempty"`    // ID of the agent
	Template string `json:"template,omitempty"` // with {{names}} in it
	Format   string `json:"format,omitempty"`   // of the reply: json, text, markdown; empty is JSON or else text
	Memory   bool   `json:"memory,omitempty"`   // the agent has a notebook that lasts
	Tool     string `json:"tool,omitempty"`
	Name     string `json:"name,omitempty"` // what a tool is called as a member of the flow
}

// Kind is the step kind "prompt".
type Kind struct{}

var _ step.Asker = Kind{}

// Name is "prompt".
func (Kind) Name() string { return "prompt" }

// Understands wants an agent or a tool.
func (Kind) Understands(t *ir.Task) error {
	set, err := step.Decode[Settings](t)
	if (set.Agent == "") == (set.Tool == "") {
		err = errors.Join(err, errors.New("one of agent and tool must be named"))
	}
	return errors.Join(err, step.OneOf("format", set.Format, "", "json", "text", "markdown"))
}

// Check has nothing to say: what names mean is a question to the whole program.
func (Kind) Check(*ir.Program, *ir.Step, *ir.Task) diag.List { return nil }

// Uses names the agent or the tool.
func (Kind) Uses(t *ir.Task) step.Uses {
	u := step.Uses{Agents: step.Named(t, "agent"), Tools: step.Named(t, "tool")}
	if at := t.Settings.At("memory"); step.Lenient[Settings](t).Memory {
		u.Tools = append(u.Tools, ir.Name{Name: readNotes, Span: at}, ir.Name{Name: addNote, Span: at})
	}
	return u
}

// Contract is what the agent's reply must be.
func (Kind) Contract(p *ir.Program, s *ir.Step, t *ir.Task) (contract.Contract, bool) {
	set := step.Lenient[Settings](t)
	return replies(p, s, set), set.Tool == ""
}

func replies(p *ir.Program, s *ir.Step, set Settings) contract.Contract {
	spec := contract.Spec{Within: []string{"output"}}
	switch set.Format {
	case "json":
		spec.Base = jsonForm
	case "text", "markdown":
		spec.Text = true
	}
	return contract.Of(p, s, spec)
}

// Bound is a conversation as an agent step has it; a JSON reply may be mended,
// and a tool that the reply asks for be called at the end.
func (Kind) Bound(p *ir.Program, s *ir.Step, t *ir.Task, reply *contract.Contract) step.Bound {
	set := step.Lenient[Settings](t)
	if set.Tool != "" {
		return step.Bound{
			Base:  step.Cost{ToolCalls: step.N(1), Seconds: step.N(step.UsualToolSeconds)},
			Worst: step.Cost{ToolCalls: step.N(1), Seconds: step.N(step.ToolCallSeconds)},
		}
	}
	talk := step.Talk{Known: step.TextTokens(set.Template), Reads: step.ReadTokens(p, s)}
	talk.Asks(reply)
	a := p.Agent(set.Agent)
	asked := int64(0)
	if a != nil {
		asked = int64(len(a.Tools))
	}
	if set.Memory {
		asked += 2 // notes are read before, and one is added after
	}
	b := talk.Bound(a)
	b.Worst.ToolCalls = b.Worst.ToolCalls.Plus(step.N(asked))
	b.Worst.Seconds = b.Worst.Seconds.Plus(step.N(step.ToolCallSeconds).Times(asked))
	return b
}

// jsonForm is what a JSON reply may be: anything that is not a mere text.
var jsonForm = json.RawMessage(`{"type":["object","array","number","boolean","null"]}`)

// The tools of the notebook.
const (
	readNotes = "notebook.read"
	addNote   = "notebook.add"
)
