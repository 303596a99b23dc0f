package text_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

// checkSpan fails the test unless the span is in the file.
func checkSpan(t *testing.T, f *source.File, s source.Span, what string) {
	t.Helper()
	if s.File != f.Path || s.Start < 0 || s.End < s.Start || s.End > len(f.Text) {
		t.Fatalf("%s: span %+v does not lie in the file of %d bytes", what, s, len(f.Text))
	}
}

func checkDiagnostics(t *testing.T, f *source.File, l diag.List) {
	t.Helper()
	for _, d := range l {
		checkSpan(t, f, d.Span, d.Message)
		if d.Message == "" || d.Code == "" {
			t.Fatalf("diagnostic without a code or a message: %+v", d)
		}
		for _, r := range d.Related {
			checkSpan(t, f, r.Span, r.Message)
		}
	}
}

// checkTree checks the contract of Node: spans are in the file, and a span has the length of the content exactly if the
// file contains the content there.
func checkTree(t *testing.T, f *source.File, n *text.Node) {
	t.Helper()
	checkSpan(t, f, n.Span, n.Value)
	if n.Kind < text.List {
		written := f.Text[n.Span.Start:n.Span.End]
		if n.Exact() != (written == n.Value) {
			t.Fatalf("%q: exact is %v, but the file says %q", n.Value, n.Exact(), written)
		}
	}
	for _, item := range n.Items {
		checkTree(t, f, item)
	}
	for _, p := range n.Pairs {
		checkTree(t, f, p.Key)
		checkTree(t, f, p.Value)
	}
}

// checkOrder checks that values are in their parent, in order and without overlap. Aliases and merged keys are
// elsewhere, so texts with an asterisk are skipped.
func checkOrder(t *testing.T, n *text.Node) {
	t.Helper()
	at := n.Span.Start
	inside := func(child *text.Node) {
		t.Helper()
		if child.Span.Start < at || child.Span.End > n.Span.End {
			t.Fatalf("%s %q at %d-%d is not where it should be, in %d-%d", child.Kind, child.Value, child.Span.Start,
				child.Span.End, at, n.Span.End)
		}
		at = child.Span.End
		checkOrder(t, child)
	}
	for _, item := range n.Items {
		inside(item)
	}
	for _, p := range n.Pairs {
		inside(p.Key)
		inside(p.Value)
	}
}

func FuzzYAML(f *testing.F) {
	for _, seed := range []string{
		"", "a: b\n", "a: b: c\n", "a:\n\t- x\n", "a: \"x\nb: c\n", "a: [x, y\nb: c\n", "a:\n  b: 1\n c: 2\n",
		"a: @x\n", "a: [x] y\n", "- a\nb: c\n", "a: &x [1, 2]\nb: *x\n", "a: &x [*x]\n", "<<: {a: 1}\nb: 2\n",
		"a: |\n  x\n\n  y\n", "a: >-\n   x\n   y\nb: 1", "é: \"ü\" # c\nb: 'x''y'\n",
		"a:\n- &q x\n- !!str &z y\n- ? k\n  : v\n",
		"--- a\n...\n", "# only\n", "\ufeffa: b\r\nc: d\r\n", "a: \"\\P\\P\"\n", "{a: b, c, [d]: e}\n", "[a: b, ? c]\n",
		"a: !foo bar\nb: !!int 12\nc: !!float 1e3\n", "a: foo\n  bar\n\n  baz\n", "a: |2\n   x\n  y\n",
		"a: b\u2028c\u0085d\n",
		"a: 0x1F\nb: 0o17\nc: .inf\nd: 2020-01-01\n", "a: 1\n---\nb: 2\n", "a: !<tag:x> y\n", "a: \x01\n", "a: \xff\n",
		"description: Use this: it is good\n  and: that\nname: x\n", "on: push\ntrue: 1\n", "a: | x\n y\n",
		"a:b\nc: d\n",
		"words\na: b\n",
		"!\n&0: 0\n0: 00", "a:\n  - b\n   - c\n", "a { b: c }\nd:[e: f]\n", "a:  b: c }\n", "a: b: c\"\n",
		"a: |\n   b\n  c\n d\n", "a:\n b: 1\n  c: 2\n",
	} {
		f.Add(seed, 0, len(seed))
		f.Add("# Title\n"+seed+"\nafter", 8, 8+len(seed))
	}
	f.Fuzz(func(t *testing.T, s string, start, end int) {
		file := source.NewFile("a.yaml", s)
		if whole, _ := text.ParseYAML(file, 0, len(s)); whole != nil && !strings.ContainsAny(s, "*<") {
			checkTree(t, file, whole)
			checkOrder(t, whole)
		}
		n, list := text.ParseYAML(file, start, end)
		checkDiagnostics(t, file, list)
		if n == nil && !list.Errors() {
			t.Fatal("neither a tree nor an error")
		}
		if n != nil {
			checkTree(t, file, n)
			if raw := n.JSON(); !json.Valid(raw) {
				t.Fatalf("not JSON: %s", raw)
			}
			var out diag.List
			r := text.Read(n, "thing", text.Codes{WrongType: "T", Missing: "M", Unknown: "U", BadValue: "B"}, &out)
			r.Strings("a")
			r.Require("b", "c")
			r.Done()
			checkDiagnostics(t, file, out)
		}
		lenient, repairs, list := text.ParseYAMLLenient(file, start, end)
		checkDiagnostics(t, file, list)
		for _, r := range repairs {
			checkSpan(t, file, r.Value.Span, r.Key)
			checkSpan(t, file, r.Problem.Span, r.Key)
		}
		if lenient != nil {
			checkTree(t, file, lenient)
		}
	})
}

