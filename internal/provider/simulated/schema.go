package simulated

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/espalier-run/espalier/internal/schema"
	"github.com/espalier-run/espalier/internal/xslices"
)

// compile reads a JSON Schema.
func compile(doc any) (*schema.Node, error) {
	s, err := schema.CompileValue(doc)
	if err != nil {
		return nil, err
	}
	return s.Root(), nil
}

func compileText(raw json.RawMessage) (*schema.Node, error) {
	s, err := schema.Compile(raw)
	if err != nil {
		return nil, err
	}
	return s.Root(), nil
}

// Limits of the size of generated values and of the search for them.
const (
	maxDepth   = 40    // depth at which a branch of a schema is abandoned
	roomyDepth = 4     // below it, only required properties are generated
	roomyNodes = 120   // likewise
	maxTries   = 4_000 // generated values, including rejected ones
	maxItems   = 1_000
	maxLength  = 100_000
	maxBits    = 4_096
)

// generator generates one value. It validates every candidate, so a keyword that it does not support costs tries but
// never yields an invalid value.
//
// The search: readings turns a schema with combinators into lists of schemas that all apply, proposals yields
// candidates for such a list, the likeliest first, and the first candidate that satisfies the original schemas wins.
// Objects and lists are built from the values of their parts, each found by the same search. Every choice comes from
// dice, so the same question gives the same value.
type generator struct {
	dice
	minimal  bool // only required properties
	approved bool // lists of problems are empty
	nodes    int
	tries    int
	limit    int // of tries
}

func newGenerator(d dice) *generator { return &generator{dice: d, limit: maxTries} }

// withFewerTries calls do. If the value is optional, do gets only a part of the
// remaining tries, so that enough remain for required values.
func (m *generator) withFewerTries(optional bool, do func() (any, bool)) (any, bool) {
	if !optional {
		return do()
	}
	limit := m.limit
	m.limit = m.tries + (limit-m.tries)/4
	v, ok := do()
	m.limit = limit
	return v, ok
}

// location is a place in the generated value.
type location struct {
	path  string
	name  string
	depth int
	// like is the path without list indexes, nth the sum of the indexes. They
	// make neighboring items differ.
	like string
	nth  int
}

func (s location) below(name string) location {
	return location{path: s.path + "/" + name, name: name, depth: s.depth + 1, like: s.like + "/" + name, nth: s.nth}
}

func (s location) item(i int) location {
	return location{
		path: s.path + "/" + strconv.Itoa(i), name: singular(s.name),
		depth: s.depth + 1, like: s.like + "/*", nth: s.nth + i,
	}
}

// withVariant returns the same location with another path, so that other values are chosen.
func (s location) withVariant(n int) location {
	if n > 0 {
		s.path += "~" + strconv.Itoa(n)
	}
	return s
}

// value generates a value that satisfies all schemas.
func (m *generator) value(all []*schema.Node, at location) (any, bool) {
	return m.valueBut(all, at, func(any) bool { return false })
}

// valueBut is like value, but excludes unwanted values.
func (m *generator) valueBut(all []*schema.Node, at location, unwanted func(any) bool) (any, bool) {
	m.nodes++
	if at.name == "" && len(all) > 0 {
		at.name = all[0].Title
	}
	if at.depth > maxDepth {
		return nil, false
	}
	for flat := range m.readings(all, at) {
		for v := range m.proposals(flat, at) {
			if m.tries++; m.tries > m.limit {
				return nil, false
			}
			if !unwanted(v) && valid(all, v) {
				return v, true
			}
		}
	}
	return nil, false
}

func valid(all []*schema.Node, v any) bool {
	return !slices.ContainsFunc(all, func(s *schema.Node) bool { return !s.Accepts(v) })
}

// hasRoom reports whether optional properties and items should be generated.
func (m *generator) hasRoom(at location) bool {
	return !m.minimal && at.depth < roomyDepth && m.nodes < roomyNodes
}

// readings returns the ways to satisfy the schemas, each as a list of schemas
// whose own keywords all apply: references are resolved, allOf is merged, and
// one alternative is chosen for anyOf, oneOf and if.
func (m *generator) readings(all []*schema.Node, at location) iter.Seq[[]*schema.Node] {
	return func(yield func([]*schema.Node) bool) { m.read(all, nil, at, yield) }
}

