package contract

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Instructions tell a model what its reply must be; empty for free text.
func (c *Contract) Instructions() string {
	var out []string
	whole := c.decision()
	switch words, known := kindWords[c.Kind]; {
	case c.Kind == Choice:
		out = append(out, c.choice(whole))
	case known:
		out = append(out, "Reply with "+words.asked+" and nothing else.")
		if words.noun == "value" {
			out[0] += meanings(whole)
		}
	default:
		if len(c.Schema) > 0 {
			out = append(out, "Reply with the text itself. Do not put it into JSON, quotes or a code fence.")
		}
		if choices := meanings(whole); choices != "" && len(c.Schema) == 0 && len(c.Conflicts) == 0 {
			out = append(out, "The text of your reply decides what happens next:"+choices)
		}
	}
	if c.detailed() {
		noun := cmp.Or(kindWords[c.Kind].noun, "text")
		out = append(out, fmt.Sprintf("The %s must match this JSON Schema:\n%s", noun, c.Schema))
	}
	for i := range c.Choices {
		d := &c.Choices[i]
		choices := meanings(d)
		switch {
		case choices == "":
		case d.At != "":
			out = append(out, fmt.Sprintf("The value of %q decides what happens next:", d.At)+choices)
		case c.Kind == List:
			out = append(out, "The array decides what happens next:"+choices)
		}
	}
	for i := range c.Rulings {
		out = append(out, c.ruling(&c.Rulings[i]))
	}
	return strings.Join(out, "\n")
}

// ruling lists the conditions of a step.
func (c *Contract) ruling(r *Ruling) string {
	var out strings.Builder
	out.WriteString("The first of these rules that applies decides what happens next")
	if r.Later != "" {
		fmt.Fprintf(&out, " in step %q", r.Later)
	}
	if slices.ContainsFunc(r.Rules, func(one Rule) bool { return replyWord().MatchString(one.If) }) {
		fmt.Fprintf(&out, ", where `%s` is your reply", replyName)
	}
	out.WriteString(":")
	for _, one := range r.Rules {
		if one.If == "" {
			fmt.Fprintf(&out, "\n- otherwise: %s", one.Leads)
		} else {
			fmt.Fprintf(&out, "\n- `%s`: %s", one.If, one.Leads)
		}
	}
	return out.String()
}

var replyWord = lazyregexp.New(`\b` + replyName + `\b`)

// detailed reports whether the schema says more than the words before it.
func (c *Contract) detailed() bool {
	doc := c.decoded()
	for keyword := range doc {
		switch keyword {
		case "type", "title", "description", "$schema", "$id":
		case "enum":
			if c.Kind != Choice {
				return true
			}
		default:
			return true
		}
	}
	return c.Kind == JSON
}

// decoded returns the schema; nil for free text.
func (c *Contract) decoded() map[string]any {
	if c.Document != nil {
		return c.Document
	}
	doc, _ := decode(c.Schema).(map[string]any)
	return doc
}

// decision returns the decision of the reply itself, or nil.
func (c *Contract) decision() *Decision {
	return xslices.FindPointer(c.Choices, func(one *Decision) bool { return one.At == "" })
}

// choice asks for one of several values.
func (c *Contract) choice(d *Decision) string {
	var lines strings.Builder
	if values, closed := c.decoded()["enum"].([]any); closed {
		for _, v := range values {
			fmt.Fprintf(&lines, "\n- %s%s", plainText(v), leadsOf(d, string(encode(v))))
		}
		return "Reply with exactly one of these values and nothing else:" + lines.String()
	}
	for _, o := range d.Options {
		fmt.Fprintf(&lines, "\n- %s%s", plainText(decode(o.Value)), leadsOf(d, string(o.Value)))
	}
	if d.Ruled {
		return "If one of these values applies, reply with that value alone. Otherwise reply in your own words." +
			lines.String()
	}
	other := "Any other reply matches none of them."
	if d.Else != "" {
		other = "Any other reply means: " + d.Else + "."
	}
	decides := "Your reply decides what happens next:"
	if c.Merged {
		decides = "Your reply is merged with those of other workers, and the result decides what happens next:"
	}
	return decides + lines.String() + "\n" + other +
		"\nIf one of the values above applies, reply with that value alone. Otherwise reply in your own words."
}

// meanings lists what the values of a decision lead to.
func meanings(d *Decision) string {
	if d == nil {
		return ""
	}
	var lines strings.Builder
	for _, o := range d.Options {
		if d.Ruled && o.Leads == "" {
			continue
		}
		value := string(o.Value)
		if o.Contained != "" {
			value = fmt.Sprintf("if it %s %s", o.Contained, value)
		}
		fmt.Fprintf(&lines, "\n- %s%s", value, leadsOf(d, string(o.Value)))
	}
	if d.Else != "" {
		fmt.Fprintf(&lines, "\n- any other value: %s", d.Else)
	}
	return lines.String()
}

// leadsOf returns where a value of a decision leads, after a colon; "" if that is not known.
func leadsOf(d *Decision, value string) string {
	if d == nil {
		return ""
	}
	for _, o := range d.Options {
		if string(o.Value) == value && o.Leads != "" {
			return ": " + o.Leads
		}
	}
	if d.Else != "" {
		return ": " + d.Else
	}
	return ""
}
