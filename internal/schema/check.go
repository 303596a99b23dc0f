package schema

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// What bounds a check. Honest schemas stay far below.
const (
	mostWork    = 5_000_000 // schemas and properties looked at
	deepestRun  = 10_000    // schemas inside each other
	mostFailing = 100       // of which is told what is wrong
)

// run is one check of one value.
type run struct {
	found  []failure
	quiet  int // above 0, failures are only counted
	failed int
	work   int
	depth  int
}

// failure is where a value is not as its schema wants it.
type failure struct {
	at      *path
	message string
	form    bool // it is of another form altogether, not a mistake in this one
}

func (r *run) tooMuch() bool { return r.work > mostWork }

// path is the way into the value, innermost first.
type path struct {
	up   *path
	name string
	item bool // the name is the number of a list's item
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

// scope is the schemas on the way, innermost first.
type scope struct {
	up *scope
	n  *Node
	at *path
}

// seen is which parts of a value some schema has looked at.
type seen struct {
	properties map[string]bool
	items      map[int]bool
	first      int // so many items from the front
}

func (a *seen) add(b seen) {
	for name := range b.properties {
		a.property(name)
	}
	for i := range b.items {
		a.item(i)
	}
	a.first = max(a.first, b.first)
}

func (a *seen) property(name string) {
	if a.properties == nil {
		a.properties = map[string]bool{}
	}
	a.properties[name] = true
}

func (a *seen) item(i int) {
	if a.items == nil {
		a.items = map[int]bool{}
	}
	a.items[i] = true
}

func (r *run) fail(at *path, format string, args ...any) {
	r.failed++
	if r.quiet == 0 && len(r.found) < mostFailing {
		r.found = append(r.found, failure{at: at, message: fmt.Sprintf(format, args...)})
	}
}

// failForm is fail for a value of another form.
func (r *run) failForm(at *path, format string, args ...any) {
	before := len(r.found)
	r.fail(at, format, args...)
	if len(r.found) > before {
		r.found[before].form = true
	}
}

// holds tries a schema without telling what is wrong.
func (r *run) holds(n *Node, v any, at *path, in *scope) (bool, seen) {
	r.quiet++
	before := r.failed
	looked := r.check(n, v, at, in)
	ok := r.failed == before
	r.failed = before
	r.quiet--
	return ok, looked
}

func (r *run) check(n *Node, v any, at *path, in *scope) seen {
	if r.work++; r.tooMuch() {
		return seen{}
	}
	if n.Bool != nil {
		if !*n.Bool {
			r.fail(at, "must not be there")
		}
		return seen{}
	}
	if r.depth >= deepestRun {
		r.work = mostWork + 1
		return seen{}
	}
	for up := in; up != nil && up.at == at; up = up.up {
		if r.work++; up.n == n {
			r.fail(at, "cannot be checked, because its schema refers to itself")
			return seen{}
		}
	}
	r.depth++
	defer func() { r.depth-- }()
	in = &scope{up: in, n: n, at: at}
	before := r.failed
	var all seen
	if n.Ref != nil {
		all.add(r.check(n.Ref, v, at, in))
	}
	if n.DynamicRef != nil {
		all.add(r.check(r.target(n.DynamicRef, in), v, at, in))
	}
	r.logic(n, v, at, in, &all)
	r.form(n, v, at)
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
		return seen{} // what failed has looked at nothing
	}
	return all
}

