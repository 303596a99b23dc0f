package python

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Analyze reports mistakes in the code of one program that can be found without running it: undefined names, attributes
// that do not exist, functions that node code cannot use, wrong arguments and missing modules. The modules run one
// after the other in the same namespace.
//
// It reports only what certainly fails. Python can change everything at run time, so whatever the analysis does not
// understand is unknown, and nothing is reported about it: a correct program that is rejected is worse than a mistake
// that is found when it runs.
func Analyze(modules []*Module, nodes Nodes) diag.List {
	a := &analysis{
		kinds: map[*binding]string{}, global: newScope(nil, moduleScope), nodes: nodes,
		classes: map[string]*class{}, unassigned: unassigned(modules), rebound: map[string]bool{},
	}
	for name := range strings.FieldsSeq("__name__ __file__ __doc__ __builtins__ __annotations__") {
		a.global.unknown(name)
	}
	for _, m := range modules {
		a.assignments(m)
		a.changesState = a.changesState || stateChanges(m, nodes.Functions)
		a.global.collect(m.Body)
		Walk(m.Body, func(n any) bool {
			if d, ok := n.(*Scope); ok {
				for _, name := range d.Names {
					if d.Word == "global" {
						a.global.unknown(name)
					} else {
						a.rebound[name] = true
					}
				}
			}
			return true
		})
	}
	for _, m := range modules {
		a.module = m
		a.body(a.global, m.Body)
	}
	return a.found
}

// analysis is the state of Analyze. It first collects the names of all modules, because functions may use what a later
// module defines, and then visits the code.
type analysis struct {
	global  *scope
	nodes   Nodes
	module  *Module
	found   diag.List
	kinds   map[*binding]string // see kindOf
	classes map[string]*class   // by kind
	// assigned are the attributes that the code assigns; changesAttributes is set if it may assign others.
	assigned          []string
	changesAttributes bool
	// changesState is set if a node may change the state that it gets, handlesEnviron if code sets environment
	// variables or asks which there are, asksTypes if it asks for the types of values.
	changesState, handlesEnviron, asksTypes bool
	// rebound are the names that nonlocal statements declare.
	rebound map[string]bool
	// unassigned are the names that are declared global and never assigned.
	unassigned map[string]bool
	// loops is the number of enclosing loops of the function.
	loops int
	// guarded is the number of enclosing try statements that catch exceptions.
	guarded int
}

// report adds an error at a range of the current module.
func (a *analysis) report(code diag.Code, at Range, help, message string, args ...any) {
	a.found.Errorf(code, a.module.Span(at), help, message, args...)
}

// body analyzes the statements of a scope.
func (a *analysis) body(s *scope, body []Stmt) {
	for i, n := range body {
		a.statement(s, n)
		if d, ok := n.(*Del); ok && a.guarded == 0 && s.kind != classScope {
			for _, target := range d.Targets {
				if name, ok := target.(*Name); ok {
					a.deleted(name.ID, body[i+1:])
				}
			}
		}
	}
}

// deleted reports the first use of a deleted name in the statements that follow, unless one of them assigns it first.
func (a *analysis) deleted(name string, body []Stmt) {
	for _, n := range body {
		switch n.(type) {
		case *Return, *Raise, *Jump:
			body = nil // the rest does not run
		}
		again := newScope(nil, functionScope)
		again.collect([]Stmt{n})
		if again.names[name] != nil || again.dynamic {
			return
		}
		var use *Name
		Walk([]Stmt{n}, func(n any) bool {
			if v, ok := n.(*Name); ok && v.ID == name && use == nil {
				use = v
			}
			_, comprehension := n.(*Comp) // may have a variable of the same name
			return !opensScope(n) && !comprehension
		})
		if use != nil {
			a.report(CodeName, use.Range, "Remove the del statement, or assign the name again.",
				"The name %q has no value here: it is deleted above.", name)
		}
		if use != nil || body == nil {
			return
		}
	}
}

// unassigned returns the names that global statements declare and that no statement assigns, except by adding to them.
func unassigned(modules []*Module) map[string]bool {
	out := map[string]bool{}
	assigned := newScope(nil, moduleScope)
	for _, m := range modules {
		Walk(m.Body, func(n any) bool {
			switch n := n.(type) {
			case *Scope:
				for _, name := range n.Names {
					out[name] = out[name] || n.Word == "global"
				}
			case *AugAssign:
			default:
				assigned.collectNode(n)
			}
			return true
		})
	}
	if assigned.dynamic {
		return nil
	}
	for name := range assigned.names {
		delete(out, name)
	}
	return out
}

