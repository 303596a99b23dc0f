package journal

import "encoding/json"

// RunID names a run for ever: a UUID.
type RunID string

// Seq numbers the events of one run's stream from 1, without gaps.
type Seq int64

// Pos is a place in the order in which a store committed appends. Positions
// grow and are never used again; they may have gaps.
type Pos int64

// Millis is a moment as Unix time in milliseconds.
type Millis int64

// Event is one fact with its place in the stream.
type Event struct {
	Seq Seq
	At  Millis
	// Run is the child run that the fact belongs to; empty is the run whose
	// stream this is.
	Run  RunID
	Fact Fact
}

// Value is JSON, or the hash of JSON that is too large to be repeated.
type Value struct {
	JSON json.RawMessage `json:"j,omitempty"`
	Hash string          `json:"h,omitempty"` // SHA-256, hex
	Size int             `json:"n,omitempty"` // of what the hash stands for
}

// IsZero reports whether there is no value at all (not even null).
func (v Value) IsZero() bool { return len(v.JSON) == 0 && v.Hash == "" }
