package nof

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/python"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

// node is a function that calls an agent (section 8).
type node struct {
	function string
	at       source.Span
	param    string // what it calls the state
	calls    []text.Text
	reads    []text.Text // fields of the state
	writes   []text.Text
	// anyRead, anyWrite: the fields are not all known before it runs.
	anyRead, anyWrite bool
	// always are the fields that every return has.
	always []string
}

// key is the agent that the node is for: the first one that it calls (N3).
func (n *node) key() string { return n.calls[0].Value }

// readNodes finds the node functions.
func (d *document) readNodes(out *diag.List) {
	for _, s := range d.helpers.Body {
		def, ok := s.(*python.FuncDef)
		if !ok {
			continue
		}
		n := d.readNode(def, out)
		if len(n.calls) > 0 {
			d.nodes = append(d.nodes, n)
		}
	}
}

func (d *document) readNode(def *python.FuncDef, out *diag.List) *node {
	n := &node{function: def.Def.Name, at: d.span(d.helpers, def.NameAt)}
	if len(def.Def.Params) > 0 {
		n.param = def.Def.Params[0].Name
	}
	d.agentCalls(n, def, out)
	d.stateReads(n, def)
	d.returns(n, def)
	return n
}

// chooses tells whether code chooses the agents that it calls, so that they
// are not all known before it runs.
func chooses(m *python.Module, is func(*python.Attr) bool) bool {
	mentioned, named := 0, 0
	python.Walk(m.Body, func(x any) bool {
		switch x := x.(type) {
		case *python.Attr:
			if is(x) {
				mentioned++
			}
		case *python.Call:
			if fn, ok := x.Fn.(*python.Attr); ok && is(fn) {
				if _, ok := agentKey(x); ok {
					named++
				}
			}
		}
		return true
	})
	return mentioned > named
}

// agentKey is the agent that a call names; false when that is not a text.
func agentKey(c *python.Call) (*python.Const, bool) {
	for i, a := range c.Args {
		if a.Stars == 0 && (a.Name == "" && i == 0 || a.Name == "agent_name" || a.Name == "name" || a.Name == "agent") {
			if k, ok := a.X.(*python.Const); ok {
				_, text := k.Value.(string)
				return k, text
			}
		}
	}
	return nil, false
}

// runnerCall is a call of AgentRunner.run, in any of the ways to import it.
func runnerCall(c *python.Call) bool {
	a, ok := c.Fn.(*python.Attr)
	return ok && isRun(a)
}

func isRun(a *python.Attr) bool { return a.Name == "run" && lastName(a.X) == "AgentRunner" }
func isAdd(a *python.Attr) bool { return a.Name == "add" }

func (d *document) agentCalls(n *node, def *python.FuncDef, out *diag.List) {
	python.Walk(def.Def.Body, func(x any) bool {
		c, ok := x.(*python.Call)
		if !ok || !runnerCall(c) {
			return true
		}
		var workload python.Expr
		for i, a := range c.Args {
			if a.Name == "" && i == 1 || a.Name == "workload" {
				workload = a.X
			}
		}
		if k, ok := agentKey(c); ok {
			n.calls = append(n.calls, text.Text{Value: k.Value.(string), Span: d.span(d.helpers, python.Range{Start: k.Start + 1, End: k.End - 1})})
		}
		if workload != nil && wholeState(workload, n.param) { // N31
			out.Add(diag.Diagnostic{
				Code: CodeWholeState, Severity: diag.Error, Span: d.span(d.helpers, workload.Where()),
				Message: fmt.Sprintf("The node %q hands the whole state to its agent.", n.function),
				Help:    fmt.Sprintf("Name the fields that the agent needs: {\"field\": %s[\"field\"]}.", n.param),
			})
		}
		return true
	})
}

// wholeState tells whether an expression is all of the state.
func wholeState(x python.Expr, param string) bool {
	is := func(x python.Expr) bool {
		n, ok := x.(*python.Name)
		return ok && n.ID == param && param != ""
	}
	switch x := x.(type) {
	case *python.Name:
		return is(x)
	case *python.DictExpr:
		return slices.ContainsFunc(x.Pairs, func(p python.Pair) bool { return p.Key == nil && is(p.Value) })
	case *python.Call:
		if a, ok := x.Fn.(*python.Attr); ok && a.Name == "copy" {
			return is(a.X)
		}
		return lastName(x.Fn) == "dict" && len(x.Args) == 1 && is(x.Args[0].X)
	}
	return false
}

// stateReads finds the fields that a node reads: state["x"], state.get("x").
func (d *document) stateReads(n *node, def *python.FuncDef) {
	if n.param == "" {
		return
	}
	isState := func(x python.Expr) bool {
		name, ok := x.(*python.Name)
		return ok && name.ID == n.param
	}
	literal := func(x python.Expr) (text.Text, bool) {
		c, ok := x.(*python.Const)
		if !ok {
			return text.Text{}, false
		}
		s, ok := c.Value.(string)
		return text.Text{Value: s, Span: d.span(d.helpers, c.Where())}, ok
	}
	python.Walk(def.Def.Body, func(x any) bool {
		switch x := x.(type) {
		case *python.Index:
			if isState(x.X) {
				if f, ok := literal(x.Key); ok {
					n.reads = append(n.reads, f)
					return false
				}
			}
		case *python.Call:
			if a, ok := x.Fn.(*python.Attr); ok && a.Name == "get" && isState(a.X) && len(x.Args) > 0 {
				if f, ok := literal(x.Args[0].X); ok {
					n.reads = append(n.reads, f)
					for _, more := range x.Args[1:] {
						n.anyRead = n.anyRead || mentions(more.X, n.param)
					}
					return false
				}
			}
		case *python.Compare:
			if len(x.Rest) == 1 && isState(x.Rest[0]) && strings.HasSuffix(x.Ops[0], "in") {
				if f, ok := literal(x.First); ok {
					n.reads = append(n.reads, f)
					return false
				}
			}
		case *python.Name:
			n.anyRead = n.anyRead || x.ID == n.param
		}
		return true
	})
}