// exprs analyzes some expressions. nil ones are ignored.
func (a *analysis) exprs(s *scope, list ...Expr) {
	for _, x := range list {
		a.visit(s, x)
	}
}

// visit analyzes an expression or a statement with all of its parts.
func (a *analysis) visit(s *scope, n any) {
	walk(n, func(n any) bool {
		if len(a.found) >= maxFound {
			return false
		}
		switch n := n.(type) {
		case *Name:
			a.name(s, n)
		case *Attr:
			a.attribute(s, n)
		case *Call:
			a.call(s, n)
		case *Binary:
			a.binary(s, n)
		case *Index:
			a.index(s, n)
		case *Comp:
			a.comprehension(s, n)
			return false
		case *Lambda:
			a.function(s, n.Def)
			return false
		case *IfExp:
			if testsPlatform(n.Cond) {
				a.visit(s, n.Cond)
				a.guard(true, func() { a.exprs(s, n.Then, n.Else) })
				return false
			}
		}
		return true
	})
}

// statement analyzes a statement with all of its parts.
func (a *analysis) statement(s *scope, n Stmt) {
	switch n := n.(type) {
	case *FuncDef:
		a.function(s, n.Def)
	case *ClassDef:
		a.exprs(s, n.Decorators...)
		inner := newScope(s, classScope)
		for _, name := range n.Types {
			inner.unknown(name)
		}
		around := s
		if len(n.Types) > 0 {
			around = inner
		}
		a.exprs(around, n.Bases...)
		a.exprs(around, n.Keywords...)
		inner.unknown("__qualname__")
		inner.unknown("__module__")
		inner.collect(n.Body)
		a.body(inner, n.Body)
	case *If:
		a.exprs(s, n.Cond)
		checking := isNamed(n.Cond, "TYPE_CHECKING")   // these imports do not run
		platform := !checking && testsPlatform(n.Cond) // one of the branches may never run here
		a.guard(checking || platform, func() { a.body(s, n.Then) })
		a.guard(platform, func() { a.body(s, n.Else) })
	case *For:
		a.exprs(s, n.In, n.Target)
		a.loops++
		a.body(s, n.Body)
		a.loops--
		a.body(s, n.Else)
	case *While:
		a.loops++
		a.exprs(s, n.Cond)
		a.body(s, n.Body)
		a.loops--
		a.body(s, n.Else)
	case *With:
		for _, item := range n.Items {
			a.exprs(s, item.X, item.Target)
		}
		a.body(s, n.Body)
	case *Match:
		a.exprs(s, n.Subject)
		for _, c := range n.Cases {
			a.exprs(s, c.Uses...)
			a.exprs(s, c.Guard)
			a.body(s, c.Body)
		}
	case *Try:
		a.guard(len(n.Handlers) > 0, func() { a.body(s, n.Body) })
		for _, h := range n.Handlers {
			a.exprs(s, h.Type)
			a.body(s, h.Body)
		}
		a.body(s, n.Else)
		a.body(s, n.Finally)
	case *Import:
		a.imports(n)
	default:
		a.visit(s, n)
	}
}

// testsPlatform reports whether a condition depends on the operating system.
func testsPlatform(cond Expr) bool {
	found := false
	walk(cond, func(n any) bool {
		if x, ok := n.(*Attr); ok {
			of := lastName(x.X)
			found = found || of == "sys" && x.Name == "platform" || of == "os" && x.Name == "name" || of == "platform"
		}
		return !found
	})
	return found
}

// guard analyzes code that may handle exceptions, or may not run.
func (a *analysis) guard(guarded bool, analyze func()) {
	before := a.guarded
	if guarded {
		a.guarded++
	}
	analyze()
	a.guarded = before
}

