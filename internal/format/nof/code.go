package nof

import (
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
	param    string // the name of its state parameter
	calls    []text.Text
	most     tally
	outputs  map[string][]outputField // by agent
	inState  []outputField            // read inside of fields of the state
	reads    []text.Text              // fields of the state
	writes   []text.Text
	// anyRead and anyWrite are set if not all fields are known statically.
	anyRead, anyWrite bool
	// always are the fields that every return statement contains.
	always []string
}

// key returns the node's agent: the first one that it calls.
func (n *node) key() string { return n.calls[0].Value }

// readNodes finds the node functions.
func (d *document) readNodes(out *diag.List) {
	counter := newCallCounter(d, d.helpers)
	for _, s := range d.helpers.Body {
		def, ok := s.(*python.FuncDef)
		if !ok {
			continue
		}
		n := d.readNode(def, counter, out)
		if len(n.calls) > 0 {
			d.nodes = append(d.nodes, n)
		}
	}
}

// readNode analyzes a function. It is a node if it calls an agent.
func (d *document) readNode(def *python.FuncDef, counter *callCounter, out *diag.List) *node {
	n := &node{function: def.Def.Name, at: d.span(d.helpers, def.NameAt)}
	if len(def.Def.Params) > 0 {
		n.param = def.Def.Params[0].Name
	}
	d.agentCalls(n, def, out)
	if len(n.calls) > 0 {
		n.most = counter.count(def.Def.Body)
		d.signature(n, def, out)
		n.outputs, n.inState = d.readOutputs(def, n.param)
	}
	d.stateReads(n, def)
	d.returns(n, def)
	return n
}

// signature requires that a node function can be called with the state alone.
func (d *document) signature(n *node, def *python.FuncDef, out *diag.List) {
	needed, places := 0, 0
	for _, p := range def.Def.Params {
		if p.Stars == 0 && p.Default == nil {
			needed++
		}
		if p.Stars < 2 && !p.KeyOnly {
			places++
		}
	}
	if def.Def.Async {
		out.Errorf(python.CodeArguments, n.at,
			"Remove async and await. AgentRunner.run returns when the agent is done.", "Node %q is asynchronous.",
			n.function)
	}
	if needed > 1 || places == 0 {
		out.Errorf(python.CodeArguments, n.at, fmt.Sprintf("Define it as %s(state).", n.function),
			"Node %q cannot be called with the state as its only argument.", n.function)
	}
}

// chooses reports whether code computes the agents that it calls, so that not all of them are
// known statically.
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

// agentKey returns the agent that a call names. It returns false if the name is not a string
// literal.
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

// runnerCall reports whether c calls AgentRunner.run, in any import style.
func (d *document) runnerCall(c *python.Call) bool {
	a, ok := c.Fn.(*python.Attr)
	return ok && d.isRun(a)
}

// isRun reports whether an attribute is the method AgentRunner.run.
func (d *document) isRun(a *python.Attr) bool {
	return a.Name == "run" && slices.Contains(d.runners, lastName(a.X))
}

// runnerNames returns the names that code imports AgentRunner as.
func runnerNames(m *python.Module) []string {
	out := []string{agentRunner}
	python.Walk(m.Body, func(x any) bool {
		if i, ok := x.(*python.Import); ok {
			for _, one := range i.Names {
				if one.Name == agentRunner && one.As != "" {
					out = append(out, one.As)
				}
			}
		}
		return true
	})
	return out
}

// agentRunner is the class of the SDK that calls agents.
const agentRunner = "AgentRunner"

// isAdd reports whether an attribute may be the method Pipeline.add.
func isAdd(a *python.Attr) bool { return a.Name == "add" }

// agentCalls finds the agents that a function names in its calls, and reports calls with the whole state.
func (d *document) agentCalls(n *node, def *python.FuncDef, out *diag.List) {
	python.Walk(def.Def.Body, func(x any) bool {
		c, ok := x.(*python.Call)
		if !ok || !d.runnerCall(c) {
			return true
		}
		var workload python.Expr
		for i, a := range c.Args {
			if a.Name == "" && i == 1 || a.Name == "workload" {
				workload = a.X
			}
		}
		if k, ok := agentKey(c); ok {
			n.calls = append(n.calls, text.Text{
				Value: k.Value.(string),
				Span:  d.span(d.helpers, python.Range{Start: k.Start + 1, End: k.End - 1}),
			})
		}
		if workload != nil && wholeState(workload, n.param) {
			out.Errorf(CodeWholeState, d.span(d.helpers, workload.Where()),
				fmt.Sprintf("Pass only the fields that the agent needs: {\"field\": %s[\"field\"]}.", n.param),
				"Node %q passes the whole state to its agent.", n.function)
		}
		return true
	})
}

// wholeState reports whether an expression is the whole state.
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

