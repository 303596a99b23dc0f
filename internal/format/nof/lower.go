package nof

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/python"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xmaps"
	"github.com/espalier-run/espalier/internal/xslices"
)

// lowering compiles a document to a program.
type lowering struct {
	Format
	doc   *document
	files format.Reader
	out   *diag.List
	p     *ir.Program
	units []*unit
	safe  map[*crew]bool // whether its members can run in parallel
	// unknownAgents is set if an agent is unknown, which has been reported.
	unknownAgents bool
}

// unit is one position of the execution order: an agent, or a crew.
type unit struct {
	id     string
	agents []string
	crew   *crew // nil for a single agent
	// last is the step that the unit's outgoing edges start from.
	last string
}

// program compiles the document. References are checked before the agents are grouped, because the groups depend on
// what nodes read and write. A file with errors still becomes a well-formed program.
func (l *lowering) program() *ir.Program {
	d := l.doc
	l.p = &ir.Program{
		Format: "nof", Level: d.mode() + " routing", Name: d.name.Value, Version: d.version.Value,
		Description: d.description.Value,
		Tools:       ir.Tools{AllowAll: true}, Span: d.name.Span,
	}
	l.meta()
	l.checkAgents()
	if d.state == nil {
		d.state = d.openState()
	}
	l.checkNodes()
	d.bindRules(l.out)
	l.group()
	l.routesBack()
	l.drift()
	l.quote()
	l.declare()
	if l.Execution {
		l.p.Level = "execution"
		l.executionStep()
	} else {
		l.graph()
	}
	if len(l.p.Blocks[ir.Body].Steps) == 0 {
		l.p.Blocks[ir.Body].Steps = []ir.Step{{
			ID: "nothing", Type: "end", Implied: true, Action: ir.End{},
			Span: d.name.Span,
		}}
	}
	return l.p
}

// meta adds the remaining frontmatter to the program's metadata.
func (l *lowering) meta() {
	if l.doc.meta == nil {
		return
	}
	for _, pair := range l.doc.meta.Pairs {
		switch pair.Key.Value {
		case "name", "version", "description", "agents", "crews":
			continue
		}
		l.p.Meta = append(l.p.Meta, ir.Meta{Name: pair.Key.Value, Value: pair.Value.JSON(), Span: pair.Key.Span})
	}
}

// checkAgents looks up the agents.
func (l *lowering) checkAgents() {
	d := l.doc
	var unique []text.Text
	for _, a := range d.agents {
		if i := slices.IndexFunc(unique, func(o text.Text) bool { return o.Value == a.Value }); i >= 0 {
			l.out.Errorf(CodeTwice, a.Span, "List each agent once. To repeat an agent, use a Cycle-back rule.",
				"Agent %q is listed twice.", a.Value).Relate(unique[i].Span, "the first time")
			continue
		}
		unique = append(unique, a)
	}
	d.agents = unique
	for _, a := range d.agents {
		l.resolveAgent(a)
	}
	for _, n := range d.nodes {
		for _, call := range n.calls {
			if !d.lists(call.Value) && l.p.Agent(call.Value) == nil {
				l.resolveAgent(call)
			}
		}
	}
	if l.Execution && d.pipeline != nil {
		for _, a := range d.pipeline.adds {
			if !d.lists(a.agent.Value) && l.p.Agent(a.agent.Value) == nil {
				l.resolveAgent(a.agent)
			}
		}
	}
	in := map[string]text.Text{}
	for i := range d.crews {
		c := &d.crews[i]
		c.members = slices.DeleteFunc(c.members, func(m text.Text) bool {
			if !d.lists(m.Value) {
				l.out.Errorf(CodeCrew, m.Span, "", "Crew %q has the member %q, which is not one of the agents.",
					c.name.Value, m.Value).Suggest(m.Value, d.keys())
				return true
			}
			if other, twice := in[m.Value]; twice {
				l.out.Errorf(CodeCrew, m.Span, "Remove it from one of them.", "%q is a member of two crews.", m.Value).
					Relate(other.Span, "also here")
				return true
			}
			in[m.Value] = m
			return false
		})
	}
}

// unknownAgent reports an agent that neither the format nor the project defines.
func (l *lowering) unknownAgent(a text.Text) {
	l.unknownAgents = true
	l.out.Errorf(CodeAgent, a.Span,
		strings.TrimSpace(near(a.Value)+fmt.Sprintf(" To define an agent, create %s/%s.md.", registryFolder, a.Value)),
		"Agent %q is not defined.", a.Value)
}

