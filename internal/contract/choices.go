package contract

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/schema"
)

// decisions lists, for each place in the reply, the values that later steps look for and what they lead to.
func (b *builder) decisions() []Decision {
	if b.spec.Items {
		return nil // the list that several replies are merged into decides
	}
	c := &decisionCollector{builder: b}
	for i := range b.uses {
		c.addUse(b.uses[i])
	}
	for i := range c.negated {
		c.addNegated(&c.negated[i])
	}
	for i := range c.out {
		c.complete(&c.out[i], c.closed[i])
	}
	return slices.DeleteFunc(c.out, func(d Decision) bool { return len(d.Options) == 0 })
}

// decisionCollector puts the decisions of a reply together, one for each place, in the order of the uses.
type decisionCollector struct {
	*builder
	out     []Decision
	closed  []bool // by index in out: whether a step continues for the options alone
	negated []use  // the comparisons that must be false; value is the constant as JSON
}

// index returns the index of the decision of a place, and adds one if there is none.
func (c *decisionCollector) index(at string) int {
	n := slices.IndexFunc(c.out, func(d Decision) bool { return d.At == at })
	if n < 0 {
		n = len(c.out)
		c.out, c.closed = append(c.out, Decision{At: at}), append(c.closed, false)
	}
	return n
}

// addUse adds the constant that a use looks for to the decision of its place. Comparisons that must be false wait for
// addNegated, because the options that they exclude may follow.
func (c *decisionCollector) addUse(u use) {
	node := c.find(u.at)
	if !u.options(node) {
		return
	}
	value, ok := encode(u.Value), true
	if u.How != expr.Contains {
		value, ok = typed(&u, node)
	}
	if _, excluded := c.excluded(u.at); !ok || excluded {
		return
	}
	n := c.index(join(u.at))
	if u.Negated {
		u.Value = value
		c.negated = append(c.negated, u)
		return
	}
	d := &c.out[n]
	ruled := c.ruled(&u)
	if u.How == expr.Contains && ruled {
		return // a rule
	}
	if ruled {
		d.Ruled, u.leads = true, ""
	}
	d.add(Option{Value: value, Contained: u.Search, Leads: u.leadsTo()})
	if is, ok := u.Value.(bool); ok && !ruled && u.condition != "" && !u.Alternative && u.otherwise != "" {
		d.add(Option{Value: encode(!is), Leads: u.otherwise})
	}
	if u.Guarded {
		return
	}
	if u.decision != nil {
		c.closed[n] = c.closed[n] || u.decision.closed
	}
	if d.Else == "" && (u.decision != nil || soleType(node) == "boolean") {
		d.Else = u.otherwise
	}
}

// addNegated adds a comparison that must be false: any value but the constant leads where the use does.
func (c *decisionCollector) addNegated(u *use) {
	d := &c.out[c.index(join(u.at))]
	value := u.Value.(json.RawMessage)
	known := slices.ContainsFunc(d.Options, func(o Option) bool { return string(o.Value) == string(value) })
	if c.ruled(u) {
		d.Ruled = true
		if !known && u.How == expr.Equals {
			d.add(Option{Value: value})
		}
		d.Else = cmp.Or(d.Else, u.leads)
		return
	}
	if !known && !u.Alternative {
		d.add(Option{Value: value, Contained: u.Search, Leads: u.otherwise})
	}
	if d.Else == "" || u.condition == "" && !u.Guarded {
		d.Else = u.leadsTo()
	}
}

// complete decides, with all options known, whether other values are allowed. A boolean gets its second value as an
// option, and true comes before false.
func (c *decisionCollector) complete(d *Decision, closed bool) {
	node := c.find(split(d.At))
	boolean := soleType(node) == "boolean"
	d.Open = (!boolean || c.defaults(d)) && (!closed || len(d.Options) == 1) && node["enum"] == nil
	if boolean && len(d.Options) == 1 && d.Else != "" {
		other := string(d.Options[0].Value) != "true"
		leads := d.Else
		if d.Ruled {
			leads = ""
		}
		d.Options = append(d.Options, Option{Value: encode(other), Leads: leads})
	}
	if !d.Open && (boolean || closed && node["enum"] == nil) {
		d.Else = "" // there is no other value
	}
	if boolean {
		slices.SortStableFunc(d.Options,
			func(a, b Option) int { return strings.Compare(string(b.Value), string(a.Value)) })
	}
}

// clearElse removes the effect of other values from ruled decisions.
func (b *builder) clearElse(decisions []Decision) {
	for i := range decisions {
		if decisions[i].Ruled {
			decisions[i].Else = ""
		}
	}
}

// defaults reports whether a reply that is compared with one truth value, and with nothing else, has a default branch:
// then the reply may also be a text, which selects the default.
func (b *builder) defaults(d *Decision) bool {
	if d.At != "" || d.Else == "" || len(d.Options) != 1 || b.spec.Into != "" || !slices.Contains(b.inferred, "") {
		return false
	}
	return !slices.ContainsFunc(b.uses, func(u use) bool {
		return len(u.at) == 0 && u.How != expr.Reads &&
			(u.How != expr.Equals || u.decision == nil || u.Negated || u.condition != "" || u.decision.exhausted)
	})
}

// options reports whether a use compares a place with a constant, or looks for it there. A condition that is a boolean
// compares it with true. Of a boolean, being unequal to one value is being equal to the other.
func (u *use) options(node map[string]any) bool {
	if u.How == expr.Truth && (!u.Loose || boolean(node)) {
		u.How, u.Value = expr.Equals, true
	}
	if value, ok := u.Value.(bool); ok && u.Negated && boolean(node) && u.How == expr.Equals {
		u.Value, u.Negated = !value, false
	}
	switch {
	case u.Value == nil || slices.Contains(u.at, each):
		return false
	case u.How == expr.Contains:
		return true
	}
	// A reply is never empty.
	return u.How == expr.Equals && (u.Value != "" || len(u.at) > 0)
}

