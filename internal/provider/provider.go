package provider

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/journal"
)

// Model answers requests.
type Model interface {
	// Generate streams a reply: any number of pieces as they come, and last
	// the whole of it. An error ends the stream; it is an *Error when the
	// model's side is to blame.
	Generate(ctx context.Context, req Request) iter.Seq2[Chunk, error]
}

// Stream streams the chunks that call emits, and then the reply that it returns, or its error. When emit returns false,
// call must return; what it returns then does not matter.
func Stream(
	ctx context.Context, req *Request, call func(emit func(Chunk) bool) (*Reply, error),
) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(Chunk{}, err)
			return
		}
		gone := false
		reply, err := call(func(c Chunk) bool {
			gone = !yield(c, nil)
			return !gone
		})
		switch {
		case gone:
		case err != nil:
			yield(Chunk{}, err)
		default:
			reply.FillUsage(req)
			reply.Model = cmp.Or(reply.Model, req.Model)
			yield(Chunk{Reply: reply}, nil)
		}
	}
}

// Sizer is a Model that knows how large a request can be to it. What others
// count is an estimate.
type Sizer interface {
	// MostTokens is an estimate from above of what the model will count.
	MostTokens(req *Request) int64
}

// Request is everything a model gets to see.
type Request struct {
	Model     string    `json:"model,omitempty"`
	System    string    `json:"system,omitempty"`
	Messages  []Message `json:"messages"`
	Tools     []Tool    `json:"tools,omitempty"`
	MaxTokens int       `json:"max_tokens,omitempty"`
	// Schema asks for a reply that is JSON of this shape.
	Schema  json.RawMessage `json:"schema,omitempty"`
	Options json.RawMessage `json:"options,omitempty"` // the provider's own, passed on as they are
	// Work is what an agent needs to know that works by itself; nil for a model
	// that only answers.
	Work *Work `json:"work,omitempty"`
	// For says what the request is for. Models of the network never see it;
	// offline ones choose their reply by it.
	For Purpose `json:"for,omitzero"`
}

// Purpose is where in a workflow a request comes from.
type Purpose struct {
	Workflow string `json:"workflow,omitempty"`
	Step     string `json:"step,omitempty"`
	Agent    string `json:"agent,omitempty"`
	Key      string `json:"key,omitempty"` // of the task: stable across crashes
	// Visit is how often the step had been entered before, Iteration the index
	// in the innermost loop around it, Attempt that of the task and Turn that
	// of the conversation: all from 0. Together they are the only "how often"
	// that offline models know: counting calls would forget them in a crash.
	Visit     int `json:"visit,omitempty"`
	Iteration int `json:"iteration,omitempty"`
	Attempt   int `json:"attempt,omitempty"`
	Turn      int `json:"turn,omitempty"`
	// Call is the number of the call, from 1, in a step whose code calls agents; otherwise 0.
	Call int `json:"call,omitempty"`
	// Contract is what the reply must be.
	Contract contract.Contract `json:"contract,omitzero"`
	// Expected is the author's description of the reply.
	Expected string `json:"expected,omitempty"`
	// Sample is a reply that would do, worked out by rules: what offline models
	// answer with.
	Sample string `json:"sample,omitempty"`
}

// Role is who says something.
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

// BlockType is what a block carries.
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
	// Signature is what some providers want back with their thinking.
	Signature string          `json:"signature,omitempty"`
	ToolID    string          `json:"tool_id,omitempty"`
	ToolName  string          `json:"tool_name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`   // of a tool use
	Content   json.RawMessage `json:"content,omitempty"` // of a tool result
	IsError   bool            `json:"is_error,omitempty"`
	// Media are files that a tool returned. Content has a placeholder for each,
	// so that models that do not take its type still learn about it.
	Media []Media `json:"media,omitempty"`
}

// Media is an image or a sound.
type Media struct {
	Type string `json:"type"` // such as image/png
	Data []byte `json:"data"`
}

// Tool is a tool that a model may ask for.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"` // of its input
}

