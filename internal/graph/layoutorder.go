package graph

import (
	"cmp"
	"math"
	"slices"

	"github.com/espalier-run/espalier/internal/xslices"
)

// sort orders the boxes inside their rows with the barycenter method: it sweeps down and up, moves each box to the mean
// of its neighbors in the row before, and keeps the order with the fewest crossings. The initial order is that of the
// document, and only a better one replaces it.
func (b *block) sort() {
	above, below := make([][]int, len(b.boxes)), make([][]int, len(b.boxes))
	for _, s := range b.segs {
		above[s.lower] = append(above[s.lower], s.upper)
		below[s.upper] = append(below[s.upper], s.lower)
	}
	// Only segs in the same gap can cross.
	gaps := make([][]seg, len(b.rows))
	for _, s := range b.segs {
		r := b.boxes[s.upper].row
		gaps[r] = append(gaps[r], s)
	}
	best := b.crossings(gaps)
	if best == 0 {
		return
	}
	keep := b.snapshot()
	// The method may alternate between orders without end, so the number of sweeps is fixed.
	const sweeps = 12
	for sweep := range sweeps {
		if sweep%2 == 0 {
			for r := 1; r < len(b.rows); r++ {
				b.sortRow(r, above)
			}
		} else {
			for r := len(b.rows) - 2; r >= 0; r-- {
				b.sortRow(r, below)
			}
		}
		if n := b.crossings(gaps); n < best {
			best, keep = n, b.snapshot()
			if best == 0 {
				break
			}
		}
	}
	b.rows = keep
	b.restoreSides()
}

// snapshot returns a copy of the order of all rows.
func (b *block) snapshot() [][]int {
	return xslices.Map(b.rows, func(one []int) []int { return slices.Clone(one) })
}

// offset returns a box's position in its row, relative to the row's center.
func (b *block) offset(i int) float64 {
	return float64(b.boxes[i].pos) - float64(len(b.rows[b.boxes[i].row])-1)/2
}

// sortRow sorts a row by the mean offset of each box's neighbors. A box without neighbors keeps its place. Fallbacks do
// not count: they move with their steps.
func (b *block) sortRow(r int, neighbors [][]int) {
	if len(b.rows[r]) < 2 {
		return
	}
	type weighed struct {
		box int
		at  float64
	}
	var units []weighed
	for _, i := range b.rows[r] {
		if b.isSide(i) {
			continue
		}
		at := b.offset(i)
		if near := neighbors[i]; len(near) > 0 {
			at = 0
			for _, n := range near {
				at += b.offset(n)
			}
			at /= float64(len(near))
		}
		units = append(units, weighed{i, at})
	}
	slices.SortStableFunc(units, func(p, q weighed) int { return cmp.Compare(p.at, q.at) })
	b.rows[r] = xslices.Map(units, func(u weighed) int { return u.box })
	b.restoreRow(r)
}

// crossings returns the number of pairs of lines that cross. Lines that share a box do not cross: one of the
// comparisons is 0 then. It needs quadratic time for each gap, which the limits of fold.go bound.
func (b *block) crossings(gaps [][]seg) int {
	n := 0
	for _, gap := range gaps {
		for i, s := range gap {
			for _, t := range gap[:i] {
				up := cmp.Compare(b.boxes[s.upper].pos, b.boxes[t.upper].pos)
				down := cmp.Compare(b.boxes[s.lower].pos, b.boxes[t.lower].pos)
				if up*down < 0 {
					n++
				}
			}
		}
	}
	return n
}

// align groups boxes that should be exactly below each other into columns. A box can be in only one column, and joining
// two columns can rule out later joins, so the most important alignments come first: the bends of one line, then each
// step and the step where all its paths join, then labels and their targets.
func (b *block) align() {
	for i := range b.boxes {
		b.boxes[i].column = i
	}
	t := &tie{block: b, members: make([][]int, len(b.boxes))}
	for i := range b.boxes {
		t.members[i] = []int{i}
	}
	lines := func(want func(upper, lower int) bool) {
		for _, s := range b.segs {
			if want(s.upper, s.lower) {
				t.join(s.upper, s.lower)
			}
		}
	}
	lines(func(u, l int) bool { return b.boxes[u].bend && b.boxes[l].bend })
	for _, pair := range b.spine() {
		t.join(pair[0], pair[1])
	}
	lines(func(u, l int) bool { return b.boxes[u].link >= 0 && b.boxes[l].bend })
	into, outOf := make([]int, len(b.boxes)), make([]int, len(b.boxes))
	for _, s := range b.segs {
		into[s.lower]++
		outOf[s.upper]++
	}
	lines(func(u, l int) bool { return into[l] == 1 && (outOf[u] == 1 || b.boxes[u].link >= 0) })
	lines(func(u, l int) bool { return outOf[u] == 1 && b.boxes[l].bend })
}

