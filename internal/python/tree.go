package python

import (
	"reflect"
	"sync"

	"github.com/espalier-run/espalier/internal/source"
)

// Expr is an expression.
type Expr interface{ Where() Range }

// Stmt is a statement.
type Stmt interface{ Where() Range }

// Range is the bytes [Start, End) of the code.
type Range struct{ Start, End int }

// Where returns the range itself. It makes every node with a Range an Expr or a Stmt.
func (r Range) Where() Range { return r }

func (r *Range) setRange(at Range) { *r = at }

// node is a node whose range can be set.
type node interface {
	Where() Range
	setRange(at Range)
}

// The expressions.
type (
	// Name is a variable.
	Name struct {
		Range
		ID string
	}
	// Const is None, a bool, an int64, a *big.Int, a float64, a string or an Opaque.
	Const struct {
		Range
		Value any `walk:"-"`
	}
	// FString is an f-string with the expressions in it.
	FString struct {
		Range
		Fields []Expr
	}
	// Seq is a list, a tuple or a set.
	Seq struct {
		Range
		Kind  byte // '[', '(' or '{'
		Items []Expr
	}
	// DictExpr is a dict; a pair without a key is **value.
	DictExpr struct {
		Range
		Pairs []Pair
	}
	// Attr is x.Name.
	Attr struct {
		Range
		X    Expr
		Name string
	}
	// Index is x[Key]; Key may be an *Operation, a slice.
	Index struct {
		Range
		X, Key Expr
	}
	// Call is a call.
	Call struct {
		Range
		Fn   Expr
		Args []Arg
	}
	// Unary is -x, +x, ~x and not x.
	Unary struct {
		Range
		Op string
		X  Expr
	}
	// Binary is arithmetic.
	Binary struct {
		Range
		Op   string
		X, Y Expr
	}
	// BoolOp is a chain of "and" or "or".
	BoolOp struct {
		Range
		X, Y Expr
	}
	// Compare is a chain of comparisons.
	Compare struct {
		Range
		First Expr
		Ops   []string
		Rest  []Expr
	}
	// IfExp is "a if cond else b".
	IfExp struct {
		Range
		Cond, Then, Else Expr
	}
	// Lambda is a lambda expression.
	Lambda struct {
		Range
		Def *Def
	}
	// Comp is a comprehension.
	Comp struct {
		Range
		Kind    byte // '[', '{', ':' for a dict, '(' for a generator
		Clauses []Clause
		Key     Expr // of a dict
		Item    Expr
	}
	// Starred is *x.
	Starred struct {
		Range
		X Expr
	}
	// Walrus is name := x.
	Walrus struct {
		Range
		Name *Name
		X    Expr
	}
	// Operation is a slice lo:hi:step, await x, yield x, yield from x, or the statement assert x, message.
	Operation struct {
		Range
		Operands []Expr
	}
)

// Opaque is a constant whose value is not kept, by its type: "bytes", "complex" or "ellipsis".
type Opaque string

// Pair is one pair of a dict.
type Pair struct{ Key, Value Expr }

// Arg is one argument of a call.
type Arg struct {
	Name  string // of a keyword argument
	Stars int    // 1: *X, 2: **X
	X     Expr
}

// Clause is one "for … in … if …" of a comprehension.
type Clause struct {
	Target Expr
	In     Expr
	Ifs    []Expr
}

// Def is the common part of functions and lambdas.
type Def struct {
	Name string
	// Types are the names of type parameters, Decorators what is applied to the function.
	Types      []string
	Decorators []Expr
	Params     []Param
	Result     Expr // of a lambda
	Body       []Stmt
	Async      bool
}

// Param is a parameter.
type Param struct {
	Name       string
	Annotation Expr `walk:"-"`
	Default    Expr
	Stars      int
	KeyOnly    bool
	PosOnly    bool
}

