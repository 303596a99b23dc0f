package schema

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/espalier-run/espalier/internal/xmaps"
)

// Limits of a validation. Ordinary schemas stay far below them.
const (
	maxWork     = 5_000_000 // schemas and properties visited
	maxDepth    = 10_000    // nested schemas
	maxFailures = 100       // reported failures
)

// evaluation is one validation of one value.
type evaluation struct {
	found  []failure
	quiet  int // while positive, failures are counted but not recorded
	failed int
	work   int
	depth  int
}

// failure is one violation.
type failure struct {
	at       *path
	message  string
	mismatch bool // the type, const or enum differs: the value is meant for another alternative
}

func (r *evaluation) exceeded() bool { return r.work > maxWork }

// path is a location in the value, innermost name first.
type path struct {
	up   *path
	name string
	item bool // name is an array index
}

func (p *path) String() string {
	var all []*path
	for ; p != nil; p = p.up {
		all = append(all, p)
	}
	var b strings.Builder
	for _, one := range slices.Backward(all) {
		switch {
		case one.item:
			b.WriteString("[" + one.name + "]")
		case b.Len() > 0:
			b.WriteString("." + one.name)
		default:
			b.WriteString(one.name)
		}
	}
	return b.String()
}

func (p *path) nth(i int) *path { return &path{up: p, name: strconv.Itoa(i), item: true} }

// scope is the chain of schemas being evaluated, innermost first.
type scope struct {
	up *scope
	n  *Node
	at *path
}

// evaluated is the set of properties and items that a schema has evaluated. The unevaluated keywords apply to the
// others.
type evaluated struct {
	properties map[string]bool
	items      map[int]bool
	first      int // all items before this index
}

// add adds what another schema has evaluated of the same value.
func (a *evaluated) add(b evaluated) {
	for name := range b.properties {
		a.property(name)
	}
	for i := range b.items {
		a.item(i)
	}
	a.first = max(a.first, b.first)
}

// property marks a property as evaluated.
func (a *evaluated) property(name string) { xmaps.Set(&a.properties, name, true) }

// item marks an item as evaluated.
func (a *evaluated) item(i int) { xmaps.Set(&a.items, i, true) }

// fail counts a failure and records it, unless matches only asks whether a schema matches.
func (r *evaluation) fail(at *path, format string, args ...any) {
	r.failed++
	if r.quiet == 0 && len(r.found) < maxFailures {
		r.found = append(r.found, failure{at: at, message: fmt.Sprintf(format, args...)})
	}
}

// failMismatch is like fail and marks the failure as a mismatch.
func (r *evaluation) failMismatch(at *path, format string, args ...any) {
	before := len(r.found)
	r.fail(at, format, args...)
	if len(r.found) > before {
		r.found[before].mismatch = true
	}
}

// matches evaluates a schema without recording failures.
func (r *evaluation) matches(n *Node, v any, at *path, in *scope) (bool, evaluated) {
	r.quiet++
	before := r.failed
	looked := r.check(n, v, at, in)
	ok := r.failed == before
	r.failed = before
	r.quiet--
	return ok, looked
}

// check evaluates a schema for a value and returns the properties and items that it evaluated, on which
// unevaluatedProperties and unevaluatedItems depend. The work and the depth are limited: a small schema can demand much
// of both.
func (r *evaluation) check(n *Node, v any, at *path, in *scope) evaluated {
	if r.work++; r.exceeded() {
		return evaluated{}
	}
	if n.Bool != nil {
		if !*n.Bool {
			r.fail(at, "is not allowed")
		}
		return evaluated{}
	}
	if r.depth >= maxDepth {
		r.work = maxWork + 1
		return evaluated{}
	}
	for up := in; up != nil && up.at == at; up = up.up {
		if r.work++; up.n == n { // the same schema for the same value: it would recurse forever
			r.fail(at, "cannot be validated because its schema refers to itself")
			return evaluated{}
		}
	}
	r.depth++
	defer func() { r.depth-- }()
	in = &scope{up: in, n: n, at: at}
	before := r.failed
	var all evaluated
	if n.Ref != nil {
		all.add(r.check(n.Ref, v, at, in))
	}
	if n.DynamicRef != nil {
		all.add(r.check(r.target(n.DynamicRef, in), v, at, in))
	}
	r.logic(n, v, at, in, &all)
	r.general(n, v, at)
	switch v := v.(type) {
	case string:
		r.text(n, v, at)
	case []any:
		r.array(n, v, at, in, &all)
	case map[string]any:
		r.object(n, v, at, in, &all)
	case nil, bool:
	default:
		r.number(n, v, at)
	}
	if r.failed > before {
		return evaluated{} // a failed schema evaluates nothing
	}
	return all
}

// target returns the outermost schema in scope with the dynamic anchor.
func (r *evaluation) target(d *Dynamic, in *scope) *Node {
	to := d.Ref
	if d.anchor != "" {
		for ; in != nil; in = in.up {
			r.work++
			if n := in.n.within.dynamic[d.anchor]; n != nil {
				to = n
			}
		}
	}
	return to
}