// near returns a suggestion for an unknown agent, or "".
func near(key string) string {
	if n := diag.Nearest(key, builtInKeys()); n != "" {
		return fmt.Sprintf("Did you mean %q?", n)
	}
	return ""
}

// resolveAgent adds the agent with a key to the program, or reports that there is none.
func (l *lowering) resolveAgent(a text.Text) {
	e := l.doc.find(a.Value, l.files, l.out)
	if e == nil {
		l.unknownAgent(a)
		return
	}
	l.addAgent(e, a.Span)
}

// addAgent adds an agent to the program.
func (l *lowering) addAgent(e *entry, at source.Span) {
	a := ir.Agent{
		ID: e.key, Model: e.model, Tier: e.tier, MaxTokens: int(e.maxTokens), Span: at,
		Instructions: e.instructions,
	}
	switch {
	case e.description != "":
		a.Role = e.description
	case e.instructions == "":
		a.Role = fmt.Sprintf("%s (%s)", words(e.key), words(e.category))
		a.Goal = "Analyze the workload and recommend what to do."
	}
	a.Expected = outputContract
	if l.doc.mode() == hierarchical && l.doc.position(e.key) == 0 {
		if s := l.doc.sections[philosophy]; s != nil {
			a.Instructions = strings.TrimSpace(a.Instructions + "\n\nWhat the workflow is for:\n" +
				strings.TrimSpace(l.doc.file.Text[s.at.Start:s.at.End]))
		}
	}
	l.p.Agents = append(l.p.Agents, a)
	if e.file != nil {
		l.p.AddFile(e.file, "agent")
	}
}

// words returns an identifier such as cost-advisor as words.
func words(id string) string { return strings.NewReplacer("-", " ", "_", " ").Replace(id) }

// outputContract describes the output of every agent to the model.
const outputContract = "recommendations: what to do, one object for each recommendation. " +
	"rules_applied: the names of the rules that you applied. meta_insight: one sentence that sums up the result. " +
	"analysis_data: figures and other details, if there are any."

// node returns the node function of an agent, or nil.
func (d *document) node(key string) *node {
	return xslices.Find(d.nodes, func(n *node) bool { return n.key() == key })
}

// checkNodes checks the node functions against agents and schema.
func (l *lowering) checkNodes() {
	d := l.doc
	for _, a := range d.agents {
		if d.node(a.Value) == nil && d.sections[agentNodes] != nil && !d.unread && !l.unknownAgents {
			l.out.Errorf(CodeNode, a.Span,
				fmt.Sprintf("Add a function %s(state) that calls AgentRunner.run(%q, …).", functionName(a.Value),
					a.Value), "Agent %q has no node function.", a.Value)
		}
	}
	for i := range l.p.Agents { // an agent without a node has been reported, or its node cannot be read
		a := &l.p.Agents[i]
		a.Implied = a.Implied || !l.Execution && d.sections[agentNodes] != nil && d.node(a.ID) == nil
	}
	seen := map[string]*node{}
	for _, n := range d.nodes {
		key := n.key()
		if first := seen[key]; first != nil {
			l.out.Errorf(CodeNode, n.at, "Keep one function for each agent.", "Agent %q has a second node function.",
				key).Relate(first.at, "the first one")
			continue
		}
		seen[key] = n
		if !d.lists(key) && !l.unknownAgents {
			l.out.Warnf(CodeNode, n.at, fmt.Sprintf("Add %q to \"agents\", or remove the function.", key),
				"Function %q never runs: its agent %q is not listed in the frontmatter.", n.function, key)
		}
		if want := functionName(key); n.function != want {
			found := l.out.Warnf(CodeNodeName, n.at, fmt.Sprintf("Rename it to %s.", want),
				"The node function of %q is named %q.", key, n.function)
			if d.named(n.function) == 1 && d.named(want) == 0 {
				found.Replace(n.function, want)
			}
		}
		if d.state.open {
			continue
		}
		l.checkUses(n, "reads", n.reads)
		l.checkUses(n, "returns", n.writes)
	}
}

// named counts the functions with a name and the places in the code that use the name.
func (d *document) named(name string) int {
	body := d.helpers.Body
	if d.pipeline != nil {
		body = slices.Concat(body, d.pipeline.module.Body)
	}
	count := 0
	python.Walk(body, func(x any) bool {
		switch x := x.(type) {
		case *python.Name:
			if x.ID == name {
				count++
			}
		case *python.FuncDef:
			if x.Def.Name == name {
				count++
			}
		}
		return true
	})
	return count
}

