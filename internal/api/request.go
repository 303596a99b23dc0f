package api

import (
	"encoding/json"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
)

// The bodies of requests to runs, and of their responses. The server and its client share them.

// DecideBody is a decision about a gate.
type DecideBody struct {
	Step     string         `json:"step,omitempty" doc:"Step of the gate; may be left out if only one gate is open"`
	Decision journal.Answer `json:"decision" enum:"approve,reject"`
	Note     string         `json:"note,omitempty"`
	// Value is the answer to a question of a tool.
	Value json.RawMessage `json:"value,omitempty" doc:"Answer to a question of a tool: fits the answer_schema of the gate"`

	As     string `json:"as,omitempty" maxLength:"255" doc:"Who the user acts for; recorded as a claim"`
	Digest string `json:"digest" minLength:"1" doc:"Digest of what was shown: a decision on something else is refused"`

	Automated bool `json:"automated,omitempty" doc:"No person decides: a program approves the gates of a simulated run"`
}

// ResolveBody is an answer about a step whose outcome is unknown.
type ResolveBody struct {
	Step   string          `json:"step"`
	Answer journal.Answer  `json:"answer" enum:"rerun,skip,fail,result"`
	Value  json.RawMessage `json:"value,omitempty" doc:"Result of the step, with the answer result"`
}

// RaiseBody is a new limit of a budget.
type RaiseBody struct {
	Budget string `json:"budget" doc:"steps, tool_calls, tokens, active_seconds or micro_dollars"`
	To     int64  `json:"to" minimum:"1" doc:"New limit; money in millionths of a dollar"`
}

// ResumeBody is how a run continues.
type ResumeBody struct {
	Raise   []RaiseBody   `json:"raise,omitempty"`
	Resolve []ResolveBody `json:"resolve,omitempty" doc:"Answers about steps whose outcome is unknown"`
	From    string        `json:"from,omitempty" doc:"Step to go back to; a finished run continues as a new one"`
	Set     []EditBody    `json:"set,omitempty" doc:"Variables to edit in the new run that continues a finished one"`
}

// EditBody is a new value of a variable.
type EditBody struct {
	Variable string          `json:"variable"`
	Value    json.RawMessage `json:"value"`
}

// SignalBody is an event for a run.
type SignalBody struct {
	Event string          `json:"event" minLength:"1"`
	Step  string          `json:"step,omitempty" doc:"The only step that receives the event, as in the gates of a run"`
	Data  json.RawMessage `json:"data,omitempty"`
}

// CancelBody is why a run is canceled.
type CancelBody struct {
	Reason string `json:"reason,omitempty"`
}

// Decided is the state after a decision.
type Decided struct {
	Status
	Edited []string `json:"edited,omitempty" doc:"Variables whose files were edited; what the files hold now is what is approved"`
}

// Resumed is a run that continues.
type Resumed struct {
	Status
	ContinuesFrom string        `json:"continues_from,omitempty" doc:"Step from which a new run continues a finished one"`
	Changed       []ChangedFile `json:"changed,omitempty" doc:"Files that have changed since the run started; it continues with what they were"`
}

// ChangedFile is a file that has changed since a run started.
type ChangedFile struct {
	Path string `json:"path"`
	Gone bool   `json:"gone,omitempty"`
}

// Message returns the answer as a message to the run.
func (b ResolveBody) Message() app.Message { return app.Resolve(b) }
