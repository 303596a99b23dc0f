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
// Otherwise sixty steps would be a strip that fits no page or screen. Of all numbers of columns, it takes the one whose
// ratio of width to height is closest to that of a slide, also compared with the drawing as it is; ratios are compared
// by their logarithm, so that twice as wide is as bad as twice as high.
func (g *Graph) inColumns(d *drawing) *drawing {
	if d.h <= tallest || len(d.seams) == 0 {
		return d
	}
	slices.Sort(d.seams)
	var best []float64
	score := math.Abs(math.Log(d.w / d.h / slide))
	for columns := 2; columns <= 12; columns++ {
		seams := chooseSeams(d, columns)
		w, h := 0.0, 0.0
		top := 0.0
		for _, bottom := range append(slices.Clone(seams), d.h) {
			e := d.extent(top, bottom)
			w += e.right - e.left + columnGap
			h = max(h, bottom-top+columnHead)
			top = bottom
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

// chooseSeams divides a drawing into columns with minimal maximum height: it searches for the smallest height with
// which fillColumns needs no more than the given number of columns. Five units are exact enough.
func chooseSeams(d *drawing, columns int) []float64 {
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
func fillColumns(d *drawing, highest float64) []float64 {
	var chosen []float64
	top := 0.0
	for i, s := range d.seams {
		next := d.h
		if i+1 < len(d.seams) {
			next = d.seams[i+1]
		}
		if next-top > highest && s > top {
			chosen = append(chosen, s)
			top = s
		}
	}
	return chosen
}

// columns splits the drawing at the given seams. Everything moves with the column in which it begins. Only one line
// crosses each seam, and it has no label: findSeams makes sure of both.
func (g *Graph) columns(d *drawing, seams []float64) *drawing {
	type column struct{ top, dx, dy, left, lowest float64 }
	var all []column
	x, top := 0.0, 0.0
	for i, bottom := range append(slices.Clone(seams), math.Inf(1)) {
		e := d.extent(top, bottom)
		c := column{top: top, dx: x - e.left, dy: -top, left: x, lowest: e.bottom}
		if i > 0 {
			c.dy += columnHead - large.rowGap/2
		}
		all = append(all, c)
		x += e.right - e.left + columnGap
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
		out.boxes[id] = b.moved(c.dx, c.dy)
	}
	for _, r := range d.routes {
		from, to := r.points[0], r.points[len(r.points)-1]
		a, b := at(from.y), at(to.y)
		if a == b {
			r = r.moved(a.dx, a.dy)
		} else {
			// Down, over to the gap between the columns, up, and in from above.
			lane := b.left - columnGap/2
			start, end := point{from.x + a.dx, from.y + a.dy}, point{to.x + b.dx, to.y + b.dy}
			under, over := a.lowest+a.dy+large.rowGap/2, b.top+b.dy
			r.points = []point{start, {start.x, under}, {lane, under}, {lane, over}, {end.x, over}, end}
		}
		out.routes = append(out.routes, r)
	}
	return out.normalize()
}
