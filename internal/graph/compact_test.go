package graph

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// pageElement is an element of a web page with an ID.
type pageElement struct {
	Attrs map[string]string
	Text  string
}

// readPage returns the elements that have an ID.
func readPage(t testing.TB, svg []byte) map[string]*pageElement {
	t.Helper()
	page, open := map[string]*pageElement{}, []*pageElement{}
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return page
		}
		if err != nil {
			t.Fatalf("%v in:\n%s", err, svg)
		}
		switch x := token.(type) {
		case xml.StartElement:
			e := &pageElement{Attrs: map[string]string{}}
			for _, a := range x.Attr {
				e.Attrs[a.Name.Local] = a.Value
				if a.Name.Local == "style" || strings.HasPrefix(a.Name.Local, "on") {
					t.Errorf("the attribute %s is not allowed under the policy", a.Name.Local)
				}
			}
			if x.Name.Local == "style" || x.Name.Local == "script" {
				t.Errorf("the element %s is not allowed under the policy", x.Name.Local)
			}
			if id := e.Attrs["id"]; id != "" {
				if page[id] != nil {
					t.Errorf("two elements have the id %q", id)
				}
				page[id] = e
			}
			open = append(open, e)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 && strings.TrimSpace(string(x)) != "" {
				open[len(open)-1].Text += string(x)
			}
		}
	}
}

// apply applies patches as a page does.
func apply(t testing.TB, page map[string]*pageElement, patches []Patch) {
	t.Helper()
	for _, p := range patches {
		e := page[p.ID]
		switch {
		case e == nil:
			t.Errorf("patch of a missing element: %+v", p)
		case p.Attr == "":
			e.Text = p.Value
		case p.Remove:
			delete(e.Attrs, p.Attr)
		default:
			e.Attrs[p.Attr] = p.Value
		}
	}
}

