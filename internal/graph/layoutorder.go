package graph

import (
	"cmp"
	"math"
	"slices"
)

// sort orders the boxes inside their rows: sweep down and up, put each box at
// the mean of its neighbours, and keep the order with the fewest crossings.
// The first order is that of the document, and only a better one replaces it.
func (b *block) sort() {
	above, below := make([][]int, len(b.boxes)), make([][]int, len(b.boxes))
	for _, s := range b.segs {
		above[s.lower] = append(above[s.lower], s.upper)
		below[s.upper] = append(below[s.upper], s.lower)
	}
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

func (b *block) snapshot() [][]int {
	rows := make([][]int, len(b.rows))
	for i := range b.rows {
		rows[i] = slices.Clone(b.rows[i])
	}
	return rows
}

// place is a box's position in its row, counted from the row's middle.
func (b *block) offset(i int) float64 {
	return float64(b.boxes[i].pos) - float64(len(b.rows[b.boxes[i].row])-1)/2
}

func (b *block) sortRow(r int, neighbours [][]int) {
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
		if near := neighbours[i]; len(near) > 0 {
			at = 0
			for _, n := range near {
				at += b.offset(n)
			}
			at /= float64(len(near))
		}
		units = append(units, weighed{i, at})
	}
	slices.SortStableFunc(units, func(p, q weighed) int { return cmp.Compare(p.at, q.at) })
	row := b.rows[r][:0]
	for _, u := range units {
		row = append(row, u.box)
	}
	b.rows[r] = row
	b.restoreRow(r)
}

// crossings counts pairs of lines that cross.
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

// align ties boxes that should stand exactly under each other into columns:
// first the bends of one line, then each step and the one that all its ways
// lead to, then labels and what they lead to.
func (b *block) align() {
	for i := range b.boxes {
		b.boxes[i].column = i
	}
	t := &tie{block: b, members: make([][]int, len(b.boxes))}
	for i := range b.boxes {
		t.members[i] = []int{i}
	}
	lines := func(want func(upper, lower *box) bool) {
		for _, s := range b.segs {
			if want(&b.boxes[s.upper], &b.boxes[s.lower]) {
				t.join(s.upper, s.lower)
			}
		}
	}
	lines(func(u, l *box) bool { return u.bend && l.bend })
	for _, pair := range b.spine() {
		t.join(pair[0], pair[1])
	}
	lines(func(u, l *box) bool { return u.link >= 0 && l.bend })
	into, outOf := make([]int, len(b.boxes)), make([]int, len(b.boxes))
	for _, s := range b.segs {
		into[s.lower]++
		outOf[s.upper]++
	}
	for _, s := range b.segs {
		if into[s.lower] == 1 && (outOf[s.upper] == 1 || b.boxes[s.upper].link >= 0) {
			t.join(s.upper, s.lower)
		}
	}
	for _, s := range b.segs {
		if outOf[s.upper] == 1 && b.boxes[s.lower].bend {
			t.join(s.upper, s.lower)
		}
	}
}

// tie joins columns as long as they can still be put in an order.
type tie struct {
	*block
	members [][]int // boxes by column
}

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

// leftOf reports whether something in the rows demands that column a stands
// left of column b.
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

// spine finds the pairs of items that belong under each other: a step and the
// one that every way from it comes back to, and a step with its only arm (or
// the middle one of several).
func (b *block) spine() [][2]int {
	n := len(b.items)
	out, in := make([][]int, n), make([][]int, n)
	for _, l := range b.links {
		if !l.back && !l.beside && l.edge >= 0 && styleOf(l.kind) == lineNormal && b.side[l.from] < 0 {
			out[l.from] = append(out[l.from], l.to)
			in[l.to] = append(in[l.to], l.from)
		}
	}
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
	for u, all := range arms {
		chain := slices.DeleteFunc(slices.Clone(all), func(v int) bool { return !onward[[2]int{u, v}] })
		if len(chain) == 1 {
			all = chain // the others are jumps: the chain goes on straight
		}
		if major := slices.DeleteFunc(slices.Clone(all), b.minor); len(major) > 0 {
			all = major
		}
		if len(all)%2 == 1 {
			slices.SortFunc(all, func(p, q int) int { return b.boxes[p].pos - b.boxes[q].pos })
			pairs = append(pairs, [2]int{u, all[len(all)/2]})
		}
	}
	for v, all := range in {
		// Several ways to begin: the middle one stands over the first step.
		if len(all)%2 == 1 && before[v] < 0 {
			slices.SortFunc(all, func(p, q int) int { return b.boxes[p].pos - b.boxes[q].pos })
			pairs = append(pairs, [2]int{all[len(all)/2], v})
		}
	}
	return pairs
}

// minor items only end an edge; nothing else is moved for their sake.
func (b *block) minor(i int) bool {
	n := b.nodes[b.items[i]]
	return n != nil && (n.Kind == NodeFail || n.Kind == NodeExit)
}

// dominators gives for each item the nearest one that all ways to it go
// through, or -1. order has every item after those that lead to it.
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

