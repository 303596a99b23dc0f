package ir

import "slices"

// Component is a set of nodes of a graph that can all reach each other.
type Component struct {
	Nodes  []int
	Cyclic bool // a node can reach itself
}

// Components returns the strongly connected components of a graph, successors first. next has the successors of each
// node. It uses Tarjan's algorithm without recursion, because a chain of steps may be long.
func Components(next [][]int) []Component {
	n := len(next)
	order, low, on := make([]int, n), make([]int, n), make([]bool, n)
	var stack []int
	var found []Component
	clock := 0
	type call struct{ node, edge int }
	var calls []call
	enter := func(node int) {
		clock++
		order[node], low[node], on[node] = clock, clock, true
		stack = append(stack, node)
		calls = append(calls, call{node: node})
	}
	for start := range n {
		if order[start] == 0 {
			enter(start)
		}
		for len(calls) > 0 {
			top := &calls[len(calls)-1]
			node := top.node
			if top.edge < len(next[node]) {
				to := next[node][top.edge]
				top.edge++
				if order[to] == 0 {
					enter(to)
				} else if on[to] {
					low[node] = min(low[node], order[to])
				}
				continue
			}
			calls = calls[:len(calls)-1]
			if len(calls) > 0 {
				up := calls[len(calls)-1].node
				low[up] = min(low[up], low[node])
			}
			if low[node] != order[node] {
				continue
			}
			at := len(stack) - 1
			for stack[at] != node {
				at--
			}
			c := Component{Nodes: slices.Clone(stack[at:])}
			stack = stack[:at]
			slices.Reverse(c.Nodes)
			for _, member := range c.Nodes {
				on[member] = false
			}
			c.Cyclic = len(c.Nodes) > 1 || slices.Contains(next[node], node)
			found = append(found, c)
		}
	}
	return found
}