func FuzzMarkdown(f *testing.F) {
	for _, seed := range []string{
		"", "---\nname: x\n---\n# T\n", "---\nname: x\n", "---  \r\na: b\r\n--- \r\nbody", "\ufeff---\na: b\n---",
		"---\n---\n", "---",
		"# A\n\n```step\nid: a\n```\n\n## B\n~~~~step x\n~~~\n~~~~\n", "````md\n```step\n```\n````\n",
		"```step\nid: a\n",
		"- item\n\n  ```step\n  id: a\n  ```\n", "- ```step\n  id: a\n```\n", "> ```step\n> id: a\n> ```\n",
		"Title\n===\n\nTwo\nlines\n---\n", "##\n", "\t```step\n", "```\n```",
		"```step\na: b\n``\n\n# B\n```step\n```\n", "id: a\n```\n\n```step\nb: c\n```\n",
		"```step\n\n# A\n\n```step\n```\n",
		"# A #\n", "1. > - ```x\n```\n", "<div>\n```step\n</div>\n```\n", ">\t```", ">\t````step\n>\tid: a\n>\t````\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		file := source.NewFile("a.md", s)
		d := text.ParseMarkdown(file)
		region := func(r text.Region, what string) {
			if r.Start < 0 || r.End < r.Start || r.End > len(s) {
				t.Fatalf("%s: %+v does not lie in the file of %d bytes", what, r, len(s))
			}
		}
		region(d.Frontmatter, "frontmatter")
		region(d.Body, "body")
		if d.Frontmatter.End > d.Body.Start {
			t.Fatalf("the frontmatter %+v reaches into the body %+v", d.Frontmatter, d.Body)
		}
		for _, h := range d.Headings {
			checkSpan(t, file, h.Span, h.Text)
			if h.Span.Start < d.Body.Start {
				t.Fatalf("heading %q above the body", h.Text)
			}
		}
		for i, fence := range d.Fences {
			checkSpan(t, file, fence.Span, fence.Info)
			checkSpan(t, file, fence.InfoSpan, fence.Info)
			region(fence.Content, fence.Info)
			if got := s[fence.InfoSpan.Start:fence.InfoSpan.End]; got != fence.Info {
				t.Fatalf("info %q, but the file says %q", fence.Info, got)
			}
			if c := s[fence.Span.Start:]; !strings.HasPrefix(c, "```") && !strings.HasPrefix(c, "~~~") {
				t.Fatalf("fence %d does not begin with a fence: %q", i, c)
			}
			if i > 0 && fence.Span.Start < d.Fences[i-1].Span.End {
				t.Fatalf("fences %d and %d overlap", i-1, i)
			}
			if fence.Heading >= len(d.Headings) {
				t.Fatalf("fence %d under heading %d of %d", i, fence.Heading, len(d.Headings))
			}
			text.ParseYAML(file, fence.Content.Start, fence.Content.End)
		}
		checkDiagnostics(t, file, d.Problems("step"))
		d.Repair([]string{"step"}, func(lines string) (string, int) {
			return "step", len(lines) - len(strings.TrimLeft(lines, "\n"))
		})
		for i, fence := range d.Fences {
			checkSpan(t, file, fence.Span, fence.Info)
			checkSpan(t, file, fence.InfoSpan, fence.Info)
			region(fence.Content, fence.Info)
			if i > 0 && fence.Span.Start < d.Fences[i-1].Span.End {
				t.Fatalf("mended fences %d and %d overlap", i-1, i)
			}
			if fence.Heading >= len(d.Headings) {
				t.Fatalf("mended fence %d under heading %d of %d", i, fence.Heading, len(d.Headings))
			}
		}
		checkDiagnostics(t, file, d.Problems("step"))
	})
}
