package ir

import "encoding/json"

// Nature is what the work of a task is.
type Nature string

// The natures.
const (
	Asks     Nature = "asks"     // an agent works: a model, perhaps with tools
	Computes Nature = "computes" // data becomes other data
	Combines Nature = "combines" // the results of branches become one
	Acts     Nature = "acts"     // on the world, as tools and commands do
)

// Traits are what the kind of a task says about its work to code that does not know kinds, such as pictures, records
// and decisions.
type Traits struct {
	Nature Nature `json:"nature"`
	// Agent is the ID of the agent that does the work, Tool the tool that the task itself calls, and Language that of
	// the script that it runs.
	Agent    string `json:"agent,omitempty"`
	Tool     string `json:"tool,omitempty"`
	Language string `json:"language,omitempty"`
	// Record is the kind of the step in records if their specification has a name for it.
	Record string `json:"record,omitempty"`
	// PassReads passes what the step reads to the work as it is, like Call.PassReads.
	PassReads bool `json:"pass_reads,omitempty"`
	// Dialog marks the turns of a conversation with a person. Other steps continue it, in the name of the first.
	Dialog bool `json:"dialog,omitempty"`
}

// Describe returns the traits of a task. A task of a program that was stored without them has those that its kind and
// its settings used to imply.
func (t *Task) Describe() Traits {
	if t.Traits != nil {
		return *t.Traits
	}
	out := Traits{
		Nature: Acts, Agent: t.Settings.text("agent"), Tool: t.Settings.text("tool"),
		Language: t.Settings.text("language"), Dialog: t.Settings.Get("dialog") != nil,
	}
	switch t.Kind {
	case "agent":
		out.Nature, out.Record = Asks, t.Kind
	case "transform":
		out.Nature = Computes
	case "script":
		out.Nature, out.PassReads = Computes, true
	case "combine":
		out.Nature = Combines
	case "tool":
		out.PassReads = true
	case "command":
		out.Record = t.Kind
	case "operation":
		out.Record, out.Tool = t.Kind, t.Settings.text("operation")
	}
	return out
}

// text returns a setting that is a text, or "".
func (s Settings) text(name string) (text string) {
	if raw := s.Get(name); raw == nil || json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}
