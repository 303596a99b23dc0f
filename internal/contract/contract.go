package contract

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/jsonfast"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Kind is what a reply is, in one word.
type Kind string

// The kinds.
const (
	Text    Kind = "text"
	Boolean Kind = "boolean"
	Number  Kind = "number"
	Integer Kind = "integer"
	Choice  Kind = "choice" // one of several values; see Contract.Choices
	List    Kind = "list"
	Object  Kind = "object"
	JSON    Kind = "json" // what Schema allows
)

// Contract is what the reply to one model call must be.
type Contract struct {
	Kind   Kind            `json:"kind"`
	Schema json.RawMessage `json:"schema,omitempty"` // nil for free text
	// Choices are the values in the reply that decide where the run goes.
	Choices []Decision `json:"choices,omitempty"`
	// Rulings are the steps that continue by conditions on the reply other than a list of values.
	Rulings []Ruling `json:"rulings,omitempty"`
	// From says where the contract comes from.
	From string `json:"from,omitempty"`
	// Name is what the value is called. A reply that is an object with this key
	// where the contract asks for something else stands for the key's value.
	Name string `json:"name,omitempty"`
	// Under is the key that a reply of plain text belongs under when the
	// contract asks for an object.
	Under string `json:"under,omitempty"`
	// Verdict says that the reply approves or rejects.
	Verdict bool `json:"verdict,omitempty"`
	// Merged says that the reply is merged with those of other workers, and that the merged value decides.
	Merged bool `json:"merged,omitempty"`
	// Data says that a reply without a schema that is an object or a list is read as such, because it is merged with
	// other values or passed to a tool, a script or a workflow. Any other free text stays text.
	Data bool `json:"data,omitempty"`
	// Probes are the values that take a run along different branches.
	Probes []Probe `json:"probes,omitempty"`
	// Tries are the values that each of ten simulations begins with; see Explore.
	Tries []Try `json:"tries,omitempty"`
	// Within and Texts are those of the Spec.
	Within, Texts []string `json:"-"`
	// Document is Schema, decoded; nil in a contract that was itself decoded.
	Document map[string]any `json:"-"`

	// Conflicts are uses that no single value can satisfy.
	Conflicts []Conflict `json:"-"`
	// NeverTrue are comparisons that no reply of this contract can make true.
	NeverTrue []Comparison `json:"-"`
	// Possible are the comparisons that some reply makes true.
	Possible []Comparison `json:"-"`
}

// Decision is one place in the reply that decides where a run goes.
type Decision struct {
	At      string   `json:"at,omitempty"` // dotted path in the reply; empty is the reply itself
	Options []Option `json:"options"`
	// Open says that values other than the options are allowed.
	Open bool `json:"open,omitempty"`
	// Else is what any other value leads to; empty if nothing in particular.
	Else string `json:"else,omitempty"`
	// Ruled says that the rulings of the contract say what the values lead to.
	Ruled bool `json:"ruled,omitempty"`
}

// Option is one value and what it leads to.
type Option struct {
	Value json.RawMessage `json:"value"`
	// Contained is how the value is searched for Value; empty if it must equal Value.
	Contained expr.Search `json:"contained,omitempty"`
	Leads     string      `json:"leads,omitempty"`
}

// Conflict is two uses of one value that need different types.
type Conflict struct {
	Path          string // what the author calls the value
	First, Second string // the types
	Span, Related source.Span
}

// Strict reports whether a reply can break the contract.
func (c *Contract) Strict() bool {
	switch c.Kind {
	case "", Text:
		return len(c.Schema) > 0 && c.detailed()
	case Choice:
		d := c.decision()
		return d == nil || !d.Open
	}
	return true
}

// Decided reports whether a value is as the contract asks for it, so that its type counts: the text "true" is not true.
// Of an open choice, these are the options.
func (c *Contract) Decided(value json.RawMessage) bool {
	d := c.decision()
	if c.Kind != Choice || d == nil || !d.Open {
		return c.Strict()
	}
	return slices.ContainsFunc(d.Options, func(o Option) bool { return bytes.Equal(o.Value, value) })
}

// Values returns the values that a reply can have at a place. It returns nil if there are other values, or if the place
// can be missing.
func (c *Contract) Values(at []string) []any {
	node, _ := c.required(at)
	if node["type"] == "boolean" {
		return []any{true, false}
	}
	return anyList(node["enum"])
}

