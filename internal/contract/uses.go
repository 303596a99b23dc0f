package contract

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/xmaps"
)

// isItems is the use of a list whose items are gone through.
const isItems expr.UseKind = "items"

// use is one use of a value that a step writes.
type use struct {
	expr.Use
	at []string // in the value that is written
	// optional says that the comparison is false if the value is missing or null, as the reference program of the
	// format has it.
	optional bool
	quoted   bool    // a template inserts the value into a text
	text     bool    // what is used is the text of the reply
	other    string  // the type of what it is compared with
	near     float64 // the number that it is compared with, where other is one
	least    int     // how many items a list must have
	// condition is the expression, if further parts of it decide, too.
	condition string
	path      string // as the author calls it
	written   string // path as the expression has it
	span      source.Span
	// decision is where the run goes by the comparison.
	decision *branching
	effect
}

// effect is what a condition decides: what happens if it holds, and otherwise.
type effect struct{ leads, otherwise string }

// branching is a step whose ways on depend on comparisons.
type branching struct {
	step   *ir.Step
	ways   []way
	closed bool // no other value has a way on
	els    string
	rules  int // ways on with a condition
	// exhausted says that no way on is left if no condition holds, except that the run ends without one.
	exhausted bool
	about     map[string]int // by path: how many of them compare it for equality
	compares  map[string]int // by path: how many of them cannot hold unless they compare it with a value
}

// way is a way on with a condition.
type way struct {
	when  *expr.Expr
	leads string
}

// otherwise returns what happens if a value is none of those that it is compared with.
func (b *branching) otherwise(path string) string {
	if b.els == "" || b.about[path] == b.rules {
		return b.els
	}
	return b.els + ", unless another rule applies"
}

// same reports whether two uses are the same one, which several ways through the program can lead to.
func (u use) same(o use) bool {
	return slices.Equal(u.at, o.at) && u.How == o.How && u.Value == o.Value && u.Loose == o.Loose &&
		u.Guarded == o.Guarded && u.Negated == o.Negated && u.text == o.text && u.leads == o.leads && u.span == o.span
}

// required reports whether a reply must have the value. A comparison that works without it requires it only if every
// rule of the step compares it: without the value, the reply decides nothing.
func (u *use) required() bool {
	if u.optional {
		return !u.Guarded && u.decision != nil && u.decision.compares[u.path] == u.decision.rules
	}
	return u.quoted || !u.Guarded
}

// kind returns the JSON type that the use asks for, or "" if it takes several.
func (u *use) kind() string {
	switch u.How {
	case isItems:
		return "array"
	case expr.Contains:
		if u.List {
			return "array"
		}
	case expr.Reads:
		if u.Whole {
			return "number"
		}
	case expr.Truth:
		if !u.Loose {
			return "boolean"
		}
	case expr.Equals, expr.Orders:
		if u.Value != nil && !u.convertsToString() {
			return typeOfConstant(u.Value)
		}
		if u.How == expr.Orders && u.other != "" {
			return u.other
		}
	}
	return ""
}

// compared returns the comparison in words, such as "above 10".
func (u *use) compared() string {
	words := "equal to "
	switch u.How {
	case expr.Contains:
		return "a list or string with " + string(encode(u.Value))
	case expr.Sized:
		if u.Exactly {
			return fmt.Sprintf("of the length %v", u.Value)
		}
		return fmt.Sprintf("of a length %s%v", u.order(), u.Value)
	case expr.Orders:
		words = u.order()
	}
	return words + string(encode(u.Value))
}

// empty reports whether the comparison requires that a value has no characters or items.
func (u *use) empty() bool {
	n, isNumber := u.Value.(float64)
	return isNumber && u.How == expr.Sized && !u.Above && (n == 0 || n == 1 && u.Strictly)
}

// order returns the words for a comparison by order, such as "at least ".
func (u *use) order() string {
	return map[[2]bool]string{
		{true, true}: "above ", {true, false}: "at least ", {false, true}: "below ", {false, false}: "at most ",
	}[[2]bool{u.Above, u.Strictly}]
}

