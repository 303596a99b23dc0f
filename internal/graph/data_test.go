package graph

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/ir"
)

// crossedTexts returns the texts that a data line crosses: labels of data lines, labels of other edges, and the text of
// frames. Other text is on cards, which cover the lines.
func crossedTexts(g *Graph, p *picture, r *ruler) []string {
	type area struct {
		rect
		text string
		edge int
	}
	var texts []area
	for _, route := range p.routes {
		if route.text != "" {
			texts = append(texts, area{route.label.grow(-2), route.text, route.edge})
		}
	}
	for i := range g.Groups {
		box := p.boxes[g.Groups[i].ID]
		for _, t := range p.cards[g.Groups[i].ID].texts {
			w := r.width(t.cut, t.size, t.text)
			texts = append(texts, area{rect{box.x + t.x, box.y + t.y - 0.75*t.size, w, t.size}, t.text, -1})
		}
	}
	for _, l := range p.lanes {
		w := r.width(bold, labelSize, l.text)
		texts = append(texts, area{rect{l.frame.x + 10, l.frame.y + 7, w, labelSize}, l.text, -1})
	}
	var crossed []string
	for _, route := range p.routes {
		e := &g.Edges[route.edge]
		if e.Kind != EdgeData {
			continue
		}
		for i := 1; i < len(route.points); i++ {
			a, b := route.points[i-1], route.points[i]
			line := rect{min(a.x, b.x), min(a.y, b.y), max(a.x, b.x) - min(a.x, b.x), max(a.y, b.y) - min(a.y, b.y)}
			for _, t := range texts {
				onLane := t.edge >= 0 && g.Edges[t.edge].Kind == EdgeData && line.w == 0 && a.x == t.center().x
				if !onLane && overlap(line, t.rect, 0) {
					crossed = append(crossed, e.ID+" crosses "+t.text)
				}
			}
		}
	}
	return crossed
}

// dataHeavy has frames, named lanes and many keys.
func dataHeavy() *ir.Program {
	f := newFlow("data", "")
	two := func(name string) ir.BlockID {
		a, b := step("a", "tool", "", work("tool", "x")), step("b", "tool", "", work("tool", "x"))
		a.Reads, a.Writes, b.Reads = reads("state.request"), writes("state."+name), reads("state.request")
		a.Next = []ir.Edge{{On: []ir.Outcome{ir.OK}, To: ir.Target{Step: "b"}}}
		return f.program.AddBlock(ir.Block{Steps: []ir.Step{a, b}})
	}
	s := f.add(step("first", "transform", "", work("transform", "")))
	s.Writes = writes("state.request", "state.vendor", "state.registration", "state.other_key")
	s = f.add(step("all", "parallel", "Three specialists read the contract at the same time.",
		ir.Parallel{Branches: []ir.Branch{
			{Name: "branch on the left", Block: two("left")}, {Name: "branch on the right", Block: two("right")},
		}}))
	s.Reads, s.Writes = reads("state.request", "state.vendor"), writes("state.findings")
	workers := f.bundle("pack")
	for _, id := range []string{"one", "two", "three"} {
		w := step(id, "worker", "Reads.", work("agent", "x"))
		w.Reads = reads("state.request", "state.vendor")
		workers.Branches = append(workers.Branches,
			ir.Branch{Name: id, Block: f.program.AddBlock(ir.Block{Steps: []ir.Step{w}})})
	}
	f.add(step("readers", "parallel", "Three specialists read the contract at the same time.", workers))
	for _, id := range []string{"u", "v", "w"} {
		s = f.add(step(id, "tool", "Uses a lot.", work("tool", "x")))
		s.Reads = reads("state.request", "state.vendor", "state.registration", "state.other_key", "state.findings")
		s.Writes = writes("state." + id)
	}
	return f.done()
}

func TestDataLinesDoNotCrossText(t *testing.T) {
	r, err := newRuler()
	if err != nil {
		t.Fatal(err)
	}
	programs := samples()
	programs["data"] = dataHeavy()
	delete(programs, "hostile") // its names are nonsense, and every step reads every key
	for name, program := range programs {
		g := Build(program, Options{Data: true})
		p, err := arrange(g, &large)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range crossedTexts(g, p, r) {
			t.Errorf("%s: %s", name, w)
		}
	}
}

func TestLabelsOfDataLinesAreNeverCrossed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := Build(anyProgram(t), Options{Data: true})
		p, err := arrange(g, &large)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range p.routes {
			for _, o := range p.routes {
				if r.text == "" || g.Edges[r.edge].Kind != EdgeData || g.Edges[o.edge].Kind != EdgeData {
					continue
				}
				for i := 1; i < len(o.points); i++ {
					a, b := o.points[i-1], o.points[i]
					if line := (rect{min(a.x, b.x), a.y, max(a.x, b.x) - min(a.x, b.x), 0}); a.y == b.y &&
						overlap(line, r.label.grow(-2), 0) {
						t.Errorf("%s crosses the label %q", g.Edges[o.edge].ID, r.text)
					}
				}
			}
		}
	})
}
