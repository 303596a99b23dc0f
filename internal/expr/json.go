package expr

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
)

type wire struct {
	Dialect Dialect           `json:"dialect"`
	Text    string            `json:"text"`
	Span    source.Span       `json:"span,omitzero"`
	Names   map[string]string `json:"names,omitempty"`
}

// MarshalJSON writes the expression's dialect, text, place and names.
func (e *Expr) MarshalJSON() ([]byte, error) {
	if e == nil {
		return []byte("null"), nil
	}
	// Whether <, > and & are escaped is for the outer encoder to say.
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(wire{e.Dialect, e.Text, e.Span, e.Names})
	return b.Bytes(), err
}

// UnmarshalJSON reads what MarshalJSON wrote and parses the text again. A text
// that does not parse is an error.
func (e *Expr) UnmarshalJSON(raw []byte) error {
	var w wire
	if err := json.Unmarshal(raw, &w); err != nil {
		return err
	}
	return e.take(&w)
}

func (e *Expr) take(w *wire) error {
	if !slices.Contains(Dialects(), w.Dialect) {
		return fmt.Errorf("there is no dialect %q", w.Dialect)
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

// NewSurrogate makes what stands in for an expression, for package wire.
func (e *Expr) NewSurrogate() any { return &wire{} }

// ToSurrogate fills what stands in. A text that does not parse is an error at once:
// nobody could read it again.
func (e *Expr) ToSurrogate(box any) error {
	if e.broken {
		return fmt.Errorf("the expression %q does not parse", e.Text)
	}
	*box.(*wire) = wire{e.Dialect, e.Text, e.Span, e.Names}
	return nil
}

// FromSurrogate is UnmarshalJSON of what stands in.
func (e *Expr) FromSurrogate(box any) error { return e.take(box.(*wire)) }

func reparse(w *wire) (*Expr, diag.List) {
	if w.Dialect.foreign() {
		return parseForeign(w.Dialect, w.Text, w.Span)
	}
	read, p := parse(w.Dialect, w.Text, w.Span)
	return read, p.diags
}