// convertsToString reports whether the comparison converts texts, so that the constant
// need not have the value's type.
func (u *use) convertsToString() bool {
	_, text := u.Value.(string)
	return u.Loose && (text || u.Value == nil) && (u.How == expr.Equals || u.How == expr.Orders)
}

// usesOf follows a value from the step that writes it along every way through the program until it is overwritten, and
// lists how it is used. The list is in the order of the search, which depends on the program alone.
func (b *builder) usesOf(w *ir.Write) []use {
	if !mentioned(b.p, w.Path) {
		return nil
	}
	s := b.s
	t := &tracer{flow: b.links(), origin: b.s, path: w.Path, entered: map[*ir.Step]bool{}}
	if w.Part == "" {
		t.direct = map[*ir.Step]bool{}
		if _, block, ok := t.home(s); ok {
			for _, e := range s.Next {
				t.direct[b.p.Step(block, e.To.Step)] = e.To.Step != ""
			}
		}
	}
	t.after(s)
	return t.out
}

// after looks at what follows the step that writes the variable.
func (t *tracer) after(s *ir.Step) {
	for _, e := range s.Next {
		if slices.Contains(e.On, ir.OK) {
			t.edge(s, &e)
		}
	}
	t.condition(s.StopWhen, runEnds)
	t.followSuccessors(s)
}

// links returns the flow of the program. Most contracts do without it.
func (b *builder) links() *flow {
	if b.flow == nil {
		b.flow = newFlow(b.p)
	}
	return b.flow
}

// mentioned reports whether anything in the program can look at a variable. Most variables are handed from step to step
// and never looked into, and programs are large: a search of texts is much cheaper than following the variable.
func mentioned(p *ir.Program, path string) bool {
	if len(p.Callers) > 0 {
		return true
	}
	name := path[strings.LastIndexByte(path, '.')+1:]
	mentions := func(e *expr.Expr) bool {
		return len(e.Names) > 0 || e.Dialect.OmitsRoots() || strings.Contains(e.Text, name)
	}
	part := func(r ir.Ref) bool {
		rest, ok := below(r.Path, path)
		return ok && rest != ""
	}
	for s := range p.Steps() {
		for e := range s.Expressions {
			if mentions(e) {
				return true
			}
		}
		if slices.ContainsFunc(s.Reads, part) || slices.ContainsFunc(s.Mentions, part) {
			return true
		}
	}
	return false
}

// flow knows which step follows which. It is simpler than the graph of package check, because it need not distinguish
// outcomes.
type flow struct {
	p      *ir.Program
	block  map[*ir.Step]ir.BlockID
	holder map[ir.BlockID]*ir.Step // the step that a block belongs to
}

// newFlow indexes the steps and blocks of a program.
func newFlow(p *ir.Program) *flow {
	f := &flow{p: p, block: map[*ir.Step]ir.BlockID{}, holder: map[ir.BlockID]*ir.Step{}}
	for b := range p.Blocks {
		for i := range p.Blocks[b].Steps {
			s := &p.Blocks[b].Steps[i]
			f.block[s] = ir.BlockID(b)
			for inner := range s.Blocks() {
				f.holder[inner] = s
			}
		}
	}
	return f
}

// first returns the first step of a block, or nil if the block has none.
func (f *flow) first(b ir.BlockID) *ir.Step {
	if b <= 0 || int(b) >= len(f.p.Blocks) || len(f.p.Blocks[b].Steps) == 0 {
		return nil
	}
	return &f.p.Blocks[b].Steps[0]
}

// home finds the step of the program that has the same place as a copy of it.
func (f *flow) home(s *ir.Step) (*ir.Step, ir.BlockID, bool) {
	if b, ok := f.block[s]; ok {
		return s, b, true
	}
	for b := range f.p.Blocks {
		if found := f.p.Step(ir.BlockID(b), s.ID); found != nil {
			return found, ir.BlockID(b), true
		}
	}
	return nil, 0, false
}

