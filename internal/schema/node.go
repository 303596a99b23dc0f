package schema

import (
	"math/big"
	"regexp"
)

// Node is a compiled schema or subschema. Compile creates it; afterwards it is read-only. Keywords of older drafts are
// converted to those of draft 2020-12.
type Node struct {
	Bool *bool // a boolean schema: true accepts every value, false none

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
	Enum  []any // nil without the keyword
	Const *any

	Minimum, Maximum, ExclusiveMinimum, ExclusiveMaximum, MultipleOf *big.Rat

	MinLength, MaxLength *int
	Pattern              *regexp.Regexp
	Format               string

	PrefixItems      []*Node
	Items            *Node // applies to items after PrefixItems
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

	pointer string // location in the document
	within  *resource
}

// Dynamic is a $dynamicRef, or the $recursiveRef of draft 2019-09.
type Dynamic struct {
	Ref    *Node  // the target unless an enclosing schema overrides the anchor
	anchor string // "" if the reference behaves like $ref
}

// PatternProperty is the schema of properties whose names match a pattern.
type PatternProperty struct {
	Pattern *regexp.Regexp
	Schema  *Node
}

// Never reports whether the schema is false, which accepts no value.
func (n *Node) Never() bool { return n.Bool != nil && !*n.Bool }

// Accepts reports whether a value is valid. The value must be as Decode returns it.
func (n *Node) Accepts(v any) bool {
	r := evaluation{quiet: 1}
	r.check(n, v, nil, nil)
	return r.failed == 0 && !r.exceeded()
}
