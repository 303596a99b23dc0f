package graph

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Options selects what a picture shows besides the flow.
type Options struct {
	// Data adds an edge from each step that writes a key to each step that reads it.
	Data bool
	// Approved reports whether a person has to approve calls of a tool; nil knows none.
	Approved func(tool string) bool
	// closed has the paths of groups that are drawn as one node.
	closed map[string]bool
}

// Build returns the picture of a program. It works for every program, also for one that package check rejects: it
// leaves out edges to steps and blocks that do not exist. All blocks are drawn before the first edge, because an edge
// can lead to a step of an enclosing block that comes later, and because folding has to be known.
func Build(p *ir.Program, o Options) *Graph {
	b := &builder{
		program:  p,
		graph:    &Graph{Name: clean(p.Name), Format: p.Format, Description: clean(p.Description)},
		taken:    map[string]bool{},
		open:     map[ir.BlockID]bool{},
		edgeAt:   map[edgeKey]int{},
		closed:   o.closed,
		approved: o.Approved,
		room:     maxSteps,
		folds:    map[string]map[string]string{},
	}
	b.drawStart(b.block(ir.Body, place{}, nil, 0)) // there is no body without blocks
	b.edges()
	if o.Data {
		b.dataEdges()
	}
	return b.graph
}

// builder is the state of Build.
type builder struct {
	program  *ir.Program
	graph    *Graph
	taken    map[string]bool // IDs in use
	open     map[ir.BlockID]bool
	scopes   []*scope // every drawn block, outer before inner
	edgeAt   map[edgeKey]int
	closed   map[string]bool
	approved func(tool string) bool
	room     int                          // for steps
	folds    map[string]map[string]string // nodes that end edges, by folded node and text
}

// edgeKey identifies an edge. Edges with the same key are drawn as one line; label is only set for edges of data.
type edgeKey struct {
	kind            EdgeKind
	from, to, label string
}

// place is the position of a block in the picture.
type place struct {
	group string
	lane  int
	path  string // prefix of the steps' paths
}

// scope is one drawn block: its steps and their node IDs.
type scope struct {
	place
	steps  []ir.Step
	nodes  []string // by index in steps
	byID   map[string]int
	parent *scope // the enclosing block that edges may lead to; nil below a Parallel
	inLoop bool
	// outer and at identify the step that contains this block.
	outer *scope
	at    int
	inner [][]*scope // blocks inside each step
}

// block draws the steps of a block and of the blocks inside it.
func (b *builder) block(id ir.BlockID, where place, outer *scope, at int) *scope {
	if int(id) < 0 || int(id) >= len(b.program.Blocks) || b.open[id] {
		return nil // package check reports a block that is missing or contains itself
	}
	b.open[id] = true
	defer delete(b.open, id)
	steps := b.program.Blocks[id].Steps
	s := &scope{
		place: where, steps: steps, nodes: make([]string, len(steps)), byID: make(map[string]int, len(steps)),
		outer: outer, at: at, inner: make([][]*scope, len(steps)),
	}
	b.scopes = append(b.scopes, s)
	for i := range steps {
		if _, seen := s.byID[steps[i].ID]; !seen {
			s.byID[steps[i].ID] = i
		}
	}
	from, to := b.foldRange(steps)
	for i := range steps {
		switch {
		case i < from || i >= to:
			b.step(s, i)
		case i == from:
			s.nodes[i] = b.foldSteps(s, from, to)
		default:
			s.nodes[i] = s.nodes[from]
		}
	}
	return s
}

