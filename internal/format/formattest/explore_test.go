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

// decided are the branches of a program that simulated work chooses: each way on, the default, running and skipping a
// step, approving and rejecting, and the ways on after a failure.
func decided(p *ir.Program) map[string]bool {
	out := map[string]bool{}
	kinds := registry.Kinds()
	simulated := func(s *ir.Step) bool { // conditions look at its result
		task := s.Task()
		if task == nil {
			return false
		}
		if _, gate := s.Action.(ir.Gate); gate {
			return false
		}
		if _, ok := kinds[task.Kind].(stepkind.Explorer); ok {
			return true
		}
		asker, ok := kinds[task.Kind].(stepkind.Asker)
		if !ok {
			return false
		}
		_, asks := asker.Contract(p, s, task)
		return asks
	}
	writes := func(path string) bool {
		return slices.ContainsFunc(p.Blocks, func(b ir.Block) bool {
			return slices.ContainsFunc(b.Steps, func(s ir.Step) bool {
				return simulated(&s) && slices.ContainsFunc(s.Writes, func(w ir.Write) bool {
					return stepkind.Overlap(w.Path, path)
				})
			})
		})
	}
	replied := func(e *expr.Expr) bool { // by simulated results alone
		paths := e.Paths()
		for _, path := range paths {
			if !writes(strings.Join(path.Segments, ".")) {
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
				if slices.Equal(e.On, []ir.Outcome{ir.Failed}) && !succeeds(&b, e.To.Step) && works(kinds, p, &s) {
					out[s.ID+" fails"] = true
				}
			}
			if s.Fallback != nil && !succeeds(&b, s.Fallback.Name) && works(kinds, p, &s) {
				out[s.ID+" fails"] = true
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

// succeeds reports whether a step is the next one after a success, or no step at all.
func succeeds(b *ir.Block, id string) bool {
	return id == "" || slices.ContainsFunc(b.Steps, func(s ir.Step) bool {
		return slices.ContainsFunc(s.Next, func(e ir.Edge) bool { return e.To.Step == id && slices.Contains(e.On, ir.OK) })
	})
}

// works reports whether a step, or one inside it, asks a model, calls a tool or runs a command.
func works(kinds stepkind.Set, p *ir.Program, s *ir.Step) bool {
	var blocks []ir.BlockID
	switch a := s.Action.(type) {
	case ir.Task:
		uses := kinds[a.Kind].Uses(&a)
		return !s.Implied && len(uses.Agents)+len(uses.Tools)+len(uses.Commands) > 0
	case ir.Parallel:
		for _, b := range a.Branches {
			blocks = append(blocks, b.Block)
		}
		if a.Each != nil {
			blocks = append(blocks, a.Each.Block)
		}
	case ir.Loop:
		blocks = append(blocks, a.Block)
	}
	return slices.ContainsFunc(blocks, func(b ir.BlockID) bool {
		return slices.ContainsFunc(p.Blocks[b].Steps, func(one ir.Step) bool { return works(kinds, p, &one) })
	})
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
	failed := map[string]bool{} // after all attempts, or before one more
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
			delete(failed, x.Work.Step)
		case journal.TaskEnded:
			into[x.Work.Step+map[journal.Outcome]string{"ok": " approves", "rejected": " rejects"}[x.Outcome]] = true
			failed[x.Work.Step] = x.Outcome == "failed"
		case journal.StepLeft:
			if x.Outcome == "skipped" {
				into[x.Step+" is skipped"] = true
			}
			failed[x.Step] = x.Outcome == "failed"
		}
		for step, is := range failed {
			if is {
				into[step+" fails"] = true
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

// exampleFiles returns all files below a folder of examples, with paths from there.
func exampleFiles(t *testing.T, root string) []txtar.File {
	t.Helper()
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
	return all
}

// unreachable are branches that no reply, tool or command leads to, with the reason.
var unreachable = map[string]string{
	"graph-repair.nof.md: kg-health-monitor:checkpoint way 1": tooCheap,
	"graph-repair.nof.md: relationship-suggester way 1":       tooCheap,
	"graph-repair.nof.md: kg-completer way 1":                 tooCheap,
}

const tooCheap = "all passes together cost $0.01825, and the rule is about more than $0.02"

// TestSimulationsExploreExamples holds that ten seeds take every branch of every
// example that simulated work decides about.
func TestSimulationsExploreExamples(t *testing.T) {
	for format, pattern := range map[string]string{
		"agent-flow": ".md", "aiflow": ".aiflow", "awf": ".yaml", "nof": ".nof.md", "agentfile": "workflow.yaml",
	} {
		all := exampleFiles(t, filepath.Join("..", "..", "..", "examples", format))
		for _, f := range all {
			if !strings.HasSuffix(f.Name, pattern) || strings.HasSuffix(f.Name, "README.md") ||
				format == "awf" && !strings.Contains(f.Name, "/workflows/") {
				continue
			}
			t.Run(f.Name, func(t *testing.T) {
				input := inputs[f.Name]
				switch format {
				case "aiflow":
					input = `{"text": "Roses", "ticket": "Money back!", "notes": "It rained."}`
				case "awf": // with the defaults
					input = `{"text": "Roses", "change": "a", "tries": 5, "hosts": "a.example, b.example", "version": "1.4.0",` +
						`"photos": "[\"beach.jpg\", \"blurred.jpg\", \"forest.jpg\", \"harbour.jpg\"]"}`
				case "agentfile":
					input = `{"AGENT_INPUT": "Roses", "TOPIC": "Roses"}`
				}
				tr := trial{files: append([]txtar.File{f}, without(all, f.Name)...), input: input, agreeable: true}
				missing := slices.DeleteFunc(explored(t, tr), func(key string) bool {
					return unreachable[f.Name+": "+key] != ""
				})
				if len(missing) > 0 {
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

// TestSimulationsExploreCommands checks the same for random programs whose commands decide: by their exit code, their
// output, and their failure. Every step is reached, and most seeds end well.
func TestSimulationsExploreCommands(t *testing.T) {
	for n := range uint64(24) {
		text := randomCommands(rand.New(rand.NewPCG(n, 11)))
		tr := trial{files: []txtar.File{{Name: ".awf/workflows/flow.yaml", Data: []byte(text)}}, agreeable: true}
		if missing := explored(t, tr); len(missing) > 0 {
			t.Errorf("program %d: no run takes %s\n%s", n, strings.Join(missing, ", "), text)
		}
		tr.seed = 0
		if outcome, _ := tr.run(t).ending(); outcome != "ok" {
			t.Errorf("program %d: a plain simulation ends as %s\n%s", n, outcome, text)
		}
	}
}

// randomCommands writes a chain of two or three commands that decide, each with its own steps for the other ways.
func randomCommands(r *rand.Rand) string {
	var b strings.Builder
	b.WriteString("name: flow\nstates:\n  initial: s0\n")
	step := func(name, rest string) {
		fmt.Fprintf(&b, "  %s:\n    type: step\n    command: echo %s\n%s", name, name, rest)
	}
	n := 2 + r.IntN(2)
	for i := range n {
		name, next := fmt.Sprintf("s%d", i), fmt.Sprintf("s%d", i+1)
		other := name + "_other"
		switch r.IntN(5) {
		case 0: // a failure that ends the run
			step(name, fmt.Sprintf("    on_success: %s\n    on_failure: broken\n", next))
			continue
		case 1: // a failure that another step handles
			step(name, fmt.Sprintf("    on_success: %s\n    on_failure: %s\n", next, other))
		case 2: // an exit code
			step(name, fmt.Sprintf("    transitions:\n      - when: states.%s.ExitCode == %d\n        goto: %s\n      - goto: %s\n",
				name, 1+r.IntN(9), other, next))
		case 3: // a word in the output
			step(name, fmt.Sprintf("    transitions:\n      - when: states.%s.Output contains \"late\"\n        goto: %s\n      - goto: %s\n",
				name, other, next))
		case 4: // parallel commands, with retries
			fmt.Fprintf(&b, "  %s:\n    type: parallel\n    parallel: [%s_a, %s_b]\n    on_success: %s\n    on_failure: %s\n",
				name, name, name, next, other)
			step(name+"_a", "    retry: {max_attempts: 2, initial_delay: 1s}\n")
			step(name+"_b", "")
		}
		step(other, fmt.Sprintf("    on_success: %s\n", next))
	}
	fmt.Fprintf(&b, "  s%d: {type: terminal}\n  broken: {type: terminal, status: failure}\n", n)
	return b.String()
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
