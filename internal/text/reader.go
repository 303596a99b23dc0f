package text

import (
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
)

// Reader takes a map apart key by key and reports, with a format's own codes,
// what is missing, of the wrong type or unknown.
type Reader struct{}

// Codes is what a format calls the mistakes that a Reader finds.
type Codes struct {
	WrongType, Missing, Unknown, BadValue diag.Code
	// UnknownAs is how heavy an unknown key weighs; UnknownLenient makes it
	// an error under --strict.
	UnknownAs      diag.Severity
	UnknownLenient bool
}

// Text is a string and where it stands.
type Text struct {
	Value string
	Span  source.Span
}

// Read begins to take n apart. what names it in messages ("step", "agent").
func Read(n *Node, what string, codes Codes, out *diag.List) *Reader { return nil }
