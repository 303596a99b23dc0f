package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/protected"
)

// Tool is an operation that agents and tool steps can call. It is safe for concurrent use. Spec returns the same value
// each time. Call returns an error only if the tool could not run; ctx cancels the call.
type Tool interface {
	Spec() Spec
	Call(ctx context.Context, call Call) (Result, error)
}

// Spec describes a tool. Descriptions and schemas may come from servers; models receive them unchanged.
type Spec struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"` // of its input
	// Returns is the JSON Schema of its output, if it is known. Only simulations use it; outputs are not validated.
	Returns json.RawMessage `json:"returns,omitempty"`
	// SideEffects reports whether repeating a call may repeat its effect. Such a call is not repeated automatically
	// after a crash, unless the tool takes a key or implements Repeater.
	SideEffects bool `json:"side_effects,omitempty"`
	// TakesKey reports whether calls with the same key have their effect once.
	TakesKey bool `json:"takes_key,omitempty"`
	// RequiresApproval requires a person to approve each call with its exact arguments before it is made.
	RequiresApproval bool `json:"requires_approval,omitempty"`
	// ApprovalTimeout limits the wait for the approval; 0 sets no limit.
	ApprovalTimeout time.Duration `json:"approval_timeout,omitempty"`
	// Target describes what a call reaches. People see it when they approve a call.
	Target string `json:"target,omitempty"`
	// Timeout limits the duration of a call; 0 selects the default.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Code is the name of the argument that a shell executes, or "". Values that a step inserts into it are quoted as
	// data.
	Code string `json:"code,omitempty"`
}

// Repeater is implemented by tools with side effects that have some calls which are safe to repeat, such as a request
// with the method GET.
type Repeater interface {
	Repeatable(input json.RawMessage) bool
}

// Repeatable reports whether a call may be made again if it is unknown whether it was made before.
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
	// Readable are additional folders that only this call may read.
	Readable []string
	// MayReach reports whether the allowlists permit the URL that a server redirects to; nil permits all.
	MayReach func(address string) bool
	// TraceParent is the W3C traceparent to propagate; it may be empty.
	TraceParent string
	// MayTouch reports whether the workflow's lists allow the path that an argument resolves to, relative to the
	// project's root or the run's folder. linked is set if symbolic links were followed. Nil allows all.
	MayTouch func(path string, linked bool) bool
	// Keep are files that the call must not change.
	Keep protected.Files
	// Progress receives the progress of the call. It does not block, and any goroutine may call it during the call. It
	// may be nil.
	Progress func(Progress)
	// Ask returns a person's answer to a question of the tool. ok is false if there is no answer yet: then the tool
	// ends the call, whose result does not count, and the call is made again when a person has answered. Nil
	// answers nothing.
	Ask func(Question) (response Response, ok bool)
	// Sample generates a reply with the model of the caller, within the budget of the run. Nil generates none.
	Sample func(context.Context, Sampling) (Sample, error)
	// For identifies the origin of the call in its workflow. Only scripted and simulated tools use it, and notebooks,
	// which belong to one agent.
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

// Progress is the progress of a call.
type Progress struct {
	Done    float64
	Total   float64 // 0 if unknown
	Message string
}

// Purpose is the origin of a call in its workflow. The numbers count from 0.
type Purpose struct {
	Workflow  string
	Step      string
	Agent     string
	Visit     int // how often the step had been entered before
	Iteration int // in the innermost loop around the step
	Attempt   int // of the task
	// Wants is what the workflow requires of the output, for simulated tools.
	Wants contract.Contract
}

// Result is the output of a tool. IsError is set if the tool ran and reports a failure; if it could not run, Call
// returns an error instead.
type Result struct {
	Output  json.RawMessage `json:"output"`
	IsError bool            `json:"is_error,omitempty"`
	// Offline is set if no real tool was called.
	Offline journal.Offline `json:"offline,omitempty"`
	// Media are the files that placeholders in Output refer to.
	Media []Media `json:"-"`
	// LogLine is a line for the log of the run. If IsError is set, it is a short message for an Output that is too long
	// to show.
	LogLine string `json:"said,omitempty"`
}

// Error reports a call that could not be made, with the class that retries match.
type Error struct {
	Class   ir.Class
	Message string
}

// Errorf returns an error of a class.
func Errorf(class ir.Class, format string, args ...any) *Error {
	return &Error{Class: class, Message: fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string { return string(e.Class) + ": " + e.Message }
