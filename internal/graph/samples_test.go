package graph

import (
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
)

// flow builds programs like a format's lowering: steps in document order, and sequential edges between those on the
// chain.
type flow struct {
	program ir.Program
	off     map[string]bool // fallbacks and branches: not on the chain
}

func newFlow(name, description string) *flow {
	return &flow{program: ir.Program{
		Format: "agent-flow", Name: name, Description: description,
		Blocks: []ir.Block{{}},
	}, off: map[string]bool{}}
}

func (f *flow) add(s ir.Step) *ir.Step {
	body := &f.program.Blocks[0]
	body.Steps = append(body.Steps, s)
	return &body.Steps[len(body.Steps)-1]
}

// done links every step to the next one on the chain, unless it has its own edges after "ok".
func (f *flow) done() *ir.Program {
	steps := f.program.Blocks[0].Steps
	for i := range steps {
		s := &steps[i]
		if _, over := s.Action.(ir.End); over {
			continue
		}
		if _, chooses := s.Action.(ir.Route); chooses {
			continue
		}
		next := ""
		for _, later := range steps[i+1:] {
			if !f.off[later.ID] {
				next = later.ID
				break
			}
		}
		if next == "" {
			continue
		}
		on := []ir.Outcome{ir.OK, ir.Skipped}
		for _, e := range s.Next {
			if slices.Contains(e.On, ir.OK) {
				on = []ir.Outcome{ir.Skipped}
			}
		}
		if len(on) == 1 && s.When == nil {
			continue // never skipped: not shown
		}
		s.Next = append(s.Next, ir.Edge{On: on, To: ir.Target{Step: next}, Sequential: true})
	}
	return &f.program
}

func work(kind, performer string) ir.Task {
	t := ir.Task{Kind: kind}
	name := map[string]string{"agent": "agent", "tool": "tool", "script": "language"}[kind]
	if name != "" && performer != "" {
		t.Settings.Put(name, performer, ir.Agent{}.Span)
	}
	return t
}

func step(id, typ, description string, a ir.Action) ir.Step {
	return ir.Step{ID: id, Type: typ, Description: description, Action: a}
}

func cond(text string) *expr.Expr { return &expr.Expr{Dialect: expr.AgentFlow, Text: text} }

func reads(paths ...string) []ir.Ref {
	var all []ir.Ref
	for _, p := range paths {
		all = append(all, ir.Ref{Path: p})
	}
	return all
}

func writes(paths ...string) []ir.Write {
	var all []ir.Write
	for _, p := range paths {
		all = append(all, ir.Write{Path: p})
	}
	return all
}

func branch(label, to string) ir.Edge {
	return ir.Edge{
		On: []ir.Outcome{ir.OK}, When: cond(fmt.Sprintf("text(state.kind) == %q", label)),
		To: ir.Target{Step: to}, Label: label,
	}
}

// bundle adds one-step blocks for workers and returns the action.
func (f *flow) bundle(name string, workers ...ir.Step) ir.Parallel {
	combine := ir.Task{Kind: "combine"}
	combine.Settings.Put("strategy", "combine_by_type", ir.Agent{}.Span)
	p := ir.Parallel{Name: name, Join: ir.JoinSettle, Combine: &combine}
	for _, w := range workers {
		p.Branches = append(p.Branches, ir.Branch{Name: w.ID, Block: f.program.AddBlock(ir.Block{Steps: []ir.Step{w}})})
	}
	return p
}

// fiveSteps is a plain chain.
func fiveSteps() *ir.Program {
	f := newFlow("meeting-notes", "Turns a recording's transcript into notes.")
	f.program.Triggers = []ir.Trigger{{Kind: ir.OnEvent, Event: "transcript.uploaded"}}
	f.add(step("validate_input", "transform", "Check that the transcript is there and not empty.",
		work("transform", "")))
	s := f.add(step("find_topics", "skill",
		"List the topics that were discussed, in order, with who spoke about them.", work("agent", "analyst")))
	s.Reads, s.Writes = reads("input.transcript"), writes("state.topics")
	s = f.add(step("write_notes", "skill", "Write the notes: one section for each topic.", work("agent", "writer")))
	s.Reads, s.Writes = reads("input.transcript", "state.topics"), writes("state.notes")
	s.Produces = []ir.Name{{Name: "notes.md"}}
	s = f.add(step("send", "tool", "Mail the notes to everybody who took part.", work("tool", "send_email")))
	s.Reads = reads("state.notes")
	f.add(step("done", "end", "", ir.End{}))
	return f.done()
}