// read yields the readings; it returns false if yield stops or the tries are exhausted. open has the schemas that are
// still to be read, flat those that are read. A schema that is in flat already, as in a recursion without data, is
// skipped.
func (m *generator) read(open, flat []*schema.Node, at location, yield func([]*schema.Node) bool) bool {
	if m.tries++; m.tries > m.limit {
		return false
	}
	if len(open) == 0 {
		return yield(flat)
	}
	s, open := open[0], open[1:]
	switch {
	case s == nil || slices.Contains(flat, s):
		return m.read(open, flat, at, yield)
	case s.Never():
		return true // unsatisfiable
	case s.Bool != nil:
		return m.read(open, flat, at, yield)
	}
	flat = append(slices.Clone(flat), s)
	open = append(slices.Clone(open), s.AllOf...)
	open = append(open, s.Ref)
	if s.DynamicRef != nil {
		open = append(open, s.DynamicRef.Ref)
	}
	return m.choose(m.alternatives(s, at), open, flat, at, yield)
}

// choose reads all combinations of one alternative for each keyword.
func (m *generator) choose(
	ways [][][]*schema.Node, open, flat []*schema.Node, at location, yield func([]*schema.Node) bool,
) bool {
	if len(ways) == 0 {
		return m.read(open, flat, at, yield)
	}
	for _, way := range ways[0] {
		if !m.choose(ways[1:], append(slices.Clone(open), way...), flat, at, yield) {
			return false
		}
	}
	return true
}

// alternatives returns the alternatives of a schema: for each keyword a list, of which one
// entry must be chosen.
func (m *generator) alternatives(s *schema.Node, at location) [][][]*schema.Node {
	var out [][][]*schema.Node
	for i, of := range [][]*schema.Node{s.AnyOf, s.OneOf} {
		if len(of) == 0 {
			continue
		}
		first := m.pick(at.path+" way "+strconv.Itoa(i), len(of))
		order := append(slices.Clone(of[first:]), of[:first]...)
		slices.SortStableFunc(order,
			func(a, b *schema.Node) int { return effort(a, m.hasRoom(at)) - effort(b, m.hasRoom(at)) })
		group := xslices.Map(order, func(one *schema.Node) []*schema.Node { return []*schema.Node{one} })
		out = append(out, group)
	}
	if s.If != nil {
		out = append(out, [][]*schema.Node{{s.If, s.Then}, {s.Else}})
	}
	for _, name := range slices.Sorted(maps.Keys(s.DependentSchemas)) {
		out = append(out, [][]*schema.Node{{s.DependentSchemas[name]}, nil})
	}
	return out
}

// effort orders alternatives: null is tried late, and without room, schemas that
// contain other schemas are tried last.
func effort(s *schema.Node, roomy bool) int {
	n := 0
	if slices.Equal(s.Types, []string{"null"}) {
		n = 2
	}
	if !roomy &&
		(s.Ref != nil || len(s.Properties) > 0 || s.Items != nil || len(s.AnyOf)+len(s.OneOf)+len(s.AllOf) > 0) {
		n = 3
	}
	return n
}

// proposals returns candidate values for schemas that all apply. A const or an enum is the only source if there is one;
// otherwise examples come first and defaults last.
func (m *generator) proposals(flat []*schema.Node, at location) iter.Seq[any] {
	return func(yield func(any) bool) {
		for _, s := range flat {
			if s.Const != nil {
				yield(*s.Const)
				return
			}
		}
		for _, s := range flat {
			if s.Enum != nil {
				m.oneOf(s.Enum, at)(yield)
				return
			}
		}
		for _, s := range flat {
			if !m.minimal && !yieldAll(m.oneOf(s.Examples, at), yield) {
				return
			}
		}
		for _, t := range m.types(flat, at) {
			if !yieldAll(m.ofType(t, flat, at), yield) {
				return
			}
		}
		for _, s := range flat {
			if s.Default != nil && !yield(*s.Default) {
				return
			}
		}
	}
}

// yieldAll yields values. It returns false if yield stops.
func yieldAll(values iter.Seq[any], yield func(any) bool) bool {
	for v := range values {
		if !yield(v) {
			return false
		}
	}
	return true
}

