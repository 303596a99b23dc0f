package contract

import (
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/xslices"
)

// search looks for plans that take branches which others miss: it walks the plans that follow from places, then random
// ones, then variations of those that took something new.
type search struct {
	*walker
	deciders   []decider
	recoveries []recovery
	tried      map[string]bool // plans
	pool       []walked
	steps      int // that all walks have visited
}

// walked is a plan and what it takes.
type walked struct {
	plan
	took map[string]bool
}

// The limits of a search, in plans and in visited steps. They bound the time for large programs.
const (
	maxPlans    = 1500
	maxVisited  = 30_000
	randomPlans = 150
)

// improve replaces the plans if a search finds branches that they miss and a choice of plans that takes more.
func (s *search) improve(plans *[Explored]plan) {
	for _, p := range plans {
		s.add(p)
	}
	placed := slices.Clone(s.pool)
	r := rand.New(rand.NewPCG(1, 2)) // the same plans for the same program
	for range randomPlans {
		s.add(s.random(r))
	}
	for i := 0; i < len(s.pool) && s.withinLimits(); i++ {
		s.tryNeighbors(s.pool[i])
	}
	chosen := s.choose()
	if len(union(chosen)) <= len(union(placed)) {
		return
	}
	for i := range plans {
		if i < len(chosen) {
			plans[i] = chosen[i].plan
		}
	}
}

// withinLimits reports whether the limits allow another walk.
func (s *search) withinLimits() bool { return len(s.tried) < maxPlans && s.steps < maxVisited }

// add walks a plan and keeps it. It reports whether the plan takes a branch that no other one takes.
func (s *search) add(p plan) bool {
	order := xslices.Map(s.deciders, func(d decider) *ir.Step { return d.step })
	for _, one := range s.recoveries {
		order = append(order, one.work...)
	}
	if key := p.key(order); s.tried[key] || !s.withinLimits() {
		return false
	} else {
		s.tried[key] = true
	}
	known := union(s.pool)
	took := s.walk(p)
	s.steps += len(took)
	s.pool = append(s.pool, walked{p, took})
	for key := range took {
		if !known[key] {
			return true
		}
	}
	return false
}

// random returns a plan that chooses everything by chance.
func (s *search) random(r *rand.Rand) plan {
	p := plan{map[*ir.Step]Try{}, map[*ir.Step]bool{}}
	for _, d := range s.deciders {
		p.tries[d.step] = Try{First: r.Uint64N(uint64(d.values)), Hold: r.IntN(2) == 0}
	}
	for _, one := range s.recoveries {
		if r.IntN(4) == 0 {
			s.fail(p, one)
		}
	}
	return p
}

// fail lets the work of a step fail in a plan.
func (s *search) fail(p plan, one recovery) {
	for _, work := range one.work {
		p.fails[work] = true
	}
}

// tryNeighbors tries a plan with one change: another value or a failure of a step that it runs.
func (s *search) tryNeighbors(from walked) {
	for _, d := range s.deciders {
		if !from.took[d.step.ID] {
			continue
		}
		for n := range min(d.values, maxCombinations) {
			for _, hold := range []bool{false, true} {
				p := plan{maps.Clone(from.tries), from.fails}
				p.tries[d.step] = Try{First: uint64(n), Hold: hold}
				s.addIfNew(p)
			}
		}
	}
	for _, one := range s.recoveries {
		p := plan{from.tries, maps.Clone(from.fails)}
		s.fail(p, one)
		s.addIfNew(p)
	}
}

// addIfNew adds a plan only if it takes a branch that no other one takes.
func (s *search) addIfNew(p plan) {
	if before := len(s.pool); !s.add(p) && len(s.pool) > before {
		s.pool = s.pool[:before]
	}
}

// choose returns up to ten plans that together take most branches, beginning with the one that takes most. It is the
// greedy algorithm for covering sets.
func (s *search) choose() []walked {
	var out []walked
	have := map[string]bool{}
	for len(out) < Explored {
		best, gain := -1, -1
		for i := range s.pool {
			more := 0
			for key := range s.pool[i].took {
				if !have[key] {
					more++
				}
			}
			if more > gain {
				best, gain = i, more
			}
		}
		if best < 0 || gain == 0 {
			break
		}
		out = append(out, s.pool[best])
		maps.Copy(have, s.pool[best].took)
	}
	return out
}

// union returns what any of some walks takes.
func union(all []walked) map[string]bool {
	out := map[string]bool{}
	for _, one := range all {
		maps.Copy(out, one.took)
	}
	return out
}
