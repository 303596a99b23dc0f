package formattest

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// decided are the branches of a program that the replies of models choose:
// each way on, the default, running and skipping a step, approving and
// rejecting.
func decided(p *ir.Program) map[string]bool {
	out := map[string]bool{}
	kinds := registry.Kinds()
	replied := func(e *expr.Expr) bool { // by what models said alone
		paths := e.Paths()
		for _, path := range paths {
			if !slices.ContainsFunc(p.Blocks, func(b ir.Block) bool {
				return slices.ContainsFunc(b.Steps, func(s ir.Step) bool {
					task := s.Task()
					if task == nil {
						return false
					}
					asker, ok := kinds[task.Kind].(stepkind.Asker)
					if !ok {
						return false
					}
					_, asks := asker.Contract(p, &s, task)
					_, gate := s.Action.(ir.Gate)
					return asks && !gate && slices.ContainsFunc(s.Writes, func(w ir.Write) bool { return stepkind.Overlap(w.Path, strings.Join(path.Segments, ".")) })
				})
			}) {
				return false
			}
		}
		return len(paths) > 0
	}
	for _, b := range p.Blocks {
		for _, s := range b.Steps {
			if s.When != nil && replied(s.When) {
				out[s.ID+" runs"], out[s.ID+" is skipped"] = true, true
			}
			if gate, ok := s.Action.(ir.Gate); ok && gate.Decider == ir.Work && gate.Verdict.Kind == "agent" {
				out[s.ID+" approves"], out[s.ID+" rejects"] = true, true
			}
			if gate, ok := s.Action.(ir.Gate); ok && gate.Decider != ir.Work {
				continue // people decide
			}
			for i, e := range s.Next {
				if e.When != nil && replied(e.When) {
					out[fmt.Sprintf("%s way %d", s.ID, i)] = true
					for _, other := range s.Next[i:] {
						if other.When == nil && other.To.Exit != ir.ExitFail && slices.Contains(other.On, ir.OK) {
							out[s.ID+" default"] = true
						}
					}
				}
			}
		}
	}
	// Ways that together leave nothing for the default.
	for key := range out {
		if id, ok := strings.CutSuffix(key, " default"); ok && exhaustive(p, id) {
			delete(out, key)
		}
	}
	return out
}

// exhaustive reports whether the ways on from a step cover both true and false.
func exhaustive(p *ir.Program, id string) bool {
	both := map[any]bool{}
	for b := range p.Blocks {
		if s := p.Step(ir.BlockID(b), id); s != nil {
			for _, e := range s.Next {
				for _, u := range e.When.Uses() {
					both[fmt.Sprint(u.Value)] = true
				}
			}
		}
	}
	return both["true"] && both["false"]
}

// took notes the branches that a run has taken.
func (h *happened) took(into map[string]bool) {
	for _, e := range h.events {
		switch x := e.Fact.(type) {
		case journal.Routed:
			way := "default"
			for _, one := range x.Tried {
				if one.Held {
					way = fmt.Sprintf("way %d", one.Edge)
				}
			}
			into[x.Step+" "+way] = true
		case journal.TaskStarted:
			into[x.Work.Step+" runs"] = true
		case journal.TaskEnded:
			into[x.Work.Step+map[journal.Outcome]string{"ok": " approves", "rejected": " rejects"}[x.Outcome]] = true
		case journal.StepLeft:
			if x.Outcome == "skipped" {
				into[x.Step+" is skipped"] = true
			}
		}
	}
}

// explored runs a workflow with the seeds 1 to 10 and names what none of them did.
func explored(t *testing.T, tr trial) []string {
	t.Helper()
	took := map[string]bool{}
	var want map[string]bool
	for seed := range uint64(contract.Explored) {
		one := tr
		one.seed = seed + 1
		h := one.run(t)
		if h.problems.Errors() {
			t.Fatal(h.problems)
		}
		want = decided(h.program)
		h.took(took)
	}
	var missing []string
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if !took[key] {
			missing = append(missing, key)
		}
	}
	return missing
}

// TestSimulationsExploreExamples holds that ten seeds take every branch of every
// example that models decide about.
func TestSimulationsExploreExamples(t *testing.T) {
	for format, suffix := range map[string]string{"agent-flow": ".md", "aiflow": ".aiflow"} {
		root := filepath.Join("..", "..", "..", "examples", format)
		var all []txtar.File
		err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			raw, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, name)
			all = append(all, txtar.File{Name: filepath.ToSlash(rel), Data: raw})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			if !strings.HasSuffix(f.Name, suffix) || strings.HasSuffix(f.Name, "README.md") {
				continue
			}
			t.Run(f.Name, func(t *testing.T) {
				input := inputs[f.Name]
				if format == "aiflow" {
					input = `{"text": "Roses", "ticket": "Money back!", "notes": "It rained."}`
				}
				tr := trial{files: append([]txtar.File{f}, without(all, f.Name)...), input: input, agreeable: true}
				if missing := explored(t, tr); len(missing) > 0 {
					t.Errorf("no run takes: %s", strings.Join(missing, ", "))
				}
			})
		}
	}
}

