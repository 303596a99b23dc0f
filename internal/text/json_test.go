package text

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/source"
)

func TestJSONIsParsedToTheSameValue(t *testing.T) {
	for in, want := range map[string]string{
		`{"a": 1, "b": [true, null, "x\n\u00e9"]}`: `{"a":1,"b":[true,null,"x\né"]}`,
		"\ufeff [1.50, -2e3]":                      `[1.50,-2e3]`,
		`"\ud83d\ude00"`:                           `"😀"`,
		`{}`:                                       `{}`,
		` [ ] `:                                    `[]`,
	} {
		f := source.NewFile("f.json", in)
		n, list := ParseJSON(f)
		if len(list) > 0 || n == nil || string(n.JSON()) != want {
			t.Errorf("%s: %v, %s", in, list, n.JSON())
		}
	}
}

func TestJSONSpansAreTheContentOfStrings(t *testing.T) {
	f := source.NewFile("f.json", `{"if": "a == 'b'", "esc": "a\"b"}`)
	n, _ := ParseJSON(f)
	if at := n.Get("if").Span; f.Text[at.Start:at.End] != "a == 'b'" || !n.Get("if").Exact() {
		t.Errorf("%q", f.Text[at.Start:at.End])
	}
	if n.Get("esc").Exact() {
		t.Error("a text with an escape does not stand there letter by letter")
	}
	if at := n.Key("esc").Span; f.Text[at.Start:at.End] != "esc" {
		t.Errorf("%q", f.Text[at.Start:at.End])
	}
}

func TestJSONErrorsAreReportedOnceAndDoNotHideOthers(t *testing.T) {
	for in, want := range map[string]string{
		``:                             "1:1 JSON001 → nil",
		"{\"a\": 1,}":                  `1:8 JSON002 → {"a":1}`,
		"[1, 2,]":                      `1:6 JSON002 → [1,2]`,
		"[,1]":                         `1:2 JSON002 → [1]`,
		"[1,,2]":                       `1:4 JSON002 → [1,2]`,
		"[1,,,,, ,2]":                  `1:4 JSON002 → [1,2]`,
		"{\"a\": 1\n\"b\": 2}":         `1:8 JSON002 → {"a":1,"b":2}`,
		"[1 2]":                        `1:3 JSON002 → [1,2]`,
		"{'a': 'b'}":                   `1:2 JSON003 1:7 JSON003 → {"a":"b"}`,
		"{a: yes}":                     `1:2 JSON003 1:5 JSON003 → {"a":"yes"}`,
		"[True, None, NaN]":            `1:2 JSON003 1:8 JSON003 1:14 JSON003 → [true,null,null]`,
		"{\"a\": \"b\n\"c\": 1}":       `1:7 JSON003 1:9 JSON002 → {"a":"b","c":1}`,
		"{\"a\": \"b":                  `1:7 JSON003 → {"a":"b"}`,
		"{\"a\": [1, {\"b\": 2}":       `1:7 JSON004 → {"a":[1,{"b":2}]}`,
		"{\"a\": [1, 2}":               `1:12 JSON004 → {"a":[1,2]}`,
		"{\"a\": 1, \"a\": 2}":         `1:11 JSON005 → {"a":1}`,
		"{\"a\" 1}":                    `1:3 JSON001 → {"a":1}`,
		"{\"a\": , \"b\": 1}":          `1:3 JSON001 → {"a":null,"b":1}`,
		"[\"a\tb\"]":                   `1:4 JSON006 → ["a\tb"]`,
		"[\"a\nb\"]":                   `1:4 JSON006 → ["a\nb"]`,
		`["\x41"]`:                     `1:3 JSON006 → ["x41"]`,
		"[01]":                         `1:2 JSON001 → ["01"]`,
		"[1] [2]":                      `1:5 JSON001 → [1]`,
		"// about\n[1 /* one */]":      `1:1 JSON001 2:4 JSON001 → [1]`,
		"[“a”]":                        `1:2 JSON001 → []`,
		strings.Repeat("[", 200):       `1:102 JSON001 → ` + strings.Repeat("[", 101) + strings.Repeat("]", 101),
		"{\"a\": 1}\n<<<<<<< ours\n{}": `2:1 JSON001 → {"a":1}`,
	} {
		f := source.NewFile("f.json", in)
		n, list := ParseJSON(f)
		got := ""
		for _, d := range list {
			at := f.Position(d.Span.Start)
			got += fmt.Sprintf("%d:%d %s ", at.Line, at.Column, d.Code)
			if d.Help == "" || d.Message == "" {
				t.Errorf("%s: %+v", in, d)
			}
		}
		got += "→ "
		if n == nil {
			got += "nil"
		} else {
			got += string(n.JSON())
		}
		if got != want {
			t.Errorf("%q\n got  %s\n want %s", in, got, want)
		}
	}
}

