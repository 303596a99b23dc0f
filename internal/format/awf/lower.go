package awf

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xslices"
)

// lowering compiles one document to a program. A state in several loops or branches is compiled once for each, with
// other edges; loops, tainted and enclosing describe the current position.
type lowering struct {
	file      *source.File
	files     format.Files
	doc       *document
	out       *diag.List
	p         *ir.Program
	children  map[string]int // by name: index in Program.Children
	loops     int            // number of enclosing loops
	tainted   bool           // the items of an enclosing loop come from steps
	enclosing []*state       // enclosing loops and parallel steps
	vars      map[string]ir.Var
	used      []*source.File        // templates, which are read before the program exists
	internals map[string]*expr.Expr // internal expressions, by their code
}

// add adds diagnostics of other packages.
func (l *lowering) add(list diag.List) { *l.out = append(*l.out, list...) }

// program compiles the document.
func (l *lowering) program() *ir.Program {
	d := l.doc
	l.vars = map[string]ir.Var{}
	l.p = &ir.Program{
		Format: Format{}.Name(), Version: d.version.Value, Description: d.description.Value,
		Meta:  d.meta,
		Tools: ir.Tools{AllowAll: true, WorkersMayUse: true}, Blocks: make([]ir.Block, 1),
		Span: cmp.Or(d.name.Span, d.first),
	}
	l.p.Name = cmp.Or(d.name.Value, strings.TrimSuffix(path.Base(l.file.Path), path.Ext(l.file.Path)))
	for _, f := range l.used {
		l.p.AddFile(f, "template")
	}
	l.inputs()
	l.checkTargets()
	l.body()
	for _, name := range slices.Sorted(maps.Keys(l.vars)) {
		l.p.Vars = append(l.p.Vars, l.vars[name])
	}
	return l.p
}

// checkTargets reports undefined states and missing parts of the workflow.
func (l *lowering) checkTargets() {
	d := l.doc
	if d.stateless {
		return
	}
	if len(d.states) == 0 {
		l.out.Errorf(CodeNoTerminal, d.first, "Add a state below \"states:\", and one with \"type: terminal\".",
			"The workflow has no states.")
		return
	}
	if d.initial.Value != "" {
		l.checkDefined(d.initial, nil, "starts at")
	}
	terminal := false
	for _, s := range d.states {
		terminal = terminal || s.kind == kindTerminal || s.kind == "" || s.inline != nil
		for _, t := range s.targets() {
			l.checkDefined(t, s, "leads to")
		}
		for _, list := range [][]text.Text{s.branches, s.body} {
			names := map[string]bool{}
			for i, name := range list {
				l.checkDefined(name, s, "runs")
				if names[name.Value] {
					l.out.Errorf(CodeRepeated, name.Span, "Remove one of them.", "%q is listed twice.", name.Value).
						RemoveEntry("this one", text.ItemEntry(list, i))
				}
				names[name.Value] = true
			}
		}
		if s.agent != nil && s.agent.continueFrom.Value != "" {
			l.checkDefined(s.agent.continueFrom, s, "continues the conversation of")
		}
	}
	if !terminal {
		l.out.Errorf(CodeNoTerminal, d.states[0].name.Span, "Add a state with \"type: terminal\".",
			"The workflow has no terminal state.")
	}
}

// targets returns the states that a state names as successors.
func (s *state) targets() []text.Text {
	out := []text.Text{s.success, s.failure}
	for _, t := range s.transitions {
		out = append(out, t.to)
	}
	return slices.DeleteFunc(out, func(t text.Text) bool { return t.Value == "" })
}

// checkDefined reports a reference to an undefined state, by a state or, if s is nil, by the
// workflow.
func (l *lowering) checkDefined(name text.Text, s *state, leads string) {
	if l.doc.byName[name.Value] != nil || name.Value == "" {
		return
	}
	subject := "The workflow " + leads
	if s != nil {
		subject = fmt.Sprintf("State %q %s", s.name.Value, leads)
	}
	l.p.Unread.Steps = true // the intended state may be reached only from here
	l.out.Errorf(CodeNoState, name.Span, "", "%s %q, which is not defined.", subject, name.Value).
		Suggest(name.Value, l.names())
}

// names returns the names of all states.
func (l *lowering) names() []string {
	return xslices.Map(l.doc.states, func(s *state) string { return s.name.Value })
}

// place is the position of a state's step in the program.
type place struct {
	loop      *state   // the loop that runs the block; nil in the body and in branches
	members   []string // the states of the loop's body, in order
	branch    bool
	endsRound bool      // an inner loop is left for the end of this body
	hooks     []ir.Step // post hooks of loops that inner states leave
	up        *place
}

