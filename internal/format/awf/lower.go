package awf

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

// lowering turns one document into a program.
type lowering struct {
	file     *source.File
	files    format.Files
	doc      *document
	out      *diag.List
	p        *ir.Program
	children map[string]int  // by path: position in Program.Children
	seen     map[string]bool // what was reported once already
	loops    int             // around what is being lowered
	doubtful bool            // what one of these goes through came from steps
	within   []*state        // loops and parallel steps being lowered
	vars     map[string]ir.Var
	used     []*source.File        // templates, which are read before there is a program
	owned    map[string]*expr.Expr // expressions of ours, by their code
}

func (l *lowering) report(code diag.Code, severity diag.Severity, at source.Span, message, help string, related ...diag.Related) {
	d := diag.Diagnostic{Code: code, Severity: severity, Span: at, Message: message, Help: help, Related: related}
	key := fmt.Sprint(code, at, message)
	if !l.seen[key] { // a state may be lowered several times
		l.seen[key] = true
		l.out.Add(d)
	}
}

func (l *lowering) add(list diag.List) {
	for _, d := range list {
		key := fmt.Sprint(d.Code, d.Span, d.Message)
		if !l.seen[key] {
			l.seen[key] = true
			l.out.Add(d)
		}
	}
}

func (l *lowering) program() *ir.Program {
	d := l.doc
	l.vars = map[string]ir.Var{}
	l.p = &ir.Program{
		Format: Format{}.Name(), Name: d.name.Value, Version: d.version.Value, Description: d.description.Value, Meta: d.meta,
		Tools: ir.Tools{AllowAll: true, WorkersMayUse: true}, Blocks: make([]ir.Block, 1), Span: d.first,
	}
	if !d.name.Span.IsZero() {
		l.p.Span = d.name.Span
	}
	if l.p.Name == "" {
		l.p.Name = strings.TrimSuffix(path.Base(l.file.Path), path.Ext(l.file.Path))
	}
	for _, f := range l.used {
		l.pin(f, "template")
	}
	l.inputs()
	l.targets()
	l.body()
	for _, name := range slices.Sorted(maps.Keys(l.vars)) {
		l.p.Vars = append(l.p.Vars, l.vars[name])
	}
	return l.p
}

// targets reports states that do not exist, and what is missing altogether.
func (l *lowering) targets() {
	d := l.doc
	if d.stateless {
		return
	}
	if len(d.states) == 0 {
		l.report(CodeNoTerminal, diag.Error, d.first, "The workflow has no states.", "Add a state below \"states:\", and one of \"type: terminal\".")
		return
	}
	if d.initial.Value != "" {
		l.exists(d.initial, nil, "begins at")
	}
	terminal := false
	for _, s := range d.states {
		terminal = terminal || s.kind == kindTerminal || s.kind == "" || s.inline != nil
		for t := range s.ways() {
			l.exists(t, s, "leads to")
		}
		for _, list := range [][]text.Text{s.branches, s.body} {
			names := map[string]bool{}
			for _, name := range list {
				l.exists(name, s, "runs")
				if names[name.Value] {
					l.report(CodeRepeated, diag.Error, name.Span, fmt.Sprintf("%q is listed twice.", name.Value), "Remove one of them.")
				}
				names[name.Value] = true
			}
		}
		if s.agent != nil && s.agent.continueFrom.Value != "" {
			l.exists(s.agent.continueFrom, s, "goes on with the conversation of")
		}
	}
	if !terminal {
		l.report(CodeNoTerminal, diag.Error, d.states[0].name.Span, "No state ends the workflow.", "Add a state with \"type: terminal\".")
	}
}

// ways are the states that a state names as what follows it.
func (s *state) ways() iter.Seq[text.Text] {
	return func(yield func(text.Text) bool) {
		if s.success.Value != "" && !yield(s.success) || s.failure.Value != "" && !yield(s.failure) {
			return
		}
		for i := range s.transitions {
			if to := s.transitions[i].to; to.Value != "" && !yield(to) {
				return
			}
		}
	}
}

// exists reports that a state, or the workflow when it is nil, leads to a name
// that no state has.
func (l *lowering) exists(name text.Text, s *state, leads string) {
	if l.doc.byName[name.Value] != nil || name.Value == "" {
		return
	}
	who := "The workflow " + leads
	if s != nil {
		who = fmt.Sprintf("State %q %s", s.name.Value, leads)
	}
	l.p.Unread.Steps = true // what is meant may be entered by nothing else
	l.report(CodeNoState, diag.Error, name.Span, fmt.Sprintf("%s %q, and there is no such state.", who, name.Value), diag.DidYouMean(name.Value, l.names()))
}

