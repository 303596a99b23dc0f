package journal

import (
	"encoding/json"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/jsonfast"
)

// The kinds of notes that every reader understands, and the type of their data. A
// step kind may have other notes; readers ignore them.
const (
	NotePrompt     = "prompt"      // Prompt: a message to a model
	NoteReply      = "reply"       // Reply: a model's reply
	NoteToolCall   = "tool_call"   // ToolUse, before the tool runs
	NoteToolResult = "tool_result" // ToolUse, after the tool has run
	NoteCommand    = "command"     // Command: a command for a shell or an interpreter
	NoteStream     = "stream"      // Stream: a chunk of a reply, recorded only on request
	NoteOutput     = "output"      // Output: what a running command writes, recorded only on request

	NoteCall    = "call"     // Call: work that a task requests; the notes up to its end belong to it
	NoteCallEnd = "call_end" // CallEnd: the end of a Call

	NoteModelError  = "model_error"    // ModelError: a model call that failed
	NoteModelRetry  = "model_retry"    // ModelRetry: a model call that failed and is retried
	NoteMerge       = "merge_decision" // MergeDecision: which of several results is kept
	NoteDone        = "done_by"        // DoneBy: the worker of a step that several could do
	NoteToolAnswer  = "tool_answer"    // ToolAnswer: a person's answer to a tool call
	NoteSample      = "sample"         // Sample: a reply that a tool has requested from the model
	NoteMissingFile = "missing_file"   // MissingFile: a declared file that does not exist
	NoteLogLine     = "said"           // LogLine
	NoteHooks       = "hooks"          // Hooks: the results of the hooks of a step
	NoteProgress    = "progress"       // Progress: the progress of a tool call, from time to time
	NoteAgent       = "agent"          // AgentWork: an external agent starts, or reports its session
	NoteUsage       = "usage"          // Usage: what a running model call has reported so far
)

// Reported returns the usage that the last model call had reported when its task
// was stopped; nil if it had reported none, or has ended.
func Reported(history []TaskNoted) *Usage {
	var out *Usage
	for _, n := range history {
		switch n.Kind {
		case NoteReply, NoteModelError, NoteModelRetry:
			out = nil
		case NoteUsage:
			var u Usage
			if json.Unmarshal(n.Data, &u) == nil {
				out = &u
			}
		}
	}
	return out
}

// Prompt is a message to a model. It contains only what is new: tool results and
// earlier messages have notes of their own.
type Prompt struct {
	System string  `json:"system,omitempty"`
	Blocks []Block `json:"blocks"`
	// Resumes reports whether the prompt continues an interrupted session. Then
	// it belongs to the previous prompt.
	Resumes bool `json:"resumes,omitempty"`
}

// Reply is a model's complete reply. Its JSON is that of a provider's reply.
type Reply struct {
	Blocks        []Block        `json:"blocks"`
	Stop          string         `json:"stop,omitempty"`
	Usage         Tokens         `json:"usage,omitzero"`
	Model         string         `json:"model,omitempty"`
	ID            string         `json:"id,omitempty"`    // assigned by the server
	RequestParams *RequestParams `json:"asked,omitempty"` // nil if there was no request to a server
	// Provider is the provider's name in the project.
	Provider string `json:"provider,omitempty"`
	// Offline is set if no real model replied.
	Offline Offline `json:"offline,omitempty"`
}

// RequestParams holds the parameters of a request to a server.
type RequestParams struct {
	Server      string   `json:"server,omitempty"`
	MaxTokens   int64    `json:"max_tokens,omitempty"`
	Temperature *float64 `json:"temperature,omitempty"`
	JSON        bool     `json:"json,omitempty"`
}

// Tokens is the token usage of one reply.
type Tokens struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
}

// The types of blocks.
const (
	BlockText       = "text"
	BlockThinking   = "thinking"
	BlockToolUse    = "tool_use"
	BlockToolResult = "tool_result"
)

// Block is one part of a message.
type Block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"` // text and thinking
	Signature string          `json:"signature,omitempty"`
	ToolID    string          `json:"tool_id,omitempty"`
	ToolName  string          `json:"tool_name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`   // of a tool use
	Content   json.RawMessage `json:"content,omitempty"` // of a tool result
	IsError   bool            `json:"is_error,omitempty"`
}

// The fidelities of a tool call: how its execution is known.
const (
	ByRouter = "router"        // Espalier made the call
	ByAgent  = "agent_emitted" // an external agent reported it
)

// ToolUse is a tool call or its result, which repeats name, ID and input.
type ToolUse struct {
	Name     string          `json:"name"`
	CallID   string          `json:"call_id"`
	Input    json.RawMessage `json:"input,omitempty"`
	Output   json.RawMessage `json:"output,omitempty"`
	Error    string          `json:"error,omitempty"`
	Class    ir.Class        `json:"class,omitempty"`    // of the error, if the call failed
	Fidelity string          `json:"fidelity,omitempty"` // empty for ByRouter
	// Repeatable calls can safely be made again: the tool changes nothing, or
	// uses the call's key.
	Repeatable bool `json:"repeatable,omitempty"`
	// Offline is set if no real tool was called.
	Offline Offline `json:"offline,omitempty"`
	// Media are the files of the placeholders in Output.
	Media []Media `json:"media,omitempty"`
}

