package text_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

// TestWithin: parts of a text are found where they are written, whatever way of
// writing YAML has for it; all of the text is pointed at where they are not.
func TestWithin(t *testing.T) {
	for name, c := range map[string]struct{ yaml, part, want string }{
		"plain":                  {"k: one {{two}}\n", "{{two}}", "1:8 {{two}}"},
		"quoted as it is":        {"k: \"one {{two}}\"\n", "{{two}}", "1:9 {{two}}"},
		"a literal block":        {"k: |\n  one\n    two {{x}}\n\n  {{y}} z\n", "{{y}}", "5:3 {{y}}"},
		"deeper in it":           {"k: |\n  one\n    two {{x}}\n\n  {{y}} z\n", "{{x}}", "3:9 {{x}}"},
		"begins with a gap":      {"k: |\n\n  one {{x}}\n", "{{x}}", "3:7 {{x}}"},
		"begins deeper":          {"k: |2\n    one\n  {{x}}\n", "{{x}}", "3:3 {{x}}"},
		"at its beginning":       {"k: |\n  {{x}}\n  two\n", "{{x}}", "2:3 {{x}}"},
		"quotes in a block":      {"k: |\n  \"one\"\n  \"{{x}}\"\n", "{{x}}", "3:4 {{x}}"},
		"a folded block":         {"k: >-\n  one\n  two {{x}}\n\n  {{y}}\n", "{{y}}", "5:3 {{y}}"},
		"lines of a plain text":  {"k: one\n  two {{x}}\n", "{{x}}", "2:7 {{x}}"},
		"lines in quotes":        {"k: \"one\n  two {{x}}\"\n", "{{x}}", "2:7 {{x}}"},
		"escaped quotes":         {`k: "one \"{{x}}\" two"` + "\n", "{{x}}", "1:11 {{x}}"},
		"escaped line ends":      {`k: "one\n\ttwo {{x}}"` + "\n", "{{x}}", "1:16 {{x}}"},
		"lines that go on":       {"k: \"one\\\n  two {{x}}\"\n", "{{x}}", "2:7 {{x}}"},
		"doubled quotes":         {"k: 'it''s {{x}}'\n", "{{x}}", "1:11 {{x}}"},
		"CRLF":                   {"k: |\r\n  one\r\n  two {{x}}\r\n", "{{x}}", "3:7 {{x}}"},
		"other escapes: all":     {`k: "\x41 {{x}}"` + "\n", "{{x}}", `1:4 "\x41 {{x}}"`},
		"a part over two lines":  {"k: |\n  {{ x\n  }}\n", "{{ x\n}}", "2:3 {{ x\n  }}"},
		"letters of other kinds": {"k: |\n  für {{ö}}\n  {{x}}\n", "{{x}}", "3:3 {{x}}"},
	} {
		t.Run(name, func(t *testing.T) {
			f := source.NewFile("f.yaml", c.yaml)
			root, _ := text.ParseYAML(f, 0, len(f.Text))
			node := root.Get("k")
			start := strings.Index(node.Value, c.part)
			if start < 0 {
				t.Fatalf("%q is not in %q", c.part, node.Value)
			}
			at := node.Text().SourceMap(f)(start, start+len(c.part))
			pos := f.Position(at.Start)
			if got := fmt.Sprintf("%d:%d %s", pos.Line, pos.Column, f.Text[at.Start:at.End]); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