// step draws one step of a scope, with the blocks inside it and its artifacts.
func (b *builder) step(s *scope, i int) {
	st := &s.steps[i]
	path := s.path + st.ID
	id := b.id("step-" + path)
	s.nodes[i] = id
	tone, icon := toneAndIcon(st.Action)
	n := Node{
		ID: id, Kind: NodeStep, Tone: tone, Icon: icon, Step: path, Group: s.group, Lane: s.lane,
		Label: clean(cmp.Or(st.Type, ir.ActionName(st.Action))), Title: clean(st.Title()), Text: clean(st.Description),
		Reads: readPaths(st), Writes: writePaths(st),
	}
	if b.isClosed(st, path) {
		b.folds[id] = map[string]string{}
		b.add(foldedGroup(n, st))
		return
	}
	switch a := st.Action.(type) {
	case ir.Parallel:
		n.Kind, n.Detail = GroupBundle, clean(a.Name)
		branches := a.Branches
		if a.Each != nil {
			branches = append(branches[:len(branches):len(branches)], ir.Branch{Name: "each", Block: a.Each.Block})
			n.Notes = []Note{eachNote(a.Each)}
		}
		n.Notes = append(n.Notes, stepNotes(st)...)
		lanes := xslices.Map(branches, func(branch ir.Branch) string { return clean(branch.Name) })
		b.addGroup(Group{Node: n, Footer: joinText(a), Lanes: lanes})
		for lane, branch := range branches {
			inside := place{group: id, lane: lane, path: path + "."}
			if !b.single(branch.Block) {
				inside.path += branch.Name + "."
			}
			if in := b.block(branch.Block, inside, s, i); in != nil {
				s.inner[i] = append(s.inner[i], in)
				if branch.When != nil && len(in.nodes) > 0 {
					first := b.graph.node(in.nodes[0])
					first.Notes = append(first.Notes, Note{NoteWhen, condition(branch.When)})
				}
			}
		}
	case ir.Loop:
		n.Kind, n.Notes = GroupLoop, append(loopNotes(a), stepNotes(st)...)
		b.addGroup(Group{Node: n, Lanes: []string{""}})
		if in := b.block(a.Block, place{group: id, path: path + "."}, s, i); in != nil {
			in.parent, in.inLoop = s, true
			s.inner[i] = append(s.inner[i], in)
		}
	default:
		n.Detail, n.Notes = b.detail(st), append(b.approvalNotes(st), stepNotes(st)...)
		if s.outer != nil && st.Description == s.outer.steps[s.at].Description {
			n.Text = "" // the frame shows it already
		}
		switch a := st.Action.(type) {
		case ir.Gate:
			if a.Decider == ir.Event {
				n.Kind = NodeWait
			}
			if note := waitText(a); note != "" {
				n.Notes = append(n.Notes, Note{NoteWait, note})
			}
		case ir.End:
			n.Kind = NodeEnd
			n.Text = cmp.Or(n.Text, clean(a.Message))
			if a.Failed {
				n.Icon = IconCross
			}
			if a.Check != nil {
				n.Notes = append(n.Notes, Note{NoteCheck, "expects " + condition(a.Check)})
			}
		}
		b.add(n)
	}
	for _, file := range st.Produces {
		artifact := Node{
			ID: b.id("artifact-" + path + "-" + file.Name), Kind: NodeArtifact, Tone: ToneNeutral, Icon: IconFile,
			Step: path, Group: s.group, Lane: s.lane, Title: clean(file.Name),
		}
		b.add(artifact)
		b.edge(EdgeProduces, id, artifact.ID, "")
	}
}

// single reports whether a block has a single step, whose path then has no part for the branch.
func (b *builder) single(id ir.BlockID) bool {
	return int(id) >= 0 && int(id) < len(b.program.Blocks) && len(b.program.Blocks[id].Steps) == 1
}

