package graph

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// dataLane is a vertical line next to the boxes that carries a key from the steps that write it
// to those that read it.
type dataLane struct {
	label       string
	edges       []int
	top, bottom float64
	right       bool
	x           float64
	writers     []string
	readers     []string
	text        string
	length      float64 // of the label
	middle      float64
	beside      bool // the lane is too short for its label
}

// besideLane is the distance between a lane and a label next to it.
const besideLane = 11.0

// outer returns the space that the lane needs on its far side.
func (l *dataLane) outer() float64 {
	if l.beside {
		return besideLane
	}
	return 0
}

// dataLanes routes the data edges along the sides of the page. Writers of a key with the same
// readers share a line.
func (a *arranger) dataLanes() {
	lanes := a.groupData()
	for _, l := range lanes {
		l.top, l.bottom = math.Inf(1), math.Inf(-1)
		for _, id := range slices.Concat(l.writers, l.readers) {
			y := a.picture.boxes[id].center().y
			l.top, l.bottom = min(l.top, y), max(l.bottom, y)
		}
		l.text = a.ruler.fit(regular, edgeLabelSize, l.label, 150)
		l.length = a.ruler.width(regular, edgeLabelSize, l.text) + 10
		l.middle = (l.top + l.bottom) / 2
		l.beside = l.bottom-l.top < l.length+70 // ends are between the centers of their boxes
		blocked := [2]int{}
		for _, id := range slices.Concat(l.writers, l.readers) {
			for side := range blocked {
				if a.blocked(id, side == 1) {
					blocked[side]++
				}
			}
		}
		l.right = blocked[1] < blocked[0]
	}
	slices.SortStableFunc(lanes, func(p, q *dataLane) int { return cmp.Compare(p.bottom-p.top, q.bottom-q.top) })
	leaves, arrives := map[string]int{}, map[string]int{}
	flow := a.picture.routes
	for i, l := range lanes {
		l.x = a.laneX(l, lanes[:i], flow)
		out := map[string][]point{}
		for _, id := range l.writers {
			out[id] = a.dataEnd(id, l, leaves[id], false)
			leaves[id]++
		}
		in := map[string][]point{}
		for _, id := range l.readers {
			in[id] = a.dataEnd(id, l, arrives[id], true)
			arrives[id]++
		}
		for k, e := range l.edges {
			edge := &a.graph.Edges[e]
			r := route{edge: e, trunk: l.x, points: slices.Clone(out[edge.From])}
			for _, p := range slices.Backward(in[edge.To]) {
				r.points = append(r.points, p)
			}
			if k == 0 {
				r.text, r.upward = l.text, true
				x := l.x
				if l.beside && l.right {
					x += besideLane
				} else if l.beside {
					x -= besideLane
				}
				r.label = rect{x - a.labelHeight/2, l.middle - l.length/2, a.labelHeight, l.length}
			}
			a.picture.routes = append(a.picture.routes, r)
		}
	}
}

// groupData groups the data edges into lanes.
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

// laneX places a lane outside of everything that it passes.
func (a *arranger) laneX(l *dataLane, before []*dataLane, flow []route) float64 {
	top, bottom := min(l.top, l.middle-l.length/2)-8, max(l.bottom, l.middle+l.length/2)+8
	sign := -1.0 // outward
	if l.right {
		sign = 1
	}
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
			oTop, oBottom := min(o.top, o.middle-o.length/2)-8, max(o.bottom, o.middle+o.length/2)+8
			if o.right == l.right && oTop < bottom && oBottom > top && math.Abs(o.x*sign-far) < laneGap+o.outer()-0.01 {
				far = o.x*sign + laneGap + o.outer()
				moved = true
			}
		}
	}
	return far * sign
}

// dataEnd returns the path from a box to its lane: out of the side or, if that is blocked,
// through the gap below (for a reader: above) the row.
func (a *arranger) dataEnd(id string, l *dataLane, n int, reads bool) []point {
	box := a.picture.boxes[id]
	edge := box.x
	sign := -1.0
	if l.right {
		edge, sign = box.right(), 1
	}
	if a.blocked(id, l.right) {
		x := box.center().x + sign*min(box.w/2-8, min(box.w/4, 50)+float64(n%4)*8)
		y := box.bottom() + 6 + float64(n%2)*3
		from := box.bottom()
		if reads {
			y, from = box.y-13-float64(n%2)*3, box.y
		}
		return []point{{x, from}, {x, y}, {l.x, y}}
	}
	room := max(1, int((box.h/2-12)/6))
	y := box.bottom() - 12 - float64(n%room)*6
	if reads {
		y = box.y + 14 + float64(n%room)*6
	}
	return []point{{edge, y}, {l.x, y}}
}