// twelveSteps uses every feature.
func twelveSteps() *ir.Program {
	f := newFlow("report-publisher", "Researches a topic and publishes a report.")
	f.program.Triggers = []ir.Trigger{
		{Kind: ir.OnSchedule, Schedule: "0 7 * * 1", Timezone: "Europe/London"},
		{Kind: ir.OnDemand},
		{Kind: ir.OnAPI, Off: true},
	}
	s := f.add(step("validate_input", "transform", "Check the request against the input contract.",
		work("transform", "")))
	s.Reads, s.Writes = reads("input"), writes("state.request")
	s = f.add(step("research", "parallel", "Three readers look at the sources at the same time.",
		f.bundle("research_pack",
			step("web_reader", "worker", "Reads the open web.", work("agent", "researcher")),
			step("paper_reader", "worker", "Reads papers.", work("agent", "researcher")),
			step("archive_reader", "worker", "Reads earlier reports.", work("agent", "archivist")))))
	s.Reads, s.Writes = reads("state.request"), writes("state.findings")
	s.Retry = &ir.Retry{MaxAttempts: 3}
	s = f.add(step("classify", "decision", "Which form fits the findings?", ir.Route{}))
	s.Reads = reads("state.findings")
	s.Next = []ir.Edge{
		branch("brief", "write_brief"), branch("full", "write_report"),
		{On: []ir.Outcome{ir.OK}, To: ir.Target{Step: "write_summary"}, Label: "default"},
	}
	s = f.add(step("write_brief", "skill", "One page for people in a hurry.", work("agent", "writer")))
	s.Reads, s.Writes = reads("state.findings"), writes("state.draft")
	s = f.add(step("write_report", "skill", "The whole story with sources, tables and an appendix.",
		work("agent", "writer")))
	s.Reads, s.Writes, s.Produces = reads("state.findings"), writes("state.draft"),
		[]ir.Name{{Name: "report.md"}, {Name: "sources.json"}}
	s = f.add(step("write_summary", "skill", "A summary.", work("agent", "writer")))
	s.Reads, s.Writes = reads("state.findings"), writes("state.draft")
	f.off["write_brief"], f.off["write_report"], f.off["write_summary"] = true, true, true
	s = f.add(step("check_style", "tool", "House style and spelling.", work("tool", "style_checker")))
	s.Reads, s.Writes = reads("state.draft"), writes("state.style")
	s.When = cond(`input.service_tier != "starter"`)
	s.Fallback = &ir.Name{Name: "check_simple"}
	s = f.add(step("check_simple", "transform", "Spelling only.", work("script", "python")))
	s.Reads, s.Writes = reads("state.draft"), writes("state.style")
	f.off["check_simple"] = true
	s = f.add(step("approve", "gate", "The editor reads the draft.",
		ir.Gate{Decider: ir.Person, Event: "editor.decided", Timeout: 86400_000, OnTimeout: ir.TimeoutNotify}))
	s.Reads, s.Writes = reads("state.draft", "state.style"), writes("state.approved")
	s.Next = []ir.Edge{{On: []ir.Outcome{ir.Rejected}, To: ir.Target{Step: "classify"}, Limit: 2}}
	s = f.add(step("export", "skill", "Layout as PDF through the house's own skill.", ir.Call{Child: 0}))
	s.Reads = reads("state.draft")
	s.Produces = []ir.Name{{Name: "report.pdf"}}
	f.program.Children = []ir.Program{{Name: "pdf-layout"}}
	f.add(ir.Step{
		ID: "press_release", Type: "waitpoint", Implied: true,
		Action: ir.Gate{
			Decider: ir.Event, Event: "press.ready", Timeout: 172800_000, OnTimeout: ir.TimeoutSkip,
			Name: "press_release",
		},
	})
	s = f.add(step("publish", "tool", "Put it on the site.", work("tool", "cms_publish")))
	s.Reads = reads("state.approved.gate_result")
	f.add(step("finish", "end", "Report published.", ir.End{}))
	return f.done()
}