// drawStart draws the triggers, or a plain start, with edges to the first step.
func (b *builder) drawStart(body *scope) {
	var nodes []Node
	for i, t := range b.program.Triggers {
		n := Node{
			ID: b.id("trigger-" + strconv.Itoa(i+1)), Kind: NodeTrigger, Tone: ToneNeutral, Icon: triggerIcon(t.Kind),
			Label: clean(string(t.Kind)), Off: t.Off,
		}
		switch t.Kind {
		case ir.OnSchedule:
			n.Title, n.Text = clean(t.Schedule), clean(t.Zone())
		case ir.OnAPI:
			n.Title = "HTTP request"
		default:
			n.Title = clean(t.Source())
		}
		n.Title = cmp.Or(n.Title, "starts a run")
		nodes = append(nodes, n)
	}
	if len(nodes) == 0 {
		nodes = []Node{{ID: b.id("start"), Kind: NodeStart, Tone: ToneNeutral, Icon: IconPlay, Title: "start"}}
	}
	for i := range nodes {
		nodes[i].Order = i - len(nodes) // before everything else
	}
	b.graph.Nodes = append(nodes, b.graph.Nodes...)
	if body == nil || len(body.nodes) == 0 {
		return
	}
	for _, n := range nodes {
		b.edge(EdgeFlow, n.ID, body.nodes[0], "")
	}
}

// edges draws the edges of each step. The end of the body is a node of its own, if any edge leads there.
func (b *builder) edges() {
	end := ""
	for _, s := range b.scopes {
		exits := b.exits(s)
		for i := range s.steps {
			for _, w := range exits[i] {
				to := w.to
				if w.ends {
					if s.outer != nil {
						continue // the end of a branch or an iteration is not drawn
					}
					if end == "" {
						end = b.id("end")
						b.add(Node{ID: end, Kind: NodeEnd, Tone: ToneEnd, Icon: IconStop, Title: "end"})
					}
					to = end
				}
				b.controlEdge(w.kind, s.nodes[i], to, w.label, w.on)
			}
		}
	}
}

// exit is one outgoing edge of a step: to a node, or to the end of the block.
type exit struct {
	kind  EdgeKind
	on    outcomes
	to    string
	ends  bool
	label string
}

// outcomes is a set of outcomes of a step. A Tracker uses it to find the edge that a run took.
type outcomes uint8

// outcomeBits are the outcomes that lead to different edges.
var outcomeBits = map[ir.Outcome]outcomes{ir.OK: 1, ir.Failed: 2, ir.Skipped: 4, ir.Rejected: 8}

// outcomeSet returns the set of some outcomes. Other outcomes are ignored.
func outcomeSet(on ...ir.Outcome) outcomes {
	var set outcomes
	for _, one := range on {
		set |= outcomeBits[one]
	}
	return set
}

// has reports whether an outcome is in the set.
func (o outcomes) has(one ir.Outcome) bool { return o&outcomeSet(one) != 0 }

// exits returns the outgoing edges of each step of a scope. Fallbacks make them differ from the declared ones: a step
// that is only entered as a fallback, and has no jumps of its own, goes on where its primary steps would have gone on.
func (b *builder) exits(s *scope) [][]exit {
	own := make([][]exit, len(s.steps))        // from the step's edges
	jumps := make([]bool, len(s.steps))        // has an explicit jump
	onward := make([]bool, len(s.steps))       // entered other than as a fallback
	fallbackFor := make([][]int, len(s.steps)) // the steps that it is the fallback of
	for i := range s.steps {
		st := &s.steps[i]
		if i == 0 {
			onward[i] = true
		}
		if st.Fallback != nil {
			if t, ok := s.byID[st.Fallback.Name]; ok {
				fallbackFor[t] = append(fallbackFor[t], i)
			}
		}
		own[i] = b.stepExits(s, st, s.nodes[i])
		for _, e := range st.Next {
			if !e.Sequential {
				jumps[i] = true
			}
			if t, ok := s.byID[e.To.Step]; ok && e.To.Step != "" {
				onward[t] = true
			}
		}
	}
	// The edges of each step: its own, those that it takes over from its primary steps, and those to its fallback.
	all := make([][]exit, len(s.steps))
	for i := range s.steps {
		if onward[i] || jumps[i] || len(fallbackFor[i]) == 0 {
			for _, w := range own[i] {
				if w.kind != EdgeSkipped || maySkip(&s.steps[i]) {
					all[i] = append(all[i], w)
				}
			}
		}
		if !jumps[i] {
			for _, primary := range fallbackFor[i] {
				all[i] = append(all[i], fallbackExits(&s.steps[i], s.nodes[i], &s.steps[primary], own[primary])...)
			}
		}
		st := &s.steps[i]
		if st.Fallback == nil {
			continue
		}
		if t, ok := s.byID[st.Fallback.Name]; ok {
			if !stopsAtTimeout(st) {
				all[i] = append(all[i],
					exit{kind: EdgeFallback, on: outcomeSet(ir.Failed), to: s.nodes[t], label: "fallback"})
			}
			if st.When != nil {
				all[i] = append(all[i],
					exit{kind: EdgeSkipped, on: outcomeSet(ir.Skipped), to: s.nodes[t], label: "skipped"})
			}
		}
	}
	return all
}

