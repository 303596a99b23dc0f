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

var stepCodes = text.Codes{
	WrongType: "WRONG", Missing: "MISSING", Unknown: "UNKNOWN", BadValue: "BAD",
	UnknownAs: diag.Warning,
}

// read decodes a text and returns the diagnostics, one per line: code, marked text, message, help.
func read(t *testing.T, in string, take func(*text.Reader)) string {
	t.Helper()
	f := source.NewFile("a.yaml", in)
	n, list := text.ParseYAML(f, 0, len(in))
	if len(list) > 0 {
		t.Fatalf("%q: %+v", in, list)
	}
	var out diag.List
	take(text.Read(n, "step", stepCodes, &out))
	var lines []string
	for _, d := range out {
		checkSpan(t, f, d.Span, d.Message)
		lines = append(lines, fmt.Sprintf("%s %q %s %s", d.Code, f.Text[d.Span.Start:d.Span.End], d.Message, d.Help))
	}
	return strings.Join(lines, "\n")
}

func TestReaderReportsValuesOfWrongType(t *testing.T) {
	for _, c := range []struct {
		name, in string
		take     func(*text.Reader)
		want     string
	}{
		{"a text", "a: b\n", func(r *text.Reader) { r.String("a") }, ""},
		{"a number as text", "a: 1.10\n", func(r *text.Reader) {
			if got := r.String("a").Value; got != "1.10" {
				t.Errorf("a = %q", got)
			}
		}, ""},
		{"absent", "a: b\n", func(r *text.Reader) {
			if !r.String("x").IsZero() || r.Strings("x") != nil || r.Map("x") != nil || r.List("x") != nil ||
				r.Has("x") {
				t.Error("something out of nothing")
			}
			if _, _, ok := r.Int("x", 0); ok {
				t.Error("a number out of nothing")
			}
		}, ""},
		{"null is absent", "a: ~\n", func(r *text.Reader) {
			if r.Has("a") || r.Node("a") != nil || !r.String("a").IsZero() {
				t.Error("null is there")
			}
			r.Done()
		}, ""},
		{
			"a list for a text", "a: [b]\n", func(r *text.Reader) { r.String("a") },
			`WRONG "[b" "a" of the step must be a string, but this is a list. Write a: and the string after it.`,
		},
		{
			"a map for a text", "a:\n  b: c\n", func(r *text.Reader) { r.String("a") },
			`WRONG "b" "a" of the step must be a string, but this is a map. Write a: and the string after it, or ` +
				`"a: |" if the string is on the lines below.`,
		},
		{"texts", "a: [b, 'c', 3]\nd: e\n", func(r *text.Reader) {
			var got []string
			for _, s := range append(r.Strings("a"), r.Strings("d")...) {
				got = append(got, s.Value)
			}
			if diff := cmp.Diff([]string{"b", "c", "3", "e"}, got); diff != "" {
				t.Error(diff)
			}
		}, ""},
		{"wrong entries", "a:\n  - b\n  - [c]\n  - d: e\n  -\n", func(r *text.Reader) {
			if got := r.Strings("a"); len(got) != 1 {
				t.Errorf("%d entries", len(got))
			}
		}, `WRONG "[c" An entry of "a" of the step must be a string, but this is a list. ` +
			`Write one string per entry; put it in quotes if it contains a colon.
WRONG "d" An entry of "a" of the step must be a string, but this is a map. ` +
			`Write one string per entry; put it in quotes if it contains a colon.
WRONG "" An entry of "a" of the step is empty. Write a string there, or remove the entry.`},
		{
			"a map for a list", "a: {b: c}\n", func(r *text.Reader) { r.Strings("a"); r.List("a") },
			`WRONG "{b" "a" of the step must be a list of strings, but this is a map. Write a: [one, two].
WRONG "{b" "a" of the step must be a list, but this is a map. Begin each entry below a: with "- ".`,
		},
		{
			"dashes without spaces", "a:\n  -b\n  -c\n", func(r *text.Reader) { r.Strings("a") },
			`WRONG "-b\n  -c" "a" of the step must be a list of strings, but this is a string. Put a space after the ` +
				`dash of each entry.`,
		},
		{"numbers", "a: 3\nb: 1_000\nc: 0x10\nd: 1000.0\ne: 1e3\n", func(r *text.Reader) {
			for key, want := range map[string]int64{"a": 3, "b": 1000, "c": 16, "d": 1000, "e": 1000} {
				if n, at, ok := r.Int(key, 1); n != want || !ok || at.IsZero() {
					t.Errorf("%s = %d %v", key, n, ok)
				}
			}
		}, ""},
		{"not numbers", "a: \"3\"\nb: 1.5\nc: 0\nd: 99999999999999999999\n", func(r *text.Reader) {
			for _, key := range []string{"a", "b", "c", "d"} {
				if _, _, ok := r.Int(key, 1); ok {
					t.Errorf("%s is taken for a number", key)
				}
			}
		}, `WRONG "3" "a" of the step must be an integer, but this is a string. Write a: 3.
WRONG "1.5" "b" of the step must be an integer, but this is a number. Write an integer, such as b: 1.
BAD "0" "c" of the step must be at least 1. Write c: 1 or more.
BAD "99999999999999999999" "d" of the step is too large. Write a number below 9223372036854775808.`},
		{"booleans", "a: true\nb: FALSE\nc: yes\nd: 'off'\ne: maybe\n", func(r *text.Reader) {
			if a, _, ok := r.Bool("a"); !a || !ok {
				t.Error("a")
			}
			if b, _, ok := r.Bool("b"); b || !ok {
				t.Error("b")
			}
			r.Bool("c")
			r.Bool("d")
			r.Bool("e")
		}, `WRONG "yes" "c" of the step must be a boolean, but this is a string. Write c: true.
WRONG "off" "d" of the step must be a boolean, but this is a string. Write d: false.
WRONG "maybe" "e" of the step must be a boolean, but this is a string. Write true or false, without quotes.`},
		{"enum", "a: stop\nb: stpo\nc: never\n", func(r *text.Reader) {
			if r.Enum("a", "stop", "skip").Value != "stop" || !r.Enum("b", "stop", "skip").IsZero() ||
				!r.Enum("c", "stop", "skip").IsZero() {
				t.Error("enum")
			}
		}, `BAD "stpo" "b" of the step cannot be "stpo". Did you mean "stop"?
BAD "never" "c" of the step cannot be "never". Write one of: stop, skip.`},
		{
			"required", "tpye: x\nid:\ndescription: ''\n",
			func(r *text.Reader) { r.Require("id", "type", "description", "role") },
			`MISSING "id" "id" of the step is empty. Write a value after id:.
MISSING "tpye" The step has no "type". There is a key "tpye"; rename it to "type".
MISSING "description" "description" of the step is empty. Write a value after description:.
MISSING "tpye" The step has no "role". Add a line with role: and its value.`,
		},
		{
			"unknown", "id: a\nread: [b]\n\"x\": 1\n",
			func(r *text.Reader) { r.String("id"); r.Strings("reads"); r.Done() },
			`UNKNOWN "read" Unknown key "read" in the step. Did you mean "reads"?
UNKNOWN "x" Unknown key "x" in the step. There are id and reads.`,
		},
		{
			"not a map", "[a]\n", func(r *text.Reader) { r.Require("id") },
			`WRONG "[a]" The step must be a map, but this is a list. Write it as lines of "key: value".`,
		},
		{
			"empty", "# nothing\n", func(r *text.Reader) { r.Require("id") },
			`MISSING "" The step has no "id". Add a line with id: and its value.`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, read(t, c.in, c.take)); diff != "" {
				t.Errorf("(-wanted +got):\n%s", diff)
			}
		})
	}
}

func TestFormatDecidesSeverityOfUnknownKeys(t *testing.T) {
	n := parse(t, "x: 1\n")
	var out diag.List
	text.Read(n, "skill", text.Codes{Unknown: "U", UnknownAs: diag.Note, UnknownLenient: true}, &out).Done()
	if len(out) != 1 || out[0].Severity != diag.Note || !out[0].Lenient || !out.Strict().Errors() {
		t.Errorf("%+v", out)
	}
}