// The statements.
type (
	// ExprStmt is an expression statement.
	ExprStmt struct {
		Range
		X Expr
	}
	// Assign is a = b = x.
	Assign struct {
		Range
		Targets []Expr
		X       Expr
	}
	// AnnAssign is a: T = x; X may be nil.
	AnnAssign struct {
		Range
		Target Expr
		Type   Expr `walk:"-"`
		X      Expr
	}
	// AugAssign is a += x.
	AugAssign struct {
		Range
		Target Expr
		X      Expr
	}
	// If is an if statement; Else contains the elif clauses.
	If struct {
		Range
		Cond       Expr
		Then, Else []Stmt
	}
	// For is a for loop.
	For struct {
		Range
		Target, In Expr
		Body, Else []Stmt
	}
	// While is a while loop.
	While struct {
		Range
		Cond       Expr
		Body, Else []Stmt
	}
	// Return is a return statement; X may be nil.
	Return struct {
		Range
		X Expr
	}
	// Jump is pass, break or continue.
	Jump struct{ Range }
	// FuncDef defines a function.
	FuncDef struct {
		Range
		NameAt Range
		Def    *Def
	}
	// ClassDef defines a class.
	ClassDef struct {
		Range
		Name       string
		NameAt     Range
		Types      []string
		Decorators []Expr
		Bases      []Expr
		Keywords   []Expr // values of keyword arguments
		Body       []Stmt
	}
	// Import imports modules or, with From, names of a module. The name * imports all names.
	Import struct {
		Range
		From   string
		FromAt Range
		Names  []Alias
	}
	// With is a with statement.
	With struct {
		Range
		Items []WithItem
		Body  []Stmt
	}
	// Match is a match statement.
	Match struct {
		Range
		Subject Expr
		Cases   []Case
	}
	// TypeAlias is type NAME = X.
	TypeAlias struct {
		Range
		Name string
	}
	// Try is a try statement.
	Try struct {
		Range
		Body          []Stmt
		Handlers      []Handler
		Else, Finally []Stmt
	}
	// Raise is a raise statement; X and Cause may be nil.
	Raise struct {
		Range
		X, Cause Expr
	}
	// Del is a del statement.
	Del struct {
		Range
		Targets []Expr
	}
	// Scope is a global or nonlocal statement.
	Scope struct {
		Range
		Word  string
		Names []string
	}
)

// WithItem is one "x as target" of a with statement; Target may be nil.
type WithItem struct{ X, Target Expr }

// Case is one case of a match statement. Its pattern is kept as the names that it binds and the expressions that it
// evaluates.
type Case struct {
	Range
	Binds []*Name `walk:"-"`
	Uses  []Expr
	Guard Expr
	Body  []Stmt
}

// Alias is "name as other".
type Alias struct {
	Range
	Name, As string
}

// Handler is one except clause.
type Handler struct {
	Range
	Type Expr // nil catches everything
	As   string
	Body []Stmt
}

// Module is a parsed program.
type Module struct {
	Code string
	// Base is the offset of the code in its file, Line the number of its first line.
	Base, Line int
	Body       []Stmt

	file *source.File
}

// Span returns the place of a range in the file.
func (m *Module) Span(at Range) source.Span { return m.file.Span(m.Base+at.Start, m.Base+at.End) }

// Walk visits all nodes of some statements, in the order of the fields of their types. It skips the children of a node
// if visit returns false. Fields with the tag `walk:"-"` are not visited.
func Walk(body []Stmt, visit func(n any) bool) {
	for _, s := range body {
		walk(s, visit)
	}
}

func walk(n any, visit func(any) bool) { walkValue(reflect.ValueOf(n), visit) }

// walkValue visits the nodes in a value: pointers with a Range. Other pointers and structs are parts of nodes.
func walkValue(v reflect.Value, visit func(any) bool) {
	switch v.Kind() {
	case reflect.Interface:
		walkValue(v.Elem(), visit)
	case reflect.Pointer:
		if v.IsNil() {
			return
		}
		if n, ok := v.Interface().(Expr); !ok || visit(n) {
			walkValue(v.Elem(), visit)
		}
	case reflect.Slice:
		for i := range v.Len() {
			walkValue(v.Index(i), visit)
		}
	case reflect.Struct:
		for _, i := range childrenOf(v.Type()) {
			walkValue(v.Field(i), visit)
		}
	}
}

// children caches what childrenOf returns.
var children sync.Map // of []int, by reflect.Type

// childrenOf returns the fields of a type that can have nodes.
func childrenOf(t reflect.Type) []int {
	if known, ok := children.Load(t); ok {
		return known.([]int)
	}
	var out []int
	for i := range t.NumField() {
		f := t.Field(i)
		of := f.Type
		if of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		switch of.Kind() {
		case reflect.Interface, reflect.Pointer, reflect.Struct:
			if f.IsExported() && of != reflect.TypeFor[Range]() && f.Tag == "" {
				out = append(out, i)
			}
		}
	}
	children.Store(t, out)
	return out
}
