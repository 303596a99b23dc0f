package graph

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Compact is the small picture of a workflow, or of one run of it, for a web page. It has no styles of its own: the
// page's style sheet and its symbols determine what it looks like, so it can be shown under a strict content security
// policy.
//
// The picture of a run changes by patches of attributes and texts. For a step with the path STEP, the element IDs are
// node-STEP (data-state), badge-STEP (href), dur-STEP (text and data-since), name-STEP (text of the title) and, if it
// is folded, count-STEP, ok-STEP, run-STEP and fail-STEP. For an edge it is edge-FROM-TO (data-taken, data-active).
// Patches returns them ready to apply.
//
// A Compact is not safe for concurrent use. Apply and Patches may only be called on one from NewCompactRun.
type Compact struct {
	program *ir.Program
	graph   *Graph
	tracker *Tracker          // nil without a run
	names   map[string]string // the part of element IDs that names a node, by its ID
	closed  map[string]bool
	moved   bool // a group was folded since the last call of Patches
}

// CompactOptions are the parts of a compact picture that depend on the page.
type CompactOptions struct {
	// Link returns the target of the link on a step. Without it, that is the element step-STEP.
	Link func(step string) string
	// Current is the path of the selected step.
	Current string
}

// NewCompact returns the picture of a workflow. Color is the kind of a step.
func NewCompact(p *ir.Program) *Compact {
	c := &Compact{program: p, closed: map[string]bool{}}
	c.build()
	return c
}

// NewCompactRun returns the picture of a run before its first event. Color is the state of a step. frame is empty, or
// the frame of a child run.
func NewCompactRun(p *ir.Program, frame string) *Compact {
	c := NewCompact(p)
	c.graph.dropStarts()
	c.tracker = c.graph.Track(p, frame)
	return c
}

// build builds the graph, with the groups in closed as single nodes, and removes what a compact picture does not show.
func (c *Compact) build() {
	c.graph = Build(c.program, Options{closed: c.closed})
	c.graph.keepSteps()
	c.nameElements()
}

// nameElements names steps by their path, and other nodes so that they differ from all steps.
func (c *Compact) nameElements() {
	c.names = map[string]string{}
	used := map[string]bool{}
	for _, steps := range []bool{true, false} {
		for n := range c.graph.all() {
			if (n.Step != "") != steps {
				continue
			}
			name := strings.TrimPrefix(n.ID, "step-")
			for used[name] {
				name += "~"
			}
			c.names[n.ID], used[name] = name, true
		}
	}
}

// Apply applies one event of the run. When the event shows that a fan-out or a loop has too many items, it folds the
// group and builds the graph again: progress so far moves to the new graph, and the page has to draw the picture again.
func (c *Compact) Apply(e journal.Event) {
	c.tracker.Apply(e)
	fold := false
	for i := range c.graph.Groups {
		if g := &c.graph.Groups[i]; g.Items != nil && g.Items.Total > maxBranches {
			c.closed[g.Step], fold = true, true
		}
	}
	if fold {
		old := c.tracker
		c.build()
		c.graph.dropStarts()
		c.tracker = c.graph.Track(c.program, old.frame)
		c.tracker.resume(old)
		c.moved = true
	}
}

// group returns a frame, or nil.
func (g *Graph) group(id string) *Group {
	return xslices.FindPointer(g.Groups, func(one *Group) bool { return one.ID == id })
}

// resume copies the progress of another picture of the same run, in which more groups are open. IDs of elements are the
// same in both, because Build derives them from paths. It takes over the frames of old, which must not be used anymore.
func (t *Tracker) resume(old *Tracker) {
	for id, p := range t.shown {
		if before := old.shown[id]; before != nil {
			*p = *before
		}
	}
	taken := map[string]bool{}
	for _, e := range old.graph.Edges {
		taken[e.ID] = e.Taken
	}
	for i := range t.graph.Edges {
		t.graph.Edges[i].Taken = taken[t.graph.Edges[i].ID]
	}
	t.frames = old.frames
	for _, in := range t.frames {
		if in.node != "" && t.shown[in.node] == nil { // inside a folded group
			in.node, in.hidden = "", true
		}
		if n := t.nodes[in.group]; n != nil && n.Kind == NodeFolded {
			in.hidden = true
		}
	}
}

// keepSteps removes what a compact picture does not show: artifacts, how branches join, and the implied end of a
// workflow that simply ends after its last step.
func (g *Graph) keepSteps() {
	for i := range g.Groups {
		g.Groups[i].Footer = ""
	}
	entered := map[string]int{}
	plain := map[string]bool{}
	for _, e := range g.Edges {
		entered[e.To]++
		plain[e.To] = e.Kind == EdgeFlow && e.Label == ""
	}
	g.drop(func(n *Node) bool {
		return n.Kind == NodeArtifact ||
			n.Kind == NodeEnd && n.Step == "" && (entered[n.ID] == 0 || entered[n.ID] == 1 && plain[n.ID])
	})
}

