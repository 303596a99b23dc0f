package journal

import (
	"encoding/json"

	"github.com/espalier-run/espalier/internal/jsonfast"
)

// The kinds of notes that every reader of the journal understands, and the
// form of their data. A step kind may have notes of its own besides; readers
// pass them over.
const (
	NotePrompt     = "prompt"      // Prompt: what a model is asked
	NoteReply      = "reply"       // Reply: what it said
	NoteToolCall   = "tool_call"   // ToolUse, before the tool runs
	NoteToolResult = "tool_result" // ToolUse, once it has run
	NoteCommand    = "command"     // Command: what is handed to the system's shell or interpreter
	NoteStream     = "stream"      // Stream: a piece of a reply, kept only when somebody asked for it

	NoteCall    = "call"     // Call: work asked for from inside of a task; the notes up to its end are its own
	NoteCallEnd = "call_end" // CallEnd: what came of it

	NoteModelError  = "model_error"    // ModelError: a call of a model that failed
	NoteModelRetry  = "model_retry"    // ModelRetry: an attempt that failed and is made again
	NoteMerge       = "merge_decision" // MergeDecision: which of several results counts
	NoteDone        = "done_by"        // DoneBy: what did a step that could be done in several ways
	NoteToolAnswer  = "tool_answer"    // ToolAnswer: what a person said to a call
	NoteMissingFile = "missing_file"   // MissingFile: a declared file that nobody made
	NoteSaid        = "said"           // Said: a line for people
	NoteProgress    = "progress"       // Progress: how far a call of a tool has come, now and then
	NoteAgent       = "agent"          // AgentWork: an agent outside is set to work, or says what it calls its session
	NoteUsage       = "usage"          // Usage: what a model call that has not ended has reported to have used so far
)

// Reported returns what the model call that a task was stopped in had reported
// to have used; nil when it had reported nothing.
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

// Prompt is a message to a model. Only what is new is noted: the answers of
// tools have notes of their own, and what was said before has been noted then.
type Prompt struct {
	System string  `json:"system,omitempty"`
	Blocks []Block `json:"blocks"`
	// Resumes says that it goes on with a session that was broken off: it
	// belongs to the prompt before it.
	Resumes bool `json:"resumes,omitempty"`
}

// Reply is a model's whole answer. Its JSON is that of a provider's reply,
// which may be noted as it is.
type Reply struct {
	Blocks []Block `json:"blocks"`
	Stop   string  `json:"stop,omitempty"`
	Usage  Tokens  `json:"usage,omitzero"`
	Model  string  `json:"model,omitempty"`
	ID     string  `json:"id,omitempty"`    // as the server calls it
	Asked  *Asked  `json:"asked,omitempty"` // nil when no server was asked
	// Provider is whose model it was, as the project calls them.
	Provider string `json:"provider,omitempty"`
	// Offline is "simulated" or "scripted" when no real model answered.
	Offline string `json:"offline,omitempty"`
}

// Asked is what a request of a server asked for.
type Asked struct {
	Server      string   `json:"server,omitempty"`
	MaxTokens   int64    `json:"max_tokens,omitempty"`
	Temperature *float64 `json:"temperature,omitempty"`
	JSON        bool     `json:"json,omitempty"`
}

// Tokens is what one reply cost.
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

// Block is one piece of a message.
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

// The fidelities: who knows that something happened.
const (
	ByRouter = "router"        // we did it ourselves
	ByAgent  = "agent_emitted" // an agent outside says that it did
)

// ToolUse is one call of a tool; its result repeats name, id and input.
type ToolUse struct {
	Name     string          `json:"name"`
	CallID   string          `json:"call_id"`
	Input    json.RawMessage `json:"input,omitempty"`
	Output   json.RawMessage `json:"output,omitempty"`
	Error    string          `json:"error,omitempty"`
	Class    Class           `json:"class,omitempty"`    // of the error, when the call itself did not work
	Fidelity string          `json:"fidelity,omitempty"` // empty is ByRouter
	// Repeatable calls do no harm when they are made again: the tool changes
	// nothing, or takes the call's key.
	Repeatable bool `json:"repeatable,omitempty"`
	// Offline is "simulated" or "scripted" when nothing real was called.
	Offline string `json:"offline,omitempty"`
	// Media are the files that Output has placeholders for.
	Media []Media `json:"media,omitempty"`
}