// NeverNull reports whether a reply has a value other than null at a place.
func (c *Contract) NeverNull(at []string) bool {
	node, ok := c.required(at)
	return ok && (len(at) == 0 && len(node) == 0 || !accepts(node, json.RawMessage("null")))
}

// required returns the schema of a place. It reports false if the place can be missing.
func (c *Contract) required(at []string) (map[string]any, bool) {
	node := resolve(c.Document, c.Document)
	for _, name := range at {
		if !slices.Contains(anyList(node["required"]), any(name)) {
			return nil, false
		}
		node = resolve(c.Document, property(node, name))
	}
	return node, true
}

// Spec is what a step kind knows about its reply.
type Spec struct {
	// Schema is declared by the step itself and decides alone.
	Schema json.RawMessage
	// From says where Schema comes from.
	From string
	// Verdict asks for an object whose "approved" is true or false.
	Verdict bool
	// Text says that the reply is a text, whatever it is compared with.
	Text bool
	// Base is the schema that holds if nothing else is known or declared.
	Base json.RawMessage
	// Expected are descriptions in words, the most specific first.
	Expected []string
	// Within are the keys of the step's result that hold the reply; none: the
	// result is the reply.
	Within []string
	// Texts are those keys of Within that hold the reply as a text.
	Texts []string
	// Required are keys that a reply must have, whatever else is declared.
	Required []string
	// Into is the variable that the reply is merged into with those of other
	// workers; empty if it is not merged.
	Into string
	// Items says that the items of the reply become items of a list there.
	Items bool
}

// AnyData is the schema of JSON that is not a mere string.
var AnyData = json.RawMessage(`{"type":["object","array","number","boolean","null"]}`)

// Derive derives the contract of the reply that a step asks for.
func Derive(p *ir.Program, s *ir.Step, spec Spec) Contract {
	if spec.Verdict {
		spec.Within = []string{ir.GateReviewKey}
	}
	b := &builder{p: p, s: s, spec: spec}
	b.collect()
	switch {
	case len(spec.Schema) > 0:
		b.raw = spec.Schema
		b.doc, b.from = decode(b.raw), cmp.Or(spec.From, "the schema of the step")
	case spec.Text:
		b.doc, b.from = map[string]any{"type": "string"}, "the format of the reply"
	default:
		b.declared()
	}
	if spec.Verdict {
		b.verdict()
	}
	return b.contract()
}

// builder puts a contract together.
type builder struct {
	p      *ir.Program
	s      *ir.Step
	spec   Spec
	doc    any             // the schema so far; nil says nothing
	raw    json.RawMessage // what doc was decoded from, if it was one declaration
	from   string
	flow   *flow
	slots  []slot
	uses   []use
	issues []Conflict
	// inferred are the places whose schema follows from uses.
	inferred []string
}

// slot is a place in the reply and the variable that it is written to.
type slot struct {
	at    []string // in the reply
	write *ir.Write
}

// collect finds the places of the reply that are written, and their uses.
func (b *builder) collect() {
	if b.spec.Into != "" {
		b.collectMerged()
		return
	}
	for i := range b.s.Writes {
		w := &b.s.Writes[i]
		at := split(w.Part)
		if len(b.spec.Within) > 0 {
			if len(at) > 0 {
				if !slices.Contains(b.spec.Within, at[0]) {
					continue
				}
				at = at[1:]
			}
		}
		b.slots = append(b.slots, slot{at: at, write: w})
	}
	for i := range b.slots {
		for _, u := range b.usesOf(b.slots[i].write) {
			if len(b.spec.Within) > 0 && b.slots[i].write.Part == "" {
				if len(u.at) == 0 || !slices.Contains(b.spec.Within, u.at[0]) {
					continue
				}
				u.text = slices.Contains(b.spec.Texts, u.at[0])
				u.at = u.at[1:]
			}
			u.at = slices.Concat(b.slots[i].at, u.at)
			if !slices.ContainsFunc(b.uses, u.same) {
				b.uses = append(b.uses, u)
			}
		}
	}
}

