package provider

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
)

// Model answers requests. It is safe for concurrent use. A stream is read once, by one goroutine; a consumer may stop
// reading at any time, which ends the call.
type Model interface {
	// Generate streams a reply: any number of pieces as they arrive, then the
	// complete Reply. An error ends the stream; failures of the provider are
	// of type *Error.
	Generate(ctx context.Context, req Request) iter.Seq2[Chunk, error]
}

// Stream streams the chunks that call emits, and then the reply that it returns, or its error. When emit returns false,
// call must return; its results are then ignored. Usage and model that the server does not report are filled in from
// the request.
func Stream(
	ctx context.Context, req *Request, call func(emit func(Chunk) bool) (*Reply, error),
) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(Chunk{}, err)
			return
		}
		stopped := false
		reply, err := call(func(c Chunk) bool {
			stopped = !yield(c, nil)
			return !stopped
		})
		switch {
		case stopped:
		case err != nil:
			yield(Chunk{}, err)
		default:
			reply.FillUsage(req)
			reply.Model = cmp.Or(reply.Model, req.Model)
			yield(Chunk{Reply: reply}, nil)
		}
	}
}

// Sizer is a Model that bounds the size of a request itself, for reservations of a budget. For other models,
// Request.MostTokens applies.
type Sizer interface {
	// MostTokens returns an upper bound of the tokens that the model counts.
	MostTokens(req *Request) int64
}

// Request is a request to a model.
type Request struct {
	Model     string    `json:"model,omitempty"`
	System    string    `json:"system,omitempty"`
	Messages  []Message `json:"messages"`
	Tools     []Tool    `json:"tools,omitempty"`
	MaxTokens int       `json:"max_tokens,omitempty"`
	// Schema is the JSON Schema of the reply; nil allows any text.
	Schema  json.RawMessage `json:"schema,omitempty"`
	Options json.RawMessage `json:"options,omitempty"` // passed to the provider unchanged
	// Task is set for agents (see Agents), and nil for other models.
	Task *AgentTask `json:"work,omitempty"`
	// For is the purpose of the request. It is never sent to a server; offline
	// models choose their reply by it.
	For Purpose `json:"for,omitzero"`
}

// Purpose identifies the part of a workflow that makes a request.
type Purpose struct {
	Workflow string `json:"workflow,omitempty"`
	Step     string `json:"step,omitempty"`
	Agent    string `json:"agent,omitempty"`
	Key      string `json:"key,omitempty"` // of the task: stable across crashes
	// Visit counts earlier visits of the step, Iteration is the index in the
	// innermost loop around it, Attempt that of the task and Turn that of the
	// conversation: all from 0. Offline models distinguish repeated requests by
	// these only, because a counter in memory does not survive a crash.
	Visit     int `json:"visit,omitempty"`
	Iteration int `json:"iteration,omitempty"`
	Attempt   int `json:"attempt,omitempty"`
	Turn      int `json:"turn,omitempty"`
	// Call is the number of the call, from 1, in a step whose code calls agents; otherwise 0.
	Call int `json:"call,omitempty"`
	// Contract states the required form of the reply.
	Contract contract.Contract `json:"contract,omitzero"`
	// Expected is the author's description of the reply.
	Expected string `json:"expected,omitempty"`
	// Sample is an acceptable reply that was derived by rules; the simulated
	// model sends it.
	Sample string `json:"sample,omitempty"`
}

// Role is the author of a message.
type Role string

// The roles.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// Message is one turn of a conversation.
type Message struct {
	Role   Role    `json:"role"`
	Blocks []Block `json:"blocks"`
}

// BlockType is the kind of a block's content.
type BlockType string

// The types of blocks.
const (
	Text       BlockType = "text"
	Thinking   BlockType = "thinking"
	ToolUse    BlockType = "tool_use"
	ToolResult BlockType = "tool_result"
)

// Block is one piece of a message.
type Block struct {
	Type BlockType `json:"type"`
	Text string    `json:"text,omitempty"` // text and thinking
	// Signature must be sent back with the block; some providers sign thinking and tool uses.
	Signature string          `json:"signature,omitempty"`
	ToolID    string          `json:"tool_id,omitempty"`
	ToolName  string          `json:"tool_name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`   // of a tool use
	Content   json.RawMessage `json:"content,omitempty"` // of a tool result
	IsError   bool            `json:"is_error,omitempty"`
	// Media are files that a tool returned. Content has a placeholder for each,
	// for models that do not accept its type.
	Media []Media `json:"media,omitempty"`
}

// Media is an image or a sound.
type Media struct {
	Type string `json:"type"` // such as image/png
	Data []byte `json:"data"`
}

// Tool is a tool that a model may call.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"` // of its input
}

