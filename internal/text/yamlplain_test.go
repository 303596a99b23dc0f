package text

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/espalier-run/espalier/internal/source"
)

// FuzzPlain holds that the quick reader, where it does not give up, reads what
// the library reads, and that the library has nothing to complain about.
func FuzzPlain(f *testing.F) {
	for _, seed := range []string{
		"a: b\n", "id: validate\nreads: [input, state.x]\nretry:\n  max_attempts: 3\n  backoff_ms: [500, 2_000]\n",
		"workers:\n  - id: W1\n    agent: a\n  - id: W2\n    agent: b\nmerge:\n  strategy: union\n", "a:\n- b\n- c\nd: e\n",
		"a: |\n  x\n\n  y\nb: |-\n  z\n", "a: \"q\" # c\nb: 'r'\nc: # d\n  e: f\n", "# c\n\na: b # c\n  # d\nc: d\n", "a:\nb:\n", "  a: b\n  c: d\n",
		"a: 1.0.0\nb: 1.10\nc: 1e3\nd: 2020-01-01\ne: 0x1F\nf: 017\ng: true\nh: null\ni: 12_000\nj: 1e999\n", "- a\n- b: c\n  d: e\n-  f: g\n   h: i\n",
		"a: [x y, 'z', \"w\", ]\nb: []\n", "a: b c\n  d\n", "a: |\n  x\n # y\nb: c\n", "- - a\n", "a: é — ü\n", "a:\n  b:\n    - c\n  - d\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		file := source.NewFile("a.yaml", s)
		parser := func() *yamlParser { return &yamlParser{file: file, text: s, line: 1, column: 1} }
		got := parsePlain(parser())
		if got == nil || invalidUTF8(s) >= 0 {
			return
		}
		want, list := parser().parseAny()
		if len(list) > 0 {
			t.Fatalf("read as if nothing were wrong: %+v", list)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("the library's tree (-) is not the quick one (+):\n%s", diff)
		}
	})
}
