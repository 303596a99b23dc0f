package python

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// Nodes describes the functions that a program calls with the state.
type Nodes struct {
	Functions []string
	Fields    map[string]Type // of the state; nil if they are not known
}

// Type is the type of a field of the state.
type Type struct {
	Name  string // str, int, float, bool, list, dict or any
	Elem  *Type  // of a list or the values of a dict; nil if any
	Null  bool   // None is allowed
	Grows bool   // values are added to the field, so None is not allowed
}

// kind returns the type as kindOf does; "" if it is not certain.
func (t *Type) kind() string {
	if t == nil || t.Null || t.Name == "any" || t.Name == "" {
		return ""
	}
	return builtin + t.Name
}

const builtin = "builtins."

// noneKind is the kind of None. Code often tests for it, so that only what a node returns is checked.
const noneKind = builtin + "None"

// constantKind returns the kind of a constant.
func constantKind(v any) string {
	switch v.(type) {
	case nil:
		return noneKind
	case string:
		return builtin + "str"
	case bool:
		return builtin + "bool"
	case int64, *big.Int:
		return builtin + "int"
	case float64:
		return builtin + "float"
	}
	return ""
}

// element is the value of a loop variable.
type element struct {
	Range
	in Expr
}

// elementKind returns what the items of an iterable are.
func (a *analysis) elementKind(s *scope, x Expr) string {
	if list, ok := x.(*Index); ok {
		if t := a.itemType(s, list); t != nil && t.Name == "list" && !t.Null {
			return t.Elem.kind()
		}
	}
	return ""
}

// isOutput reports whether an expression is the output of an agent.
func (a *analysis) isOutput(s *scope, x Expr) bool {
	attr, ok := x.(*Attr)
	return ok && attr.Name == "output" && a.kindOf(s, attr.X) == sdk+":StepResult"
}

// itemType returns the type of state["field"] and of result.output["key"]. It returns nil if the type is not known, if
// the code may change the state, or if it handles values of other types.
func (a *analysis) itemType(s *scope, x *Index) *Type {
	switch {
	case a.asksTypes:
	case a.isOutput(s, x.X):
		return typeOfOutput(textOf(x.Key))
	case isParameter(s, x.X) && !a.changesState:
		if t, ok := a.nodes.Fields[textOf(x.Key)]; ok {
			return &t
		}
	}
	return nil
}

// textOf returns the value of a text constant, or "".
func textOf(x Expr) string {
	if c, ok := x.(*Const); ok {
		text, _ := c.Value.(string)
		return text
	}
	return ""
}

// stateChanges reports whether node functions may change the state that they get. They do not if they only read fields.
func stateChanges(m *Module, functions []string) bool {
	changes := false
	for _, stmt := range m.Body {
		def, ok := stmt.(*FuncDef)
		if !ok || !slices.Contains(functions, def.Def.Name) || len(def.Def.Params) == 0 {
			continue
		}
		state := def.Def.Params[0].Name
		isState := func(x Expr) bool {
			name, ok := x.(*Name)
			return ok && name.ID == state
		}
		reads := map[any]bool{}
		Walk(def.Def.Body, func(n any) bool {
			targets := targetsOf(n)
			switch n := n.(type) {
			case *Index:
				if isState(n.X) {
					reads[n.X] = true
				}
			case *Attr:
				if isState(n.X) && slices.Contains([]string{"get", "keys", "values", "items", "copy"}, n.Name) {
					reads[n.X] = true
				}
			case *Del:
				targets = n.Targets
			case *Name:
				changes = changes || n.ID == state && !reads[n]
			}
			for _, target := range targets {
				if item, ok := target.(*Index); ok && isState(item.X) {
					changes = true
				}
			}
			return true
		})
	}
	return changes
}

