package graph

import (
	"slices"

	"github.com/espalier-run/espalier/internal/xslices"
)

// outline is the graph as a tree: the direct members of each frame, in document order. "" is the page itself.
type outline struct {
	nodes   map[string]*Node // with those of frames
	groups  map[string]*Group
	members map[string][]string
}

// outline returns the graph as a tree.
func (g *Graph) outline() outline {
	o := outline{nodes: map[string]*Node{}, groups: map[string]*Group{}, members: map[string][]string{}}
	for n := range g.all() {
		o.nodes[n.ID] = n
		o.members[n.Group] = append(o.members[n.Group], n.ID)
	}
	for i := range g.Groups {
		o.groups[g.Groups[i].ID] = &g.Groups[i]
	}
	for _, inside := range o.members {
		slices.SortStableFunc(inside, func(a, b string) int { return o.nodes[a].Order - o.nodes[b].Order })
	}
	return o
}

// lines returns the text of a node for writers without their own layout.
func (n *Node) lines() []string {
	kind := n.Label
	if kind != "" && n.Detail != "" {
		kind += ": "
	}
	kind += n.Detail
	if n.Off {
		kind += " (off)"
	}
	notes := xslices.Map(n.Notes, func(note Note) string { return note.String() })
	var lines []string
	for _, line := range slices.Concat([]string{n.Title, n.Text, kind}, notes, []string{string(n.State)}) {
		if line != "" {
			lines = append(lines, shorten(line, 60))
		}
	}
	return lines
}

// String returns the note as shown in a picture.
func (n Note) String() string {
	switch n.Kind {
	case NoteWhen:
		return "when " + n.Text
	case NoteStop:
		return "stops when " + n.Text
	case NoteWait:
		return "waits " + n.Text
	default:
		return n.Text
	}
}

// shorten cuts s to n characters, the last of which is then "…".
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	count := 0
	cut := 0
	for i := range s {
		if count == n-1 {
			cut = i
		}
		count++
	}
	if count <= n {
		return s
	}
	return s[:cut] + "…"
}