// oneOf returns the values of a list, starting at another one each round.
func (m *generator) oneOf(list []any, at location) iter.Seq[any] {
	return func(yield func(any) bool) {
		if len(list) == 0 {
			return
		}
		first := m.rotate(at.path, len(list))
		for i := range list {
			if !yield(list[(first+i)%len(list)]) {
				return
			}
		}
	}
}

// types returns the JSON types to try, the likeliest first.
func (m *generator) types(flat []*schema.Node, at location) []string {
	allowed := []string{"string", "integer", "number", "boolean", "array", "object", "null"}
	stated := false
	for _, s := range flat {
		if s.Types == nil {
			continue
		}
		stated = true
		allowed = slices.DeleteFunc(allowed, func(t string) bool {
			return !slices.Contains(s.Types, t) && (t != "integer" || !slices.Contains(s.Types, "number"))
		})
	}
	subject := subjectOf(at.name, description(flat))
	likely := subject.typeFor()
	if !stated {
		likely = typeHint(flat, likely)
	}
	if likely == "integer" && !slices.Contains(allowed, "integer") {
		likely = "number"
	}
	if subject == anything && slices.Contains(allowed, "integer") &&
		slices.Contains(allowed, "number") && likely != "number" {
		// Prefer a fraction, which distinguishes "number" from "integer".
		allowed = slices.DeleteFunc(allowed, func(t string) bool { return t == "integer" })
	}
	if i := slices.Index(allowed, likely); i > 0 {
		allowed = slices.Insert(slices.Delete(allowed, i, i+1), 0, likely)
	}
	return allowed
}

// typeHint returns the type that the keywords apply to, or else otherwise.
func typeHint(flat []*schema.Node, otherwise string) string {
	for _, s := range flat {
		switch {
		case len(s.Properties)+len(s.PatternProperties)+len(s.Required) > 0 || s.MinProperties != nil ||
			s.AdditionalProperties != nil:
			return "object"
		case s.Items != nil || len(s.PrefixItems) > 0 || s.MinItems != nil || s.Contains != nil || s.UniqueItems:
			return "array"
		case s.MinLength != nil || s.MaxLength != nil || s.Pattern != nil || s.Format != "":
			return "string"
		case s.Minimum != nil || s.Maximum != nil || s.ExclusiveMinimum != nil ||
			s.ExclusiveMaximum != nil || s.MultipleOf != nil:
			return "number"
		}
	}
	return otherwise
}

func description(flat []*schema.Node) string {
	for _, s := range flat {
		if s.Description != "" {
			return s.Description
		}
	}
	return ""
}

func (m *generator) ofType(t string, flat []*schema.Node, at location) iter.Seq[any] {
	switch t {
	case "string":
		return m.strings(flat, at)
	case "integer", "number":
		return m.numbers(flat, at, t == "integer")
	case "boolean":
		first := m.flag(subjectOf(at.name, ""), at.path)
		return slices.Values([]any{first, !first})
	case "array":
		return m.arrays(flat, at)
	case "object":
		return m.objects(flat, at)
	}
	return slices.Values([]any{nil})
}

// textLimits are the constraints of schemas on a text.
type textLimits struct {
	least, most       int // in characters; most < 0 is unlimited
	patterns, formats []string
}

func textLimitsOf(flat []*schema.Node) textLimits {
	l := textLimits{most: -1}
	for _, s := range flat {
		if s.MinLength != nil {
			l.least = max(l.least, *s.MinLength)
		}
		if s.MaxLength != nil && (l.most < 0 || *s.MaxLength < l.most) {
			l.most = *s.MaxLength
		}
		if s.Pattern != nil {
			l.patterns = append(l.patterns, s.Pattern.String())
		}
		if s.Format != "" {
			l.formats = append(l.formats, s.Format)
		}
	}
	return l
}

// isUnsatisfiable reports whether every allowed text is too long, or none is allowed.
func (l *textLimits) isUnsatisfiable() bool {
	return l.least > maxLength || l.most >= 0 && l.least > l.most
}

func (l *textLimits) allows(text string) bool {
	n := utf8.RuneCountInString(text)
	return n >= l.least && (l.most < 0 || n <= l.most)
}