// contract completes the schema with what the uses say. Each phase adds to the results of those before it: parts and
// infer complete the schema; decisions lists the values that matter in it; close and open adjust the schema to them;
// and rulings, probes and comparisons describe the result. A schema of the step itself is not changed.
func (b *builder) contract() Contract {
	if len(b.spec.Schema) == 0 {
		b.parts()
		b.infer()
		if b.doc == nil && len(b.spec.Base) > 0 {
			b.raw = b.spec.Base
			b.doc, b.from = decode(b.raw), "the format of the reply"
		}
	}
	c := Contract{From: b.from, Name: b.name(), Conflicts: b.issues, Within: b.spec.Within, Texts: b.spec.Texts}
	c.Choices = b.decisions()
	b.close(c.Choices)
	b.open(c.Choices)
	b.clearElse(c.Choices)
	c.Rulings = b.rulings()
	if doc, ok := b.doc.(map[string]any); ok && len(doc) > 0 {
		c.Schema, c.Document = b.written(doc), doc
	}
	c.Data = len(c.Schema) == 0 && (b.mergeable() || b.passed())
	c.Kind, c.Merged = kindOf(b.doc, c.Choices), b.spec.Into != "" && len(c.Choices) > 0
	if c.Kind == Object && len(b.slots) == 1 {
		c.Under = b.slots[0].write.Under
	}
	c.Probes = b.probes(c.Choices)
	c.NeverTrue, c.Possible = b.compare()
	if b.spec.Verdict {
		approved := func(at string) bool { return at == "approved" }
		c.Verdict = true
		others := slices.DeleteFunc(c.Choices, func(d Decision) bool { return approved(d.At) })
		c.Choices = append(b.verdictChoices(), others...)
		probe := Probe{At: "approved", Values: []json.RawMessage{json.RawMessage("true"), json.RawMessage("false")}}
		c.Probes = append([]Probe{probe}, slices.DeleteFunc(c.Probes, func(p Probe) bool { return approved(p.At) })...)
	}
	return c
}

// mergeable reports whether the reply is merged with those of other workers, or into a variable.
func (b *builder) mergeable() bool {
	if b.spec.Into != "" || slices.ContainsFunc(b.slots,
		func(one slot) bool { return one.write.Under != "" || one.write.NonObjectKey != "" }) {
		return true
	}
	_, block, ok := b.links().home(b.s)
	if holder := b.links().holder[block]; ok && holder != nil {
		_, parallel := holder.Action.(ir.Parallel)
		return parallel
	}
	return false
}

// passed reports whether a tool, a script or a workflow takes what the step writes.
func (b *builder) passed() bool {
	for s := range b.p.Steps() {
		call, _ := s.Action.(ir.Call)
		task, _ := s.Action.(ir.Task)
		if gate, ok := s.Action.(ir.Gate); ok && gate.Verdict != nil {
			task = *gate.Verdict
		}
		if !call.PassReads && !task.Describe().PassReads {
			continue
		}
		if slices.ContainsFunc(s.Reads, func(r ir.Ref) bool {
			return slices.ContainsFunc(b.slots, func(one slot) bool {
				_, ok := below(one.write.Path, r.Path)
				return ok
			})
		}) {
			return true
		}
	}
	return false
}

// written returns the schema as JSON: the author's own text if nothing was added to it.
func (b *builder) written(doc map[string]any) json.RawMessage {
	if len(b.raw) > 0 && reflect.DeepEqual(decode(b.raw), any(doc)) {
		return b.raw
	}
	return appendSchema(nil, doc)
}

// verdict asks for a decision and, if nothing else is declared, for a reason.
func (b *builder) verdict() {
	alone := b.doc == nil
	if !b.put([]string{"approved"}, map[string]any{"type": "boolean"}, true) {
		b.doc, alone = nil, true
		b.put([]string{"approved"}, map[string]any{"type": "boolean"}, true)
	}
	if alone {
		b.put([]string{"reason"}, map[string]any{"type": "string"}, false)
	}
	b.note("the gate")
}