// dropStarts removes the triggers and the start.
func (g *Graph) dropStarts() {
	g.drop(func(n *Node) bool { return n.Kind == NodeTrigger || n.Kind == NodeStart })
}

// drop removes nodes, and the edges from and to them. It moves the edges that stay, so it must not be called once a
// Tracker has their indexes.
func (g *Graph) drop(unwanted func(*Node) bool) {
	gone := map[string]bool{}
	g.Nodes = slices.DeleteFunc(g.Nodes, func(n Node) bool {
		gone[n.ID] = unwanted(&n)
		return gone[n.ID]
	})
	g.Edges = slices.DeleteFunc(g.Edges, func(e Edge) bool { return gone[e.From] || gone[e.To] })
}

// Patch is one change of an element that is already on the page.
type Patch struct {
	ID     string `json:"id"`
	Attr   string `json:"attr,omitempty"` // empty: the text of the element
	Value  string `json:"value"`
	Remove bool   `json:"remove,omitempty"` // the attribute
}

// Patches returns the changes since the last call. redraw reports that the picture has to be drawn again instead,
// because a group was folded. Patches set values instead of changing them, so applying one twice does no harm.
func (c *Compact) Patches() (patches []Patch, redraw bool) {
	changed := c.tracker.changed
	c.tracker.changed = map[string]bool{}
	if c.moved {
		c.moved = false
		return nil, true
	}
	active := c.active()
	for _, id := range slices.Sorted(maps.Keys(changed)) {
		if p := c.tracker.shown[id]; p != nil {
			patches = append(patches, c.nodePatches(id, p)...)
		}
	}
	names := c.edgeNames()
	for i := range c.graph.Edges {
		e := &c.graph.Edges[i]
		if changed[e.ID] && e.Taken {
			patches = append(patches, Patch{ID: names[i], Attr: "data-taken"})
		}
		if changed[e.To] && e.Taken {
			patches = append(patches, Patch{ID: names[i], Attr: "data-active", Remove: !active[i]})
		}
	}
	return patches, false
}

func (c *Compact) nodePatches(id string, p *Progress) []Patch {
	name, state := c.names[id], dataState(p.State)
	n := c.tracker.nodes[id]
	patches := []Patch{
		{ID: "node-" + name, Attr: "data-state", Value: string(state)},
		{ID: "badge-" + name, Attr: "href", Value: badge(n, state)},
		{ID: "dur-" + name, Value: duration(p)},
		{ID: "dur-" + name, Attr: "data-since", Value: since(p), Remove: since(p) == ""},
		{ID: "name-" + name, Value: c.title(id)},
	}
	if n != nil && n.Kind == NodeFolded {
		patches = append(patches, Patch{ID: "count-" + name, Value: countText(p.Items)})
		for _, b := range bars(p.Items) {
			patches = append(patches, Patch{ID: b.part + "-" + name, Attr: "x", Value: number(b.x)},
				Patch{ID: b.part + "-" + name, Attr: "width", Value: number(b.w)})
		}
	}
	return patches
}

// active returns the edges that lead to a step at work.
func (c *Compact) active() map[int]bool {
	all := map[int]bool{}
	if c.tracker == nil {
		return all
	}
	for i := range c.graph.Edges {
		e := &c.graph.Edges[i]
		if p := c.tracker.shown[e.To]; e.Taken && p != nil && p.State == journal.StateRunning {
			all[i] = true
		}
	}
	return all
}

// edgeNames returns the element IDs of the edges. They depend on the order of the edges, which does not change until
// the picture is drawn again.
func (c *Compact) edgeNames() []string {
	names, used := make([]string, len(c.graph.Edges)), map[string]int{}
	for i, e := range c.graph.Edges {
		name := "edge-" + c.names[e.From] + "-" + c.names[e.To]
		used[name]++
		if n := used[name]; n > 1 {
			name += fmt.Sprint("~", n)
		}
		names[i] = name
	}
	return names
}

// dataState returns the data-state of a step.
func dataState(state journal.State) journal.State {
	return cmp.Or(state, journal.StatePending)
}

// badge returns the symbol of a state.
func badge(n *Node, state journal.State) string {
	switch {
	case state == journal.StateWaiting && n != nil && n.Kind == NodeWait:
		return "#i-s-event"
	case state == journal.State(journal.OutcomeRejected):
		return "#i-s-cancelled"
	case state == journal.State(journal.OutcomeEnd):
		return "#i-s-ok"
	default:
		return "#i-s-" + string(state)
	}
}