// Chunk is a piece of a reply. The last one carries the whole Reply, which has the texts of the pieces again. Every
// chunk has one of the fields, and Type with Text.
type Chunk struct {
	// Type is Text or Thinking; the other types of blocks come with the Reply alone.
	Type  BlockType
	Text  string
	Reply *Reply
	// Retried reports a failed attempt. The chunks before it are void: the reply starts over.
	Retried *Retried
	// NextAttempt is set when the wait after Retried is over, before the next attempt.
	NextAttempt bool
	// Session is the ID of an agent's session, as soon as it is known; ToolEvent is the start or end of a call to one
	// of the agent's own tools.
	Session   string
	ToolEvent *AgentToolEvent
	// Used holds the usage that an agent has reported so far.
	Used *Reply
}

// StopReason is the reason why a model stopped.
type StopReason string

// The reasons.
const (
	Done      StopReason = "done"
	WantsTool StopReason = "tool_use"
	CutOff    StopReason = "max_tokens"
	Refused   StopReason = "refused"
)

// Reply is a complete reply.
type Reply struct {
	Blocks []Block    `json:"blocks"`
	Stop   StopReason `json:"stop"`
	// Refusal is the reason that the model or its server gives for a refusal, if any.
	Refusal string `json:"refusal,omitempty"`
	Usage   Usage  `json:"usage"`
	Model   string `json:"model"`
	// ID is the server's ID of the reply, for support requests.
	ID string `json:"id,omitempty"`
	// RequestParams holds parameters of the request; nil for offline models.
	RequestParams *RequestParams `json:"asked,omitempty"`
	// Provider is the name of the provider in the project. The router that
	// chooses among providers sets it.
	Provider string `json:"provider,omitempty"`
	// Offline is set if no real model answered. Records and
	// user interfaces label the reply with it.
	Offline journal.Offline `json:"offline,omitempty"`
	// AgentResult is set for replies of agents (see Agents).
	AgentResult *AgentResult `json:"worked,omitempty"`
}

// RequestParams holds the parameters of a request that records keep with its reply.
type RequestParams struct {
	Server      string   `json:"server,omitempty"` // its host
	MaxTokens   int      `json:"max_tokens,omitempty"`
	Temperature *float64 `json:"temperature,omitempty"`
	JSON        bool     `json:"json,omitempty"` // the request had a schema
}

// Text returns the joined text blocks of the reply, or the final answer of an
// agent.
func (r *Reply) Text() string {
	if r.AgentResult != nil {
		return r.AgentResult.Answer
	}
	return r.AllText()
}

// AllText returns the joined text blocks of the reply, including the
// intermediate texts of an agent.
func (r *Reply) AllText() string {
	var out []byte
	for _, b := range r.Blocks {
		if b.Type == Text {
			out = append(out, b.Text...)
		}
	}
	return string(out)
}

// Usage counts the tokens of one reply. Input does not include tokens that were read from a cache or written to it:
// each of the four numbers has a price of its own.
type Usage struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
}

// Classes returns the classes of errors that models return.
func Classes() []ir.Class {
	return []ir.Class{
		ir.ClassTimeout, ir.ClassRateLimit, ir.ClassAPI, ir.ClassBadRequest, ir.ClassNoQuota, ir.ClassMissing,
	}
}

// Error is a model's failure.
type Error struct {
	Class      ir.Class
	Status     int           // of HTTP; 0 if there was none
	RetryAfter time.Duration // as requested by the provider; 0 if it states none
	Message    string
	// Billable reports whether the provider may charge for this attempt.
	Billable bool
	// NoSession reports that the session to resume does not exist, so the agent
	// did nothing.
	NoSession bool
	// Partial holds the usage that was reported before the failure. If it is nil
	// and Billable is set, the full reservation is charged.
	Partial *Reply
}

// Errorf returns an Error with a class and a formatted message.
func Errorf(class ir.Class, format string, args ...any) *Error {
	return &Error{Class: class, Message: fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("%s (%d): %s", e.Class, e.Status, e.Message)
	}
	return fmt.Sprintf("%s: %s", e.Class, e.Message)
}

// Interrupted is the error of a call that was canceled after the model had
// reported usage.
type Interrupted struct {
	Cause   error // the error of the context
	Partial *Reply
}

func (e *Interrupted) Error() string { return e.Cause.Error() }

// Unwrap returns the cause.
func (e *Interrupted) Unwrap() error { return e.Cause }

// Charge returns what a call is charged that failed with err: the usage of a partial reply if that is known, the whole
// reservation if whole is set, because the provider may bill it, and otherwise nothing. An error that is not a
// provider's, such as that of a context, does not tell what the model did.
func Charge(err error) (partial *Reply, whole bool) {
	if interrupted, ok := errors.AsType[*Interrupted](err); ok {
		return interrupted.Partial, interrupted.Partial == nil
	}
	failed, ok := errors.AsType[*Error](err)
	if !ok {
		return nil, true
	}
	return failed.Partial, failed.Partial == nil && failed.Billable
}

// Retryable reports whether a retry may succeed.
func (e *Error) Retryable() bool {
	return e.Class == ir.ClassTimeout || e.Class == ir.ClassRateLimit || e.Class == ir.ClassAPI
}
