package contract

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
)

// A simulation that fails a step does not take the ways on that its success leads to. Which seed loses nothing by it
// depends on where each seed goes, so walker follows the seeds through the program before they run.

// Combinations returns how many combinations of values probes have.
func Combinations(probes []Probe) int {
	out := 1
	for _, p := range probes {
		out = min(out*max(len(p.Values), 1), mostCombinations)
	}
	return out
}

const mostCombinations = 64

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

// FirstCombination returns the number of the combination that a seed tries in a round.
func FirstCombination(probes []Probe, seed uint64, stride, round int) uint64 {
	stride = max(stride, 1)
	if Stubborn(seed) && round < StubbornRounds && stride*Combinations(probes) < Explored {
		return 0 // of no option; see Probe
	}
	return seed/uint64(stride) + uint64(round)
}

// walker follows simulations through a program of one block.
type walker struct {
	*flow
	probes map[*ir.Step][]Probe
	stride map[*ir.Step]int
}

func (f *flow) walker(deciders []decider, of Parts) *walker {
	w := &walker{flow: f, probes: map[*ir.Step][]Probe{}, stride: map[*ir.Step]int{}}
	for _, d := range deciders {
		w.probes[d.step], w.stride[d.step] = of(d.step).Probes, d.stride
	}
	return w
}

// mostWalked bounds a walk.
const mostWalked = 500

// walk returns the steps that a simulation runs and the ways on that it takes. fails is the step whose first visit
// fails, or nil. ok is false if the program does more than the walker knows.
func (w *walker) walk(seed uint64, fails *ir.Step) (took map[string]bool, ok bool) {
	took = map[string]bool{}
	env := expr.Values{}
	for _, v := range w.p.Vars {
		if value, err := expr.Decode(v.Init); err == nil && len(v.Init) > 0 {
			env[v.Path] = value
		}
	}
	visits, edges := map[*ir.Step]int{}, map[string]int{}
	if len(w.p.Blocks) != 1 || len(w.p.Blocks[0].Steps) == 0 {
		return nil, false
	}
	s := &w.p.Blocks[0].Steps[0]
	for range mostWalked {
		outcome, ok := w.outcome(s, seed, visits[s], fails, env)
		if !ok {
			return nil, false
		}
		took[s.ID] = true
		visits[s]++
		next := -1
		for i, e := range s.Next {
			if !slices.Contains(e.On, outcome) || e.Limit > 0 && edges[edgeName(s, i)] >= e.Limit {
				continue
			}
			if e.When != nil {
				holds, err := e.When.Bool(env)
				if err != nil {
					return nil, false
				}
				if !holds {
					continue
				}
			}
			next = i
			break
		}
		if next < 0 {
			return took, true
		}
		edges[edgeName(s, next)]++
		took[edgeName(s, next)] = true
		if s = w.p.Step(0, s.Next[next].To.Step); s == nil {
			return took, true
		}
	}
	return took, true
}

func edgeName(s *ir.Step, i int) string { return fmt.Sprintf("%s %d", s.ID, i) }

// outcome returns how a step ends, and puts what it writes into env.
func (w *walker) outcome(s *ir.Step, seed uint64, visit int, fails *ir.Step, env expr.Values) (ir.Outcome, bool) {
	if s.When != nil || s.Fallback != nil {
		return "", false
	}
	gate, isGate := s.Action.(ir.Gate)
	switch s.Action.(type) {
	case ir.Route, ir.End:
		return ir.OK, true
	case ir.Task, ir.Gate:
	default:
		return "", false
	}
	if isGate && gate.Decider != ir.Work {
		return ir.OK, true
	}
	if s == fails && visit == 0 {
		return ir.Failed, true
	}
	probes := w.probes[s]
	if len(probes) == 0 {
		return ir.OK, true
	}
	chosen := Combination(probes, FirstCombination(probes, seed, w.stride[s], visit))
	value := reply(chosen)
	for _, write := range s.Writes {
		env[write.Path] = value
	}
	if object, _ := value.(map[string]any); isGate && object["approved"] == false {
		return ir.Rejected, true
	}
	return ir.OK, true
}

// reply returns a reply with the given values at their places.
func reply(at map[string]json.RawMessage) any {
	var whole any = map[string]any{}
	for _, place := range slices.Sorted(maps.Keys(at)) {
		value, err := expr.Decode(at[place])
		if err != nil {
			continue
		}
		if place == "" {
			whole = value
			continue
		}
		object, _ := whole.(map[string]any)
		path := strings.Split(place, ".")
		for _, name := range path[:len(path)-1] {
			inner, _ := object[name].(map[string]any)
			if inner == nil && object != nil {
				inner = map[string]any{}
				object[name] = inner
			}
			object = inner
		}
		if object != nil {
			object[path[len(path)-1]] = value
		}
	}
	return whole
}

// failing returns which step each of ten seeds fails. It begins with the steps that few seeds run, and chooses for each
// the last seed that runs it and whose other ways on some other seed takes. ok is false if there is no such choice for
// all recoveries.
func (w *walker) failing(all []recovery) (by map[uint64]*ir.Step, ok bool) {
	by = map[uint64]*ir.Step{}
	seeds := make([]uint64, 0, Explored)
	for seed := uint64(Explored); seed > 0; seed-- {
		seeds = append(seeds, seed)
	}
	took := map[uint64]map[string]bool{}
	for _, seed := range seeds {
		if took[seed], ok = w.walk(seed, nil); !ok {
			return nil, false
		}
	}
	runs := func(r recovery) int {
		n := 0
		for _, keys := range took {
			if keys[r.step.ID] {
				n++
			}
		}
		return n
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b recovery) int { return cmp.Compare(runs(a), runs(b)) })
	for _, one := range all {
		if len(one.work) != 1 || one.work[0] != one.step {
			return nil, false
		}
		found := false
		for _, seed := range seeds {
			if by[seed] != nil || !took[seed][one.step.ID] {
				continue
			}
			failed, ok := w.walk(seed, one.step)
			if !ok || w.loses(took, seed, failed) {
				continue
			}
			by[seed], took[seed], found = one.step, failed, true
			break
		}
		if !found {
			return nil, false
		}
	}
	return by, true
}

// loses reports whether a seed is the only one that takes a way on, and no longer does after a failure.
func (w *walker) loses(took map[uint64]map[string]bool, seed uint64, failed map[string]bool) bool {
	for key := range took[seed] {
		elsewhere := failed[key]
		for other, keys := range took {
			elsewhere = elsewhere || other != seed && keys[key]
		}
		if !elsewhere {
			return true
		}
	}
	return false
}
