package graph

import (
	"cmp"
	"fmt"
	"strings"
)

// The sizes of boxes in a compact picture.
const (
	compactWidth  = 188.0
	compactHeight = 46.0
	foldedHeight  = 54.0
	triggerWidth  = 148.0
	pillHeight    = 24.0
)

// compact is the style of pictures on web pages.
var compact = style{
	margin: 8, besideGap: 24, rowGap: 24, firstTrack: 12, labelRowGap: 10, trackLabel: 4, belowLabel: 12,
	labelHeight: 15, labelWidth: 130, widestFrame: 840, bareBeside: true,
	card: compactCard, frameHead: compactHead,
}

// compactCard returns the card of a node. Only triggers and the marks of starts and ends depend on the width of their
// text.
func compactCard(r *ruler, n *Node, _ int) *card {
	c := &card{w: compactWidth, h: compactHeight}
	switch n.Kind {
	case NodeTrigger:
		text := max(r.pageWidth(bold, 13, n.Title), r.pageWidth(regular, labelSize, joinDot(n.Label, n.Text)))
		c.w = max(triggerWidth, min(compactWidth, text+54))
	case NodeFolded:
		c.h = foldedHeight
	case NodeStart, NodeFail, NodeExit, NodeEnd:
		if n.Kind != NodeEnd || n.Step == "" {
			c.w, c.h = min(compactWidth, r.pageWidth(regular, labelSize, n.Title)+36), pillHeight
		}
	}
	return c
}

// compactHead returns the head of a frame: as wide as a step, unless the frame is wider.
func compactHead(_ *ruler, _ *Group, _ float64) *card {
	return &card{w: compactWidth + 2*framePad, h: 40}
}

// pageFonts is how much wider than the Go fonts the fonts of a page may be.
const pageFonts = 1.12

// pageWidth returns the width of a text in the fonts of a page, which may be wider than the Go fonts.
func (r *ruler) pageWidth(c fontStyle, size float64, s string) float64 {
	return pageFonts * r.width(c, size, s)
}

// pageFit shortens a text to a width in the fonts of a page.
func (r *ruler) pageFit(c fontStyle, size float64, s string, width float64) string {
	return r.fit(c, size, s, width/pageFonts)
}

// SVG returns the picture as an element for a web page.
func (c *Compact) SVG(o CompactOptions) ([]byte, error) {
	p, err := arrange(c.graph, &compact)
	if err != nil {
		return nil, err
	}
	r, err := newRuler()
	if err != nil {
		return nil, err
	}
	w := &compactWriter{Compact: c, CompactOptions: o, ruler: r}
	name := cmp.Or(c.graph.Name, "the workflow")
	class, label := "by-kind", "Steps of "+name
	if c.tracker != nil {
		class, label = "by-state", label+" and their states"
	}
	w.open("svg", "id", "graph", "width", number(p.w), "height", number(p.h),
		"viewBox", "0 0 "+number(p.w)+" "+number(p.h), "class", class, "role", "group", "aria-label", label)
	w.out.WriteString("\n")
	for i := range c.graph.Groups {
		if box, ok := p.boxes[c.graph.Groups[i].ID]; ok {
			w.frame(&c.graph.Groups[i], box)
		}
	}
	for _, l := range p.lanes {
		w.open("g", "class", "lane")
		w.text(r.pageFit(regular, labelSize, l.text, l.frame.w-8), "x", number(l.frame.x+10), "y",
			number(l.frame.y+15), "class", "sub")
		w.out.WriteString("</g>\n")
	}
	names, active := c.edgeNames(), c.active()
	for _, taken := range []bool{false, true} { // taken edges cover the others where lines are shared
		for _, route := range p.routes {
			if c.graph.Edges[route.edge].Taken == taken {
				w.edge(names[route.edge], route, active[route.edge])
			}
		}
	}
	for i := range c.graph.Nodes {
		if box, ok := p.boxes[c.graph.Nodes[i].ID]; ok {
			w.node(&c.graph.Nodes[i], box)
		}
	}
	w.out.WriteString("</svg>\n")
	return w.out.Bytes(), nil
}

