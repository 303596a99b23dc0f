package graph

import (
	"maps"
	"math"
	"slices"

	"github.com/espalier-run/espalier/internal/xslices"
)

type point struct{ x, y float64 }

type rect struct{ x, y, w, h float64 }

func (r rect) right() float64      { return r.x + r.w }
func (r rect) bottom() float64     { return r.y + r.h }
func (r rect) center() point       { return point{r.x + r.w/2, r.y + r.h/2} }
func (r rect) grow(d float64) rect { return rect{r.x - d, r.y - d, r.w + 2*d, r.h + 2*d} }

// meets reports whether two rectangles share a point.
func (r rect) meets(o rect) bool {
	return r.x <= o.right() && o.x <= r.right() && r.y <= o.bottom() && o.y <= r.bottom()
}

// picture is a graph with the positions of all its elements.
type picture struct {
	w, h   float64
	cards  map[string]*card // of nodes, and the heads of groups
	boxes  map[string]rect
	routes []route
	lanes  []laneName
}

// route is the path of an edge on the page.
type route struct {
	edge   int     // index in Graph.Edges
	points []point // from the source to the target
	label  rect    // position of the label, if text is not empty
	text   string
	upward bool    // the label runs from bottom to top
	trunk  float64 // x of the vertical line that it shares with others, or 0
}

// laneName is the name of a branch with several steps.
type laneName struct {
	frame rect
	text  string
	tone  Tone
}

// The distances in every picture.
const (
	bendGap       = 18.0 // around a line that passes between boxes
	trackGap      = 12.0 // between horizontal lines
	laneGap       = 18.0 // between vertical lines beside the boxes
	artifactGap   = 30.0
	artifactStack = 8.0
	framePad      = 18.0
	edgeLabelSize = 11.0
	mostArtifacts = 8 // of one step
)

// style is how large a picture is drawn.
type style struct {
	margin      float64 // around the page
	besideGap   float64 // between boxes in a row
	rowGap      float64 // between rows of boxes
	firstTrack  float64 // between a row and the first horizontal line below it
	labelRowGap float64 // between a row of boxes and the labels under it
	trackLabel  float64 // between the last horizontal line and the labels under it
	belowLabel  float64 // between a label and the box under it
	labelHeight float64
	labelWidth  float64 // at most
	widestFrame float64 // beyond this, branches of a bundle continue in a second row
	columns     bool    // long pictures continue in columns
	bareBeside  bool    // the lines from a step to its fallback have no labels
	card        func(r *ruler, n *Node, textLines int) *card
	frameHead   func(r *ruler, g *Group, room float64) *card
}

// large is the style of the pictures that people download.
var large = style{
	margin: 28, besideGap: 36, rowGap: 34, firstTrack: 13, labelRowGap: 13, trackLabel: 10, belowLabel: 22,
	labelHeight: 18, labelWidth: 170, widestFrame: 1000, columns: true,
	card: (*ruler).card, frameHead: (*ruler).frameHead,
}

// arrange returns the positions of all elements of a graph.
func arrange(g *Graph, st *style) (*picture, error) {
	r, err := newRuler()
	if err != nil {
		return nil, err
	}
	a := &arranger{
		outline: g.outline(), graph: g, ruler: r, style: st,
		picture:   &picture{cards: map[string]*card{}, boxes: map[string]rect{}},
		artifacts: map[string][]int{}, leaving: map[string][]int{}, insets: map[string][]inset{},
	}
	a.hasData = slices.ContainsFunc(g.Edges, func(e Edge) bool { return e.Kind == EdgeData })
	for i := range g.Edges {
		e := &g.Edges[i]
		switch {
		case e.Kind == EdgeProduces:
			a.artifacts[e.From] = append(a.artifacts[e.From], i)
		case e.Kind.isControl():
			a.leaving[e.From] = append(a.leaving[e.From], i)
		}
	}
	textLines := 3
	if len(g.Nodes) > 24 {
		textLines = 2
	}
	for i := range g.Nodes {
		a.picture.cards[g.Nodes[i].ID] = st.card(r, &g.Nodes[i], textLines)
	}
	body := a.block(a.items("", 0))
	if st.columns && !a.hasData {
		body = g.inColumns(body)
	}
	a.put(body, 0, 0)
	a.dataLanes()
	a.crop()
	return a.picture, nil
}