// verdictChoices says what approving and rejecting lead to. If both lead to the same step, conditions on the result of
// the gate decide.
func (b *builder) verdictChoices() []Decision {
	t := &tracer{flow: b.links()}
	leads := func(on ir.Outcome, otherwise string) string {
		for i := range b.s.Next {
			if e := &b.s.Next[i]; e.When == nil && slices.Contains(e.On, on) {
				return t.leads(b.s, &e.To)
			}
		}
		return otherwise
	}
	approved, rejected := leads(ir.OK, "the run continues"), leads(ir.Rejected, "the run ends here")
	if approved == rejected {
		approved = cmp.Or(b.leadsBy(ir.GateApproved), approved)
		rejected = cmp.Or(b.leadsBy(ir.GateRejected), rejected)
	}
	return []Decision{{At: "approved", Options: []Option{
		{Value: json.RawMessage("true"), Leads: approved},
		{Value: json.RawMessage("false"), Leads: rejected},
	}}}
}

// leadsBy returns what conditions decide if a gate ends with a result; empty if no condition compares it.
func (b *builder) leadsBy(result ir.GateResult) string {
	var does, others []string
	for i := range b.s.Writes {
		for _, u := range b.usesOf(&b.s.Writes[i]) {
			if u.How != expr.Equals || !slices.Equal(u.at, []string{ir.GateResultKey}) {
				continue
			}
			if (u.Value == string(result)) != u.Negated {
				does = append(does, u.leadsTo())
			} else if u.otherwise != "" {
				others = append(others, u.otherwise)
			}
		}
	}
	if len(does) == 0 {
		does = others
	}
	return strings.Join(slices.Compact(does), "; ")
}

// name returns the last segment of the first variable that takes the whole reply. It returns "" if the step writes a
// part of the reply anywhere: then no variable stands for the whole of it.
func (b *builder) name() string {
	name := ""
	for _, one := range b.slots {
		if len(one.at) > 0 {
			return ""
		}
		name = cmp.Or(name, one.write.Path[strings.LastIndexByte(one.write.Path, '.')+1:])
	}
	return name
}

// parts makes the keys required that the step writes to different variables.
func (b *builder) parts() {
	for _, one := range b.slots {
		if len(one.at) > 0 {
			b.put(one.at, nil, true)
			b.note("the variables that the step writes")
		}
	}
}

// note remembers the first source of the contract.
func (b *builder) note(from string) { b.from = cmp.Or(b.from, from) }

// put adds what is known about a place in the reply. Objects and lists around it are declared on the way. It reports
// false if the schema so far rules the place out; nothing that is declared is changed.
func (b *builder) put(at []string, doc map[string]any, required bool) bool {
	if b.doc == nil {
		b.doc = map[string]any{}
	}
	node, ok := b.doc.(map[string]any)
	for _, name := range at {
		if !ok {
			return false
		}
		if name == each {
			if node = child(node, "array", "items"); node == nil {
				return false
			}
			continue
		}
		properties := child(node, "object", "properties")
		if properties == nil {
			return false
		}
		next, known := properties[name].(map[string]any)
		if !known {
			if _, declared := properties[name]; declared || node["additionalProperties"] == false {
				return false
			}
			next = map[string]any{}
			properties[name] = next
		}
		if required {
			list, _ := node["required"].([]any)
			if !slices.Contains(list, any(name)) {
				node["required"] = append(list, name)
			}
		}
		node = next
	}
	if !ok {
		return false
	}
	if !isConstrained(node) {
		maps.Copy(node, doc)
	}
	return true
}

// child returns the object under a keyword of a schema, such as "properties", and creates it if there is none. It gives
// a schema without restrictions the type kind, and returns nil for a schema of another type.
func child(node map[string]any, kind, keyword string) map[string]any {
	switch t := node["type"]; {
	case t == nil && isConstrained(node):
		return nil // described in a way that is not looked into
	case t == nil:
		node["type"] = kind
	case t != kind:
		return nil
	}
	inner, ok := node[keyword].(map[string]any)
	if !ok {
		if _, declared := node[keyword]; declared {
			return nil
		}
		inner = map[string]any{}
		node[keyword] = inner
	}
	return inner
}

// isConstrained reports whether a schema restricts its values.
func isConstrained(node map[string]any) bool {
	for keyword := range node {
		switch keyword {
		case "title", "description", "examples", "default", "$comment", "$schema", "$id":
		default:
			return true
		}
	}
	return false
}

// AnyItem stands for any item of a list in a place.
const AnyItem = "*"

const each = AnyItem

