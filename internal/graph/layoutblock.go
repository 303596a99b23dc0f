package graph

import "slices"

// block is the state of laying out one block. The method is the classic one for layered drawings (Sugiyama et al.),
// adapted to workflows:
//
//	rank     cut loops, and give each box a row below all its predecessors;
//	         a fallback shares the row of its step
//	fill     split lines over several rows at bends, and give labels their own rows
//	sort     order the boxes inside their rows so that few lines cross
//	align    group boxes that belong below each other into columns
//	place    move columns as close to their neighbors as space allows
//	trace    set the height of rows and the path of lines
//
// Items, boxes and links refer to each other by index. After fill, every line between rows consists of segs between
// adjacent rows only, and the phases after it treat items, bends and labels alike: as boxes.
type block struct {
	*arranger
	items     []string
	sizes     []size
	boxes     []box // the items first, then bends and labels
	links     []link
	side      []int   // the item next to which a fallback is placed, or -1
	fallbacks [][]int // fallbacks by item: the inverse of side
	ranks     []int
	rows      [][]int
	segs      []seg // between adjacent rows
}

// box is an item, a bend of a line or a label. A bend takes no space.
type box struct {
	link        int // of a label; -1 otherwise
	bend        bool
	left, right float64
	h           float64
	row, pos    int
	column      int
	x, y        float64 // its center
}

// room returns the space that the box takes on one side of its center.
func (b *box) room(sign float64) float64 {
	if sign > 0 {
		return b.right
	}
	return b.left
}

// link is an edge inside the block, also one that the layout needs and the picture does not show.
type link struct {
	edge     int // -1: only keeps document order, and is not drawn
	from, to int
	kind     EdgeKind
	text     string
	width    float64 // of the label
	back     bool    // leads upward
	beside   bool    // to a fallback in the same row
	path     []int   // boxes from source to target
}

// seg is a piece of a line between two adjacent rows. Several links share a seg where their lines run together. weight
// is how strongly it pulls its boxes below each other.
type seg struct {
	upper, lower int
	style        lineStyle
	weight       float64
}

// lineStyle is the style that lines must share to run together.
type lineStyle int

const (
	lineNormal lineStyle = iota
	lineWrong
	lineSkipped
)

// styleOf returns the style of the lines of a kind of edges.
func styleOf(k EdgeKind) lineStyle {
	switch {
	case k.isFailure():
		return lineWrong
	case k == EdgeSkipped:
		return lineSkipped
	default:
		return lineNormal
	}
}

// block lays out items and the edges between them. Edges that leave the items are drawn in none of the blocks: the
// builder has replaced them by an edge to a NodeExit and one from the enclosing frame.
func (a *arranger) block(items []string) *drawing {
	if len(items) == 0 {
		return &drawing{w: 60, h: 20, boxes: map[string]rect{}}
	}
	b := &block{arranger: a, items: items}
	index := make(map[string]int, len(items))
	for i, id := range items {
		index[id] = i
		s := a.size(id)
		b.sizes = append(b.sizes, s)
		b.boxes = append(b.boxes, box{link: -1, left: s.left, right: s.right, h: s.rowHeight})
	}
	for i, id := range items {
		for _, e := range a.leaving[id] {
			edge := &a.graph.Edges[e]
			to, inside := index[edge.To]
			if !inside {
				continue
			}
			l := link{edge: e, from: i, to: to, kind: edge.Kind}
			if edge.Label != "" {
				l.text = a.ruler.fit(regular, edgeLabelSize, edge.Label, a.labelWidth)
				l.width = a.ruler.width(regular, edgeLabelSize, l.text) + 14
			}
			b.links = append(b.links, l)
		}
	}
	b.rank()
	b.fill()
	b.sort()
	b.align()
	b.placeColumns()
	return b.trace()
}