func (at *place) member(name string) bool { return slices.Contains(at.members, name) }

// maxNested bounds the number of states in all loops and parallel steps. A state in several of
// them counts for each, because it is a separate step in each.
const maxNested = 100_000

// tooMany reports states with more nested states than maxNested. A few states that contain each
// other twice per level would otherwise grow to millions.
func (l *lowering) tooMany() bool {
	held := map[*state]int{}
	var count func(s *state) int
	count = func(s *state) int {
		if len(s.branches) == 0 && len(s.body) == 0 {
			return 0
		}
		if n, ok := held[s]; ok {
			return n
		}
		held[s] = 0 // a cycle, which is reported elsewhere
		n := 0
		for _, name := range slices.Concat(s.branches, s.body) {
			if inner := l.doc.byName[name.Value]; inner != nil {
				n = min(n+1+count(inner), maxNested+1)
			}
		}
		held[s] = n
		return n
	}
	total := 0
	for _, s := range l.doc.states {
		if total += count(s); total > maxNested {
			l.out.Errorf(CodeTooDeep, s.name.Span, "Move the shared states to another workflow and call it.",
				"Loops and parallel steps contain more than %d nested states.", maxNested)
			return true
		}
	}
	return false
}

// body compiles the states that are reachable from the initial state, and those that nothing
// leads to, which package check reports.
func (l *lowering) body() {
	d := l.doc
	if l.tooMany() {
		l.p.Unread.Steps = true
		return
	}
	inside := map[string]bool{} // in a loop or a parallel step
	for _, s := range d.states {
		for _, name := range slices.Concat(s.branches, s.body) {
			inside[name.Value] = true
		}
	}
	reached := make(map[string]bool, len(d.states))
	todo := []string{d.initial.Value}
	var leave func(s *state, members []string, loops []string)
	// leave follows the transitions out of a loop.
	leave = func(s *state, members []string, loops []string) {
		if s.kind != kindForEach && s.kind != kindWhile {
			return
		}
		loops = append(slices.Clone(loops), s.name.Value)
		own := text.Values(s.body)
		all := append(slices.Clone(members), own...)
		for _, name := range own {
			inner := d.byName[name]
			if inner == nil || slices.Contains(loops, name) {
				continue
			}
			for _, t := range inner.targets() {
				if !slices.Contains(all, t.Value) && !slices.Contains(loops, t.Value) {
					todo = append(todo, t.Value)
				}
			}
			leave(inner, all, loops)
		}
	}
	for len(todo) > 0 {
		name := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		s := d.byName[name]
		if s == nil || reached[name] {
			continue
		}
		reached[name] = true
		todo = append(todo, text.Values(s.targets())...)
		leave(s, nil, nil)
	}
	at := &place{}
	steps := make([]ir.Step, 0, len(d.states)+2) // steps are large, so avoid growing the slice
	begin := d.byName[d.initial.Value]
	if begin != nil {
		steps = append(steps, l.startSteps(begin)...)
		steps = append(steps, l.steps(begin, at)...)
	}
	for _, s := range d.states {
		if s != begin && d.byName[s.name.Value] == s && (reached[s.name.Value] || !inside[s.name.Value]) {
			steps = append(steps, l.steps(s, at)...)
		}
	}
	steps = append(steps, l.catchFailures(steps)...)
	if hooks := d.hooks[workflowCancel]; len(hooks) > 0 && len(steps) > 0 {
		cancelled := l.hookStep("workflow:cancel", hooks, hookSettings{}, d.first)
		l.p.OnCancel = cancelled.ID
		steps = append(steps, cancelled)
	}
	l.p.Blocks[ir.Body] = ir.Block{Steps: steps, Span: d.first}
	if len(steps) == 0 {
		l.p.Unread.Steps = true
	}
}

// block compiles the states of a loop's body or of a branch.
func (l *lowering) block(name string, states []text.Text, at *place) ir.BlockID {
	id := l.p.AddBlock(ir.Block{Name: name})
	var steps []ir.Step
	for _, n := range states {
		if s := l.doc.byName[n.Value]; s != nil && !slices.Contains(l.enclosing, s) {
			steps = append(steps, l.steps(s, at)...)
		}
	}
	if len(steps) == 0 { // a mistake, reported elsewhere
		steps = []ir.Step{{ID: name + ":nothing", Type: "nothing", Implied: true, Action: ir.Route{}}}
		l.p.Unread.Steps = true
	}
	l.p.Blocks[id].Steps = steps
	return id
}