// Chunk is a piece of a reply. The last one carries the whole Reply.
type Chunk struct {
	Type  BlockType
	Text  string
	Reply *Reply
	// Retried says that the pieces so far do not count: the reply begins anew.
	Retried *Retried
	// Again says that the wait is over, and the next attempt is about to be made.
	Again bool
	// Session and Did are of agents that work by themselves: what they call the
	// conversation, as soon as that is known, and what they do with tools.
	Session string
	Did     *Did
	// Used is what such an agent has reported to have used so far.
	Used *Reply
}

// StopReason is why a model stopped.
type StopReason string

// The reasons.
const (
	Done      StopReason = "done"
	WantsTool StopReason = "tool_use"
	CutOff    StopReason = "max_tokens"
	Refused   StopReason = "refused"
)

// Reply is a whole answer.
type Reply struct {
	Blocks []Block    `json:"blocks"`
	Stop   StopReason `json:"stop"`
	// Refusal is the reason that the model or its server gives for a refusal, if any.
	Refusal string `json:"refusal,omitempty"`
	Usage   Usage  `json:"usage"`
	Model   string `json:"model"`
	// ID is the server's id of the reply, for questions to its operator.
	ID string `json:"id,omitempty"`
	// Asked is what the request asked for; nil for offline models.
	Asked *Asked `json:"asked,omitempty"`
	// Provider is the name of the provider in the project. The router that
	// chooses among providers sets it.
	Provider string `json:"provider,omitempty"`
	// Offline is "simulated" or "scripted" when no real model answered; the
	// records and the screen say so wherever the reply appears.
	Offline string `json:"offline,omitempty"`
	// Worked is set when an agent gave the reply that works by itself.
	Worked *Worked `json:"worked,omitempty"`
}

// Asked is the part of a request that the records keep with its reply.
type Asked struct {
	Server      string   `json:"server,omitempty"` // its host
	MaxTokens   int      `json:"max_tokens,omitempty"`
	Temperature *float64 `json:"temperature,omitempty"`
	JSON        bool     `json:"json,omitempty"` // of a shape
}

// Text returns the reply's text blocks, joined; of an agent's work only what it
// came to in the end.
func (r *Reply) Text() string {
	if r.Worked != nil {
		return r.Worked.Answer
	}
	return r.Said()
}

// Said returns all that the reply says, what an agent says on the way included.
func (r *Reply) Said() string {
	var out []byte
	for _, b := range r.Blocks {
		if b.Type == Text {
			out = append(out, b.Text...)
		}
	}
	return string(out)
}

// Usage is the tokens of one reply.
type Usage struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
}

// Class is the class of a failure: what workflows retry on.
type Class = journal.Class

// The classes that models return.
const (
	Timeout    = journal.ClassTimeout
	RateLimit  = journal.ClassRateLimit
	APIError   = journal.ClassAPI
	BadRequest = journal.ClassBadRequest // and anything else that a retry does not help
	NoQuota    = journal.ClassNoQuota
	NotReady   = journal.ClassMissing // a key is missing
)

// Classes lists them all.
func Classes() []Class {
	return []Class{Timeout, RateLimit, APIError, BadRequest, NoQuota, NotReady}
}

// Error is a model's failure.
type Error struct {
	Class      Class
	Status     int
	RetryAfter time.Duration // what the provider asked for; 0 when it did not
	Message    string
	// Spent says that an answer had begun, or may have: it may be paid for.
	Spent bool
	// NoSession says that the session to go on with is not there, and that
	// nothing was done.
	NoSession bool
	// Partial is what the model says to have used all the same; nil when it says
	// nothing, and then all that was set aside counts if Spent.
	Partial *Reply
}

// Errorf returns an error of a class.
func Errorf(class Class, format string, args ...any) *Error {
	return &Error{Class: class, Message: fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("%s (%d): %s", e.Class, e.Status, e.Message)
	}
	return fmt.Sprintf("%s: %s", e.Class, e.Message)
}

// Interrupted is the error of a call that was cancelled after the model had
// reported what it used until then.
type Interrupted struct {
	Cause   error // of the context
	Partial *Reply
}

func (e *Interrupted) Error() string { return e.Cause.Error() }

// Unwrap returns the cause.
func (e *Interrupted) Unwrap() error { return e.Cause }

// Retryable reports whether trying again may help.
func (e *Error) Retryable() bool {
	return e.Class == Timeout || e.Class == RateLimit || e.Class == APIError
}
