package secret

import "strings"

// matcher finds the leftmost and then longest of many texts.
type matcher struct {
	root   node
	begins [256]bool
}

// node is a place in the tree of all texts: what has been read so far.
type node struct {
	edges []edge
	put   string // what takes the place of a text that ends here
	ends  bool
}

type edge struct {
	on byte
	to *node
}

func (n *node) next(c byte) *node {
	for i := range n.edges {
		if n.edges[i].on == c {
			return n.edges[i].to
		}
	}
	return nil
}

// add looks for a text from now on. The first to name a text decides what
// takes its place.
func (m *matcher) add(text, put string) {
	m.begins[text[0]] = true
	at := &m.root
	for i := range len(text) {
		to := at.next(text[i])
		if to == nil {
			to = &node{}
			at.edges = append(at.edges, edge{text[i], to})
		}
		at = to
	}
	if !at.ends {
		at.put, at.ends = put, true
	}
}

// replace puts something else in the place of what it finds. Unless the text
// is at its end, it leaves the rest that may be the beginning of something.
func (m *matcher) replace(text string, end bool) (out, rest string) {
	var b strings.Builder
	done := 0
	for i := 0; i < len(text); {
		if !m.begins[text[i]] {
			i++
			continue
		}
		at, last, put := &m.root, 0, ""
		j := i
		for ; j < len(text); j++ {
			if at = at.next(text[j]); at == nil {
				break
			}
			if at.ends {
				last, put = j+1, at.put
			}
		}
		if at != nil && len(at.edges) > 0 && !end {
			return b.String() + text[done:i], text[i:]
		}
		if last == 0 {
			i++
			continue
		}
		b.WriteString(text[done:i])
		b.WriteString(put)
		i, done = last, last
	}
	if done == 0 {
		return text, ""
	}
	return b.String() + text[done:], ""
}