// Media is a file that a tool returned.
type Media struct {
	Type string `json:"type"` // such as image/png
	File string `json:"file"` // in the run's folder
}

// Progress is the progress of a tool call, as the tool reports it.
type Progress struct {
	Name    string  `json:"name"`
	CallID  string  `json:"call_id"`
	Done    float64 `json:"done"`
	Total   float64 `json:"total,omitempty"` // 0 if unknown
	Message string  `json:"message,omitempty"`
}

// ToolAnswer is the answer to the question whether a tool call is allowed.
type ToolAnswer struct {
	Call     string `json:"call"`   // key of the call
	Digest   string `json:"digest"` // of what was shown
	Approved bool   `json:"approved"`
	By       Actor  `json:"by,omitzero"`
	Note     string `json:"note,omitempty"`
	// Value is the answer to a question of the tool.
	Value json.RawMessage `json:"value,omitempty"`
	// TimedOut means that there was no answer in time. The call is denied.
	TimedOut bool `json:"timed_out,omitempty"`
}

// Sample is a reply that a tool has requested from the model during a call. If the call is made again, the reply is
// used again.
type Sample struct {
	Call    string          `json:"call"`             // key of the call
	Digest  string          `json:"digest,omitempty"` // of the request
	Request json.RawMessage `json:"request"`
	Reply   json.RawMessage `json:"reply,omitempty"`
	Error   string          `json:"error,omitempty"` // why there is no reply
}

// SimulatedMark precedes commands that a simulated run did not start.
const SimulatedMark = "[simulated] "

// Command is a command for a shell or an interpreter.
type Command struct {
	Command string `json:"command"`
	// Script is the file of the project that the command runs, if any. People are
	// shown it before it runs.
	Script string `json:"script,omitempty"`
}

// Stream is one chunk of a reply.
type Stream struct {
	Chunk string `json:"chunk"`
}

// Output is a chunk of what a command writes while it runs.
type Output struct {
	Stream string `json:"stream"` // Stdout or Stderr
	Chunk  string `json:"chunk"`
}

// The streams of an Output.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// ModelError is a model call that failed.
type ModelError struct {
	Class   ir.Class `json:"class"`
	Message string   `json:"message"`
	Status  int      `json:"status,omitempty"`
}

// ModelRetry is a model call that failed and is retried.
type ModelRetry struct {
	ModelError
	Wait Millis `json:"wait_ms"` // before the next attempt
}

// MergeDecision is one decision of merging the results of branches.
type MergeDecision struct {
	Key     string          `json:"key"`            // what was decided on: a type, or the values of the dedupe key
	Kept    json.RawMessage `json:"kept,omitempty"` // absent if the conflict failed the step
	From    []string        `json:"from,omitempty"` // the branches that proposed it
	Dropped []MergeClaim    `json:"dropped,omitempty"`
	Why     string          `json:"why"`              // duplicate, majority, first_wins, last_wins, critic, fail
	Reason  string          `json:"reason,omitempty"` // the critic's reason
}

// MergeClaim is a value that a merge did not keep.
type MergeClaim struct {
	Value json.RawMessage `json:"value"`
	From  []string        `json:"from"` // the branches that proposed it
}

// AgentWork is an external agent that works on a step: noted before it starts,
// and again when it reports its session.
type AgentWork struct {
	Agent string `json:"agent"`
	// Session is the ID with which the agent can be resumed; empty if unknown.
	Session string `json:"session,omitempty"`
	// Acts reports whether the agent may change anything.
	Acts bool `json:"acts,omitempty"`
}

// LogLine is a line of the run's log, for people.
type LogLine struct {
	Text string `json:"text"`
}

// DoneBy is the worker of a step that several could do.
type DoneBy struct {
	By string `json:"by"`
}

// MissingFile is a declared file that does not exist after its step.
type MissingFile struct {
	Path string `json:"path"`
	Why  string `json:"why,omitempty"`
}

// Call is work that a task requests while it runs.
type Call struct {
	Key     string          `json:"key"` // <task>/call:N
	Kind    string          `json:"kind"`
	Request json.RawMessage `json:"request"`
}

// CallEnd is the end of a Call.
type CallEnd struct {
	Key    string          `json:"key"`
	Value  json.RawMessage `json:"value,omitempty"`
	Class  ir.Class        `json:"class,omitempty"` // of the failure
	Error  string          `json:"error,omitempty"`
	Exit   int             `json:"exit,omitempty"`
	Millis int64           `json:"ms,omitempty"`
}

// ReadNote decodes the data of a note.
func ReadNote(data json.RawMessage, into any) error { return jsonfast.Unmarshal(data, into) }

// Hooks are the results of the hooks that one step runs, in order.
type Hooks struct {
	Hooks []HookResult `json:"hooks"`
}

// HookResult is a line that a hook logged, or the result of its command.
type HookResult struct {
	Log     string `json:"log,omitempty"`
	Command string `json:"command,omitempty"` // as it is written in the file
	Error   string `json:"error,omitempty"`
}
