package provider

import "encoding/json"

// Agents is a Model some of whose models are agents: programs that work by
// themselves. A request is a whole task to them, which they do in as many turns
// as it takes, with tools of their own.
//
// A request to an agent has a Work, and its chunks report which
// session it is (Chunk.Session) and what it does (Chunk.Did). It is all on
// record before the next thing happens, so that after a crash the session is
// gone on with. The gate before our own tools cannot stop an agent's: what it
// may do is decided by the rights that it is started with.
type Agents interface {
	// Agent tells how the model of a name works; nil when it only answers.
	Agent(model string) *AgentInfo
}

// AgentInfo is what an agent can do, and how well it can be held to something.
type AgentInfo struct {
	Name string // as messages call it: "claude-code"
	// Tools are those of its own that may be granted, by the names that
	// workflows use.
	Tools []string
	// Withheld are tools of its own that it is not given here, and why.
	Withheld map[string]string
	// Resumes: a session that was broken off can be gone on with.
	Resumes bool
	// NamesSession: a session can be given its name before it begins.
	NamesSession bool
	// Problem says why the agent cannot be held to what a step allows it; ""
	// when it can.
	Problem func(grants []Grant, denied []string) string
	// Acts tells whether it can change anything with what it is granted.
	Acts func(grants []Grant) bool
}

// Work is a task for an agent.
type Work struct {
	// Session is one to go on with. The agent remembers what was said in it:
	// only the last message is new.
	Session string `json:"session,omitempty"`
	// NewSession is what to call a session that begins now, for agents that let
	// others choose.
	NewSession string `json:"new_session,omitempty"`
	// Grants are the tools that it may use; it has no others.
	Grants []Grant `json:"grants,omitempty"`
	// Turns and MicroDollars are the most that it may take; 0 is no limit.
	Turns        int   `json:"turns,omitempty"`
	MicroDollars int64 `json:"micro_dollars,omitempty"`
}

// Grant is a tool that an agent may use.
type Grant struct {
	Tool string `json:"tool"`
	// Only are the calls that it may make, Never those that it may not, as
	// entries such as "Bash(git *)"; none are all calls, and none.
	Only  []string `json:"only,omitempty"`
	Never []string `json:"never,omitempty"`
}

// Did is something that an agent does with a tool of its own.
type Did struct {
	ID    string
	Name  string
	Input json.RawMessage
	// Returned says that the tool has returned: with Output, or with what went
	// wrong in Error.
	Returned bool
	Output   json.RawMessage
	Error    string
}

// Worked is what an agent's work came to, by its own account.
type Worked struct {
	Session string `json:"session,omitempty"`
	// Answer is what it says in the end. The reply's blocks hold everything
	// that it said and did on the way, calls of its tools included: those were
	// made.
	Answer string `json:"answer"`
	Turns  int    `json:"turns,omitempty"`
	// MicroDollars is what it says that it has cost; nil when it says nothing.
	MicroDollars *int64 `json:"micro_dollars,omitempty"`
}