// strings proposes texts: examples of the formats, a plausible text, texts that
// match the patterns, and others in case those are excluded.
func (m *generator) strings(flat []*schema.Node, at location) iter.Seq[any] {
	l := textLimitsOf(flat)
	if l.isUnsatisfiable() {
		return func(func(any) bool) {}
	}
	return func(yield func(any) bool) {
		for _, f := range l.formats {
			texts := formatted()[f]
			for i := range texts {
				v := texts[(i+m.pick(at.path, len(texts)))%len(texts)]
				if !yield(v) || !yield(fit(v, l.least, l.most)) {
					return
				}
			}
		}
		if !yield(fit(m.text(subjectOf(at.name, description(flat)), at), l.least, l.most)) {
			return
		}
		for _, p := range l.patterns {
			for v := range m.matches(p, at.path) {
				if l.allows(v) && !yield(v) {
					return
				}
			}
		}
		for i := range 4 {
			if !yield(fit(fmt.Sprintf("simulated-%04d", m.pick(at.withVariant(i+1).path, 10000)), l.least, l.most)) {
				return
			}
		}
	}
}

// formatted are examples of the formats of JSON Schema.
var formatted = sync.OnceValue(func() map[string][]string {
	return map[string][]string{
		"email": samples()[anEmail], "idn-email": samples()[anEmail],
		"date": samples()[aDate], "date-time": samples()[aMoment], "time": {"09:30:00Z", "16:00:00Z"},
		"uri": samples()[aLink], "iri": samples()[aLink], "uri-reference": samples()[aLink],
		"iri-reference": samples()[aLink], "uri-template": {"https://example.com/{id}"},
		"uuid":     {"6b1f0a52-3c1e-4d57-9a64-0f2f6a1c7e11", "0d9c4f7e-5b2a-4c83-8e1d-7a35b6c2f940"},
		"hostname": {"www.example.com", "example.org"}, "idn-hostname": {"www.example.com"},
		"ipv4": {"192.0.2.10", "198.51.100.7"}, "ipv6": {"2001:db8::1"},
		"duration": {"P1D", "PT30M"}, "period": {"2026-03-14T09:30:00Z/P1D"}, "regex": {"^[a-z]+$"},
		"json-pointer": {"/items/0"}, "relative-json-pointer": {"0/items"}, "semver": {"1.2.0"},
	}
})

// fit extends or truncates a text to a length from least to most; a negative most is unlimited.
func fit(text string, least, most int) string {
	n := utf8.RuneCountInString(text)
	if n < least {
		const more = " and so on"
		text += strings.Repeat(more, (least-n)/len(more)+1)
		n, most = utf8.RuneCountInString(text), least
	}
	if most < 0 || n <= most {
		return text
	}
	cut := string([]rune(text)[:most])
	// Cut at a word boundary if the rest is long enough.
	if i := strings.LastIndexByte(cut, ' '); i > 0 &&
		utf8.RuneCountInString(cut[:i]) >= max(least, most/2) && text[len(cut)] != ' ' {
		cut = cut[:i]
	}
	if t := strings.TrimRight(cut, " ,;:"); utf8.RuneCountInString(t) >= least {
		cut = t
	}
	return cut
}

// numberLimits are the constraints of schemas on a number; nil means none.
type numberLimits struct{ low, high, grid *big.Rat }

// numberLimitsOf combines the limits of all schemas: the highest minimum, the lowest maximum, and the least common
// multiple of the steps. Exclusive limits count as inclusive, because candidates are validated anyway.
func numberLimitsOf(flat []*schema.Node, whole bool) numberLimits {
	var l numberLimits
	for _, s := range flat {
		for _, low := range []*big.Rat{s.Minimum, s.ExclusiveMinimum} {
			if low != nil && (l.low == nil || low.Cmp(l.low) > 0) {
				l.low = low
			}
		}
		for _, high := range []*big.Rat{s.Maximum, s.ExclusiveMaximum} {
			if high != nil && (l.high == nil || high.Cmp(l.high) < 0) {
				l.high = high
			}
		}
		if s.MultipleOf != nil {
			l.grid = commonMultiple(l.grid, s.MultipleOf)
		}
	}
	if whole && !l.huge() {
		l.grid = commonMultiple(l.grid, big.NewRat(1, 1))
	}
	return l
}

// huge reports whether a limit has so many digits that arithmetic takes seconds. Schemas come from tools of others, so
// 1e1000000 has to be expected.
func (l *numberLimits) huge() bool {
	return slices.ContainsFunc([]*big.Rat{l.low, l.high, l.grid}, func(n *big.Rat) bool {
		return n != nil && (n.Num().BitLen() > maxBits || n.Denom().BitLen() > maxBits)
	})
}