// fallbackExits returns the edges of a fallback without jumps of its own: those of its primary step, for each outcome
// that the fallback can have.
func fallbackExits(st *ir.Step, id string, primary *ir.Step, exitsOfPrimary []exit) []exit {
	possible := outcomeSet(ir.OK, ir.Failed)
	if _, gate := st.Action.(ir.Gate); gate {
		possible |= outcomeSet(ir.Rejected)
	}
	if maySkip(st) {
		possible |= outcomeSet(ir.Skipped)
	}
	if st.Fallback != nil {
		possible &^= outcomeSet(ir.Failed)
	}
	var exits []exit
	for _, w := range exitsOfPrimary {
		switch skipped := outcomeSet(ir.Skipped); {
		case w.to == id:
		case w.on&possible != 0:
			exits = append(exits, w)
		case w.on&skipped != 0 && primary.When != nil: // the primary was skipped, and the fallback succeeds
			w.on |= outcomeSet(ir.OK)
			exits = append(exits, w)
		}
	}
	return exits
}

// stopsAtTimeout reports whether a step fails only if nothing answers in time, which then ends the run.
func stopsAtTimeout(st *ir.Step) bool {
	g, gate := st.Action.(ir.Gate)
	return gate && g.Decider != ir.Work && (g.OnTimeout == ir.TimeoutFail || g.OnTimeout == ir.TimeoutNotify)
}

// stepExits returns the outgoing edges of one step as declared.
func (b *builder) stepExits(s *scope, st *ir.Step, from string) []exit {
	if _, over := st.Action.(ir.End); over {
		return nil
	}
	var exits []exit
	_, decides := st.Action.(ir.Route)
	always, some := false, false // an edge after "ok" that always, or sometimes, matches
	for _, e := range st.Next {
		w := exit{kind: edgeKind(e, decides), on: outcomeSet(e.On...), label: edgeLabel(e)}
		if w.kind == EdgeSkipped && !maySkip(st) && st.Fallback == nil {
			continue
		}
		if slices.Contains(e.On, ir.OK) {
			some = true
			if e.When == nil && e.Limit == 0 {
				always = true
			}
		}
		switch {
		case e.To.Exit == ir.ExitFail:
			reason := cmp.Or(clean(e.To.Reason), "fails")
			w.kind = EdgeFailed
			if decides {
				w.on |= outcomeSet(ir.Failed) // the decision itself then fails, with this reason
			}
			w.to = b.terminal(s, from, NodeFail, ir.ExitFail, reason, ToneError, IconCross)
		case e.To.Exit == ir.ExitLoop:
			w.to = b.terminal(s, from, NodeExit, ir.ExitLoop, "leave the loop", ToneLoop, IconLeave)
		case e.To.Exit == ir.ExitBlock:
			if s.inLoop {
				w.to = b.terminal(s, from, NodeExit, ir.ExitBlock, "next iteration", ToneLoop, IconRepeat)
			} else {
				w.ends = true
			}
		default:
			if t, ok := s.byID[e.To.Step]; ok {
				w.to = s.nodes[t]
				break
			}
			group, target := b.outside(s, e.To.Step)
			if target == "" {
				continue // package check reports it
			}
			w.to = b.terminal(s, from, NodeExit, "", "to "+clean(e.To.Step), ToneLoop, IconLeave)
			b.controlEdge(EdgeJump, group, target, "", 0)
		}
		exits = append(exits, w)
	}
	// No match closes the block, so unless an edge always matches, there is one more way on.
	if !always {
		w := exit{kind: EdgeFlow, on: outcomeSet(ir.OK, ir.Skipped), ends: true}
		if some {
			w.label = "otherwise"
		}
		exits = append(exits, w)
	}
	return exits
}