// names are those of all states.
func (l *lowering) names() []string {
	var names []string
	for _, s := range l.doc.states {
		names = append(names, s.name.Value)
	}
	return names
}

// place is where a state's step stands.
type place struct {
	loop    *state   // that runs the block; nil in the body and in branches
	members []string // of the loop's body, in their order
	branch  bool
	closes  bool      // an inner loop is left for the end of the body
	hooks   []ir.Step // of a loop, where states of its body leave it
	up      *place
}

func (at *place) member(name string) bool { return slices.Contains(at.members, name) }

// mostHeld is how many states loops and parallel steps may hold altogether. One that
// several of them hold counts for each, because it is a step of its own in each.
const mostHeld = 100_000

// tooMany reports states that hold so many others that nobody could run them: a
// few that hold each other twice on each level are millions.
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
		held[s] = 0 // in a circle, which is reported elsewhere
		n := 0
		for _, name := range slices.Concat(s.branches, s.body) {
			if inner := l.doc.byName[name.Value]; inner != nil {
				n = min(n+1+count(inner), mostHeld+1)
			}
		}
		held[s] = n
		return n
	}
	total := 0
	for _, s := range l.doc.states {
		if total += count(s); total > mostHeld {
			l.report(CodeTooDeep, diag.Error, s.name.Span, fmt.Sprintf("Loops and parallel steps hold more than %d states here, one in another.", mostHeld),
				"Put what several of them share into a workflow of its own and call it.")
			return true
		}
	}
	return false
}

