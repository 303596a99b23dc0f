package graph

import (
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
)

// spot is one step in the drawn program.
type spot struct {
	scope *scope
	at    int
}

func (s spot) step() *ir.Step { return &s.scope.steps[s.at] }
func (s spot) node() string   { return s.scope.nodes[s.at] }

// dataEdges adds an edge from each step whose value of a key may reach a
// reader of that key. F9: the key that counts is the longest written one that
// is a prefix of what is read.
func (b *builder) dataEdges() {
	keys := map[string]bool{}
	before := map[spot][]spot{}
	for _, s := range b.scopes {
		for i := range s.steps {
			from := spot{s, i}
			for _, w := range s.steps[i].Writes {
				keys[w.Path] = true
			}
			for _, e := range s.steps[i].Next {
				for in := s; in != nil; in = in.parent {
					if t, ok := in.byID[e.To.Step]; ok {
						before[spot{in, t}] = append(before[spot{in, t}], from)
						break
					}
				}
			}
			if f := s.steps[i].Fallback; f != nil {
				if t, ok := s.byID[f.Name]; ok {
					before[spot{s, t}] = append(before[spot{s, t}], from)
					for _, e := range s.steps[i].Next {
						if next, ok := s.byID[e.To.Step]; ok { // the stand-in is followed by the same
							before[spot{s, next}] = append(before[spot{s, next}], spot{s, t})
						}
					}
				}
			}
		}
	}
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

// allReads is what a step reads: what it says, and what its conditions mention.
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

// writtenKey is the longest written key that is path or a parent of it.
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

// writers walks back from a reader to the steps whose write of key may still
// be there: past a writer only when that one may not have run.
func writers(before map[spot][]spot, reader spot, key string) []spot {
	var found []spot
	seen := map[spot]bool{reader: true}
	queue := comeFrom(before, reader)
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
		queue = append(queue, comeFrom(before, s)...)
	}
	slices.SortFunc(found, func(a, b spot) int { return strings.Compare(a.node(), b.node()) })
	return found
}

// comeFrom is where a run may have been just before a step: for the first
// step of a block that is what comes before the block.
func comeFrom(before map[spot][]spot, s spot) []spot {
	all := slices.Clone(before[s])
	if s.at == 0 && s.scope.outer != nil {
		all = append(all, comeFrom(before, spot{s.scope.outer, s.scope.at})...)
	}
	return all
}
