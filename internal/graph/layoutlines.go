package graph

import (
	"fmt"
	"math"
	"slices"
)

// run is a horizontal piece of lines in the gap between two rows: it enters from above at x1 and continues at x2. from
// and to identify its ends: a box and the style of the line or, for the run of a loopBack, a negative number and the
// link.
type run struct {
	x1, x2 float64
	// Runs with the same origin or destination may share a track.
	from, to [2]int
	track    int
}

func (r *run) low() float64  { return min(r.x1, r.x2) }
func (r *run) high() float64 { return max(r.x1, r.x2) }

// inside reports whether a vertical line at x would cross the run.
func (r *run) inside(x float64) bool { return x > r.low()+0.5 && x < r.high()-0.5 }

// loopBack is the path of a link that leads upward: a vertical lane next to the boxes, reached from the sides of its
// ends or, if something is in the way, through the gap below its source and the gap above its target.
type loopBack struct {
	link       int
	sign       float64 // -1 for a lane on the left, 1 on the right
	x          float64
	exit       *run // nil: straight out of the side
	entry      *run
	first, end int // rows
}

// outside reports whether the label is next to the lane, because the lane is too short for it.
func (p *loopBack) outside(l *link) bool { return l.from == l.to }

// labelRoom returns how far the label extends to both sides of the lane.
func (p *loopBack) labelRoom(l *link) (inner, outer float64) {
	if p.outside(l) {
		return 0, l.width + 2
	}
	return l.width / 2, l.width / 2
}

// lines is the state of tracing one block. The keys of at and ports identify a seg: its upper box, its lower box and
// its style.
type lines struct {
	*block
	gaps  [][]*run // gap i is above row i, the last one below all rows
	at    map[[3]int]*run
	loops []loopBack
	ports map[[3]int]point // x where a segment leaves its upper box and meets its lower one
}

// trace positions rows and lines and returns the finished drawing. The height of a gap depends on the number of tracks
// in it, so all horizontal runs have to be known before the first row gets its y.
func (b *block) trace() *drawing {
	t := &lines{block: b, gaps: make([][]*run, len(b.rows)+1), at: map[[3]int]*run{}, ports: map[[3]int]point{}}
	t.findPorts()
	for _, s := range b.segs {
		key := [3]int{s.upper, s.lower, int(s.style)}
		p := t.ports[key]
		if math.Abs(p.x-p.y) < 0.5 {
			continue
		}
		r := &run{x1: p.x, x2: p.y, from: [2]int{s.upper, int(s.style)}, to: [2]int{s.lower, int(s.style)}}
		t.at[key] = r
		g := b.boxes[s.lower].row
		t.gaps[g] = append(t.gaps[g], r)
	}
	t.findLoops()
	tops := t.stackRows()
	d := t.draw(tops)
	d.seams = t.findSeams(d)
	return d
}

// findSeams returns the heights that only one straight line crosses. The line has to lead to the next row: then it has
// neither a bend nor a label, which columns could not split.
func (t *lines) findSeams(d *drawing) []float64 {
	crossing := make([]int, len(t.rows)) // links across the gap above each row
	only := make([]int, len(t.rows))
	for i := range t.links {
		l := &t.links[i]
		if l.edge < 0 {
			continue
		}
		from, to := t.boxes[l.from].row, t.boxes[l.to].row
		for g := min(from, to) + 1; g <= max(from, to); g++ {
			crossing[g]++
			only[g] = i
		}
	}
	var seams []float64
	for g, n := range crossing {
		if n != 1 {
			continue
		}
		if l := &t.links[only[g]]; !l.back && t.boxes[l.to].row-t.boxes[l.from].row == 1 {
			top := math.Inf(1)
			for _, i := range t.rows[g] {
				if i >= len(t.items) {
					continue
				}
				top = min(top, d.boxes[t.items[i]].y)
				for _, e := range t.artifacts[t.items[i]] {
					if file, drawn := d.boxes[t.graph.Edges[e].To]; drawn {
						top = min(top, file.y)
					}
				}
			}
			seams = append(seams, top-t.rowGap/2)
		}
	}
	return seams
}

