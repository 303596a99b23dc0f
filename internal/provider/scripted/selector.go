package scripted

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xslices"
)

// selector decides which requests an entry answers. Empty fields match any request.
type selector struct {
	workflow, step, agent, key            text.Text
	attempt, visit, iteration, call, turn numbers
}

// numbers is a range from…to, counted from 1; to is 0 for an open range. The zero value matches any number.
type numbers struct {
	from, to int
	span     source.Span
}

func (n numbers) any() bool       { return n.from == 0 }
func (n numbers) has(at int) bool { return n.any() || at >= n.from && (n.to == 0 || at <= n.to) }

// covers reports whether n contains all numbers of m.
func (n numbers) covers(m numbers) bool {
	return n.any() || !m.any() && m.from >= n.from && (n.to == 0 || m.to != 0 && m.to <= n.to)
}

func (n numbers) String() string {
	switch {
	case n.to == n.from:
		return strconv.Itoa(n.from)
	case n.to == 0:
		return strconv.Itoa(n.from) + "+"
	}
	return fmt.Sprintf("%d-%d", n.from, n.to)
}

// origin identifies the source of a request or a call; numbers are counted from 1.
type origin struct {
	workflow, step, agent, key            string
	attempt, visit, iteration, call, turn int
}

type name struct {
	key   string
	value text.Text
}

// names returns the selectors that name a part of the workflow, the most specific first.
func (s selector) names() []name {
	return []name{{"step", s.step}, {"agent", s.agent}, {"workflow", s.workflow}}
}

type count struct {
	key   string
	value numbers
}

func (s selector) counts() []count {
	return []count{
		{"visit", s.visit}, {"iteration", s.iteration}, {"attempt", s.attempt}, {"call", s.call}, {"turn", s.turn},
	}
}

func (o origin) name(key string) string {
	return map[string]string{"step": o.step, "agent": o.agent, "workflow": o.workflow}[key]
}

func (o origin) count(key string) int {
	return map[string]int{
		"visit": o.visit, "iteration": o.iteration, "attempt": o.attempt, "call": o.call, "turn": o.turn,
	}[key]
}

// fits returns how many conditions of the selector match the request, and how many do not.
func (s selector) fits(o origin) (yes, no int) {
	tell := func(ok bool) {
		if ok {
			yes++
		} else {
			no++
		}
	}
	if s.key.Value != "" {
		tell(matchesKey(s.key.Value, o.key))
	}
	for _, n := range s.names() {
		if n.value.Value != "" {
			tell(n.value.Value == o.name(n.key))
		}
	}
	for _, c := range s.counts() {
		if !c.value.any() {
			tell(c.value.has(o.count(c.key)))
		}
	}
	return yes, no
}

// sharesName reports whether one of the selector's names is that of the origin.
func (s selector) sharesName(o origin) bool {
	return s.key.Value != "" && matchesKey(s.key.Value, o.key) || slices.ContainsFunc(s.names(),
		func(n name) bool { return n.value.Value != "" && n.value.Value == o.name(n.key) })
}

// rank orders matching entries: first by how closely they name the source, then by the number of conditions on counts.
// place has a bit for each kind of name; the bit of a key outweighs all others, then those of step, agent and workflow.
func (s selector) rank() (place, narrow int) {
	for i, value := range []text.Text{s.workflow, s.agent, s.step, s.key} {
		if value.Value != "" {
			place += 1 << i
		}
	}
	for _, c := range s.counts() {
		if !c.value.any() {
			narrow++
		}
	}
	return place, narrow
}

// sameOrMore reports whether s matches everything that t matches, and is at least as specific.
func (s selector) sameOrMore(t selector) bool {
	same := s.key.Value == t.key.Value
	for i, n := range s.names() {
		same = same && n.value.Value == t.names()[i].value.Value
	}
	for i, c := range s.counts() {
		other := t.counts()[i].value
		same = same && c.value.any() == other.any() && c.value.covers(other)
	}
	return same
}

// String returns the selector for messages: step "draft", attempt 1.
func (s selector) String() string {
	var parts []string
	if s.key.Value != "" {
		parts = append(parts, fmt.Sprintf("key %q", s.key.Value))
	}
	for _, n := range s.names() {
		if n.value.Value != "" {
			parts = append(parts, fmt.Sprintf("%s %q", n.key, n.value.Value))
		}
	}
	for _, c := range s.counts() {
		if !c.value.any() {
			parts = append(parts, c.key+" "+c.value.String())
		}
	}
	if len(parts) == 0 {
		return "anything"
	}
	return strings.Join(parts, ", ")
}

// String returns the source of a request for messages.
func (o origin) String() string {
	var parts []string
	for _, key := range []string{"step", "agent", "workflow"} {
		if o.name(key) != "" {
			parts = append(parts, fmt.Sprintf("%s %q", key, o.name(key)))
		}
	}
	if o.key != "" {
		parts = append(parts, fmt.Sprintf("key %q", o.key))
	}
	for _, key := range []string{"visit", "iteration", "attempt", "call", "turn"} {
		if o.count(key) > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", key, o.count(key)))
		}
	}
	return strings.Join(parts, ", ")
}

// choose returns the best matching entry, or nil if none matches. Of equal ones, the first counts. Nothing is counted
// between requests, so a request that is repeated after a crash gets the same entry.
func choose(entries []*entry, o origin, also func(*entry) bool) *entry {
	var best *entry
	for _, e := range entries {
		if _, no := e.when.fits(o); no > 0 || !also(e) {
			continue
		}
		if best == nil || better(e, best) {
			best = e
		}
	}
	return best
}

// better reports whether e takes precedence over f.
func better(e, f *entry) bool {
	place, narrow := e.when.rank()
	otherPlace, otherNarrow := f.when.rank()
	if place != otherPlace {
		return place > otherPlace
	}
	if narrow != otherNarrow {
		return narrow > otherNarrow
	}
	return len(e.input) > 0 && len(f.input) == 0
}

// nearest returns the entry with the fewest mismatches, or nil if no entry has anything in common with the request.
func nearest(entries []*entry, o origin) *entry {
	var best *entry
	bestYes, bestNo := 0, 0
	for _, e := range entries {
		yes, no := e.when.fits(o)
		if e.when.sharesName(o) && (best == nil || no < bestNo || no == bestNo && yes > bestYes) {
			best, bestYes, bestNo = e, yes, no
		}
	}
	if best != nil {
		return best
	}
	// The name of the step may be misspelled.
	steps := xslices.Map(entries, func(e *entry) string { return e.when.step.Value })
	if i := slices.Index(steps, diag.Nearest(o.step, steps)); i >= 0 && steps[i] != "" {
		return entries[i]
	}
	return nil
}