// logic evaluates the keywords that combine schemas for the same value.
func (r *evaluation) logic(n *Node, v any, at *path, in *scope, all *evaluated) {
	for _, one := range n.AllOf {
		all.add(r.check(one, v, at, in))
	}
	if len(n.AnyOf) > 0 {
		if r.matching(n.AnyOf, v, at, in, all) == nil {
			r.reportClosest(n.AnyOf, v, at, in)
		}
	}
	if len(n.OneOf) > 0 {
		switch matched := r.matching(n.OneOf, v, at, in, all); {
		case matched == nil:
			r.reportClosest(n.OneOf, v, at, in)
		case len(matched) > 1:
			r.fail(at, "matches alternatives %s, but only one may match", strings.Join(matched, " and "))
		}
	}
	if n.Not != nil {
		if ok, _ := r.matches(n.Not, v, at, in); ok {
			r.fail(at, "matches a schema that it must not match")
		}
	}
	if n.If != nil {
		ok, looked := r.matches(n.If, v, at, in)
		then := n.Else
		if ok {
			all.add(looked)
			then = n.Then
		}
		if then != nil {
			all.add(r.check(then, v, at, in))
		}
	}
}

// matching returns the numbers, starting at 1, of the alternatives that match.
func (r *evaluation) matching(alternatives []*Node, v any, at *path, in *scope, all *evaluated) []string {
	var out []string
	for i, one := range alternatives {
		if ok, looked := r.matches(one, v, at, in); ok {
			out = append(out, strconv.Itoa(i+1))
			all.add(looked)
		}
	}
	return out
}

// reportClosest reports the failures of the alternative with the fewest, among those that the value does not mismatch
// altogether.
func (r *evaluation) reportClosest(alternatives []*Node, v any, at *path, in *scope) {
	if r.quiet > 0 {
		r.failed++
		return
	}
	var best []failure
	for _, one := range alternatives {
		try := evaluation{work: r.work, depth: r.depth}
		try.check(one, v, at, in)
		r.work = try.work
		other := slices.ContainsFunc(try.found, func(f failure) bool { return f.mismatch && f.at == at })
		if !other && (best == nil || len(try.found) < len(best)) {
			best = try.found
		}
	}
	if best == nil {
		r.failMismatch(at, "%s", noMatch(alternatives, v))
		return
	}
	r.failed += len(best)
	r.found = append(r.found, best[:min(len(best), max(0, maxFailures-len(r.found)))]...)
}

// noMatch returns the message for a value that matches no alternative. It names the types if the value has none of
// them.
func noMatch(alternatives []*Node, v any) string {
	var types []string
	for _, one := range alternatives {
		if one.Types == nil || slices.ContainsFunc(one.Types, func(t string) bool { return isType(v, t) }) {
			return fmt.Sprintf("matches none of the %d alternatives", len(alternatives))
		}
		types = append(types, one.Types...)
	}
	return fmt.Sprintf("must be %s, not %s", typeList(types), typeName(v))
}

// general evaluates the keywords that apply to values of all types.
func (r *evaluation) general(n *Node, v any, at *path) {
	if n.Types != nil && !slices.ContainsFunc(n.Types, func(t string) bool { return isType(v, t) }) {
		r.failMismatch(at, "must be %s, not %s", typeList(n.Types), typeName(v))
	}
	if n.Const != nil && !Equal(*n.Const, v) {
		r.failMismatch(at, "must be %s", show(*n.Const))
	}
	if n.Enum != nil {
		r.work += len(n.Enum)
		if !slices.ContainsFunc(n.Enum, func(one any) bool { return Equal(one, v) }) {
			r.failMismatch(at, "must be one of %s", showAll(n.Enum))
		}
	}
}

// number evaluates the keywords for numbers. They are compared as fractions, without rounding.
func (r *evaluation) number(n *Node, v any, at *path) {
	if n.Minimum == nil && n.Maximum == nil && n.ExclusiveMinimum == nil && n.ExclusiveMaximum == nil &&
		n.MultipleOf == nil {
		return
	}
	x := number(v)
	if x == nil {
		r.fail(at, "has too many digits")
		return
	}
	if n.Minimum != nil && x.Cmp(n.Minimum) < 0 {
		r.fail(at, "must be at least %s", decimal(n.Minimum))
	}
	if n.Maximum != nil && x.Cmp(n.Maximum) > 0 {
		r.fail(at, "must be at most %s", decimal(n.Maximum))
	}
	if n.ExclusiveMinimum != nil && x.Cmp(n.ExclusiveMinimum) <= 0 {
		r.fail(at, "must be greater than %s", decimal(n.ExclusiveMinimum))
	}
	if n.ExclusiveMaximum != nil && x.Cmp(n.ExclusiveMaximum) >= 0 {
		r.fail(at, "must be less than %s", decimal(n.ExclusiveMaximum))
	}
	if n.MultipleOf != nil && !x.Quo(x, n.MultipleOf).IsInt() {
		r.fail(at, "must be a multiple of %s", decimal(n.MultipleOf))
	}
}

