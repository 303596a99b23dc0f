package check

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/xmaps"
	"github.com/espalier-run/espalier/internal/xslices"
)

// The variables of every program: input and workflow metadata, which no step writes, and the output.
const (
	inputRoot    = "input"
	workflowRoot = "workflow"
	outputRoot   = "output"
	// Metadata of the run, and the ending of the previous step.
	runRoot  = "run"
	lastRoot = "last"
)

// data checks that values are written before they are read. It compares the order of steps only, along all ways through
// the graph; whether a condition ever lets a run take a way is not considered.
func (c *checker) data() {
	w := c.written()
	c.steps(func(b ir.BlockID, s *ir.Step) {
		for i := range s.Reads {
			r := &s.Reads[i]
			if r.Optional {
				c.optional(w, s, r)
				continue
			}
			if up := c.flow.inside[b]; up.step != nil && slices.Contains(up.step.Reads, *r) {
				continue // passed down by the enclosing step, and checked there
			}
			c.read(w, s, r.Path, cmp.Or(r.Span, s.Span))
		}
		for _, path := range s.TimeoutExpr.Paths() {
			c.read(w, s, strings.Join(path.Segments, "."), cmp.Or(path.Span, s.Span))
		}
		for _, cond := range conditionsOf(s) {
			later := map[*ir.Step]bool{}
			for _, path := range cond.expr.Paths() {
				c.named(w, s, cond, path, later)
			}
		}
	})
	c.agentsWithoutData(w)
	c.outputs(w)
}

// optional warns about a read of a variable that may be missing, if it always is.
func (c *checker) optional(w *writers, s *ir.Step, r *ir.Ref) {
	steps := w.of(r.Path)
	if !strings.Contains(r.Path, ".") && !r.Members || len(steps) == 0 || !c.canRun(s) ||
		!slices.ContainsFunc(steps, c.canRun) {
		return
	}
	if !w.anyBefore(steps, s) {
		c.writtenLater(s, steps, r.Path, diag.Warning, cmp.Or(r.Span, s.Span), "reads")
	}
}

// agentsWithoutData reports steps whose agents receive no data of the run, although there is some.
func (c *checker) agentsWithoutData(w *writers) {
	asks := map[*ir.Step]bool{}
	for _, t := range c.found {
		if len(t.uses.Agents) > 0 && !t.uses.Verbatim {
			asks[t.step] = true
		}
	}
	c.steps(func(b ir.BlockID, s *ir.Step) {
		if b != ir.Body || s.Implied || len(s.Reads) > 0 || !c.passesOnlyReads(s, asks) {
			return
		}
		earlier := func(by writer) bool { return by.step != s && w.before(by.step, s) }
		if c.p.Input == nil && !slices.ContainsFunc(w.by, earlier) {
			return
		}
		c.add(CodeGivenNothing, diag.Note, s.Span, "Let it read what it needs: the input, or what another step writes.",
			"Step %q reads nothing, so its agent receives only the description of the step.", s.ID)
	})
}

// passesOnlyReads reports whether the reads of a step are all the data that some agent, worker or child receives.
func (c *checker) passesOnlyReads(s *ir.Step, asks map[*ir.Step]bool) bool {
	switch a := s.Action.(type) {
	case ir.Task:
		return asks[s]
	case ir.Call:
		return a.PassReads
	case ir.Parallel:
		for b := range c.flow.blocksOf(s) {
			steps := c.p.Blocks[b].Steps
			if len(steps) != 1 || !asks[&steps[0]] || len(steps[0].Reads) > 0 {
				return false
			}
		}
		return len(a.Branches) > 0
	}
	return false
}

// writers indexes the writes of a program. after caches which nodes can run after a write, because many reads ask about
// the same few writers.
type writers struct {
	c     *checker
	by    []writer
	vars  []string // declared variables, including loop variables
	after map[*ir.Step][]bool
	// unwritten are the uses of names that no step writes.
	unwritten firstUses
}

// firstUses reports undefined names. The first use of a name is a diagnostic; further uses are added to it as related
// places.
type firstUses struct {
	list *diag.List
	by   map[string]int // index of the diagnostic, by name
}