// checkUses reports fields that a node uses and the schema does not have.
func (l *lowering) checkUses(n *node, does string, uses []text.Text) {
	state := l.doc.state
	for _, use := range uses {
		if state.find(use.Value) == nil {
			l.out.Errorf(CodeField, use.Span, "", "Node %q %s the field %q, which is not in the state schema.",
				n.function, does, use.Value).Relate(state.at, "the schema").Suggest(use.Value, state.names())
		}
	}
}

// functionName returns the name that the specification gives to the node function of an agent.
func functionName(key string) string { return "run_" + strings.ReplaceAll(key, "-", "_") }

// group arranges the agents in units, in list order.
func (l *lowering) group() {
	d := l.doc
	done := map[string]bool{}
	for _, a := range d.agents {
		if done[a.Value] || d.node(a.Value) == nil && !d.unread {
			continue
		}
		c := d.crewOf(a.Value)
		if c == nil || !l.parallel(c) {
			l.units = append(l.units, &unit{id: a.Value, agents: []string{a.Value}})
			done[a.Value] = true
			continue
		}
		u := &unit{id: c.name.Value, crew: c}
		for d.lists(u.id) || u.id == beginStep || u.id == resultStep || strings.HasPrefix(u.id, abortStep) {
			u.id = "crew-" + u.id
		}
		for _, m := range c.members {
			if d.node(m.Value) != nil || d.unread {
				u.agents = append(u.agents, m.Value)
			}
			done[m.Value] = true
		}
		l.units = append(l.units, u)
	}
}

// crewOf returns the crew of an agent, or nil.
func (d *document) crewOf(key string) *crew {
	return xslices.FindPointer(d.crews, func(one *crew) bool { return text.Contains(one.members, key) })
}

// parallel determines, once per crew, whether it can run in parallel.
func (l *lowering) parallel(c *crew) bool {
	if safe, known := l.safe[c]; known {
		return safe
	}
	safe := len(c.members) > 1 && l.independent(c)
	xmaps.Set(&l.safe, c, safe)
	if safe {
		l.sharedFields(c)
	}
	return safe
}

// independent reports whether no member of a crew depends on another, and warns about the first
// dependency.
func (l *lowering) independent(c *crew) bool {
	d := l.doc
	safe := true
	warn := func(at, written source.Span, why string, args ...any) {
		if safe {
			l.out.Warnf(CodeUnsafeCrew, c.name.Span, "Its members run sequentially. Remove the dependency or the crew.",
				"Crew %q cannot run in parallel: %s.", c.name.Value, fmt.Sprintf(why, args...)).
				Relate(written, "written here").Relate(at, "here")
		}
		safe = false
	}
	for _, a := range c.members {
		for _, b := range c.members {
			if a.Value == b.Value || !safe {
				continue
			}
			if at, ok := d.depends(a.Value, b.Value); ok {
				warn(at, source.Span{}, "%q depends on %q", b.Value, a.Value)
				continue
			}
			if w, r, ok := d.sharedField(a.Value, b.Value); ok {
				warn(r.Span, w.Span, "%q reads the field %q, which %q writes", b.Value, w.Value, a.Value)
			}
		}
	}
	// The crew runs at the position of its first member, so the other members run before the agents
	// in between.
	first := len(d.agents)
	for _, m := range c.members {
		first = min(first, d.position(m.Value))
	}
	for _, m := range c.members {
		for _, other := range d.agents[first:d.position(m.Value)] {
			if text.Contains(c.members, other.Value) {
				continue
			}
			if at, ok := d.depends(other.Value, m.Value); ok {
				warn(at, source.Span{}, "%q depends on %q, which runs between its members", m.Value, other.Value)
			}
			for _, pair := range [][2]string{{other.Value, m.Value}, {m.Value, other.Value}} {
				if w, r, ok := d.sharedField(pair[0], pair[1]); ok {
					warn(r.Span, w.Span, "%q, which runs between its members, and %q share the field %q",
						other.Value, m.Value, w.Value)
				}
			}
		}
	}
	return safe
}

