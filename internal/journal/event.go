package journal

import "encoding/json"

// RunID identifies a run. It is a UUID.
type RunID string

// Short returns the start of the ID, which is enough to name the run in most projects.
func (id RunID) Short() string { return string(id[:min(len(id), 8)]) }

// Seq numbers the events of one run's stream from 1, without gaps.
type Seq int64

// Pos is the position of an append in the commit order of a store. Positions grow
// and are never reused; there may be gaps.
type Pos int64

// Millis is a time in milliseconds since the Unix epoch, or a duration in
// milliseconds.
type Millis int64

// Event is one fact with its position in the stream.
type Event struct {
	Seq Seq
	At  Millis
	// Run is the child run that the fact belongs to; empty for the run that owns
	// the stream.
	Run  RunID
	Fact Fact
}

// Value is JSON, or the hash of JSON that is stored as a blob because it is
// large.
type Value struct {
	JSON json.RawMessage `json:"j,omitempty"`
	Hash string          `json:"h,omitempty"` // SHA-256, hex
	Size int             `json:"n,omitempty"` // of the JSON with that hash
}

// IsZero reports whether there is no value; null is one.
func (v Value) IsZero() bool { return len(v.JSON) == 0 && v.Hash == "" }
