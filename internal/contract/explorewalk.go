package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
)

// Combinations returns how many combinations of values probes have.
func Combinations(probes []Probe) int {
	out := 1
	for _, p := range probes {
		out = min(out*max(len(p.Values), 1), maxCombinations)
	}
	return out
}

// maxCombinations bounds the combinations of values of one step.
const maxCombinations = 64

// Combination returns the n-th combination of values, by place.
func Combination(probes []Probe, n uint64) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for _, p := range probes {
		if values := uint64(len(p.Values)); values > 0 {
			out[p.At] = p.Values[n%values]
			n /= values
		}
	}
	return out
}

// Try is the combination of values that a simulation begins with at a step.
type Try struct {
	First uint64 `json:"first"`
	// Hold keeps the combination when a loop returns to the step, for up to HoldRounds rounds. Otherwise, each round
	// tries the next one.
	Hold bool `json:"hold,omitempty"`
}

// HoldRounds bounds how often a combination is repeated: loops without a limit must end, too.
const HoldRounds = 8

// at returns the number of the combination of a round.
func (t Try) at(round int) uint64 {
	if t.Hold && round < HoldRounds {
		return t.First
	}
	return t.First + uint64(round)
}

// FirstCombination returns the number of the combination that a seed tries in a round.
func (c *Contract) FirstCombination(seed uint64, round int) uint64 {
	if len(c.Tries) == 0 || seed == 0 {
		return Try{First: seed}.at(round)
	}
	return c.Tries[seedIndex(seed)].at(round)
}

// seedIndex returns the index of a seed among ten consecutive ones. Seed 1 has index 0.
func seedIndex(seed uint64) int { return int((seed - 1) % Explored) }

// plan is what one simulation tries.
type plan struct {
	tries map[*ir.Step]Try
	fails map[*ir.Step]bool // the steps that fail on their first visit
}

// walker follows simulations through a program without running it.
type walker struct {
	*flow
	parts map[*ir.Step]Part
}

// walk is one simulation.
type walk struct {
	*walker
	plan
	env  expr.Values
	took map[string]bool // steps that run, are skipped or fail, and edges
	left int             // how many more steps the walk visits
}

// maxWalked bounds the steps of one walk: cycles of jumps may have no limit of their own.
const maxWalked = 500

// walk returns what a simulation does: the steps that it runs, and the edges that it takes. What the walker does not
// know, such as the input of a run, makes conditions false.
func (w *walker) walk(p plan) map[string]bool {
	one := &walk{walker: w, plan: p, env: expr.Values{}, took: map[string]bool{}, left: maxWalked}
	for _, v := range w.p.Vars {
		if value, err := expr.Decode(v.Init); err == nil && len(v.Init) > 0 {
			one.env[v.Path] = value
		}
	}
	one.block(0, 0)
	return one.took
}

// ending is how a block ends.
type ending struct {
	failed, run, loop bool
	jump              string // to a step of an enclosing block
}

// block walks through a block. iteration is added to the number of visits of its steps, so that each iteration of a
// loop tries other values.
func (w *walk) block(b ir.BlockID, iteration int) ending {
	if len(w.p.Blocks[b].Steps) == 0 {
		return ending{}
	}
	visits, edges := map[*ir.Step]int{}, map[string]int{}
	for s := &w.p.Blocks[b].Steps[0]; w.left > 0; {
		w.left--
		outcome, inner := w.step(s, visits[s]+iteration)
		visits[s]++
		if inner.run {
			return inner
		}
		if s.Fallback != nil && (outcome == ir.Failed || outcome == ir.Skipped) {
			if other := w.p.Step(b, s.Fallback.Name); other != nil {
				outcome, inner = w.step(other, visits[other]+iteration)
				visits[other]++
				if slices.ContainsFunc(other.Next, func(e ir.Edge) bool { return !e.Sequential }) {
					s = other
				}
			}
		}
		to := ir.Target{Step: inner.jump}
		if inner.jump == "" {
			edge := w.edge(s, outcome, edges)
			if edge < 0 {
				return ending{failed: outcome == ir.Failed}
			}
			to = s.Next[edge].To
		}
		if to.Step == "" {
			return ending{failed: to.Exit == ir.ExitFail, loop: to.Exit == ir.ExitLoop}
		}
		next := w.p.Step(b, to.Step)
		if next == nil {
			return ending{jump: to.Step}
		}
		s = next
	}
	return ending{run: true}
}

