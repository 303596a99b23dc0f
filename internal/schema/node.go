package schema

import (
	"math/big"
	"regexp"
)

// Node is one schema inside a schema, with what its keywords say. It is made
// by Compile and only read afterwards. The forms of older drafts are given as
// those of draft 2020-12.
type Node struct {
	Bool *bool // true allows everything, false nothing

	Ref        *Node
	DynamicRef *Dynamic
	AllOf      []*Node
	AnyOf      []*Node
	OneOf      []*Node
	Not        *Node
	If         *Node
	Then       *Node
	Else       *Node

	Types []string
	Enum  []any // nil when there is none
	Const *any

	Minimum, Maximum, ExclusiveMinimum, ExclusiveMaximum, MultipleOf *big.Rat

	MinLength, MaxLength *int
	Pattern              *regexp.Regexp
	Format               string

	PrefixItems      []*Node
	Items            *Node // those behind PrefixItems
	Contains         *Node
	MinContains      *int
	MaxContains      *int
	MinItems         *int
	MaxItems         *int
	UniqueItems      bool
	UnevaluatedItems *Node

	Properties            map[string]*Node
	PatternProperties     []PatternProperty // sorted by pattern
	AdditionalProperties  *Node
	PropertyNames         *Node
	UnevaluatedProperties *Node
	DependentSchemas      map[string]*Node
	DependentRequired     map[string][]string
	Required              []string
	MinProperties         *int
	MaxProperties         *int

	Title, Description string
	Default            *any
	Examples           []any

	pointer string // where in the document
	within  *resource
}

// Dynamic is a $dynamicRef, or the $recursiveRef of draft 2019-09.
type Dynamic struct {
	Ref    *Node  // where no schema around has another one
	anchor string // "" when it is nothing but a $ref
}

// PatternProperty is the schema of the properties whose names match.
type PatternProperty struct {
	Pattern *regexp.Regexp
	Schema  *Node
}

// Never reports whether nothing can fit: the schema is false.
func (n *Node) Never() bool { return n.Bool != nil && !*n.Bool }

// Accepts reports whether a value fits, given as Decode gives it.
func (n *Node) Accepts(v any) bool {
	r := run{quiet: 1}
	r.check(n, v, nil, nil)
	return r.failed == 0 && !r.tooMuch()
}
