package schema

import (
	"net/url"
	"strconv"
	"strings"
)

// resource is a schema with its own $id, or the whole document.
type resource struct {
	uri     *url.URL
	root    *Node
	pointer string
	anchors map[string]*Node
	dynamic map[string]*Node
}

// base returns the URI of a schema without $id.
func base() *url.URL { return &url.URL{Scheme: "schema", Path: "/"} }

// newResource adds a part of the schema with a URI of its own.
func (c *compiler) newResource(uri *url.URL, pointer string) *resource {
	r := &resource{uri: uri, pointer: pointer, anchors: map[string]*Node{}, dynamic: map[string]*Node{}}
	c.resources[uri.String()] = r
	return r
}

// identify handles the $id of a schema.
func (c *compiler) identify(n *Node, id, at string) {
	if anchor, ok := strings.CutPrefix(id, "#"); ok && c.draft <= draft7 {
		n.within.anchors[anchor] = n
		return
	}
	u, err := url.Parse(strings.TrimSuffix(id, "#"))
	if err != nil || u.Fragment != "" {
		c.problem(at, "%q is not a valid identifier: expected a URI without a fragment", id)
		return
	}
	u = n.within.uri.ResolveReference(u)
	if other := c.resources[u.String()]; other != nil && other.root != n {
		c.problem(at, "%q already identifies another schema", id)
		return
	}
	n.within = c.newResource(u, n.pointer)
	n.within.root = n
}

// resolve resolves a reference after the whole schema is compiled and then calls found.
func (c *compiler) resolve(ref, at string, from *Node, found func(to *Node, anchor string)) {
	c.unresolved = append(c.unresolved, func() {
		u, err := url.Parse(ref)
		if err != nil {
			c.problem(at, "%q is not a valid reference", ref)
			return
		}
		u = from.within.uri.ResolveReference(u)
		fragment := u.Fragment
		u.Fragment, u.RawFragment = "", ""
		res := c.resources[u.String()]
		switch {
		case res == nil:
			c.problem(at, "the reference %q leads outside the schema", ref)
			c.problems[len(c.problems)-1].Outside = true
		case fragment == "":
			found(res.root, "")
		case fragment[0] != '/':
			if n := res.anchors[fragment]; n != nil {
				found(n, fragment)
			} else {
				c.problem(at, "the anchor %q is not defined", fragment)
			}
		default:
			if n := c.follow(res.pointer + fragment); n != nil {
				found(n, "")
			} else {
				c.problem(at, "the reference %q has no target", ref)
			}
		}
	})
}

// follow returns the node at a JSON pointer, or nil if the pointer has no target. The target is compiled as a schema
// even if no keyword declares one there.
func (c *compiler) follow(pointer string) *Node {
	if strings.Count(pointer, "/") > maxPointerTokens {
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