// boolean reports whether a schema allows true and false by their type.
func boolean(node map[string]any) bool {
	return slices.Contains(append(anyList(node["type"]), node["type"]), any("boolean"))
}

// leadsTo returns what happens if the comparison comes out as required, with the other conditions that it depends on.
func (u *use) leadsTo() string {
	if u.leads == "" || u.condition == "" {
		return u.leads
	}
	return u.leads + ifWords + u.condition + "`"
}

// add puts an option among the others, unless it leads to what is known.
func (d *Decision) add(o Option) {
	for i := range d.Options {
		if string(d.Options[i].Value) != string(o.Value) || d.Options[i].Contained != o.Contained {
			continue
		}
		if known := &d.Options[i].Leads; *known == "" {
			*known = o.Leads
		} else if o.Leads != "" && *known != o.Leads && len(*known)+len(o.Leads) < maxEffectBytes {
			*known = joined(*known, o.Leads)
		}
		return
	}
	d.Options = append(d.Options, o)
}

// joined returns two effects of one value. Of two steps, further conditions select the one to continue with.
func joined(a, b string) string {
	const next = "continue with "
	if strings.Contains(a, ifWords) {
		return a + "; otherwise " + b
	}
	if rest, ok := strings.CutPrefix(b, next); ok && strings.HasPrefix(a, next) {
		return a + " or " + rest
	}
	return a + "; " + b
}

// ifWords introduces the condition of an effect.
const ifWords = " if `"

// maxEffectBytes bounds the description of what an option leads to.
const maxEffectBytes = 400

// typed returns the constant of a comparison in the type that the value has: "3" becomes 3 where the comparison
// converts texts and the value is a number. It reports false if the value cannot be that constant.
func typed(u *use, node map[string]any) (json.RawMessage, bool) {
	v := u.Value
	if text, ok := v.(string); ok && u.Loose {
		switch soleType(node) {
		case "boolean":
			if text == "true" || text == "false" {
				v = text == "true"
			}
		case "number", "integer":
			if f, err := strconv.ParseFloat(text, 64); err == nil {
				v = f
			}
		case "":
			for _, value := range anyList(node["enum"]) {
				if _, isText := value.(string); !isText && string(encode(value)) == text {
					return encode(value), true
				}
			}
		}
	}
	raw := encode(v)
	return raw, accepts(node, raw)
}

// soleType returns the type of a schema that allows one type, or one type and null; otherwise it returns "".
func soleType(node map[string]any) string {
	kind, _ := node["type"].(string)
	for _, t := range anyList(node["type"]) {
		switch {
		case t == "null":
		case kind != "":
			return ""
		default:
			kind, _ = t.(string)
		}
	}
	return kind
}

// anyList returns a value of a schema as a list; nil if it is none.
func anyList(v any) []any {
	list, _ := v.([]any)
	return list
}

// accepts reports whether a value matches a schema. A schema with references that lead out of
// the part matches every value.
func accepts(node map[string]any, raw json.RawMessage) bool {
	if matches, ok := acceptsSimple(node, raw); ok {
		return matches
	}
	s, err := schema.CompileValue(node)
	if err != nil {
		return true
	}
	problems, err := s.Check(raw)
	return err != nil || len(problems) == 0
}

// acceptsSimple reports whether a value matches a schema with a scalar type or a list of values, which most steps have.
// ok is false for other schemas. It saves compiling a schema for each value.
func acceptsSimple(node map[string]any, raw json.RawMessage) (matches, ok bool) {
	matches = true
	for keyword, v := range node {
		switch keyword {
		case "title", "description":
		case "type":
			switch v {
			case "string":
				matches = matches && raw[0] == '"'
			case "boolean":
				matches = matches && (raw[0] == 't' || raw[0] == 'f')
			case "number":
				matches = matches && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
			default:
				return false, false
			}
		case "enum":
			matches = matches &&
				slices.ContainsFunc(anyList(v), func(one any) bool { return string(encode(one)) == string(raw) })
		default:
			return false, false
		}
	}
	return matches, true
}

// possible reports whether a comparison can be true for a value of the schema.
func possible(node map[string]any, u use) bool {
	if u.How == expr.Equals {
		_, ok := typed(&u, node)
		return ok
	}
	limit, isNumber := u.Value.(float64)
	t := soleType(node)
	switch u.How {
	case expr.Contains:
		items, ok := node["items"].(map[string]any)
		return t != "array" || !ok || accepts(items, encode(u.Value))
	case expr.Sized:
		most, bounded := bound(node["maxItems"])
		if t == "string" {
			most, bounded = bound(node["maxLength"])
		}
		return !isNumber || !u.Above || !bounded || most > limit || most == limit && !u.Strictly
	case expr.Truth:
		return true
	}
	if !isNumber {
		return t == "" || t == "string" || u.Loose
	}
	switch t {
	case "boolean", "array", "object", "string":
		return u.Loose
	case "number", "integer":
		low, hasLow := bound(node["minimum"])
		high, hasHigh := bound(node["maximum"])
		switch {
		case u.Above && hasHigh && (high < limit || u.Strictly && high == limit),
			!u.Above && hasLow && (low > limit || u.Strictly && low == limit):
			return false
		}
	}
	return true
}

// bound returns a number of a schema.
func bound(v any) (float64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	return f, err == nil
}