// step compiles the action of a state, without its edges.
func (l *lowering) step(s *state, at *place) ir.Step {
	out := ir.Step{
		ID: s.name.Value, Type: s.kind, Description: s.description.Value, Retry: s.retry, Timeout: s.timeout,
		Span: s.name.Span,
	}
	if s.kind != kindTerminal {
		out.Writes = []ir.Write{{Path: "states." + s.name.Value, Always: true}}
	}
	if s.hasSteps() { // other kinds evaluate the timeout themselves
		out.TimeoutExpr = l.timeout(s)
	}
	l.enclosing = append(l.enclosing, s)
	defer func() { l.enclosing = l.enclosing[:len(l.enclosing)-1] }()
	switch s.kind {
	case kindCommand:
		l.command(s, &out)
	case kindTerminal:
		l.terminal(s, &out)
	case kindParallel:
		l.parallel(s, &out, at)
	case kindForEach, kindWhile:
		l.loop(s, &out, at)
	case kindOperation:
		l.operation(s, &out)
	case kindCall:
		l.call(s, &out)
	case kindAgent:
		l.agent(s, &out)
	default: // already reported; the program must stay well-formed
		out.Action, l.p.Unread.Steps = ir.Route{}, true
	}
	return out
}

// timeout returns the timeout of a state that contains others, if it is a template.
func (l *lowering) timeout(s *state) *expr.Expr {
	if s.timeoutText.Value == "" {
		return nil
	}
	e := l.value(expr.AWFTemplate, s.timeoutText)
	if l.loops == 0 && slices.ContainsFunc(e.Paths(), func(p expr.Path) bool { return p.Segments[0] == "loop" }) {
		return nil // already reported
	}
	l.rejectFileReads(e, diag.Error, s.timeoutText.Span, fmt.Sprintf("The timeout of %q", s.name.Value))
	return e
}

// rejectFileReads reports a template that reads a file where control flow depends on it: a resumed run
// must decide the same, even if the file has changed.
func (l *lowering) rejectFileReads(e *expr.Expr, severity diag.Severity, at source.Span, what string) {
	if e.ReadsFiles() {
		l.out.Reportf(CodeBadValue, severity, at,
			"Print the file in an earlier step (\"cat FILE\") and use {{.states.STEP.Output}}.",
			"%s cannot be read from a file.", what)
	}
}

// States of steps whose action produces none.
const (
	failedState = `{"Output": "", "Stderr": failure.error, "ExitCode": failure.exit ?? -1, "Status": outcome, ` +
		`"Error": failure.error}`
	groupState = `outcome == "ok" ? {"Output": "", "Stderr": "", "ExitCode": 0, "Status": "completed", ` +
		`"Response": result}` + otherwiseFailed
	loopState = `outcome == "ok" ? {"Output": "completed " + string(result.iterations) + " iterations", "Stderr": ` +
		`"", "ExitCode": 0, "Status": "completed"}` + otherwiseFailed
	otherwiseFailed = ` : {"Output": "", "Stderr": failure.error, "ExitCode": failure.exit ?? 1, ` +
		`"Status": outcome, "Error": failure.error}`
)

// internalExpr returns an expression of this package, not of the file. Steps share it.
func (l *lowering) internalExpr(code string) *expr.Expr {
	if e := l.internals[code]; e != nil {
		return e
	}
	e, list := expr.ParseValue(expr.AWF, code, source.Span{})
	if list.Errors() {
		panic(fmt.Sprintf("awf: %s: %v", code, list)) // a bug in this package
	}
	l.internals[code] = e
	return e
}

// terminal compiles an end. One that succeeds returns the workflow's outputs.
func (l *lowering) terminal(s *state, out *ir.Step) {
	end := ir.End{Failed: s.status.Value == "failure", Message: s.message.Value}
	if end.Failed {
		if end.Message == "" {
			end.Message = fmt.Sprintf("the workflow reached %q", s.name.Value)
		} else if strings.Contains(end.Message, "{{") {
			end.MessageExpr = l.value(expr.AWFTemplate, s.message)
			l.rejectFileReads(end.MessageExpr, diag.Warning, s.message.Span, "The message")
		}
		out.Action = end
		return
	}
	out.Writes = []ir.Write{{Path: "output"}}
	out.Result = l.internalExpr(`result.Output ?? ""`)
	if len(l.doc.outputs) > 0 {
		out.Result, out.Reads = l.outputs()
	}
	out.Action = end
}