// report calls report for the first use of a name, which adds the diagnostic, and adds other uses to that one.
func (f *firstUses) report(name string, at source.Span, also string, report func()) {
	if i, ok := f.by[name]; ok {
		d := &(*f.list)[i]
		if at != d.Span && !slices.ContainsFunc(d.Related, func(r diag.Related) bool { return r.Span == at }) {
			d.Relate(at, also)
		}
		return
	}
	before := len(*f.list)
	if report(); len(*f.list) > before {
		xmaps.Set(&f.by, name, before)
	}
}

// loopVar is the variable that each iteration sets.
const loopVar = "loop"

// writer is one write of a step.
type writer struct {
	path string
	step *ir.Step
	at   source.Span
}

// written collects the writes, and the variables that are set without a write.
func (c *checker) written() *writers {
	w := &writers{c: c, after: map[*ir.Step][]bool{}, unwritten: firstUses{list: &c.list}}
	w.vars = xslices.Map(c.p.Vars, func(one ir.Var) string { return one.Path })
	c.steps(func(_ ir.BlockID, s *ir.Step) {
		for i := range s.Writes {
			w.by = append(w.by, writer{path: s.Writes[i].Path, step: s, at: s.Writes[i].Span})
		}
		each := s.Each()
		if _, loop := s.Action.(ir.Loop); loop || each != nil {
			w.vars = append(w.vars, loopVar)
		}
		if each != nil {
			w.vars = append(w.vars, each.Var)
		}
	})
	return w
}

// of returns the steps that write a path or a part of it.
func (w *writers) of(path string) []*ir.Step {
	var list []*ir.Step
	for i := range w.by {
		if ir.Overlap(w.by[i].path, path) && (len(list) == 0 || list[len(list)-1] != w.by[i].step) {
			list = append(list, w.by[i].step)
		}
	}
	return list
}

// declared reports whether a path is a declared variable or a part of one, or contains one.
func (w *writers) declared(path string) bool {
	return slices.ContainsFunc(w.vars, func(v string) bool { return ir.Overlap(v, path) })
}

// keys returns all names that a read or a condition can refer to.
func (w *writers) keys() []string {
	paths := xslices.Map(w.by, func(one writer) string { return one.path })
	inputs := xslices.Map(w.c.domains.inputs(), func(name string) string { return inputRoot + "." + name })
	return slices.Concat(paths, w.vars, inputs)
}

// help returns suggestions for a name that does not exist.
func (w *writers) help(path string, facts ...string) string {
	if w.c.p.Unread.Explains(diag.Warning, path) {
		return "Fix the syntax error first: that part of the file could not be parsed."
	}
	keys := w.keys()
	if near := w.nearest(path, facts); near != "" {
		return fmt.Sprintf("Did you mean %q?", near)
	}
	if alike := slices.DeleteFunc(slices.Clone(keys),
		func(key string) bool { return rootOf(key) != rootOf(path) }); len(alike) > 0 {
		keys = alike // the other names are unrelated
	}
	if help := diag.DidYouMean(path, keys); help != "" {
		return help
	}
	return fmt.Sprintf("Let an earlier step write %q.", path)
}

// nearest returns the name that was probably intended, even if only the part that a step would write is misspelled.
func (w *writers) nearest(path string, facts []string) string {
	all := append(slices.Clone(facts), w.keys()...)
	return cmp.Or(diag.Nearest(path, all), diag.Nearest(writable(path), all))
}

// nearestForFix is nearest for fixes of a step: it returns "" if the name is written too late for the step, or if an
// unreadable part of the file may define the right name.
func (w *writers) nearestForFix(s *ir.Step, path string, facts ...string) string {
	if w.c.p.Unread.Any() {
		return ""
	}
	near := w.nearest(path, facts)
	steps := w.of(near)
	if len(steps) > 0 && !w.anyBefore(steps, s) {
		return ""
	}
	return near
}

