package text

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/source"
)

// FuzzPlain checks that plainReader, unless it gives up, returns the tree of the library, and that the library reports
// no errors.
func FuzzPlain(f *testing.F) {
	for _, seed := range []string{
		"a: b\n", "id: validate\nreads: [input, state.x]\nretry:\n  max_attempts: 3\n  backoff_ms: [500, 2_000]\n",
		"workers:\n  - id: W1\n    agent: a\n  - id: W2\n    agent: b\nmerge:\n  strategy: union\n",
		"a:\n- b\n- c\nd: e\n",
		"a: |\n  x\n\n  y\nb: |-\n  z\n", "a: \"q\" # c\nb: 'r'\nc: # d\n  e: f\n", "# c\n\na: b # c\n  # d\nc: d\n",
		"a:\nb:\n", "  a: b\n  c: d\n",
		"a: 1.0.0\nb: 1.10\nc: 1e3\nd: 2020-01-01\ne: 0x1F\nf: 017\ng: true\nh: null\ni: 12_000\nj: 1e999\n",
		"- a\n- b: c\n  d: e\n-  f: g\n   h: i\n",
		"a: [x y, 'z', \"w\", ]\nb: []\n", "a: b c\n  d\n", "a: |\n  x\n # y\nb: c\n", "- - a\n", "a: é — ü\n",
		"a:\n  b:\n    - c\n  - d\n",
		"a: {b: c, d: [e, {f: 1}], \"g h\": 'i', j: {}, }\n", "\"true\": a\n'x y': {k: it's, l: a/b (c)}\n- {a: b}\n",
		"a: [[1, 2], [], {b: [c]}]\n", "a: {b: c:d, e: f#g, h}\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		comparePlain(t, s)
	})
}

// comparePlain reports whether plainReader parsed the text.
func comparePlain(t interface{ Fatalf(string, ...any) }, s string) bool {
	file := source.NewFile("a.yaml", s)
	parser := func() *yamlParser { return &yamlParser{file: file, text: s, line: 1, column: 1} }
	got := parsePlain(parser())
	if got == nil || invalidUTF8(s) >= 0 {
		return false
	}
	want, list := parser().parseAny()
	if len(list) > 0 {
		t.Fatalf("%q is parsed despite errors: %+v", s, list)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.AllowUnexported(Node{})); diff != "" {
		t.Fatalf("%q: the tree of the library (-) differs from that of plainReader (+):\n%s", s, diff)
	}
	return true
}

// The texts consist of lines that are likely to be YAML, which a fuzzer rarely finds.
func TestPlainReaderAgreesWithLibrary(t *testing.T) {
	values := []string{
		"", "b", "b c", " b", "1", "1.0", "1.0.0", "0x1g", "-1", "+1", "~", "null", "true", "yes", "[a, b]",
		"[a b, 'c', \"d\",]", "[]", "[a,,b]", "[a", "[a: b]", "[a] b",
		"{}", "{a: b}", "{a: b, c: 1, }", "{ a: [b, {c: 'd'}] }", "{a: b, a: c}", "{a}", "{a: , b: c}", "{a:b}",
		"{\"a\": b}",
		"{\"a\":b}", "{'a b': c}", "{a: b c}", "{a: b: c}", "{a: b #c}", "{a: b",
		"[{a: b}, [c, d]]", "[{a: b} c]", "[[a]", "{a: {b: {c: d}}}", "{a: it's, b: é — ü}",
		"[a/b, (c), d+e, $f, 50%, x=y, <z>, q;r]", "[- a]", "[a, - b]", "[a:b]", "[a :b]", "{true: 1, null: 2}",
		"[a # b]",
		"{a: b}}", "{? a}", "[a, b]: c", "{a: b}: c", "{a: 'b'c}", "{a: 'b''c'}", "[1.0, 2, x3]", "'q'", "\"q\"",
		"'it''s'",
		"\"a\\n\"", "'a' b", "|", "|-", "|+", "|2", ">", ">-", "a: b", "a:", "a #c", "a#c", "# c", "*x", "&x a", "!t a",
		"é",
		"(a)", "/a", "$a", "a - b",
		"2020-01-01", "017", "a, b", "- a", "@a", "<<", "1e3", "1e999", "12345678901234567890123", "a ? b", "? a", "'",
		"\"",
		"0o7", ".5", "a:b", "http://x/y#z",
	}
	keys := []string{
		"a", "b", "c", "d_e", "f-g", "h.i", "true", "null", "on", "'q'", "\"q r\"", "'on'", "'a'", "\"\\n\"",
		"'q' ", "\"\"", "2", "é", "<<", "x y",
	}
	read := 0
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		for range rapid.IntRange(1, 7).Draw(t, "lines") {
			b.WriteString(strings.Repeat(" ", rapid.IntRange(0, 5).Draw(t, "indent")))
			switch rapid.IntRange(0, 9).Draw(t, "form") {
			case 0:
				b.WriteString("# comment")
			case 1:
			case 2:
				b.WriteString("- " + rapid.SampledFrom(values).Draw(t, "entry"))
			case 3:
				b.WriteString(rapid.SampledFrom(values).Draw(t, "words"))
			case 4:
				b.WriteString("-")
				fallthrough
			default:
				b.WriteString(rapid.SampledFrom([]string{"", "", "", "- ", " "}).Draw(t, "dash"))
				b.WriteString(rapid.SampledFrom(keys).Draw(t,
					"key") + ":" + rapid.SampledFrom([]string{" ", " ", " ", "", "  "}).Draw(t, "gap"))
				b.WriteString(rapid.SampledFrom(values).Draw(t, "value"))
			}
			b.WriteString(rapid.SampledFrom([]string{"\n", "\n", "\n", " \n", " # c\n"}).Draw(t, "end"))
		}
		if comparePlain(t, b.String()) {
			read++
		}
	})
	if read == 0 {
		t.Error("plainReader gave up on every text")
	}
}

func TestPlainReaderLeavesDuplicateKeysToTheLibrary(t *testing.T) {
	var block, flow strings.Builder
	for i := range maxPlainPairs - 1 {
		fmt.Fprintf(&block, "k%d: %d\n", i, i)
		fmt.Fprintf(&flow, "k%d: %d, ", i, i)
	}
	for _, form := range []string{block.String(), "a: {" + flow.String() + "}\n"} {
		if !comparePlain(t, form) {
			t.Errorf("plainReader gave up on %.40q…", form)
		}
	}
	for _, again := range []string{"k0", "k62", "'k30'"} {
		for _, form := range []string{block.String() + again + ": 1\n", "a: {" + flow.String() + again + ": 1}\n"} {
			if comparePlain(t, form) {
				t.Errorf("the duplicate key %q was accepted", again)
			}
		}
	}
}