// edge returns the index of the edge that is taken after a step, or -1.
func (w *walk) edge(s *ir.Step, outcome ir.Outcome, taken map[string]int) int {
	for i := range s.Next {
		e := &s.Next[i]
		name := fmt.Sprintf("%s %d", s.ID, i)
		if !slices.Contains(e.On, outcome) || e.Limit > 0 && taken[name] >= e.Limit || !w.evalCondition(e.When, true) {
			continue
		}
		taken[name]++
		w.took[name] = true
		return i
	}
	return -1
}

// evalCondition reports whether a condition is true. Without a condition, it returns otherwise.
func (w *walk) evalCondition(e *expr.Expr, otherwise bool) bool {
	if e == nil {
		return otherwise
	}
	is, err := e.Bool(w.env)
	return is && err == nil
}

// step returns how a step ends, and puts what it writes into the environment.
func (w *walk) step(s *ir.Step, round int) (ir.Outcome, ending) {
	if !w.evalCondition(s.When, true) {
		w.took[s.ID+" is skipped"] = true
		return ir.Skipped, ending{}
	}
	w.took[s.ID] = true
	outcome, inner := w.action(s, round)
	if outcome == ir.Failed {
		w.took[s.ID+" fails"] = true
	}
	if outcome == ir.Failed && s.SkipOnError {
		outcome = ir.Skipped
	}
	inner.run = inner.run || outcome == ir.OK && w.evalCondition(s.StopWhen, false)
	return outcome, inner
}

// action returns how the work of a step ends. Steps that the simulation varies nothing about succeed.
func (w *walk) action(s *ir.Step, round int) (ir.Outcome, ending) {
	switch a := s.Action.(type) {
	case ir.End:
		return ir.OK, ending{run: true}
	case ir.Parallel:
		return w.parallel(&a)
	case ir.Loop:
		return w.loop(&a)
	case ir.Gate:
		if a.Decider != ir.Work {
			return ir.OK, ending{}
		}
	case ir.Task:
	default:
		return ir.OK, ending{}
	}
	if w.fails[s] && round == 0 {
		return ir.Failed, ending{}
	}
	value, known := w.reply(s, round)
	if !known {
		return ir.OK, ending{}
	}
	if _, gate := s.Action.(ir.Gate); gate {
		return w.verdict(s, value), ending{}
	}
	return ir.OK, ending{}
}

// verdict returns how a gate ends, and adds the result to what the gate writes.
func (w *walk) verdict(s *ir.Step, reply any) ir.Outcome {
	object, _ := reply.(map[string]any)
	outcome, result := ir.OK, ir.GateApproved
	if object["approved"] == false {
		outcome, result = ir.Rejected, ir.GateRejected
		w.took[s.ID+" rejects"] = true
	}
	for _, write := range s.Writes {
		if written, ok := w.env[write.Path].(map[string]any); ok && write.Part == "" {
			written[ir.GateResultKey] = string(result)
		}
	}
	return outcome
}

// reply writes the simulated reply of a step to its variables. known is false if the simulation varies nothing there.
func (w *walk) reply(s *ir.Step, round int) (value any, known bool) {
	part := w.parts[s]
	if len(part.Probes) == 0 {
		for _, write := range s.Writes {
			delete(w.env, write.Path)
		}
		return nil, false
	}
	value = reply(Combination(part.Probes, w.tries[s].at(round)))
	for _, write := range s.Writes {
		at := split(write.Part)
		switch {
		case len(part.Within) == 0:
		case len(at) > 0 && !slices.Contains(part.Within, at[0]):
			continue
		case len(at) > 0:
			at = at[1:]
		default:
			result := map[string]any{}
			for _, key := range part.Within {
				result[key] = value
				if slices.Contains(part.Texts, key) {
					result[key] = plainText(value)
				}
			}
			w.env[write.Path] = result
			continue
		}
		if found, ok := expr.Descend(value, at); ok {
			w.env[write.Path] = found
		}
	}
	return value, true
}