// outputs returns the expression of the workflow's outputs, and the variables that it reads.
func (l *lowering) outputs() (*expr.Expr, []ir.Ref) {
	texts := map[string]string{}
	var reads []ir.Ref
	for _, o := range l.doc.outputs {
		from := o.from
		if from.Value == "" { // only the name of a state
			from = text.Text{Value: "states." + o.name.Value + ".Output", Span: o.name.Span}
		}
		dialect := expr.AWF
		if strings.Contains(from.Value, "{{") {
			dialect = expr.AWFTemplate
		}
		e := l.value(dialect, from)
		if e == nil {
			continue
		}
		if e.ReadsFiles() {
			l.rejectFileReads(e, diag.Error, from.Span, fmt.Sprintf("The output %q", o.name.Value))
			continue
		}
		reads = l.refs(reads, e)
		texts[o.name.Value] = from.Value
	}
	e, list := expr.ParseValue(expr.AWFOutputs, string(format.JSON(texts)), source.Span{})
	if list.Errors() {
		l.out.Errorf(CodeBadValue, l.doc.outputs[0].name.Span, "Use \"from: states.STEP.Output\" for each output.",
			"The outputs are invalid.")
		return l.internalExpr(`""`), nil
	}
	return e, reads
}

// parallel compiles a parallel state. A branch is a single state, so its transitions have no effect.
func (l *lowering) parallel(s *state, out *ir.Step, at *place) {
	par := ir.Parallel{Join: ir.JoinAll, MaxConcurrent: s.maxConcurrent, Span: s.at}
	switch s.strategy {
	case "any_succeed":
		par.Join = ir.JoinAny
	case "best_effort":
		par.Join = ir.JoinBest
	}
	if par.MaxConcurrent == 0 && len(s.branches) > defaultConcurrent {
		par.MaxConcurrent = defaultConcurrent
	}
	for _, name := range s.branches {
		inner := l.doc.byName[name.Value]
		if inner == nil {
			continue
		}
		if slices.Contains(l.enclosing, inner) {
			l.reportSelfContainment(s, name)
			continue
		}
		for _, t := range inner.targets() {
			if inner.kind != kindForEach && inner.kind != kindWhile && l.doc.byName[t.Value] != nil &&
				l.doc.byName[t.Value].kind != kindTerminal && t.Value != s.name.Value {
				l.out.Notef(CodeIgnoredWay, t.Span,
					fmt.Sprintf(
						"Add the transition to %q, or move the states of the branch to another workflow and call it.",
						s.name.Value), "The transition is ignored: %q is a branch of %q, and a branch is one state.",
					inner.name.Value, s.name.Value)
			}
		}
		branch := ir.Branch{Name: name.Value, Block: l.block(name.Value, []text.Text{name},
			&place{branch: true, up: at}), Span: name.Span}
		par.Branches = append(par.Branches, branch)
	}
	out.Action, out.Result = par, l.internalExpr(groupState)
}

// defaultConcurrent is the default maximum of concurrent branches.
const defaultConcurrent = 32

// reportSelfContainment reports a state that is in its own body or branches.
func (l *lowering) reportSelfContainment(s *state, name text.Text) {
	found := l.out.Errorf(CodeContains, name.Span,
		fmt.Sprintf("Remove %q from the states that %q runs.", name.Value, s.name.Value), "%q contains itself.",
		name.Value)
	for _, list := range [][]text.Text{s.branches, s.body} {
		if i := slices.Index(list, name); i >= 0 {
			found.RemoveEntry(name.Value, text.ItemEntry(list, i))
		}
	}
}

// loop compiles both kinds of loops.
func (l *lowering) loop(s *state, out *ir.Step, at *place) {
	l.loops++
	defer func() { l.loops-- }()
	inside := &place{loop: s, up: at}
	var body []text.Text
	for _, name := range s.body {
		if inner := l.doc.byName[name.Value]; inner != nil && slices.Contains(l.enclosing, inner) {
			l.reportSelfContainment(s, name)
			continue
		}
		if inside.member(name.Value) {
			continue // already reported as a duplicate
		}
		body = append(body, name)
		inside.members = append(inside.members, name.Value)
	}
	loop := ir.Loop{Max: int(s.max), Span: s.at}
	before := l.tainted
	if s.kind == kindForEach {
		loop.Max = cmp.Or(loop.Max, maxIterations)
		items := text.Text{Value: "[]"}
		if s.items != nil {
			items = s.items.Text()
			if s.items.Kind == text.List {
				items.Value = string(s.items.JSON())
			}
		}
		loop.Each = &ir.Each{Items: l.value(expr.AWFItems, items), Var: "loop.item"}
		l.rejectFileReads(loop.Each.Items, diag.Error, items.Span, fmt.Sprintf("The list of items of %q", s.name.Value))
		if loop.Each.Items == nil {
			loop.Each.Items = l.internalExpr("[]")
		}
		l.tainted = l.tainted || l.comesFromSteps(loop.Each.Items)
	} else {
		loop.Max = cmp.Or(loop.Max, defaultIterations)
		if s.while.Value != "" {
			loop.While = l.condition(expr.AWF, s.while)
		}
		// A loop that reaches its limit succeeds, if a transition follows.
		loop.FailAtMax = at.loop == nil && !at.branch && s.success.Value == "" && len(s.transitions) == 0 &&
			(s.failure.Value != "" || s.inline != nil)
	}
	loop.Block = l.block(s.name.Value, body, inside)
	if inside.endsRound {
		end := ir.Step{ID: nextRound(s), Type: "nothing", Implied: true, Action: ir.Route{}, Span: s.name.Span}
		l.p.Blocks[loop.Block].Steps = append(l.p.Blocks[loop.Block].Steps, end)
	}
	l.tainted = before
	if s.breakWhen.Value != "" {
		loop.BreakWhen = l.condition(expr.AWFLenient, s.breakWhen)
	}
	if s.maxText.Value != "" {
		loop.Max, loop.MaxExpr = maxIterations, l.value(expr.AWFNumber, s.maxText)
		l.rejectFileReads(loop.MaxExpr, diag.Error, s.maxText.Span, fmt.Sprintf("The limit of %q", s.name.Value))
	}
	if loop.Each != nil && s.items != nil {
		l.checkLength(s, &loop)
	}
	out.Action, out.Result = loop, l.internalExpr(loopState)
}