// sharedField returns a field that one agent overwrites and another reads.
func (d *document) sharedField(from, to string) (write, read text.Text, ok bool) {
	a, b := d.node(from), d.node(to)
	if a == nil || b == nil {
		return write, read, false
	}
	for _, w := range a.writes {
		if f := d.state.find(w.Value); f == nil || f.reducer != "" {
			continue
		}
		if i := slices.IndexFunc(b.reads, func(r text.Text) bool { return r.Value == w.Value }); i >= 0 {
			return w, b.reads[i], true
		}
	}
	return write, read, false
}

// sharedFields warns about fields that several members overwrite.
func (l *lowering) sharedFields(c *crew) {
	by := map[string]text.Text{}
	for _, m := range c.members {
		n := l.doc.node(m.Value)
		if n == nil {
			continue
		}
		mine := map[string]bool{}
		for _, w := range n.writes {
			f := l.doc.state.find(w.Value)
			if f == nil || f.reducer != "" || mine[w.Value] {
				continue
			}
			mine[w.Value] = true
			if first, twice := by[w.Value]; twice {
				l.out.Warnf(CodeSharedField, w.Span, "Use separate fields, or make it an accumulator.",
					"Two members of crew %q write the field %q. The member listed last wins.", c.name.Value, w.Value).
					Relate(first.Span, "the first one")
			}
			by[w.Value] = w
		}
	}
}

// The IDs of implied steps.
const (
	beginStep  = "begin"
	resultStep = "result"
	abortStep  = "abort"
)

// implied returns the ID of an implied step, made unique if an agent has that name.
func (l *lowering) implied(id string) string {
	for l.doc.lists(id) {
		id += "-step"
	}
	return id
}

// Keys of a node's results other than state fields.
var (
	costKey      = runPath("cost_so_far")
	cycleKey     = runPath("cycle")
	delegatesKey = runPath("delegates")
)

// declare adds the variables, the input and the output to the program.
func (l *lowering) declare() {
	d := l.doc
	properties, output := map[string]any{}, map[string]any{}
	var names []string
	for _, f := range d.state.fields {
		l.p.Vars = append(l.p.Vars, ir.Var{
			Path: statePath(f.name), Init: l.initial(f), Reducer: programReducers[f.reducer], Span: f.at,
		})
		properties[f.name], output[f.name] = f.kind.schema(), map[string]any{}
		names = append(names, f.name)
	}
	for path, zero := range l.tracked() {
		l.p.Vars = append(l.p.Vars, ir.Var{Path: path, Init: json.RawMessage(zero), Span: d.name.Span})
	}
	slices.SortStableFunc(l.p.Vars[len(d.state.fields):],
		func(a, b ir.Var) int { return strings.Compare(a.Path, b.Path) })
	input := map[string]any{"type": "object", "properties": properties, "additionalProperties": d.state.open}
	l.p.Input = &ir.Contract{Schema: format.JSON(input), Span: d.state.at}
	if !l.Execution {
		l.p.Output = &ir.Contract{Schema: format.JSON(map[string]any{
			"type": "object", "properties": output,
			"required": names,
		}), Span: d.state.at}
	}
}

// tracked returns the variables besides the state that rules read, with their initial values.
func (l *lowering) tracked() map[string]string {
	out := map[string]string{}
	for _, r := range l.doc.rules {
		if r.cond == nil {
			continue
		}
		for _, p := range r.cond.Paths() {
			switch {
			case p.Segments[0] == "agents" && len(p.Segments) > 1:
				out[agentPath(p.Segments[1])] = "{}"
			case p.Segments[0] == "pass":
				out[strings.Join(p.Segments[:2], ".")] = "0"
			}
		}
	}
	if l.doc.mode() == hierarchical {
		out[delegatesKey] = "null"
	}
	return out
}

// initial returns the initial value of a field: from the Execution block, or the zero value of
// its type.
func (l *lowering) initial(f field) json.RawMessage {
	if p := l.doc.pipeline; p != nil {
		if i := slices.IndexFunc(p.initial, func(one initial) bool { return one.name == f.name }); i >= 0 {
			return p.initial[i].value
		}
	}
	return f.kind.zero()
}

// okEdge returns the edge to the next step in the order of execution, which applies if no rule does, also after a step
// that was skipped.
func okEdge(to string, at source.Span) ir.Edge {
	return ir.Edge{On: []ir.Outcome{ir.OK, ir.Skipped}, To: ir.Target{Step: to}, Sequential: true, Span: at}
}

