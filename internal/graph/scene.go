package graph

import (
	"math"
	"slices"
	"strings"
)

// scene is a picture as shapes, in painting order.
type scene struct {
	w, h        float64
	name        string
	description string
	parts       []part
}

// part is a unit of the picture: a node, a frame, an edge or its label.
type part struct {
	id, class string
	title     string // tooltip
	href      string
	data      [][2]string
	shapes    []shape
}

// shape is one path or one line of text.
type shape struct {
	path   path
	fill   paint // empty: not filled
	stroke paint // empty: no outline
	width  float64
	dash   []float64
	phase  float64 // offset into the dashes at the start of the path
	text   *sceneText
}

// sceneText is a line of text.
type sceneText struct {
	x, y   float64 // baseline
	text   string
	cut    fontStyle
	size   float64
	anchor anchor
	upward bool
}

// anchor is which point of a text is at its position.
type anchor int

const (
	anchorStart anchor = iota
	anchorMiddle
)

// path is a list of drawing commands, as in SVG: M, L, Q, C and Z.
type path []command

// command is a drawing command. It uses as many of the points as its letter needs.
type command struct {
	op     byte
	points [3]point
}

func (p *path) move(x, y float64) { *p = append(*p, command{'M', [3]point{{x, y}}}) }
func (p *path) line(x, y float64) { *p = append(*p, command{'L', [3]point{{x, y}}}) }
func (p *path) quad(x1, y1, x, y float64) {
	*p = append(*p, command{'Q', [3]point{{x1, y1}, {x, y}}})
}

func (p *path) cubic(x1, y1, x2, y2, x, y float64) {
	*p = append(*p, command{'C', [3]point{{x1, y1}, {x2, y2}, {x, y}}})
}
func (p *path) closePath() { *p = append(*p, command{op: 'Z'}) }

// round is the distance of the control points for a quarter circle of radius 1, drawn as a cubic curve: 4/3·(√2-1).
const round = 0.5523

// roundRect returns a rectangle with rounded corners.
func roundRect(r rect, radius float64) path {
	radius = min(radius, r.w/2, r.h/2)
	k := radius * (1 - round)
	var p path
	p.move(r.x+radius, r.y)
	p.line(r.right()-radius, r.y)
	p.cubic(r.right()-k, r.y, r.right(), r.y+k, r.right(), r.y+radius)
	p.line(r.right(), r.bottom()-radius)
	p.cubic(r.right(), r.bottom()-k, r.right()-k, r.bottom(), r.right()-radius, r.bottom())
	p.line(r.x+radius, r.bottom())
	p.cubic(r.x+k, r.bottom(), r.x, r.bottom()-k, r.x, r.bottom()-radius)
	p.line(r.x, r.y+radius)
	p.cubic(r.x, r.y+k, r.x+k, r.y, r.x+radius, r.y)
	p.closePath()
	return p
}

// leftBar returns the left edge of a rounded rectangle, as a stripe.
func leftBar(r rect, radius, width float64) path {
	k := radius * (1 - round)
	var p path
	p.move(r.x+radius, r.y)
	p.cubic(r.x+k, r.y, r.x, r.y+k, r.x, r.y+radius)
	p.line(r.x, r.bottom()-radius)
	p.cubic(r.x, r.bottom()-k, r.x+k, r.bottom(), r.x+radius, r.bottom())
	p.cubic(r.x+width, r.bottom(), r.x+width, r.bottom()-k, r.x+width, r.bottom()-radius)
	p.line(r.x+width, r.y+radius)
	p.cubic(r.x+width, r.y+k, r.x+width, r.y, r.x+radius, r.y)
	p.closePath()
	return p
}

// polyline returns straight lines through the points.
func polyline(points ...point) path {
	var p path
	for i, pt := range points {
		if i == 0 {
			p.move(pt.x, pt.y)
		} else {
			p.line(pt.x, pt.y)
		}
	}
	return p
}

// polygon returns a closed polyline.
func polygon(points ...point) path {
	p := polyline(points...)
	p.closePath()
	return p
}