// checkLength reports a list in the file that has more items than the loop has iterations.
func (l *lowering) checkLength(s *state, loop *ir.Loop) {
	constant := func(e *expr.Expr) any {
		if e == nil || len(e.Paths()) > 0 {
			return nil
		}
		v, err := e.Eval(expr.Values{})
		if err != nil {
			return nil
		}
		return v
	}
	most := s.max
	if loop.MaxExpr != nil {
		if n, err := strconv.ParseInt(fmt.Sprint(constant(loop.MaxExpr)), 10, 64); err == nil {
			most = n
		}
	}
	if list, ok := constant(loop.Each.Items).([]any); ok && most > 0 && int64(len(list)) > most {
		found := l.out.Warnf(CodeBadValue, s.items.Span,
			fmt.Sprintf("Use \"max_iterations: %d\", or remove it.", len(list)),
			"The list has %d items, but \"max_iterations\" is %d, so the loop fails after %d of them.", len(list), most,
			most)
		if limit := s.from.Entry("max_iterations"); !limit.Key.IsZero() {
			if s.maxText.IsZero() && len(list) <= maxIterations {
				found.WriteValue(limit.Value, strconv.Itoa(len(list)))
			}
			found.RemoveEntry("max_iterations", limit)
		}
	}
}

// comesFromSteps reports whether the value of an expression comes from steps.
func (l *lowering) comesFromSteps(e *expr.Expr) bool {
	return slices.ContainsFunc(e.Paths(), func(p expr.Path) bool {
		return p.Written[0] == "states" || p.Written[0] == "error" || p.Written[0] == "loop" && l.tainted
	})
}

// value parses an expression of any type. It returns nil after an error.
func (l *lowering) value(d expr.Dialect, t text.Text) *expr.Expr {
	e := l.expression(d, t, diag.Error)
	if e != nil {
		l.checkIndexed(e)
	}
	return e
}

// condition parses a condition. It returns nil after an error. Paths that do not exist are only warnings, because they
// are nil in a condition.
func (l *lowering) condition(d expr.Dialect, t text.Text) *expr.Expr {
	return l.expression(d, t, diag.Warning)
}

// expression parses an expression. unknown is the severity of paths that do not exist.
func (l *lowering) expression(d expr.Dialect, t text.Text, unknown diag.Severity) *expr.Expr {
	e, list := expr.ParseWithin(d, t.Value, t.Span, t.SourceMap(l.file))
	l.add(list)
	if list.Errors() {
		return nil
	}
	l.checkPaths(e, unknown)
	l.declareVars(e)
	return e
}