// writable returns the part of a path that a step would write.
func writable(path string) string {
	if segments := strings.SplitN(path, ".", 3); len(segments) == 3 {
		return segments[0] + "." + segments[1]
	}
	return path
}

// near returns the place where the name is written that help suggests.
func (w *writers) near(path string, facts ...string) source.Span {
	if w.c.p.Unread.Explains(diag.Warning, path) {
		return source.Span{}
	}
	near := w.nearest(path, facts)
	for i := range w.by {
		if w.by[i].path == near && !w.by[i].at.IsZero() {
			return w.by[i].at
		}
	}
	return source.Span{}
}

// before reports whether some path leads from a write to the step. The write happens if its step succeeds, or is a gate
// that is rejected.
func (w *writers) before(from, to *ir.Step) bool {
	reach, ok := w.after[from]
	if !ok {
		f := w.c.flow
		var next []int
		for _, n := range f.nodesOf[from] {
			f.visitSuccessors(n, func(at int, way *flowEdge) bool { return at != n || writesAfter(from, way.on) },
				func(m int) { next = append(next, m) })
		}
		reach = f.walk(next, anyEdge)
		w.after[from] = reach
	}
	return slices.ContainsFunc(w.c.flow.nodesOf[to], func(n int) bool { return reach[n] })
}

// anyBefore reports whether some path leads from one of the writes to the step.
func (w *writers) anyBefore(from []*ir.Step, to *ir.Step) bool {
	return slices.ContainsFunc(from, func(one *ir.Step) bool { return w.before(one, to) })
}

// writesAfter reports whether a step writes if it ends with an outcome.
func writesAfter(s *ir.Step, o ir.Outcome) bool {
	return o == ir.OK || o == ir.Rejected || slices.ContainsFunc(s.Writes, func(w ir.Write) bool { return w.Always })
}

// read checks one read of a step.
func (c *checker) read(w *writers, s *ir.Step, path string, at source.Span) {
	switch rootOf(path) {
	case inputRoot:
		c.input(path, diag.Error, at)
		return
	case runRoot, lastRoot:
		return
	case workflowRoot:
		if !c.domains.fact(path) {
			c.missing(strings.TrimPrefix(path, workflowRoot+"."), CodeNeverWritten, diag.Error, at, "",
				"Step %q reads %q, which is not in the workflow's metadata.", s.ID, path).
				Suggest(path, c.domains.facts())
		}
		return
	}
	if w.declared(path) {
		return
	}
	steps := w.of(path)
	if len(steps) == 0 {
		w.unwritten.report(writable(path), at, "also read here", func() {
			c.missing(path, CodeNeverWritten, diag.Error, at, w.help(path),
				"Step %q reads %q, but no step writes it.", s.ID, path).
				Relate(w.near(path), "written here").Replace(path, w.nearestForFix(s, path))
		})
		return
	}
	if c.undeclaredOutput(w, path, at) {
		return
	}
	if !c.canRun(s) || !slices.ContainsFunc(steps, c.canRun) {
		return // reported as unreachable; order does not matter there
	}
	if !w.anyBefore(steps, s) {
		c.writtenLater(s, steps, path, diag.Error, at, "reads")
		return
	}
	if without, writer := c.whyMissing(s, path, steps); without != "" {
		found := c.missing(path, CodeMaybeMissing, diag.Note, at,
			"The step then reads null, and a template that needs the value fails. Write the value on every path to "+
				"this step, or give the step a condition.", "%q may be missing when step %q reads it: %s.", path, s.ID,
			without).Relate(writer.Span, "written here")
		if found != nil {
			found.Lenient = true
		}
	}
}

