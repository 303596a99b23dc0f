package provider

import "encoding/json"

// Agents reports which models are autonomous CLI agents. A request to such a model is a whole task, which the agent
// completes in several turns with its own tools.
//
// The request has a Task; its chunks report the session (Chunk.Session) and the tool calls (Chunk.ToolEvent) of the
// agent. Sessions are journaled, so a crashed run resumes them. Approval gates for Espalier's tools do not apply to the
// agent's own tools: only its grants restrict those.
type Agents interface {
	// Agent returns the capabilities of the agent with this model name, or nil if the model is not an agent.
	Agent(model string) *AgentInfo
}

// AgentInfo describes the capabilities of an agent and the restrictions that it can enforce.
type AgentInfo struct {
	Name string // as in messages, such as "claude-code"
	// Tools are the agent's own tools that can be granted, by the names that workflows use.
	Tools []string
	// Denied maps the agent's own tools that are never granted to the reason.
	Denied map[string]string
	// Resumes reports whether an interrupted session can be resumed.
	Resumes bool
	// NamesSession reports whether the caller can choose the ID of a new session.
	NamesSession bool
	// Problem returns why the agent cannot enforce what a step grants and denies, or "" if it can.
	Problem func(grants []Grant, denied []string) string
	// Acts reports whether the grants allow the agent to change anything.
	Acts func(grants []Grant) bool
}

// AgentTask is the part of a request that only agents use.
type AgentTask struct {
	// Session is the session to resume, or "". The agent remembers its messages, so only the last message is new.
	Session string `json:"session,omitempty"`
	// NewSession is the ID for a new session, if AgentInfo.NamesSession.
	NewSession string `json:"new_session,omitempty"`
	// Grants are the only tools that the agent may use.
	Grants []Grant `json:"grants,omitempty"`
	// Turns and MicroDollars limit the task; 0 means no limit.
	Turns        int   `json:"turns,omitempty"`
	MicroDollars int64 `json:"micro_dollars,omitempty"`
}

// Grant is a tool that an agent may use.
type Grant struct {
	Tool string `json:"tool"`
	// Only and Never list the calls that are allowed and denied, as entries such as "Bash(git *)". Empty Only allows
	// every call; empty Never denies none.
	Only  []string `json:"only,omitempty"`
	Never []string `json:"never,omitempty"`
}

// AgentToolEvent is the start or the end of a call that an agent makes to one of its own tools.
type AgentToolEvent struct {
	ID    string
	Name  string
	Input json.RawMessage
	// Returned is set at the end of a call; Output is its result, Error its error message.
	Returned bool
	Output   json.RawMessage
	Error    string
}

// AgentResult is the result of a task, as the agent reports it.
type AgentResult struct {
	Session string `json:"session,omitempty"`
	// Answer is the final text. The blocks of the reply hold all texts of the agent, and the calls that it made to its
	// own tools.
	Answer string `json:"answer"`
	Turns  int    `json:"turns,omitempty"`
	// MicroDollars is the cost; nil if the agent does not report it.
	MicroDollars *int64 `json:"micro_dollars,omitempty"`
}
