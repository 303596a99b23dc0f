package graph

import (
	"math"
	"slices"
)

// The dimensions of a picture in columns.
const (
	tallest    = 2400.0 // a longer chain continues in another column
	columnGap  = 76.0
	columnHead = 26.0 // above the first box of a column, for the incoming line
	slide      = 1.5  // target ratio of width to height
)

// inColumns breaks a very long drawing into columns, only where a single line leads from one column to the next.
// Otherwise sixty steps would be a strip that fits no page or screen.
func (g *Graph) inColumns(d *drawing) *drawing {
	if d.h <= tallest || len(d.seams) == 0 {
		return d
	}
	slices.SortFunc(d.seams, func(a, b seam) int { return int(math.Copysign(1, a.y-b.y)) })
	var best []seam
	score := math.Abs(math.Log(d.w / d.h / slide))
	for columns := 2; columns <= 12; columns++ {
		seams := chooseSeams(d, columns)
		w, h := 0.0, 0.0
		top := 0.0
		for _, c := range append(slices.Clone(seams), seam{y: d.h}) {
			left, right := d.between(top, c.y)
			w += right - left + columnGap
			h = max(h, c.y-top+columnHead)
			top = c.y
		}
		if h > 0.7*d.h {
			continue // hardly lower than before: not worth the long line
		}
		if s := math.Abs(math.Log(w / h / slide)); s < score {
			best, score = seams, s
		}
	}
	if len(best) == 0 {
		return d
	}
	return g.columns(d, best)
}

// chooseSeams divides a drawing into columns with minimal maximum height.
func chooseSeams(d *drawing, columns int) []seam {
	low, high := d.h/float64(columns), d.h
	best := fillColumns(d, high)
	for high-low > 5 {
		middle := (low + high) / 2
		if seams := fillColumns(d, middle); len(seams) < columns {
			best, high = seams, middle
		} else {
			low = middle
		}
	}
	return best
}

// fillColumns starts a new column whenever the next piece would exceed the given height.
func fillColumns(d *drawing, highest float64) []seam {
	var chosen []seam
	top := 0.0
	for i, s := range d.seams {
		next := d.h
		if i+1 < len(d.seams) {
			next = d.seams[i+1].y
		}
		if next-top > highest && s.y > top {
			chosen = append(chosen, s)
			top = s.y
		}
	}
	return chosen
}

// lowest returns the lower end of everything between two heights.
func (d *drawing) lowest(top, bottom float64) float64 {
	y := top
	for _, b := range d.boxes {
		if b.y >= top && b.y < bottom {
			y = max(y, b.bottom())
		}
	}
	for _, r := range d.routes {
		for _, p := range r.points {
			if p.y >= top && p.y < bottom {
				y = max(y, p.y)
			}
		}
	}
	return y
}

// between returns the horizontal extent of the drawing between two heights.
func (d *drawing) between(top, bottom float64) (left, right float64) {
	left, right = math.Inf(1), math.Inf(-1)
	for _, b := range d.boxes {
		if b.y >= top && b.y < bottom {
			left, right = min(left, b.x), max(right, b.right())
		}
	}
	for _, r := range d.routes {
		for _, p := range r.points {
			if p.y >= top && p.y < bottom {
				left, right = min(left, p.x), max(right, p.x)
			}
		}
		if r.text != "" && r.label.y >= top && r.label.y < bottom {
			left, right = min(left, r.label.x), max(right, r.label.right())
		}
	}
	return left, right
}

// columns splits the drawing at the given seams.
func (g *Graph) columns(d *drawing, seams []seam) *drawing {
	type column struct{ top, dx, dy, left, lowest float64 }
	var all []column
	x, top := 0.0, 0.0
	for i := 0; i <= len(seams); i++ {
		bottom := math.Inf(1)
		if i < len(seams) {
			bottom = seams[i].y
		}
		left, right := d.between(top, bottom)
		c := column{top: top, dx: x - left, dy: -top, left: x, lowest: d.lowest(top, bottom)}
		if i > 0 {
			c.dy += columnHead - large.rowGap/2
		}
		all = append(all, c)
		x += right - left + columnGap
		top = bottom
	}
	at := func(y float64) column {
		for _, c := range slices.Backward(all) {
			if y >= c.top {
				return c
			}
		}
		return all[0]
	}
	out := &drawing{boxes: map[string]rect{}}
	for id, b := range d.boxes {
		c := at(b.y)
		out.boxes[id] = rect{b.x + c.dx, b.y + c.dy, b.w, b.h}
	}
	for _, r := range d.routes {
		from, to := r.points[0], r.points[len(r.points)-1]
		a, b := at(from.y), at(to.y)
		moved := r
		if a == b {
			moved.points = nil
			for _, p := range r.points {
				moved.points = append(moved.points, point{p.x + a.dx, p.y + a.dy})
			}
			moved.label.x += a.dx
			moved.label.y += a.dy
		} else {
			// Down, over to the gap between the columns, up, and in from above.
			lane := b.left - columnGap/2
			start, end := point{from.x + a.dx, from.y + a.dy}, point{to.x + b.dx, to.y + b.dy}
			under, over := a.lowest+a.dy+large.rowGap/2, b.top+b.dy
			moved.points = []point{start, {start.x, under}, {lane, under}, {lane, over}, {end.x, over}, end}
		}
		out.routes = append(out.routes, moved)
	}
	return out.normalize()
}