// tie joins columns as long as they can still be ordered.
type tie struct {
	*block
	members [][]int // boxes by column
}

// join merges the columns of two boxes, unless that would be impossible: a column that the rows require to be to the
// left of another cannot have the same x. So the order of the columns stays free of cycles, and placeColumns has a
// solution.
func (t *tie) join(p, q int) {
	a, b := t.boxes[p].column, t.boxes[q].column
	if a == b || t.leftOf(a, b) || t.leftOf(b, a) {
		return
	}
	if len(t.members[a]) < len(t.members[b]) {
		a, b = b, a
	}
	for _, i := range t.members[b] {
		t.boxes[i].column = a
	}
	t.members[a] = append(t.members[a], t.members[b]...)
	t.members[b] = nil
}

// leftOf reports whether the rows require column a to be to the left of column b.
func (t *tie) leftOf(a, b int) bool {
	seen := map[int]bool{a: true}
	queue := []int{a}
	for len(queue) > 0 {
		c := queue[0]
		queue = queue[1:]
		for _, i := range t.members[c] {
			row := t.rows[t.boxes[i].row]
			if t.boxes[i].pos+1 >= len(row) {
				continue
			}
			next := t.boxes[row[t.boxes[i].pos+1]].column
			if next == b {
				return true
			}
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	return false
}

// spine returns the pairs of items that belong below each other: a step and the step where all its paths join, and a
// step with its only branch (or the middle one of several). The joining step is found with dominators in both
// directions: all ways to v lead through u, and all ways from u lead through v.
func (b *block) spine() [][2]int {
	n := len(b.items)
	out, in := make([][]int, n), make([][]int, n)
	for _, l := range b.links {
		if !l.back && !l.beside && l.edge >= 0 && styleOf(l.kind) == lineNormal && b.side[l.from] < 0 {
			out[l.from] = append(out[l.from], l.to)
			in[l.to] = append(in[l.to], l.from)
		}
	}
	// Without the links that lead back, the ranks are a topological order.
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(p, q int) int { return b.ranks[p] - b.ranks[q] })
	before := dominators(order, in)
	slices.Reverse(order)
	after := dominators(order, out)
	var pairs [][2]int
	arms := make([][]int, n)
	for v := range n {
		u := before[v]
		if u < 0 {
			continue
		}
		if after[u] == v {
			pairs = append(pairs, [2]int{u, v})
		} else {
			arms[u] = append(arms[u], v)
		}
	}
	onward := map[[2]int]bool{}
	for _, l := range b.links {
		if l.kind == EdgeFlow {
			onward[[2]int{l.from, l.to}] = true
		}
	}
	middle := func(all []int) int {
		slices.SortFunc(all, func(p, q int) int { return b.boxes[p].pos - b.boxes[q].pos })
		return all[len(all)/2]
	}
	for u, all := range arms {
		chain := slices.DeleteFunc(slices.Clone(all), func(v int) bool { return !onward[[2]int{u, v}] })
		if len(chain) == 1 {
			all = chain // the others are jumps: the chain continues straight
		}
		if major := slices.DeleteFunc(slices.Clone(all), b.minor); len(major) > 0 {
			all = major
		}
		if len(all)%2 == 1 {
			pairs = append(pairs, [2]int{u, middle(all)})
		}
	}
	for v, all := range in {
		// With several starting points, the middle one is above the first step.
		if len(all)%2 == 1 && before[v] < 0 {
			pairs = append(pairs, [2]int{middle(all), v})
		}
	}
	return pairs
}

// minor reports whether an item only ends an edge; nothing else moves for it.
func (b *block) minor(i int) bool {
	n := b.nodes[b.items[i]]
	return n != nil && (n.Kind == NodeFail || n.Kind == NodeExit)
}

// dominators returns for each item the nearest one on all paths to it (its immediate dominator), or -1. In order, every
// item follows its predecessors, so one pass is enough: the dominator of an item is the nearest common ancestor of its
// predecessors in the tree of dominators.
func dominators(order []int, in [][]int) []int {
	n := len(order)
	dom, depth := make([]int, n), make([]int, n)
	for _, v := range order {
		dom[v] = -1
		for k, u := range in[v] {
			if k == 0 {
				dom[v] = u
				continue
			}
			a := dom[v]
			for a != u {
				if a < 0 || u < 0 {
					a = -1
					break
				}
				if depth[a] >= depth[u] {
					a = dom[a]
				} else {
					u = dom[u]
				}
			}
			dom[v] = a
		}
		if dom[v] >= 0 {
			depth[v] = depth[dom[v]] + 1
		}
	}
	return dom
}

// placeColumns sets the x of each column. Each column is pulled toward the mean of its neighbors, while rows keep their
// order and distances. That is a quadratic program: minimize the sum of weight·(difference in x)² over all lines,
// subject to a minimum distance between neighbors in a row. solve approximates its solution, and snap guarantees the
// limits, which an approximation may violate.
func (b *block) placeColumns() {
	c := &columns{block: b, x: make([]float64, len(b.boxes))}
	c.addLimits()
	c.addPulls()
	c.spreadOut()
	c.solve()
	c.snap()
	c.straighten()
	for i := range b.boxes {
		b.boxes[i].x = c.x[b.boxes[i].column]
	}
}

// columns is the quadratic program of placeColumns. Columns are numbered by their first box, so x, pulls and weight
// have unused elements; all has the numbers in use.
type columns struct {
	*block
	x      []float64
	all    []int // the columns in use
	limits []limit
	pulls  [][]pull
	weight []float64 // sum of the weights of a column's pulls
}

// limit is a minimum distance between two columns. force is its Lagrange multiplier, and never negative: a limit pushes
// columns apart, and does not pull them together.
type limit struct {
	left, right int
	gap, force  float64
}

// pull attracts a column to another one.
type pull struct {
	to     int
	weight float64
}

// addLimits adds a limit for each pair of neighbors in a row.
func (c *columns) addLimits() {
	at := map[[2]int]int{}
	for _, row := range c.rows {
		for i := 1; i < len(row); i++ {
			l, r := &c.boxes[row[i-1]], &c.boxes[row[i]]
			key := [2]int{l.column, r.column}
			gap := l.right + r.left + c.gap(row[i-1], row[i])
			if k, ok := at[key]; ok {
				c.limits[k].gap = max(c.limits[k].gap, gap)
				continue
			}
			at[key] = len(c.limits)
			c.limits = append(c.limits, limit{left: l.column, right: r.column, gap: gap})
		}
	}
}

// addPulls adds a pull for each line between two columns. Links to fallbacks and links that lead back have no segs and
// pull weakly. A column without lines gets a small weight, because the forces are divided by it.
func (c *columns) addPulls() {
	c.pulls, c.weight = make([][]pull, len(c.boxes)), make([]float64, len(c.boxes))
	add := func(p, q int, w float64) {
		p, q = c.boxes[p].column, c.boxes[q].column
		if p != q {
			c.pulls[p] = append(c.pulls[p], pull{q, w})
			c.pulls[q] = append(c.pulls[q], pull{p, w})
			c.weight[p] += w
			c.weight[q] += w
		}
	}
	for _, s := range c.segs {
		add(s.upper, s.lower, s.weight)
	}
	for _, l := range c.links {
		if l.beside || l.edge < 0 || l.back {
			add(l.from, l.to, 0.3)
		}
	}
	for i := range c.boxes {
		if c.boxes[i].column == i {
			c.all = append(c.all, i)
			c.weight[i] = max(c.weight[i], 0.01)
		}
	}
}

// spreadOut sets an initial x from left to right that satisfies most limits.
func (c *columns) spreadOut() {
	c.push(len(c.rows), func(x float64) float64 { return x })
}

// push moves columns to the right until all limits hold, in at most the given number of rounds. round maps the new x of
// a column.
func (c *columns) push(rounds int, round func(float64) float64) {
	for range rounds {
		moved := false
		for _, l := range c.limits {
			if c.x[l.right] < c.x[l.left]+l.gap-1e-9 {
				c.x[l.right] = round(c.x[l.left] + l.gap)
				moved = true
			}
		}
		if !moved {
			return
		}
	}
}

// solve alternates between moving every column to the mean of its neighbors and correcting for the limits with
// Hildreth's method. The forces of the limits carry over from round to round; otherwise each round would start by
// undoing what the limits had achieved. Large pictures get fewer rounds, which bounds the time.
func (c *columns) solve() {
	rounds := 300
	if len(c.boxes) > 2000 {
		rounds = 80
	} else if len(c.limits) == 0 {
		rounds = 1
	}
	for range rounds {
		old := slices.Clone(c.x)
		c.moveToMean(old)
		c.applyLimits()
		largest := 0.0
		for _, i := range c.all {
			largest = max(largest, math.Abs(c.x[i]-old[i]))
		}
		if largest < 0.05 {
			return
		}
	}
}

// moveToMean moves every column toward the weighted mean of the columns that pull at it, all from their old positions.
func (c *columns) moveToMean(old []float64) {
	for _, i := range c.all {
		mean := 0.0
		for _, p := range c.pulls[i] {
			mean += p.weight * old[p.to]
		}
		if len(c.pulls[i]) > 0 {
			// Half the distance, so that two columns that attract each other do not swap forever.
			c.x[i] = (old[i] + mean/c.weight[i]) / 2
		}
	}
}

// applyLimits moves the columns apart by the forces so far, then corrects the forces limit by limit. A step may reduce
// a force down to 0, when the pulls alone satisfy the limit. The lighter column moves farther.
func (c *columns) applyLimits() {
	shift := func(l *limit, force float64) {
		c.x[l.left] -= force / c.weight[l.left]
		c.x[l.right] += force / c.weight[l.right]
	}
	for i := range c.limits {
		shift(&c.limits[i], c.limits[i].force)
	}
	for range 8 {
		for i := range c.limits {
			l := &c.limits[i]
			missing := l.gap - (c.x[l.right] - c.x[l.left])
			step := max(missing/(1/c.weight[l.left]+1/c.weight[l.right]), -l.force)
			l.force += step
			shift(l, step)
		}
	}
}

// snap rounds the columns to whole units, which makes vertical lines sharp, and removes remaining violations of limits.
// It rounds up, so that a correction does not violate the limit again.
func (c *columns) snap() {
	for _, i := range c.all {
		c.x[i] = math.Round(c.x[i])
	}
	c.push(len(c.boxes), math.Ceil)
}

// straighten aligns columns that are almost aligned, if there is space: small steps in a line look like mistakes. It
// runs after snap and keeps all limits.
func (c *columns) straighten() {
	free := func(i int, to float64) bool {
		return !slices.ContainsFunc(c.limits, func(l limit) bool {
			return l.left == i && c.x[l.right] < to+l.gap || l.right == i && to < c.x[l.left]+l.gap
		})
	}
	size := make([]int, len(c.boxes))
	for i := range c.boxes {
		size[c.boxes[i].column]++
	}
	for _, s := range c.segs {
		p, q := c.boxes[s.upper].column, c.boxes[s.lower].column
		if size[p] > size[q] { // prefer to move the smaller column
			p, q = q, p
		}
		const almost = 14
		if d := math.Abs(c.x[p] - c.x[q]); d > 0 && d <= almost {
			if free(p, c.x[q]) {
				c.x[p] = c.x[q]
			} else if free(q, c.x[p]) {
				c.x[q] = c.x[p]
			}
		}
	}
}

// gap returns the minimum space between two neighbors in a row.
func (b *block) gap(left, right int) float64 {
	l, r := &b.boxes[left], &b.boxes[right]
	switch {
	case b.isSide(left):
		gap := b.besideGap
		for i := range b.links {
			if k := &b.links[i]; k.beside && k.to == left && k.text != "" {
				gap = max(gap, k.width+34)
			}
		}
		return gap
	case l.bend || r.bend:
		return bendGap
	case l.link >= 0 || r.link >= 0:
		return 12
	default:
		return b.besideGap
	}
}