// find returns the schema of a place, or nil if nothing is known about it.
func (b *builder) find(at []string) map[string]any {
	node, _ := b.doc.(map[string]any)
	root := node
	for _, name := range at {
		node = resolve(root, node)
		if name == each {
			node, _ = node["items"].(map[string]any)
		} else {
			node = property(node, name)
		}
	}
	return resolve(root, node)
}

// property returns the schema of a property, or nil.
func property(node map[string]any, name string) map[string]any {
	properties, _ := node["properties"].(map[string]any)
	inner, _ := properties[name].(map[string]any)
	return inner
}

// excluded reports whether the schema of an enclosing place rules a place out, and returns that schema.
func (b *builder) excluded(at []string) (map[string]any, bool) {
	for i, name := range at {
		node := b.find(at[:i])
		if len(node) == 0 {
			return nil, false
		}
		wanted := "object"
		if name == each {
			wanted = "array"
		}
		if t, ok := node["type"].(string); ok && t != wanted {
			return node, true
		}
		properties, _ := node["properties"].(map[string]any)
		if _, declared := properties[name]; !declared && node["additionalProperties"] == false {
			_, patterns := node["patternProperties"]
			return node, !patterns
		}
	}
	return nil, false
}

// infer completes the schema with what the uses need.
func (b *builder) infer() {
	places := map[string][]string{}
	for _, u := range b.uses {
		if u.text && u.How != isItems && u.kind() == "" {
			continue
		}
		places[join(u.at)] = u.at
	}
	for _, key := range slices.Sorted(maps.Keys(places)) {
		at := places[key]
		if isConstrained(b.find(at)) {
			continue // declared
		}
		doc, required := b.need(at)
		if doc == nil && len(at) == 0 {
			continue
		}
		if b.put(at, doc, required) && (doc != nil || len(at) > 0) {
			b.note("how later steps use the reply")
			b.inferred = append(b.inferred, key)
		}
	}
	for _, u := range b.uses {
		if last := slices.Index(u.at, each); u.least > 0 && last >= 0 && slices.Contains(b.inferred, join(u.at)) {
			if list := b.find(u.at[:last]); list["type"] == "array" && least(list["minItems"]) < u.least {
				list["minItems"] = json.Number(strconv.Itoa(u.least))
			}
		}
	}
}

// least returns a bound of a schema as an integer, or 0.
func least(v any) int {
	f, _ := bound(v)
	return int(f)
}

// need returns the schema that the uses of a place add up to, and whether a reply must have the place. A nil schema
// allows any value. Uses that need different types are recorded as conflicts, and restrict nothing.
func (b *builder) need(at []string) (map[string]any, bool) {
	var first *use
	var soft []any
	required, conflict := len(at) == 0, false
	filled := required // some use needs a value other than null
	whole, sized, searched, firstKind := false, "", "", ""
	truth, quoted, other := false, false, false
	for i := range b.uses {
		u := &b.uses[i]
		if len(u.at) > len(at) && slices.Equal(u.at[:len(at)], at) {
			required, filled, other = required || u.required(), true, true
			continue
		}
		if !slices.Equal(u.at, at) {
			continue
		}
		required, filled = required || u.required(), filled || u.required() && !(u.quoted && u.Guarded)
		kind := u.kind()
		if kind == "" && b.needsBoolean(u) {
			kind = "boolean"
		}
		whole = whole || u.Whole
		if u.How == expr.Contains && u.Value != nil {
			searched = typeOfConstant(u.Value)
		}
		switch {
		case u.How != expr.Sized || u.Value == nil:
		case b.isData(u), b.counts(u):
			sized = "array"
		case len(at) > 0 && sized == "":
			sized = "text"
		}
		switch {
		case u.convertsToString() && u.Value != nil:
			soft = append(soft, u.Value)
		case kind == "":
			truth, quoted = truth || u.How == expr.Truth, quoted || u.quoted
			other = other || u.How != expr.Truth && !u.quoted
		case first == nil:
			first, firstKind = u, kind
		case firstKind != kind:
			conflict = true
			b.issues = append(b.issues,
				Conflict{Path: u.path, First: firstKind, Second: kind, Span: u.span, Related: first.span})
		}
	}
	if whole && firstKind == "number" {
		firstKind = "integer"
	}
	one := func(kind string) map[string]any {
		if filled || kind == "array" {
			return map[string]any{"type": kind}
		}
		return map[string]any{"type": []any{kind, "null"}}
	}
	switch {
	case conflict:
		return nil, required
	case first != nil && first.List:
		doc := one(firstKind)
		doc["items"] = map[string]any{"type": typeOfConstant(first.Value)}
		return doc, required
	case first != nil:
		return one(firstKind), required
	case len(soft) > 0:
		return one(typeOfAll(soft)), required
	case sized == "array":
		doc := one("array")
		if searched != "" {
			doc["items"] = map[string]any{"type": searched}
		}
		return doc, required
	case sized != "": // both have a length
		return map[string]any{"type": []any{"array", "string"}}, required
	case other || len(at) == 0:
	case quoted: // a template inserts any value
	case truth: // of a text such as "no", too, the condition would be true
		return one("boolean"), required
	}
	return nil, required
}

