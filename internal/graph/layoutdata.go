package graph

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// dataLane is a vertical line next to the boxes that carries a key from the steps that write it to those that read it.
type dataLane struct {
	label       string
	edges       []int
	top, bottom float64
	side        int // 0 is left, 1 is right
	x           float64
	writers     []string
	readers     []string
	out, in     map[string][]point // from the box of each writer and reader, up to the lane
	text        string
	length      float64 // of the label
	middle      float64 // of the label
}

// sign is the direction from the boxes to the lane.
func (l *dataLane) sign() float64 { return float64(2*l.side - 1) }

// heights returns the heights of the horizontal lines that lead to the lane.
func (l *dataLane) heights() []float64 {
	var out []float64
	for _, ends := range []map[string][]point{l.out, l.in} {
		for _, end := range ends {
			out = append(out, end[len(end)-1].y)
		}
	}
	return out
}

// span returns the heights between which the lane and its label need room.
func (l *dataLane) span() (top, bottom float64) {
	return min(l.top, l.middle-l.length/2) - 8, max(l.bottom, l.middle+l.length/2) + 8
}

// dataLanes routes the data edges along the sides of the page. Writers of a key with the same readers share a line.
// Short lanes are placed first and are closest to the boxes. The lines change nothing that has been placed, except that
// the labels of control edges move out of their way.
func (a *arranger) dataLanes() {
	lanes := a.groupData()
	for _, l := range lanes {
		l.top, l.bottom = math.Inf(1), math.Inf(-1)
		for _, id := range slices.Concat(l.writers, l.readers) {
			y := a.picture.boxes[id].center().y
			l.top, l.bottom = min(l.top, y), max(l.bottom, y)
		}
		blocked := [2]int{}
		for _, id := range slices.Concat(l.writers, l.readers) {
			for side := range blocked {
				if a.blocked(id, side == 1) {
					blocked[side]++
				}
			}
		}
		if blocked[1] < blocked[0] {
			l.side = 1
		}
	}
	slices.SortStableFunc(lanes, func(p, q *dataLane) int { return cmp.Compare(p.bottom-p.top, q.bottom-q.top) })
	leaves, arrives := map[string]int{}, map[string]int{}
	for _, l := range lanes {
		l.out, l.in = map[string][]point{}, map[string][]point{}
		for _, id := range l.writers {
			l.out[id] = a.dataEnd(id, l, leaves[id], false)
			leaves[id]++
		}
		for _, id := range l.readers {
			l.in[id] = a.dataEnd(id, l, arrives[id], true)
			arrives[id]++
		}
	}
	a.placeDataLabels(lanes)
	// The routes so far are those of control edges, which data lines have to stay clear of.
	flow := a.picture.routes
	for i, l := range lanes {
		l.x = a.laneX(l, lanes[:i], flow)
		for k, e := range l.edges {
			edge := &a.graph.Edges[e]
			r := route{edge: e, trunk: l.x, points: slices.Clone(l.out[edge.From])}
			start, end := r.points[len(r.points)-1], l.in[edge.To][len(l.in[edge.To])-1]
			r.points = append(r.points, point{l.x, start.y}, point{l.x, end.y})
			for _, p := range slices.Backward(l.in[edge.To]) {
				r.points = append(r.points, p)
			}
			if k == 0 && l.text != "" {
				r.text, r.upward = l.text, true
				r.label = rect{l.x - a.labelHeight/2, l.middle - l.length/2, a.labelHeight, l.length}
			}
			a.picture.routes = append(a.picture.routes, r)
		}
	}
	a.clearLabels(a.picture.routes[:len(flow)], a.picture.routes[len(flow):])
}

