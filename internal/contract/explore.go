package contract

import (
	"encoding/json"
	"regexp/syntax"
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

// unlistedText is the reply of a simulation that means none of the options, so that the run takes the default branch.
// It must be a text that no author writes as an option.
const unlistedText = "something else"

// probes lists the values that make the comparisons of each place come out in
// different ways. What belongs to no option comes first: it is the way that a
// second visit leads out of.
func (b *builder) probes(decisions []Decision) []Probe {
	var out []Probe
	places := [][]string{}
	for _, u := range b.uses {
		known := func(at []string) bool { return slices.Equal(at, u.at) }
		if u.How != expr.Reads && !slices.ContainsFunc(places, known) {
			places = append(places, u.at)
		}
	}
	for _, at := range places {
		if _, excluded := b.excluded(at); excluded {
			continue
		}
		if values := b.probe(at, decisions); len(values) > 1 {
			out = append(out, Probe{At: join(at), Values: values})
		}
	}
	return out
}

// probe returns the values that a simulation tries at a place. Together they make each comparison of the place true and
// false, and select each of its options. A value of no option comes first; see probes.
func (b *builder) probe(at []string, decisions []Decision) []json.RawMessage {
	p := &probeValues{at: at, node: b.find(at)}
	decisions = slices.DeleteFunc(slices.Clone(decisions), func(d Decision) bool { return d.At != join(at) })
	for i := range decisions {
		if decisions[i].Open {
			p.addDefault()
		}
	}
	if len(p.values) == 0 {
		p.addOtherNumber(b.numbers(at, decisions))
	}
	for i := range b.uses {
		if slices.Equal(b.uses[i].at, at) {
			p.addSides(&b.uses[i])
		}
	}
	for i := range decisions {
		p.addOptions(&decisions[i])
	}
	return p.values
}

// probeValues collects the values of a probe: those that the schema of the place accepts, each of them once.
type probeValues struct {
	at     []string
	node   map[string]any // the schema of the place
	values []json.RawMessage
}

// add adds values that the schema accepts and that are not there yet.
func (p *probeValues) add(all ...any) {
	for _, v := range all {
		raw := encode(v)
		if v == "" && len(p.at) == 0 {
			continue // a reply is never empty
		}
		if !slices.ContainsFunc(p.values, func(o json.RawMessage) bool { return string(o) == string(raw) }) &&
			accepts(p.node, raw) {
			p.values = append(p.values, raw)
		}
	}
}

// addDefault adds a value that selects the default of an open decision. Of a boolean, one of both values does.
func (p *probeValues) addDefault() {
	if boolean(p.node) {
		p.add(false, true)
	} else {
		p.add(unlistedText)
	}
}

// addOtherNumber adds a number that is none of the given ones.
func (p *probeValues) addOtherNumber(constants []float64) {
	if len(constants) == 0 {
		return
	}
	slices.Sort(constants)
	candidates := []float64{constants[len(constants)-1] + 1, constants[0] - 1}
	for i, c := range constants[:len(constants)-1] {
		candidates = append(candidates, c+1, (c+constants[i+1])/2)
	}
	for _, one := range candidates {
		if !slices.Contains(constants, one) && len(p.values) == 0 {
			p.add(one)
		}
	}
}

// addSides adds values for which a use of the place is false, and values for which it is true.
func (p *probeValues) addSides(u *use) {
	kind := soleType(p.node)
	if u.How == expr.Orders && u.other == "number" {
		p.add(u.valuesAround(u.near)...)
	}
	switch constant := u.Value.(type) {
	case float64:
		p.addAroundNumber(u, kind, constant)
	case string:
		p.addAroundText(u, kind, constant)
	}
	switch {
	case u.How == expr.Truth && !u.Loose, kind == "boolean":
		p.add(false, true)
	case u.How == expr.Sized && u.Value == nil:
		p.add(ofLength(kind, 0), ofLength(kind, 1))
	}
}

// addAroundNumber adds the values on both sides of a number that the place, or its length, is compared with.
func (p *probeValues) addAroundNumber(u *use, kind string, constant float64) {
	switch u.How {
	case expr.Equals:
		p.add(constant)
	case expr.Orders:
		p.add(u.valuesAround(constant)...)
	case expr.Sized:
		for _, n := range []int{max(int(constant)-1, 0), max(int(constant), 0), int(constant) + 1} {
			p.add(ofLength(kind, min(n, maxLength)))
		}
	}
}

// addAroundText adds a value without and a value with the text that the place is compared with or searched for.
func (p *probeValues) addAroundText(u *use, kind, constant string) {
	if u.How == expr.Equals && slices.Contains(p.at, each) { // items of a list have no Decision, which adds its options
		p.add(unlistedText, constant)
	}
	if u.How != expr.Contains {
		return
	}
	if kind == "array" {
		p.add([]any{}, []any{constant})
	} else {
		p.add(unlistedText, u.found(constant))
	}
}

// addOptions adds a declared value that is not among the options of a decision, and the options themselves.
func (p *probeValues) addOptions(d *Decision) {
	for _, value := range anyList(p.node["enum"]) {
		if raw := encode(value); !slices.ContainsFunc(d.Options,
			func(o Option) bool { return string(o.Value) == string(raw) }) {
			p.add(value)
			break
		}
	}
	for _, o := range d.Options {
		if o.Contained == "" {
			p.add(o.Value)
		}
	}
}

// found returns a text in which a search finds a constant.
func (u *use) found(constant string) string {
	switch u.Search {
	case expr.AtStart:
		return constant + " is what this begins with."
	case expr.AtEnd:
		return "This ends with " + constant
	case expr.Pattern:
		if re, err := syntax.Parse(constant, syntax.Perl); err == nil {
			return matching(re.Simplify())
		}
	}
	return "This has " + constant + " in it."
}

// matching returns a short text that a regular expression matches.
func matching(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		return string(re.Rune)
	case syntax.OpCharClass:
		if len(re.Rune) > 0 {
			return string(re.Rune[0])
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return "x"
	case syntax.OpCapture, syntax.OpPlus, syntax.OpAlternate:
		return matching(re.Sub[0])
	case syntax.OpRepeat:
		return strings.Repeat(matching(re.Sub[0]), re.Min)
	case syntax.OpConcat:
		var out strings.Builder
		for _, sub := range re.Sub {
			out.WriteString(matching(sub))
		}
		return out.String()
	}
	return "" // an anchor, or what may be left out
}

// numbers returns the numbers that a place is compared with for equality.
func (b *builder) numbers(at []string, decisions []Decision) []float64 {
	var out []float64
	for _, u := range b.uses {
		if f, number := u.Value.(float64); number && u.How == expr.Equals && slices.Equal(u.at, at) {
			out = append(out, f)
		}
	}
	for _, d := range decisions {
		for _, o := range d.Options {
			var f float64
			if d.At == join(at) && json.Unmarshal(o.Value, &f) == nil {
				out = append(out, f)
			}
		}
	}
	return out
}

// valuesAround returns a number for which the comparison is false, and one for which it is true.
func (u *use) valuesAround(limit float64) []any {
	low, high := limit-1, limit // x >= limit, x < limit
	if u.Above == u.Strictly {  // x > limit, x <= limit
		low, high = limit, limit+1
	}
	if u.Above {
		return []any{low, high}
	}
	return []any{high, low}
}

// maxLength bounds the length of simulated replies.
const maxLength = 5000

// ofLength returns a list of n items if kind is "array", otherwise a text of n characters.
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

// Part is what a simulation can vary about a step.
type Part struct {
	Probes []Probe
	// Fails says that the work of the step can fail.
	Fails bool
	// Reports says that conditions look at failures in the result of the step.
	Reports bool
	// Within and Texts are the keys of the result that hold the reply; see Spec.
	Within, Texts []string
}

// Parts returns the part of a step in a simulation.
type Parts func(*ir.Step) Part

// decider is a step whose result decides where a run goes.
type decider struct {
	step           *ir.Step
	stride, values int
}

// deciders returns the steps that decide, with the number of consecutive seeds
// that each keeps its value for.
//
// As long as all combinations fit into the seeds, each step waits for those
// before it. Beyond that it waits only for those that decide whether it runs.
func (f *flow) deciders(of Parts) []decider {
	var out []decider
	all := 1
	for one := range f.p.Steps() {
		probes := of(one).Probes
		if len(probes) == 0 {
			continue
		}
		values := 1
		for _, probe := range probes {
			values = min(values*len(probe.Values), 1<<10)
		}
		stride := 1
		if all*values <= Explored {
			stride = all
			all *= values
		} else {
			stride = f.period(one, out)
		}
		out = append(out, decider{one, stride, values})
	}
	return out
}

// period returns after how many seeds those deciders have had all their values
// that decide whether a step runs.
func (f *flow) period(s *ir.Step, before []decider) int {
	out := 1
	for _, d := range before {
		if d.step != s && f.depends(s, d.step) {
			out = max(out, d.stride*d.values)
		}
	}
	return out
}

// Exploration is what ten simulations with consecutive seeds try, so that together they take every branch.
type Exploration struct {
	flow  *flow
	plans [Explored]plan
}

// Tries returns what each of the ten simulations tries about a step.
func (e *Exploration) Tries(s *ir.Step) []Try {
	home, _, ok := e.flow.home(s)
	if !ok {
		return nil
	}
	out := make([]Try, Explored)
	for i := range out {
		out[i] = e.plans[i].tries[home]
	}
	return out
}

// Fails reports whether a simulation fails the work of a step. Seed 0 fails nothing.
func (e *Exploration) Fails(s *ir.Step, seed uint64) bool {
	home, _, ok := e.flow.home(s)
	return ok && seed > 0 && e.plans[seedIndex(seed)].fails[home]
}

// Explore plans ten simulations of a program. The plans follow from the places of the steps in the program, unless
// walks through it find branches that those miss: then it chooses among the plans of the walks. The same program always
// has the same plans.
func Explore(p *ir.Program, of Parts) *Exploration {
	f := newFlow(p)
	parts := map[*ir.Step]Part{}
	for s := range f.block {
		parts[s] = of(s)
	}
	known := func(s *ir.Step) Part { return parts[s] }
	e := &Exploration{flow: f}
	deciders, recoveries := f.deciders(known), f.recoveries(known, true)
	if len(deciders)+len(recoveries) == 0 {
		return e
	}
	for i := range e.plans {
		e.plans[i] = f.placed(uint64(i+1), deciders, f.recoveries(known, false))
	}
	search := &search{walker: &walker{f, parts}, deciders: deciders, recoveries: recoveries, tried: map[string]bool{}}
	search.improve(&e.plans)
	return e
}

// placed returns the plan of a seed that follows from the places of the steps. No seed fails more than one of several
// steps in a row.
func (f *flow) placed(seed uint64, deciders []decider, all []recovery) plan {
	out := plan{map[*ir.Step]Try{}, map[*ir.Step]bool{}}
	for _, d := range deciders {
		out.tries[d.step] = Try{First: seed / uint64(d.stride)}
		if repeatsValues(seed) && d.stride*d.values < Explored {
			out.tries[d.step] = Try{Hold: true} // a value of no option; see Probe
		}
	}
	for i, one := range all {
		before, after := 0, 0
		for j, other := range all {
			switch {
			case j < i && f.reaches(other.step, one.step):
				before++
			case j > i && f.reaches(one.step, other.step):
				after++
			}
		}
		for _, work := range one.work {
			period := f.period(work, deciders)
			cycle := max(before+after+2, Explored/period)
			at := cycle - 1 - before
			if cycle == Explored && before+after+3 <= cycle {
				at-- // the last of ten seeds repeats its values
			}
			if seed/uint64(period)%uint64(cycle) == uint64(at) {
				out.fails[work] = true
			}
		}
	}
	return out
}

// repeatsValues reports whether a simulation with the seed repeats its values in
// loops, so that a loop with a limit reaches it.
func repeatsValues(seed uint64) bool { return seed%Explored == Explored-1 }

// recovery is a step with ways on after a failure, and the work that fails it.
type recovery struct {
	step *ir.Step
	work []*ir.Step
}

// recoveries returns the steps whose failure leads to steps that no success leads to; with shared, also to steps that
// only their own success does not lead to.
func (f *flow) recoveries(of Parts, shared bool) []recovery {
	var out []recovery
	for b := range f.p.Blocks {
		for i := range f.p.Blocks[b].Steps {
			s := &f.p.Blocks[b].Steps[i]
			if s.Implied || !of(s).Reports && !f.recovers(ir.BlockID(b), s, shared) {
				continue
			}
			work, fails := f.work(s, of)
			if fails {
				out = append(out, recovery{s, work})
			}
		}
	}
	return out
}

// recovers reports whether a step has a way on for its failure alone.
func (f *flow) recovers(block ir.BlockID, s *ir.Step, shared bool) bool {
	if s.Fallback != nil {
		return !f.follows(block, s.Fallback.Name)
	}
	return slices.ContainsFunc(s.Next, func(e ir.Edge) bool {
		return e.To.Step != "" && slices.Contains(e.On, ir.Failed) && !slices.Contains(e.On, ir.OK) &&
			(shared && !leads(s, e.To.Step) || !f.follows(block, e.To.Step))
	})
}

// follows reports whether a step of a block is the next one after a success.
func (f *flow) follows(block ir.BlockID, id string) bool {
	return slices.ContainsFunc(f.p.Blocks[block].Steps, func(s ir.Step) bool { return leads(&s, id) })
}

// leads reports whether the success of a step leads to another one, whatever it decides.
func leads(s *ir.Step, id string) bool {
	return slices.ContainsFunc(s.Next, func(e ir.Edge) bool { return e.To.Step == id && slices.Contains(e.On, ir.OK) })
}

// work returns the steps whose work fails a step: the step itself, or the
// steps of its blocks that handle no failure. The work of a call is in another
// program.
func (f *flow) work(s *ir.Step, of Parts) (steps []*ir.Step, fails bool) {
	switch s.Action.(type) {
	case ir.Task:
		if of(s).Fails && !s.SkipOnError {
			return []*ir.Step{s}, true
		}
		return nil, false
	case ir.Call:
		return nil, true
	}
	for b := range s.Blocks() {
		inner := f.p.Blocks[b].Steps
		for i := range inner {
			if inner[i].Fallback != nil ||
				slices.ContainsFunc(inner[i].Next, func(e ir.Edge) bool { return slices.Contains(e.On, ir.Failed) }) {
				continue
			}
			if found, ok := f.work(&inner[i], of); ok {
				steps, fails = append(steps, found...), true
			}
		}
	}
	return steps, fails
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
	return visited(from, []*ir.Step{without}, func(s *ir.Step) (next []*ir.Step, found bool) {
		next, _ = f.next(s)
		for b := range s.Blocks() {
			if first := f.first(b); first != nil {
				next = append(next, first)
			}
		}
		return next, slices.Contains(next, to)
	})
}

// endsWithout reports whether a run can come from a step to its end without
// passing any of the others.
func (f *flow) endsWithout(from *ir.Step, others ...*ir.Step) bool {
	return visited(from, others, func(s *ir.Step) (next []*ir.Step, found bool) {
		next, ends := f.next(s)
		holder := f.holder[f.block[s]]
		if ends && holder != nil {
			next = append(next, holder)
		}
		return next, ends && holder == nil
	})
}

// visited reports whether a search from a step finds something. look returns the steps after one, and whether it is
// found there. The search does not pass the given steps.
func visited(from *ir.Step, closed []*ir.Step, look func(*ir.Step) (next []*ir.Step, found bool)) bool {
	seen := map[*ir.Step]bool{}
	for _, s := range closed {
		seen[s] = true
	}
	var visit func(s *ir.Step) bool
	visit = func(s *ir.Step) bool {
		if seen[s] {
			return false
		}
		seen[s] = true
		next, found := look(s)
		return found || slices.ContainsFunc(next, visit)
	}
	return visit(from)
}

// looksAt reports whether a condition reads what a step writes.
func looksAt(e *expr.Expr, s *ir.Step) bool {
	for _, p := range e.Paths() {
		if writes(s, join(p.Segments)) {
			return true
		}
	}
	return false
}