// sixtySteps is long: chapters of a book with decisions, checks and gates.
func sixtySteps() *ir.Program {
	f := newFlow("book-factory", "Writes and checks a book, chapter by chapter.")
	f.program.Triggers = []ir.Trigger{{Kind: ir.OnDemand}}
	f.add(step("validate_input", "transform", "Check the order.", work("transform", "")))
	f.add(step("outline", "skill", "Draft an outline for the whole book.", work("agent", "planner"))).Writes = writes(
		"state.outline")
	for c := 1; c <= 7; c++ {
		n := func(s string) string { return fmt.Sprintf("%s_%d", s, c) }
		f.add(step(n("gather"), "parallel", "Collect material.", f.bundle("sources",
			step(n("web"), "worker", "", work("agent", "researcher")),
			step(n("books"), "worker", "", work("agent", "researcher"))))).Writes = writes("state." + n("material"))
		s := f.add(step(n("draft"), "skill", "Write the chapter from the material.", work("agent", "writer")))
		s.Reads, s.Writes = reads("state.outline", "state."+n("material")), writes("state."+n("chapter"))
		s.Produces = []ir.Name{{Name: n("chapter") + ".md"}}
		s = f.add(step(n("check"), "tool", "Check facts.", work("tool", "fact_checker")))
		s.Reads = reads("state." + n("chapter"))
		s.Fallback = &ir.Name{Name: n("check_by_model")}
		f.add(step(n("check_by_model"), "skill", "Check facts without the tool.", work("agent", "critic")))
		f.off[n("check_by_model")] = true
		s = f.add(step(n("verdict"), "decision", "Good enough?", ir.Route{}))
		s.Next = []ir.Edge{
			branch("good", n("polish")), branch("weak", n("rewrite")),
			{On: []ir.Outcome{ir.OK}, To: ir.Target{Exit: ir.ExitFail, Reason: "NO_BRANCH"}, Label: "no match"},
		}
		f.add(step(n("polish"), "skill", "Polish the language.", work("agent", "editor")))
		f.add(step(n("rewrite"), "skill", "Write it again, with the critic's notes.", work("agent", "writer")))
		f.off[n("polish")], f.off[n("rewrite")] = true, true
		f.add(step(n("approve"), "gate", "", ir.Gate{Decider: ir.Person, Timeout: 86400_000}))
	}
	f.add(step("assemble", "transform", "Put the chapters together.", work("script", "python"))).Produces = []ir.Name{
		{Name: "book.md"}, {Name: "book.pdf"},
	}
	f.add(step("finish", "end", "", ir.End{}))
	return f.done()
}

// loops uses features of other formats: loops, early exits, transitions on failure, state machines, fan-out over a
// list.
func loops() *ir.Program {
	f := newFlow("loops", "")
	inner := f.program.AddBlock(ir.Block{Steps: []ir.Step{
		{ID: "fetch", Type: "step", Description: "Get one page.", Action: work("command", ""), Next: []ir.Edge{
			{On: []ir.Outcome{ir.OK}, To: ir.Target{Step: "parse"}},
			{On: []ir.Outcome{ir.Failed}, To: ir.Target{Exit: ir.ExitLoop}},
		}},
		{ID: "parse", Type: "step", Description: "Take it apart.", Action: work("script", "python"), Next: []ir.Edge{
			{On: []ir.Outcome{ir.OK}, When: cond("page.last"), To: ir.Target{Exit: ir.ExitLoop}},
			{On: []ir.Outcome{ir.OK}, When: cond("page.broken"), To: ir.Target{Step: "report"}},
			{On: []ir.Outcome{ir.OK}, To: ir.Target{Exit: ir.ExitBlock}},
		}},
	}})
	each := f.program.AddBlock(ir.Block{Steps: []ir.Step{
		{
			ID: "summarise", Type: "agent", Action: work("agent", "writer"),
			Next: []ir.Edge{{On: []ir.Outcome{ir.OK}, To: ir.Target{Step: "score"}}},
		},
		{ID: "score", Type: "agent", Action: work("agent", "critic")},
	}})
	left := f.program.AddBlock(ir.Block{Steps: []ir.Step{
		{
			ID: "a", Type: "step", Action: work("tool", "x"),
			Next: []ir.Edge{{On: []ir.Outcome{ir.OK}, To: ir.Target{Step: "b"}}},
		},
		{
			ID: "b", Type: "step", Action: work("tool", "y"),
			Next: []ir.Edge{{On: []ir.Outcome{ir.OK}, When: cond("again"), To: ir.Target{Step: "a"}, Limit: 3}},
		},
	}})
	right := f.program.AddBlock(ir.Block{Steps: []ir.Step{
		{
			ID: "a", Type: "step", Action: work("tool", "x"),
			Next: []ir.Edge{{On: []ir.Outcome{ir.OK}, To: ir.Target{Step: "b"}}},
		},
		{ID: "b", Type: "step", Action: work("tool", "y")},
	}})
	f.add(step("pages", "for", "", ir.Loop{Block: inner, While: cond("more"), Max: 50}))
	s := f.add(step("judge", "fan-out", "",
		ir.Parallel{Each: &ir.Each{Items: cond("state.pages"), Var: "page", Block: each}, Join: ir.JoinAll}))
	s.Next = []ir.Edge{{On: []ir.Outcome{ir.Failed}, To: ir.Target{Step: "report"}}}
	f.add(step("both", "parallel", "", ir.Parallel{Branches: []ir.Branch{
		{Name: "left", Block: left},
		{Name: "right", Block: right},
	}, Join: ir.JoinAny}))
	s = f.add(step("improve", "agent", "Make it better.", work("agent", "writer")))
	s.StopWhen = cond("state.score > 9")
	s.Next = []ir.Edge{
		{On: []ir.Outcome{ir.OK}, When: cond("state.score < 5"), To: ir.Target{Step: "judge"}, Limit: 3},
		{On: []ir.Outcome{ir.OK}, When: cond("state.score < 7"), To: ir.Target{Step: "improve"}},
		{On: []ir.Outcome{ir.OK}, To: ir.Target{Step: "store"}},
		{On: []ir.Outcome{ir.Failed}, To: ir.Target{Step: "report"}},
	}
	f.add(step("store", "tool", "Keep it.", work("tool", "save")))
	f.add(step("finish", "end", "", ir.End{}))
	f.off["report"] = true
	f.add(step("report", "tool", "Tell somebody.", work("tool", "notify"))).Next = []ir.Edge{
		{On: []ir.Outcome{ir.OK}, To: ir.Target{Exit: ir.ExitFail, Reason: "BROKEN"}},
	}
	return f.done()
}

