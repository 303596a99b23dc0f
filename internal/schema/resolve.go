package schema

import (
	"net/url"
	"strconv"
	"strings"
)

// resource is a schema with an identity of its own.
type resource struct {
	uri     *url.URL
	root    *Node
	pointer string
	anchors map[string]*Node
	dynamic map[string]*Node
}

// base is the identity of a schema that does not say its own.
func base() *url.URL { return &url.URL{Scheme: "schema", Path: "/"} }

func (c *compiler) newResource(uri *url.URL, pointer string) *resource {
	r := &resource{uri: uri, pointer: pointer, anchors: map[string]*Node{}, dynamic: map[string]*Node{}}
	c.resources[uri.String()] = r
	return r
}

// identify gives a schema the identity that it says.
func (c *compiler) identify(n *Node, id, at string) {
	if anchor, ok := strings.CutPrefix(id, "#"); ok && c.draft <= draft7 {
		n.within.anchors[anchor] = n
		return
	}
	u, err := url.Parse(strings.TrimSuffix(id, "#"))
	if err != nil || u.Fragment != "" {
		c.problem(at, "%q is not an identity, which is a URI without a fragment", id)
		return
	}
	u = n.within.uri.ResolveReference(u)
	if other := c.resources[u.String()]; other != nil && other.root != n {
		c.problem(at, "%q is the identity of another schema already", id)
		return
	}
	n.within = c.newResource(u, n.pointer)
	n.within.root = n
}

// resolve finds what a reference leads to, once the whole schema is read.
func (c *compiler) resolve(ref, at string, from *Node, found func(to *Node, anchor string)) {
	c.open = append(c.open, func() {
		u, err := url.Parse(ref)
		if err != nil {
			c.problem(at, "%q is not a reference", ref)
			return
		}
		u = from.within.uri.ResolveReference(u)
		fragment := u.Fragment
		u.Fragment, u.RawFragment = "", ""
		res := c.resources[u.String()]
		switch {
		case res == nil:
			c.problem(at, "it refers to %q, and only references inside the schema itself are followed", ref)
			c.problems[len(c.problems)-1].Outside = true
		case fragment == "":
			found(res.root, "")
		case fragment[0] != '/':
			if n := res.anchors[fragment]; n != nil {
				found(n, fragment)
			} else {
				c.problem(at, "it refers to the anchor %q, which it does not have", fragment)
			}
		default:
			if n := c.follow(res.pointer + fragment); n != nil {
				found(n, "")
			} else {
				c.problem(at, "it refers to %q, which it does not have", ref)
			}
		}
	})
}

// follow walks a JSON pointer; nil when it leads nowhere. What it leads to is
// a schema even where no keyword makes it one.
func (c *compiler) follow(pointer string) *Node {
	if strings.Count(pointer, "/") > deepest {
		return nil
	}
	v, in, at := c.doc, c.nodes[""].within, ""
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		name := strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		switch container := v.(type) {
		case map[string]any:
			inner, ok := container[name]
			if !ok {
				return nil
			}
			v = inner
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(container) {
				return nil
			}
			v = container[i]
		default:
			return nil
		}
		at += "/" + escapes.Replace(name)
		if n := c.nodes[at]; n != nil {
			in = n.within
		}
	}
	return c.node(v, at, in)
}