// graph compiles the agents, crews and rules.
func (l *lowering) graph() {
	d := l.doc
	body := l.p.AddBlock(ir.Block{Span: d.name.Span})
	l.add(body, l.initStep())
	for _, u := range l.units {
		if u.crew != nil {
			l.crewStep(body, u)
		} else {
			l.add(body, l.nodeStep(u.agents[0], false))
			u.last = u.id
		}
		l.addCheckpoints(body, u)
	}
	last := l.implied(resultStep)
	l.add(body, l.result(last))
	l.addAborts(body)
	next := last
	for i, u := range slices.Backward(l.units) {
		l.p.Step(body, u.last).Next = append(l.ruleEdges(i), okEdge(next, d.agentSpan(u.agents[0])))
		next = u.id
	}
	l.p.Blocks[body].Steps[0].Next = []ir.Edge{okEdge(next, d.name.Span)}
}

// add adds a step to a block.
func (l *lowering) add(b ir.BlockID, s ir.Step) {
	l.p.Blocks[b].Steps = append(l.p.Blocks[b].Steps, s)
}

// initStep returns the step that initializes the state.
func (l *lowering) initStep() ir.Step {
	d := l.doc
	s := ir.Step{
		ID: l.implied(beginStep), Type: "state", Description: "Initialize the state", Implied: true,
		Span: d.state.at, Reads: []ir.Ref{{Path: "input", Span: d.state.at}},
	}
	defaults := map[string]json.RawMessage{}
	for _, f := range d.state.fields {
		defaults[f.name] = l.initial(f)
		s.Writes = append(s.Writes, ir.Write{Path: statePath(f.name), Part: f.name, Reducer: ir.Set, Span: f.at})
	}
	task := ir.Task{Kind: "collect"}
	task.Settings.Put("defaults", defaults, d.state.at)
	s.Action = task
	return s
}

// result returns the step that returns the state.
func (l *lowering) result(id string) ir.Step {
	at := l.doc.state.at
	return ir.Step{
		ID: id, Type: "result", Description: "Return the state", Implied: true, Span: at,
		Reads: l.doc.state.refs(), Writes: []ir.Write{{Path: "output", Span: at}},
		Action: ir.End{Work: &ir.Task{Kind: "collect"}},
	}
}

// addAborts adds an end for each abort rule.
func (l *lowering) addAborts(body ir.BlockID) {
	for n, r := range l.active(abortRule) {
		s := l.result(l.abortID(n))
		s.Description, s.Span = "Abort and return partial results: "+
			strings.Join(strings.Fields(r.cond.Text), " "), r.at
		s.ReasonOK = "ABORTED"
		if end, ok := s.Action.(ir.End); ok {
			end.Message = "aborted"
			s.Action = end
		}
		l.add(body, s)
	}
}

// abortID returns the ID of the end for the n-th abort rule.
func (l *lowering) abortID(n int) string {
	if n == 0 {
		return l.implied(abortStep)
	}
	return l.implied(fmt.Sprintf("%s-%d", abortStep, n+1))
}

// nodeStep returns the step of one agent. In a branch of a crew it returns only its changes,
// because the crew merges them.
func (l *lowering) nodeStep(key string, branch bool) ir.Step {
	d := l.doc
	n := d.node(key)
	at := d.agentSpan(key)
	s := ir.Step{ID: key, Type: "agent", Span: at}
	if n == nil { // the file has errors
		s.Action = ir.Route{}
		return s
	}
	task := ir.Task{Kind: "node"}
	task.Settings.Put("function", n.function, n.at)
	l.code(&task, d.helpers)
	fields, reducers := map[string]string{}, map[string]string{}
	read := map[string]source.Span{}
	for _, f := range d.state.fields {
		fields[f.name] = f.kind.text()
		if f.reducer != "" {
			reducers[f.name] = f.reducer
		}
		if n.anyRead {
			read[f.name] = n.at
		}
	}
	for _, r := range n.reads {
		if d.state.find(r.Value) != nil {
			read[r.Value] = r.Span
		}
	}
	if !branch {
		for _, f := range l.written(n) {
			_, there := read[f.name]
			if !there && (f.reducer == reduceAdd || f.reducer == "" && !slices.Contains(n.always, f.name)) {
				read[f.name] = n.at
			}
			s.Writes = append(s.Writes, stateWrite(f, n.at))
		}
	}
	for _, f := range d.state.fields {
		if at, ok := read[f.name]; ok {
			s.Reads = append(s.Reads, ir.Ref{Path: statePath(f.name), Span: at})
		}
	}
	task.Settings.Put("fields", fields, d.state.at)
	task.Settings.Put("reducers", reducers, d.state.at)
	agents := l.registered(n.calls, chooses(d.helpers, d.isRun), n.most)
	for key, fields := range n.outputs {
		if one := agents[key]; one != nil {
			one["output"] = l.outputFields(fields)
		}
	}
	task.Settings.Put("agents", agents, at)
	task.Settings.PutSet("delta", branch, at)
	tracked := l.tracked()
	var track []string
	keep := func(path string) {
		if _, ok := tracked[path]; ok {
			track = append(track, path)
			if !branch {
				s.Writes = append(s.Writes, ir.Write{Path: path, Part: path, Reducer: ir.Set, Span: at})
			}
		}
	}
	for _, path := range []string{costKey, cycleKey} {
		if _, ok := tracked[path]; ok && !branch {
			s.Reads = append(s.Reads, ir.Ref{Path: path, Span: at})
		}
	}
	keep(costKey)
	if !branch { // a branch is new in every pass; its crew counts the passes
		keep(cycleKey)
	}
	keep(agentPath(key))
	if d.mode() == hierarchical {
		if d.position(key) == 0 {
			keep(delegatesKey)
			task.Settings.Put("delegates", d.keys()[1:], at)
		} else if !branch {
			s.When = l.delegated(key)
		}
	}
	task.Settings.PutSet("track", track, at)
	s.Action = task
	return s
}