// arithmetic returns the kind of the result of an operator. It returns false if the operator fails for these kinds.
func arithmetic(op, x, y string) (kind string, ok bool) {
	number := func(k string) bool { return k == builtin+"int" || k == builtin+"float" || k == builtin+"bool" }
	known := func(k string) bool {
		return number(k) || slices.Contains([]string{
			builtin + "str", builtin + "list", builtin + "tuple", builtin + "dict", builtin + "set",
		}, k)
	}
	sequence := func(k string) bool { return k == builtin+"str" || k == builtin+"list" || k == builtin+"tuple" }
	whole := func(k string) bool { return number(k) && k != builtin+"float" }
	switch {
	case x == "decimal.Decimal" && y == x, op == "%" && x == builtin+"str":
		return x, true
	case !known(x) || !known(y):
		return "", true
	case number(x) && number(y):
		switch {
		case op == "/" || op != "**" && (x == builtin+"float" || y == builtin+"float"):
			return builtin + "float", true
		case op == "+" || op == "-" || op == "*":
			return builtin + "int", true
		}
		return "", true // depends on the values
	case op == "+" && sequence(x) && x == y, op == "*" && sequence(x) && whole(y):
		return x, true
	case op == "*" && whole(x) && sequence(y):
		return y, true
	case op == "|" || op == "&" || op == "^" || op == "-": // of sets and dicts
		if (x == builtin+"set" || op == "|" && x == builtin+"dict") && x == y {
			return x, true
		}
	case !slices.Contains([]string{"+", "*", "/", "//", "%", "**", "<<", ">>"}, op):
		return "", true
	}
	return "", false
}

// binary reports an operator whose operands do not fit.
func (a *analysis) binary(s *scope, n *Binary) {
	x, y := a.kindOf(s, n.X), a.kindOf(s, n.Y)
	if _, ok := arithmetic(n.Op, x, y); ok || a.guarded > 0 {
		return
	}
	help := ""
	if n.Op == "+" && (x == builtin+"str" || y == builtin+"str") {
		help = "Convert the value with str(), or use an f-string."
	}
	a.report(CodeType, n.Range, help, "The operator %s does not work with %s and %s.", n.Op, kindName(x), kindName(y))
}

// index reports a value that has no items, and environment variables.
func (a *analysis) index(s *scope, n *Index) {
	if a.guarded > 0 {
		return
	}
	kind := a.kindOf(s, n.X)
	switch {
	case slices.Contains(records, kind):
		help := "Write the name of the attribute after a dot."
		if key := textOf(n.Key); slices.Contains(library()[kind], key) {
			help = fmt.Sprintf("Write %s.%s.", a.text(n.X), key)
		}
		a.report(CodeType, n.Range, help, "%s has attributes and no items.", className(kind))
	case kind == builtin+"int" || kind == builtin+"float" || kind == builtin+"bool":
		a.report(CodeType, n.Range, "", "%s has no items.", sentence(kindName(kind)))
	case a.isEnviron(s, n.X) && !a.handlesEnviron && textOf(n.Key) != "":
		a.report(CodeForbidden, n.Range, "Pass the value in the state, or run with --python.",
			"Node code has no environment variables.")
	}
}

// isEnviron reports whether an expression is os.environ.
func (a *analysis) isEnviron(s *scope, x Expr) bool {
	switch x := x.(type) {
	case *Attr:
		return x.Name == "environ" && a.kindOf(s, x.X) == "os"
	case *Name:
		b := s.find(x.ID)
		return b != nil && len(b.values) == 0 && slices.Equal(b.modules, []string{"os:environ"})
	}
	return false
}

// records are the types of the SDK that have only data.
var records = []string{sdk + ":StepResult", sdk + ":PipelineResult", base + ":AgentInput()", base + ":AgentOutput()"}

// calledValue reports a call of something that is not a function.
func (a *analysis) calledValue(s *scope, n *Call) {
	if a.guarded > 0 {
		return
	}
	what := ""
	if attr, ok := n.Fn.(*Attr); ok {
		if kind := a.kindOf(s, attr.X); slices.Contains(records, kind) && slices.Contains(library()[kind], attr.Name) {
			what = className(kind) + "." + attr.Name
		}
	}
	if kind := a.kindOf(s, n.Fn); what == "" && strings.HasPrefix(kind, builtin) && kind != noneKind {
		what = a.text(n.Fn)
	}
	if what != "" {
		a.report(CodeType, n.Range, "Remove the parentheses.", "%s is a value and not a function.", what)
	}
}