// TestSimulationsExploreNodes holds the same for values that the code of a node takes from the output of its agent:
// a healthy graph skips a step, and an incomplete one goes back to it.
func TestSimulationsExploreNodes(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "examples", "nof", "graph-repair.nof.md"))
	if err != nil {
		t.Fatal(err)
	}
	times := map[int]bool{} // how often the step ran
	for seed := range uint64(contract.Explored) {
		tr := trial{files: []txtar.File{{Name: "graph-repair.nof.md", Data: raw}}, seed: seed + 1, agreeable: true}
		n := 0
		for _, e := range tr.run(t).events {
			if started, ok := e.Fact.(journal.TaskStarted); ok && started.Work.Step == "relationship-suggester" {
				n++
			}
		}
		times[n] = true
	}
	for n := range 3 {
		if !times[n] {
			t.Errorf("in no run relationship-suggester runs %d times: %v", n, times)
		}
	}
}

// TestSimulationsExplore checks the same for random programs.
func TestSimulationsExplore(t *testing.T) {
	for n := range uint64(12) {
		text := randomFlow(rand.New(rand.NewPCG(n, 7)))
		tr := trial{files: []txtar.File{{Name: "flow.md", Data: []byte(text)}}, agreeable: true}
		if missing := explored(t, tr); len(missing) > 0 {
			t.Errorf("program %d: no run takes %s\n%s", n, strings.Join(missing, ", "), text)
		}
	}
}

// flowWriter writes a workflow of decisions.
type flowWriter struct {
	*rand.Rand
	strings.Builder
	n    int
	uses int // decisions that are left
}

func randomFlow(r *rand.Rand) string {
	w := &flowWriter{Rand: r, uses: 4}
	w.WriteString("---\nname: flow\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: flow\n---\n\n```agent\nid: judge\nrole: Judge\ngoal: Judge\n```\n\n")
	for w.uses > 0 {
		w.part(1, "")
	}
	w.step("done", "end", "")
	return w.String()
}

func (w *flowWriter) id() string {
	w.n++
	return fmt.Sprintf("s%d", w.n)
}

func (w *flowWriter) step(id, kind, rest string) {
	fmt.Fprintf(w, "```step\nid: %s\ntype: %s\ndescription: Do %s\n%s```\n\n", id, kind, id, rest)
}

func (w *flowWriter) ask(id, more string) {
	w.step(id, "skill", fmt.Sprintf("agent: judge\nwrites: [state.%s]\n%s", id, more))
}

// part writes one piece of a flow; after is where it leads, "" is on.
func (w *flowWriter) part(depth int, after string) {
	w.uses--
	id := w.id()
	jump := ""
	if after != "" {
		jump = "goto: " + after + "\n"
	}
	switch kind := w.IntN(5); {
	case kind == 0: // a threshold
		w.ask(id, "")
		w.ask(w.id(), fmt.Sprintf("when: state.%s > %d\n", id, w.IntN(9))+jump)
	case kind == 1: // a flag
		w.ask(id, "")
		w.ask(w.id(), fmt.Sprintf("when: state.%s == true\n", id)+jump)
	case kind == 2: // a review that goes round
		w.ask(id, "")
		next := w.id()
		w.step(w.id(), "decision", fmt.Sprintf("reads: [state.%s]\nbranches:\n  approved: %s\n  default: %s\n", id, next, id))
		w.ask(next, jump)
	default: // a choice, perhaps with another one in an arm
		w.ask(id, "")
		arms := []string{w.id(), w.id(), w.id()}
		end := w.id()
		w.step(w.id(), "decision", fmt.Sprintf("reads: [state.%s]\nbranches:\n  one: %s\n  two: %s\n  default: %s\n", id, arms[0], arms[1], arms[2]))
		for i, arm := range arms {
			inner := i == 0 && depth < 2 && w.uses > 0
			if inner {
				w.ask(arm, "")
				w.part(depth+1, end)
				continue
			}
			w.ask(arm, "goto: "+end+"\n")
		}
		w.ask(end, jump)
	}
}