// rank assigns the items to rows: each one below all its predecessors, by the longest path. A step and its fallbacks
// are one unit, represented by the step (root), because they share a row.
func (b *block) rank() {
	b.placeFallbacks()
	b.keepDocumentOrder()
	out := make([][]int, len(b.items)) // links by the root of their source
	for i, l := range b.links {
		if !l.beside {
			from := b.root(l.from)
			out[from] = append(out[from], i)
		}
	}
	// In the reverse of order, every unit comes before its successors, so one pass finds the longest paths.
	order := b.cutLoops(out)
	b.ranks = make([]int, len(b.items))
	for _, u := range slices.Backward(order) {
		for _, i := range out[u] {
			if l := &b.links[i]; !l.back {
				v := b.root(l.to)
				b.ranks[v] = max(b.ranks[v], b.ranks[u]+1)
			}
		}
	}
	for i := range b.ranks {
		b.ranks[i] = b.ranks[b.root(i)]
	}
}

// placeFallbacks places a fallback next to its step if only that step leads to it, after a failure or a skip.
func (b *block) placeFallbacks() {
	n := len(b.items)
	b.side, b.fallbacks = slices.Repeat([]int{-1}, n), make([][]int, n)
	entered, fromPrimary := make([]int, n), make([]int, n)
	for _, l := range b.links {
		entered[l.to]++
	}
	// A fallback can stand beside its step only if all lines to it come from that step.
	primary := slices.Repeat([]int{-1}, n)
	for _, l := range b.links {
		if l.kind == EdgeFallback {
			primary[l.to] = l.from
		}
	}
	for _, l := range b.links {
		if (l.kind == EdgeFallback || l.kind == EdgeSkipped) && l.from == primary[l.to] {
			fromPrimary[l.to]++
		}
	}
	for i := range b.links {
		l := &b.links[i]
		if primary[l.to] == l.from && fromPrimary[l.to] == entered[l.to] && l.to != b.root(l.from) {
			b.side[l.to] = l.from
			l.beside = true
			if b.bareBeside {
				l.text, l.width = "", 0
			}
		}
	}
	for i := range b.links {
		l := &b.links[i]
		if l.beside && b.isSide(l.from) && len(b.artifacts[b.items[l.from]]) > 0 {
			// The files of a fallback take the place of its own fallback, which goes below.
			b.side[l.to] = -1
			l.beside = false
		}
	}
	for i := range b.links {
		if l := &b.links[i]; l.beside && l.kind == EdgeFallback {
			b.fallbacks[l.from] = append(b.fallbacks[l.from], l.to)
		}
	}
	for i := range b.side {
		if b.isSide(i) { // its files go to its left: its step is on its right
			b.boxes[i].left, b.boxes[i].right = b.boxes[i].right, b.boxes[i].left
		}
	}
}

// keepDocumentOrder adds an invisible link to each item that no link leads to, from the item before it, so that it
// stays at its position in the document. Otherwise, unreachable steps would all move to the first row.
func (b *block) keepDocumentOrder() {
	entered := make([]bool, len(b.items))
	for _, l := range b.links {
		entered[l.to] = true
	}
	for i := 1; i < len(b.items); i++ {
		node := b.nodes[b.items[i]]
		starts := node != nil && (node.Kind == NodeTrigger || node.Kind == NodeStart)
		if !entered[i] && !starts {
			b.links = append(b.links, link{edge: -1, from: i - 1, to: i})
		}
	}
}

// cutLoops marks the links that close a loop, and returns the items in an order where each follows all its successors
// (the post-order of a depth-first search). A link to an item that is still open leads back to an item on the current
// path. The search starts at items in document order, so the links that lead upward in the document are those that are
// cut. out has the links that leave each item.
func (b *block) cutLoops(out [][]int) []int {
	const (
		fresh = iota
		open
		done
	)
	state := make([]int, len(b.items))
	var order []int
	var visit func(int)
	visit = func(u int) {
		state[u] = open
		for _, i := range out[u] {
			switch v := b.root(b.links[i].to); state[v] {
			case open:
				b.links[i].back = true
			case fresh:
				visit(v)
			}
		}
		state[u] = done
		order = append(order, u)
	}
	for i := range b.items {
		if r := b.root(i); state[r] == fresh {
			visit(r)
		}
	}
	return order
}

// root returns the step at the end of a chain of fallbacks.
func (b *block) root(i int) int {
	for b.side[i] >= 0 {
		i = b.side[i]
	}
	return i
}