// returned checks the values that a node function returns against the fields of the state.
func (a *analysis) returned(s *scope, d *Def) {
	Walk(d.Body, func(n any) bool {
		r, ok := n.(*Return)
		if !ok || r.X == nil {
			return !opensScope(n)
		}
		switch kind := a.kindOf(s, r.X); {
		case kind == builtin+"dict" || kind == noneKind:
		case strings.HasPrefix(kind, builtin) || slices.Contains(records, kind):
			a.report(CodeType, r.X.Where(), `Return the fields that change, as in {"errors": ["..."]}.`,
				"A node returns a dict of fields, not %s.", kindName(kind))
		}
		dict, ok := r.X.(*DictExpr)
		if !ok {
			return true
		}
		for _, p := range dict.Pairs {
			name := textOf(p.Key)
			if t, known := a.nodes.Fields[name]; known {
				a.fits(s, p.Value, &t, fmt.Sprintf("The field %q", name))
			}
		}
		return true
	})
}

// fits reports a value that does not fit a type.
func (a *analysis) fits(s *scope, x Expr, t *Type, what string) {
	kind := a.kindOf(s, x)
	if kind == builtin+"tuple" {
		kind = builtin + "list" // stored as a list
	}
	want := builtin + t.Name
	switch {
	case a.isUnstorable(kind):
		a.report(CodeType, x.Where(), unstorableHelp(kind), "%s cannot be stored as JSON.", sentence(kindName(kind)))
		return
	case kind == noneKind && !t.Grows, t.Name == "any", t.Name == "", !strings.HasPrefix(kind, builtin), kind == want,
		kind == builtin+"int" && t.Name == "float":
	default:
		a.report(CodeType, x.Where(), "The type is in the state schema.", "%s must be %s, not %s.", what,
			kindName(want), kindName(kind))
		return
	}
	elem := &Type{Name: "any"}
	if t.Elem != nil {
		elem = t.Elem
	}
	switch x := x.(type) {
	case *Seq:
		for _, item := range x.Items {
			if _, starred := item.(*Starred); !starred {
				a.fits(s, item, elem, "The item")
			}
		}
	case *DictExpr:
		for _, p := range x.Pairs {
			if p.Key != nil {
				a.fits(s, p.Value, elem, "The value")
			}
		}
	}
}

// isUnstorable reports whether values of a kind cannot be stored as JSON.
func (a *analysis) isUnstorable(kind string) bool {
	switch kind {
	case builtin + "set", "decimal.Decimal", "datetime.date", "datetime.datetime", "datetime.timedelta",
		"collections.deque", "fractions.Fraction", "pathlib.Path":
		return true
	}
	c := a.classes[kind]
	return slices.Contains(records, kind) || strings.HasPrefix(kind, instanceKind) && c != nil && c.known
}

// unstorableHelp returns how to make a value of a kind storable.
func unstorableHelp(kind string) string {
	switch {
	case kind == builtin+"set":
		return "Convert it with sorted() or list()."
	case kind == "decimal.Decimal", kind == "fractions.Fraction":
		return "Convert it with float() or str()."
	case strings.HasPrefix(kind, instanceKind):
		return "Convert it to a dict, for a dataclass with dataclasses.asdict()."
	}
	return "Convert it to a dict, a list, a text or a number."
}

// kindName returns a kind for messages.
func kindName(kind string) string {
	name := strings.TrimPrefix(kind, builtin)
	switch {
	case kind == noneKind:
		return "None"
	case name == "int":
		return "an int"
	case strings.HasPrefix(kind, instanceKind):
		name, _, _ = strings.Cut(strings.TrimPrefix(kind, instanceKind), " ")
		return "an object of class " + name
	case strings.Contains(kind, ":"):
		name = className(kind)
	}
	return "a " + name
}

// className returns the name of a class of the SDK.
func className(kind string) string {
	_, name, _ := strings.Cut(strings.TrimSuffix(kind, "()"), ":")
	return name
}

func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