// delegated returns the condition that the orchestrator chose the agent, or did not choose.
func (l *lowering) delegated(key string) *expr.Expr {
	cond, _ := expr.Parse(expr.NOF, fmt.Sprintf("%s == None or %s contains %q", delegatesKey, delegatesKey, key),
		l.doc.agentSpan(key))
	return cond
}

// written returns the fields that a node may write.
func (l *lowering) written(n *node) []field {
	return xslices.Filter(l.doc.state.fields, func(f field) bool {
		return n.anyWrite || text.Contains(n.writes, f.name)
	})
}

// stateWrite returns the write of a field from the part of a node's result with its name.
func stateWrite(f field, at source.Span) ir.Write {
	return ir.Write{
		Path: statePath(f.name), Part: f.name, Reducer: cmp.Or(programReducers[f.reducer], ir.Set), Span: at,
	}
}

// programReducers are the reducers that every program has; nodes apply the others.
var programReducers = map[string]ir.Reducer{reduceAppend: ir.Append, reduceMerge: ir.Merge}

// code adds blocks of code to a task's settings, with their positions.
func (l *lowering) code(t *ir.Task, blocks ...*python.Module) {
	type block struct {
		Code string `json:"code"`
		Line int    `json:"line"`
	}
	list := xslices.Map(l.doc.program(blocks...), func(m *python.Module) block { return block{m.Code, m.Line} })
	at := l.doc.name.Span
	t.Settings.Put("code", list, at)
	t.Settings.Put("file", l.doc.file.Path, at)
	t.Settings.PutSet("python", l.Python, at)
	t.Settings.PutSet("unconfined", l.Python && l.Unconfined, at)
}

// registered returns the properties of the agents that a node may call: those that it names or,
// if the code computes them, all agents.
func (l *lowering) registered(calls []text.Text, chosen bool, most tally) map[string]map[string]any {
	out := map[string]map[string]any{}
	if chosen {
		calls = slices.Concat(calls, l.doc.agents)
	}
	for _, c := range calls {
		e := l.doc.find(c.Value, l.files, l.out)
		if e == nil {
			continue
		}
		one := map[string]any{}
		if price, ok := e.price(); ok {
			one["micro_dollars"] = price
		}
		if len(e.command) > 0 {
			one["command"] = e.command
		}
		if n := most.of(c.Value); n != 0 && n != 1 {
			one["calls"] = n
		}
		out[c.Value] = one
	}
	return out
}

// outputFields completes what a node reads from an output with the types of the state, and with those that nodes assume
// for the parts of its fields.
func (l *lowering) outputFields(fields []outputField) []outputField {
	out := slices.Clone(fields)
	for i := range fields {
		f := l.doc.state.find(out[i].field)
		if f != nil {
			out = append(out, l.doc.partsOf(f.name, out[i].Path)...)
		}
		if f == nil || f.reducer != "" {
			continue
		}
		out[i].Var = statePath(f.name)
		if kind := jsonTypes[f.kind.name]; kind != "" && !f.kind.null {
			out[i].Type = kind
		}
		if elem := f.kind.elem; f.kind.name == "list" && elem != nil && !elem.null && jsonTypes[elem.name] != "" {
			out = append(out, outputField{Path: out[i].Path + "." + anyItem, Type: jsonTypes[elem.name]})
		}
	}
	return out
}

