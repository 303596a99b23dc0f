package kinds

import "encoding/json"

// State is what a step of AWF leaves for conditions and later steps. Its keys are those of AWF.
type State struct {
	Output   string      `json:"Output"`
	Stderr   string      `json:"Stderr"`
	ExitCode int         `json:"ExitCode"`
	Status   StateStatus `json:"Status"`
	Error    string      `json:"Error,omitempty"`
}

// StateStatus is how a step ended.
type StateStatus string

// The statuses.
const (
	StateCompleted StateStatus = "completed"
	StateFailed    StateStatus = "failed"
	StateWaiting   StateStatus = "waiting" // a conversation, for the person's next text
)

// stateSchema describes what conditions can read of the State that a command leaves.
var stateSchema = json.RawMessage(`{"type":"object","properties":{` +
	`"Output":{"type":"string"},"Stderr":{"type":"string"},` +
	`"ExitCode":{"type":"integer","minimum":0,"maximum":255},` +
	`"Status":{"enum":["` + string(StateCompleted) + `","` + string(StateFailed) + `"]}}}`)