// call compiles a step that runs another workflow.
func (l *lowering) call(s *state, out *ir.Step) {
	call := ir.Call{Child: -1, Span: s.at}
	child := l.child(s)
	if child >= 0 {
		call.Child = child
		program := &l.p.Children[child]
		types, tainted := inputTypes(program), false
		if s.inputs != nil {
			for _, pair := range s.inputs.Pairs {
				kind, known := types[pair.Key.Value]
				if !known {
					l.out.Warnf(CodeBadValue, pair.Key.Span, "",
						"Workflow %q has no input %q, so the value is ignored.", s.workflow.Value, pair.Key.Value).
						Suggest(pair.Key.Value, slices.Sorted(maps.Keys(types)))
					continue
				}
				given, dialect, ok := l.callInput(s, pair, kind)
				if !ok { // reported; not also as missing
					call.Inputs = append(call.Inputs, ir.Binding{
						Name: pair.Key.Value, Value: l.internalExpr("nil"), Span: pair.Key.Span,
					})
					continue
				}
				if e := l.value(dialect, given); e != nil {
					l.rejectFileReads(e, diag.Error, given.Span, fmt.Sprintf("The input %q", pair.Key.Value))
					tainted = tainted || l.comesFromSteps(e)
					call.Inputs = append(call.Inputs, ir.Binding{Name: pair.Key.Value, Value: e, Span: pair.Key.Span})
				}
			}
		}
		l.callOutputs(s, program, &call)
		if tainted {
			l.p.Children = append(l.p.Children, markUntrusted(&l.p.Children[call.Child]))
			call.Child = len(l.p.Children) - 1
		}
	}
	if call.Child < 0 { // already reported; the program must stay well-formed
		out.Action, l.p.Unread.Steps = ir.Route{}, true
		return
	}
	out.Action, out.Result = call, l.internalExpr(callState(&call, &l.p.Children[call.Child]))
}

// callInput returns the text of an input for a called workflow, and how to read it. A text without placeholders is a
// literal. It returns false after reporting one that does not fit the type.
func (l *lowering) callInput(s *state, pair text.Pair, kind string) (text.Text, expr.Dialect, bool) {
	given := pair.Value.Text()
	if pair.Value.Kind >= text.List {
		given.Value = string(pair.Value.JSON())
	}
	if kind != "integer" && kind != "boolean" {
		return given, expr.AWFTemplate, true
	}
	if value, ok := asInput(pair.Value, kind); ok {
		given.Value = fmt.Sprint(value)
	} else if !strings.Contains(given.Value, "{{") && !readsValues().MatchString(given.Value) {
		l.out.Errorf(CodeBadValue, pair.Value.Span,
			fmt.Sprintf("Use %s, or a placeholder such as {{.inputs.%s}}.", article(kind), pair.Key.Value),
			"Input %q of workflow %q is not %s.", pair.Key.Value, s.workflow.Value, article(kind))
		return given, "", false
	}
	return given, expr.AWFNumber, true
}

// readsValues matches an expression without braces that reads a value.
var readsValues = lazyregexp.New(`\b(inputs|states|loop|env|workflow)\.`)

// taintableKinds are the kinds of steps with the setting "doubts", which lists untrusted names.
var taintableKinds = []string{"command", "hook", "operation"}

// markUntrusted returns a copy of a program with inputs that come from steps: its commands, and those
// of the programs it calls, must treat them as data.
func markUntrusted(p *ir.Program) ir.Program {
	out := *p
	out.CloneSteps()
	for s := range out.Steps() {
		if t, ok := s.Action.(ir.Task); ok && slices.Contains(taintableKinds, t.Kind) {
			t.Settings = slices.DeleteFunc(slices.Clone(t.Settings),
				func(one ir.Setting) bool { return one.Name == "doubts" })
			t.Settings.Put("doubts", []string{"loop", "inputs"}, s.Span)
			s.Action = t
		}
	}
	out.Children = nil
	for i := range p.Children {
		out.Children = append(out.Children, markUntrusted(&p.Children[i]))
	}
	return out
}

// callState returns the expression for the state of a call: each output by name, and as Output
// the only one that the call names, or all of them as JSON. A call that names none has all of the child.
func callState(call *ir.Call, child *ir.Program) string {
	var output string
	var fields []string
	for _, b := range call.Outputs {
		fields = append(fields, fmt.Sprintf("%q: result[%q]", b.Name, b.Name))
	}
	switch len(call.Outputs) {
	case 0:
		names, _ := childNames(child)
		for _, name := range names {
			if !slices.Contains(expr.StateFields(), name) {
				fields = append(fields, fmt.Sprintf("%q: result[%q]", name, name))
			}
		}
		output = `result == nil ? "" : type(result) == "string" ? result : toJSON(result)`
	case 1:
		output = fmt.Sprintf("result[%q] ?? \"\"", call.Outputs[0].Name)
	default:
		output = "toJSON(result)"
	}
	well := `{"Output": (` + output + `), "Stderr": "", "ExitCode": 0, "Status": "completed", "Response": result, ` +
		`"Outputs": result`
	for _, f := range fields {
		well += ", " + f
	}
	return `outcome == "ok" ? ` + well + `}` + otherwiseFailed
}

