package text

import (
	"bytes"
	"strings"
	"testing"

	"github.com/yuin/goldmark/ast"
	mdtext "github.com/yuin/goldmark/text"

	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/usertest"
)

// work counts the blocks that the library makes, each with the number of blocks around it: what it takes to go through
// the text once.
func work(body []byte) (sum, deepest int) {
	depth := 0
	root := blockParser().Parse(mdtext.NewReader(body))
	_ = ast.Walk(root, func(_ ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			depth++
			sum += depth
			deepest = max(deepest, depth)
		} else {
			depth--
		}
		return ast.WalkContinue, nil
	})
	return sum, deepest
}

func TestNestingCostsNoMoreThanText(t *testing.T) {
	usertest.Run(t, "^TestNestingCostsNoMoreThanText$")
	for name, text := range map[string]string{
		"lists": strings.Repeat("- ", 20_000), "quotations": strings.Repeat(">", 20_000),
		"both": strings.Repeat("> - ", 10_000), "numbers": strings.Repeat("1. ", 10_000),
		"other numbers": strings.Repeat("1) ", 10_000), "tabs": strings.Repeat("-\t", 10_000),
	} {
		d := ParseMarkdown(source.NewFile("x.md", text))
		if list := d.Problems(); len(list) == 0 || list[0].Code != CodeNested {
			t.Errorf("%s: %v", name, list)
		}
		body, _ := flattened(text)
		if _, deepest := work(body); deepest > 2*maxNesting+10 {
			t.Errorf("%s: %d blocks deep", name, deepest)
		}
	}
	fine := "- a\n  - b\n    > c\n\n1. d\n"
	if body, deep := flattened(fine); deep >= 0 || string(body) != fine {
		t.Errorf("%q", body)
	}
}

// FuzzNestingWork asserts that a byte costs a bounded amount of work, counted in blocks.
func FuzzNestingWork(f *testing.F) {
	for _, s := range []string{
		strings.Repeat("- ", 300), strings.Repeat("> ", 300) + "\nx\n", "1. a\n   - b\n", "-\n -\n  -\n",
		// Without the limit, these exceed the bound.
		strings.Repeat("- ", 8000), strings.Repeat("1. ", 8000),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		body, _ := flattened(text)
		if len(body) != len(text) || bytes.Count(body, []byte("\n")) != strings.Count(text, "\n") {
			t.Fatal("places are not what they were")
		}
		if sum, _ := work(body); sum > (2*maxNesting+10)*4*(len(text)+4) {
			t.Errorf("%d for %d bytes", sum, len(text))
		}
	})
}