// maySkip reports whether a skipped step can follow its edges. A fallback comes before them, except after a timeout.
func maySkip(st *ir.Step) bool {
	if g, gate := st.Action.(ir.Gate); gate && g.OnTimeout == ir.TimeoutSkip {
		return true
	}
	return st.Fallback == nil && (st.When != nil || st.SkipOnError)
}

// outside returns a step of an enclosing block, and the frame to leave for it. Only loops can be left that way: the
// scopes of branches have no parent.
func (b *builder) outside(s *scope, id string) (group, target string) {
	for in := s; in.parent != nil; in = in.parent {
		if t, ok := in.parent.byID[id]; ok {
			return in.parent.nodes[in.at], in.parent.nodes[t]
		}
	}
	return "", ""
}

// terminal adds a small node that only ends an edge. Each edge gets its own node, next to its step, because a shared
// one would draw lines across the whole picture. Only the edges of a folded node share those with the same text.
func (b *builder) terminal(
	s *scope, from string, kind NodeKind, exit ir.Exit, text string, tone Tone, icon Icon,
) string {
	if id := b.folds[from][text]; id != "" {
		return id
	}
	id := b.id(string(kind) + "-" + strings.TrimPrefix(from, "step-"))
	b.add(Node{ID: id, Kind: kind, Tone: tone, Icon: icon, Group: s.group, Lane: s.lane, Title: text, exit: exit})
	if known := b.folds[from]; known != nil {
		known[text] = id
	}
	return id
}

// add adds a node as the next one in document order.
func (b *builder) add(n Node) {
	n.Order = b.next()
	b.graph.Nodes = append(b.graph.Nodes, n)
}

// addGroup adds a frame as the next element in document order.
func (b *builder) addGroup(g Group) {
	g.Order = b.next()
	b.graph.Groups = append(b.graph.Groups, g)
}

// next returns the position of the next element in document order.
func (b *builder) next() int { return len(b.graph.Nodes) + len(b.graph.Groups) }

// controlEdge adds an edge that a run can follow after the given outcomes.
func (b *builder) controlEdge(kind EdgeKind, from, to, label string, on outcomes) {
	b.edge(kind, from, to, label)
	if i, drawn := b.edgeAt[edgeKey{kind: kind, from: from, to: to}]; drawn {
		b.graph.Edges[i].on |= on
	}
}

// maxLabelBytes is the length, in bytes, beyond which an edge gets no more labels.
const maxLabelBytes = 200

// edge adds an edge, or appends the label to an existing one of the same kind between the same elements. An edge
// without a label stays without.
func (b *builder) edge(kind EdgeKind, from, to, label string) {
	key := edgeKey{kind: kind, from: from, to: to}
	if kind == EdgeData {
		key.label = label // each key has its own edge
	}
	if i, there := b.edgeAt[key]; there {
		e := &b.graph.Edges[i]
		if kind != EdgeData && label != "" && e.Label != "" && e.Label != label && len(e.Label) < maxLabelBytes {
			e.Label += ", " + label
		}
		return
	}
	if from == to && b.folds[from] != nil {
		return // inside the fold
	}
	b.edgeAt[key] = len(b.graph.Edges)
	b.graph.Edges = append(b.graph.Edges,
		Edge{ID: b.id("edge-" + from + "-" + to), Kind: kind, From: from, To: to, Label: label})
}