// findPorts determines where lines touch boxes. Normal lines use the center; others touch next to it, toward their
// origin.
func (t *lines) findPorts() {
	type end struct {
		box   int
		lower bool
	}
	mixed := map[end]map[lineStyle]bool{}
	note := func(e end, s lineStyle) {
		if mixed[e] == nil {
			mixed[e] = map[lineStyle]bool{}
		}
		mixed[e][s] = true
	}
	for _, s := range t.segs {
		note(end{s.upper, false}, s.style)
		note(end{s.lower, true}, s.style)
	}
	x := func(i, other int, lower bool, style lineStyle) float64 {
		b, o := &t.boxes[i], &t.boxes[other]
		if i >= len(t.items) {
			return b.x
		}
		half := t.sizes[i].w / 2
		if style != lineNormal && len(mixed[end{i, lower}]) > 1 {
			aside := math.Round(min(30, half/2))
			// Prefer a straight line to a label or a bend below or above the box.
			if off := math.Abs(o.x - b.x); other >= len(t.items) && off >= 12 && off <= half-16 {
				return o.x
			}
			if o.x > b.x || o.x == b.x && style == lineSkipped {
				return b.x + aside
			}
			return b.x - aside
		}
		// A line that almost meets the center stays straight.
		if other >= len(t.items) && math.Abs(o.x-b.x) <= min(26, half-18) {
			return o.x
		}
		return b.x
	}
	for _, s := range t.segs {
		t.ports[[3]int{s.upper, s.lower, int(s.style)}] = point{
			x(s.upper, s.lower, false, s.style),
			x(s.lower, s.upper, true, s.style),
		}
	}
}

// findLoops chooses a side and a lane for each link that leads upward, with short ones closest to the boxes: they are
// placed first, and each later one keeps its distance from those that it overlaps. Failures prefer the left side.
func (t *lines) findLoops() {
	for i := range t.links {
		l := &t.links[i]
		if !l.back || l.edge < 0 {
			continue
		}
		p := loopBack{link: i, first: t.boxes[l.to].row, end: t.boxes[l.from].row}
		if p.first > p.end {
			p.first, p.end = p.end, p.first
		}
		t.loops = append(t.loops, p)
	}
	slices.SortStableFunc(t.loops, func(p, q loopBack) int { return (p.end - p.first) - (q.end - q.first) })
	for i := range t.loops {
		p := &t.loops[i]
		l := &t.links[p.link]
		left := t.reach(p, -1) + t.obstacles(l.from, -1) + t.obstacles(l.to, -1)
		right := t.reach(p, 1) + t.obstacles(l.from, 1) + t.obstacles(l.to, 1)
		if l.kind.isFailure() {
			right += 60
		}
		if p.sign = -1; right <= left {
			p.sign = 1
		}
		edge := math.Inf(-1) // the outermost side of the boxes beside the lane, outward
		for r := p.first; r <= p.end; r++ {
			for _, k := range t.rows[r] {
				edge = max(edge, t.boxes[k].x*p.sign+t.boxes[k].room(p.sign))
			}
		}
		inner, _ := p.labelRoom(l)
		away := max(24, inner+8)
		for _, q := range t.loops[:i] {
			if q.sign == p.sign && q.first <= p.end && q.end >= p.first {
				_, outer := q.labelRoom(&t.links[q.link])
				away = max(away, q.x*p.sign+max(laneGap, inner+outer+6)-edge)
			}
		}
		p.x = math.Round(edge+away) * p.sign
		aside := func(i int) float64 { return t.boxes[i].x + p.sign*min(28, t.sizes[i].w/2-10) }
		detour := func(gap int, x1, x2 float64, id [2]int) *run {
			r := &run{x1: x1, x2: x2, from: id, to: id}
			t.gaps[gap] = append(t.gaps[gap], r)
			return r
		}
		if t.obstacles(l.from, p.sign) > 0 {
			p.exit = detour(t.boxes[l.from].row+1, aside(l.from), p.x, [2]int{-1, p.link})
		}
		if t.obstacles(l.to, p.sign) > 0 {
			p.entry = detour(t.boxes[l.to].row, p.x, aside(l.to), [2]int{-2, p.link})
		}
	}
}