func (l *numberLimits) allows(n *big.Rat) bool {
	return (l.low == nil || n.Cmp(l.low) >= 0) && (l.high == nil || n.Cmp(l.high) <= 0)
}

// unit returns the distance between neighboring candidates.
func (l *numberLimits) unit() *big.Rat { return cmp.Or(l.grid, big.NewRat(1, 1)) }

// candidates returns numbers near the plausible one and near the limits. They may
// be out of range.
func (l *numberLimits) candidates(likely *big.Rat, pick int64) []*big.Rat {
	out := []*big.Rat{likely}
	switch {
	case l.low != nil && l.high != nil:
		span := new(big.Rat).Sub(l.high, l.low)
		for _, part := range []int64{5 + pick, 5, 3, 7, 0, 10} {
			out = append(out, new(big.Rat).Add(l.low, new(big.Rat).Mul(span, big.NewRat(part, 10))))
		}
		rounded, _ := new(big.Rat).SetString(out[1].FloatString(2))
		out = slices.Insert(out, 1, rounded)
	case l.low != nil:
		out = append(out, new(big.Rat).Add(l.low, likely), l.low)
	case l.high != nil:
		out = append(out, new(big.Rat).Sub(l.high, likely), l.high)
	}
	for _, edge := range []*big.Rat{l.low, l.high} {
		if edge != nil {
			out = append(out, edge, new(big.Rat).Add(edge, l.unit()), new(big.Rat).Sub(edge, l.unit()))
		}
	}
	return out
}

// others returns further numbers, for schemas that need several.
func (l *numberLimits) others(likely *big.Rat, pick int64) iter.Seq[*big.Rat] {
	const count = 40
	from := likely
	if l.low != nil {
		from = l.low
	} else if l.high != nil {
		from = new(big.Rat).Sub(l.high, new(big.Rat).Mul(l.unit(), big.NewRat(count, 1)))
	}
	return func(yield func(*big.Rat) bool) {
		for i := range int64(count) {
			steps := big.NewRat(1+(i+pick)%count, 1)
			if !yield(new(big.Rat).Add(from, steps.Mul(steps, l.unit()))) {
				return
			}
		}
	}
}

// numbers proposes a plausible number, adjusted to the limits of the schemas, and
// then others.
func (m *generator) numbers(flat []*schema.Node, at location, whole bool) iter.Seq[any] {
	l := numberLimitsOf(flat, whole)
	if l.huge() {
		return func(func(any) bool) {}
	}
	likely, _ := new(big.Rat).SetString(m.number(subjectOf(at.name, ""), at))
	return func(yield func(any) bool) {
		for _, n := range l.candidates(likely, int64(m.pick(at.path, 4))) {
			for _, v := range onGrid(n, l.grid) {
				if l.allows(v) && !yield(decimal(v)) {
					return
				}
			}
		}
		for n := range l.others(likely, int64(m.pick(at.path, 40))) {
			for _, v := range onGrid(n, l.grid) {
				if !yield(decimal(v)) {
					return
				}
			}
		}
	}
}

// onGrid returns the number, or its neighbours that are multiples of grid.
func onGrid(n, grid *big.Rat) []*big.Rat {
	if grid == nil || grid.Sign() <= 0 {
		return []*big.Rat{n}
	}
	quotient := new(big.Rat).Quo(n, grid)
	floor := new(big.Int).Div(quotient.Num(), quotient.Denom()) // Euclidean: the floor, for positive denominators
	below := new(big.Rat).Mul(new(big.Rat).SetInt(floor), grid)
	return []*big.Rat{below, new(big.Rat).Add(below, grid)}
}

// commonMultiple returns the least number that is a multiple of both; nil is none.
func commonMultiple(a, b *big.Rat) *big.Rat {
	if a == nil || a.Sign() == 0 || b.Sign() == 0 {
		return b
	}
	// lcm(p/q, r/s) = lcm(p, r) / gcd(q, s), for fractions in lowest terms.
	gcd := new(big.Int).GCD(nil, nil, a.Num(), b.Num())
	lcm := new(big.Int).Mul(new(big.Int).Quo(a.Num(), gcd), b.Num())
	return new(big.Rat).SetFrac(lcm, new(big.Int).GCD(nil, nil, a.Denom(), b.Denom()))
}