// partsOf returns the parts of a field of the state whose types nodes assume, as parts of the output at a path.
func (d *document) partsOf(field, path string) []outputField {
	var out []outputField
	for _, n := range d.nodes {
		for _, one := range n.inState {
			rest, ok := strings.CutPrefix(one.Path, field+".")
			if ok && one.Type != "" {
				out = append(out, outputField{Path: path + "." + rest, Type: one.Type})
			}
		}
	}
	return out
}

// crewStep adds a step that runs the members of a crew in parallel and merges their changes in
// crew order.
func (l *lowering) crewStep(body ir.BlockID, u *unit) {
	d := l.doc
	at := u.crew.name.Span
	s := ir.Step{ID: u.id, Type: "crew", Span: at}
	par := ir.Parallel{Join: ir.JoinSettle, Name: u.crew.name.Value, Span: at}
	var fields []field
	for _, key := range u.agents {
		member := l.nodeStep(key, true)
		block := l.p.AddBlock(ir.Block{Name: key, Steps: []ir.Step{member}, Span: member.Span})
		branch := ir.Branch{Name: key, Block: block, Span: member.Span}
		if d.mode() == hierarchical {
			branch.When = l.delegated(key)
		}
		par.Branches = append(par.Branches, branch)
		for _, r := range member.Reads {
			s.AddRead(r)
		}
		if n := d.node(key); n != nil {
			for _, f := range l.written(n) {
				if !slices.ContainsFunc(fields, func(o field) bool { return o.name == f.name }) {
					fields = append(fields, f)
				}
			}
		}
	}
	combine := ir.Task{Kind: "collect"}
	reducers := map[string]string{}
	for _, f := range fields {
		if f.reducer != "" {
			reducers[f.name] = f.reducer
		}
		if f.reducer == "" || f.reducer == reduceAdd {
			s.AddRead(ir.Ref{Path: statePath(f.name), Span: at})
		}
		s.Writes = append(s.Writes, stateWrite(f, at))
	}
	tracked := l.tracked()
	for _, path := range []string{costKey, cycleKey} {
		if _, ok := tracked[path]; ok {
			s.Writes = append(s.Writes, ir.Write{Path: path, Part: path, Reducer: ir.Set, Span: at})
			s.Reads = append(s.Reads, ir.Ref{Path: path, Span: at})
			if path == costKey {
				reducers[path] = reduceAdd
			}
		}
	}
	for _, key := range u.agents {
		if _, ok := tracked[agentPath(key)]; ok {
			s.Writes = append(s.Writes, ir.Write{Path: agentPath(key), Part: agentPath(key), Reducer: ir.Set, Span: at})
			s.Reads = append(s.Reads, ir.Ref{Path: agentPath(key), Span: at})
		}
	}
	combine.Settings.Put("reducers", reducers, at)
	par.Combine = &combine
	s.Action = par
	u.last = u.id
	l.add(body, s)
}

// addCheckpoints adds the checkpoints after a unit.
func (l *lowering) addCheckpoints(body ir.BlockID, u *unit) {
	n := 0
	for _, r := range l.doc.rules {
		if r.kind != saveRule || !slices.Contains(u.agents, r.target.Value) {
			continue
		}
		id := u.id + ":checkpoint"
		if n++; n > 1 {
			id = fmt.Sprintf("%s-%d", id, n)
		}
		s := ir.Step{
			ID: id, Type: "checkpoint", Description: "Save the state to " + r.path.Value, Implied: true, Span: r.at,
			Action:   ir.Task{Kind: "collect"},
			Produces: []ir.Name{{Name: r.path.Value, Span: r.path.Span}},
			Reads:    l.doc.state.refs(),
		}
		last := l.p.Step(body, u.last)
		last.Next = []ir.Edge{okEdge(id, r.at)}
		l.add(body, s)
		u.last = id
	}
}

