package text

import (
	"encoding/json"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
)

// Kind is the shape of a YAML node.
type Kind int

// The shapes.
const (
	Null Kind = iota
	Bool
	Int
	Float
	String
	List
	Map
)

// Node is a YAML value and the bytes that it was written with.
type Node struct {
	Kind Kind
	// Value is a scalar's content as text: what a plain scalar says, what
	// quotes and block scalars mean.
	Value string
	Items []*Node // of a list
	Pairs []Pair  // of a map, in the order of the file
	// Span is the whole value. When a scalar's content stands in the file
	// letter by letter, Span is exactly that content (without quotes), so that
	// len(Value) == Span.End-Span.Start and parts of it can be pointed at.
	Span source.Span
}

// Pair is one entry of a map.
type Pair struct{ Key, Value *Node }

// ParseYAML reads the bytes [start, end) of a file as one YAML document. It
// returns a Null node for an empty one, and nil only with an error.
func ParseYAML(f *source.File, start, end int) (*Node, diag.List) { return nil, nil }

// Get returns the value of a key of a map, or nil.
func (n *Node) Get(key string) *Node { return nil }

// JSON is the value as JSON, maps in the order of the file.
func (n *Node) JSON() json.RawMessage { return nil }
