package journal

import "encoding/json"

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
)

// Prompt is a message to a model. Only what is new is noted: the answers of
// tools have notes of their own, and what was said before has been noted then.
type Prompt struct {
	System string  `json:"system,omitempty"`
	Blocks []Block `json:"blocks"`
}

// Reply is a model's whole answer. Its JSON is that of a provider's reply,
// which may be noted as it is.
type Reply struct {
	Blocks []Block `json:"blocks"`
	Stop   string  `json:"stop,omitempty"`
	Usage  Tokens  `json:"usage,omitzero"`
	Model  string  `json:"model,omitempty"`
	// Offline is "simulated" or "scripted" when no real model answered.
	Offline string `json:"offline,omitempty"`
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
	Fidelity string          `json:"fidelity,omitempty"` // empty is ByRouter
}

// Command is what a step hands to a shell or an interpreter.
type Command struct {
	Command string `json:"command"`
}

// Stream is a piece of a reply as it came.
type Stream struct {
	Chunk string `json:"chunk"`
}
