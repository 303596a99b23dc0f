package graph

import (
	"fmt"
	"io"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
)

// sized returns a program with n steps of all kinds, including jumps.
func sized(n int) *ir.Program {
	f := newFlow("sized", "")
	id := func(i int) string { return fmt.Sprintf("step_%d", i) }
	for i := 0; len(f.program.Blocks[0].Steps) < n; i++ {
		i := len(f.program.Blocks[0].Steps)
		switch {
		case i%10 == 4 && i+3 < n:
			s := f.add(step(id(i), "decision", "Which way?", ir.Route{}))
			s.Next = []ir.Edge{
				branch("left", id(i+1)), branch("right", id(i+2)),
				{On: []ir.Outcome{ir.OK}, To: ir.Target{Step: id(i + 3)}, Label: "default"},
			}
			f.add(step(id(i+1), "skill", "One way.", work("agent", "a")))
			f.add(step(id(i+2), "skill", "Another way.", work("agent", "b")))
			f.off[id(i+1)], f.off[id(i+2)] = true, true
		case i%10 == 8 && i > 6:
			s := f.add(step(id(i), "gate", "Good?", ir.Gate{Decider: ir.Person}))
			s.Next = []ir.Edge{{On: []ir.Outcome{ir.Rejected}, To: ir.Target{Step: id(i - 5)}}}
		case i%10 == 9 && i+1 < n:
			f.add(step(id(i), "tool", "May fail.", work("tool", "t"))).Fallback = &ir.Name{Name: id(i + 1)}
			f.add(step(id(i+1), "tool", "Stands in.", work("tool", "u")))
			f.off[id(i+1)] = true
		default:
			s := f.add(step(id(i), "skill", "Does something worth a sentence.", work("agent", "writer")))
			s.Writes = writes("state." + id(i))
		}
	}
	return f.done()
}

func BenchmarkLayout(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			g := Build(sized(n), Options{})
			for b.Loop() {
				if _, err := arrange(g, &large); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPicture(b *testing.B) {
	g := Build(twelveSteps(), Options{})
	for name, write := range map[string]func(io.Writer) error{"svg": g.SVG, "png": pngOf(g), "mermaid": g.Mermaid} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := write(io.Discard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