// callOutputs compiles the outputs that a call takes from the child. AWF's documentation
// describes "child: parent" and shows "parent: child", and its program looks for a state. The
// side that names something in the child is taken as the child's.
func (l *lowering) callOutputs(s *state, program *ir.Program, call *ir.Call) {
	if s.outputs == nil {
		return
	}
	outputs, states := childNames(program)
	code := func(name string) string {
		switch {
		case slices.Contains(outputs, name):
			return fmt.Sprintf("output[%q]", name)
		case slices.Contains(states, name):
			return fmt.Sprintf("states[%q].Output", name)
		}
		return ""
	}
	for _, pair := range s.outputs.Pairs {
		if pair.Value.Kind >= text.List {
			l.out.Errorf(CodeWrongType, pair.Value.Span, fmt.Sprintf("Use \"%s: NAME\".", pair.Key.Value),
				"An output of workflow %q is mapped to %s, not to a name.", s.workflow.Value, pair.Value.Kind)
			continue
		}
		theirs, ours := pair.Key.Value, cmp.Or(pair.Value.Value, pair.Key.Value)
		if strings.Contains(ours, "{{") || strings.HasPrefix(ours, "states.") { // an expression in the child's scope
			e, list := expr.ParseValue(expr.AWF, strings.TrimSpace(ours), source.Span{})
			if !list.Errors() {
				l.childHas(s, program, e, pair.Value.Span)
				call.Outputs = append(call.Outputs, ir.Binding{Name: theirs, Value: e, Span: pair.Key.Span})
				continue
			}
		}
		from := code(theirs)
		if from == "" {
			theirs, ours = ours, theirs
			from = code(theirs)
		}
		if from == "" {
			l.out.Errorf(CodeBadValue, pair.Key.Span, "", "Workflow %q has no output or state named %q or %q.",
				s.workflow.Value, pair.Key.Value, pair.Value.Value).Suggest(pair.Key.Value, append(outputs, states...))
			continue
		}
		call.Outputs = append(call.Outputs, ir.Binding{Name: ours, Value: l.internalExpr(from), Span: pair.Key.Span})
	}
}

// childHas reports names in an expression that the child does not define.
func (l *lowering) childHas(s *state, program *ir.Program, e *expr.Expr, at source.Span) {
	_, states := childNames(program)
	for _, p := range e.Paths() {
		name := strings.Join(p.Written, ".")
		switch {
		case p.Segments[0] != "states" || len(p.Segments) < 2:
			l.out.Errorf(CodeBadValue, at, "Use the name of one of its outputs or states.",
				"Workflow %q does not define %q.", s.workflow.Value, name)
		case !slices.Contains(states, p.Segments[1]):
			l.out.Errorf(CodeBadValue, at, "", "Workflow %q has no state %q.", s.workflow.Value, p.Segments[1]).
				Suggest(p.Segments[1], states)
		case len(p.Segments) > 2 && !slices.Contains(expr.StateFields(), p.Segments[2]):
			l.out.Errorf(CodeNoProperty, at, "", "State %q has no property %q.", p.Segments[1], p.Segments[2]).
				Suggest(p.Segments[2], expr.StateFields())
		}
	}
}

// childNames returns the declared outputs and the steps of a child.
func childNames(p *ir.Program) (outputs, states []string) {
	for s := range p.Steps() {
		if _, end := s.Action.(ir.End); !end && !s.Implied {
			states = append(states, s.ID)
		}
		if s.Result == nil || len(s.Writes) == 0 || s.Writes[0].Path != "output" {
			continue
		}
		outputs = xslices.AppendNew(outputs, s.Result.OutputNames()...)
	}
	return outputs, states
}

// child compiles the workflow that a step calls, once per name, and returns its index, or -1
// after an error.
func (l *lowering) child(s *state) int {
	name := s.workflow
	if name.Value == "" {
		return -1
	}
	if i, ok := l.children[name.Value]; ok {
		return i
	}
	l.children[name.Value] = -1
	f, err := l.findWorkflow(name.Value)
	if err != nil {
		if strings.Contains(name.Value, "/") && !strings.HasSuffix(name.Value, ".yaml") {
			l.out.Errorf(CodeUnsupported, name.Span, "Copy the workflow to .awf/workflows and call it by its own name.",
				"%q is a workflow of a pack, and packs are not supported.", name.Value)
			return -1
		}
		if several, ok := errors.AsType[*ambiguousError](err); ok {
			l.out.Errorf(CodeNoWorkflow, name.Span, "Call the workflow by the name of its file, or rename the others.",
				"Several workflows are named %q: %v.", name.Value, several)
			return -1
		}
		l.out.Errorf(CodeNoWorkflow, name.Span, l.workflowHelp(name.Value, err), "Workflow %q does not exist.",
			name.Value)
		return -1
	}
	program, list := l.files.Compile(f, name.Span)
	l.add(list)
	if program == nil || list.Errors() {
		return -1
	}
	if depth(program) > maxDepth {
		l.out.Errorf(CodeTooDeep, name.Span, "Call the inner workflows one after the other from this workflow.",
			"Workflows call each other more than %d levels deep.", maxDepth)
		return -1
	}
	l.p.Children = append(l.p.Children, *program)
	l.children[name.Value] = len(l.p.Children) - 1
	l.p.AddFile(f, "workflow")
	return l.children[name.Value]
}