// reach returns how far out a lane on one side would be, from the middle between its ends.
func (t *lines) reach(p *loopBack, sign float64) float64 {
	l := &t.links[p.link]
	from := (t.boxes[l.from].x + t.boxes[l.to].x) / 2
	far := 0.0
	for r := p.first; r <= p.end; r++ {
		for _, k := range t.rows[r] {
			far = max(far, (t.boxes[k].x-from)*sign+t.boxes[k].room(sign))
		}
	}
	return far
}

// obstacles returns the cost of leaving an item sideways, in units of distance: 0 if only lines are in the way.
func (t *lines) obstacles(i int, sign float64) float64 {
	b := &t.boxes[i]
	if b.room(sign) > t.sizes[i].w/2+1 {
		return 80 // its own artifacts
	}
	for _, k := range t.rows[b.row] {
		if o := &t.boxes[k]; !o.bend && float64(o.pos-b.pos)*sign > 0 {
			return 80
		}
	}
	return 0
}

// assign places the runs of a gap on tracks so that different lines never overlap and few cross. It returns the number
// of tracks. It inserts one run after the other into an order from top to bottom, each where it adds the fewest
// crossings; then each run gets the highest track that is below all runs before it that share some of its x. Runs with
// a common end belong to lines that run together and may share the track.
func assign(runs []*run) int {
	crossing := func(upper, lower *run) int {
		n := 0
		if lower.inside(upper.x2) {
			n++
		}
		if upper.inside(lower.x1) {
			n++
		}
		if math.Abs(upper.x2-lower.x1) < 4 && upper.to != lower.to {
			n += 10 // their vertical parts would overlap
		}
		return n
	}
	var order []*run
	for _, r := range runs {
		at, best, sum := len(order), 0, 0
		// From the bottom up: the cost of being above each of the others.
		for i := len(order) - 1; i >= 0; i-- {
			sum += crossing(r, order[i]) - crossing(order[i], r)
			if sum < best {
				at, best = i, sum
			}
		}
		order = slices.Insert(order, at, r)
	}
	tracks := 0
	for i, r := range order {
		r.track = 0
		for _, o := range order[:i] {
			if r.low() > o.high()+6 || o.low() > r.high()+6 {
				continue
			}
			if o.from == r.from || o.to == r.to {
				r.track = max(r.track, o.track)
			} else {
				r.track = max(r.track, o.track+1)
			}
		}
		tracks = max(tracks, r.track+1)
	}
	return tracks
}

// stackRows sets the y of boxes and returns where the tracks of each gap start. The gaps above the first row and below
// the last one have no height of their own: only loops need them.
func (t *lines) stackRows() []float64 {
	tops := make([]float64, len(t.gaps))
	y := 0.0
	for g := range t.gaps {
		tracks := float64(assign(t.gaps[g]))
		height := t.rowGap + max(0, tracks-1)*trackGap
		switch {
		case g == 0 || g == len(t.rows):
			height = 0
			if tracks > 0 {
				height = t.firstTrack + tracks*trackGap + 8
			}
		case t.labelRow(g):
			height = t.labelRowGap
			if tracks > 0 {
				height = t.firstTrack + (tracks-1)*trackGap + t.trackLabel
			}
		case t.labelRow(g-1) && tracks == 0:
			height = t.belowLabel
		}
		tops[g] = y + t.firstTrack
		y += height
		if g == len(t.rows) {
			break
		}
		t.levelRow(g)
		h := 0.0
		for _, i := range t.rows[g] {
			h = max(h, t.boxes[i].h)
		}
		for _, i := range t.rows[g] {
			t.boxes[i].y = y + h/2
		}
		y += h
	}
	return tops
}