// writtenLater reports a use of a name that only steps write that cannot run before. The message depends on why: the
// step itself writes it, the writer is on another branch, or further down in the file.
func (c *checker) writtenLater(s *ir.Step, steps []*ir.Step, path string, severity diag.Severity, at source.Span,
	does string,
) {
	if steps[0] == s {
		c.missing(path, CodeWrittenLater, severity, at,
			"Let an earlier step write it, or read the values that it is computed from.",
			"Step %q %s %q, but only this step writes it, after reading it.", s.ID, does, path)
		return
	}
	if from := steps[0].Span; from.File == s.Span.File && from.Start < s.Span.Start {
		c.missing(path, CodeWrittenLater, severity, at,
			fmt.Sprintf("Let the branch of step %q continue with step %q, or let a step before %q write %q.",
				steps[0].ID, s.ID, s.ID, path),
			"Step %q %s %q, but no path leads there from step %q, which writes it.", s.ID, does, path, steps[0].ID).
			Relate(from, "written only here")
		return
	}
	c.missing(path, CodeWrittenLater, severity, at,
		fmt.Sprintf("Move step %q before step %q, or let an earlier step write %q.", steps[0].ID, s.ID, path),
		"Step %q %s %q before step %q writes it.", s.ID, does, path, steps[0].ID).
		Relate(steps[0].Span, "written only here")
}

// whyMissing describes how a step can be reached before the path is written. It returns "" if that is impossible or the
// step's own condition excludes it.
func (c *checker) whyMissing(s *ir.Step, path string, steps []*ir.Step) (why string, writer *ir.Step) {
	if s.When != nil {
		for _, p := range s.When.Paths() {
			if ir.Overlap(strings.Join(p.Segments, "."), path) {
				return "", nil
			}
		}
	}
	if !c.reachableWithout(s, steps) {
		return "", nil
	}
	for _, from := range steps {
		if from != s && from.When != nil {
			if s.When != nil && s.When.Text == from.When.Text {
				return "", nil // both run, or neither does
			}
			return fmt.Sprintf("step %q, which writes it, runs only when %s", from.ID, from.When.Text), from
		}
		if from.SkipOnError {
			return fmt.Sprintf("step %q, which writes it, is skipped when it fails", from.ID), from
		}
	}
	return "some paths to the step skip the steps that write it", steps[0]
}

// reachableWithout reports whether a way leads to a step without passing one of the writers.
func (c *checker) reachableWithout(s *ir.Step, writers []*ir.Step) bool {
	isWriter := func(at *ir.Step) bool { return slices.Contains(writers, at) || c.containsAny(at, writers) }
	entered := c.flow.walk(c.flow.entry(), func(n int, w *flowEdge) bool {
		at := c.flow.nodes[n].step
		return (!isWriter(at) || !writesAfter(at, w.on)) && !(w.leaps && c.leavesWriter(n, w.to, writers))
	})
	return slices.ContainsFunc(c.flow.nodesOf[s], func(n int) bool { return entered[n] })
}

// leavesWriter reports whether the way between two nodes leaves a loop that is one of the steps: leaving a loop also
// writes.
func (c *checker) leavesWriter(from, to int, steps []*ir.Step) bool {
	for up := range c.flow.enclosingSteps(c.flow.nodes[from].block) {
		loop, ok := up.step.Action.(ir.Loop)
		if ok && slices.Contains(steps, up.step) && to != noStep &&
			!c.flow.isInside(c.flow.nodes[to].block, loop.Block) {
			return true
		}
	}
	return false
}

// containsAny reports whether one of the steps is nested in outer.
func (c *checker) containsAny(outer *ir.Step, steps []*ir.Step) bool {
	switch outer.Action.(type) {
	case ir.Loop, ir.Parallel:
	default:
		return false
	}
	for _, s := range steps {
		for up := range c.flow.enclosingSteps(c.blockOf(s)) {
			if up.step == outer {
				return true
			}
		}
	}
	return false
}

// blockOf returns the block that a step is in.
func (c *checker) blockOf(s *ir.Step) ir.BlockID { return c.flow.nodes[c.flow.nodesOf[s][0]].block }