// next lists the steps that can follow when a step is over, and whether its
// block can end with it.
func (f *flow) next(s *ir.Step) (steps []*ir.Step, ends bool) {
	s, block, ok := f.home(s)
	if !ok {
		return nil, false
	}
	ends = true
	add := func(id string) {
		if to := f.p.Step(block, id); to != nil {
			steps = append(steps, to)
		}
	}
	for _, e := range s.Next {
		if e.To.Step != "" {
			add(e.To.Step)
		}
		if e.When == nil && e.To.Step != "" && e.Limit == 0 && slices.Contains(e.On, ir.OK) {
			ends = false
		}
	}
	for _, e := range s.Next {
		ends = ends || e.To.Exit == ir.ExitBlock || e.To.Exit == ir.ExitLoop
	}
	if s.Fallback != nil {
		add(s.Fallback.Name)
	}
	return steps, ends
}

// reaches reports whether a run can come from one step to another.
func (f *flow) reaches(from, to *ir.Step) bool {
	seen := map[*ir.Step]bool{}
	var visit func(s *ir.Step) bool
	leave := func(s *ir.Step) bool {
		steps, ends := f.next(s)
		if slices.ContainsFunc(steps, visit) {
			return true
		}
		if !ends {
			return false
		}
		home, block, _ := f.home(s)
		holder := f.holder[block]
		if holder == nil || home == nil || seen[holder] && holder != to {
			return false
		}
		seen[holder] = true
		if _, loop := holder.Action.(ir.Loop); loop {
			if first := f.first(block); first != nil && visit(first) {
				return true
			}
		}
		after, _ := f.next(holder)
		return slices.ContainsFunc(after, visit)
	}
	visit = func(s *ir.Step) bool {
		if s == to || s.ID == to.ID {
			return true
		}
		if seen[s] {
			return false
		}
		seen[s] = true
		for b := range s.Blocks() {
			if first := f.first(b); first != nil && visit(first) {
				return true
			}
		}
		return leave(s)
	}
	return leave(from)
}

// tracer follows one variable. It enters each step once, so loops in the program end, too.
type tracer struct {
	*flow
	origin  *ir.Step // that writes it; nil if it is an item of a list
	path    string
	entered map[*ir.Step]bool
	left    map[ir.BlockID]bool
	out     []use
	direct  map[*ir.Step]bool // the steps that find the variable as the result of the step before them
	depth   int               // how many expressions lead here
	// finished says that the callers have been looked at.
	finished bool
}

// followSuccessors traces the variable through the steps that can run after s. If the block can end with s, it
// continues with the next round of a loop, the steps after the block and the callers of the program.
func (t *tracer) followSuccessors(s *ir.Step) {
	steps, ends := t.next(s)
	for _, to := range steps {
		t.enter(to)
	}
	if !ends {
		return
	}
	_, block, ok := t.home(s)
	holder := t.holder[block]
	if _, end := s.Action.(ir.End); ok && (holder == nil || end) && !t.finished {
		t.finished = true
		t.called()
	}
	if !ok || holder == nil || t.left[block] {
		return
	}
	xmaps.Set(&t.left, block, true)
	if loop, ok := holder.Action.(ir.Loop); ok {
		t.loop(holder, &loop)
		if first := t.first(block); first != nil {
			t.enter(first)
		}
	}
	for _, e := range holder.Next {
		t.edge(holder, &e)
	}
	t.followSuccessors(holder)
}

// enter looks at a step that finds the variable as it was written.
func (t *tracer) enter(s *ir.Step) {
	if t.entered[s] {
		return
	}
	t.entered[s] = true
	if s.When != nil {
		t.condition(s.When, runs("step "+titled(s)))
	}
	for _, r := range s.Reads {
		if rest, ok := below(r.Path, t.path); ok && rest != "" {
			read := expr.Use{How: expr.Reads, Guarded: r.Optional}
			t.out = append(t.out, use{Use: read, at: place(rest), path: r.Path, span: r.Span})
		}
	}
	for _, r := range s.Mentions {
		if rest, ok := below(r.Path, t.path); ok && rest != "" {
			read := expr.Use{How: expr.Reads, Guarded: t.canBypass(s)}
			t.out = append(t.out, use{Use: read, at: place(rest), quoted: true, path: r.Path, span: r.Span})
		}
	}
	t.action(s)
	t.computed(s)
	for b := range s.Blocks() {
		if first := t.first(b); first != nil {
			t.enter(first)
		}
	}
	if t.overwrites(s) {
		return
	}
	for i := range s.Next {
		t.edge(s, &s.Next[i])
	}
	t.condition(s.StopWhen, runEnds)
	t.followSuccessors(s)
}

