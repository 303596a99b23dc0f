package graph

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/ir"
)

// checkPicture returns the violations of the properties that every picture must have.
func checkPicture(g *Graph, p *picture) []string {
	var wrong []string
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	o := g.outline()
	parent := func(id string) string {
		if n := o.nodes[id]; n != nil {
			return n.Group
		}
		return o.groups[id].Group
	}
	within := func(id, group string) bool {
		for at := id; at != ""; at = parent(at) {
			if at == group {
				return true
			}
		}
		return false
	}
	ids := func(yield func(string) bool) {
		for i := range g.Nodes {
			if !yield(g.Nodes[i].ID) {
				return
			}
		}
		for i := range g.Groups {
			if !yield(g.Groups[i].ID) {
				return
			}
		}
	}
	page := rect{0, 0, p.w, p.h}
	produced := map[string]int{}
	for i := range g.Edges {
		if g.Edges[i].Kind == EdgeProduces {
			produced[g.Edges[i].From]++
		}
	}
	for id := range ids {
		box, placed := p.boxes[id]
		if !placed {
			if n := o.nodes[id]; n == nil || n.Kind != NodeArtifact {
				fail("%s has no place", id)
			}
			continue
		}
		if !holds(page, box) {
			fail("%s lies outside the page", id)
		}
		if group := parent(id); group != "" && !holds(p.boxes[group], box) {
			fail("%s lies outside its frame %s", id, group)
		}
		for other := range ids {
			if b, ok := p.boxes[other]; ok && id < other && !within(id, other) && !within(other, id) &&
				overlap(box, b, 1) {
				fail("%s lies on %s", id, other)
			}
		}
	}
	routed := map[int]bool{}
	for _, r := range p.routes {
		e := &g.Edges[r.edge]
		routed[r.edge] = true
		first, last := r.points[0], r.points[len(r.points)-1]
		if !touches(p.boxes[e.From], first) {
			fail("%s does not begin at its step: %v %v", e.ID, r.points, p.boxes[e.From])
		}
		if !touches(p.boxes[e.To], last) {
			fail("%s does not end at its step: %v %v", e.ID, r.points, p.boxes[e.To])
		}
		for i := 1; i < len(r.points); i++ {
			a, b := r.points[i-1], r.points[i]
			if math.Abs(a.x-b.x) > 0.01 && math.Abs(a.y-b.y) > 0.01 {
				fail("%s runs at a slant", e.ID)
			}
			line := rect{min(a.x, b.x), min(a.y, b.y), math.Abs(a.x - b.x), math.Abs(a.y - b.y)}
			if !holds(page, line) {
				fail("%s leaves the page", e.ID)
			}
			if e.Kind == EdgeData {
				continue // may pass below other elements
			}
			for id := range ids {
				if box, ok := p.boxes[id]; ok && !within(e.From, id) && !within(e.To, id) && overlap(line, box, 2) {
					fail("%s runs through %s", e.ID, id)
				}
			}
		}
		if r.text == "" || e.Kind == EdgeData {
			continue
		}
		if !holds(page, r.label) {
			fail("the label of %s leaves the page", e.ID)
		}
		for id := range ids {
			if box, ok := p.boxes[id]; ok && !within(e.From, id) && overlap(r.label, box, 1) {
				fail("the label of %s lies on %s", e.ID, id)
			}
		}
		for _, q := range p.routes {
			if q.edge < r.edge && q.text != "" && g.Edges[q.edge].Kind != EdgeData && overlap(r.label, q.label, 1) {
				fail("the labels of %s and %s lie on each other", e.ID, g.Edges[q.edge].ID)
			}
		}
	}
	for i := range g.Edges {
		if e := &g.Edges[i]; !routed[i] && (e.Kind != EdgeProduces || produced[e.From] <= maxArtifacts) {
			fail("%s is not drawn", e.ID)
		}
	}
	return wrong
}

func holds(outer, inner rect) bool {
	const slack = 0.6
	return inner.x >= outer.x-slack && inner.y >= outer.y-slack && inner.right() <= outer.right()+slack &&
		inner.bottom() <= outer.bottom()+slack
}

