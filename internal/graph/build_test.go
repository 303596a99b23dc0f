package graph

import (
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
)

// drawn returns the edges of some kinds as "from -kind-> to [label]".
func drawn(g *Graph, kinds ...EdgeKind) []string {
	var all []string
	for _, e := range g.Edges {
		if slices.Contains(kinds, e.Kind) {
			text := strings.TrimPrefix(e.From, "step-") + " -" + string(e.Kind) + "-> " +
				strings.TrimPrefix(e.To, "step-")
			if e.Label != "" {
				text += " [" + e.Label + "]"
			}
			all = append(all, text)
		}
	}
	slices.Sort(all)
	return all
}

func wantEdges(t *testing.T, got []string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("edges:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestFallbackHasTheSuccessorsOfItsStep(t *testing.T) {
	f := newFlow("f", "")
	f.add(step("a", "tool", "", work("tool", "x"))).Fallback = &ir.Name{Name: "c"}
	f.add(step("b", "tool", "", work("tool", "x")))
	f.add(step("c", "tool", "", work("tool", "x")))
	f.off["c"] = true
	f.add(step("d", "tool", "", work("tool", "x")))
	g := Build(f.done(), Options{})
	wantEdges(t, drawn(g, EdgeFlow, EdgeFallback), "start -flow-> a", "a -flow-> b", "a -fallback-> c [fallback]",
		"c -flow-> b", "b -flow-> d", "d -flow-> end")
}

func TestFallbackFollowsItsOwnJump(t *testing.T) {
	f := newFlow("f", "")
	f.add(step("a", "tool", "", work("tool", "x"))).Fallback = &ir.Name{Name: "c"}
	f.add(step("b", "tool", "", work("tool", "x")))
	f.off["c"] = true
	f.add(step("c", "tool", "", work("tool", "x"))).Next = []ir.Edge{
		{On: []ir.Outcome{ir.OK}, To: ir.Target{Step: "d"}},
	}
	f.add(step("d", "end", "", ir.End{}))
	g := Build(f.done(), Options{})
	wantEdges(t, drawn(g, EdgeFlow, EdgeJump, EdgeFallback), "start -flow-> a", "a -flow-> b",
		"a -fallback-> c [fallback]", "b -flow-> d", "c -jump-> d")
}

func TestImpliedEndIsDrawnOnlyWithoutEndStep(t *testing.T) {
	ends := func(g *Graph) (n int) {
		for _, node := range g.Nodes {
			if node.Kind == NodeEnd {
				n++
			}
		}
		return n
	}
	if n := ends(Build(fiveSteps(), Options{})); n != 1 {
		t.Errorf("%d ends in a chain that ends with a step, want 1", n)
	}
	f := newFlow("f", "")
	f.add(step("a", "tool", "", work("tool", "x")))
	if n := ends(Build(f.done(), Options{})); n != 1 {
		t.Errorf("%d ends in a chain without an end step, want 1", n)
	}
}

func TestEdgeKindsFollowFromOutcomes(t *testing.T) {
	f := newFlow("f", "")
	s := f.add(step("a", "gate", "", ir.Gate{Decider: ir.Person}))
	s.Next = []ir.Edge{
		{On: []ir.Outcome{ir.Rejected}, To: ir.Target{Step: "b"}},
		{On: []ir.Outcome{ir.Failed}, To: ir.Target{Step: "a"}, Limit: 2},
	}
	s = f.add(step("b", "decision", "", ir.Route{}))
	s.Next = []ir.Edge{
		branch("x", "c"), branch("y", "c"), branch("z", "a"),
		{On: []ir.Outcome{ir.OK}, To: ir.Target{Exit: ir.ExitFail, Reason: "NO_BRANCH"}, Label: "no match"},
	}
	s = f.add(step("c", "tool", "", work("tool", "x")))
	s.When = cond("input.x")
	s.Next = []ir.Edge{{On: []ir.Outcome{ir.OK}, To: ir.Target{Step: "a"}}}
	f.add(step("d", "end", "", ir.End{}))
	g := Build(f.done(), Options{})
	wantEdges(t, drawn(g, EdgeFlow, EdgeBranch, EdgeJump, EdgeSkipped, EdgeRejected, EdgeFailed),
		"start -flow-> a", "a -flow-> b", "a -rejected-> b [rejected]", "a -failed-> a [on error (at most 2×)]",
		"b -branch-> c [x, y]", "b -branch-> a [z]", "b -failed-> fail-b [no match]",
		"c -jump-> a", "c -skipped-> d [skipped]")
}

func TestSkippedEdgeOnlyWhereStepCanBeSkipped(t *testing.T) {
	f := newFlow("f", "")
	skip := ir.Edge{On: []ir.Outcome{ir.Skipped}, To: ir.Target{Step: "d"}}
	f.add(step("a", "tool", "", work("tool", "x"))).Next = []ir.Edge{skip}
	s := f.add(step("b", "tool", "", work("tool", "x")))
	s.Next, s.SkipOnError = []ir.Edge{skip}, true
	f.add(step("c", "gate", "", ir.Gate{Decider: ir.Event, OnTimeout: ir.TimeoutSkip})).Next = []ir.Edge{skip}
	f.add(step("d", "end", "", ir.End{}))
	wantEdges(t, drawn(Build(f.done(), Options{}), EdgeSkipped), "b -skipped-> d [skipped]", "c -skipped-> d [skipped]")
}

func TestNodesShowConditionsAndWaits(t *testing.T) {
	g := Build(twelveSteps(), Options{})
	notes := map[string][]string{}
	for _, n := range g.Nodes {
		for _, note := range n.Notes {
			notes[n.Step] = append(notes[n.Step], strings.ReplaceAll(note.String(), "\u00a0", " "))
		}
	}
	for step, want := range map[string]string{
		"check_style":   `when input.service_tier != "starter"`,
		"approve":       "waits until editor.decided, at most 24 h, then fails",
		"press_release": "waits until press.ready, at most 2 days, then continues",
	} {
		if !slices.Contains(notes[step], want) {
			t.Errorf("%s has the notes %q, want %q", step, notes[step], want)
		}
	}
}

// The relevant key is the longest written one that is a prefix of the path that is read.
//
// Spec: Agent Flow §3.4 implicit-edges, §11 visualizer
func TestDataEdgesLeadFromWritersToReaders(t *testing.T) {
	f := newFlow("f", "")
	f.add(step("a", "tool", "", work("tool", "x"))).Writes = writes("state.doc")
	f.add(step("b", "tool", "", work("tool", "x"))).Writes = writes("state.doc.title")
	s := f.add(step("c", "tool", "", work("tool", "x")))
	s.Reads = reads("state.doc.title.text", "state.doc.body", "state.docs", "input.other")
	g := Build(f.done(), Options{Data: true})
	wantEdges(t, drawn(g, EdgeData), "a -data-> c [state.doc]", "b -data-> c [state.doc.title]")
	if g := Build(f.done(), Options{}); len(drawn(g, EdgeData)) > 0 {
		t.Error("data edges without being asked")
	}
}

func TestDataComesFromTheLastCertainWriter(t *testing.T) {
	f := newFlow("f", "")
	f.add(step("old", "tool", "", work("tool", "x"))).Writes = writes("state.k")
	f.add(step("new", "tool", "", work("tool", "x"))).Writes = writes("state.k")
	s := f.add(step("maybe", "tool", "", work("tool", "x")))
	s.Writes, s.When = writes("state.k"), cond("input.x")
	s = f.add(step("risky", "tool", "", work("tool", "x")))
	s.Writes, s.Fallback = writes("state.k"), &ir.Name{Name: "spare"}
	f.add(step("spare", "tool", "", work("tool", "x"))).Writes = writes("state.k")
	f.off["spare"] = true
	f.add(step("reader", "tool", "", work("tool", "x"))).Reads = reads("state.k")
	f.add(step("later", "tool", "", work("tool", "x"))).Writes = writes("state.k")
	g := Build(f.done(), Options{Data: true})
	wantEdges(t, drawn(g, EdgeData), "risky -data-> reader [state.k]", "spare -data-> reader [state.k]",
		"maybe -data-> reader [state.k]", "new -data-> reader [state.k]")
}

func TestWorkersReadDataFromBeforeTheirBundle(t *testing.T) {
	f := newFlow("f", "")
	f.add(step("a", "tool", "", work("tool", "x"))).Writes = writes("state.k")
	worker := step("w", "worker", "", work("agent", "x"))
	worker.Reads = reads("state.k")
	f.add(step("all", "parallel", "", f.bundle("b", worker)))
	g := Build(f.done(), Options{Data: true})
	wantEdges(t, drawn(g, EdgeData), "a -data-> all.w [state.k]")
}

func TestWorkersDoNotRepeatTheirBundlesText(t *testing.T) {
	f := newFlow("f", "")
	f.add(step("all", "parallel", "The same words.",
		f.bundle("b", step("w", "worker", "The same words.", work("agent", "x")),
			step("v", "worker", "Other words.", work("agent", "x")))))
	for _, n := range Build(f.done(), Options{}).Nodes {
		if want := map[string]string{"all.w": "", "all.v": "Other words."}[n.Step]; n.Text != want {
			t.Errorf("%s shows %q, want %q", n.Step, n.Text, want)
		}
	}
}

func TestShortenCountsCharacters(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"äöü", 3, "äöü"}, {"äöüß", 3, "äö…"}, {"", 3, ""}} {
		if got := shorten(c.text, c.n); got != c.want {
			t.Errorf("shorten(%q, %d) = %q, want %q", c.text, c.n, got, c.want)
		}
	}
}

func TestCreatedAgentsAreNotNamed(t *testing.T) {
	f := newFlow("f", "")
	f.program.Agents = []ir.Agent{{ID: "a_agent", Implied: true}, {ID: "writer"}}
	f.add(step("a", "skill", "", work("agent", "a_agent")))
	f.add(step("b", "skill", "", work("agent", "writer")))
	for _, n := range Build(f.done(), Options{}).Nodes {
		if want := map[string]string{"b": "writer"}[n.Step]; n.Detail != want {
			t.Errorf("%q shows %q, want %q", n.Step, n.Detail, want)
		}
	}
}