// canBypass reports whether a run can end without passing a step after the
// variable was written.
func (t *tracer) canBypass(s *ir.Step) bool {
	if t.origin == nil {
		return true
	}
	home, _, ok := t.home(t.origin)
	return !ok || home == s || t.endsWithout(home, s)
}

// overwrites reports whether nothing of the variable is left behind a step.
func (t *tracer) overwrites(s *ir.Step) bool {
	if s.When != nil || s.SkipOnError {
		return false
	}
	return slices.ContainsFunc(s.Writes, func(w ir.Write) bool {
		_, covered := below(t.path, w.Path)
		return covered && (w.Reducer == "" || w.Reducer == ir.Set)
	})
}

// action looks at the expressions of what a step does.
func (t *tracer) action(s *ir.Step) {
	switch a := s.Action.(type) {
	case ir.Parallel:
		if a.Each != nil {
			t.items(a.Each, a.Each.Block)
		}
		for i := range a.Branches {
			t.condition(a.Branches[i].When, runs(fmt.Sprintf("branch %q", a.Branches[i].Name)))
		}
	case ir.Loop:
		if a.Each != nil {
			t.items(a.Each, a.Block)
		}
		t.loop(s, &a)
		t.value(a.MaxExpr)
	case ir.Call:
		for i := range a.Inputs {
			t.value(a.Inputs[i].Value)
		}
	case ir.End:
		before := len(t.out)
		t.condition(a.Check, effect{})
		for i := range t.out[before:] {
			t.out[before+i].Guarded = true // a run ends all the same
		}
		t.value(a.MessageExpr)
	}
}

// edge looks at the condition of one way on.
func (t *tracer) edge(s *ir.Step, e *ir.Edge) {
	if e.When == nil {
		return
	}
	before := len(t.out)
	t.condition(e.When, effect{})
	if len(t.out) == before {
		return
	}
	branching := t.branching(s)
	leads := t.leads(s, &e.To)
	for i := range t.out[before:] {
		u := &t.out[before+i]
		u.effect, u.decision = effect{leads, branching.otherwise(u.path)}, branching
	}
}

// runEnds is the effect of a decision after which nothing follows.
var runEnds = effect{leads: "the run ends"}

// runs returns what a condition decides that lets something run.
func runs(what string) effect { return effect{what + " runs", what + " does not run"} }

// loop looks at the conditions that end a loop.
func (t *tracer) loop(s *ir.Step, a *ir.Loop) {
	ends, more := fmt.Sprintf("the loop %q ends", s.Title()), fmt.Sprintf("the loop %q runs once more", s.Title())
	t.condition(a.BreakWhen, effect{ends, more})
	t.condition(a.While, effect{more, ends})
}

// branching says what happens at a step when none of its comparisons holds.
func (t *tracer) branching(s *ir.Step) *branching {
	b := &branching{step: s, closed: true, about: map[string]int{}, compares: map[string]int{}}
	path := ""
	for i := range s.Next {
		e := &s.Next[i]
		if !slices.Contains(e.On, ir.OK) {
			continue
		}
		if e.When == nil {
			if e.To.Exit != ir.ExitFail {
				b.closed = b.closed && e.To.Reason == ir.NoTransition
				b.exhausted = e.To.Reason == ir.NoTransition
				b.els = t.leads(s, &e.To)
			}
			continue
		}
		b.rules++
		b.ways = append(b.ways, way{e.When, t.leads(s, &e.To)})
		uses := e.When.Uses()
		equal, compared := map[string]bool{}, map[string]bool{}
		for _, u := range uses {
			name := u.Path.String()
			compared[name] = compared[name] ||
				!u.Alternative && (u.How == expr.Orders || u.How == expr.Equals && u.Value != nil)
			decides := u.How == expr.Equals && u.Value != nil && !u.Negated
			equal[name] = equal[name] || u.How == expr.Equals && u.Value != nil || u.How == expr.Truth
			if !decides || u.Compound || path != "" && path != name {
				b.closed = false
			}
			path = name
		}
		for name, is := range equal {
			if is {
				b.about[name]++
			}
		}
		for name, is := range compared {
			if is {
				b.compares[name]++
			}
		}
		b.closed = b.closed && len(uses) > 0
	}
	return b
}