// function analyzes a function. Annotations are not evaluated and therefore not analyzed.
func (a *analysis) function(s *scope, d *Def) {
	a.exprs(s, d.Decorators...)
	loops := a.loops
	a.loops = 0
	defer func() { a.loops = loops }()
	inner := newScope(s, functionScope)
	for o := s; o != nil; o = o.outer {
		if o.kind == classScope {
			inner.unknown("__class__")
		}
	}
	for _, name := range d.Types {
		inner.unknown(name)
	}
	isState := s == a.global && slices.Contains(a.nodes.Functions, d.Name)
	for i, p := range d.Params {
		a.exprs(s, p.Default)
		if isState && i == 0 && p.Stars == 0 {
			inner.assign(&Name{ID: p.Name}, &DictExpr{}, 0)
		} else if kind := a.annotated(s, p); kind != "" {
			b := inner.bind(p.Name)
			b.kinds = append(b.kinds, kind)
			b.bound(0)
		} else {
			inner.unknown(p.Name)
		}
	}
	inner.collect(d.Body)
	if d.Result != nil {
		inner.collect([]Stmt{&ExprStmt{X: d.Result}})
	}
	a.body(inner, d.Body)
	a.exprs(inner, d.Result)
	if isState {
		a.returned(inner, d)
	}
}

// comprehension analyzes a comprehension in its own scope. Only its first iterable belongs to the scope around it.
func (a *analysis) comprehension(s *scope, c *Comp) {
	inner := newScope(s, comprehensionScope)
	if s.kind == classScope { // only the first iterable sees the names of a class
		inner.outer = s
	}
	for i, clause := range c.Clauses {
		inner.assign(clause.Target, nil, 0)
		if i == 0 {
			a.exprs(s, clause.In)
		} else {
			a.exprs(inner, clause.In)
		}
	}
	for _, clause := range c.Clauses {
		a.exprs(inner, clause.Target)
		a.exprs(inner, clause.Ifs...)
	}
	a.exprs(inner, c.Key, c.Item)
}

// annotated returns the kind of a parameter whose annotation is a class of the SDK.
func (a *analysis) annotated(s *scope, p Param) string {
	if p.Annotation == nil || p.Stars > 0 || p.Default != nil {
		return ""
	}
	switch kind := a.kindOf(s, p.Annotation); {
	case kind == sdk+":StepResult", kind == sdk+":PipelineResult":
		return kind
	case kind == sdk+":Pipeline", strings.HasPrefix(kind, base+":"):
		return kind + "()"
	}
	return ""
}

// name reports an undefined name, and a variable of a function that is read before it is assigned. The order of the
// code is the order in which it runs, except in loops.
func (a *analysis) name(s *scope, n *Name) {
	if b, at := s.lookup(n.ID); b != nil && !(at == a.global && a.unassigned[n.ID]) {
		if b.caught() && at == s && s.kind != classScope && a.guarded == 0 && !s.isDynamic() && !b.handles(n.Start) {
			a.report(CodeName, n.Range, "Assign the exception to another name in the except clause.",
				"The name %q has a value only inside of its except clause.", n.ID)
			return
		}
		early := at == s && s.kind == functionScope && !s.targets[n] && n.Start < b.from
		if early && a.loops == 0 && a.guarded == 0 && !s.isDynamic() {
			a.report(CodeName, n.Range, "Assign it first.", "The name %q has no value here: it is assigned below.",
				n.ID)
		}
		return
	}
	if help, ok := forbidden[n.ID]; ok {
		a.report(CodeForbidden, n.Range, help, "Node code cannot use %s().", n.ID)
		return
	}
	if slices.Contains(library()["builtins"], n.ID) || s.isDynamic() || a.guarded > 0 {
		return
	}
	help := "Define it, or import it."
	if near := diag.Nearest(n.ID, a.visible(s)); near != "" {
		help = fmt.Sprintf("Did you mean %q?", near)
	}
	if _, ok := library()[n.ID]; ok {
		help = fmt.Sprintf("Add \"import %s\".", n.ID)
	} else if modules := exporters(n.ID); len(modules) > 0 {
		help = fmt.Sprintf("Add \"from %s import %s\".", modules[0], n.ID)
	}
	a.report(CodeName, n.Range, help, "The name %q is not defined.", n.ID)
}

// forbidden are the functions that cannot work, or that hide what code does.
var forbidden = map[string]string{
	"open":       "Node code has no files. Pass the data in the state, or read the file in an agent.",
	"input":      "Node code has no terminal. Pass the value in the state.",
	"eval":       "Write the expression itself, or use json.loads or ast.literal_eval for data.",
	"exec":       "Write the code itself.",
	"compile":    "Write the code itself.",
	"__import__": "Use an import statement.",
	"breakpoint": "Use print.",
}

