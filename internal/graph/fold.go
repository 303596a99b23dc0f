package graph

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
)

// The limits of a picture. What exceeds them is folded, so that the size of a picture, and the time to draw it, do not
// grow with the program.
const (
	maxSteps    = 300 // drawn one by one, including those inside groups; counted by cost
	maxBranches = 20  // of a group that is drawn open
	foldTail    = 10  // steps after the folded ones
)

// foldRange returns which steps of a block are folded into one node: none if there is room for all, otherwise all but
// the first and the last few. It takes the room of the steps that it leaves. from and to are len(steps) if none is
// folded.
func (b *builder) foldRange(steps []ir.Step) (from, to int) {
	total := 0
	for i := range steps {
		total += cost(&steps[i])
	}
	if total <= b.room {
		b.room -= total
		return len(steps), len(steps)
	}
	to = max(len(steps)-foldTail, 0)
	for b.room -= foldTail; from < to-1 && b.room >= cost(&steps[from]); from++ {
		b.room -= cost(&steps[from])
	}
	b.room = 0
	return from, to
}

// cost returns how much of a picture's room a step takes: lines need as much as boxes.
func cost(st *ir.Step) int { return max(1, len(st.Next)) }

// foldSteps adds the node for a range of steps of a block.
func (b *builder) foldSteps(s *scope, from, to int) string {
	id := b.id("fold-" + s.path + s.steps[from].ID)
	b.folds[id] = map[string]string{}
	n := Node{
		ID: id, Kind: NodeFolded, Tone: ToneNeutral, Icon: IconNested, Group: s.group, Lane: s.lane,
		Title: grouped(to-from) + " steps",
		Text:  clean(s.steps[from].ID) + " … " + clean(s.steps[to-1].ID),
	}
	for i := from; i < to; i++ {
		n.folded = append(n.folded, s.path+s.steps[i].ID)
	}
	b.add(n)
	return id
}

// isClosed reports whether a group is drawn as one node: it has many branches, it does not fit, or the options request
// it.
func (b *builder) isClosed(st *ir.Step, path string) bool {
	switch a := st.Action.(type) {
	case ir.Parallel:
		if len(a.Branches) > maxBranches {
			return true
		}
	case ir.Loop:
	default:
		return false
	}
	return b.closed[path] || b.countInside(st, b.room) > b.room
}

// countInside returns the cost of the steps inside a group, or a number above limit. It stops counting there, so that
// its time does not depend on the size of the program. A block that contains itself counts once.
func (b *builder) countInside(st *ir.Step, limit int) int {
	n := 0
	for id := range st.Blocks() {
		if int(id) < 0 || int(id) >= len(b.program.Blocks) || b.open[id] {
			continue
		}
		steps := b.program.Blocks[id].Steps
		b.open[id] = true
		for i := range steps {
			if n > limit {
				break
			}
			n += cost(&steps[i]) + b.countInside(&steps[i], limit-n)
		}
		delete(b.open, id)
	}
	return n
}

// foldedGroup returns the node of a group that is drawn closed.
func foldedGroup(n Node, st *ir.Step) Node {
	n.Kind = NodeFolded
	switch a := st.Action.(type) {
	case ir.Parallel:
		n.Detail = clean(a.Name)
		if a.Each != nil {
			n.Notes = []Note{eachNote(a.Each)}
		} else {
			n.Notes = []Note{{NoteCheck, grouped(len(a.Branches)) + " branches"}}
		}
	case ir.Loop:
		n.Notes = loopNotes(a)
	}
	n.Notes = append(n.Notes, stepNotes(st)...)
	return n
}

// grouped formats a number with commas between thousands.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	var out strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, "%c", d)
	}
	return out.String()
}