// input checks a read of the run's input against the input schema.
func (c *checker) input(path string, worst diag.Severity, at source.Span) {
	missing, closed := undeclared(c.domains.schema, strings.Split(path, "."))
	if missing == "" {
		return
	}
	severity, message := diag.Warning, fmt.Sprintf("The input schema does not declare %q.", missing)
	if closed {
		severity, message = worst,
			fmt.Sprintf("There is no input %q: only declared inputs are allowed.",
				strings.TrimPrefix(missing, inputRoot+"."))
	}
	found := c.add(CodeNoSuchInput, severity, at, c.inputHelp(missing), "%s", message)
	if c.domains.schema.empty() { // there is no declaration to show
		return
	}
	var around []string // pointer to the place of the missing declaration
	for _, name := range strings.Split(missing, ".")[1:] {
		around = append(around, "properties", name)
	}
	found.Relate(c.p.Input.At(pointerTo(around[:len(around)-1]...)), "the declaration")
}

// inputHelp returns help about an input that is not declared.
func (c *checker) inputHelp(missing string) string {
	missing = strings.TrimPrefix(missing, inputRoot+".")
	if there := c.domains.inputs(); diag.Nearest(missing, there) != "" {
		return diag.DidYouMean(missing, there)
	}
	return fmt.Sprintf("Declare %q among the inputs of the workflow.", missing)
}

// named checks a name in a condition. later has the steps that the condition reads too early: each is reported once.
func (c *checker) named(w *writers, s *ir.Step, cond condition, path expr.Path, later map[*ir.Step]bool) {
	dotted := strings.Join(path.Segments, ".")
	at := cmp.Or(path.Span, cond.expr.Span, s.Span)
	worst := diag.Error
	if cond.expr.Dialect.MissingIsFalse() {
		worst = diag.Warning // the condition can be decided nevertheless
	}
	switch rootOf(dotted) {
	case inputRoot:
		c.input(dotted, worst, at)
		return
	case runRoot, lastRoot:
		return
	case workflowRoot:
		if len(path.Segments) == 1 || c.domains.fact(dotted) {
			return
		}
		c.missing(path.Segments[1], CodeNoSuchName, diag.Error, at, "",
			"The workflow has no metadata %q, so it is always null here.", path.Segments[1]).
			Suggest(dotted, c.domains.facts())
		return
	}
	if w.declared(dotted) || s.ReadsPath(dotted) {
		return // checked as a read of the step
	}
	steps := w.of(dotted)
	if len(steps) == 0 {
		severity := worst
		if len(path.Segments) == 1 && !c.domains.inputKnown() {
			severity = diag.Warning // the input may contain it
		}
		w.unwritten.report(writable(dotted), at, "also used here", func() {
			facts := c.domains.facts()
			c.missing(dotted, CodeNoSuchName, severity, at, w.help(dotted, facts...),
				"%q is not defined: no step writes it, so it is always null.", dotted).
				Relate(w.near(dotted, facts...), "written here").Replace(dotted, w.nearestForFix(s, dotted, facts...))
		})
		return
	}
	if c.undeclaredOutput(w, dotted, at) || !c.canRun(s) || !slices.ContainsFunc(steps, c.canRun) || later[steps[0]] {
		return
	}
	inside := func(from *ir.Step) bool { return cond.after && (from == s || c.containsAny(s, []*ir.Step{from})) }
	if !slices.ContainsFunc(steps, func(from *ir.Step) bool { return inside(from) || w.before(from, s) }) {
		later[steps[0]] = true
		c.writtenLater(s, steps, dotted, worst, at, "uses")
		return
	}
	outside := func(from *ir.Step) bool { return !inside(from) && w.before(from, s) }
	if cond.first && !slices.ContainsFunc(steps, outside) && !readsLoop(cond.expr) {
		later[steps[0]] = true
		c.missing(dotted, CodeWrittenLater, diag.Warning, at,
			fmt.Sprintf(
				"Comparisons with null are false, except !=, so the loop may never start. Run step %q before the "+
					"loop, or use: loop.First or …", steps[0].ID),
			"%q is null before the first iteration: only the loop %q itself writes it.", dotted, s.ID).
			Relate(steps[0].Span, "written only here")
	}
}

// readsLoop reports whether a condition reads the loop variable, such as the number of the iteration.
func readsLoop(e *expr.Expr) bool {
	return slices.ContainsFunc(e.Paths(), func(p expr.Path) bool { return p.Segments[0] == loopVar })
}

