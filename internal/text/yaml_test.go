package text_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

func parse(t *testing.T, s string) *text.Node {
	t.Helper()
	n, list := text.ParseYAML(source.NewFile("a.yaml", s), 0, len(s))
	if len(list) > 0 {
		t.Fatalf("%q: %+v", s, list)
	}
	return n
}

func codes(l diag.List) string {
	var all []string
	for _, d := range l {
		all = append(all, string(d.Code))
	}
	return strings.Join(all, " ")
}

func TestSpansOfARegionAreOffsetsInTheFile(t *testing.T) {
	const before, inside, after = "# Tïtle\n```step\n", "id: \"näme\"\nreads: [a,\n  b]\n", "```\nid: later\n"
	f := source.NewFile("a.md", before+inside+after)
	n, list := text.ParseYAML(f, len(before), len(before)+len(inside))
	if len(list) > 0 {
		t.Fatal(list)
	}
	for key, want := range map[string]string{"id": "näme", "reads": "[a,\n  b]"} {
		span := n.Get(key).Span
		if got := f.Text[span.Start:span.End]; got != want {
			t.Errorf("%s stands at %q, want %q", key, got, want)
		}
	}
	if strings.Join(n.Keys(), " ") != "id reads" || n.Get("later") != nil ||
		n.Key("reads").Span.Start != len(before)+len("id: \"näme\"\n") {
		t.Errorf("keys %v", n.Keys())
	}
}

func TestYAMLConvertsToJSON(t *testing.T) {
	for in, want := range map[string]string{
		"b: 1\na: 2\n":                           `{"b":1,"a":2}`,
		"a: 123456789012345678901234567890\n":    `{"a":123456789012345678901234567890}`,
		"[0x1F, 0o17, 0b11, 017, 1_000, +5, -0]": `[31,15,3,17,1000,5,0]`,
		"[1.10, 1e3, .5, 1., 1_0.5]":             `[1.10,1e3,0.5,1,10.5]`,
		"[true, False, null, ~, yes]":            `[true,false,null,null,"yes"]`,
		"[2020-01-01, \"1\", 1.0.0, 1e999]":      `["2020-01-01","1","1.0.0","1e999"]`,
		"a: \"\\u0001<\\\"\"\n":                  `{"a":"\u0001\u003c\""}`,
		"a: &x [1]\nb: *x\n":                     `{"a":[1],"b":[1]}`,
		"":                                       `null`,
		"a:\n":                                   `{"a":null}`,
	} {
		if got := string(parse(t, in).JSON()); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
	if got := string((*text.Node)(nil).JSON()); got != "null" {
		t.Errorf("nil is %s", got)
	}
}

func TestHostileYAMLIsBounded(t *testing.T) {
	laughs := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c <= 'k'; c++ {
		laughs += fmt.Sprintf("%c: &%c [%s]\n", c, c,
			strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", c-1), 10), ", "))
	}
	var keys strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&keys, "k%d: v\n", i)
	}
	var blocks strings.Builder
	for i := range 200 {
		fmt.Fprintf(&blocks, "%sa:\n", strings.Repeat(" ", i))
	}
	for name, c := range map[string]struct{ in, want string }{
		"billion laughs": {laughs, "YAML012"},
		"deep lists":     {strings.Repeat("[", 5000), "YAML012"},
		"deep maps":      {strings.Repeat("{a: ", 5000), "YAML012"},
		"deep blocks":    {blocks.String(), "YAML012"},
		"deep entries":   {strings.Repeat("- ", 5000) + "a\n", "YAML012"},
		"many keys":      {keys.String(), ""},
		"long line":      {"a: [" + strings.Repeat("é, ", 20_000) + "é]\n", ""},
		"merge bomb": {
			"a: &a {x: 1}\nb:\n  <<: [" + strings.TrimSuffix(strings.Repeat("*a, ", 9000), ", ") + "]\n",
			"YAML012",
		},
	} {
		n, list := text.ParseYAML(source.NewFile("a.yaml", c.in), 0, len(c.in))
		if got := codes(list); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if n != nil && len(n.JSON()) > 1_000_000 {
			t.Errorf("%s: expands to %d bytes", name, len(n.JSON()))
		}
	}
}

func TestInvalidBytesAreReportedWhereTheyAre(t *testing.T) {
	for in, at := range map[string]int{"a: b\xff\n": 4, "é: \x01\n": 4, "\xff\xfea\x00": 0, "a: \x00\n": 3} {
		_, list := text.ParseYAML(source.NewFile("a.yaml", in), 0, len(in))
		if codes(list) != "YAML014" || list[0].Span.Start != at {
			t.Errorf("%q: %+v", in, list)
		}
	}
}

func TestLenientParsingRepairsOnlyMissingQuotes(t *testing.T) {
	const in = "name: x\nbase: &b {a: 1}\ncopy: *b\ndescription: Use this: it is good\nname: y\n"
	f := source.NewFile("a.yaml", in)
	n, repairs, list := text.ParseYAMLLenient(f, 0, len(in))
	if codes(list) != "YAML008" {
		t.Errorf("reported %s, want the duplicate key alone", codes(list))
	}
	if len(repairs) != 1 || repairs[0].Key != "description" || repairs[0].Problem.Code != text.CodeColon {
		t.Fatalf("repairs %+v", repairs)
	}
	if d := n.Get("description"); d.Value != "Use this: it is good" || !d.Exact() || d.Kind != text.String {
		t.Errorf("description %+v", d)
	}
	if n.Get("copy") != n.Get("base") {
		t.Error("an alias that was right has been taken for text")
	}

	for _, hopeless := range []string{"a: \"open\nb: c: d\n", "a: [open\n", "words\na: b\n"} {
		if n, repairs, list := text.ParseYAMLLenient(source.NewFile("a", hopeless), 0, len(hopeless)); n != nil ||
			len(repairs) > 0 || !list.Errors() {
			t.Errorf("%q: %v %v %v", hopeless, n, repairs, list)
		}
	}

	// The work for a text with many errors is limited.
	many := strings.Repeat("a: b: c\n", 1000)
	if _, repairs, _ := text.ParseYAMLLenient(source.NewFile("a", many), 0, len(many)); len(repairs) == 0 ||
		len(repairs) > 100 {
		t.Errorf("%d repairs", len(repairs))
	}
}

func TestPlacesAreFoundByJSONPointer(t *testing.T) {
	const doc = "a: 1\n\"b/c\": {d: [x, {e: 'f'}], g: }\nh:\n  - i\n"
	n, list := text.ParseYAML(source.NewFile("f.yaml", doc), 0, len(doc))
	if len(list) > 0 {
		t.Fatal(list)
	}
	got := map[string]string{}
	for pointer, at := range n.Places() {
		got[pointer] = doc[at.Start:at.End]
	}
	want := map[string]string{
		"/a": "1", "/b~1c": "b/c", "/b~1c/d": "d", "/b~1c/d/0": "x", "/b~1c/d/1/e": "f", "/b~1c/g": "g", "/h": "h",
		"/h/0": "i",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	many := source.NewFile("f.yaml", "["+strings.Repeat("a, ", 10_000)+"]")
	if n, _ := text.ParseYAML(many, 0, len(many.Text)); len(n.Places()) > 500 {
		t.Error("too many places")
	}
}