// levelRow makes adjacent cards equally tall if they nearly are.
func (t *lines) levelRow(r int) {
	const nearly = 40
	highest := 0.0
	for _, i := range t.rows[r] {
		if i < len(t.items) && t.stretches(t.items[i]) {
			highest = max(highest, t.sizes[i].h)
		}
	}
	for _, i := range t.rows[r] {
		if i < len(t.items) && t.stretches(t.items[i]) && highest-t.sizes[i].h <= nearly {
			t.sizes[i].h = highest
			t.boxes[i].h = max(t.boxes[i].h, highest)
		}
	}
}

// labelRow reports whether a row contains labels and no items.
func (t *lines) labelRow(r int) bool {
	return !slices.ContainsFunc(t.rows[r], func(i int) bool { return i < len(t.items) })
}

// besideStep is the distance between the lines from a step to its fallback.
const besideStep = 20.0

// draw converts the positions to boxes and routes, in the coordinates of the block, and moves the whole to (0, 0).
func (t *lines) draw(tops []float64) *drawing {
	d := &drawing{boxes: map[string]rect{}}
	for i, id := range t.items {
		b, s := &t.boxes[i], t.sizes[i]
		box := rect{b.x - s.w/2, b.y - s.h/2, s.w, s.h}
		d.boxes[id] = box
		t.drawArtifacts(d, id, box, b.left > b.right+1)
	}
	// Lines that lead downward or, to a fallback, to the left.
	besides, drawn := map[int]int{}, map[int]int{} // lines to each fallback
	for i := range t.links {
		if t.links[i].beside {
			besides[t.links[i].to]++
		}
	}
	for i := range t.links {
		l := &t.links[i]
		switch {
		case l.edge < 0 || l.back:
		case l.beside:
			shift := 0.0
			if n := besides[l.to]; n > 1 {
				shift = (float64(drawn[l.to]) - float64(n-1)/2) * besideStep
				drawn[l.to]++
			}
			d.routes = append(d.routes, t.routeBeside(d, l, shift))
		default:
			d.routes = append(d.routes, t.routeDown(d, i, tops))
		}
	}
	// Lines that lead upward: from the source to the lane, along it, and to the target.
	leaving, arriving := map[int]int{}, map[int]int{} // loops at the sides of each box, so that they are spread
	for _, p := range t.loops {
		l := &t.links[p.link]
		r := t.routeLoop(d, p, tops, leaving[l.from], arriving[l.to])
		if p.exit == nil {
			leaving[l.from]++
		}
		if p.entry == nil {
			arriving[l.to]++
		}
		d.routes = append(d.routes, r)
	}
	return d.normalize()
}

// trackY returns the height of a horizontal line in the gap above a row.
func trackY(tops []float64, row int, r *run) float64 { return tops[row] + float64(r.track)*trackGap }

// routeBeside returns the route of a link to a fallback next to its step, moved down by shift.
func (t *lines) routeBeside(d *drawing, l *link, shift float64) route {
	from, to := d.boxes[t.items[l.from]], d.boxes[t.items[l.to]]
	y := to.center().y + shift
	r := route{edge: l.edge, points: []point{{from.x, y}, {to.right(), y}}, text: l.text}
	middle := (from.x + to.right() + 8) / 2
	r.label = rect{middle - l.width/2, y - t.labelHeight/2, l.width, t.labelHeight}
	return r
}