// maxDepth bounds how deeply workflows may call each other.
const maxDepth = 10

// depth returns how many levels of programs a program has, including itself.
func depth(p *ir.Program) int {
	deepest := 0
	for i := range p.Children {
		deepest = max(deepest, depth(&p.Children[i]))
	}
	return deepest + 1
}

// findWorkflow finds a workflow by the name of its file, on AWF's search path and beside the
// calling file, and then by its own name.
func (l *lowering) findWorkflow(name string) (f *source.File, err error) {
	lookup := func() (*source.File, error) { return l.lookup("workflows", name+".yaml") }
	if inFolder(l.file, "workflows") {
		if f, err = lookup(); err == nil {
			return f, nil
		}
	}
	refs := []string{name + ".yaml", name + ".yml", ".awf/workflows/" + name + ".yaml", name}
	if ext := path.Ext(name); ext == ".yaml" || ext == ".yml" {
		refs = []string{name}
	}
	if f, err = l.first(refs...); err == nil {
		return f, nil
	}
	if f, err := lookup(); err == nil {
		return f, nil
	}
	switch files := l.workflowsNamed(name); len(files) {
	case 0:
		return nil, err // it suggests similar names beside the file
	case 1:
		return files[0], nil
	default:
		return nil, &ambiguousError{files}
	}
}

// ambiguousError is the error for a name that several workflows have.
type ambiguousError struct{ files []*source.File }

func (e *ambiguousError) Error() string {
	names := xslices.Map(e.files, func(f *source.File) string { return path.Base(f.Path) })
	return strings.Join(names, ", ")
}

// workflowsNamed finds the workflows on AWF's search path by the key "name" in their files.
func (l *lowering) workflowsNamed(name string) []*source.File {
	path, ok := l.files.(format.SearchPath)
	if !ok {
		return nil
	}
	var out []*source.File
	for _, file := range path.Names("workflows") {
		f, err := path.Lookup("workflows", file)
		if err != nil || !strings.Contains(f.Text, name) {
			continue
		}
		if node, list := text.ParseYAML(f, 0, len(f.Text)); node != nil && !list.Errors() && node.Kind == text.Map {
			if n := node.Get("name"); n != nil && n.Value == name {
				out = append(out, f)
			}
		}
	}
	return out
}

// lookup finds a file by name on AWF's search path, inside and outside of the project.
func (l *lowering) lookup(kind, name string) (*source.File, error) {
	if path, ok := l.files.(format.SearchPath); ok {
		return path.Lookup(kind, name)
	}
	return nil, &source.RefError{Ref: name, Problem: source.RefMissing}
}

// workflowHelp returns help about a workflow that cannot be found.
func (l *lowering) workflowHelp(name string, err error) string {
	var failed *source.RefError
	if errors.As(err, &failed) && failed.Problem != source.RefMissing {
		return fmt.Sprintf("The workflow must be a file of the project: %v.", err)
	}
	if failed != nil && len(failed.Near) > 0 {
		return fmt.Sprintf("Did you mean %q?", strings.TrimSuffix(path.Base(failed.Near[0]), ".yaml"))
	}
	return fmt.Sprintf("Create .awf/workflows/%s.yaml, or call another workflow.", name)
}

// template reads a workflow template. It returns nil after reporting an error.
func (l *lowering) template(name text.Text) *text.Node {
	file := name.Value + ".yaml"
	f, err := l.find(file, "templates")
	if err != nil {
		f, err = l.files.Read(l.file, "templates/"+file)
	}
	if err != nil {
		l.out.Errorf(CodeTemplate, name.Span, fmt.Sprintf("Create .awf/templates/%s.yaml.", name.Value),
			"Template %q does not exist.", name.Value)
		return nil
	}
	node, list := text.ParseYAML(f, 0, len(f.Text))
	l.add(list)
	if node == nil || list.Errors() {
		return nil
	}
	l.used = append(l.used, f)
	return node
}

// folder returns the folder of the workflow file, absolute if it is known.
func (l *lowering) folder() string {
	if l.file.Abs == "" {
		return path.Dir(l.file.Path)
	}
	return filepath.Dir(l.file.Abs)
}