func compactSVG(t testing.TB, c *Compact) []byte {
	t.Helper()
	svg, err := c.SVG(CompactOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return svg
}

func TestCompactNodesAreLinksWithTitles(t *testing.T) {
	svg := compactSVG(t, NewCompactRun(twelveSteps(), ""))
	page := readPage(t, svg)
	for id, want := range map[string]string{
		"name-write_report":        "write_report, skill · writer, Not reached",
		"name-research":            "research, parallel · research_pack, Not reached",
		"name-research.web_reader": "web_reader, worker · researcher, Not reached",
		"name-press_release": "press_release, event · press.ready, at most 2\u00a0days, then continues, Not " +
			"reached",
		"name-approve": "approve, gate · a person, Not reached",
	} {
		if e := page[id]; e == nil || e.Text != want {
			t.Errorf("%s is %+v, want %q", id, e, want)
		}
	}
	for _, want := range []string{
		`<g class="node" id="node-classify" data-kind="decision" data-state="pending"`,
		`<a href="#step-write_report">`, `<rect class="box" width="188" height="46" rx="8"/>`,
		`<g class="edge error" id="edge-check_style-check_simple">`,
		`<g class="edge skip" id="edge-check_style-check_simple~2">`,
	} {
		if !bytes.Contains(svg, []byte(want)) {
			t.Errorf("%s is missing", want)
		}
	}
	linked, err := NewCompact(fiveSteps()).SVG(CompactOptions{
		Link: func(step string) string { return "/w/" + step }, Current: "send",
	})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(linked, []byte(`<a href="/w/send" aria-current="true">`)) {
		t.Error("the link of the selected step is missing")
	}
}

func TestCompactIDsAreUnique(t *testing.T) {
	f := newFlow("same", "")
	f.program.Triggers = []ir.Trigger{{Kind: ir.OnDemand}}
	for _, id := range []string{"trigger-1", "end", "fail-end", "a", "a-b", "b-c", "c"} {
		f.add(step(id, "tool", "", work("tool", "x")))
	}
	f.add(step("choose", "decision", "", ir.Route{})).Next = []ir.Edge{
		branch("x", "end"), {On: []ir.Outcome{ir.OK}, To: ir.Target{Exit: ir.ExitFail, Reason: "NONE"}},
	}
	f.program.Step(ir.Body, "a").Next = []ir.Edge{{On: []ir.Outcome{ir.OK}, To: ir.Target{Step: "b-c"}}}
	f.program.Step(ir.Body, "a-b").Next = []ir.Edge{{On: []ir.Outcome{ir.OK}, To: ir.Target{Step: "c"}}}
	page := readPage(t, compactSVG(t, NewCompact(f.done())))
	for _, id := range []string{"node-trigger-1", "node-end", "node-trigger-1~", "edge-a-b-c", "edge-a-b-c~2"} {
		if page[id] == nil {
			t.Errorf("%s is missing", id)
		}
	}
}

// runOfTwelve returns the facts of a run of twelveSteps that skips a step and waits at a gate.
func runOfTwelve() []journal.Fact {
	worker := func(i int, name string) []journal.Fact {
		frame := fmt.Sprintf("research[%d]", i)
		w := journal.TaskID{Place: journal.Place{Frame: frame, Step: name}}
		return []journal.Fact{
			journal.FrameOpened{Frame: frame, Step: "research", Block: i + 1, Index: i},
			journal.TaskStarted{TaskID: w},
			journal.TaskEnded{TaskID: w, Outcome: journal.OutcomeOK, Final: true},
			journal.FrameClosed{Frame: frame, Outcome: journal.OutcomeOK},
		}
	}
	facts := []journal.Fact{
		started("validate_input", ""), ended("validate_input", journal.OutcomeOK),
		journal.StepEntered{Place: journal.Place{Step: "research"}, Mode: plan.ModeParallel, Total: 3},
	}
	for i, name := range []string{"web_reader", "paper_reader", "archive_reader"} {
		facts = append(facts, worker(i, name)...)
	}
	return append(facts,
		left("research", journal.OutcomeOK, ""), left("classify", journal.OutcomeOK, ""),
		started("write_report", ""), ended("write_report", journal.OutcomeOK),
		left("check_style", journal.OutcomeSkipped, plan.ReasonCondition), started("check_simple", "check_style"),
		ended("check_simple", journal.OutcomeOK), journal.GateOpened{Place: journal.Place{Step: "approve"}})
}

// A page that applies the patches of each event shows the same as one that is loaded afterwards.
func TestPatchesEqualANewPage(t *testing.T) {
	p := twelveSteps()
	c := NewCompactRun(p, "")
	page := readPage(t, compactSVG(t, c))
	for i, fact := range runOfTwelve() {
		c.Apply(journal.Event{At: journal.Millis(1000 * (i + 1)), Fact: fact})
		patches, redraw := c.Patches()
		if redraw {
			t.Fatal("nothing was folded")
		}
		apply(t, page, patches)
		if diff := cmp.Diff(readPage(t, compactSVG(t, c)), page); diff != "" {
			t.Fatalf("after %#v (-new page +patched page):\n%s", fact, diff)
		}
	}
	if e := page["edge-check_style-check_simple~2"]; e == nil || e.Attrs["data-state"] != "" {
		t.Error("the skipped edge is missing")
	} else if _, taken := e.Attrs["data-taken"]; !taken {
		t.Error("the skipped edge is not marked as taken")
	}
	if state := page["node-approve"].Attrs["data-state"]; state != "waiting" {
		t.Errorf("the gate is %q", state)
	}
	if more, _ := c.Patches(); len(more) != 0 {
		t.Errorf("%d patches without an event", len(more))
	}
}

func TestCompactFoldsWideFanOutOnce(t *testing.T) {
	p := loops() // "judge" runs two steps for each item of a list
	c := NewCompactRun(p, "")
	apply := func(facts ...journal.Fact) {
		for i, fact := range facts {
			c.Apply(journal.Event{At: journal.Millis(i + 1), Fact: fact})
		}
	}
	apply(journal.StepEntered{Place: journal.Place{Step: "judge"}, Mode: plan.ModeParallel, Total: 1000})
	if _, redraw := c.Patches(); !redraw {
		t.Fatal("the picture is not drawn again")
	}
	for i := range 900 {
		frame := fmt.Sprintf("judge[%d]", i)
		w := journal.TaskID{Place: journal.Place{Frame: frame, Step: "summarise"}}
		outcome := journal.OutcomeOK
		if i%300 == 0 {
			outcome = journal.OutcomeFailed
		}
		apply(journal.FrameOpened{Frame: frame, Step: "judge", Block: 2, Index: i}, journal.TaskStarted{TaskID: w})
		if i < 800 {
			apply(journal.FrameClosed{Frame: frame, Outcome: outcome})
		}
	}
	patches, redraw := c.Patches()
	if redraw || len(patches) > 20 {
		t.Errorf("%d patches for one node, redraw: %v", len(patches), redraw)
	}
	page := readPage(t, compactSVG(t, c))
	if text := page["count-judge"].Text; text != "800 of 1,000 · 3 failed" {
		t.Errorf("the count is %q", text)
	}
	if w := page["ok-judge"].Attrs["width"]; w != number(barW*0.797) {
		t.Errorf("the bar is %s wide", w)
	}
	if page["node-judge.each.summarise"] != nil {
		t.Error("a step inside the folded group is drawn")
	}
}

func TestCompactLayoutOfAnyProgramIsValid(t *testing.T) {
	check := func(t testing.TB, c *Compact) {
		picture, err := arrange(c.graph, &compact)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range checkPicture(c.graph, picture) {
			t.Error(w)
		}
		readPage(t, compactSVG(t, c))
	}
	for name, p := range samples() {
		t.Run(name, func(t *testing.T) { check(t, NewCompactRun(p, "")) })
	}
	rapid.Check(t, func(r *rapid.T) {
		p := anyProgram(r)
		picture, err := arrange(NewCompact(p).graph, &compact)
		if err != nil {
			r.Fatal(err)
		}
		for _, w := range checkPicture(NewCompact(p).graph, picture) {
			r.Error(w)
		}
	})
}

func TestCompactPictureOfAnyProgramIsBounded(t *testing.T) {
	for name, p := range largePrograms() {
		if svg := compactSVG(t, NewCompactRun(p, "")); len(svg) > megabyte {
			t.Errorf("%s has %d bytes", name, len(svg))
		}
	}
}

func TestShortDurationsAreTruncated(t *testing.T) {
	for d, want := range map[ir.Millis]string{
		-5: "0 ms", 0: "0 ms", 999: "999 ms", 1250: "1.2 s", 9999: "9.9 s", 12_345: "12 s", 185_000: "3 min 5 s",
		3_725_000: "1 h 2 min", 300_000_000: "3 days",
	} {
		if got := shortDuration(d); got != want {
			t.Errorf("%d is %q, want %q", d, got, want)
		}
	}
}

func TestLoopsOfOneStepLeaveItApart(t *testing.T) {
	c := NewCompact(loops())
	p, err := arrange(c.graph, &compact)
	if err != nil {
		t.Fatal(err)
	}
	starts := map[point]string{}
	for _, r := range p.routes {
		e := &c.graph.Edges[r.edge]
		if first := r.points[0]; first.x == p.boxes[e.From].right() {
			if other := starts[first]; other != "" {
				t.Errorf("%s and %s leave at the same point", other, e.ID)
			}
			starts[first] = e.ID
		}
	}
	if len(starts) < 2 {
		t.Errorf("%d loops", len(starts))
	}
}