func TestJSONFixesRepairTheDocument(t *testing.T) {
	for in, want := range map[string]string{
		"[1, 2,]":                             "[1, 2]",
		"[,1]":                                "[1]",
		"[1,, ,2]":                            "[1, 2]",
		"{\"a\": 1\n\"b\": 2}":                "{\"a\": 1,\n\"b\": 2}",
		"[1 // one\n2]":                       "[1, // one\n2]",
		"[\"say \"so\" now\"]":                "", // the quotes belong to the text
		"[\"a\" \"b\"]":                       "[\"a\", \"b\"]",
		"{\"t\": \"he said \" hi \" there\"}": "",
		"{\"t\": \"he said \" \"hi\"}":        "", // no key
		"[\"he said \" hi \" there\"]":        "",
		"{\"a\": 1 b: 2}":                     "{\"a\": 1, b: 2}", // the key gets its quotes after that
		"[1 true]":                            "[1, true]",
		"[1,,]":                               "[1]",
		"{\"a\": [1, 2] , , }":                "{\"a\": [1, 2]   }",
		"{a: 1}":                              "{\"a\": 1}",
		"{\"a\": yes}":                        "{\"a\": \"yes\"}",
		"{\"a\": hello world}":                "", // both words belong to the text
		"[True]":                              "[true]",
		"[FALSE, 1]":                          "[false, 1]",
		"[None]":                              "[null]",
		"['a']":                               "[\"a\"]",
		"['a \"b\"']":                         "",
		"['it's']":                            "",
		"[\"a\tb\"]":                          "[\"a\\tb\"]",
		"[\"a\nb\r\n\tc\"]":                   "[\"a\\nb\\n\\tc\"]",
		"[\"a\x01\"]":                         "[\"a\\u0001\"]",
		"[\"a\\\r\nb\"]":                      "", // the backslash is reported first
		"{\"a\": \"b\nc\n\"d\": 1}":           "", // the closing quote is missing
		"{\"a\": \"b\n\"c\": 1, d: 2}":        "", // and after that, nothing is certain
	} {
		f := source.NewFile("f.json", in)
		_, list := ParseJSON(f)
		got := ""
		if len(list) > 0 && len(list[0].Fixes) > 0 {
			got = list[0].Fixes[0].Apply(f)
		}
		if got != want {
			t.Errorf("%q becomes %q, want %q: %v", in, got, want, list)
		}
		for _, d := range list[min(1, len(list)):] {
			if want == "" && len(d.Fixes) > 0 && d.Code != CodeJSONEscape {
				t.Errorf("%q has a fix for %s: %+v", in, d.Message, d.Fixes)
			}
		}
	}
}

func TestLongAndDeepJSONIsBounded(t *testing.T) {
	const n = 4 << 20
	for name, in := range map[string]string{
		"commas":      "[" + strings.Repeat(",", n) + "]",
		"spaced":      "[" + strings.Repeat(", ", n/2) + "]",
		"empty lines": "[\"a" + strings.Repeat("\n", n) + "b\"]",
		"brackets":    strings.Repeat("[", n),
	} {
		if _, list := ParseJSON(source.NewFile("f.json", in)); !list.Errors() {
			t.Errorf("%s: nothing is said", name)
		}
	}
}

// FuzzJSON checks that valid JSON is parsed without diagnostics to the same value as encoding/json, and that invalid
// JSON has diagnostics.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,2.5e3,"x\u00e9",true,null]}`, `{"a":1,}`, `{'a':b}`, "[1 2", `"\ud800"`,
		"\ufeff{}", "// x\n1", "{\"a\":1\n\"b\":2}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		n, list := ParseJSON(source.NewFile("f.json", in))
		plain := strings.TrimPrefix(in, "\ufeff")
		var want any
		decoder := json.NewDecoder(strings.NewReader(plain))
		decoder.UseNumber()
		valid := decoder.Decode(&want) == nil && json.Valid([]byte(plain))
		switch {
		case !valid && !list.Errors():
			t.Fatalf("%q was read as %s", in, n.JSON())
		case !valid:
			return
		}
		for _, d := range list {
			if d.Code != CodeJSONDuplicate && d.Code != CodeJSONEscape && !strings.Contains(d.Message, "nested") {
				t.Fatalf("%q: %s", in, d.Message)
			}
		}
		if len(list) > 0 {
			return
		}
		var got any
		decoder = json.NewDecoder(bytes.NewReader(n.JSON()))
		decoder.UseNumber()
		if err := decoder.Decode(&got); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: %v\n got  %s", in, err, n.JSON())
		}
	})
}
