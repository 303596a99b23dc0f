package contract

import (
	"regexp"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
)

// Ruling is a step that continues by the first of several conditions that the reply meets.
type Ruling struct {
	// Later is the title of the step; empty if it is the one that asks for the reply.
	Later string `json:"later,omitempty"`
	Rules []Rule `json:"rules"`
}

// Rule is one condition and what it leads to.
type Rule struct {
	If    string `json:"if,omitempty"` // empty if no other rule applies
	Leads string `json:"leads"`
}

// replyName stands for the reply in conditions.
const replyName = "reply"

// ruled reports whether a use belongs to a step whose conditions are more than a list of values. Those conditions are
// shown as a whole: what one comparison leads to depends on the others.
func (b *builder) ruled(u *use) bool {
	if u.decision == nil || b.spec.Into != "" {
		return false
	}
	return slices.ContainsFunc(b.uses, func(o use) bool {
		if o.decision == nil || o.decision.step != u.decision.step {
			return false
		}
		return o.condition != "" || o.How == expr.Orders || o.How == expr.Contains ||
			o.How == expr.Sized && o.Value != nil
	})
}

// rulings returns the conditions of the steps that ruled reports.
func (b *builder) rulings() []Ruling {
	var out []Ruling
	var seen []*ir.Step
	for i := range b.uses {
		d := b.uses[i].decision
		if !b.ruled(&b.uses[i]) || slices.Contains(seen, d.step) {
			continue
		}
		seen = append(seen, d.step)
		one := Ruling{}
		if d.step.ID != b.s.ID {
			one.Later = d.step.Title()
		}
		for _, w := range d.ways {
			condition := strings.Join(strings.Fields(w.when.Text), " ")
			one.Rules = append(one.Rules, Rule{If: b.named(condition, d.step), Leads: w.leads})
		}
		if d.els != "" {
			one.Rules = append(one.Rules, Rule{Leads: d.els})
		}
		out = append(out, one)
	}
	return out
}

// named returns a condition with the names of the parts of the reply as the model knows them.
func (b *builder) named(text string, s *ir.Step) string {
	names := map[string]string{}
	var written []string
	for i := range b.uses {
		u := &b.uses[i]
		if u.decision == nil || u.decision.step != s || u.written == "" || slices.Contains(u.at, each) ||
			names[u.written] != "" {
			continue
		}
		if names[u.written] = join(u.at); len(u.at) == 0 {
			names[u.written] = replyName
		}
		written = append(written, u.written)
	}
	slices.SortFunc(written, func(a, b string) int { return len(b) - len(a) })
	for i := range written {
		written[i] = regexp.QuoteMeta(written[i])
	}
	if len(written) == 0 {
		return text
	}
	// A name inside of a text is none, and neither is a part of a longer one.
	name := regexp.MustCompile(`"[^"]*"|'[^']*'|[\w.]*?\b(?:` + strings.Join(written, "|") + `)\b[\w]*`)
	return name.ReplaceAllStringFunc(text, func(found string) string {
		if as, ok := names[found]; ok {
			return as
		}
		return found
	})
}