// Media is a file that a tool returned.
type Media struct {
	Type string `json:"type"` // such as image/png
	File string `json:"file"` // in the run's folder
}

// Progress is how far a call of a tool has come, as the tool says.
type Progress struct {
	Name    string  `json:"name"`
	CallID  string  `json:"call_id"`
	Done    float64 `json:"done"`
	Total   float64 `json:"total,omitempty"` // 0 is not known
	Message string  `json:"message,omitempty"`
}

// ToolAnswer is what came of asking a person whether a tool may be called.
type ToolAnswer struct {
	Call     string `json:"call"`   // its key
	Digest   string `json:"digest"` // of exactly what was asked
	Approved bool   `json:"approved"`
	By       Actor  `json:"by,omitzero"`
	Note     string `json:"note,omitempty"`
	// TimedOut: nobody said anything in time, which is a no.
	TimedOut bool `json:"timed_out,omitempty"`
}

// Command is what a step hands to a shell or an interpreter.
type Command struct {
	Command string `json:"command"`
	// Script is the file of the project that the command runs, if it is one:
	// people are shown it before it runs.
	Script string `json:"script,omitempty"`
}

// Stream is a piece of a reply as it came.
type Stream struct {
	Chunk string `json:"chunk"`
}

// ModelError is a call of a model that failed.
type ModelError struct {
	Class   Class  `json:"class"`
	Message string `json:"message"`
	Status  int    `json:"status,omitempty"`
}

// ModelRetry is an attempt at a call of a model that failed and is made again.
type ModelRetry struct {
	ModelError
	Wait Millis `json:"wait_ms"` // before the next attempt
}

// MergeDecision is one choice in putting the results of branches together.
type MergeDecision struct {
	Key     string            `json:"key"`               // what was chosen: a type, or the values of the dedupe key
	Kept    json.RawMessage   `json:"kept"`              // what counts
	From    []string          `json:"from,omitempty"`    // the branches that said so
	Dropped []json.RawMessage `json:"dropped,omitempty"` // what does not
	Why     string            `json:"why"`               // duplicate, majority, first_wins, last_wins, critic
	Reason  string            `json:"reason,omitempty"`  // the critic's own words
}

// AgentWork is an agent outside that is set to work: noted before it begins,
// and again when it says what it calls its session.
type AgentWork struct {
	Agent string `json:"agent"`
	// Session is what it can be asked to go on with; empty when nobody knows.
	Session string `json:"session,omitempty"`
	// Acts says that it may change something.
	Acts bool `json:"acts,omitempty"`
}

// Said is a line for people who watch a run.
type Said struct {
	Text string `json:"text"`
}

// DoneBy is what did a step that could be done in several ways.
type DoneBy struct {
	By string `json:"by"`
}

// MissingFile is a declared file that was not there after its step.
type MissingFile struct {
	Path string `json:"path"`
	Why  string `json:"why,omitempty"`
}

// Call is work that a task asks for while it runs.
type Call struct {
	Key     string          `json:"key"` // <task>/call:N
	Kind    string          `json:"kind"`
	Request json.RawMessage `json:"request"`
}

// CallEnd is what came of a Call.
type CallEnd struct {
	Key    string          `json:"key"`
	Value  json.RawMessage `json:"value,omitempty"`
	Class  Class           `json:"class,omitempty"` // of the failure
	Error  string          `json:"error,omitempty"`
	Exit   int             `json:"exit,omitempty"`
	Millis int64           `json:"ms,omitempty"`
}

// ReadNote reads the data of a note.
func ReadNote(data json.RawMessage, into any) error { return jsonfast.Unmarshal(data, into) }