// compose converts a placed graph to shapes. Its order is the order of painting: frames from the outside in, edges
// above frames, nodes above edges, and labels above everything, so that no line hides a text.
func compose(g *Graph, p *picture) *scene {
	s := &scene{w: p.w, h: p.h, name: g.Name, description: g.Description}
	for i := range g.Groups {
		if box, ok := p.boxes[g.Groups[i].ID]; ok {
			s.parts = append(s.parts, framePart(&g.Groups[i], box, p.cards[g.Groups[i].ID]))
		}
	}
	for _, l := range p.lanes {
		s.parts = append(s.parts, part{class: "lane", shapes: []shape{
			{path: roundRect(l.frame, 8), stroke: l.tone.line(), width: 0.8, dash: []float64{2, 3}},
			{fill: l.tone.ink(), text: &sceneText{
				x: l.frame.x + 10, y: l.frame.y + 15, text: l.text, cut: bold, size: labelSize,
			}},
		}})
	}
	// Data edges are painted below control edges.
	for _, data := range []bool{true, false} {
		for _, r := range p.routes {
			if e := &g.Edges[r.edge]; (e.Kind == EdgeData) == data {
				s.parts = append(s.parts, edgePart(e, r))
			}
		}
	}
	for i := range g.Nodes {
		if box, ok := p.boxes[g.Nodes[i].ID]; ok {
			s.parts = append(s.parts, nodePart(&g.Nodes[i], box, p.cards[g.Nodes[i].ID]))
		}
	}
	surface := g.backgrounds()
	for _, r := range p.routes {
		if r.text != "" {
			s.parts = append(s.parts, labelPart(&g.Edges[r.edge], r, surface[g.Edges[r.edge].From]))
		}
	}
	return s
}

// backgrounds returns the background of every node and group: that of the frame around it, or of the page. Labels of
// edges are painted on it, so that they interrupt their line.
func (g *Graph) backgrounds() map[string]paint {
	fills := map[string]paint{"": paintPage}
	for i := range g.Groups {
		fills[g.Groups[i].ID] = g.Groups[i].Tone.fill()
	}
	on := map[string]paint{}
	for n := range g.all() {
		on[n.ID] = fills[n.Group]
	}
	return on
}

// newPart returns the part of a node or frame, with what all of them have. A step is a link to itself, which other
// pages can refer to.
func newPart(class string, n *Node) part {
	pt := part{id: n.ID, class: class + " " + string(n.Kind) + " tone-" + string(n.Tone), title: n.tooltip()}
	if n.Step != "" {
		pt.data = append(pt.data, [2]string{"step", n.Step})
		pt.href = "#" + n.ID
	}
	return pt
}

// framePart returns the shapes of a frame, with its footer below a dashed line.
func framePart(g *Group, box rect, head *card) part {
	pt := newPart("group", &g.Node)
	pt.shapes = []shape{{path: roundRect(box, 12), fill: g.Tone.fill(), stroke: g.Tone.line(), width: 1.4}}
	pt.addTexts(box, head)
	pt.addIcon(box, head, g.Tone.ink())
	if g.Footer != "" {
		y := box.bottom() - 27
		rule := polyline(point{box.x + cardPad, y}, point{box.right() - cardPad, y})
		pt.shapes = append(pt.shapes, shape{path: rule, stroke: g.Tone.line(), width: 0.8, dash: []float64{3, 3}},
			shape{fill: g.Tone.ink(), text: &sceneText{
				x: box.center().x, y: y + 17, text: shorten(g.Footer, 80), size: labelSize, anchor: anchorMiddle,
			}})
	}
	pt.addState(&g.Progress, box)
	return pt
}

// nodePart returns the shapes of a node: its outline, its texts, its icon and its state.
func nodePart(n *Node, box rect, c *card) part {
	pt := newPart("node", n)
	outline := shape{fill: n.Tone.fill(), stroke: n.Tone.line(), width: 1.3}
	if n.Off {
		outline.dash = []float64{4, 3}
	}
	var more []shape
	switch c.shape {
	case shapeHexagon:
		const slant = 13
		middle := box.center().y
		outline.path = polygon(point{box.x + slant, box.y}, point{box.right() - slant, box.y},
			point{box.right(), middle},
			point{box.right() - slant, box.bottom()}, point{box.x + slant, box.bottom()}, point{box.x, middle})
	case shapePill:
		outline.path = roundRect(box, 22)
	case shapeFile:
		const fold = 9
		outline.width = 1
		outline.path = polygon(point{box.x, box.y}, point{box.right() - fold, box.y}, point{box.right(), box.y + fold},
			point{box.right(), box.bottom()}, point{box.x, box.bottom()})
		corner := polyline(point{box.right() - fold, box.y}, point{box.right() - fold, box.y + fold},
			point{box.right(), box.y + fold})
		more = []shape{{path: corner, stroke: n.Tone.line(), width: 1}}
	case shapeCall:
		outline.path = roundRect(box, 8)
		for _, x := range []float64{box.x + 6, box.right() - 6} {
			bar := polyline(point{x, box.y}, point{x, box.bottom()})
			more = append(more, shape{path: bar, stroke: n.Tone.line(), width: 1.3})
		}
	default:
		outline.path = roundRect(box, 9)
		more = []shape{{path: leftBar(box, 9, 5), fill: n.Tone.line()}}
	}
	pt.shapes = append([]shape{outline}, more...)
	pt.addTexts(box, c)
	pt.addIcon(box, c, n.Tone.ink())
	pt.addState(&n.Progress, box)
	return pt
}