// id returns a unique ID that is safe in XML, links and class names. "~" occurs only in front of the number that makes
// it unique.
func (b *builder) id(wanted string) string {
	const longest = 120
	var s strings.Builder
	for _, r := range wanted {
		if s.Len() >= longest {
			break
		}
		switch {
		case r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_' || r == '.'):
			s.WriteRune(r)
		default:
			fmt.Fprintf(&s, "_%x", r)
		}
	}
	id := s.String()
	for n := 2; b.taken[id]; n++ {
		id = s.String() + "~" + strconv.Itoa(n)
	}
	b.taken[id] = true
	return id
}

// exceptions are the outcomes besides success, with the kind and the label of an edge that follows them. For an edge
// after several of them, the first one counts.
var exceptions = []struct {
	on    ir.Outcome
	kind  EdgeKind
	label string
}{
	{ir.Failed, EdgeFailed, "on error"}, {ir.Rejected, EdgeRejected, "rejected"}, {ir.Skipped, EdgeSkipped, "skipped"},
}

// exceptionKind returns the kind and the label of an edge that does not follow a success.
func exceptionKind(e ir.Edge) (EdgeKind, string) {
	for _, one := range exceptions {
		if slices.Contains(e.On, one.on) {
			return one.kind, one.label
		}
	}
	return EdgeFlow, ""
}

// edgeKind returns the kind of a declared edge. decides is set for the edges of a Route.
func edgeKind(e ir.Edge, decides bool) EdgeKind {
	switch {
	case !slices.Contains(e.On, ir.OK):
		kind, _ := exceptionKind(e)
		return kind
	case decides || e.When != nil:
		return EdgeBranch
	case e.Sequential:
		return EdgeFlow
	default:
		return EdgeJump
	}
}

// edgeLabel returns the label of a declared edge. A Tracker computes it again to find the edges of a condition.
func edgeLabel(e ir.Edge) string {
	label := clean(e.Label)
	switch {
	case label != "":
		// A name alone is not enough for a rule with an unrelated condition.
		if e.When != nil && !strings.Contains(e.When.Text, e.Label) {
			label += ": " + condition(e.When)
		}
	case e.When != nil:
		label = condition(e.When)
	case !slices.Contains(e.On, ir.OK):
		_, label = exceptionKind(e)
	}
	if e.Limit > 0 {
		label = strings.TrimSpace(label + " (at most " + strconv.Itoa(e.Limit) + "×)")
	}
	return label
}

// detail returns what performs the step.
func (b *builder) detail(st *ir.Step) string {
	switch a := st.Action.(type) {
	case ir.Task:
		return b.taskDetail(a)
	case ir.Gate:
		if a.Verdict != nil {
			return b.taskDetail(*a.Verdict)
		}
		if a.Decider == ir.Person {
			return "a person decides"
		}
	case ir.Call:
		if a.Child >= 0 && a.Child < len(b.program.Children) {
			return clean(b.program.Children[a.Child].Name)
		}
	case ir.End:
		if a.Work != nil {
			return b.taskDetail(*a.Work)
		}
	}
	return ""
}

// taskDetail returns what does the work of a task. It omits the name of an agent that is not in the file, because its
// author does not know it.
func (b *builder) taskDetail(t ir.Task) string {
	traits := t.Describe()
	if agent := b.program.Agent(traits.Agent); agent != nil && agent.Implied {
		traits.Agent = ""
	}
	return clean(cmp.Or(traits.Agent, traits.Tool, traits.Language))
}

// setting returns a setting of a task that is a text, or "".
func setting(t ir.Task, name string) string {
	var text string
	if json.Unmarshal(t.Settings.Get(name), &text) != nil {
		return ""
	}
	return text
}

// approvalNotes returns who has to approve what a step does.
func (b *builder) approvalNotes(st *ir.Step) []Note {
	t := st.Task()
	if t == nil || b.approved == nil {
		return nil
	}
	if tool := t.Describe().Tool; tool != "" && b.approved(tool) {
		return []Note{{NoteWait, "until a person approves the call"}}
	}
	return nil
}