// samples returns the programs that the tests draw, by name.
func samples() map[string]*ir.Program {
	return map[string]*ir.Program{
		"five": fiveSteps(), "twelve": twelveSteps(), "sixty": sixtySteps(),
		"loops": loops(), "hostile": hostile(),
	}
}

// hostile has names and texts with a meaning in XML, HTML, Markdown, Mermaid or DOT, or without a glyph in any font.
func hostile() *ir.Program {
	f := newFlow(`"quoted" <name> & more`, "a\x00b\x1b[31m ]]> --> <!--")
	f.program.Triggers = []ir.Trigger{{Kind: ir.OnEvent, Event: `"<&>'`}, {Kind: "no such kind"}, {Kind: ir.OnSchedule}}
	texts := []string{
		"", "end", "subgraph", "graph", "click", "style", "default", "o", "x", "1. list", "- item", "* star",
		"+ plus", "# head",
		`"`, `'`, "`code`", `\`, `\n`, `\"`, "a;b", "a%%b", "%%{init: {}}%%", "[x]", "(x)", "{x}", "{{x}}", "|x|",
		"a-->b", "<b>bold</b>", "&amp;", "#quot;", "@{ shape: x }", ":::c", "~~~", "$$x$$",
		"<script>alert(1)</script>", "]]>", "line\nbreak\r\nand\ttab", "\u202eright to left", "日本語の説明",
		"👩‍👩‍👧‍👦 family", "e\u0301 combining",
		"\xff\xfe broken", "\u0000nul", "\u2028", " spaced  out ", strings.Repeat("x", 10_000),
		strings.Repeat("word ", 2_000), "step-end", "..", "a.b", "a b",
	}
	for i, text := range texts {
		s := f.add(step(text, text, text, work("agent", text)))
		s.Reads, s.Writes = reads(text), writes(text)
		if text != "" {
			s.When = cond(text)
			s.Produces = []ir.Name{{Name: text}}
		}
		if i%9 == 4 {
			s.Action = ir.Route{}
			s.Next = []ir.Edge{
				branch(text, texts[i-1]), branch("x"+text, texts[(i+1)%len(texts)]),
				{On: []ir.Outcome{ir.OK}, To: ir.Target{Exit: ir.ExitFail, Reason: text}, Label: text},
			}
		}
		if i%9 == 6 {
			s.Action = f.bundle(text, step(text, text, text, work("agent", text)),
				step(text, text, text, work("tool", text)))
		}
		if i%11 == 5 {
			s.Fallback = &ir.Name{Name: texts[(i+3)%len(texts)]}
		}
	}
	// A duplicate step, a branch without steps, and blocks that do not exist.
	f.add(step("end", "end", "", ir.End{Message: `"`}))
	f.add(step("hollow", "parallel", "",
		ir.Parallel{Branches: []ir.Branch{
			{Name: "none", Block: f.program.AddBlock(ir.Block{})},
			{Name: "missing", Block: 9999},
			{Name: "self", Block: ir.Body},
		}}))
	f.add(step("nothing", "parallel", "", ir.Parallel{}))
	f.add(step("astray", "call", "", ir.Call{Child: 7})).Next = []ir.Edge{
		{On: []ir.Outcome{ir.OK}, To: ir.Target{Step: "no such step"}},
	}
	f.add(ir.Step{ID: "no action"})
	return f.done()
}