// target is the outermost schema on the way that has the anchor.
func (r *run) target(d *Dynamic, in *scope) *Node {
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

func (r *run) logic(n *Node, v any, at *path, in *scope, all *seen) {
	for _, one := range n.AllOf {
		all.add(r.check(one, v, at, in))
	}
	if len(n.AnyOf) > 0 {
		if r.matching(n.AnyOf, v, at, in, all) == nil {
			r.nearest(n.AnyOf, v, at, in)
		}
	}
	if len(n.OneOf) > 0 {
		switch matched := r.matching(n.OneOf, v, at, in, all); {
		case matched == nil:
			r.nearest(n.OneOf, v, at, in)
		case len(matched) > 1:
			r.fail(at, "fits forms %s of those it may have, and may fit only one", strings.Join(matched, " and "))
		}
	}
	if n.Not != nil {
		if ok, _ := r.holds(n.Not, v, at, in); ok {
			r.fail(at, "has a form that it must not have")
		}
	}
	if n.If != nil {
		ok, looked := r.holds(n.If, v, at, in)
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

// matching are the numbers of the forms that a value has, counted from 1.
func (r *run) matching(forms []*Node, v any, at *path, in *scope, all *seen) []string {
	var out []string
	for i, one := range forms {
		if ok, looked := r.holds(one, v, at, in); ok {
			out = append(out, strconv.Itoa(i+1))
			all.add(looked)
		}
	}
	return out
}

// nearest says what is wrong with the form that comes nearest: the one with
// the fewest mistakes, if the value is of that form at all.
func (r *run) nearest(forms []*Node, v any, at *path, in *scope) {
	if r.quiet > 0 {
		r.failed++
		return
	}
	var best []failure
	for _, one := range forms {
		try := run{work: r.work, depth: r.depth}
		try.check(one, v, at, in)
		r.work = try.work
		other := slices.ContainsFunc(try.found, func(f failure) bool { return f.form && f.at == at })
		if !other && (best == nil || len(try.found) < len(best)) {
			best = try.found
		}
	}
	if best == nil {
		r.failForm(at, "%s", noForm(forms, v))
		return
	}
	r.failed += len(best)
	r.found = append(r.found, best[:min(len(best), max(0, mostFailing-len(r.found)))]...)
}

// noForm says that a value has none of the forms, by their types if they are
// told apart by these.
func noForm(forms []*Node, v any) string {
	var types []string
	for _, one := range forms {
		if one.Types == nil || slices.ContainsFunc(one.Types, func(t string) bool { return isType(v, t) }) {
			return fmt.Sprintf("has none of the %d forms that it may have", len(forms))
		}
		types = append(types, one.Types...)
	}
	return fmt.Sprintf("is %s, not %s", kindOf(v), typeList(types))
}

// form is about values of all types.
func (r *run) form(n *Node, v any, at *path) {
	if n.Types != nil && !slices.ContainsFunc(n.Types, func(t string) bool { return isType(v, t) }) {
		r.failForm(at, "is %s, not %s", kindOf(v), typeList(n.Types))
	}
	if n.Const != nil && !equal(*n.Const, v) {
		r.failForm(at, "is not %s", show(*n.Const))
	}
	if n.Enum != nil {
		r.work += len(n.Enum)
		if !slices.ContainsFunc(n.Enum, func(one any) bool { return equal(one, v) }) {
			r.failForm(at, "is not one of %s", showAll(n.Enum))
		}
	}
}

func (r *run) number(n *Node, v any, at *path) {
	if n.Minimum == nil && n.Maximum == nil && n.ExclusiveMinimum == nil && n.ExclusiveMaximum == nil && n.MultipleOf == nil {
		return
	}
	x := number(v)
	if x == nil {
		r.fail(at, "has too many digits to be compared")
		return
	}
	if n.Minimum != nil && x.Cmp(n.Minimum) < 0 {
		r.fail(at, "is less than %s", decimal(n.Minimum))
	}
	if n.Maximum != nil && x.Cmp(n.Maximum) > 0 {
		r.fail(at, "is more than %s", decimal(n.Maximum))
	}
	if n.ExclusiveMinimum != nil && x.Cmp(n.ExclusiveMinimum) <= 0 {
		r.fail(at, "is not more than %s", decimal(n.ExclusiveMinimum))
	}
	if n.ExclusiveMaximum != nil && x.Cmp(n.ExclusiveMaximum) >= 0 {
		r.fail(at, "is not less than %s", decimal(n.ExclusiveMaximum))
	}
	if n.MultipleOf != nil && !x.Quo(x, n.MultipleOf).IsInt() {
		r.fail(at, "is not a multiple of %s", decimal(n.MultipleOf))
	}
}

func (r *run) text(n *Node, v string, at *path) {
	if n.MinLength != nil || n.MaxLength != nil {
		length := utf8.RuneCountInString(v)
		switch {
		case n.MinLength != nil && length < *n.MinLength && length == 0:
			r.fail(at, "is empty")
		case n.MinLength != nil && length < *n.MinLength:
			r.fail(at, "has %s, fewer than %d", several(length, "character"), *n.MinLength)
		}
		if n.MaxLength != nil && length > *n.MaxLength {
			r.fail(at, "has %s, more than %d", several(length, "character"), *n.MaxLength)
		}
	}
	if n.Pattern != nil && !n.Pattern.MatchString(v) {
		r.fail(at, "does not match the pattern %s", n.Pattern)
	}
	if !hasFormat(v, n.Format) {
		r.fail(at, "is not of the format %q", n.Format)
	}
}

func (r *run) array(n *Node, v []any, at *path, in *scope, all *seen) {
	if n.MinItems != nil && len(v) < *n.MinItems {
		r.fail(at, "has %s, fewer than %d", several(len(v), "item"), *n.MinItems)
	}
	if n.MaxItems != nil && len(v) > *n.MaxItems {
		r.fail(at, "has %s, more than %d", several(len(v), "item"), *n.MaxItems)
	}
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

func (r *run) contains(n *Node, v []any, at *path, in *scope, all *seen) {
	count, least := 0, 1
	for i := range v {
		if ok, _ := r.holds(n.Contains, v[i], at.nth(i), in); ok {
			count++
			all.item(i)
		}
	}
	if n.MinContains != nil {
		least = *n.MinContains
	}
	if count < least {
		r.fail(at, "has %s of the form that it must have, fewer than %d", several(count, "item"), least)
	}
	if n.MaxContains != nil && count > *n.MaxContains {
		r.fail(at, "has %s of a certain form, more than %d", several(count, "item"), *n.MaxContains)
	}
}

func (r *run) unique(v []any, at *path) {
	r.work += len(v)
	first := make(map[string]int, len(v))
	for i := range v {
		key := string(canonical(nil, v[i]))
		if before, ok := first[key]; ok {
			r.fail(at, "has the same item twice, at [%d] and [%d]", before, i)
			return
		}
		first[key] = i
	}
}

func (r *run) object(n *Node, v map[string]any, at *path, in *scope, all *seen) {
	r.work += len(v)
	for _, name := range n.Required {
		if _, ok := v[name]; !ok {
			r.fail(at, "is missing %q", name)
		}
	}
	if n.MinProperties != nil && len(v) < *n.MinProperties {
		r.fail(at, "has %s, fewer than %d", several(len(v), "key"), *n.MinProperties)
	}
	if n.MaxProperties != nil && len(v) > *n.MaxProperties {
		r.fail(at, "has %s, more than %d", several(len(v), "key"), *n.MaxProperties)
	}
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

func (r *run) property(n *Node, v map[string]any, name string, at *path, in *scope, all *seen) {
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
		if ok, _ := r.holds(n.PropertyNames, name, here, in); !ok {
			r.fail(at, "has the key %q, which is not a name that it may have", name)
		}
	}
	if d := n.DependentSchemas[name]; d != nil {
		all.add(r.check(d, v, at, in))
	}
	for _, other := range n.DependentRequired[name] {
		if _, ok := v[other]; !ok {
			r.fail(at, "is missing %q, which goes with %q", other, name)
		}
	}
}