// compactWriter writes the elements of one compact picture. The coordinates inside a box are relative to it.
type compactWriter struct {
	*Compact
	CompactOptions
	markup
	ruler *ruler
}

// edge writes an edge. An active edge leads to a step that is at work.
func (w *compactWriter) edge(id string, r route, active bool) {
	e := &w.graph.Edges[r.edge]
	class := "edge"
	switch {
	case e.Kind.isFailure():
		class += " error"
	case e.Kind == EdgeSkipped:
		class += " skip"
	}
	fmt.Fprintf(&w.out, `<g class="%s" id="%s"`, class, escape(id))
	if e.Taken {
		w.out.WriteString(` data-taken=""`)
	}
	if active {
		w.out.WriteString(` data-active=""`)
	}
	w.out.WriteString(">")
	label := strings.TrimPrefix(e.Label, notHeld)
	if label != "" {
		w.out.WriteString("<title>" + escape(label) + "</title>")
	}
	points := removeStraightPoints(r.points)
	if len(points) < 2 {
		w.out.WriteString("</g>\n")
		return
	}
	tip, before := points[len(points)-1], points[len(points)-2]
	points[len(points)-1] = toward(tip, before, 6)
	w.empty("path", "d", pathData(rounded(points, 7)))
	w.empty("path", "class", "tip", "d", pathData(arrowHead(tip, before, 8, 4.5)))
	if r.text != "" {
		text := w.ruler.pageFit(regular, edgeLabelSize, label, compact.labelWidth)
		w.text(text, "x", number(r.label.center().x), "y", number(r.label.center().y+4))
	}
	w.out.WriteString("</g>\n")
}

// openNode writes the start of a node, up to its halo. Only data-state and the title depend on the progress of the run.
// end has to follow with the same step.
func (w *compactWriter) openNode(id, class, kind, step string, box rect, progress *Progress) (name string) {
	name = w.names[id]
	state := ""
	if w.tracker != nil && step != "" {
		state = string(dataState(progress.State))
	}
	w.open("g", "class", class, "id", "node-"+name, "data-kind", kind, "data-state", state,
		"transform", "translate("+number(box.x)+" "+number(box.y)+")")
	if step != "" {
		link := "#step-" + name
		if w.Link != nil {
			link = w.Link(step)
		}
		current := ""
		if step == w.Current {
			current = "true"
		}
		w.open("a", "href", link, "aria-current", current)
	}
	w.open("title", "id", "name-"+name)
	w.out.WriteString(escape(w.title(id)) + "</title>")
	return name
}

// end closes what openNode opened.
func (w *compactWriter) end(step string) {
	if step != "" {
		w.out.WriteString("</a>")
	}
	w.out.WriteString("</g>\n")
}

// stateParts writes the badge and the duration at the right end of a box.
func (w *compactWriter) stateParts(name string, n *Node, p *Progress, width float64) {
	if w.tracker == nil {
		return
	}
	w.open("svg", "x", number(width-26), "y", "8", "width", "16", "height", "16", "viewBox", "0 0 16 16",
		"class", "icon")
	w.empty("use", "class", "badge", "id", "badge-"+name, "href", badge(n, dataState(p.State)))
	w.out.WriteString("</svg>")
	w.text(duration(p), "class", "dur", "id", "dur-"+name, "x", number(width-10), "y", "36", "data-since", since(p))
}

// icon writes the icon of a kind of steps, which the page defines once.
func (w *compactWriter) icon(x, y float64, kind string) {
	w.open("svg", "x", number(x), "y", number(y), "width", "13", "height", "13", "viewBox", "0 0 16 16",
		"class", "icon kind")
	w.empty("use", "href", "#i-k-"+kind)
	w.out.WriteString("</svg>")
}