// addTexts adds the texts of a card at their places in the box.
func (pt *part) addTexts(box rect, c *card) {
	for _, t := range c.texts {
		if strings.TrimSpace(t.text) == "" {
			continue
		}
		text := &sceneText{x: box.x + t.x, y: box.y + t.y, text: t.text, cut: t.cut, size: t.size}
		pt.shapes = append(pt.shapes, shape{fill: t.paint, text: text})
	}
}

// addIcon adds the icon of a card, if it has one.
func (pt *part) addIcon(box rect, c *card, p paint) {
	if c.icon != "" {
		pt.shapes = append(pt.shapes, iconShape(c.icon, box.x+c.iconX-c.iconSize/2, box.y+c.iconY-c.iconSize/2,
			c.iconSize, p))
	}
}

// addState marks the state of a step in a run.
func (pt *part) addState(p *Progress, box rect) {
	if p.State == "" {
		return
	}
	tone := stateTone(p.State)
	pt.class += " state-" + string(tone)
	pt.data = append(pt.data, [2]string{"state", string(p.State)})
	text := shorten(string(p.State), 16)
	if count := countText(p.Items); count != "" {
		text += " · " + count
	}
	w := float64(len([]rune(text)))*6.2 + 14
	badge := rect{box.right() - w - 8, box.y - 8, w, 16}
	pt.shapes = append(pt.shapes,
		shape{path: roundRect(box.grow(3), 12), stroke: tone.line(), width: 2},
		shape{path: roundRect(badge, 8), fill: tone.fill(), stroke: tone.line(), width: 1.2},
		shape{fill: tone.ink(), text: &sceneText{
			x: badge.center().x, y: badge.y + 11.5, text: text, cut: bold, size: 10, anchor: anchorMiddle,
		}})
}

// edgeLook returns how an edge is drawn.
func edgeLook(e *Edge) (p paint, width float64, dash []float64) {
	width = 1.5
	switch {
	case e.Kind.isFailure():
		p, dash = paintError, []float64{5, 4}
	case e.Kind == EdgeData:
		p, width, dash = paintData, 1.1, []float64{4, 4}
	case e.Kind == EdgeProduces:
		p, width, dash = ToneNeutral.line(), 1.1, []float64{2, 3}
	case e.Kind == EdgeSkipped:
		p, width, dash = paintEdge, 1.2, []float64{2, 3}
	default:
		p = paintEdge
	}
	if e.Taken {
		width = 3
	}
	return p, width, dash
}

// edgePart returns the shapes of an edge without its label.
func edgePart(e *Edge, r route) part {
	class := "edge edge-" + string(e.Kind)
	if e.Taken {
		class += " taken"
	}
	pt := part{id: e.ID, class: class, title: e.Label, data: [][2]string{{"from", e.From}, {"to", e.To}}}
	p, width, dash := edgeLook(e)
	points := removeStraightPoints(r.points)
	if len(points) < 2 {
		return pt
	}
	head := arrowHead(points[len(points)-1], points[len(points)-2], 8+width*0.6, 3.2+width*0.7)
	if e.Kind != EdgeProduces {
		points[len(points)-1] = toward(points[len(points)-1], points[len(points)-2], 6)
	}
	// Drawn from its end, so that the dashes of joining lines coincide.
	slices.Reverse(points)
	line := shape{path: rounded(points, 8), stroke: p, width: width, dash: dash}
	if r.trunk != 0 {
		line.phase = trunkPhase(line.path, r.trunk, dash)
	}
	pt.shapes = append(pt.shapes, line)
	if e.Kind != EdgeProduces {
		pt.shapes = append(pt.shapes, shape{path: head, fill: p})
	}
	return pt
}

