package text_test

import (
	"slices"
	"testing"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xslices"
)

// edited returns a text of YAML after the fix that change attaches, or "" if there is none.
func edited(t *testing.T, written string, change func(*diag.Diagnostic, *text.Node)) string {
	t.Helper()
	f := source.NewFile("f.yaml", written)
	n, list := text.ParseYAML(f, 0, len(written))
	if n == nil || list.Errors() {
		t.Fatalf("%q: %v", written, list)
	}
	var out diag.List
	change(out.Errorf("X", n.Span, "", ""), n)
	fixes := out.Located(source.Set{f.Path: f})[0].Fixes
	if len(fixes) == 0 {
		return ""
	}
	got := fixes[0].Apply(f)
	if n, list := text.ParseYAML(source.NewFile("f.yaml", got), 0, len(got)); n == nil || list.Errors() {
		t.Errorf("%q becomes %q: %v", written, got, list)
	}
	return got
}

func TestRemoveEntryKeepsTheRestOfAMap(t *testing.T) {
	for written, want := range map[string]string{
		"a: 1\nx: 2\nb: 3\n":                  "a: 1\nb: 3\n",
		"a: 1\r\nx: 2\r\nb: 3\r\n":            "a: 1\r\nb: 3\r\n",
		"x: 2\nb: 3\n":                        "b: 3\n",
		"a: 1\nx: 2":                          "a: 1\n",
		"a: 1\nx:\nb: 3\n":                    "a: 1\nb: 3\n",
		"a: 1\nx: ~\nb: 3\n":                  "a: 1\nb: 3\n",
		"a: 1\n'x' : 'it''s'\nb: 3\n":         "a: 1\nb: 3\n",
		"a: 1\n\"x\": \"\"\nb: 3\n":           "a: 1\nb: 3\n",
		"a: 1\nx: \"b: \\\"c\\\" d\"\nb: 3\n": "a: 1\nb: 3\n",
		"a: 1\nx: two\n  lines\nb: 3\n":       "a: 1\nb: 3\n",
		"a: 1\nx: \"two\n  lines\"\nb: 3\n":   "a: 1\nb: 3\n",
		"a: 1\nx: |\n  b: 1\n\n  'c\nb: 3\n":  "a: 1\nb: 3\n",
		"a: 1\nx: >-\n  \"c\" d\nb: 3\n":      "a: 1\nb: 3\n",
		"a: 1\nx: |\n  c\n":                   "a: 1\n",
		"a: 1\nx:\n- 1\n- '2'\nb: 3\n":        "a: 1\nb: 3\n",
		"a: 1\nx:\n  y: {z: [1]}\nb: 3\n":     "a: 1\nb: 3\n",
		"a: 1\nx: [1,\n  2]\nb: 3\n":          "a: 1\nb: 3\n",
		"a: 1\nx: 2\n# of b\nb: 3\n":          "a: 1\n# of b\nb: 3\n",
		"- x: 2\n  b: 3\n":                    "- b: 3\n",
		"- x:\n    c: 1\n  b: 3\n- 1\n":       "- b: 3\n- 1\n",
		"- a: 1\n  x: 2\n":                    "- a: 1\n",
		"{a: 1, x: 2, b: 3}":                  "{a: 1, b: 3}",
		"{a: 1, x: 'u, v'}":                   "{a: 1}",
		"{x: 2, b: 3}":                        "{b: 3}",
		"{x: 2}":                              "{}",

		"{\n  \"a\": 1,\n  \"x\": {\"y\": \"}\"},\n  \"b\": 3\n}": "{\n  \"a\": 1,\n  \"b\": 3\n}",
		"{\n  \"a\": 1,\n  \"x\": \"2\"\n}\n":                     "{\n  \"a\": 1\n}\n",
		// Uncertain places.
		"x: 2\n":                           "",
		"{x: 2,}":                          "",
		"a: 1\nx: 2 # why\n":               "",
		"a: 1\nx:\n  # why\n  b: 1\n":      "",
		"{a: 1, # why\n x: 2, b: 3}":       "{a: 1, # why\n b: 3}",
		"{x: 2, # why\n b: 3}":             "",
		"- x: 2\n  # why\n  b: 3\n":        "",
		"a: 1\nx: !!str 2\n":               "",
		"a: &v 1\nx: *v\n":                 "",
		"a: &v 1\nx: 2\nb: *v\n":           "",
		"? x\n: 2\na: 1\n":                 "",
		"b: &m {x: 1}\na: 1\n<<: {x: 2}\n": "",
	} {
		got := edited(t, written, func(d *diag.Diagnostic, n *text.Node) {
			if n.Kind == text.List {
				n = n.Items[0]
			}
			d.RemoveEntry("x", n.Entry("x"))
		})
		if got != want {
			t.Errorf("%q becomes %q, not %q", written, got, want)
		}
	}
}

func TestRemoveEntryKeepsTheRestOfAList(t *testing.T) {
	for written, want := range map[string]string{
		"[a, x, b]":             "[a, b]",
		"[x, b]":                "[b]",
		"[a, 'x']":              "[a]",
		"- a\n- x\n- b\n":       "- a\n- b\n",
		"- a\n- \"x\"\n":        "- a\n",
		"- x\n- b\n":            "- b\n",
		"[x]":                   "",
		"- x\n":                 "",
		"- a\n- x # why\n- b\n": "",
		"- x # why\n- b\n":      "",
		"- a\n# why\n- x\n":     "",
		"- a\n- !!str x\n- b\n": "",
	} {
		got := edited(t, written, func(d *diag.Diagnostic, n *text.Node) {
			list := xslices.Map(n.Items, (*text.Node).Text)
			d.RemoveEntry("x", text.ItemEntry(list, slices.Index(text.Values(list), "x")))
		})
		if got != want {
			t.Errorf("%q becomes %q, not %q", written, got, want)
		}
	}
}

func TestAddEntryWritesTheStyleOfTheMap(t *testing.T) {
	for written, want := range map[string]string{
		"a: 1\nb: 2\n":         "k: v\na: 1\nb: 2\n",
		"a: 1\r\nb: 2\r\n":     "k: v\r\na: 1\r\nb: 2\r\n",
		"# top\n'a': 1\n":      "# top\nk: v\n'a': 1\n",
		"-   a: 1\n    b: 2\n": "-   k: v\n    a: 1\n    b: 2\n",
		"{a: 1}":               "{k: v, a: 1}",
		"{\"a\": 1}":           "{\"k\": \"v\", \"a\": 1}",
		"{\n  \"a\": 1\n}":     "{\n  \"k\": \"v\",\n  \"a\": 1\n}",
		"k:\na: 1\n":           "",
		"&m a: 1\nb: 2\n":      "",
		"? a\n: 1\n":           "",
		"\ufeffa: 1\n":         "",
		"- &m\n  a: 1\n- *m\n": "",
	} {
		got := edited(t, written, func(d *diag.Diagnostic, n *text.Node) {
			if n.Kind == text.List {
				n = n.Items[0]
			}
			d.AddEntry(n.PlaceFor("k"), "k", "v")
		})
		if got != want {
			t.Errorf("%q becomes %q, not %q", written, got, want)
		}
	}
}
