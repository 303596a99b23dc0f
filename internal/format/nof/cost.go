package nof

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xslices"
)

// quote computes costs by the format's price list (section 10): for one pass, and for the worst
// case with every cycle. The base includes one pass, so a cycle adds its segment as often
// as it may repeat.
func (l *lowering) quote() {
	d := l.doc
	q := &ir.Quote{}
	extra := make([]int64, len(d.agents)) // additional passes of each agent
	cycles := false
	for _, r := range d.rules {
		if r.kind != cycleRule {
			continue
		}
		cycles = true
		for i := max(d.position(r.target.Value), 0); i < len(d.agents); i++ {
			extra[i] += int64(r.cycles)
		}
	}
	for i, a := range d.agents {
		n := cmp.Or(d.node(a.Value), &node{calls: []text.Text{a}}) // a node may also call other agents
		calls := map[string]int64{}
		for _, c := range n.calls {
			calls[c.Value]++
		}
		for _, key := range xslices.AppendNew(nil, text.Values(n.calls)...) {
			most, passes := n.most.of(key), 1+extra[i]
			if most != unbounded {
				most = product(max(calls[key], most), passes)
			}
			if most == unbounded {
				q.Unbounded = xslices.AppendNew(q.Unbounded, key)
				most = min(calls[key]*passes, maxCalls)
			}
			l.line(q, key, calls[key], most)
		}
	}
	l.stated(q)
	if cycles && d.mode() != dynamic && !l.HonorRules {
		q.Notes = append(q.Notes, fmt.Sprintf(
			"The worst case includes the Cycle-back rules, which %s routing ignores.", d.mode()))
	}
	l.p.Quote = q
	if len(q.Unpriced)+len(q.Unbounded) > 0 || len(d.agents) == 0 || l.unknownAgents {
		return
	}
	l.compare(q, cycles)
}

// line adds calls of an agent to the quote. One without a price is listed as such, so that the total is not taken for
// complete.
func (l *lowering) line(q *ir.Quote, key string, calls, worst int64) {
	e := l.doc.find(key, l.files, l.out)
	if e == nil {
		return
	}
	price, known := e.price()
	if !known {
		q.Unpriced = append(q.Unpriced, key)
		return
	}
	i := slices.IndexFunc(q.Lines, func(one ir.QuoteLine) bool { return one.Agent == key })
	if i < 0 {
		i = len(q.Lines)
		q.Lines = append(q.Lines, ir.QuoteLine{Agent: key, Tier: e.tier, Price: price})
	}
	q.Lines[i].Calls += calls
	q.Lines[i].Worst += worst
	q.Base += calls * price
	q.Worst += worst * price
}

var (
	amountForm  = lazyregexp.New(`\$\s?([0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?|\.[0-9]+)`)
	ceilingWord = lazyregexp.New(`(?i)budget|ceiling|at most|no more than|limit|maximum|max\b`)
)

// stated reads the amounts that the file itself names.
func (l *lowering) stated(q *ir.Quote) {
	d := l.doc
	if n, ok := microDollars(d.estimate.Value); ok && !d.estimate.IsZero() {
		q.Stated = &ir.Limit{Max: n, Span: d.estimate.Span}
	}
	s := d.sections[philosophy]
	if s == nil {
		return
	}
	for at := s.at.Start; at < s.at.End; {
		line, next := lineAt(d.file.Text, at, s.at.End)
		if ceilingWord().MatchString(line) {
			for _, m := range amountForm().FindAllStringSubmatchIndex(line, -1) {
				if n, ok := microDollars(line[m[2]:m[3]]); ok {
					q.Ceilings = append(q.Ceilings, ir.Limit{Max: n, Span: d.file.Span(at+m[0], at+m[1])})
				}
			}
		}
		at = next
	}
}

// compare reports amounts that disagree.
func (l *lowering) compare(q *ir.Quote, cycles bool) {
	inert := ""
	if cycles && l.doc.mode() != dynamic {
		inert = ", including the Cycle-back rules"
	}
	if q.Stated != nil && q.Stated.Max != q.Worst {
		found := l.out.Warnf(CodeEstimate, q.Stated.Span,
			fmt.Sprintf("Use cost_estimate: %q. One pass costs %s.", dollars(q.Worst), dollars(q.Base)),
			"The cost estimate is %s, but the worst case is %s%s.", dollars(q.Stated.Max), dollars(q.Worst), inert)
		found.Related = l.cycleSpans()
		found.WriteValue(q.Stated.Span, strconv.Quote(dollars(q.Worst)))
	}
	for _, c := range q.Ceilings {
		if c.Max < q.Worst {
			l.out.Warnf(CodeCeiling, c.Span, "Raise the ceiling, allow fewer cycles, or use cheaper agents.",
				"The prose allows %s, but the worst case is %s%s.", dollars(c.Max), dollars(q.Worst), inert).
				Related = l.cycleSpans()
		}
	}
}

// cycleSpans returns the rules that make the worst case differ from one pass.
func (l *lowering) cycleSpans() []diag.Related {
	var out []diag.Related
	for _, r := range l.doc.rules {
		if r.kind == cycleRule {
			out = append(out, diag.Related{Span: r.at, Message: fmt.Sprintf("up to %d more passes", r.cycles)})
		}
	}
	return out
}

// dollars formats an amount with as many decimals as it needs, but at least two.
func dollars(micro int64) string {
	s := fmt.Sprintf("%d.%06d", micro/1_000_000, micro%1_000_000)
	s = strings.TrimRight(s, "0")
	if i := strings.IndexByte(s, '.'); len(s)-i < 3 {
		s += strings.Repeat("0", 3-(len(s)-i))
	}
	return "$" + s
}