// routeDown returns the route of a link from one row to a later one, through the boxes that keep its place in the rows
// between them. One of those boxes has the label.
func (t *lines) routeDown(d *drawing, i int, tops []float64) route {
	l := &t.links[i]
	r := route{edge: l.edge, text: l.text}
	for j := 1; j < len(l.path); j++ {
		key := [3]int{l.path[j-1], l.path[j], int(styleOf(l.kind))}
		p := t.ports[key]
		if j == 1 {
			r.points = append(r.points, point{p.x, d.boxes[t.items[l.from]].bottom()})
		}
		if horizontal := t.at[key]; horizontal != nil {
			y := trackY(tops, t.boxes[l.path[j]].row, horizontal)
			r.points = append(r.points, point{p.x, y}, point{p.y, y})
		}
		if j == len(l.path)-1 {
			r.points = append(r.points, point{p.y, d.boxes[t.items[l.to]].y})
		}
		if b := &t.boxes[l.path[j]]; b.link == i {
			r.label = rect{b.x - l.width/2, b.y - t.labelHeight/2, l.width, t.labelHeight}
		}
	}
	return r
}

// routeLoop returns the route of a link to an earlier row: out of its step, along a vertical line outside of the boxes,
// and into the other one. leaving and arriving count the loops that are already drawn at the sides of both boxes.
func (t *lines) routeLoop(d *drawing, p loopBack, tops []float64, leaving, arriving int) route {
	l := &t.links[p.link]
	from, to := d.boxes[t.items[l.from]], d.boxes[t.items[l.to]]
	r := route{edge: l.edge, text: l.text}
	if p.exit == nil {
		y := spread(from, leaving, 7)
		r.points = append(r.points, point{from.end(p.sign), y}, point{p.x, y})
	} else {
		y := trackY(tops, t.boxes[l.from].row+1, p.exit)
		r.points = append(r.points, point{p.exit.x1, from.bottom()}, point{p.exit.x1, y}, point{p.x, y})
	}
	start := r.points[len(r.points)-1] // of the vertical line
	if p.entry == nil {
		y := spread(to, arriving, -7)
		r.points = append(r.points, point{p.x, y}, point{to.end(p.sign), y})
	} else {
		y := trackY(tops, t.boxes[l.to].row, p.entry)
		r.points = append(r.points, point{p.x, y}, point{p.entry.x2, y}, point{p.entry.x2, to.y})
	}
	if l.text != "" {
		middle := (r.points[len(r.points)-2].y + start.y) / 2
		x := p.x - l.width/2
		if p.outside(l) {
			x += p.sign * (2 + l.width/2)
		}
		r.label = rect{x, middle - t.labelHeight/2, l.width, t.labelHeight}
	}
	return r
}

// drawArtifacts stacks the files of a step next to it: on its right or, if leftward is set, on its left. The last file
// that there is room for says how many more there are.
func (t *lines) drawArtifacts(d *drawing, id string, box rect, leftward bool) {
	files := t.artifacts[id]
	_, h := t.artifactStack(id)
	y := box.center().y - h/2
	for i, e := range files {
		if i == maxArtifacts {
			break
		}
		to := t.graph.Edges[e].To
		c := t.picture.cards[to]
		if i == maxArtifacts-1 && len(files) > maxArtifacts {
			c.texts[0].text = fmt.Sprintf("and %d more", len(files)-maxArtifacts+1)
		}
		from, side, target, turn := box.right(), box.right()+artifactGap, box.right()+artifactGap,
			box.right()+artifactGap/2
		if leftward {
			from, target, turn = box.x, box.x-artifactGap, box.x-artifactGap/2
			side = target - c.w
		}
		d.boxes[to] = rect{side, y, c.w, c.h}
		middle := y + c.h/2
		d.routes = append(d.routes, route{edge: e, points: []point{
			{from, box.center().y}, {turn, box.center().y}, {turn, middle}, {target, middle},
		}})
		y += c.h + artifactStack
	}
}