// decimal formats a number with all its digits. Numbers from schemas have
// finitely many.
func decimal(n *big.Rat) json.Number {
	if n.IsInt() {
		return json.Number(n.Num().String())
	}
	digits, exact := n.FloatPrec()
	if !exact {
		digits = 12
	}
	return json.Number(n.FloatString(digits))
}

// arrays proposes lists.
func (m *generator) arrays(flat []*schema.Node, at location) iter.Seq[any] {
	return func(yield func(any) bool) {
		least, most := 0, maxItems
		unique := false
		for _, s := range flat {
			if s.MinItems != nil {
				least = max(least, *s.MinItems)
			}
			if s.MaxItems != nil {
				most = min(most, *s.MaxItems)
			}
			if s.Contains != nil {
				least = max(least, minContains(s))
			}
			unique = unique || s.UniqueItems
		}
		if least > most {
			return
		}
		n := 2 + m.pick(at.path+" length", 2)
		if !m.hasRoom(at) || m.approved && subjectOf(at.name, "") == problemList {
			n = least
		}
		for _, n := range []int{n, least, least + 1} {
			n = min(max(n, least), most)
			list, ok := m.list(flat, at, least, n, unique)
			if (ok || len(list) >= least) && !yield(list) {
				return
			}
		}
	}
}

// minContains returns how many items must match the schema's "contains".
func minContains(s *schema.Node) int {
	if s.MinContains != nil {
		return *s.MinContains
	}
	return 1
}

// list generates n items. Items beyond the least number are optional: if one cannot be generated, the list is returned
// with those before it and false. Several tries with other values make unique items differ.
func (m *generator) list(flat []*schema.Node, at location, least, n int, unique bool) ([]any, bool) {
	list := []any{}
	for i := range n {
		var all []*schema.Node
		for _, s := range flat {
			if item, closed := itemSchema(s, i); closed {
				return list, false
			} else if item != nil {
				all = append(all, item)
			}
			if s.Contains != nil && i < minContains(s) {
				all = append(all, s.Contains)
			}
		}
		item := at.item(i)
		unwanted := func(v any) bool {
			return exceedsMaxContains(flat, i, v) ||
				unique && slices.ContainsFunc(list, func(w any) bool { return schema.Equal(v, w) })
		}
		v, ok := m.withFewerTries(i >= least, func() (any, bool) {
			v, ok := m.valueBut(all, item, unwanted)
			for try := 1; !ok && try <= 5 && m.tries <= m.limit && i > 0; try++ {
				v, ok = m.valueBut(all, item.withVariant(try), unwanted)
			}
			return v, ok
		})
		if !ok {
			return list, false
		}
		list = append(list, v)
	}
	return list, true
}

// exceedsMaxContains reports whether an optional item would count for a schema's "maxContains".
func exceedsMaxContains(flat []*schema.Node, i int, v any) bool {
	return slices.ContainsFunc(flat, func(s *schema.Node) bool {
		return s.Contains != nil && s.MaxContains != nil && i >= minContains(s) && s.Contains.Accepts(v)
	})
}

// itemSchema returns the schema of item i; closed means that the list must not
// have such an item.
func itemSchema(s *schema.Node, i int) (item *schema.Node, closed bool) {
	if i < len(s.PrefixItems) {
		return s.PrefixItems[i], false
	}
	if s.Items != nil && s.Items.Never() {
		return nil, true
	}
	return s.Items, false
}

// objects proposes objects: with the optional properties if there is room, with
// the required ones only, and with all.
func (m *generator) objects(flat []*schema.Node, at location) iter.Seq[any] {
	return func(yield func(any) bool) {
		least, most := 0, -1
		var required, optional []string
		open := true // anything may be added
		for _, s := range flat {
			required = append(required, s.Required...)
			optional = append(optional, slices.Sorted(maps.Keys(s.Properties))...)
			if s.MinProperties != nil {
				least = max(least, *s.MinProperties)
			}
			if s.MaxProperties != nil && (most < 0 || *s.MaxProperties < most) {
				most = *s.MaxProperties
			}
			open = open && s.AdditionalProperties == nil && s.UnevaluatedProperties == nil && s.PropertyNames == nil
		}
		if least > maxItems {
			return
		}
		optional = slices.DeleteFunc(xslices.AppendNew(nil, optional...),
			func(name string) bool { return slices.Contains(required, name) })
		required = xslices.AppendNew(nil, required...)
		if open && len(required)+len(optional) == 0 && m.hasRoom(at) {
			optional = []string{"note"}
		}
		some := optional
		if !m.hasRoom(at) {
			some = nil
		}
		for _, names := range [][]string{some, nil, optional} {
			object, ok := m.object(flat, at, required, names, least, most)
			if ok && !yield(object) {
				return
			}
		}
	}
}