// leads names what a way leads to.
func (t *tracer) leads(s *ir.Step, to *ir.Target) string {
	if to.Step == "" {
		switch to.Exit {
		case ir.ExitFail:
			return "the run fails"
		case ir.ExitLoop:
			return "the loop ends"
		}
		return t.blockEnds(s)
	}
	if _, block, ok := t.home(s); ok {
		next := t.p.Step(block, to.Step)
		if to.Reason == ir.NoTransition {
			if _, ends := actionOf(next).(ir.End); ends {
				return "the run ends"
			}
			return "the run fails"
		}
		if _, route := actionOf(next).(ir.Route); route && next.Implied && next.Description == "" {
			return t.blockEnds(s) // a step without meaning for the author
		}
		if next != nil {
			return "the run continues with step " + titled(next)
		}
	}
	return fmt.Sprintf("the run continues with step %q", to.Step)
}

// actionOf returns the action of a step; nil without a step.
func actionOf(s *ir.Step) ir.Action {
	if s == nil {
		return nil
	}
	return s.Action
}

// blockEnds names what happens at the end of the block that a step belongs to.
func (t *tracer) blockEnds(s *ir.Step) string {
	_, block, _ := t.home(s)
	holder := t.holder[block]
	if holder == nil {
		return "the run ends"
	}
	if _, loop := holder.Action.(ir.Loop); loop {
		return fmt.Sprintf("the loop %q continues", holder.Title())
	}
	return fmt.Sprintf("this part of %q ends", holder.Title())
}

// titled returns a step as a model knows it: its title and, if that says more, its description.
func titled(s *ir.Step) string {
	if s.Implied && s.Description != "" { // its ID means nothing to a model
		return fmt.Sprintf("%q", strings.TrimSuffix(s.Description, "."))
	}
	if s.Description != "" && s.Description != s.Title() {
		return fmt.Sprintf("%q (%s)", s.Title(), strings.TrimSuffix(s.Description, "."))
	}
	return fmt.Sprintf("%q", s.Title())
}

// condition collects what an expression does with the variable.
func (t *tracer) condition(e *expr.Expr, decides effect) {
	if e == nil || e.Dialect.AcceptsEveryValue() {
		return
	}
	for _, u := range e.Uses() {
		rest, ok := below(t.variable(u.Path), t.path)
		if !ok || t.isBareFlowName(u.Path) {
			continue
		}
		one := use{
			Use: u, at: place(rest), path: u.Path.String(), written: strings.Join(u.Path.Written, "."),
			span: u.Path.Span, effect: decides, optional: e.Dialect.MissingIsExpected(),
		}
		if u.Compound {
			one.condition = strings.Join(strings.Fields(e.Text), " ")
		}
		if !u.Guarded && e.Dialect.MissingItemFails() {
			one.least = minItems(rest)
		}
		if one.span.IsZero() {
			one.span = e.Span
		}
		if u.How == expr.Orders && u.Other != nil {
			one.other, one.near = t.typeOf(u.Other)
		}
		t.out = append(t.out, one)
	}
}

// variable returns the path that an expression reads. A name without a root is a variable of the flow if a step
// writes it.
func (t *tracer) variable(p expr.Path) string {
	if len(p.Written) < len(p.Segments) {
		name := "context." + p.Written[0]
		for s := range t.p.Steps() {
			if slices.ContainsFunc(s.Writes, func(w ir.Write) bool { return w.Path == name }) {
				return "context." + join(p.Written)
			}
		}
	}
	return join(p.Segments)
}

// place returns the place in a value that the rest of a path names. An index stands for any item.
func place(rest string) []string {
	at := split(rest)
	for i, name := range at {
		if isIndex(name) {
			at[i] = each
		}
	}
	return at
}