// count checks a number of items, properties or characters against its bounds.
func (r *evaluation) count(at *path, n int, noun string, least, most *int) {
	if least != nil && n < *least {
		r.fail(at, "must have at least %s, not %d", plural(*least, noun), n)
	}
	if most != nil && n > *most {
		r.fail(at, "must have at most %s, not %d", plural(*most, noun), n)
	}
}

// text evaluates the keywords for strings. Lengths are counted in Unicode characters.
func (r *evaluation) text(n *Node, v string, at *path) {
	if n.MinLength != nil || n.MaxLength != nil {
		r.count(at, utf8.RuneCountInString(v), "character", n.MinLength, n.MaxLength)
	}
	if n.Pattern != nil && !n.Pattern.MatchString(v) {
		r.fail(at, "must match the pattern %s", n.Pattern)
	}
	if !hasFormat(v, n.Format) {
		r.fail(at, "must have the format %q", n.Format)
	}
}

// array evaluates the keywords for arrays. unevaluatedItems comes last: it needs to know what the others evaluated.
func (r *evaluation) array(n *Node, v []any, at *path, in *scope, all *evaluated) {
	r.count(at, len(v), "item", n.MinItems, n.MaxItems)
	for i := range min(len(n.PrefixItems), len(v)) {
		r.check(n.PrefixItems[i], v[i], at.nth(i), in)
	}
	all.first = max(all.first, min(len(n.PrefixItems), len(v)))
	if n.Items != nil {
		for i := len(n.PrefixItems); i < len(v); i++ {
			r.check(n.Items, v[i], at.nth(i), in)
		}
		all.first = len(v)
	}
	if n.Contains != nil {
		r.contains(n, v, at, in, all)
	}
	if n.UniqueItems {
		r.unique(v, at)
	}
	if n.UnevaluatedItems != nil {
		for i := all.first; i < len(v); i++ {
			if !all.items[i] {
				r.check(n.UnevaluatedItems, v[i], at.nth(i), in)
			}
		}
		all.first = len(v)
	}
}

// contains evaluates contains, minContains and maxContains. Without minContains at least one item must match.
func (r *evaluation) contains(n *Node, v []any, at *path, in *scope, all *evaluated) {
	count, least := 0, n.MinContains
	for i := range v {
		if ok, _ := r.matches(n.Contains, v[i], at.nth(i), in); ok {
			count++
			all.item(i)
		}
	}
	if least == nil {
		one := 1
		least = &one
	}
	r.count(at, count, "matching item", least, n.MaxContains)
}

// unique evaluates uniqueItems. It compares the canonical forms of the items, so 1 equals 1.0 and the order of
// properties does not matter.
func (r *evaluation) unique(v []any, at *path) {
	r.work += len(v)
	first := make(map[string]int, len(v))
	for i := range v {
		key := string(canonical(nil, v[i]))
		if before, ok := first[key]; ok {
			r.fail(at, "must not contain duplicates: items [%d] and [%d] are equal", before, i)
			return
		}
		first[key] = i
	}
}

// object evaluates the keywords for objects. The properties are checked in the order of their names, so that failures
// have a fixed order.
func (r *evaluation) object(n *Node, v map[string]any, at *path, in *scope, all *evaluated) {
	r.work += len(v)
	for _, name := range n.Required {
		if _, ok := v[name]; !ok {
			r.fail(at, "must have the property %q", name)
		}
	}
	r.count(at, len(v), "property", n.MinProperties, n.MaxProperties)
	names := slices.Sorted(maps.Keys(v))
	for _, name := range names {
		r.property(n, v, name, at, in, all)
	}
	if n.UnevaluatedProperties != nil {
		for _, name := range names {
			if !all.properties[name] {
				r.check(n.UnevaluatedProperties, v[name], &path{up: at, name: name}, in)
				all.property(name)
			}
		}
	}
}

// property evaluates the schemas for one property. additionalProperties counts only if no other keyword names it.
func (r *evaluation) property(n *Node, v map[string]any, name string, at *path, in *scope, all *evaluated) {
	here := &path{up: at, name: name}
	known := false
	if p := n.Properties[name]; p != nil {
		known = true
		r.check(p, v[name], here, in)
	}
	r.work += len(n.PatternProperties)
	for _, p := range n.PatternProperties {
		if p.Pattern.MatchString(name) {
			known = true
			r.check(p.Schema, v[name], here, in)
		}
	}
	if !known && n.AdditionalProperties != nil {
		known = true
		r.check(n.AdditionalProperties, v[name], here, in)
	}
	if known {
		all.property(name)
	}
	if n.PropertyNames != nil {
		if ok, _ := r.matches(n.PropertyNames, name, here, in); !ok {
			r.fail(at, "must not have the property name %q", name)
		}
	}
	if d := n.DependentSchemas[name]; d != nil {
		all.add(r.check(d, v, at, in))
	}
	for _, other := range n.DependentRequired[name] {
		if _, ok := v[other]; !ok {
			r.fail(at, "must have the property %q because it has %q", other, name)
		}
	}
}