// ruleEdges returns the edges of rules after a unit: aborts first, then cycles at
// the end of a pass, then routes by priority.
func (l *lowering) ruleEdges(i int) []ir.Edge {
	var out []ir.Edge
	edge := func(r *rule, to string, limit int, label string) {
		out = append(out, ir.Edge{
			On: []ir.Outcome{ir.OK, ir.Skipped}, When: r.cond, To: ir.Target{Step: to},
			Label: label, Limit: limit, Span: r.at,
		})
	}
	for n, r := range l.active(abortRule) {
		edge(r, l.abortID(n), 0, "abort")
	}
	if i == len(l.units)-1 {
		for _, r := range l.active(cycleRule) {
			if at := l.unitOf(r.target.Value); at >= 0 {
				edge(r, l.units[at].id, r.cycles, "cycle-back")
			}
		}
	}
	routes := xslices.Filter(l.active(routeRule, skipRule), func(r *rule) bool { return l.eligible(r, i) })
	slices.SortStableFunc(routes, func(a, b *rule) int { return a.priority - b.priority })
	for _, r := range routes {
		edge(r, l.units[l.unitOf(r.target.Value)].id, 0, strings.TrimSpace(r.cond.Text))
	}
	return out
}

// routesBack warns about routes to agents that have already run when the condition can change.
func (l *lowering) routesBack() {
	for _, r := range l.active(routeRule, skipRule) {
		to := l.unitOf(r.target.Value)
		if to < 0 {
			continue
		}
		const help = "Use a Cycle-back rule to run an agent again."
		if to == 0 {
			l.out.Warnf(CodeRouteBack, r.target.Span, help,
				"The route never applies: %q is the first agent and has already run.", r.target.Value)
			continue
		}
		if first, field := l.decidedBy(r); first >= to {
			key := l.units[first].agents[0]
			l.out.Warnf(CodeRouteBack, r.target.Span, help,
				"The route does not apply after %q, which writes %q: %q has already run.", key, field, r.target.Value)
		}
	}
}

// decidedBy returns the first unit that writes something that a condition reads, and its name. It
// returns -1 if the condition reads something else, such as the cost, or an input that no unit writes.
func (l *lowering) decidedBy(r *rule) (int, string) {
	first, name := len(l.units), ""
	for _, p := range r.cond.Paths() {
		at := -1
		if p.Segments[0] == "agents" && len(p.Segments) > 1 {
			at = l.unitOf(p.Segments[1])
		}
		if p.Segments[0] == "state" && len(p.Segments) > 1 {
			at = slices.IndexFunc(l.units, func(u *unit) bool {
				return slices.ContainsFunc(u.agents, func(key string) bool {
					n := l.doc.node(key)
					return n != nil && (n.anyWrite || text.Contains(n.writes, p.Segments[1]))
				})
			})
		}
		if at < 0 {
			return -1, ""
		}
		if at < first {
			first, name = at, p.Written[0]
		}
	}
	if name == "" {
		return -1, ""
	}
	return first, name
}

// eligible reports whether a route applies after a unit: its target is later, and it skips
// everything that it names.
func (l *lowering) eligible(r *rule, i int) bool {
	to := l.unitOf(r.target.Value)
	if to <= i {
		return false
	}
	for _, s := range r.skips {
		if at := l.unitOf(s.Value); at <= i || at >= to {
			return false
		}
	}
	return true
}

// unitOf returns the index of the unit that runs an agent, or -1.
func (l *lowering) unitOf(key string) int {
	return slices.IndexFunc(l.units, func(u *unit) bool { return slices.Contains(u.agents, key) })
}

// executionStep adds the step that runs the Execution block as is.
func (l *lowering) executionStep() {
	d := l.doc
	body := l.p.AddBlock(ir.Block{Span: d.name.Span})
	if d.pipeline == nil {
		return
	}
	task := ir.Task{Kind: "node"}
	l.code(&task, d.helpers, d.pipeline.module)
	calls := xslices.Map(d.pipeline.adds, func(a addition) text.Text { return a.agent })
	for _, n := range d.nodes {
		calls = append(calls, n.calls...)
	}
	at := d.sections[executionOf].heading.Span
	chosen := chooses(d.pipeline.module, d.isRun) || chooses(d.pipeline.module, isAdd) || d.helpers != nil &&
		chooses(d.helpers, d.isRun)
	most := newCallCounter(d, d.helpers, d.pipeline.module).count(d.pipeline.module.Body)
	task.Settings.Put("agents", l.registered(calls, chosen, most), at)
	task.Settings.PutSet("sdk", l.SDK, at)
	l.add(body, ir.Step{
		ID: "execution", Type: "execution", Description: "Run the Execution block", Span: at,
		Reads:  []ir.Ref{{Path: "input", Span: at}},
		Writes: []ir.Write{{Path: "output", Span: at}}, Action: task,
	})
}