// maxCounted is the largest length that counts items. Larger ones are those of texts.
const maxCounted = 50

// counts reports whether a use counts the items of a whole reply: every text has more characters than the number that
// its length is compared with. Whether a reply is empty says nothing about its type.
func (b *builder) counts(u *use) bool {
	n, isNumber := u.Value.(float64)
	return isNumber && len(u.at) == 0 && !u.text && !b.spec.Text && n > 1 && n <= maxCounted
}

// isData reports whether a use looks at a whole reply that is JSON and no text.
func (b *builder) isData(u *use) bool {
	return len(u.at) == 0 && !u.text && (len(b.spec.Texts) > 0 || len(b.spec.Base) > 0)
}

// needsBoolean reports whether a condition is the reply itself, which a text always satisfies, and another way on is
// there for replies that do not.
func (b *builder) needsBoolean(u *use) bool {
	return u.How == expr.Truth && len(u.at) == 0 && !b.spec.Text &&
		(u.Negated || u.decision != nil && u.otherwise != "" && !u.decision.exhausted)
}

// typeOfAll returns the type that all constants of comparisons with conversion have or look like, such as "number" for
// 3 and "4". Constants of different types make it "string", because a text converts to each of them.
func typeOfAll(constants []any) string {
	kind := ""
	for _, c := range constants {
		one := typeOfConstant(c)
		if text, ok := c.(string); ok {
			one = looksLike(text)
		}
		switch kind {
		case "", one:
			kind = one
		default:
			return "string"
		}
	}
	return kind
}

// looksLike returns the type that a text looks like when it is converted.
func looksLike(text string) string {
	if text == "true" || text == "false" {
		return "boolean"
	}
	if numeral().MatchString(text) {
		return "number"
	}
	return "string"
}

// typeOfConstant returns the JSON type of the constant of a comparison.
func typeOfConstant(v any) string {
	switch v.(type) {
	case bool:
		return "boolean"
	case float64:
		return "number"
	}
	return "string"
}

// close restricts a value to the options of a decision that knows no other.
func (b *builder) close(decisions []Decision) {
	if len(b.spec.Schema) > 0 {
		return
	}
	for _, d := range decisions {
		node := b.find(split(d.At))
		if d.Open || node == nil || node["enum"] != nil || node["const"] != nil || soleType(node) == "boolean" {
			continue
		}
		values := xslices.Map(d.Options, func(o Option) any { return decode(o.Value) })
		if len(values) > 1 {
			node["enum"] = values
		}
	}
}

// open lets a reply be a text if it is compared with numbers or with one truth value, and any other reply means the
// default.
func (b *builder) open(decisions []Decision) {
	for _, d := range decisions {
		node := b.find(nil)
		ordered := slices.ContainsFunc(b.uses, func(u use) bool {
			return len(u.at) == 0 && (u.How != expr.Equals && u.How != expr.Reads || u.Whole)
		})
		kind := node["type"]
		if d.At == "" && d.Open && d.Else != "" && (kind == "number" || kind == "boolean") && !ordered &&
			slices.Contains(b.inferred, "") {
			node["type"] = []any{kind, "string"}
		}
	}
}

