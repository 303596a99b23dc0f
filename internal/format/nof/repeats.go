package nof

import (
	"maps"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/python"
)

// unbounded is a number of calls without a bound.
const unbounded = -1

// maxCalls is the largest bound: more calls count as unbounded. The sum of the prices of that many calls from each
// place in a workflow fits into an int64.
const maxCalls = 1_000_000_000

// callCounter counts how often code can call its agents.
type callCounter struct {
	d *document
	// counted are the calls of functions by name. Functions with the same name count together.
	counted map[string]tally
	added   int // the size of all tallies that add has added
}

// maxAdded bounds the work of a callCounter, because code comes from untrusted files. Code that is counted after it is
// reached can make any number of calls.
const maxAdded = 1_000_000

// tally is how often each agent is called at most; "" stands for agents whose names the code computes.
type tally map[string]int64

// add adds a number of times the calls of another tally to a tally.
func (c *callCounter) add(out, other tally, times int64) {
	if len(other) == 0 {
		return
	}
	if c.added += len(other); c.added > maxAdded {
		other = tally{"": unbounded}
	}
	for key, n := range other {
		out[key] = plus(out[key], product(n, times))
	}
}

// atLeast raises the numbers to those of another tally: one of two branches is taken.
func (t tally) atLeast(other tally) {
	for key, n := range other {
		if t[key] != unbounded && (n == unbounded || n > t[key]) {
			t[key] = n
		}
	}
}

// unbound removes the bounds of all numbers.
func (t tally) unbound() {
	for key := range t {
		t[key] = unbounded
	}
}

// of returns the calls of an agent.
func (t tally) of(key string) int64 { return plus(t[key], t[""]) }

// plus and product compute with numbers that may be unbounded.
func plus(a, b int64) int64 {
	if a == unbounded || b == unbounded || a > maxCalls-b {
		return unbounded
	}
	return a + b
}

// product multiplies two numbers. Nothing is done 0 times an unbounded number, so that is 0.
func product(a, b int64) int64 {
	switch {
	case a == 0 || b == 0:
		return 0
	case a == unbounded || b == unbounded || a > maxCalls/b:
		return unbounded
	}
	return a * b
}

// newCallCounter returns a counter of the calls in modules.
func newCallCounter(d *document, modules ...*python.Module) *callCounter {
	defs := map[string][]*python.Def{}
	for _, m := range modules {
		if m == nil {
			continue
		}
		python.Walk(m.Body, func(x any) bool {
			switch x := x.(type) {
			case *python.FuncDef:
				defs[x.Def.Name] = append(defs[x.Def.Name], x.Def)
			case *python.ClassDef: // its name stands for the methods that Python calls by itself
				for _, s := range x.Body {
					if f, ok := s.(*python.FuncDef); ok && strings.HasPrefix(f.Def.Name, "__") {
						defs[x.Name] = append(defs[x.Name], f.Def)
					}
				}
			}
			return true
		})
	}
	c := &callCounter{d: d, counted: map[string]tally{}}
	c.functions(defs)
	return c
}

// functions counts the calls of functions, each after those that it uses. Functions that may call themselves, or each
// other, have no bound.
func (c *callCounter) functions(defs map[string][]*python.Def) {
	names := slices.Sorted(maps.Keys(defs))
	index := map[string]int{}
	for i, name := range names {
		index[name] = i
	}
	next := make([][]int, len(names))
	for i, name := range names {
		for _, def := range defs[name] {
			for _, other := range c.used(def.Body) {
				if j, ok := index[other]; ok {
					next[i] = append(next[i], j)
				}
			}
		}
	}
	for _, component := range ir.Components(next) {
		out := tally{}
		for _, i := range component.Nodes {
			c.add(out, c.function(names[i], defs[names[i]]), 1)
		}
		if component.Cyclic {
			out.unbound()
		}
		for _, i := range component.Nodes {
			c.counted[names[i]] = out
		}
	}
}

// used returns the names that statements use, apart from those in nested functions.
func (c *callCounter) used(list []python.Stmt) (names []string) {
	var visit func(x any) bool
	visit = func(x any) bool {
		switch x := x.(type) {
		case *python.FuncDef:
			return false
		case *python.Name:
			names = append(names, x.ID)
		case *python.Attr:
			names = append(names, x.Name)
		case *python.Call: // run and add are methods of the SDK, see call
			if fn, ok := x.Fn.(*python.Attr); ok && (c.d.isRun(fn) || isAdd(fn)) {
				body := []python.Stmt{&python.ExprStmt{X: fn.X}}
				for _, a := range x.Args {
					body = append(body, &python.ExprStmt{X: a.X})
				}
				python.Walk(body, visit)
				return false
			}
		}
		return true
	}
	python.Walk(list, visit)
	return names
}

// function counts the calls of the functions with a name.
func (c *callCounter) function(name string, defs []*python.Def) tally {
	out := tally{}
	for _, def := range defs {
		calls := c.count(def.Body)
		// A decorator, or Python itself, may call it more than once.
		if len(def.Decorators) > 0 || strings.HasPrefix(name, "__") || def.Name != name && def.Name != "__init__" {
			calls.unbound()
		}
		c.add(out, calls, 1)
	}
	return out
}

