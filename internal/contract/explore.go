package contract

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
)

// Probe is a place in the reply and the values that a simulation tries there.
type Probe struct {
	At     string            `json:"at,omitempty"`
	Values []json.RawMessage `json:"values"`
}

// unlike is a text that no author writes as an option.
const unlike = "something else"

// probes lists the values that make the comparisons of each place come out in
// different ways. What belongs to no option comes first: it is the way that a
// second visit leads out of.
func (b *builder) probes(decisions []Decision) []Probe {
	var out []Probe
	places := [][]string{}
	for _, u := range b.uses {
		if !slices.Contains(u.at, each) && !slices.ContainsFunc(places, func(at []string) bool { return slices.Equal(at, u.at) }) {
			places = append(places, u.at)
		}
	}
	for _, at := range places {
		if values := b.probe(at, decisions); len(values) > 1 {
			out = append(out, Probe{At: join(at), Values: values})
		}
	}
	return out
}

func (b *builder) probe(at []string, decisions []Decision) []json.RawMessage {
	node := b.find(at)
	var values []json.RawMessage
	add := func(all ...any) {
		for _, v := range all {
			raw := encode(v)
			if !slices.ContainsFunc(values, func(o json.RawMessage) bool { return string(o) == string(raw) }) && accepts(node, raw) {
				values = append(values, raw)
			}
		}
	}
	kind, _ := node["type"].(string)
	for _, u := range b.uses {
		if !slices.Equal(u.at, at) {
			continue
		}
		if u.how == isOrder && u.other == "number" {
			add(u.sides(u.near)...)
		}
		switch constant := u.value.(type) {
		case float64:
			switch u.how {
			case isEqual:
				add(constant+1, constant)
			case isOrder:
				add(u.sides(constant)...)
			case isSized:
				for _, n := range []int{max(int(constant)-1, 0), max(int(constant), 0), int(constant) + 1} {
					add(ofLength(kind, min(n, mostLength)))
				}
			}
		case string:
			if u.how == isSearched {
				if kind == "array" {
					add([]any{}, []any{constant})
				} else {
					add(unlike, "This has "+constant+" in it.")
				}
			}
		}
		switch {
		case u.how == isTruth && !u.loose, kind == "boolean":
			add(false, true)
		case u.how == isSized && u.value == nil:
			add(ofLength(kind, 0), ofLength(kind, 1))
		}
	}
	for _, d := range decisions {
		if d.At != join(at) {
			continue
		}
		if d.Open {
			add(unlike)
		}
		for _, value := range anyList(node["enum"]) { // declared, and not among the options
			if raw := encode(value); !slices.ContainsFunc(d.Options, func(o Option) bool { return string(o.Value) == string(raw) }) {
				add(value)
				break
			}
		}
		for _, o := range d.Options {
			if !o.Contained {
				add(o.Value)
			}
		}
	}
	return values
}

// sides are a number for which the comparison is false, and one for which it is true.
func (u *use) sides(limit float64) []any {
	low, high := limit-1, limit // x >= limit, x < limit
	if u.above == u.over {      // x > limit, x <= limit
		low, high = limit, limit+1
	}
	if u.above {
		return []any{low, high}
	}
	return []any{high, low}
}

const mostLength = 100

// ofLength is a value with a number of characters or items.
func ofLength(kind string, n int) any {
	if kind == "array" {
		out := make([]any, n)
		for i := range out {
			out[i] = "item"
		}
		return out
	}
	return strings.Repeat("x", n)
}

// Explored is how many simulations with consecutive seeds take every branch.
const Explored = 10

// Stride is how many consecutive seeds a step keeps the same value for, so that
// all of them together try it with each of the values of other steps. of gives
// the contract of a step; false for a step that calls no model.
//
// As long as all combinations fit into the seeds, each step waits for those
// before it. Beyond that it waits only for those that decide whether it runs.
func Stride(p *ir.Program, s *ir.Step, of func(*ir.Step) (Contract, bool)) int {
	f := newFlow(p)
	home, _, ok := f.home(s)
	if !ok {
		return 1
	}
	type decider struct {
		step           *ir.Step
		stride, values int
	}
	var before []decider
	all := 1
	for b := range p.Blocks {
		for i := range p.Blocks[b].Steps {
			one := &p.Blocks[b].Steps[i]
			c, asks := of(one)
			if !asks || len(c.Probes) == 0 {
				continue
			}
			values := 1
			for _, probe := range c.Probes {
				values = min(values*len(probe.Values), 1<<10)
			}
			stride := 1
			if all*values <= Explored {
				stride = all
				all *= values
			} else {
				for _, d := range before {
					if f.depends(one, d.step) {
						stride = max(stride, d.stride*d.values)
					}
				}
			}
			if one == home {
				return stride
			}
			before = append(before, decider{one, stride, values})
		}
	}
	return 1
}

// depends reports whether what one step writes decides if another one runs.
func (f *flow) depends(s, on *ir.Step) bool {
	if _, gate := on.Action.(ir.Gate); looksAt(s.When, on) || gate && f.reaches(on, s) {
		return true
	}
	for b := range f.p.Blocks {
		for i := range f.p.Blocks[b].Steps {
			r := &f.p.Blocks[b].Steps[i]
			if !slices.ContainsFunc(r.Next, func(e ir.Edge) bool { return looksAt(e.When, on) }) {
				continue
			}
			leads, avoids := false, false
			for _, e := range r.Next {
				to := f.p.Step(ir.BlockID(b), e.To.Step)
				switch {
				case to != nil && (to == s || f.reachesWithout(to, s, r)):
					leads = true
				case to == nil || f.endsWithout(to, s, r):
					avoids = true
				}
			}
			if leads && avoids {
				return true
			}
		}
	}
	return false
}

// reachesWithout reports whether a run can come from one step to another
// without passing a third.
func (f *flow) reachesWithout(from, to, without *ir.Step) bool {
	seen := map[*ir.Step]bool{without: true}
	var visit func(s *ir.Step) bool
	visit = func(s *ir.Step) bool {
		if seen[s] {
			return false
		}
		seen[s] = true
		next, _ := f.next(s)
		for _, b := range blocksOf(s) {
			if first := f.first(b); first != nil {
				next = append(next, first)
			}
		}
		return slices.ContainsFunc(next, func(one *ir.Step) bool { return one == to || visit(one) })
	}
	return visit(from)
}

// endsWithout reports whether a run can come from a step to its end without
// passing any of the others.
func (f *flow) endsWithout(from *ir.Step, others ...*ir.Step) bool {
	seen := map[*ir.Step]bool{}
	for _, s := range others {
		seen[s] = true
	}
	var visit func(s *ir.Step) bool
	visit = func(s *ir.Step) bool {
		if seen[s] {
			return false
		}
		seen[s] = true
		next, ends := f.next(s)
		if ends {
			holder := f.holder[f.block[s]]
			if holder == nil {
				return true
			}
			next = append(next, holder)
		}
		return slices.ContainsFunc(next, visit)
	}
	return visit(from)
}

// looksAt reports whether a condition reads what a step writes.
func looksAt(e *expr.Expr, s *ir.Step) bool {
	for _, p := range e.Paths() {
		path := join(p.Segments)
		for _, w := range s.Writes {
			if _, ok := below(path, w.Path); ok {
				return true
			}
		}
	}
	return false
}