// stepNotes returns the notes that a step of any kind can have.
func stepNotes(st *ir.Step) []Note {
	var notes []Note
	if st.When != nil {
		notes = append(notes, Note{NoteWhen, condition(st.When)})
	}
	if st.StopWhen != nil {
		notes = append(notes, Note{NoteStop, condition(st.StopWhen)})
	}
	if n := st.Attempts(); n > 1 {
		notes = append(notes, Note{NoteRetry, fmt.Sprintf("up to %d attempts", n)})
	}
	if st.SkipOnError {
		notes = append(notes, Note{NoteSkip, "skipped on error"})
	}
	return notes
}

func eachNote(e *ir.Each) Note {
	return Note{NoteCheck, "for each " + clean(e.Var) + " in " + condition(e.Items)}
}

// loopNotes returns the notes about how often a loop runs.
func loopNotes(l ir.Loop) []Note {
	var notes []Note
	if l.Each != nil {
		notes = append(notes, eachNote(l.Each))
	}
	if l.While != nil {
		notes = append(notes, Note{NoteCheck, "while " + condition(l.While)})
	}
	if l.BreakWhen != nil {
		notes = append(notes, Note{NoteCheck, "until " + condition(l.BreakWhen)})
	}
	switch {
	case l.MaxExpr != nil:
		notes = append(notes, Note{NoteCheck, "at most " + condition(l.MaxExpr) + " iterations"})
	case l.Max > 0:
		notes = append(notes, Note{NoteCheck, fmt.Sprintf("at most %d iterations", l.Max)})
	}
	return notes
}

// joinText describes how the branches of a bundle join.
func joinText(p ir.Parallel) string {
	if p.Combine != nil {
		text := "results combined"
		if strategy := setting(*p.Combine, "strategy"); strategy != "" {
			text += ": " + clean(strategy)
		}
		if critic := setting(*p.Combine, "critic"); critic != "" {
			text += ", critic " + clean(critic)
		}
		return text
	}
	switch p.Join {
	case ir.JoinAny:
		return "first success wins"
	case ir.JoinBest:
		return "failures are only recorded"
	default:
		return ""
	}
}

// waitText describes what a gate waits for, and what happens if it does not come.
func waitText(g ir.Gate) string {
	var parts []string
	if g.Event != "" {
		parts = append(parts, "until "+clean(g.Event))
	}
	if g.Timeout > 0 {
		parts = append(parts, "at most "+strings.ReplaceAll(g.Timeout.Words(), " ", "\u00a0"))
		switch g.OnTimeout {
		case ir.TimeoutSkip:
			parts = append(parts, "then continues")
		case ir.TimeoutFallback:
			parts = append(parts, "then the fallback")
		case ir.TimeoutFail, ir.TimeoutNotify:
			parts = append(parts, "then fails")
		}
	}
	return strings.Join(parts, ", ")
}

// condition returns a condition as its author wrote it, on one line.
func condition(e *expr.Expr) string {
	if e == nil {
		return ""
	}
	return clean(e.Text)
}

func readPaths(st *ir.Step) []string {
	return xslices.Map(st.Reads, func(r ir.Ref) string { return clean(r.Path) })
}

func writePaths(st *ir.Step) []string {
	return xslices.Map(st.Writes, func(w ir.Write) string { return clean(w.Path) })
}

// clean converts a text to one line: runs of white space become a space, and characters that cannot be shown are
// removed: control characters, invalid encoding, what reorders the text around it, and what XML does not allow. Long
// texts are cut.
func clean(s string) string {
	const longest = 20_000
	var out strings.Builder
	space := false
	for _, r := range s {
		switch {
		case unicode.IsSpace(r):
			space = true
			continue
		case r == utf8.RuneError, unicode.IsControl(r), unicode.In(r, unicode.Bidi_Control), r == 0xFFFE, r == 0xFFFF:
			continue
		}
		if space && out.Len() > 0 {
			out.WriteByte(' ')
		}
		space = false
		out.WriteRune(r)
		if out.Len() > longest {
			break
		}
	}
	return out.String()
}
