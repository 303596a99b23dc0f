package graph

import (
	"maps"
	"math"
	"slices"

	"github.com/espalier-run/espalier/internal/xslices"
)

// point is a position on the page, in units of the SVG. As in SVG, y grows downward.
type point struct{ x, y float64 }

// rect is an area with its upper left corner at (x, y).
type rect struct{ x, y, w, h float64 }

func (r rect) right() float64      { return r.x + r.w }
func (r rect) bottom() float64     { return r.y + r.h }
func (r rect) center() point       { return point{r.x + r.w/2, r.y + r.h/2} }
func (r rect) grow(d float64) rect { return rect{r.x - d, r.y - d, r.w + 2*d, r.h + 2*d} }

func (r rect) moved(dx, dy float64) rect { return rect{r.x + dx, r.y + dy, r.w, r.h} }

// end returns the x of the right side if sign is positive, otherwise of the left one.
func (r rect) end(sign float64) float64 {
	if sign > 0 {
		return r.right()
	}
	return r.x
}

// meets reports whether two rectangles share a point.
func (r rect) meets(o rect) bool {
	return r.x <= o.right() && o.x <= r.right() && r.y <= o.bottom() && o.y <= r.bottom()
}

// extent is the smallest area that covers some points.
type extent struct{ left, top, right, bottom float64 }

// newExtent returns an empty extent: its left side is to the right of its right side until it covers a point.
func newExtent() extent { return extent{math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)} }

// cover enlarges the area so that it covers the points.
func (e *extent) cover(points ...point) {
	for _, p := range points {
		e.left, e.top = min(e.left, p.x), min(e.top, p.y)
		e.right, e.bottom = max(e.right, p.x), max(e.bottom, p.y)
	}
}

func (e *extent) coverRect(r rect) { e.cover(point{r.x, r.y}, point{r.right(), r.bottom()}) }