// plainText returns a value as the text of a reply: a string without quotes, and anything else as JSON.
func plainText(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	return string(encode(v))
}

// parallel walks through the branches one after the other, because the walk has one environment.
func (w *walk) parallel(a *ir.Parallel) (ir.Outcome, ending) {
	failed := false
	branch := func(b ir.BlockID, index int) ending {
		end := w.block(b, index)
		failed = failed || end.failed && a.Join != ir.JoinAny && a.Join != ir.JoinBest
		return end
	}
	for i := range a.Branches {
		if !w.evalCondition(a.Branches[i].When, true) {
			continue
		}
		if end := branch(a.Branches[i].Block, 0); end.run {
			return ir.OK, end
		}
	}
	if a.Each != nil {
		for i, item := range w.items(a.Each) {
			w.env[a.Each.Var] = item
			if end := branch(a.Each.Block, i); end.run {
				return ir.OK, end
			}
		}
	}
	if failed {
		return ir.Failed, ending{}
	}
	return ir.OK, ending{}
}

// loop walks through the iterations of a loop.
func (w *walk) loop(a *ir.Loop) (ir.Outcome, ending) {
	rounds := HoldRounds
	if a.Max > 0 {
		rounds = a.Max
	}
	var items []any
	if a.Each != nil {
		items = w.items(a.Each)
		rounds = min(rounds, len(items))
	}
	for i := range rounds {
		if a.Each != nil {
			w.env[a.Each.Var] = items[i]
		}
		if !w.evalCondition(a.While, true) {
			return ir.OK, ending{}
		}
		end := w.block(a.Block, i)
		switch {
		case end.run, end.jump != "":
			return ir.OK, end
		case end.failed:
			return ir.Failed, ending{}
		case end.loop, w.evalCondition(a.BreakWhen, false):
			return ir.OK, ending{}
		}
	}
	if a.FailAtMax && a.Each == nil {
		return ir.Failed, ending{}
	}
	return ir.OK, ending{}
}

// items returns the items of a list; two of them if they are not known.
func (w *walk) items(e *ir.Each) []any {
	value, err := e.Items.Eval(w.env)
	if text, ok := value.(string); ok && err == nil {
		value, err = expr.Decode(json.RawMessage(text))
	}
	if list, ok := value.([]any); ok && err == nil {
		return list
	}
	return []any{nil, nil}
}

// reply returns a reply with the given values at their places. A list has one item.
func reply(at map[string]json.RawMessage) any {
	var whole any
	for _, place := range slices.Sorted(maps.Keys(at)) {
		if value, err := expr.Decode(at[place]); err == nil {
			whole = replaceAt(whole, split(place), value)
		}
	}
	return whole
}

// replaceAt returns a value with a part of it replaced.
func replaceAt(whole any, at []string, value any) any {
	if len(at) == 0 {
		return value
	}
	if at[0] == each {
		list, _ := whole.([]any)
		if len(list) == 0 {
			list = []any{nil}
		}
		list[0] = replaceAt(list[0], at[1:], value)
		return list
	}
	object, _ := whole.(map[string]any)
	if object == nil {
		object = map[string]any{}
	}
	object[at[0]] = replaceAt(object[at[0]], at[1:], value)
	return object
}

// key makes a plan comparable.
func (p plan) key(order []*ir.Step) string {
	var out strings.Builder
	for _, s := range order {
		fmt.Fprintf(&out, "%d %t %t,", p.tries[s].First, p.tries[s].Hold, p.fails[s])
	}
	return out.String()
}