// isIndex reports whether a segment of a path is an index of a list.
func isIndex(name string) bool {
	return name != "" && strings.Trim(name, "0123456789") == ""
}

// minItems returns how many items the list must have whose last index a path names.
func minItems(rest string) int {
	n := 0
	for _, name := range split(rest) {
		if isIndex(name) {
			n, _ = strconv.Atoi(name) // digits only; too large a number bounds nothing
			n++
		}
	}
	return n
}

// isBareFlowName reports whether a name that is written without its root is also that of a declared variable of the
// flow. The name then means that variable, unless a reply happens to have a key of the same name.
func (t *tracer) isBareFlowName(p expr.Path) bool {
	return len(p.Written) < len(p.Segments) &&
		slices.ContainsFunc(t.p.Vars, func(v ir.Var) bool { return v.Path == "context."+p.Written[0] })
}

// value collects the names that an expression of any value reads.
func (t *tracer) value(e *expr.Expr) {
	for _, p := range e.Paths() {
		if rest, ok := below(join(p.Segments), t.path); ok && rest != "" && !p.Any {
			read := expr.Use{How: expr.Reads}
			t.out = append(t.out, use{Use: read, at: place(rest), path: p.String(), span: p.Span})
		}
	}
}

// items collects what is done with the items of a list.
func (t *tracer) items(each *ir.Each, block ir.BlockID) {
	paths := each.Items.Paths()
	if len(paths) != 1 || !isBareName(each.Items, paths[0]) {
		t.value(each.Items)
		return
	}
	rest, ok := below(join(paths[0].Segments), t.path)
	if !ok {
		return
	}
	at := place(rest)
	items := expr.Use{How: isItems}
	t.out = append(t.out, use{Use: items, at: at, path: paths[0].String(), span: each.Items.Span})
	inner := &tracer{flow: t.flow, path: each.Var, entered: map[*ir.Step]bool{}}
	if first := t.first(block); first != nil {
		inner.enter(first)
	}
	for _, u := range inner.out {
		u.at = slices.Concat(at, []string{"*"}, u.at)
		t.out = append(t.out, u)
	}
}

// isBareName reports whether an expression is a name and nothing else.
func isBareName(e *expr.Expr, p expr.Path) bool {
	text := strings.Trim(strings.TrimSpace(e.Text), "{} ")
	return strings.TrimPrefix(text, ".") == strings.Join(p.Written, ".")
}

// typeOf returns the type of a variable that a value is compared with for order, as far as it is known, and the number
// that the variable begins with. A variable that a step writes without a declared type is a number.
func (t *tracer) typeOf(path []string) (kind string, number float64) {
	name := join(path)
	for i := range t.p.Vars {
		v := &t.p.Vars[i]
		if rest, ok := below(name, v.Path); ok && len(v.Schema) > 0 {
			if kind := ordered(inside(decode(v.Schema), split(rest))); kind != "" {
				return kind, 0
			}
		}
		if v.Path != name {
			continue
		}
		switch v := decode(v.Init).(type) {
		case string:
			return "string", 0
		case json.Number:
			f, err := v.Float64()
			if err != nil {
				return "", 0
			}
			return "number", f
		}
	}
	if path[0] == "input" && t.p.Input != nil {
		return ordered(inside(decode(t.p.Input.Schema), path[1:])), 0
	}
	if path[0] == wholeOutput && t.p.Output != nil {
		if kind := ordered(inside(decode(t.p.Output.Schema), path[1:])); kind != "" {
			return kind, 0
		}
	}
	for s := range t.p.Steps() {
		if writes(s, name) {
			return "number", 0
		}
	}
	return "", 0
}

// ordered returns "number" or "string" for a schema of values that can be compared for order; otherwise "".
func ordered(node map[string]any) string {
	switch node["type"] {
	case "number", "integer":
		return "number"
	case "string":
		return "string"
	}
	return ""
}

// writes reports whether a step writes a variable, or one that it is a part of.
func writes(s *ir.Step, name string) bool {
	return slices.ContainsFunc(s.Writes, func(w ir.Write) bool {
		_, ok := below(name, w.Path)
		return ok
	})
}
