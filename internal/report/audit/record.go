package audit

import (
	"encoding/json"
	"time"
)

// Format is the format of the records, named in the first one of each file.
const Format = "espalier.audit.v1"

// Members that logs of the first release do not have.
const (
	actorMethod = "actor_method" // how a server has established the actor
	confinement = "confinement"  // how the commands of a run are confined
)

// addedFields are the members that a comparison must not expect in an older log.
var addedFields = []string{actorMethod, confinement}

// Ext is the suffix of file names, after the run's id.
const Ext = ".audit.ndjson"

// Record is one line of an audit log.
type Record struct {
	Seq         int64           `json:"seq"`
	RunID       string          `json:"run_id"`
	TraceID     string          `json:"trace_id"`
	ParentRunID string          `json:"parent_run_id,omitempty"`
	StepID      string          `json:"step_id,omitempty"`
	Event       string          `json:"event"`
	Timestamp   time.Time       `json:"timestamp"`
	Data        json.RawMessage `json:"data"`
	PrevHash    string          `json:"prev_hash"`
}

// Genesis is the prev_hash of the first record.
const Genesis = "0000000000000000000000000000000000000000000000000000000000000000"