type arranger struct {
	outline
	*style
	graph     *Graph
	ruler     *ruler
	picture   *picture
	artifacts map[string][]int // edges from a step to its files
	leaving   map[string][]int // control edges from a node
	insets    map[string][]inset
	hasData   bool // there are data edges
}

// drawing is the layout of one block, starting at (0, 0).
type drawing struct {
	w, h   float64
	boxes  map[string]rect
	routes []route
	seams  []seam // where it may continue in another column
}

// seam is a height where a drawing can be split: only one edge crosses it.
type seam struct {
	edge int
	y    float64
}

// inset is a drawing inside a frame.
type inset struct {
	*drawing
	x, y float64
	head float64 // space above it for the name
	name string  // shown if not empty
}

// items returns the elements of a lane of a frame, without artifacts, which are placed with their step.
func (a *arranger) items(group string, lane int) []string {
	return xslices.Filter(a.members[group], func(id string) bool {
		n := a.nodes[id]
		return n.Lane == lane && n.Kind != NodeArtifact
	})
}

// size is the space that an item takes: left and right of its center, and in height.
type size struct{ left, right, w, h, rowHeight float64 }

func (a *arranger) size(id string) size {
	var s size
	if g := a.groups[id]; g != nil {
		s.w, s.h = a.frame(g)
	} else {
		c := a.picture.cards[id]
		s.w, s.h = c.w, c.h
	}
	s.left, s.right = s.w/2, s.w/2
	w, h := a.artifactStack(id)
	if w > 0 {
		s.right += artifactGap + w
	}
	s.rowHeight = max(s.h, h)
	return s
}

// artifactStack returns the space that the files of a step take.
func (a *arranger) artifactStack(id string) (w, h float64) {
	files := a.artifacts[id]
	for i, e := range files {
		if i == mostArtifacts {
			break
		}
		c := a.picture.cards[a.graph.Edges[e].To]
		w = max(w, c.w)
		if h > 0 {
			h += artifactStack
		}
		h += c.h
	}
	return w, h
}

// frame lays out the inside of a frame and returns its size.
func (a *arranger) frame(g *Group) (w, h float64) {
	a.matchWorkers(g)
	var lanes []*drawing
	total, between := 0.0, 22.0
	for i := range g.Lanes {
		d := a.block(a.items(g.ID, i))
		lanes = append(lanes, d)
		if a.laneName(g, i) != "" {
			between = 38
		}
	}
	for _, d := range lanes {
		total += d.w + between
	}
	perRow := len(lanes)
	if total > a.widestFrame && perRow > 1 {
		rows := int(math.Ceil(total / a.widestFrame))
		perRow = (len(lanes) + rows - 1) / rows
	}
	inner := 0.0
	for at := 0; at < len(lanes); at += perRow {
		row := -between
		for _, d := range lanes[at:min(at+perRow, len(lanes))] {
			row += d.w + between
		}
		inner = max(inner, row)
	}
	if between > 22 {
		inner += 12
	}
	head := a.frameHead(a.ruler, g, inner+2*framePad)
	a.picture.cards[g.ID] = head
	w = max(inner+2*framePad, head.w)
	if g.Footer != "" {
		w = max(w, a.ruler.width(regular, labelSize, a.ruler.fit(regular, labelSize, g.Footer, 420))+2*cardPad)
	}
	w = math.Ceil(w)
	data := 0.0 // space above the boxes for the lines of data
	if a.hasData {
		data = 12
	}
	y := head.h + 14 + data
	for at := 0; at < len(lanes); at += perRow {
		row := lanes[at:min(at+perRow, len(lanes))]
		rowWidth, rowHeight, named := -between, 0.0, 0.0
		for i, d := range row {
			rowWidth += d.w + between
			rowHeight = max(rowHeight, d.h)
			if a.laneName(g, at+i) != "" {
				named = 24 + data
			}
		}
		x := (w - rowWidth) / 2
		for i, d := range row {
			top := y + named
			if named == 0 {
				top += (rowHeight - d.h) / 2
			}
			a.insets[g.ID] = append(a.insets[g.ID], inset{d, x, top, named, a.laneName(g, at+i)})
			x += d.w + between
		}
		y += named + rowHeight + 14
		if named > 0 {
			y += 6
		}
	}
	h = y + 4
	if g.Footer != "" {
		h += 18
	}
	return w, math.Ceil(h)
}