// object generates an object: first the required properties and those that they depend on, then optional ones for which
// there is room, and then others until there are enough.
func (m *generator) object(
	flat []*schema.Node, at location, required, optional []string, least, most int,
) (map[string]any, bool) {
	out := map[string]any{}
	open := slices.Clone(required)
	for len(open) > 0 {
		name := open[0]
		open = open[1:]
		if _, there := out[name]; there {
			continue
		}
		v, ok := m.property(flat, at, name)
		if !ok {
			return nil, false
		}
		out[name] = v
		open = append(open, dependents(flat, name)...)
	}
	room := func() bool { return most < 0 || len(out) < most }
	for _, name := range optional {
		if _, there := out[name]; there || !room() {
			continue
		}
		if more := dependents(flat, name); slices.ContainsFunc(more,
			func(n string) bool { return out[n] == nil && !slices.Contains(optional, n) }) {
			continue // it requires properties that are not generated
		}
		if v, ok := m.withFewerTries(true, func() (any, bool) { return m.property(flat, at, name) }); ok {
			out[name] = v
		}
	}
	for try := 0; len(out) < least && room() && try < 2*least+20; try++ {
		name := m.newName(flat, at, try)
		if _, there := out[name]; there {
			continue
		}
		if v, ok := m.property(flat, at, name); ok {
			out[name] = v
		}
	}
	// Prefer an example entry to an empty map.
	if len(out) == 0 && m.hasRoom(at) && room() {
		if name := m.newName(flat, at, 0); mapLike(flat) {
			if v, ok := m.property(flat, at, name); ok {
				out[name] = v
			}
		}
	}
	return out, len(out) >= least
}

// dependents returns the properties that name requires.
func dependents(flat []*schema.Node, name string) []string {
	var out []string
	for _, s := range flat {
		out = append(out, s.DependentRequired[name]...)
	}
	return out
}

func mapLike(flat []*schema.Node) bool {
	return slices.ContainsFunc(flat, func(s *schema.Node) bool {
		return s.AdditionalProperties != nil && s.AdditionalProperties.Bool == nil || len(s.PatternProperties) > 0
	})
}

// newName returns a name for a property that is not declared.
func (m *generator) newName(flat []*schema.Node, at location, try int) string {
	question := at.path + " name " + strconv.Itoa(try)
	for _, s := range flat {
		if s.PropertyNames != nil {
			if v, ok := m.value([]*schema.Node{s.PropertyNames},
				location{path: question, name: "key", depth: at.depth + 1}); ok {
				if name, ok := v.(string); ok {
					return name
				}
			}
		}
	}
	var patterns []string
	for _, s := range flat {
		for _, p := range s.PatternProperties {
			patterns = append(patterns, p.Pattern.String())
		}
	}
	if slices.Sort(patterns); len(patterns) > 0 && try%2 == 0 {
		return m.match(patterns[try/2%len(patterns)], question)
	}
	if try == 0 {
		return "example"
	}
	return "example_" + strconv.Itoa(try+1)
}

// property generates the value of a property.
func (m *generator) property(flat []*schema.Node, at location, name string) (any, bool) {
	var all []*schema.Node
	for _, s := range flat {
		known := false
		if p := s.Properties[name]; p != nil {
			all, known = append(all, p), true
		}
		for _, p := range s.PatternProperties {
			if p.Pattern.MatchString(name) {
				all, known = append(all, p.Schema), true
			}
		}
		switch rest := s.AdditionalProperties; {
		case known || rest == nil:
		case rest.Never():
			return nil, false
		default:
			all = append(all, rest)
		}
	}
	return m.value(all, at.below(name))
}
