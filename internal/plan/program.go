package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/espalier-run/espalier/internal/ir"
)

// Program is an ir.Program with indexes.
type Program struct {
	units map[string]*unit
	// Blobs reads values that are stored by hash. The value of a hash never changes, so deciding stays pure.
	Blobs func(hash string) (json.RawMessage, error)
	// CheckOutput validates a program's output against its contract; nil accepts all. origin describes where a part of
	// the output comes from, or returns "".
	CheckOutput func(p *ir.Program, output json.RawMessage, origin func(path string) string) error
	// CheckVariable validates a new value of a variable against what the program declares about it; nil accepts all.
	CheckVariable func(p *ir.Program, path string, value json.RawMessage) error
	// FillInput adds defaults to the input of a child and validates it against its contract; nil does
	// neither.
	FillInput func(p *ir.Program, input json.RawMessage) (json.RawMessage, error)
	// Instant reports whether a task neither waits nor acts outside of the run; nil accepts none.
	Instant func(t *ir.Task) bool
}

// unit is one program in the tree of programs: the root or a child.
type unit struct {
	ir    *ir.Program
	path  string                     // of the program; see childPath
	index []map[string]int           // per block: step id → position
	again []map[string]bool          // per block: steps that can be reached more than once
	meta  map[string]json.RawMessage // what expressions read as workflow.NAME
}

// Compile indexes a program and its children.
func Compile(p *ir.Program) *Program {
	p.Link()
	out := &Program{units: map[string]*unit{}}
	out.add(p, "")
	return out
}

// add indexes a program and its children. Each is known by its path: the numbers of the children on the way to it.
func (p *Program) add(program *ir.Program, path string) {
	u := &unit{ir: program, path: path, meta: map[string]json.RawMessage{}}
	for _, m := range program.Meta {
		u.meta[m.Name] = m.Value
	}
	for b := range program.Blocks {
		index := make(map[string]int, len(program.Blocks[b].Steps))
		for i := range program.Blocks[b].Steps {
			index[program.Blocks[b].Steps[i].ID] = i
		}
		u.index = append(u.index, index)
		u.again = append(u.again, revisitable(&program.Blocks[b], index))
	}
	p.units[path] = u
	for i := range program.Children {
		p.add(&program.Children[i], childPath(path, i))
	}
}

// childPath returns the path of a child.
func childPath(path string, child int) string {
	if path == "" {
		return strconv.Itoa(child)
	}
	return path + "." + strconv.Itoa(child)
}

// unit returns a program by its path. It panics if there is none: the journal belongs to another definition.
func (p *Program) unit(path string) *unit {
	u := p.units[path]
	if u == nil {
		panic(fmt.Sprintf("plan: the journal names program %q, which the pinned definition does not have", path))
	}
	return u
}

// step returns a step of a block; nil if there is none.
func (u *unit) step(block ir.BlockID, id string) *ir.Step {
	i, ok := u.index[block][id]
	if !ok {
		return nil
	}
	return &u.ir.Blocks[block].Steps[i]
}

// revisitable returns the steps that one frame may enter more than once: those on a cycle of edges. Only they have a
// visit number in their keys.
func revisitable(b *ir.Block, index map[string]int) map[string]bool {
	n := len(b.Steps)
	// Edges between the steps of the block, by position. Edges that leave the block cannot lead back.
	next := make([][]int, n)
	link := func(from int, id string) {
		if to, ok := index[id]; ok {
			next[from] = append(next[from], to)
		}
	}
	for i := range b.Steps {
		for _, e := range b.Steps[i].Next {
			link(i, e.To.Step)
		}
	}
	for i := range b.Steps {
		// A fallback returns to where its primary would have gone.
		onward := slices.Clone(next[i])
		seen := map[int]bool{i: true}
		at := i
		for b.Steps[at].Fallback != nil {
			to, ok := index[b.Steps[at].Fallback.Name]
			if !ok || seen[to] {
				break
			}
			seen[to] = true
			next[at] = append(next[at], to)
			next[to] = append(next[to], onward...)
			at = to
		}
	}
	again := map[string]bool{}
	for _, c := range ir.Components(next) {
		if c.Cyclic {
			for _, i := range c.Nodes {
				again[b.Steps[i].ID] = true
			}
		}
	}
	return again
}