// rect writes a rectangle. more are names and values of attributes in turn.
func (w *compactWriter) rect(class string, x, y, width, height, radius float64, more ...string) {
	attributes := []string{"class", class}
	if x != 0 || y != 0 {
		attributes = append(attributes, "x", number(x), "y", number(y))
	}
	attributes = append(attributes, "width", number(width), "height", number(height))
	if radius > 0 {
		attributes = append(attributes, "rx", number(radius))
	}
	w.empty("rect", append(attributes, more...)...)
}

// label writes the name and the line below it. In the picture of a run it leaves room for the badge and the duration.
func (w *compactWriter) label(name, sub string, x, width float64, subID string) {
	room, subRoom := width-x-19-10, width-x-10
	if w.tracker != nil {
		room, subRoom = room-20, subRoom-48
	}
	w.text(w.ruler.pageFit(bold, 13, name, room), "class", "nm", "x", number(x+19), "y", "20")
	w.text(w.ruler.pageFit(regular, labelSize, sub, subRoom), "class", "sub", "id", subID, "x", number(x), "y", "36")
}

// node writes a node: a folded list, a mark of a start or an end, a trigger, or a step.
func (w *compactWriter) node(n *Node, box rect) {
	name, sub, kind := w.words(n.ID)
	step := n.Step
	if n.Kind == NodeFolded && step == "" {
		step = n.folded[0]
	}
	id := w.openNode(n.ID, "node", kind, step, box, &n.Progress)
	switch {
	case n.Kind == NodeFolded:
		w.rect("stack-2", 8, 8, box.w-16, box.h, 8)
		w.rect("stack-1", 4, 4, box.w-8, box.h, 8)
		w.rect("halo", -4, -4, box.w+8, box.h+8, 12)
		w.rect("box", 0, 0, box.w, box.h, 8)
		w.icon(10, 9, kind)
		if w.tracker != nil && n.Items != nil {
			sub = countText(n.Items)
		}
		w.label(name, sub, 10, box.w, "count-"+id)
		w.stateParts(id, n, &n.Progress, box.w)
		if w.tracker != nil {
			w.rect("n-rest", barX, 43, barW, 5, 2)
			for _, b := range bars(n.Items) {
				w.rect(b.class, b.x, 43, b.w, 5, 0, "id", b.part+"-"+id)
			}
		}
	case box.h == pillHeight:
		w.rect("box", 0, 0, box.w, box.h, pillHeight/2)
		w.icon(10, 5.5, kind)
		w.text(w.ruler.pageFit(regular, labelSize, name, box.w-34), "class", "sub", "x", "27", "y", "16")
	case n.Kind == NodeTrigger:
		w.rect("box", 0, 0, box.w, box.h, 23)
		w.icon(18, 9, kind)
		w.text(w.ruler.pageFit(bold, 13, name, box.w-50), "class", "nm", "x", "37", "y", "20")
		w.text(w.ruler.pageFit(regular, labelSize, sub, box.w-50), "class", "sub", "x", "37", "y", "36")
	default:
		w.rect("halo", -4, -4, box.w+8, box.h+8, 12)
		x := 10.0
		if kind == "decision" {
			x = 18
			w.empty("path", "class", "box", "d", "M10 0H178L188 23L178 46H10L0 23Z")
		} else {
			w.rect("box", 0, 0, box.w, box.h, 8)
		}
		w.icon(x, 9, kind)
		w.label(name, sub, x, box.w, "")
		w.stateParts(id, n, &n.Progress, box.w)
	}
	w.end(step)
}

// frame writes the box of a frame. What is inside of it follows as other elements.
func (w *compactWriter) frame(g *Group, box rect) {
	name, sub, kind := w.words(g.ID)
	id := w.openNode(g.ID, "node frame", kind, g.Step, box, &g.Progress)
	w.rect("halo", -4, -4, box.w+8, box.h+8, 12)
	w.rect("box", 0, 0, box.w, box.h, 10)
	w.icon(10, 9, kind)
	w.label(name, sub, 10, box.w, "")
	w.stateParts(id, nil, &g.Progress, box.w)
	w.end(g.Step)
}