// undeclaredOutput reports a read of a part of the output that its schema does not declare, if steps write the output
// only as a whole.
func (c *checker) undeclaredOutput(w *writers, path string, at source.Span) bool {
	if rootOf(path) != outputRoot ||
		slices.ContainsFunc(w.by,
			func(by writer) bool { return by.path != outputRoot && ir.Overlap(by.path, path) }) {
		return false
	}
	declared := shapeOf(c.domains.output)
	missing, closed := undeclared(declared, strings.Split(path, "."))
	if missing == "" {
		return false
	}
	severity, message := diag.Warning,
		fmt.Sprintf("The output schema does not declare %q, so it is probably null here.", missing)
	if closed {
		severity, message = diag.Error,
			fmt.Sprintf("The output can never have %q: its schema allows no other properties.", missing)
	}
	var there []string
	for name := range declared.properties() {
		there = append(there, outputRoot+"."+name)
	}
	c.missing(missing, CodeNoSuchName, severity, at, "", "%s", message).
		Relate(c.p.Output.At("/properties"), "the declaration").Suggest(missing, there)
	return true
}

// outputs reports required outputs that no step writes, or no step of a branch.
func (c *checker) outputs(w *writers) {
	if c.p.Output == nil || len(w.by) == 0 {
		return
	}
	declared := shapeOf(c.domains.output)
	for i, name := range declared.required() {
		path := outputRoot + "." + name
		steps := w.of(path)
		switch {
		case w.declared(path):
		case len(steps) > 0 && !declared.hasDefault(name):
			c.branchOutput(w, path, steps)
		case len(steps) == 0:
			c.missing(path, CodeNoOutput, diag.Warning, c.p.Output.At(pointerTo("required", strconv.Itoa(i))),
				fmt.Sprintf("Add %q to the writes of the step that creates it, or remove it from the required list.",
					path), "The output must have %q, but no step writes %q.", name, path)
		}
	}
}

// branchOutput reports the branches of a decision after which a required output is never written, although another
// branch writes it and the run can finish. A step that is only skipped counts as one that writes.
func (c *checker) branchOutput(w *writers, path string, steps []*ir.Step) {
	var written, ends []int
	for n := range c.flow.nodes {
		at := &c.flow.nodes[n]
		if slices.Contains(steps, at.step) {
			written = append(written, n)
		}
		if at.ends || at.closes && at.block == ir.Body {
			ends = append(ends, n)
		}
	}
	writes, finishes := c.flow.leadsTo(written), c.flow.leadsTo(ends)
	for i := range c.p.Blocks[ir.Body].Steps {
		s := &c.p.Blocks[ir.Body].Steps[i]
		n := c.flow.start[ir.Body] + i
		written := func(from *ir.Step) bool { return from == s || w.before(from, s) }
		if !c.reached[n] || !writes[n] || c.containsAny(s, steps) || slices.ContainsFunc(steps, written) {
			continue
		}
		seen := map[ir.Target]bool{}
		for j := range s.Next {
			e := &s.Next[j]
			if seen[e.To] || !slices.Contains(e.On, ir.OK) {
				continue
			}
			to, _ := c.flow.find(ir.Body, e.To.Step)
			if e.To.Exit != ir.ExitBlock && (to == noStep || writes[to] || !finishes[to]) {
				continue
			}
			seen[e.To] = true
			way := fmt.Sprintf("the way from step %q to %q", s.ID, e.To.Step)
			if e.Label != "" {
				way = fmt.Sprintf("branch %q of step %q", e.Label, s.ID)
			}
			c.missing(path, CodeBranchNoOutput, diag.Warning, cmp.Or(e.Span, s.Span),
				fmt.Sprintf("A run that takes it fails at its end. Let the branch continue with a step that writes "+
					"%q, or do not require it.", path),
				"No step writes %q after %s, and the output must have it.", path, way,
			).Relate(steps[0].Span, "written here")
		}
	}
}

// rootOf returns the first segment of a dotted path.
func rootOf(path string) string {
	root, _, _ := strings.Cut(path, ".")
	return root
}