// count returns the calls of statements that run once.
func (c *callCounter) count(list []python.Stmt) tally {
	out := tally{}
	python.Walk(list, func(x any) bool { return c.visit(x, out) })
	return out
}

// exprs returns the calls of expressions; nil ones are ignored.
func (c *callCounter) exprs(list ...python.Expr) tally {
	var body []python.Stmt
	for _, x := range list {
		if x != nil {
			body = append(body, &python.ExprStmt{X: x})
		}
	}
	return c.count(body)
}

// visit adds the calls of a node to a tally. It reports whether those of its parts are to be added, too.
func (c *callCounter) visit(x any, out tally) bool {
	switch x := x.(type) {
	case *python.Call:
		return c.call(x, out)
	case *python.Name: // a function that is passed on may be called any number of times
		c.add(out, c.counted[x.ID], unbounded)
		if slices.Contains(c.d.runners, x.ID) {
			c.add(out, tally{"": 1}, unbounded)
		}
	case *python.Attr:
		c.add(out, c.counted[x.Name], unbounded)
	case *python.FuncDef: // its calls count where it is called
		return false
	case *python.Lambda:
		c.add(out, c.exprs(x.Def.Result), unbounded)
		return false
	case *python.If:
		c.add(out, c.exprs(x.Cond), 1)
		branch := c.count(x.Then)
		branch.atLeast(c.count(x.Else))
		c.add(out, branch, 1)
		return false
	case *python.IfExp:
		c.add(out, c.exprs(x.Cond), 1)
		branch := c.exprs(x.Then)
		branch.atLeast(c.exprs(x.Else))
		c.add(out, branch, 1)
		return false
	case *python.For:
		c.add(out, c.exprs(x.In), 1)
		c.add(out, c.count(x.Body), length(x.In))
		c.add(out, c.count(x.Else), 1)
		return false
	case *python.While:
		c.add(out, c.exprs(x.Cond), unbounded)
		c.add(out, c.count(x.Body), unbounded)
		c.add(out, c.count(x.Else), 1)
		return false
	case *python.Comp:
		c.comprehension(x, out)
		return false
	}
	return true
}

// comprehension adds the calls of a comprehension: each clause runs once for every item of those before it.
func (c *callCounter) comprehension(x *python.Comp, out tally) {
	times := int64(1)
	for _, clause := range x.Clauses {
		c.add(out, c.exprs(clause.In), times)
		times = product(times, length(clause.In))
		c.add(out, c.exprs(clause.Ifs...), times)
	}
	c.add(out, c.exprs(x.Key, x.Item), times)
}

// call adds the calls of a call: that of the function, and those in its arguments. It returns false, as visit does when
// the parts have been visited.
func (c *callCounter) call(x *python.Call, out tally) bool {
	adds := false
	switch fn := x.Fn.(type) {
	case *python.Name:
		c.add(out, c.counted[fn.ID], 1)
	case *python.Attr:
		adds = isAdd(fn)
		switch {
		case c.d.isRun(fn) || adds:
			key := ""
			if k, ok := agentKey(x); ok {
				key = k.Value.(string)
			}
			c.add(out, tally{key: 1}, 1)
		default:
			c.add(out, c.counted[fn.Name], 1)
		}
		if !c.d.isRun(fn) {
			c.add(out, c.exprs(fn.X), 1)
		}
	default:
		c.add(out, c.exprs(fn), 1)
	}
	for _, a := range x.Args {
		if name, ok := a.X.(*python.Name); ok && adds { // the function of an added step
			c.add(out, c.counted[name.ID], 1)
			continue
		}
		c.add(out, c.exprs(a.X), 1)
	}
	return false
}

// length returns how many items a literal or a range has.
func length(x python.Expr) int64 {
	switch x := x.(type) {
	case *python.Seq:
		for _, item := range x.Items {
			if _, ok := item.(*python.Starred); ok {
				return unbounded
			}
		}
		return int64(len(x.Items))
	case *python.Call:
		if name, ok := x.Fn.(*python.Name); ok && name.ID == "range" {
			return rangeLength(x.Args)
		}
		if name, ok := x.Fn.(*python.Name); ok && len(x.Args) > 0 && x.Args[0].Stars == 0 &&
			slices.Contains([]string{"enumerate", "reversed", "sorted", "list", "tuple"}, name.ID) {
			return length(x.Args[0].X)
		}
	}
	return unbounded
}

// rangeLength returns the number of items of range(…) with one or two constant arguments.
func rangeLength(args []python.Arg) int64 {
	var n []int64
	for _, a := range args {
		c, ok := a.X.(*python.Const)
		if !ok || a.Stars > 0 || a.Name != "" {
			return unbounded
		}
		v, ok := c.Value.(int64)
		if !ok {
			return unbounded
		}
		n = append(n, v)
	}
	switch len(n) {
	case 1:
		return max(0, n[0])
	case 2:
		return max(0, n[1]-n[0])
	}
	return unbounded
}
