package graph

import (
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
)

// spot is one step of the drawn program. A block that is drawn twice has two scopes, and so different spots.
type spot struct {
	scope *scope
	at    int
}

func (s spot) step() *ir.Step { return &s.scope.steps[s.at] }
func (s spot) node() string   { return s.scope.nodes[s.at] }

// dataEdges adds an edge from each step whose value of a key may reach a reader of that key. The relevant key is
// the longest written one that is a prefix of the path that is read.
func (b *builder) dataEdges() {
	keys, before := b.writtenKeys(), b.predecessors()
	for _, s := range b.scopes {
		for i := range s.steps {
			for _, path := range allReads(&s.steps[i]) {
				key := writtenKey(keys, path)
				if key == "" {
					continue
				}
				for _, w := range writers(before, spot{s, i}, key) {
					b.edge(EdgeData, w.node(), s.nodes[i], clean(key))
				}
			}
		}
	}
}

// writtenKeys returns the keys that any step writes.
func (b *builder) writtenKeys() map[string]bool {
	keys := map[string]bool{}
	for _, s := range b.scopes {
		for i := range s.steps {
			for _, w := range s.steps[i].Writes {
				keys[w.Path] = true
			}
		}
	}
	return keys
}

// predecessors returns the steps from which an edge or a fallback leads to each step. The ends of blocks are not
// included: possiblePredecessors and writers cross them.
func (b *builder) predecessors() map[spot][]spot {
	before := map[spot][]spot{}
	add := func(from, to spot) { before[to] = append(before[to], from) }
	for _, s := range b.scopes {
		for i := range s.steps {
			st := &s.steps[i]
			for _, e := range st.Next {
				if to, ok := s.target(e.To.Step); ok {
					add(spot{s, i}, to)
				}
			}
			if st.Fallback == nil {
				continue
			}
			fallback, ok := s.byID[st.Fallback.Name]
			if !ok {
				continue
			}
			add(spot{s, i}, spot{s, fallback})
			for _, e := range st.Next { // the fallback has the same successors
				if next, ok := s.byID[e.To.Step]; ok {
					add(spot{s, fallback}, spot{s, next})
				}
			}
		}
	}
	return before
}

// target returns the step of this or an enclosing block that an edge leads to.
func (s *scope) target(id string) (spot, bool) {
	for in := s; in != nil; in = in.parent {
		if t, ok := in.byID[id]; ok {
			return spot{in, t}, true
		}
	}
	return spot{}, false
}

// allReads returns the declared reads of a step and the variables in its condition.
func allReads(st *ir.Step) []string {
	var all []string
	add := func(path string) {
		if path != "" && !slices.Contains(all, path) {
			all = append(all, path)
		}
	}
	for _, r := range st.Reads {
		add(r.Path)
	}
	if st.When != nil {
		for _, p := range st.When.Paths() {
			add(strings.Join(p.Segments, "."))
		}
	}
	return all
}

// writtenKey returns the longest written key that is path or a parent of it.
func writtenKey(keys map[string]bool, path string) string {
	for key := path; ; {
		if keys[key] {
			return key
		}
		dot := strings.LastIndexByte(key, '.')
		if dot < 0 {
			return ""
		}
		key = key[:dot]
	}
}

// writers returns the steps whose write of key may reach a reader. It walks backward, and past a writer only if that
// step may not have run: whatever is before a writer that always runs has been overwritten. A group that it passes may
// contain writers, too, so it looks at all steps inside.
func writers(before map[spot][]spot, reader spot, key string) []spot {
	var found []spot
	seen := map[spot]bool{reader: true}
	queue := possiblePredecessors(before, reader)
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		if seen[s] {
			continue
		}
		seen[s] = true
		st := s.step()
		if slices.ContainsFunc(st.Writes, func(w ir.Write) bool { return w.Path == key }) {
			found = append(found, s)
			if st.When == nil && st.Fallback == nil && !st.SkipOnError {
				continue
			}
		}
		for _, inner := range s.scope.inner[s.at] {
			for i := range inner.steps {
				queue = append(queue, spot{inner, i})
			}
		}
		queue = append(queue, possiblePredecessors(before, s)...)
	}
	slices.SortFunc(found, func(a, b spot) int { return strings.Compare(a.node(), b.node()) })
	return found
}

// possiblePredecessors returns the possible predecessors of a step. For the first step of a block, these include the
// predecessors of the step that contains the block.
func possiblePredecessors(before map[spot][]spot, s spot) []spot {
	all := slices.Clone(before[s])
	if s.at == 0 && s.scope.outer != nil {
		all = append(all, possiblePredecessors(before, spot{s.scope.outer, s.scope.at})...)
	}
	return all
}
