package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/protected"
)

// Tool does one thing in the world.
type Tool interface {
	Spec() Spec
	Call(ctx context.Context, call Call) (Result, error)
}

// Spec is what a tool says about itself.
type Spec struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"` // of its input
	// Returns is the JSON Schema of its answer, if it is known. Answers are not
	// validated: simulations use it.
	Returns json.RawMessage `json:"returns,omitempty"`
	// SideEffects tells whether calling it twice may do something twice.
	SideEffects bool `json:"side_effects,omitempty"`
	// TakesKey tells whether it does nothing twice when the call's key is the same.
	TakesKey bool `json:"takes_key,omitempty"`
	// RequiresApproval wants a person to agree to each call, with exactly its
	// arguments, before it is made.
	RequiresApproval bool `json:"requires_approval,omitempty"`
	// ApprovalTimeout is how long a person has for that; 0 is for ever.
	ApprovalTimeout time.Duration `json:"approval_timeout,omitempty"`
	// Target is what a call really reaches, in a few words: an approval is
	// about that, too.
	Target string `json:"target,omitempty"`
	// Timeout is how long a call may take; 0 is the usual time.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Code is the argument that a shell executes, "" if there is none. Values that a step inserts into it are data.
	Code string `json:"code,omitempty"`
}

// Repeater is a tool of which some calls do no harm when they are made twice,
// although others do.
type Repeater interface {
	Repeatable(input json.RawMessage) bool
}

// Repeatable reports whether a call may be made again when it is unknown whether
// it was made.
func Repeatable(t Tool, input json.RawMessage) bool {
	spec := t.Spec()
	if !spec.SideEffects || spec.TakesKey {
		return true
	}
	r, ok := t.(Repeater)
	return ok && r.Repeatable(input)
}

// Call is one use of a tool.
type Call struct {
	Key   string // stable across crashes: the idempotency key
	Input json.RawMessage
	Dir   string // the run's folder
	// Readable are further folders that this call may read from, and no other.
	Readable []string
	// MayReach tells whether the caller may call the tool with another address,
	// to which a server sends it on; nil lets it go anywhere.
	MayReach func(address string) bool
	// TraceParent is the W3C traceparent to hand on; empty is none.
	TraceParent string
	// MayTouch reports whether the workflow's lists allow the path that an
	// argument leads to, from the project's root or the run's folder. linked
	// says that symbolic links lead there. Nil allows all.
	MayTouch func(path string, linked bool) bool
	// Keep are files that the call must not change.
	Keep protected.Files
	// Progress receives how far the call has come. It takes no time and may be
	// called by any goroutine as long as the call lasts; nil is not told.
	Progress func(Progress)
	// Ask returns a person's answer to a question of the tool. ok is false if there is no answer yet: then the tool
	// ends the call, whose result does not count, and the call is made again when a person has answered. Nil
	// answers nothing.
	Ask func(Question) (response Response, ok bool)
	// Sample generates a reply with the model of the caller, within the budget of the run. Nil generates none.
	Sample func(context.Context, Sampling) (Sample, error)
	// For says where in a workflow the call comes from. Tools that do
	// something never look at it; scripted ones choose their answer by it.
	For Purpose
}

// Question is what a tool asks a person during a call.
type Question struct {
	Message string
	Schema  json.RawMessage // of the answer
}

// Response is a person's answer to a Question.
type Response struct {
	Accepted bool
	Value    json.RawMessage // fits the schema of the question
}

// Sampling is a request of a tool for a reply of a model.
type Sampling struct {
	System    string            `json:"system,omitempty"`
	Messages  []SamplingMessage `json:"messages"`
	MaxTokens int               `json:"max_tokens"`
}

// SamplingMessage is a message of the conversation that the model continues.
type SamplingMessage struct {
	Assistant bool   `json:"assistant,omitempty"` // the model has written it, not the user
	Text      string `json:"text"`
}

// Sample is the reply of a model.
type Sample struct {
	Model  string `json:"model"`
	Text   string `json:"text"`
	CutOff bool   `json:"cut_off,omitempty"` // the reply has reached its token limit
}

// Progress is how far a call has come.
type Progress struct {
	Done    float64
	Total   float64 // 0 is not known
	Message string
}

// Purpose is where in a workflow a call comes from. The numbers count from 0.
type Purpose struct {
	Workflow  string
	Step      string
	Agent     string
	Visit     int // how often the step had been entered before
	Iteration int // in the innermost loop around the step
	Attempt   int // of the task
	// Wants is what the workflow needs of the answer, for tools that make one up.
	Wants contract.Contract
}

// Result is what a tool gives back. IsError means that the tool worked and
// says no; an error of Call means that it did not work.
type Result struct {
	Output  json.RawMessage `json:"output"`
	IsError bool            `json:"is_error,omitempty"`
	// Offline is "simulated" or "scripted" when nothing real was called.
	Offline string `json:"offline,omitempty"`
	// Media are what Output has placeholders for.
	Media []Media `json:"-"`
	// Said is a line for the log of the run; of an error, what went wrong
	// where Output would be too much to read.
	Said string `json:"said,omitempty"`
}

// Error is a call that did not work, with the class that retries look at.
type Error struct {
	Class   journal.Class
	Message string
}

// Errorf returns an error of a class.
func Errorf(class journal.Class, format string, args ...any) *Error {
	return &Error{Class: class, Message: fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string { return string(e.Class) + ": " + e.Message }

// Class is the class of an error: what workflows retry on.
type Class = journal.Class

// The classes of errors that tools return.
const (
	ClassTool    = journal.ClassTool
	ClassTimeout = journal.ClassTimeout
	ClassInput   = journal.ClassInput
	ClassDenied  = journal.ClassDenied
	ClassMissing = journal.ClassMissing
)