// picture is a graph with the positions of all its elements. A node without a box is not drawn: an artifact beyond
// maxArtifacts, which the last drawn one counts.
type picture struct {
	drawing
	cards map[string]*card // of nodes, and the heads of groups
	lanes []laneName
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

// moved returns the route at another place. It leaves the points of r as they are.
func (r route) moved(dx, dy float64) route {
	r.points = xslices.Map(r.points, func(p point) point { return point{p.x + dx, p.y + dy} })
	r.label = r.label.moved(dx, dy)
	if r.trunk != 0 {
		r.trunk += dx
	}
	return r
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
	maxArtifacts  = 8 // of one step
)

// style has the sizes and distances that differ between the pictures that people download and those on web pages. All
// lengths are in units of the SVG.
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

// arrange returns the positions of all elements of a graph. The order of its phases matters: the size of a frame
// depends on the layout inside it, so blocks are laid out from the inside out, at (0, 0); put then moves them to their
// places on the page, from the outside in. Lines of data avoid boxes, so they come when all boxes have their places,
// and crop comes last, because those lines may extend beyond the boxes.
//
// The result depends on the graph alone, also its order: a picture that is drawn again has the same bytes.
func arrange(g *Graph, st *style) (*picture, error) {
	r, err := newRuler()
	if err != nil {
		return nil, err
	}
	a := &arranger{
		outline: g.outline(), graph: g, ruler: r, style: st,
		picture:   &picture{drawing: drawing{boxes: map[string]rect{}}, cards: map[string]*card{}},
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
	// Large pictures show less of each description.
	textLines := 3
	if len(g.Nodes) > 24 {
		textLines = 2
	}
	for i := range g.Nodes {
		a.picture.cards[g.Nodes[i].ID] = st.card(r, &g.Nodes[i], textLines)
	}
	body := a.block(a.items("", 0))
	// Lines of data run along the sides of the page, and would have to cross the columns.
	if st.columns && !a.hasData {
		body = g.inColumns(body)
	}
	a.put(body, 0, 0)
	a.dataLanes()
	a.crop()
	return a.picture, nil
}

// arranger is the state of arrange. Edges are indexes in Graph.Edges.
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

// drawing is the layout of one block, starting at (0, 0), or of the whole page.
type drawing struct {
	w, h   float64
	boxes  map[string]rect
	routes []route
	seams  []float64 // heights that only one edge crosses, where it may continue in another column
}

// extent returns the area of everything that begins between two heights.
func (d *drawing) extent(top, bottom float64) extent {
	e := newExtent()
	inside := func(y float64) bool { return y >= top && y < bottom }
	for _, b := range d.boxes {
		if inside(b.y) {
			e.coverRect(b)
		}
	}
	for _, r := range d.routes {
		for _, p := range r.points {
			if inside(p.y) {
				e.cover(p)
			}
		}
		if r.text != "" && inside(r.label.y) {
			e.coverRect(r.label)
		}
	}
	return e
}

// move moves everything in a drawing.
func (d *drawing) move(dx, dy float64) {
	for id, b := range d.boxes {
		d.boxes[id] = b.moved(dx, dy)
	}
	for i, r := range d.routes {
		d.routes[i] = r.moved(dx, dy)
	}
}

// normalize moves a drawing to (0, 0) and measures it.
func (d *drawing) normalize() *drawing {
	e := d.extent(math.Inf(-1), math.Inf(1))
	d.move(-e.left, -e.top)
	d.w, d.h = e.right-e.left, e.bottom-e.top
	return d
}

// inset is the drawing of one lane inside a frame, at a position relative to the frame.
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

// size is the space that an item takes. w and h are those of its box. left and right extend from the center of the box
// and include the artifacts next to it; rowHeight includes them, too.
type size struct{ left, right, w, h, rowHeight float64 }

// size returns the space of an item. The items inside of a frame are arranged first.
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
		if i == maxArtifacts {
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

// frame lays out the inside of a frame and returns its size. The lanes go side by side, in as many rows as
// style.widestFrame demands. It also sets the card of the frame's head and the insets, which put places later.
func (a *arranger) frame(g *Group) (w, h float64) {
	a.matchWorkers(g)
	// Lay out each lane. Lanes with names have their own outlines and need more space between them.
	var lanes []inset
	total, between := 0.0, 22.0
	for i := range g.Lanes {
		lanes = append(lanes, inset{drawing: a.block(a.items(g.ID, i)), name: a.laneName(g, i)})
		if lanes[i].name != "" {
			between = 38
		}
	}
	for _, d := range lanes {
		total += d.w + between
	}
	// Distribute the lanes evenly over rows.
	perRow := max(1, len(lanes))
	if total > a.widestFrame && perRow > 1 {
		rows := int(math.Ceil(total / a.widestFrame))
		perRow = (len(lanes) + rows - 1) / rows
	}
	widthOf := func(row []inset) float64 {
		width := -between
		for _, d := range row {
			width += d.w + between
		}
		return width
	}
	inner := 0.0
	for row := range slices.Chunk(lanes, perRow) {
		inner = max(inner, widthOf(row))
	}
	if between > 22 {
		inner += 12
	}
	// The head wraps its text to the width of the lanes, and may make the frame wider.
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
	// Place the rows below each other, each centered. Only a row without names centers its lanes vertically, too: the
	// outlines of named lanes start at the same height.
	y := head.h + 14 + data
	for row := range slices.Chunk(lanes, perRow) {
		rowHeight, named := 0.0, 0.0
		for _, d := range row {
			rowHeight = max(rowHeight, d.h)
			if d.name != "" {
				named = 24 + data
			}
		}
		x := (w - widthOf(row)) / 2
		for _, d := range row {
			d.x, d.y, d.head = x, y+named, named
			if named == 0 {
				d.y += (rowHeight - d.h) / 2
			}
			a.insets[g.ID] = append(a.insets[g.ID], d)
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

// laneName returns the name that is shown above a lane: none for the only lane, and none for a lane with one step,
// which has a title of its own.
func (a *arranger) laneName(g *Group, lane int) string {
	if len(g.Lanes) < 2 || len(a.items(g.ID, lane)) < 2 {
		return ""
	}
	return g.Lanes[lane]
}

// matchWorkers gives the lanes with a single step cards of the same size. It changes the cards, so it has to run before
// the lanes are laid out.
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
		a.picture.routes = append(a.picture.routes, r.moved(x, y))
	}
	for _, id := range slices.Sorted(maps.Keys(d.boxes)) { // for a deterministic picture
		box := d.boxes[id].moved(x, y)
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

// spread returns where the n-th line meets the side of a box: next to its center, with growing distance. A negative
// step goes upward. When there is no more room, it starts again at the center.
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
	e := p.extent(math.Inf(-1), math.Inf(1))
	if len(p.boxes) == 0 {
		e = extent{0, 0, 120, 40}
	}
	dx, dy := math.Round(a.margin-e.left), math.Round(a.margin-e.top)
	p.move(dx, dy)
	for i := range p.lanes {
		p.lanes[i].frame = p.lanes[i].frame.moved(dx, dy)
	}
	p.w, p.h = math.Ceil(e.right-e.left+2*a.margin), math.Ceil(e.bottom-e.top+2*a.margin)
}