// duration returns how long a step took; empty while it is at work.
func duration(p *Progress) string {
	if p.started == 0 || p.ended == 0 || p.State == journal.StateSkipped {
		return ""
	}
	return shortDuration(p.ended - p.started)
}

// since returns when a step that is at work started, in RFC 3339. The page counts the time up from it.
func since(p *Progress) string {
	if p.started == 0 || p.ended != 0 || p.State == "" {
		return ""
	}
	return time.UnixMilli(int64(p.started)).UTC().Format(time.RFC3339)
}

// shortDuration formats a duration with at most two units: "2 ms", "1.2 s", "3 min 5 s".
func shortDuration(d ir.Millis) string {
	switch {
	case d < 1000:
		return fmt.Sprintf("%d ms", max(d, 0))
	case d < 10_000:
		return fmt.Sprintf("%.1f s", float64(d/100)/10)
	case d < 60_000:
		return fmt.Sprintf("%d s", d/1000)
	case d < 3600_000:
		return (d / 1000 * 1000).Words()
	case d < 48*3600_000:
		return (d / 60_000 * 60_000).Words()
	default:
		return fmt.Sprintf("%d days", d/(24*3600_000))
	}
}

// title returns the name, kind, state and time of a step in one line.
func (c *Compact) title(id string) string {
	name, kind, _ := c.words(id)
	title := name
	add := func(part string) {
		if part != "" {
			title += ", " + part
		}
	}
	add(kind)
	if c.tracker != nil {
		p := c.tracker.shown[id]
		add(dataState(p.State).Word())
		add(countText(p.Items))
		add(duration(p))
	}
	return title
}

// words returns the name of a node, the line below it, and its data-kind.
func (c *Compact) words(id string) (name, sub, kind string) {
	if g := c.graph.group(id); g != nil {
		detail := g.Detail
		if detail == "" && len(g.Notes) > 0 {
			detail = g.Notes[0].String()
		}
		kind = "parallel"
		if g.Kind == GroupLoop {
			kind = "loop"
		}
		return g.Title, joinDot(g.Label, detail), kind
	}
	n := c.graph.node(id)
	switch n.Kind {
	case NodeTrigger:
		return n.Title, joinDot(n.Label, n.Text), "trigger"
	case NodeWait:
		for _, note := range n.Notes {
			if note.Kind == NoteWait {
				sub = note.Text
			}
		}
		return n.Title, joinDot("event", strings.TrimPrefix(sub, "until ")), "waitpoint"
	case NodeFolded:
		if len(n.Notes) > 0 {
			sub = n.Notes[0].String()
		}
		kind = "folded"
		switch n.Tone {
		case ToneBundle:
			kind = "parallel"
		case ToneLoop:
			kind = "loop"
		}
		return n.Title, joinDot(n.Label, sub), kind
	case NodeStart, NodeEnd, NodeFail, NodeExit:
		return n.Title, n.Label, string(n.Kind)
	}
	return n.Title, joinDot(n.Label, strings.TrimSuffix(n.Detail, " decides")), string(n.Tone)
}

// joinDot joins two texts with a middle dot, if both are there.
func joinDot(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + " · " + b
}

// countText describes the progress of a fan-out or a loop: "912 of 1,000 · 3 failed".
func countText(i *Items) string {
	if i == nil || i.Total == 0 {
		return ""
	}
	text := grouped(i.OK+i.Failed) + " of " + grouped(i.Total)
	if i.Failed > 0 {
		text += " · " + grouped(i.Failed) + " failed"
	}
	return text
}

// The bar of a folded node.
const (
	barX = 10.0
	barW = compactWidth - 2*barX
)

// barPart is one piece of a bar.
type barPart struct {
	part, class string
	x, w        float64
}

// bars returns the pieces of a bar: finished, running and failed items.
func bars(i *Items) []barPart {
	parts := []barPart{{part: "ok", class: "n-ok"}, {part: "run", class: "n-run"}, {part: "fail", class: "n-fail"}}
	x := barX
	for k := range parts {
		n := 0
		if i != nil && i.Total > 0 {
			n = []int{i.OK, i.Running, i.Failed}[k]
		}
		if n > 0 { // at least two units, so that one failed item of many is visible
			parts[k].w = min(max(2, barW*float64(n)/float64(i.Total)), barX+barW-x)
		}
		parts[k].x = x
		x += parts[k].w
	}
	return parts
}

// node returns a node or a frame, or nil.
func (g *Graph) node(id string) *Node {
	for n := range g.all() {
		if n.ID == id {
			return n
		}
	}
	return nil
}