// kindOf names a schema.
func kindOf(doc any, decisions []Decision) Kind {
	node, _ := doc.(map[string]any)
	node = resolve(node, node)
	if len(node) == 0 {
		return Text
	}
	if node["enum"] != nil {
		return Choice
	}
	decides := len(decisions) > 0 && decisions[0].At == ""
	switch t := node["type"].(type) {
	case []any:
		if len(node) == 1 && decides {
			return Choice // a number or a text
		}
	case string:
		if t == "string" && decides {
			return Choice
		}
		return cmp.Or(kindsByType[t], JSON)
	}
	return JSON
}

// kindsByType are the kinds of schemas with one type.
var kindsByType = map[string]Kind{
	"boolean": Boolean, "number": Number, "integer": Integer, "array": List, "object": Object, "string": Text,
}

// kindWords are words for what a reply is: in messages, in instructions, and as a noun.
var kindWords = map[Kind]struct{ short, asked, noun string }{
	Boolean: {"true or false", "true or false", "value"},
	Number:  {"a number", "one number, written in digits,", "value"},
	Integer: {"a whole number", "one whole number, written in digits,", "value"},
	Choice:  {noun: "value"},
	List:    {"a JSON array", "one JSON array", "array"},
	Object:  {"a JSON object", "one JSON object", "object"},
	JSON:    {"JSON that matches a schema", "JSON", "JSON"},
}

// String returns the contract in a few words, as messages name it.
func (c *Contract) String() string {
	if c.Kind != Choice {
		return cmp.Or(kindWords[c.Kind].short, "text")
	}
	open := false
	var doc struct {
		Enum []json.RawMessage `json:"enum"`
	}
	_ = json.Unmarshal(c.Schema, &doc) // without a list of values the decisions have them
	values := xslices.Map(doc.Enum, func(v json.RawMessage) string { return string(v) })
	if len(values) == 0 && len(c.Choices) > 0 {
		open = c.Choices[0].Open
		values = xslices.Map(c.Choices[0].Options, func(o Option) string { return string(o.Value) })
	}
	if open {
		return "text, with a meaning for " + strings.Join(values, ", ")
	}
	return "one of " + strings.Join(values, ", ")
}

// compare lists the comparisons that no reply can make true, and the others.
func (b *builder) compare() (never, sometimes []Comparison) {
	for _, u := range b.uses {
		if u.How == expr.Reads || u.How == isItems || u.Value == nil || u.text || u.Negated {
			continue
		}
		node := b.find(u.at)
		one := Comparison{Path: u.path, Compared: u.compared(), Span: u.span, Allowed: describe(node)}
		outer, excluded := b.excluded(u.at)
		if excluded {
			one.Allowed = describe(outer)
		}
		if len(node) == 0 && u.empty() {
			one.Allowed = "a non-empty string"
		}
		if excluded || isConstrained(node) && !possible(node, u) ||
			len(u.at) == 0 && node["type"] != "array" && u.empty() {
			properties, _ := node["properties"].(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(properties)) {
				inner := property(node, name)
				if one.Meant == "" && isConstrained(inner) && possible(inner, u) {
					one.Meant = u.path + "." + name
				}
			}
			never = append(never, one)
		} else {
			sometimes = append(sometimes, one)
		}
	}
	return never, sometimes
}

// Comparison is a comparison of a part of the reply with a constant.
type Comparison struct {
	Path     string
	Compared string // "equal to true", "above 10"
	Span     source.Span
	Allowed  string // what the value can be
	Meant    string // a part of the value that the comparison fits, if there is one
}

func (c Comparison) String() string {
	text := fmt.Sprintf("%s is never %s: the reply must be %s", c.Path, c.Compared, c.Allowed)
	if c.Meant != "" {
		text += ", but " + c.Meant + " can be"
	}
	return text
}

// split and join convert between dotted paths and places. The empty path is the whole value.
func split(path string) []string {
	if path == "" {
		return nil
	}
	return strings.Split(path, ".")
}

func join(at []string) string { return strings.Join(at, ".") }

// decode decodes JSON and keeps the digits of numbers. It returns nil for invalid JSON.
func decode(raw json.RawMessage) any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}

// encode returns plain data as JSON; maps have their keys sorted.
func encode(v any) json.RawMessage {
	out, err := jsonfast.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("contract: %v", err)) // a programming mistake: schemas are plain data
	}
	return out
}