// stateReads finds the fields that a node reads: state["x"], state.get("x"), "x" in state. Any other use of the state
// may read all of it.
func (d *document) stateReads(n *node, def *python.FuncDef) {
	if n.param == "" {
		return
	}
	isState := func(x python.Expr) bool {
		name, ok := x.(*python.Name)
		return ok && name.ID == n.param
	}
	literal := func(x python.Expr) bool {
		s, ok := literalText(x)
		if ok {
			n.reads = append(n.reads, text.Text{Value: s, Span: d.span(d.helpers, x.Where())})
		}
		return ok
	}
	python.Walk(def.Def.Body, func(x any) bool {
		switch x := x.(type) {
		case *python.Index:
			return !isState(x.X) || !literal(x.Key)
		case *python.Call:
			a, ok := x.Fn.(*python.Attr)
			if ok && a.Name == "get" && isState(a.X) && len(x.Args) > 0 && literal(x.Args[0].X) {
				for _, more := range x.Args[1:] {
					n.anyRead = n.anyRead || mentions(more.X, n.param)
				}
				return false
			}
		case *python.Compare:
			return len(x.Rest) != 1 || !isState(x.Rest[0]) || !strings.HasSuffix(x.Ops[0], "in") || !literal(x.First)
		case *python.Name:
			n.anyRead = n.anyRead || x.ID == n.param
		}
		return true
	})
}

// mentions reports whether an expression uses a name.
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
			n.always = nil // the function may end without a return
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
				s, ok := literalText(p.Key)
				if !ok {
					n.anyWrite = true
					continue
				}
				n.writes = append(n.writes, text.Text{Value: s, Span: d.span(d.helpers, p.Key.Where())})
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

// ends reports whether a block always returns or raises. Loops are assumed not to.
func ends(body []python.Stmt) bool {
	if len(body) == 0 {
		return false
	}
	switch s := body[len(body)-1].(type) {
	case *python.Return, *python.Raise:
		return true
	case *python.If:
		return ends(s.Then) && ends(s.Else)
	case *python.With:
		return ends(s.Body)
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

// pipeline is the content of the Execution block (section 5.6).
type pipeline struct {
	module  *python.Module
	adds    []addition
	initial []initial // literals of the initial state
}

// addition is one call of pipeline.add.
type addition struct {
	agent     text.Text
	dependsOn []text.Text
	at        source.Span
}

// initial is the initial value of one field of the state.
type initial struct {
	name  string
	value json.RawMessage
	at    source.Span
}

// readPipeline analyzes the pipeline without running it.
func (d *document) readPipeline(m *python.Module) *pipeline {
	p := &pipeline{module: m}
	initialState := func(target, value python.Expr) {
		if lastName(target) == "initial_state" {
			p.initialize(d, value)
		}
	}
	python.Walk(m.Body, func(x any) bool {
		switch x := x.(type) {
		case *python.Call:
			if a, ok := x.Fn.(*python.Attr); ok && isAdd(a) {
				p.add(d, x)
			}
		case *python.AnnAssign:
			initialState(x.Target, x.X)
		case *python.Assign:
			if len(x.Targets) == 1 {
				initialState(x.Targets[0], x.X)
			}
		}
		return true
	})
	// The walk visits a chain a.add(…).add(…) from its end.
	slices.SortStableFunc(p.adds, func(a, b addition) int { return a.agent.Span.Start - b.agent.Span.Start })
	return p
}

// add records a call of pipeline.add(agent, workload, depends_on), unless its agent is computed.
func (p *pipeline) add(d *document, call *python.Call) {
	one := addition{at: d.span(p.module, call.Where())}
	known := len(call.Args) > 0
	for i, arg := range call.Args {
		switch {
		case i == 0 && arg.Name == "", arg.Name == "agent", arg.Name == "agent_name":
			one.agent, known = p.literal(d, arg.X)
		case i == 1 && arg.Name == "", arg.Name == "workload":
			p.initialize(d, arg.X)
		case i == 2 && arg.Name == "", arg.Name == "depends_on":
			list, ok := arg.X.(*python.Seq)
			for i := 0; ok && i < len(list.Items); i++ {
				if t, ok := p.literal(d, list.Items[i]); ok {
					one.dependsOn = append(one.dependsOn, t)
				}
			}
		}
	}
	if known {
		p.adds = append(p.adds, one)
	}
}

// literal returns a string literal, with the span of its text between the quotes.
func (p *pipeline) literal(d *document, x python.Expr) (text.Text, bool) {
	s, ok := literalText(x)
	at := x.Where()
	at = python.Range{Start: at.Start + 1, End: max(at.End-1, at.Start+1)}
	return text.Text{Value: s, Span: d.span(p.module, at)}, ok
}

// initialize records the literals of a dict as initial values of fields.
func (p *pipeline) initialize(d *document, x python.Expr) {
	dict, ok := x.(*python.DictExpr)
	if !ok {
		return
	}
	for _, pair := range dict.Pairs {
		name, isText := literalText(pair.Key)
		raw, isLiteral := python.Literal(pair.Value)
		if isText && isLiteral {
			p.initial = append(p.initial, initial{name: name, value: raw, at: d.span(p.module, pair.Key.Where())})
		}
	}
}