// visible returns all names of a scope and of its outer ones.
func (a *analysis) visible(s *scope) []string {
	out := slices.Clone(library()["builtins"])
	for o := s; o != nil; o = o.outer {
		out = slices.AppendSeq(out, maps.Keys(o.names))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

const noModule = "Use the standard library, move the work into an agent, or run with --python if python3 has the " +
	"module."

// imports reports modules and names that do not exist.
func (a *analysis) imports(n *Import) {
	if a.guarded > 0 { // the code handles their absence
		return
	}
	if n.From == "" {
		for _, one := range n.Names {
			a.missingModule(one.Name, one.Range)
		}
		return
	}
	known := library()[n.From]
	if a.missingModule(n.From, n.FromAt) {
		return
	}
	for _, one := range n.Names {
		if help := limitOf(n.From, one.Name); help != "" {
			a.report(CodeForbidden, one.Range, help, "Node code cannot use %s.%s.", n.From, one.Name)
		}
	}
	if len(known) == 0 {
		return
	}
	var missing []Alias
	for _, one := range n.Names {
		_, module := library()[n.From+"."+one.Name]
		if one.Name != "*" && !module && !slices.Contains(known, one.Name) {
			missing = append(missing, one)
		}
	}
	if len(missing) == 0 {
		return
	}
	names := xslices.Map(missing, func(one Alias) string { return fmt.Sprintf("%q", one.Name) })
	at := Range{missing[0].Start, missing[len(missing)-1].End}
	a.report(CodeAttribute, at, diag.DidYouMean(missing[0].Name, known), "The module %q has no %s.", n.From,
		strings.Join(names, ", "))
}

// missingModule reports a module that does not exist.
func (a *analysis) missingModule(name string, at Range) bool {
	if isModule(name) {
		return false
	}
	a.report(CodeModule, at, noModule, "The module %q is not available to node code.", name)
	return true
}

// attribute reports an attribute that a module or an object does not have.
func (a *analysis) attribute(s *scope, n *Attr) {
	if a.guarded > 0 {
		return
	}
	kind := a.kindOf(s, n.X)
	at := Range{n.End - len(n.Name), n.End}
	if help := limitOf(kind, n.Name); help != "" {
		a.report(CodeForbidden, at, help, "Node code cannot use %s.%s.", kind, n.Name)
		return
	}
	known := library()[kind]
	if c := a.classes[kind]; c != nil && strings.HasPrefix(kind, instanceKind) {
		known = c.attributes
	}
	_, module := library()[kind+"."+n.Name]
	if kind == "" || len(known) == 0 || module || slices.Contains(known, n.Name) || strings.HasPrefix(n.Name, "__") {
		return
	}
	what := fmt.Sprintf("A value of type %s", strings.TrimPrefix(kind, "builtins."))
	switch {
	case strings.HasPrefix(kind, sdk+":"), strings.HasPrefix(kind, base+":"):
		what = className(kind)
	case a.classes[kind] != nil:
		what = a.classes[kind].name
	case isClass(kind):
		what = kind
	case !strings.Contains(kind, ":") && !strings.HasPrefix(kind, "builtins."):
		what = fmt.Sprintf("The module %q", kind)
	}
	help := diag.DidYouMean(n.Name, known)
	if kind == "builtins.dict" && isParameter(s, n.X) {
		help = fmt.Sprintf("Write %s[%q] to read a field of the state.", a.text(n.X), n.Name)
	}
	a.report(CodeAttribute, at, help, "%s has no attribute %q.", what, n.Name)
}

// text returns the code of an expression.
func (a *analysis) text(x Expr) string { return a.module.Code[x.Where().Start:x.Where().End] }

// isParameter reports whether an expression is the state parameter of a node function.
func isParameter(s *scope, x Expr) bool {
	name, ok := x.(*Name)
	if !ok {
		return false
	}
	b := s.find(name.ID)
	return b != nil && len(b.values) > 0 && b.values[0] != nil && b.values[0].Where() == (Range{})
}

// The modules of the SDK.
const (
	sdk  = "agents.shared.agent_sdk"  // AgentRunner and Pipeline
	base = "agents.shared.agent_base" // AgentInput and AgentOutput
)

// kindOf returns what an expression is, if that is certain: a module, a class of the library or an instance of it such
// as "datetime.date", a type of the SDK such as "agents.shared.agent_sdk:StepResult", a built-in type such as
// "builtins.dict", or a class of the code or an instance of it (classKind, instanceKind).
func (a *analysis) kindOf(s *scope, x Expr) string {
	switch x := x.(type) {
	case *Name:
		return a.kindOfName(s, x)
	case *Const:
		return constantKind(x.Value)
	case *element:
		return a.elementKind(s, x.in)
	case *Index:
		return a.itemType(s, x).kind()
	case *Binary:
		kind, _ := arithmetic(x.Op, a.kindOf(s, x.X), a.kindOf(s, x.Y))
		return kind
	case *Compare:
		return "" // libraries define what comparisons return
	case *Unary:
		switch kind := a.kindOf(s, x.X); {
		case x.Op == "not":
			return builtin + "bool"
		case kind == builtin+"int" || kind == builtin+"float":
			return kind
		}
	case *IfExp:
		if kind := a.kindOf(s, x.Then); kind == a.kindOf(s, x.Else) {
			return kind
		}
	case *FString:
		return "builtins.str"
	case *DictExpr:
		return "builtins.dict"
	case *Seq:
		return map[byte]string{'[': "builtins.list", '(': "builtins.tuple", '{': "builtins.set"}[x.Kind]
	case *Comp:
		return map[byte]string{'[': "builtins.list", ':': "builtins.dict", '{': "builtins.set"}[x.Kind]
	case *Attr:
		kind := a.kindOf(s, x.X)
		if result := members[kind+"."+x.Name]; result != "" {
			return result
		}
		if (kind == sdk || kind == base) && slices.Contains(library()[kind], x.Name) {
			return kind + ":" + x.Name
		}
		if _, ok := library()[kind+"."+x.Name]; ok && kind != "" && !strings.HasPrefix(kind, "builtins.") {
			return kind + "." + x.Name
		}
	case *Call:
		switch fn := a.kindOf(s, x.Fn); {
		case fn == sdk+":Pipeline", fn == base+":AgentInput", fn == base+":AgentOutput":
			return fn + "()"
		case fn == sdk+":StepResult", isClass(fn) && fn != "":
			return fn
		case strings.HasPrefix(fn, classKind):
			instance := instanceKind + strings.TrimPrefix(fn, classKind)
			a.classes[instance] = a.classes[fn]
			return instance
		case strings.HasPrefix(fn, "="):
			return fn[1:]
		}
		if name, ok := x.Fn.(*Name); ok && s.find(name.ID) == nil && !s.isDynamic() {
			return conversions[name.ID]
		}
	}
	return ""
}

// members are the attributes whose type is known; "=T" is a function that returns a T.
var members = map[string]string{
	sdk + ":AgentRunner.run":     "=" + sdk + ":StepResult",
	sdk + ":StepResult.output":   "builtins.dict",
	sdk + ":Pipeline().add":      "=" + sdk + ":Pipeline()",
	sdk + ":Pipeline().run":      "=" + sdk + ":PipelineResult",
	sdk + ":Pipeline().describe": "=builtins.str",

	"builtins.str.join":    "=builtins.str",
	"builtins.str.strip":   "=builtins.str",
	"builtins.str.lower":   "=builtins.str",
	"builtins.str.upper":   "=builtins.str",
	"builtins.str.title":   "=builtins.str",
	"builtins.str.replace": "=builtins.str",
	"builtins.str.format":  "=builtins.str",
	"builtins.str.split":   "=builtins.list",

	"datetime.date.today":             "=datetime.date",
	"datetime.date.isoformat":         "=builtins.str",
	"datetime.datetime.now":           "=datetime.datetime",
	"datetime.datetime.utcnow":        "=datetime.datetime",
	"datetime.datetime.fromisoformat": "=datetime.datetime",
	"datetime.datetime.strptime":      "=datetime.datetime",
	"datetime.datetime.fromtimestamp": "=datetime.datetime",
	"datetime.datetime.astimezone":    "=datetime.datetime",
	"datetime.datetime.isoformat":     "=builtins.str",
	"datetime.datetime.strftime":      "=builtins.str",
	"re.compile":                      "=re.Pattern",
}

// conversions are the built-in functions whose results have a known type.
var conversions = map[string]string{
	"str": builtin + "str", "int": builtin + "int", "float": builtin + "float", "bool": builtin + "bool",
	"list": builtin + "list", "dict": builtin + "dict", "set": builtin + "set", "tuple": builtin + "tuple",
	"len": builtin + "int", "sorted": builtin + "list", "repr": builtin + "str",
}

// kindOfName returns what all values of a name are.
func (a *analysis) kindOfName(s *scope, n *Name) string {
	b, at := s.lookup(n.ID)
	if b == nil || len(b.defs) > 0 || len(b.classes) > 1 || a.rebound[n.ID] {
		return ""
	}
	if kind, ok := a.kinds[b]; ok {
		return kind
	}
	a.kinds[b] = "" // for values that refer to the name itself
	kinds := map[string]bool{}
	for _, kind := range b.kinds {
		kinds[kind] = true
	}
	for _, c := range b.classes {
		kind := fmt.Sprintf("%s%s %d", classKind, c.Name, len(a.classes))
		a.classes[kind] = a.classOf(c)
		kinds[kind] = true
	}
	for _, m := range b.modules {
		kinds[importedKind(m)] = true
	}
	for _, v := range b.values {
		if v == nil {
			return ""
		}
		kinds[a.kindOf(at, v)] = true
	}
	if len(kinds) == 1 {
		for kind := range kinds {
			a.kinds[b] = kind
		}
	}
	return a.kinds[b]
}

// importedKind returns the kind of an imported module, or of a name that is imported from one (module:name).
func importedKind(m string) string {
	module, name, from := strings.Cut(m, ":")
	if !from {
		return module
	}
	if _, ok := library()[module+"."+name]; ok {
		return module + "." + name
	}
	if module == sdk || module == base {
		return m
	}
	return ""
}

// call reports wrong arguments of functions that the code defines, and of the SDK.
func (a *analysis) call(s *scope, n *Call) {
	if def := a.definition(s, n.Fn); def != nil {
		a.arguments(n, def.Name, def.Params)
		return
	}
	a.calledValue(s, n)
	fn := a.kindOf(s, n.Fn)
	if c := a.classes[fn]; c != nil && strings.HasPrefix(fn, classKind) {
		if c.known {
			a.arguments(n, c.name, c.params)
		}
		return
	}
	if params, ok := signatures[fn]; ok {
		a.arguments(n, lastName(n.Fn), params)
		return
	}
	if attr, ok := n.Fn.(*Attr); ok {
		kind := a.kindOf(s, attr.X)
		if params, ok := signatures[kind+"."+attr.Name]; ok {
			a.arguments(n, attr.Name, params)
		}
		a.literalArgument(kind+"."+attr.Name, n)
		if (kind == sdk+":AgentRunner" && attr.Name == "run" || kind == sdk+":Pipeline()" && attr.Name == "add") &&
			len(n.Args) == 0 {
			a.report(CodeArguments, n.Range, "Add the key of an agent.", "The call of %s() names no agent.", attr.Name)
		}
	} else if name, ok := n.Fn.(*Name); ok && s.find(name.ID) != nil {
		if b := s.find(name.ID); len(b.modules) == 1 && len(b.values)+len(b.defs)+len(b.classes) == 0 {
			a.literalArgument(strings.Replace(b.modules[0], ":", ".", 1), n)
		}
	} else if ok {
		if params, ok := signatures["builtins."+name.ID]; ok {
			a.arguments(n, name.ID, params)
		}
	}
}

// literalArgument reports a text for which a function of the library fails.
func (a *analysis) literalArgument(fn string, n *Call) {
	if a.guarded > 0 || len(n.Args) == 0 || n.Args[0].Name != "" || n.Args[0].Stars > 0 {
		return
	}
	switch text := textOf(n.Args[0].X); {
	case text == "":
	case fn == "importlib.import_module" && !strings.HasPrefix(text, "."):
		a.missingModule(text, n.Args[0].X.Where())
	case fn == "sqlite3.connect" && !strings.Contains(text, "memory"):
		a.report(CodeForbidden, n.Range, noFiles, "Node code cannot use the database %q.", text)
	}
}

// definition returns the only definition of a called function, unless a decorator may change it.
func (a *analysis) definition(s *scope, fn Expr) *Def {
	name, ok := fn.(*Name)
	if !ok {
		return nil
	}
	b := s.find(name.ID)
	if b == nil || len(b.defs) != 1 || len(b.values)+len(b.modules)+len(b.classes) > 0 ||
		len(b.defs[0].Def.Decorators) > 0 {
		return nil
	}
	return b.defs[0].Def
}

// required, optional and keyOnly return parameters for signatures.
func required(names ...string) []Param {
	return xslices.Map(names, func(name string) Param { return Param{Name: name} })
}

func optional(names ...string) []Param {
	return xslices.Map(names, func(name string) Param { return Param{Name: name, Default: &Const{}} })
}

func keyOnly(names ...string) []Param {
	out := optional(names...)
	for i := range out {
		out[i].KeyOnly = true
	}
	return out
}

// extreme are the parameters of max and min.
var extreme = append(append(required("arg1"), Param{Name: "args", Stars: 1}), keyOnly("key", "default")...)

// signatures are the parameters of known functions. Those of the SDK have several names for the agent, so that all are
// optional here.
var signatures = map[string][]Param{
	sdk + ":AgentRunner.run": append(optional("name", "workload"),
		Param{Name: "agent_name", KeyOnly: true, Default: &Const{}}),
	sdk + ":Pipeline().run":      nil,
	sdk + ":Pipeline().describe": nil,
	sdk + ":Pipeline().add": append(optional("agent", "workload", "depends_on", "transform"),
		Param{Name: "agent_name", KeyOnly: true, Default: &Const{}}),
	base + ":AgentInput":  append(required("workload"), optional("options", "context")...),
	base + ":AgentOutput": outputParameters(),
	sdk + ":Pipeline":     optional("name"),
	"builtins.len":        required("obj"),
	"builtins.abs":        required("x"),
	"builtins.bool":       optional("x"),
	"builtins.isinstance": required("obj", "class_or_tuple"),
	"builtins.hasattr":    required("obj", "name"),
	"builtins.round":      append(required("number"), optional("ndigits")...),
	"builtins.sum":        append(required("iterable"), optional("start")...),
	"builtins.enumerate":  append(required("iterable"), optional("start")...),
	"builtins.sorted":     append(required("iterable"), keyOnly("key", "reverse")...),
	"builtins.map":        append(required("func", "iterable"), Param{Name: "iterables", Stars: 1}),
	"builtins.filter":     required("function", "iterable"),
	"builtins.max":        extreme,
	"builtins.min":        extreme,
	"builtins.any":        required("iterable"),
	"builtins.all":        required("iterable"),
	"builtins.reversed":   required("sequence"),
	"builtins.callable":   required("obj"),
	"builtins.repr":       required("obj"),
}

// arguments reports a call whose arguments do not fit the parameters.
func (a *analysis) arguments(n *Call, name string, params []Param) {
	given := map[string]bool{}
	positional, open := 0, false
	var list, keywords bool // *args and **kwargs
	var places []Param
	for _, p := range params {
		switch {
		case p.Stars == 1:
			list = true
		case p.Stars == 2:
			keywords = true
		case !p.KeyOnly:
			places = append(places, p)
		}
	}
	for _, arg := range n.Args {
		switch {
		case arg.Stars > 0:
			open = true
		case arg.Name == "":
			positional++
		default:
			i := slices.IndexFunc(params, func(p Param) bool {
				return p.Name == arg.Name && p.Stars == 0 &&
					!p.PosOnly
			})
			if i < 0 && !keywords {
				a.report(CodeArguments, arg.X.Where(), diag.DidYouMean(arg.Name, paramNames(params)),
					"%s() has no parameter %q.", name, arg.Name)
				return
			}
			given[arg.Name] = true
		}
	}
	if positional > len(places) && !list {
		a.report(CodeArguments, n.Range, "Remove the others.", "%s() takes %s, but the call has %d.", name,
			counted(len(places), "positional argument"), positional)
		return
	}
	for _, p := range params {
		at := slices.IndexFunc(places, func(o Param) bool { return o.Name == p.Name })
		if p.Stars > 0 || p.Default != nil || given[p.Name] || open || at >= 0 && at < positional {
			if at >= 0 && at < positional && given[p.Name] && !p.PosOnly {
				a.report(CodeArguments, n.Range, "Remove one of the two.", "%s() gets the argument %q twice.", name,
					p.Name)
				return
			}
			continue
		}
		a.report(CodeArguments, n.Range, "Add it.", "The call of %s() has no argument %q.", name, p.Name)
		return
	}
}

// counted returns a number with a noun in the right form.
func counted(n int, what string) string {
	switch n {
	case 0:
		return "no " + what + "s"
	case 1:
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// paramNames returns the names by which arguments can be given.
func paramNames(params []Param) (out []string) {
	for _, p := range params {
		if p.Stars == 0 && !p.PosOnly {
			out = append(out, p.Name)
		}
	}
	return out
}
