package transcript

import (
	"encoding/json"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
)

// Type is the type of an event.
type Type string

// Types. Files of later releases may have others.
const (
	RunStarted       Type = "run.started"
	RunCompleted     Type = "run.completed"
	StepStarted      Type = "step.started"
	StepCompleted    Type = "step.completed"
	HookStarted      Type = "hook.started"
	HookCompleted    Type = "hook.completed"
	CallStarted      Type = "step.call_workflow.started"
	CallCompleted    Type = "step.call_workflow.completed"
	MessageUser      Type = "message.user"
	MessageAssistant Type = "message.assistant"
	ToolCall         Type = "tool.call"
	ToolResult       Type = "tool.result"
)

// Event is one line of a transcript.
type Event struct {
	Seq         int64           `json:"seq"`
	RunID       string          `json:"run_id"`
	ParentRunID string          `json:"parent_run_id,omitempty"`
	ChildRunID  string          `json:"child_run_id,omitempty"`
	Type        Type            `json:"type"`
	Path        string          `json:"path"`
	Iteration   int             `json:"iteration"`
	Timestamp   time.Time       `json:"timestamp"`
	Payload     json.RawMessage `json:"payload"`
}

// Step is the payload of run.*, step.* and hook.* events.
type Step struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Attempt is the number of a retry, from 2. Each attempt has a pair of events.
	Attempt int             `json:"attempt,omitempty"`
	Error   string          `json:"error,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
}

// Message is the payload of message.* events.
type Message struct {
	Role   string  `json:"role"`
	Blocks []Block `json:"blocks"`
	// Offline is set if no real model answered.
	Offline journal.Offline `json:"offline,omitempty"`
}

// Block is one piece of a message.
type Block struct {
	Type        string          `json:"type"`
	Fidelity    string          `json:"fidelity"`
	Text        string          `json:"text,omitempty"`
	Thinking    string          `json:"thinking,omitempty"`
	ToolName    string          `json:"tool_name,omitempty"`
	ToolID      string          `json:"tool_id,omitempty"`
	ToolInput   json.RawMessage `json:"tool_input,omitempty"`
	ToolContent json.RawMessage `json:"tool_content,omitempty"`
	Command     string          `json:"command,omitempty"`
	Chunk       string          `json:"chunk,omitempty"`
}

// Types of blocks.
const (
	BlockText       = "text"
	BlockThinking   = "thinking"
	BlockToolUse    = "tool_use"
	BlockToolResult = "tool_result"
	BlockCommand    = "command"
	BlockStream     = "stream"
)

// Tool is the payload of tool.* events.
type Tool struct {
	Name     string          `json:"name"`
	CallID   string          `json:"call_id"`
	Input    json.RawMessage `json:"input"`
	Output   json.RawMessage `json:"output"`
	Error    string          `json:"error,omitempty"`
	Fidelity string          `json:"fidelity"`
	// Offline is set if nothing real was called.
	Offline journal.Offline `json:"offline,omitempty"`
}