// clearLabels moves the labels of control edges along their lines, away from data lines.
func (a *arranger) clearLabels(flow, data []route) {
	for i := range flow {
		r := &flow[i]
		if r.text == "" || !a.crossesLabel(data, r.label) {
			continue
		}
		x := r.label.center().x
		for k := 1; k < len(r.points); k++ {
			p, q := r.points[k-1], r.points[k]
			top, bottom := min(p.y, q.y), max(p.y, q.y)
			if p.x == q.x && math.Abs(p.x-x) < r.label.w && top < r.label.y && bottom > r.label.bottom() {
				a.slideLabel(r, flow, data, top+4, bottom-12)
				break
			}
		}
	}
}

// slideLabel moves a label to the nearest free height between top and bottom, if there is one.
func (a *arranger) slideLabel(r *route, flow, data []route, top, bottom float64) {
	free := func(to rect) bool {
		for i := range flow {
			if o := &flow[i]; o != r && o.text != "" && o.label.meets(to) {
				return false
			}
		}
		for _, box := range a.picture.boxes {
			if box.meets(to) && !box.meets(r.label) {
				return false
			}
		}
		return to.y >= top && to.bottom() <= bottom && !a.crossesLabel(data, to)
	}
	for d := 2.0; d < bottom-top; d += 2 {
		for _, away := range []float64{-d, d} {
			to := r.label
			to.y += away
			if free(to) {
				r.label = to
				return
			}
		}
	}
}

// crossesLabel reports whether a horizontal data line crosses a label.
func (a *arranger) crossesLabel(data []route, label rect) bool {
	for _, r := range data {
		for i := 1; i < len(r.points); i++ {
			p, q := r.points[i-1], r.points[i]
			if p.y == q.y && label.meets(rect{min(p.x, q.x), p.y, math.Abs(p.x - q.x), 0}) {
				return true
			}
		}
	}
	return false
}

// placeDataLabels chooses a part of each lane for its label that no horizontal line crosses: as close to the middle as
// possible, or beyond the ends of a lane that is too short.
func (a *arranger) placeDataLabels(lanes []*dataLane) {
	var lines [2][]float64 // heights of all horizontal lines on each side
	for _, l := range lanes {
		lines[l.side] = append(lines[l.side], l.heights()...)
	}
	for i := range lines {
		slices.Sort(lines[i])
		lines[i] = slices.Concat([]float64{math.Inf(-1)}, lines[i], []float64{math.Inf(1)})
	}
	for _, l := range lanes {
		short := "…" + l.label[strings.LastIndexByte(l.label, '.')+1:]
		candidates := []string{l.label, short}
		for _, room := range []float64{58, 40} {
			candidates = append(candidates, a.ruler.fit(regular, edgeLabelSize, short, room))
		}
		for _, text := range append(candidates, l.label) {
			l.text = a.ruler.fit(regular, edgeLabelSize, text, 150)
			l.length = a.ruler.width(regular, edgeLabelSize, l.text) + 10
			if l.placeLabel(lines[l.side]) {
				break
			}
		}
	}
}

// placeLabel places the label between two neighboring lines, as close to the middle of the lane as possible. It reports
// whether the label is next to the lane, and not beyond its ends.
func (l *dataLane) placeLabel(lines []float64) bool {
	top, bottom := slices.Min(l.heights()), slices.Max(l.heights())
	const clear = 5
	middle, best := (top+bottom)/2, math.Inf(1)
	for i, below := range lines[1:] {
		above := lines[i]
		if below-above < l.length+2*clear {
			continue
		}
		at := min(max(middle, above+l.length/2+clear), below-l.length/2-clear)
		if d := math.Abs(at - middle); d < best {
			l.middle, best = at, d
		}
	}
	return l.middle-l.length/2 <= bottom+2*clear && l.middle+l.length/2 >= top-2*clear
}