// settle gives each column its x: each wants to be at the mean of its
// neighbours, and rows keep their order and distances. That is a quadratic
// programme; it is solved by moving every column to its mean and correcting
// for the distances (Hildreth's method, whose corrections carry over).
func (b *block) settle() {
	type apart struct {
		left, right int
		gap, force  float64
	}
	var limits []apart
	gapAt := map[[2]int]int{}
	for _, row := range b.rows {
		for i := 1; i < len(row); i++ {
			l, r := &b.boxes[row[i-1]], &b.boxes[row[i]]
			key := [2]int{l.column, r.column}
			gap := l.right + r.left + b.gap(row[i-1], row[i])
			if at, there := gapAt[key]; there {
				limits[at].gap = max(limits[at].gap, gap)
				continue
			}
			gapAt[key] = len(limits)
			limits = append(limits, apart{left: l.column, right: r.column, gap: gap})
		}
	}
	type pull struct {
		to     int
		weight float64
	}
	n := len(b.boxes)
	pulls := make([][]pull, n)
	weight := make([]float64, n)
	add := func(p, q int, w float64) {
		p, q = b.boxes[p].column, b.boxes[q].column
		if p != q {
			pulls[p] = append(pulls[p], pull{q, w})
			pulls[q] = append(pulls[q], pull{p, w})
			weight[p] += w
			weight[q] += w
		}
	}
	for _, s := range b.segs {
		add(s.upper, s.lower, s.weight)
	}
	for _, l := range b.links {
		if l.beside || l.edge < 0 || l.back {
			add(l.from, l.to, 0.3)
		}
	}
	x := make([]float64, n)
	var columns []int
	for i := range b.boxes {
		if b.boxes[i].column == i {
			columns = append(columns, i)
			weight[i] = max(weight[i], 0.01)
		}
	}
	// A first guess from left to right.
	for range len(b.rows) {
		moved := false
		for _, l := range limits {
			if x[l.right] < x[l.left]+l.gap-1e-9 {
				x[l.right] = x[l.left] + l.gap
				moved = true
			}
		}
		if !moved {
			break
		}
	}
	rounds := 300
	if len(limits) == 0 {
		rounds = 1
	}
	if n > 2000 {
		rounds = 80
	}
	for range rounds {
		largest := 0.0
		old := slices.Clone(x)
		for _, c := range columns {
			mean := 0.0
			for _, p := range pulls[c] {
				mean += p.weight * old[p.to]
			}
			if len(pulls[c]) > 0 {
				// Half way: two columns that want each other's place must not swap for ever.
				x[c] = (old[c] + mean/weight[c]) / 2
			}
		}
		for i := range limits {
			l := &limits[i]
			x[l.left] -= l.force / weight[l.left]
			x[l.right] += l.force / weight[l.right]
		}
		for range 8 {
			for i := range limits {
				l := &limits[i]
				short := l.gap - (x[l.right] - x[l.left])
				step := short / (1/weight[l.left] + 1/weight[l.right])
				step = max(step, -l.force)
				l.force += step
				x[l.left] -= step / weight[l.left]
				x[l.right] += step / weight[l.right]
			}
		}
		for _, c := range columns {
			largest = max(largest, math.Abs(x[c]-old[c]))
		}
		if largest < 0.05 {
			break
		}
	}
	for _, c := range columns {
		x[c] = math.Round(x[c])
	}
	// What is left of a violation is pushed out to the right.
	for range n {
		moved := false
		for _, l := range limits {
			if x[l.right] < x[l.left]+l.gap-1e-9 {
				x[l.right] = math.Ceil(x[l.left] + l.gap)
				moved = true
			}
		}
		if !moved {
			break
		}
	}
	// A column that is almost in line with its neighbour moves into line when
	// there is room: small steps in a line look like mistakes.
	free := func(c int, to float64) bool {
		for _, l := range limits {
			if l.left == c && x[l.right] < to+l.gap || l.right == c && to < x[l.left]+l.gap {
				return false
			}
		}
		return true
	}
	size := make([]int, n)
	for i := range b.boxes {
		size[b.boxes[i].column]++
	}
	for _, s := range b.segs {
		p, q := b.boxes[s.upper].column, b.boxes[s.lower].column
		if size[p] > size[q] {
			p, q = q, p
		}
		const almost = 14
		if d := math.Abs(x[p] - x[q]); d > 0 && d <= almost {
			if free(p, x[q]) {
				x[p] = x[q]
			} else if free(q, x[p]) {
				x[q] = x[p]
			}
		}
	}
	for i := range b.boxes {
		b.boxes[i].x = x[b.boxes[i].column]
	}
}

// gap is the room between two neighbours in a row.
func (b *block) gap(left, right int) float64 {
	l, r := &b.boxes[left], &b.boxes[right]
	switch {
	case b.isSide(left):
		for i := range b.links {
			if k := &b.links[i]; k.beside && k.to == left {
				return max(besideGap, k.width+34)
			}
		}
		return besideGap
	case l.bend && r.bend:
		return bendGap
	case l.bend || r.bend:
		return bendGap
	case l.link >= 0 || r.link >= 0:
		return 12
	default:
		return besideGap
	}
}