// overlap reports whether two rectangles share more than a margin of d.
func overlap(a, b rect, d float64) bool {
	return a.x < b.right()-d && b.x+d < a.right()+0.01 && a.y < b.bottom()-d && b.y+d < a.bottom()+0.01
}

func touches(box rect, p point) bool {
	const slack = 0.6
	return holds(box, rect{p.x, p.y, 0, 0}) &&
		(math.Abs(p.x-box.x) < slack || math.Abs(p.x-box.right()) < slack || math.Abs(p.y-box.y) < slack ||
			math.Abs(p.y-box.bottom()) < slack)
}

func TestLayoutOfSamplesIsValid(t *testing.T) {
	for name, program := range samples() {
		for _, data := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/data=%v", name, data), func(t *testing.T) {
				g := Build(program, Options{Data: data})
				p, err := arrange(g, &large)
				if err != nil {
					t.Fatal(err)
				}
				for _, w := range checkPicture(g, p) {
					t.Error(w)
				}
			})
		}
	}
}

// anyProgram draws programs of every shape, sensible or not.
func anyProgram(t *rapid.T) *ir.Program {
	p := &ir.Program{Name: "any"}
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}
	outcomes := []ir.Outcome{ir.OK, ir.Failed, ir.Skipped, ir.Rejected}
	var block func(depth int) ir.Block
	block = func(depth int) ir.Block {
		n := rapid.IntRange(1, len(names)).Draw(t, "steps")
		if depth > 0 {
			n = rapid.IntRange(0, 4).Draw(t, "inner steps")
		}
		var b ir.Block
		for i := range n {
			s := ir.Step{
				ID: names[i], Type: "step",
				Description: rapid.SampledFrom(
					[]string{"", "Short.", "Rather a long description of what this does, over several lines."}).Draw(
					t, "text"),
			}
			s.Action = rapid.SampledFrom([]ir.Action{
				work("agent", "writer"), work("tool", "x"),
				ir.Route{},
				ir.Gate{Decider: ir.Person},
				ir.Gate{Decider: ir.Event, Event: "e"},
				ir.End{},
			}).Draw(t, "action")
			if depth < 2 {
				switch rapid.IntRange(0, 11).Draw(t, "nested") {
				case 0:
					var branches []ir.Branch
					for k := range rapid.IntRange(0, 6).Draw(t, "branches") {
						inner := block(depth + 1)
						p.Blocks = append(p.Blocks, inner)
						branches = append(branches, ir.Branch{
							Name:  fmt.Sprint("branch ", k),
							Block: ir.BlockID(len(p.Blocks)),
						})
					}
					s.Action = ir.Parallel{Branches: branches, Join: ir.JoinAny}
				case 1:
					inner := block(depth + 1)
					p.Blocks = append(p.Blocks, inner)
					s.Action = ir.Loop{Block: ir.BlockID(len(p.Blocks)), Max: 3}
				}
			}
			if i+1 < n && rapid.IntRange(0, 5).Draw(t, "sequential") > 0 {
				s.Next = append(s.Next, ir.Edge{
					On: []ir.Outcome{ir.OK, ir.Skipped}, To: ir.Target{Step: names[i+1]},
					Sequential: true,
				})
			}
			for range rapid.IntRange(0, 2).Draw(t, "jumps") {
				e := ir.Edge{
					On:    []ir.Outcome{rapid.SampledFrom(outcomes).Draw(t, "on")},
					Label: rapid.SampledFrom([]string{"", "yes", "a longer label"}).Draw(t, "label"),
				}
				e.To.Step = rapid.SampledFrom(names).Draw(t, "to")
				if rapid.IntRange(0, 5).Draw(t, "exit") == 0 {
					e.To = ir.Target{Exit: rapid.SampledFrom([]ir.Exit{ir.ExitBlock, ir.ExitFail, ir.ExitLoop}).Draw(
						t, "how")}
				}
				s.Next = append([]ir.Edge{e}, s.Next...)
			}
			if rapid.IntRange(0, 4).Draw(t, "fallback") == 0 {
				s.Fallback = &ir.Name{Name: rapid.SampledFrom(names).Draw(t, "stand-in")}
			}
			for k := range rapid.SampledFrom([]int{0, 0, 0, 1, 3, 11}).Draw(t, "files") {
				s.Produces = append(s.Produces, ir.Name{Name: fmt.Sprint("file", k, ".md")})
			}
			key := func() string {
				return rapid.SampledFrom([]string{"state.x", "state.y", "state.y.z"}).Draw(t,
					"key")
			}
			s.Reads, s.Writes = reads(key()), writes(key())
			b.Steps = append(b.Steps, s)
		}
		return b
	}
	body := block(0)
	p.Blocks = append([]ir.Block{body}, p.Blocks...)
	return p
}

func TestLayoutOfAnyProgramIsValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := Build(anyProgram(t), Options{Data: rapid.Bool().Draw(t, "data")})
		p, err := arrange(g, &large)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range checkPicture(g, p) {
			t.Error(w)
		}
	})
}

func TestLayoutIsDeterministic(t *testing.T) {
	for name, program := range samples() {
		var first []byte
		for range 5 {
			var out bytes.Buffer
			if err := Build(program, Options{Data: true}).SVG(&out); err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = out.Bytes()
			} else if !bytes.Equal(first, out.Bytes()) {
				t.Fatalf("%s: two pictures of one program differ", name)
			}
		}
	}
}

func TestChainIsOneColumn(t *testing.T) {
	g := Build(fiveSteps(), Options{})
	p, err := arrange(g, &large)
	if err != nil {
		t.Fatal(err)
	}
	above := -1.0
	for _, n := range g.Nodes {
		if n.Kind == NodeArtifact {
			step := p.boxes["step-"+n.Step]
			if p.boxes[n.ID].x < step.right() {
				t.Errorf("%s is not to the right of its step", n.ID)
			}
			continue
		}
		box := p.boxes[n.ID]
		if c := box.center(); c.x != p.boxes["trigger-1"].center().x {
			t.Errorf("%s is beside the chain", n.ID)
		}
		if box.y <= above {
			t.Errorf("%s is too high", n.ID)
		}
		above = box.bottom()
	}
}

func TestFallbackIsNextToItsStep(t *testing.T) {
	g := Build(twelveSteps(), Options{})
	p, err := arrange(g, &large)
	if err != nil {
		t.Fatal(err)
	}
	step, fallback := p.boxes["step-check_style"], p.boxes["step-check_simple"]
	if fallback.right() >= step.x || fallback.center().y != step.center().y {
		t.Errorf("the fallback is at %v, its step at %v", fallback, step)
	}
	chain := p.boxes["step-validate_input"].center().x
	for _, id := range []string{
		"step-research", "step-classify", "step-check_style", "step-approve", "step-publish",
		"step-finish",
	} {
		if x := p.boxes[id].center().x; x != chain {
			t.Errorf("%s is at %v, not under the first step at %v", id, x, chain)
		}
	}
}

func TestLongChainsContinueInColumns(t *testing.T) {
	p, err := arrange(Build(sixtySteps(), Options{}), &large)
	if err != nil {
		t.Fatal(err)
	}
	if ratio := p.w / p.h; ratio < 0.8 || ratio > 2.5 {
		t.Errorf("sixty steps are %v by %v", p.w, p.h)
	}
}

func TestTextFitsItsCard(t *testing.T) {
	r, err := newRuler()
	if err != nil {
		t.Fatal(err)
	}
	for name, program := range samples() {
		g := Build(program, Options{})
		p, err := arrange(g, &large)
		if err != nil {
			t.Fatal(err)
		}
		for id, c := range p.cards {
			w := c.w
			if box, ok := p.boxes[id]; ok {
				w = box.w
			}
			for _, text := range c.texts {
				if right := text.x + r.width(text.cut, text.size, text.text); right > w-6 {
					t.Errorf("%s: %q on %s ends at %v of %v", name, shorten(text.text, 40), id, right, w)
				}
			}
		}
	}
}