// body lowers the states that are reached from the beginning, and those that
// nothing leads to: the checks say so.
func (l *lowering) body() {
	d := l.doc
	if l.tooMany() {
		l.p.Unread.Steps = true
		return
	}
	inside := map[string]bool{} // belongs to a loop or a parallel step
	for _, s := range d.states {
		for _, list := range [][]text.Text{s.branches, s.body} {
			for _, name := range list {
				inside[name.Value] = true
			}
		}
	}
	reached := make(map[string]bool, len(d.states))
	todo := []string{d.initial.Value}
	var leave func(s *state, members []string, loops []string)
	// leave follows the ways out of a loop.
	leave = func(s *state, members []string, loops []string) {
		if s.kind != kindForEach && s.kind != kindWhile {
			return
		}
		loops = append(slices.Clone(loops), s.name.Value)
		var own []string
		for _, name := range s.body {
			own = append(own, name.Value)
		}
		all := append(slices.Clone(members), own...)
		for _, name := range own {
			inner := d.byName[name]
			if inner == nil || slices.Contains(loops, name) {
				continue
			}
			for t := range inner.ways() {
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
		for t := range s.ways() {
			todo = append(todo, t.Value)
		}
		leave(s, nil, nil)
	}
	at := &place{}
	steps := make([]ir.Step, 0, len(d.states)+2) // often a step each: they are large, and growing would move them
	begin := d.byName[d.initial.Value]
	if begin != nil {
		steps = append(steps, l.begins(begin)...)
		steps = append(steps, l.steps(begin, at)...)
	}
	for _, s := range d.states {
		if s != begin && d.byName[s.name.Value] == s && (reached[s.name.Value] || !inside[s.name.Value]) {
			steps = append(steps, l.steps(s, at)...)
		}
	}
	steps = append(steps, l.catches(steps)...)
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

// block lowers the states of a loop's body or of a branch.
func (l *lowering) block(name string, states []text.Text, at *place) ir.BlockID {
	id := l.p.AddBlock(ir.Block{Name: name})
	var steps []ir.Step
	for _, n := range states {
		if s := l.doc.byName[n.Value]; s != nil && !slices.Contains(l.within, s) {
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

// step lowers what a state does, without its edges.
func (l *lowering) step(s *state, at *place) ir.Step {
	out := ir.Step{
		ID: s.name.Value, Type: s.kind, Description: s.description.Value, Retry: s.retry, Timeout: s.timeout, Span: s.name.Span,
	}
	if s.kind != kindTerminal {
		out.Writes = []ir.Write{{Path: "states." + s.name.Value, Always: true}}
	}
	if s.holds() { // others do their work within it, so it is not theirs to see to
		out.TimeoutExpr = l.timeout(s)
	}
	l.within = append(l.within, s)
	defer func() { l.within = l.within[:len(l.within)-1] }()
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
	default: // reported; what is left must still be a program
		out.Action, l.p.Unread.Steps = ir.Route{}, true
	}
	return out
}

// timeout is how long the steps that a state holds may take, if a template says so.
func (l *lowering) timeout(s *state) *expr.Expr {
	if s.timeoutText.Value == "" {
		return nil
	}
	e := l.value(expr.AWFTemplate, s.timeoutText)
	if l.loops == 0 && slices.ContainsFunc(e.Paths(), func(p expr.Path) bool { return p.Segments[0] == "loop" }) {
		return nil // reported: there is none
	}
	l.fromFile(e, diag.Error, s.timeoutText.Span, fmt.Sprintf("The timeout of %q", s.name.Value))
	return e
}

// fromFile reports a template that reads a file where the run decides what it does
// next: it must decide the same when it is resumed, whatever became of the file.
func (l *lowering) fromFile(e *expr.Expr, severity diag.Severity, at source.Span, what string) {
	if e.ReadsFiles() {
		l.report(CodeBadValue, severity, at, what+" cannot be read from a file.", "Let a step before print it, as in \"cat FILE\", and write {{.states.STEP.Output}} here.")
	}
}

// The states of steps whose work gives none by itself.
const (
	failedState = `{"Output": "", "Stderr": failure.error, "ExitCode": failure.exit ?? -1, "Status": outcome, "Error": failure.error}`
	groupState  = `outcome == "ok" ? {"Output": "", "Stderr": "", "ExitCode": 0, "Status": "completed", "Response": result} : ` +
		`{"Output": "", "Stderr": failure.error, "ExitCode": failure.exit ?? 1, "Status": outcome, "Error": failure.error}`
	loopState = `outcome == "ok" ? {"Output": "completed " + string(result.iterations) + " iterations", "Stderr": "", "ExitCode": 0, "Status": "completed"} : ` +
		`{"Output": "", "Stderr": failure.error, "ExitCode": failure.exit ?? 1, "Status": outcome, "Error": failure.error}`
)

// own is an expression of ours, not the author's. Steps share it.
func (l *lowering) own(code string) *expr.Expr {
	if e := l.owned[code]; e != nil {
		return e
	}
	e, list := expr.ParseValue(expr.AWF, code, source.Span{})
	if list.Errors() {
		panic(fmt.Sprintf("awf: %s: %v", code, list)) // a programming mistake
	}
	l.owned[code] = e
	return e
}

func (l *lowering) terminal(s *state, out *ir.Step) {
	end := ir.End{Failed: s.status.Value == "failure", Message: s.message.Value}
	if end.Failed {
		if end.Message == "" {
			end.Message = fmt.Sprintf("the workflow reached %q", s.name.Value)
		} else if strings.Contains(end.Message, "{{") {
			end.MessageExpr = l.value(expr.AWFTemplate, s.message)
			l.fromFile(end.MessageExpr, diag.Warning, s.message.Span, "The message")
		}
		out.Action = end
		return
	}
	out.Writes = []ir.Write{{Path: "output"}}
	out.Result = l.own(`result.Output ?? ""`)
	if len(l.doc.outputs) > 0 {
		out.Result, out.Reads = l.outputs()
	}
	out.Action = end
}

// outputs is the expression of what the workflow gives, and what it reads.
func (l *lowering) outputs() (*expr.Expr, []ir.Ref) {
	texts := map[string]string{}
	var reads []ir.Ref
	for _, o := range l.doc.outputs {
		from := o.from
		if from.Value == "" { // the name of a state alone
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
			l.fromFile(e, diag.Error, from.Span, fmt.Sprintf("The output %q", o.name.Value))
			continue
		}
		reads = l.refs(reads, e)
		texts[o.name.Value] = from.Value
	}
	written, err := json.Marshal(texts)
	if err != nil {
		panic(err) // texts can always be written
	}
	e, list := expr.ParseValue(expr.AWFOutputs, string(written), source.Span{})
	if list.Errors() {
		l.report(CodeBadValue, diag.Error, l.doc.outputs[0].name.Span, "The outputs cannot be read.", "Write each as \"from: states.STEP.Output\".")
		return l.own(`""`), nil
	}
	return e, reads
}

func (l *lowering) parallel(s *state, out *ir.Step, at *place) {
	par := ir.Parallel{Join: ir.JoinAll, MaxConcurrent: s.most, Span: s.at}
	switch s.strategy {
	case "any_succeed":
		par.Join = ir.JoinAny
	case "best_effort":
		par.Join = ir.JoinBest
	}
	if par.MaxConcurrent == 0 && len(s.branches) > usualConcurrent {
		par.MaxConcurrent = usualConcurrent
	}
	for _, name := range s.branches {
		inner := l.doc.byName[name.Value]
		if inner == nil {
			continue
		}
		if slices.Contains(l.within, inner) {
			l.contains(s, name)
			continue
		}
		for t := range inner.ways() {
			if inner.kind != kindForEach && inner.kind != kindWhile && l.doc.byName[t.Value] != nil && l.doc.byName[t.Value].kind != kindTerminal && t.Value != s.name.Value {
				l.report(CodeIgnoredWay, diag.Note, t.Span, fmt.Sprintf("Nothing follows this: %q runs as a branch of %q, and a branch is one state.", inner.name.Value, s.name.Value),
					fmt.Sprintf("Let %q lead there, or put the states of the branch into a workflow of their own and call it.", s.name.Value))
			}
		}
		branch := ir.Branch{Name: name.Value, Block: l.block(name.Value, []text.Text{name}, &place{branch: true, up: at}), Span: name.Span}
		par.Branches = append(par.Branches, branch)
	}
	out.Action, out.Result = par, l.own(groupState)
}

// usualConcurrent is how many branches run at once when nobody says.
const usualConcurrent = 32

func (l *lowering) contains(s *state, name text.Text) {
	l.report(CodeContains, diag.Error, name.Span, fmt.Sprintf("%q contains itself here.", name.Value),
		fmt.Sprintf("Remove %q from the states that %q runs.", name.Value, s.name.Value))
}

func (l *lowering) loop(s *state, out *ir.Step, at *place) {
	l.loops++
	defer func() { l.loops-- }()
	inside := &place{loop: s, up: at}
	var body []text.Text
	for _, name := range s.body {
		if inner := l.doc.byName[name.Value]; inner != nil && slices.Contains(l.within, inner) {
			l.contains(s, name)
			continue
		}
		if inside.member(name.Value) {
			continue // reported: it is listed twice
		}
		body = append(body, name)
		inside.members = append(inside.members, name.Value)
	}
	loop := ir.Loop{Max: int(s.max), Span: s.at}
	before := l.doubtful
	if s.kind == kindForEach {
		if loop.Max == 0 {
			loop.Max = maxIterations
		}
		items := text.Text{Value: "[]"}
		if s.items != nil {
			items = s.items.Text()
			if s.items.Kind == text.List {
				items.Value = string(s.items.JSON())
			}
		}
		loop.Each = &ir.Each{Items: l.value(expr.AWFItems, items), Var: "loop.item"}
		l.fromFile(loop.Each.Items, diag.Error, items.Span, fmt.Sprintf("What %q goes through", s.name.Value))
		if loop.Each.Items == nil {
			loop.Each.Items = l.own("[]")
		}
		l.doubtful = l.doubtful || l.ofSteps(loop.Each.Items)
	} else {
		if loop.Max == 0 {
			loop.Max = usualIterations
		}
		if s.while.Value != "" {
			loop.While = l.condition(expr.AWF, s.while)
		}
		// One that reaches its limit ends well, if that leads anywhere.
		loop.FailAtMax = at.loop == nil && !at.branch && s.success.Value == "" && len(s.transitions) == 0 && (s.failure.Value != "" || s.inline != nil)
	}
	loop.Block = l.block(s.name.Value, body, inside)
	if inside.closes {
		end := ir.Step{ID: nextRound(s), Type: "nothing", Implied: true, Action: ir.Route{}, Span: s.name.Span}
		l.p.Blocks[loop.Block].Steps = append(l.p.Blocks[loop.Block].Steps, end)
	}
	l.doubtful = before
	if s.breakWhen.Value != "" {
		loop.BreakWhen = l.condition(expr.AWFLenient, s.breakWhen)
	}
	if s.maxText.Value != "" {
		loop.Max, loop.MaxExpr = maxIterations, l.value(expr.AWFNumber, s.maxText)
		l.fromFile(loop.MaxExpr, diag.Error, s.maxText.Span, fmt.Sprintf("The limit of %q", s.name.Value))
	}
	out.Action, out.Result = loop, l.own(loopState)
}

// ofSteps tells whether what an expression gives came from steps.
func (l *lowering) ofSteps(e *expr.Expr) bool {
	return slices.ContainsFunc(e.Paths(), func(p expr.Path) bool {
		return p.Written[0] == "states" || p.Written[0] == "error" || p.Written[0] == "loop" && l.doubtful
	})
}

// value parses an expression that may have any value; nil after a mistake.
func (l *lowering) value(d expr.Dialect, t text.Text) *expr.Expr {
	e, list := expr.ParseWithin(d, t.Value, t.Span, t.SourceMap(l.file))
	l.add(list)
	if list.Errors() {
		return nil
	}
	l.properties(e, diag.Error)
	l.indexed(e)
	l.machine(e)
	return e
}

func (l *lowering) condition(d expr.Dialect, t text.Text) *expr.Expr {
	e, list := expr.ParseWithin(d, t.Value, t.Span, t.SourceMap(l.file))
	l.add(list)
	if list.Errors() {
		return nil
	}
	l.properties(e, diag.Warning)
	l.machine(e)
	return e
}

// call lowers a step that runs another workflow.
func (l *lowering) call(s *state, out *ir.Step) {
	call := ir.Call{Child: -1, Span: s.at}
	child := l.child(s)
	if child >= 0 {
		call.Child = child
		program := &l.p.Children[child]
		types, doubtful := inputTypes(program), false
		if s.given != nil {
			for _, pair := range s.given.Pairs {
				kind, known := types[pair.Key.Value]
				if !known {
					l.report(CodeBadValue, diag.Warning, pair.Key.Span, fmt.Sprintf("The workflow %q has no input %q, so it does not get this.", s.workflow.Value, pair.Key.Value),
						diag.DidYouMean(pair.Key.Value, slices.Sorted(maps.Keys(types))))
					continue
				}
				given := pair.Value.Text()
				if pair.Value.Kind >= text.List {
					given.Value = string(pair.Value.JSON())
				}
				dialect := expr.AWFTemplate
				if kind == "integer" || kind == "boolean" {
					dialect = expr.AWFNumber
				}
				if e := l.value(dialect, given); e != nil {
					l.fromFile(e, diag.Error, given.Span, fmt.Sprintf("The input %q", pair.Key.Value))
					doubtful = doubtful || l.ofSteps(e)
					call.Inputs = append(call.Inputs, ir.Binding{Name: pair.Key.Value, Value: e, Span: pair.Key.Span})
				}
			}
		}
		l.wanted(s, program, &call)
		if doubtful {
			l.p.Children = append(l.p.Children, mistrusted(&l.p.Children[call.Child]))
			call.Child = len(l.p.Children) - 1
		}
	}
	if call.Child < 0 { // reported; what is left must still be a program
		out.Action, l.p.Unread.Steps = ir.Route{}, true
		return
	}
	out.Action, out.Result = call, l.own(callState(&call))
}

// mistrusted is a program whose inputs came from steps: in its commands, and in
// those of programs that it calls, they are data.
func mistrusted(p *ir.Program) ir.Program {
	out := *p
	out.Blocks = slices.Clone(p.Blocks)
	for b := range out.Blocks {
		out.Blocks[b].Steps = slices.Clone(out.Blocks[b].Steps)
		for i := range out.Blocks[b].Steps {
			s := &out.Blocks[b].Steps[i]
			if t, ok := s.Action.(ir.Task); ok && (t.Kind == "command" || t.Kind == "hook") {
				t.Settings = slices.DeleteFunc(slices.Clone(t.Settings), func(one ir.Setting) bool { return one.Name == "doubts" })
				t.Settings.Put("doubts", []string{"loop", "inputs"}, s.Span)
				s.Action = t
			}
		}
	}
	out.Children = nil
	for i := range p.Children {
		out.Children = append(out.Children, mistrusted(&p.Children[i]))
	}
	return out
}

// callState is the state of a call: each output by its name, and as Output the
// only one, or all of them as JSON.
func callState(call *ir.Call) string {
	var output string
	var fields []string
	for _, b := range call.Outputs {
		fields = append(fields, fmt.Sprintf("%q: result[%q]", b.Name, b.Name))
	}
	switch len(call.Outputs) {
	case 0:
		output = `result == nil ? "" : type(result) == "string" ? result : toJSON(result)`
	case 1:
		output = fmt.Sprintf("result[%q] ?? \"\"", call.Outputs[0].Name)
	default:
		output = "toJSON(result)"
	}
	well := `{"Output": (` + output + `), "Stderr": "", "ExitCode": 0, "Status": "completed", "Response": result, "Outputs": result`
	for _, f := range fields {
		well += ", " + f
	}
	return `outcome == "ok" ? ` + well + `} : ` +
		`{"Output": "", "Stderr": failure.error, "ExitCode": failure.exit ?? 1, "Status": outcome, "Error": failure.error}`
}

// wanted lowers what a call takes from the child. The documentation maps an
// output of the child to a name here and shows it the other way round, the
// program looks for a state: whichever side names something of the child is it.
func (l *lowering) wanted(s *state, program *ir.Program, call *ir.Call) {
	if s.wanted == nil {
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
	for _, pair := range s.wanted.Pairs {
		if pair.Value.Kind >= text.List {
			l.report(CodeWrongType, diag.Error, pair.Value.Span, fmt.Sprintf("What is taken from the workflow %q has one name here, but this is %s.", s.workflow.Value, pair.Value.Kind),
				fmt.Sprintf("Write \"%s: NAME\".", pair.Key.Value))
			continue
		}
		theirs, ours := pair.Key.Value, cmp.Or(pair.Value.Value, pair.Key.Value)
		if strings.Contains(ours, "{{") || strings.HasPrefix(ours, "states.") { // an expression over the child
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
			l.report(CodeBadValue, diag.Error, pair.Key.Span, fmt.Sprintf("The workflow %q has neither an output nor a state called %q or %q.", s.workflow.Value, pair.Key.Value, pair.Value.Value),
				diag.DidYouMean(pair.Key.Value, append(outputs, states...)))
			continue
		}
		call.Outputs = append(call.Outputs, ir.Binding{Name: ours, Value: l.own(from), Span: pair.Key.Span})
	}
}

// childHas reports what an expression over a child names and the child does not
// have.
func (l *lowering) childHas(s *state, program *ir.Program, e *expr.Expr, at source.Span) {
	_, states := childNames(program)
	for _, p := range e.Paths() {
		name := strings.Join(p.Written, ".")
		switch {
		case p.Segments[0] != "states" || len(p.Segments) < 2:
			l.report(CodeBadValue, diag.Error, at, fmt.Sprintf("Nothing of the workflow %q is called %q.", s.workflow.Value, name), "Write the name of an output of it, or of a state.")
		case !slices.Contains(states, p.Segments[1]):
			l.report(CodeBadValue, diag.Error, at, fmt.Sprintf("The workflow %q has no state %q.", s.workflow.Value, p.Segments[1]), diag.DidYouMean(p.Segments[1], states))
		case len(p.Segments) > 2 && !slices.Contains(expr.StateFields(), p.Segments[2]):
			l.report(CodeNoProperty, diag.Error, at, fmt.Sprintf("The state of %q has no property %q.", p.Segments[1], p.Segments[2]), diag.DidYouMean(p.Segments[2], expr.StateFields()))
		}
	}
}

// childNames are the outputs that a child declares, and its steps.
func childNames(p *ir.Program) (outputs, states []string) {
	for b := range p.Blocks {
		for i := range p.Blocks[b].Steps {
			s := &p.Blocks[b].Steps[i]
			if _, end := s.Action.(ir.End); !end && !s.Implied {
				states = append(states, s.ID)
			}
			if s.Result == nil || len(s.Writes) == 0 || s.Writes[0].Path != "output" {
				continue
			}
			for _, name := range s.Result.OutputNames() {
				if !slices.Contains(outputs, name) {
					outputs = append(outputs, name)
				}
			}
		}
	}
	return outputs, states
}

// child compiles the workflow that a step calls, once; -1 when it cannot.
func (l *lowering) child(s *state) int {
	name := s.workflow
	if name.Value == "" {
		return -1
	}
	if i, ok := l.children[name.Value]; ok {
		return i
	}
	l.children[name.Value] = -1
	f, err := l.called(name.Value)
	if err != nil {
		if strings.Contains(name.Value, "/") && !strings.HasSuffix(name.Value, ".yaml") {
			l.report(CodeUnsupported, diag.Error, name.Span, fmt.Sprintf("%q is a workflow of a pack, and packs are not read here.", name.Value),
				"Copy the workflow into .awf/workflows and call it by its own name.")
			return -1
		}
		l.report(CodeNoWorkflow, diag.Error, name.Span, fmt.Sprintf("There is no workflow %q to call.", name.Value), l.workflowHelp(name.Value, err))
		return -1
	}
	program, list := l.files.Compile(f, name.Span)
	l.add(list)
	if program == nil || list.Errors() {
		return -1
	}
	if depth(program) > maxDepth {
		l.report(CodeTooDeep, diag.Error, name.Span, fmt.Sprintf("Workflows call each other more than %d deep here.", maxDepth), "Call the inner workflows one after the other from here.")
		return -1
	}
	l.p.Children = append(l.p.Children, *program)
	l.children[name.Value] = len(l.p.Children) - 1
	l.pin(f, "workflow")
	return l.children[name.Value]
}

// maxDepth is how deep workflows may call each other.
const maxDepth = 10

func depth(p *ir.Program) int {
	deepest := 0
	for i := range p.Children {
		deepest = max(deepest, depth(&p.Children[i]))
	}
	return deepest + 1
}

// called finds the file of a workflow by its name: where AWF looks for all of
// them, and beside the file that calls it.
func (l *lowering) called(name string) (f *source.File, err error) {
	lookup := func() (*source.File, error) { return l.lookup("workflows", name+".yaml") }
	if inFolder(l.file, "workflows") {
		if f, err = lookup(); err == nil {
			return f, nil
		}
	}
	var first error // which knows best what there is beside the file
	for _, ref := range workflowRefs(name) {
		if f, err = l.files.Read(l.file, ref); err == nil {
			return f, nil
		}
		if first == nil {
			first = err
		}
	}
	if f, err := lookup(); err == nil {
		return f, nil
	}
	return nil, first
}

// lookup finds a file by name on AWF's search path, inside and outside of the project.
func (l *lowering) lookup(kind, name string) (*source.File, error) {
	if path, ok := l.files.(format.SearchPath); ok {
		return path.Lookup(kind, name)
	}
	return nil, &source.RefError{Ref: name, Problem: source.RefMissing}
}

func workflowRefs(name string) []string {
	if ext := path.Ext(name); ext == ".yaml" || ext == ".yml" {
		return []string{name}
	}
	return []string{name + ".yaml", name + ".yml", ".awf/workflows/" + name + ".yaml", name}
}

func (l *lowering) workflowHelp(name string, err error) string {
	var failed *source.RefError
	if errors.As(err, &failed) && failed.Problem != source.RefMissing {
		return fmt.Sprintf("It must be a file of the project: %v.", err)
	}
	if failed != nil && len(failed.Near) > 0 {
		return fmt.Sprintf("Did you mean %q?", strings.TrimSuffix(path.Base(failed.Near[0]), ".yaml"))
	}
	return fmt.Sprintf("Put it into .awf/workflows/%s.yaml, or call another one.", name)
}

// pin notes that a file went into the program.
func (l *lowering) pin(f *source.File, role string) {
	if slices.ContainsFunc(l.p.Files, func(one ir.File) bool { return one.Path == f.Path && one.Role == role }) {
		return
	}
	sum := sha256.Sum256([]byte(f.Text))
	l.p.Files = append(l.p.Files, ir.File{Path: f.Path, Role: role, SHA256: hex.EncodeToString(sum[:])})
}

// template finds a workflow template, or says that there is none.
func (l *lowering) template(name text.Text) *text.Node {
	file := name.Value + ".yaml"
	f, err := l.find(file, "templates")
	if err != nil {
		f, err = l.files.Read(l.file, "templates/"+file)
	}
	if err != nil {
		l.report(CodeTemplate, diag.Error, name.Span, fmt.Sprintf("There is no template %q.", name.Value), fmt.Sprintf("Put it into .awf/templates/%s.yaml.", name.Value))
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

// folder is the folder of the workflow file, as the machine knows it.
func (l *lowering) folder() string {
	if l.file.Abs == "" {
		return path.Dir(l.file.Path)
	}
	return filepath.Dir(l.file.Abs)
}
