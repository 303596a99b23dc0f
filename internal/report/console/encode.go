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

// Encode returns a notice for [Decode], which may be in another process.
func Encode(n *Notice) ([]byte, error) {
	return json.Marshal(wire{
		*n, n.asks, n.place, n.root, n.limits, n.needs, n.left, n.printed, n.next, n.quiet, n.repeats, n.markedFailed,
		n.color,
	})
}

// Decode returns the notice that [Encode] has encoded.
func Decode(raw []byte) (*Notice, error) {
	var w wire
	if err := json.Unmarshal(raw, &w); err != nil {
		return nil, err
	}
	n := w.Notice
	if w.Asks == "" { // of a server before it had these kinds
		w.Asks = cmp.Or(map[string]journal.AskKind{"decision": journal.AskOutcome}[n.For], journal.AskKind(n.For))
	}
	n.asks, n.place, n.root, n.limits, n.needs, n.left = w.Asks, w.Place, w.Root, w.Limits, w.Needs, w.Left
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