// labelPart returns the label of an edge. It is a part of its own because labels are above everything else.
func labelPart(e *Edge, r route, behind paint) part {
	p := paintMuted
	if e.Kind.isFailure() {
		p = ToneError.ink()
	}
	middle := r.label.center()
	text := &sceneText{
		x: middle.x, y: middle.y + edgeLabelSize*0.36, text: r.text, cut: regular, size: edgeLabelSize,
		anchor: anchorMiddle,
	}
	if r.upward {
		text.x, text.y, text.upward = middle.x+edgeLabelSize*0.36, middle.y, true
	}
	return part{class: "edge-label", data: [][2]string{{"edge", e.ID}}, shapes: []shape{
		{path: roundRect(r.label, 5), fill: behind},
		{fill: p, text: text},
	}}
}

// removeStraightPoints removes points where a line does not turn.
func removeStraightPoints(points []point) []point {
	var out []point
	for _, p := range points {
		if n := len(out); n > 0 && math.Hypot(out[n-1].x-p.x, out[n-1].y-p.y) < 0.3 {
			continue
		}
		if n := len(out); n > 1 {
			a, b := out[n-2], out[n-1]
			if math.Abs((b.x-a.x)*(p.y-b.y)-(b.y-a.y)*(p.x-b.x)) < 0.01 && (b.x-a.x)*(p.x-b.x)+(b.y-a.y)*(p.y-b.y) > 0 {
				out[n-1] = p
				continue
			}
		}
		out = append(out, p)
	}
	return out
}

// trunkPhase returns the dash offset with which all paths draw the dashes of the vertical line at x at the same
// heights.
func trunkPhase(p path, x float64, dash []float64) float64 {
	period := 0.0
	for _, d := range dash {
		period += d
	}
	if period == 0 {
		return 0
	}
	length := 0.0
	for _, line := range flatten(p, 1) {
		for i := 1; i < len(line); i++ {
			a, b := line[i-1], line[i]
			if math.Abs(a.x-x) < 0.01 && math.Abs(b.x-x) < 0.01 {
				at := a.y // downward the phase grows with y, upward it falls
				if b.y < a.y {
					at = dash[0] - a.y
				}
				return math.Mod(math.Mod(at-length, period)+period, period)
			}
			length += math.Hypot(b.x-a.x, b.y-a.y)
		}
	}
	return 0
}

// toward returns the point at distance d from p in the direction of q.
func toward(p, q point, d float64) point {
	l := math.Hypot(q.x-p.x, q.y-p.y)
	if l == 0 {
		return p
	}
	return point{p.x + (q.x-p.x)*d/l, p.y + (q.y-p.y)*d/l}
}

// rounded returns a polyline with rounded corners.
func rounded(points []point, radius float64) path {
	var p path
	p.move(points[0].x, points[0].y)
	for i := 1; i < len(points)-1; i++ {
		a, b, c := points[i-1], points[i], points[i+1]
		r := min(radius, math.Hypot(b.x-a.x, b.y-a.y)/2, math.Hypot(c.x-b.x, c.y-b.y)/2)
		in, out := toward(b, a, r), toward(b, c, r)
		p.line(in.x, in.y)
		p.quad(b.x, b.y, out.x, out.y)
	}
	last := points[len(points)-1]
	p.line(last.x, last.y)
	return p
}

// arrowHead returns a triangle at the end of a line.
func arrowHead(tip, before point, length, half float64) path {
	back := toward(tip, before, length)
	l := math.Hypot(tip.x-back.x, tip.y-back.y)
	if l == 0 {
		return nil
	}
	dx, dy := -(tip.y-back.y)/l*half, (tip.x-back.x)/l*half
	return polygon(tip, point{back.x + dx, back.y + dy}, point{back.x - dx, back.y - dy})
}

// tooltip returns the text shown when the pointer rests on a step.
func (n *Node) tooltip() string {
	var lines []string
	if n.Title != "" {
		lines = append(lines, shorten(n.Title, 200))
	}
	if n.Text != "" {
		lines = append(lines, shorten(n.Text, 600))
	}
	if len(n.Reads)+len(n.Writes) > 0 {
		lines = append(lines, strings.TrimSpace(shorten(strings.Join(n.Reads, ", "), 300)+" → "+
			shorten(strings.Join(n.Writes, ", "), 300)))
	}
	return strings.Join(lines, "\n")
}
