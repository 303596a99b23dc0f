package expr

import (
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
)

// Dialect names what a format understands and how it converts values.
type Dialect string

// AgentFlow is the strict dialect of Agent Flow files.
const AgentFlow Dialect = "agent-flow"

// Expr is a parsed expression. As JSON it is its dialect, text and place, and
// is parsed again when read.
type Expr struct {
	Dialect Dialect
	Text    string
	Span    source.Span
	// Names says what bare names stand for: "tier" → "input.tier". A name
	// that is not in it stands for itself.
	Names map[string]string
}

// Path is a name that an expression reads, and where.
type Path struct {
	Segments []string // after Names was applied
	Written  []string // as the author wrote it
	Span     source.Span
}

// Env is what an expression can see.
type Env interface {
	// Lookup returns the value at a path; false when there is none.
	Lookup(path []string) (any, bool)
}

// Parse reads an expression. at is where text stands in its file.
func Parse(d Dialect, text string, at source.Span) (*Expr, diag.List) { return nil, nil }

// Paths lists every name that the expression reads, in the order of the text.
func (e *Expr) Paths() []Path { return nil }

// Eval computes the value.
func (e *Expr) Eval(env Env) (any, error) { return nil, nil }

// Bool computes whether the condition holds.
func (e *Expr) Bool(env Env) (bool, error) { return false, nil }