func (a *arranger) laneName(g *Group, lane int) string {
	if len(g.Lanes) < 2 || len(a.items(g.ID, lane)) < 2 {
		return ""
	}
	return g.Lanes[lane]
}

// matchWorkers gives single steps in adjacent lanes the same size.
func (a *arranger) matchWorkers(g *Group) {
	var cards []*card
	w, h := 0.0, 0.0
	for i := range g.Lanes {
		items := a.items(g.ID, i)
		if len(items) == 1 && a.stretches(items[0]) {
			c := a.picture.cards[items[0]]
			cards = append(cards, c)
			w, h = max(w, c.w), max(h, c.h)
		}
	}
	for _, c := range cards {
		c.w = w
		c.h = h
	}
}

// stretches reports whether a node is a card that may be made taller.
func (a *arranger) stretches(id string) bool {
	n := a.nodes[id]
	return n != nil && n.Kind == NodeStep && a.picture.cards[id].shape != shapeHexagon
}

// put places a drawing on the page, with everything inside its frames.
func (a *arranger) put(d *drawing, x, y float64) {
	for _, r := range d.routes {
		moved := r
		moved.points = make([]point, len(r.points))
		for i, p := range r.points {
			moved.points[i] = point{p.x + x, p.y + y}
		}
		moved.label.x += x
		moved.label.y += y
		a.picture.routes = append(a.picture.routes, moved)
	}
	for _, id := range slices.Sorted(maps.Keys(d.boxes)) { // for a deterministic picture
		box := d.boxes[id]
		box.x += x
		box.y += y
		a.picture.boxes[id] = box
		g := a.groups[id]
		if g == nil {
			continue
		}
		for _, in := range a.insets[id] {
			if in.name != "" {
				a.picture.lanes = append(a.picture.lanes, laneName{
					frame: rect{box.x + in.x - 10, box.y + in.y - in.head, in.w + 20, in.h + in.head + 10},
					text:  in.name,
					tone:  g.Tone,
				})
			}
			a.put(in.drawing, box.x+in.x, box.y+in.y)
		}
	}
}

// spread returns where the n-th line meets the side of a box: next to its center, with growing distance.
func spread(box rect, n int, step float64) float64 {
	half := box.h/2 - 10
	if half < 1 {
		return box.center().y
	}
	if half < 2*math.Abs(step) { // a low box: closer together
		step = math.Copysign(half/3, step)
	}
	room := math.Floor(half / math.Abs(step))
	return box.center().y + step*float64(1+n%int(room))
}

// crop moves everything so that the page starts at (0, 0) with a margin.
func (a *arranger) crop() {
	p := a.picture
	left, top := math.Inf(1), math.Inf(1)
	right, bottom := math.Inf(-1), math.Inf(-1)
	cover := func(r rect) {
		left, top = min(left, r.x), min(top, r.y)
		right, bottom = max(right, r.right()), max(bottom, r.bottom())
	}
	for _, b := range p.boxes {
		cover(b)
	}
	for _, r := range p.routes {
		for _, pt := range r.points {
			cover(rect{pt.x, pt.y, 0, 0})
		}
		if r.text != "" {
			cover(r.label)
		}
	}
	if len(p.boxes) == 0 {
		left, top, right, bottom = 0, 0, 120, 40
	}
	dx, dy := math.Round(a.margin-left), math.Round(a.margin-top)
	for id, b := range p.boxes {
		b.x += dx
		b.y += dy
		p.boxes[id] = b
	}
	for i := range p.routes {
		for j := range p.routes[i].points {
			p.routes[i].points[j].x += dx
			p.routes[i].points[j].y += dy
		}
		if p.routes[i].trunk != 0 {
			p.routes[i].trunk += dx
		}
		p.routes[i].label.x += dx
		p.routes[i].label.y += dy
	}
	for i := range p.lanes {
		p.lanes[i].frame.x += dx
		p.lanes[i].frame.y += dy
	}
	p.w, p.h = math.Ceil(right-left+2*a.margin), math.Ceil(bottom-top+2*a.margin)
}