// fill creates the rows, with a row for labels where there are any, and a bend wherever a line passes a row. Lines of
// one style to one box share their bends: they run together from where they meet.
func (b *block) fill() {
	// A rank with labels is followed by a row for them. rowOf maps ranks to rows.
	labeled := map[int]bool{} // ranks with labels below them
	for i := range b.links {
		if l := &b.links[i]; l.text != "" && !l.back && !l.beside {
			labeled[b.ranks[l.from]] = true
		}
	}
	rowOf := make([]int, slices.Max(b.ranks)+1)
	rows := 0
	for r := range rowOf {
		rowOf[r] = rows
		rows++
		if labeled[r] {
			rows++
		}
	}
	b.rows = make([][]int, rows)
	for i := range b.items {
		b.boxes[i].row = rowOf[b.ranks[i]]
	}
	// Split each link at the rows that it passes. A line with a label passes its own label in the first row; then it
	// joins the lines of its style to the same box.
	type bus struct {
		to    int
		style lineStyle
		row   int
	}
	shared := map[bus]int{}
	known := map[[3]int]int{} // existing segments
	for i := range b.links {
		l := &b.links[i]
		if l.back || l.beside || l.edge < 0 {
			continue
		}
		style := styleOf(l.kind)
		from, to := b.boxes[l.from].row, b.boxes[l.to].row
		l.path = []int{l.from}
		for row := from + 1; row < to; row++ {
			if row == from+1 && l.text != "" {
				b.boxes = append(b.boxes,
					box{link: i, left: l.width / 2, right: l.width / 2, h: b.labelHeight, row: row})
				l.path = append(l.path, len(b.boxes)-1)
				continue
			}
			key := bus{l.to, style, row}
			if _, there := shared[key]; !there {
				shared[key] = len(b.boxes)
				b.boxes = append(b.boxes, box{link: -1, bend: true, row: row})
			}
			l.path = append(l.path, shared[key])
		}
		l.path = append(l.path, l.to)
		weight := 3.0
		switch {
		case b.minor(l.to):
			weight = 0.05 // steps stay symmetric, and the small node moves
		case style != lineNormal:
			weight = 1
		}
		for j := 1; j < len(l.path); j++ {
			key := [3]int{l.path[j-1], l.path[j], int(style)}
			if at, there := known[key]; there {
				b.segs[at].weight += weight
				continue
			}
			known[key] = len(b.segs)
			b.segs = append(b.segs, seg{upper: l.path[j-1], lower: l.path[j], style: style, weight: weight})
		}
	}
	// Initial order: failure edges to the left, then items in document order, then other edges.
	wrong := map[int]bool{}
	for _, s := range b.segs {
		if s.style == lineWrong {
			wrong[s.lower] = true
		}
	}
	for _, before := range []bool{true, false} {
		for i := range b.boxes {
			if early := b.boxes[i].bend && wrong[i]; early == before && !b.isSide(i) {
				b.rows[b.boxes[i].row] = append(b.rows[b.boxes[i].row], i)
			}
		}
	}
	b.restoreSides()
}

// isSide reports whether a box is a fallback that is placed beside its step. Bends and labels never are.
func (b *block) isSide(i int) bool { return i < len(b.items) && b.side[i] >= 0 }

// restoreSides places every fallback directly to the left of its step.
func (b *block) restoreSides() {
	for r := range b.rows {
		b.restoreRow(r)
	}
}

// restoreRow places the fallbacks of one row, also those of fallbacks, and numbers the boxes. Every change of a row's
// order has to end with it, because the phases after it depend on box.pos.
func (b *block) restoreRow(r int) {
	var full []int
	var add func(int)
	add = func(i int) {
		if i < len(b.items) {
			for _, s := range b.fallbacks[i] {
				add(s)
			}
		}
		full = append(full, i)
	}
	for _, i := range b.rows[r] {
		if !b.isSide(i) {
			add(i)
		}
	}
	b.rows[r] = full
	for pos, i := range full {
		b.boxes[i].pos = pos
	}
}
