package expr

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/jsonfast"
	"github.com/espalier-run/espalier/internal/source"
)

// surrogate is the JSON form of an expression.
type surrogate struct {
	Dialect Dialect           `json:"dialect"`
	Text    string            `json:"text"`
	Span    source.Span       `json:"span,omitzero"`
	Names   map[string]string `json:"names,omitempty"`
}

// MarshalJSON encodes dialect, text, span and names.
func (e *Expr) MarshalJSON() ([]byte, error) {
	if e == nil {
		return []byte("null"), nil
	}
	// The outer encoder decides whether to escape <, > and &.
	return jsonfast.Marshal(surrogate{e.Dialect, e.Text, e.Span, e.Names})
}

// UnmarshalJSON decodes the output of MarshalJSON and parses the text. It returns an error if the text does not parse.
func (e *Expr) UnmarshalJSON(raw []byte) error {
	var s surrogate
	if err := json.Unmarshal(raw, &s); err != nil {
		return err
	}
	return e.FromSurrogate(&s)
}

// FromSurrogate implements jsonfast.Surrogate.
func (e *Expr) FromSurrogate(from any) error {
	w := from.(*surrogate)
	if !slices.Contains(Dialects(), w.Dialect) {
		return fmt.Errorf("unknown dialect %q", w.Dialect)
	}
	read, list := reparse(w)
	if read.broken {
		first := slices.IndexFunc(list, func(d diag.Diagnostic) bool { return d.Severity == diag.Error })
		return fmt.Errorf("the expression %q does not parse: %s", w.Text, list[first].Message)
	}
	*e = *read
	e.Names = w.Names
	return nil
}

// NewSurrogate implements jsonfast.Surrogate.
func (e *Expr) NewSurrogate() any { return &surrogate{} }

// ToSurrogate implements jsonfast.Surrogate. It rejects an expression that does not parse, because it could not be
// decoded again.
func (e *Expr) ToSurrogate(to any) error {
	if e.broken {
		return fmt.Errorf("the expression %q does not parse", e.Text)
	}
	*to.(*surrogate) = surrogate{e.Dialect, e.Text, e.Span, e.Names}
	return nil
}

// reparse parses an expression again. It does not lint it, because that was done when the file was read.
func reparse(w *surrogate) (*Expr, diag.List) {
	if w.Dialect.foreign() {
		return parseForeign(w.Dialect, w.Text, w.Span)
	}
	read, p := parse(w.Dialect, w.Text, w.Span)
	return read, p.diags
}
