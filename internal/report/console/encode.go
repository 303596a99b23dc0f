package console

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
)

// wire is a notice with everything that its line is made of. A server sends it,
// and the terminal of the client formats it.
type wire struct {
	Notice
	For      string          `json:"for,omitempty"` // as clients of version 0.2 know it
	Asks     journal.AskKind `json:"asks,omitempty"`
	Place    string          `json:"place,omitempty"`
	Root     journal.RunID   `json:"root,omitempty"`
	Limits   journal.Limits  `json:"limits,omitzero"`
	Needs    int64           `json:"needs,omitempty"`
	Left     int64           `json:"left,omitempty"`
	Printed  string          `json:"printed,omitempty"`
	NextName string          `json:"next_name,omitempty"`
	Quiet    bool            `json:"quiet,omitempty"`
	Repeats  bool            `json:"repeats,omitempty"`
	Badly    bool            `json:"badly,omitempty"`
	Color    report.Color    `json:"color,omitempty"`
}

// formerAsks are the names that version 0.2 has for what waits are for, where they differ.
var formerAsks = map[journal.AskKind]string{
	journal.AskToolApproval: "approval", journal.AskInput: "event", journal.AskOutcome: "decision",
}

// Encode returns a notice for [Decode], which may be in another process.
func Encode(n *Notice) ([]byte, error) {
	return json.Marshal(wire{
		*n, cmp.Or(formerAsks[n.For], string(n.For)), n.For, n.place, n.root, n.limits, n.needs, n.left, n.printed,
		n.next, n.quiet, n.repeats, n.markedFailed, n.color,
	})
}

// Decode returns the notice that [Encode] has encoded.
func Decode(raw []byte) (*Notice, error) {
	var w wire
	if err := json.Unmarshal(raw, &w); err != nil {
		return nil, err
	}
	n := w.Notice
	if n.For = w.Asks; n.For == "" { // of a server of version 0.2
		n.For = cmp.Or(map[string]journal.AskKind{"decision": journal.AskOutcome}[w.For], journal.AskKind(w.For))
	}
	n.place, n.root, n.limits, n.needs, n.left = w.Place, w.Root, w.Limits, w.Needs, w.Left
	n.printed, n.next = w.Printed, w.NextName
	n.quiet, n.repeats, n.markedFailed, n.color = w.Quiet, w.Repeats, w.Badly, w.Color
	return &n, nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Time) UnmarshalJSON(raw []byte) error {
	var at time.Time
	if err := at.UnmarshalJSON(raw); err != nil {
		return err
	}
	t.Time = at
	return nil
}