// groupData groups the data edges into lanes: first the edges of one key from one writer, then the writers of a key
// whose readers are the same.
func (a *arranger) groupData() []*dataLane {
	type source struct {
		from, label string
		edges       []int
		readers     []string
	}
	var sources []*source
	bySource := map[[2]string]*source{}
	for i := range a.graph.Edges {
		e := &a.graph.Edges[i]
		if e.Kind != EdgeData {
			continue
		}
		key := [2]string{e.From, e.Label}
		if bySource[key] == nil {
			bySource[key] = &source{from: e.From, label: e.Label}
			sources = append(sources, bySource[key])
		}
		s := bySource[key]
		s.edges = append(s.edges, i)
		s.readers = append(s.readers, e.To)
	}
	var lanes []*dataLane
	byReaders := map[string]*dataLane{}
	for _, s := range sources {
		slices.Sort(s.readers)
		key := s.label + "\n" + strings.Join(s.readers, "\n")
		l := byReaders[key]
		if l == nil {
			l = &dataLane{label: s.label, readers: s.readers}
			byReaders[key] = l
			lanes = append(lanes, l)
		}
		l.edges = append(l.edges, s.edges...)
		l.writers = append(l.writers, s.from)
	}
	return lanes
}

// blocked reports whether something is between a box and its side of the page.
func (a *arranger) blocked(id string, right bool) bool {
	box := a.picture.boxes[id]
	for other, o := range a.picture.boxes {
		if other == id || o.y > box.bottom() || o.bottom() < box.y {
			continue
		}
		if a.groups[other] != nil && o.x <= box.x && o.right() >= box.right() && o.y <= box.y &&
			o.bottom() >= box.bottom() {
			continue // the frame that contains it
		}
		if right && o.x >= box.right() || !right && o.right() <= box.x {
			return true
		}
	}
	return false
}

// laneX places a lane outside of everything that it passes. Each lane before it on the same side can move it outward
// only once, so the search ends.
func (a *arranger) laneX(l *dataLane, before []*dataLane, flow []route) float64 {
	top, bottom := l.span()
	sign := l.sign()
	far := math.Inf(-1)
	pass := func(x, y1, y2 float64) {
		if y1 < bottom && y2 > top {
			far = max(far, x*sign)
		}
	}
	for _, box := range a.picture.boxes {
		pass(box.x, box.y, box.bottom())
		pass(box.right(), box.y, box.bottom())
	}
	for _, r := range flow {
		for i := 1; i < len(r.points); i++ {
			p, q := r.points[i-1], r.points[i]
			pass(max(p.x*sign, q.x*sign)*sign, min(p.y, q.y), max(p.y, q.y))
		}
		if r.text != "" {
			pass(r.label.x, r.label.y, r.label.bottom())
			pass(r.label.right(), r.label.y, r.label.bottom())
		}
	}
	far += 24
	for moved := true; moved; {
		moved = false
		for _, o := range before {
			oTop, oBottom := o.span()
			if o.side == l.side && oTop < bottom && oBottom > top && math.Abs(o.x*sign-far) < laneGap-0.01 {
				far = o.x*sign + laneGap
				moved = true
			}
		}
	}
	return far * sign
}

// dataEnd returns the path from a box up to the horizontal line to its lane: out of the side or, if that is blocked,
// through the gap below (for a reader: above) the row. n is the number of data lines that use this end of the box
// already, so that lines do not cover each other while there is room.
func (a *arranger) dataEnd(id string, l *dataLane, n int, reads bool) []point {
	box := a.picture.boxes[id]
	if a.blocked(id, l.side == 1) {
		x := box.center().x + l.sign()*min(box.w/2-8, min(box.w/4, 50)+float64(n%4)*8)
		y := box.bottom() + 6 + float64(n%2)*3
		from := box.bottom()
		if reads {
			y, from = box.y-13-float64(n%2)*3, box.y
		}
		return []point{{x, from}, {x, y}}
	}
	room := max(1, int((box.h/2-12)/6))
	y := box.bottom() - 12 - float64(n%room)*6
	if reads {
		y = box.y + 14 + float64(n%room)*6
	}
	return []point{{box.end(l.sign()), y}}
}