func mentions(x python.Expr, name string) bool {
	found := false
	python.Walk([]python.Stmt{&python.ExprStmt{X: x}}, func(n any) bool {
		if v, ok := n.(*python.Name); ok && v.ID == name {
			found = true
		}
		return true
	})
	return found
}

// returns finds the fields that a node writes.
func (d *document) returns(n *node, def *python.FuncDef) {
	first := true
	defer func() {
		if !ends(def.Def.Body) {
			n.always = nil // at its end it returns nothing
		}
	}()
	python.Walk(def.Def.Body, func(x any) bool {
		switch x := x.(type) {
		case *python.FuncDef, *python.Lambda:
			return false
		case *python.Return:
			dict, ok := x.X.(*python.DictExpr)
			if !ok {
				n.anyWrite, n.always, first = true, nil, false
				return false
			}
			var keys []string
			for _, p := range dict.Pairs {
				c, _ := p.Key.(*python.Const)
				var s string
				if c != nil {
					s, ok = c.Value.(string)
				}
				if c == nil || !ok {
					n.anyWrite = true
					continue
				}
				n.writes = append(n.writes, text.Text{Value: s, Span: d.span(d.helpers, c.Where())})
				keys = append(keys, s)
			}
			if first {
				n.always, first = keys, false
			} else {
				n.always = slices.DeleteFunc(n.always, func(k string) bool { return !slices.Contains(keys, k) })
			}
		}
		return true
	})
}

// ends tells whether a block never goes on with what follows it: it returns
// or raises. Of loops that is not known.
func ends(body []python.Stmt) bool {
	if len(body) == 0 {
		return false
	}
	switch s := body[len(body)-1].(type) {
	case *python.Return, *python.Raise:
		return true
	case *python.If:
		return ends(s.Then) && ends(s.Else)
	case *python.Try:
		for _, h := range s.Handlers {
			if !ends(h.Body) {
				return ends(s.Finally)
			}
		}
		return ends(s.Body) || ends(s.Else) || ends(s.Finally)
	}
	return false
}

// pipeline is what the Execution block says (section 5.6).
type pipeline struct {
	module  *python.Module
	adds    []addition
	initial []initial // literals that the state begins with
}

// addition is one pipeline.add.
type addition struct {
	agent     text.Text
	dependsOn []text.Text
	at        source.Span
}

type initial struct {
	name  string
	value json.RawMessage
	at    source.Span
}

// readPipeline looks at the pipeline without running it.
func (d *document) readPipeline(m *python.Module) *pipeline {
	p := &pipeline{module: m}
	literal := func(x python.Expr) (text.Text, bool) {
		c, ok := x.(*python.Const)
		if !ok {
			return text.Text{}, false
		}
		s, ok := c.Value.(string)
		return text.Text{Value: s, Span: d.span(m, python.Range{Start: c.Start + 1, End: max(c.End-1, c.Start+1)})}, ok
	}
	python.Walk(m.Body, func(x any) bool {
		switch x := x.(type) {
		case *python.Call:
			a, ok := x.Fn.(*python.Attr)
			if !ok || a.Name != "add" || len(x.Args) == 0 {
				return true
			}
			var one addition
			for i, arg := range x.Args {
				switch {
				case i == 0 && arg.Name == "", arg.Name == "agent", arg.Name == "agent_name":
					one.agent, ok = literal(arg.X)
				case i == 1 && arg.Name == "", arg.Name == "workload":
					p.initialise(d, m, arg.X)
				case i == 2 && arg.Name == "", arg.Name == "depends_on":
					if list, isList := arg.X.(*python.Seq); isList {
						for _, item := range list.Items {
							if t, ok := literal(item); ok {
								one.dependsOn = append(one.dependsOn, t)
							}
						}
					}
				}
			}
			if ok {
				one.at = d.span(m, x.Where())
				p.adds = append(p.adds, one)
			}
		case *python.AnnAssign:
			if lastName(x.Target) == "initial_state" {
				p.initialise(d, m, x.X)
			}
		case *python.Assign:
			if len(x.Targets) == 1 && lastName(x.Targets[0]) == "initial_state" {
				p.initialise(d, m, x.X)
			}
		}
		return true
	})
	// A chain a.add(…).add(…) is walked from its end.
	slices.SortStableFunc(p.adds, func(a, b addition) int { return a.agent.Span.Start - b.agent.Span.Start })
	return p
}

// initialise takes the literals of a dict as what fields begin with (N1).
func (p *pipeline) initialise(d *document, m *python.Module, x python.Expr) {
	dict, ok := x.(*python.DictExpr)
	if !ok {
		return
	}
	for _, pair := range dict.Pairs {
		c, ok := pair.Key.(*python.Const)
		if !ok {
			continue
		}
		name, ok := c.Value.(string)
		if !ok {
			continue
		}
		t := python.NewThread(context.Background())
		v, ok := t.Literal(pair.Value)
		if !ok {
			continue
		}
		raw, err := t.ToJSON(v)
		if err != nil {
			continue
		}
		p.initial = append(p.initial, initial{name: name, value: raw, at: d.span(m, c.Where())})
	}
}
