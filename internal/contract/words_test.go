package contract

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/schema"
)

func TestDescribedOutputsBecomeSchemas(t *testing.T) {
	const text, flag, free = `{"type":"string"}`, `{"type":"boolean"}`, `{}`
	list := func(item string) string { return `{"type":"array","items":` + item + `}` }
	for expected, want := range map[string]string{
		// As in the examples.
		"List of objects: { fact, source, date, confidence }":      list(`{"type":"object","required":["fact","source","date","confidence"],"properties":{"fact":{},"source":{},"date":{},"confidence":{}}}`),
		"Object: { approved: boolean, problems: list of strings }": `{"type":"object","required":["approved","problems"],"properties":{"approved":` + flag + `,"problems":` + list(text) + `}}`,
		"Object: { brief }": `{"type":"object","required":["brief"],"properties":{"brief":{}}}`,
		"Object: { level: low | high, reasons: list of strings }":        `{"type":"object","required":["level","reasons"],"properties":{"level":{"enum":["low","high"]},"reasons":` + list(text) + `}}`,
		"Object: { kind: billing | technical | other, urgency: 1 to 5 }": `{"type":"object","required":["kind","urgency"],"properties":{"kind":{"enum":["billing","technical","other"]},"urgency":{"type":"integer","minimum":1,"maximum":5}}}`,
		"Object: { good_enough: boolean, draft: text }":                  `{"type":"object","required":["good_enough","draft"],"properties":{"good_enough":` + flag + `,"draft":` + text + `}}`,
		"Object: { type, items: [{ label, quote }], confidence }": `{"type":"object","required":["type","items","confidence"],"properties":{"type":{},"confidence":{},"items":` +
			list(`{"type":"object","required":["label","quote"],"properties":{"label":{},"quote":{}}}`) + `}}`,
		"List of objects":    list(`{"type":"object"}`),
		"A list":             list(free),
		"A list of actions.": list(`{"title":"action"}`),

		// Other ways to write it.
		"{a, b}":  `{"type":"object","required":["a","b"],"properties":{"a":{},"b":{}}}`,
		"[{ a }]": list(`{"type":"object","required":["a"],"properties":{"a":{}}}`),
		"JSON with {\"ok\": true, \"n\": 3, \"x\": 1.5, \"who\": \"Sam\"}":     `{"type":"object","required":["ok","n","x","who"],"properties":{"ok":` + flag + `,"n":{"type":"integer"},"x":{"type":"number"},"who":` + text + `}}`,
		"An array of { name: string, tags: string[] }":                         list(`{"type":"object","required":["name","tags"],"properties":{"name":` + text + `,"tags":` + list(text) + `}}`),
		"Object: { a?: integer, b (boolean), c: date, d: url, e: email }":      `{"type":"object","required":["b","c","d","e"],"properties":{"a":{"type":"integer"},"b":` + flag + `,"c":{"type":"string","format":"date"},"d":{"type":"string","format":"uri"},"e":{"type":"string","format":"email"}}}`,
		"Object: { score: 0 to 1, grade: number from 1 to 6, share: 0.5-1.5 }": `{"type":"object","required":["score","grade","share"],"properties":{"score":{"type":"number","minimum":0,"maximum":1},"grade":{"type":"number","minimum":1,"maximum":6},"share":{"type":"number","minimum":0.5,"maximum":1.5}}}`,
		"Object: { level: one of low, medium or high, b }":                     `{"type":"object","required":["level","b"],"properties":{"level":{"enum":["low","medium","high"]},"b":{}}}`,
		"Object: { level (one of low, medium or high) }":                       `{"type":"object","required":["level"],"properties":{"level":{"enum":["low","medium","high"]}}}`,
		"Object: { level: low/high, when: date or null, ok: yes or no }":       `{"type":"object","required":["level","when","ok"],"properties":{"level":{"enum":["low","high"]},"when":{"anyOf":[{"type":"string","format":"date"},{"enum":[null]}]},"ok":` + flag + `}}`,
		"Object: { owner: who is to do it, due date, ... }":                    `{"type":"object","required":["owner","due_date"],"properties":{"owner":{"description":"who is to do it"},"due_date":{}}}`,
		"Object: { who: { name, mail: email }, rest: object }":                 `{"type":"object","required":["who","rest"],"properties":{"who":{"type":"object","required":["name","mail"],"properties":{"name":{},"mail":{"type":"string","format":"email"}}},"rest":{"type":"object"}}}`,
		"An object with:\n- fact: text\n- `source` (url)\n- count - integer":   `{"type":"object","required":["fact","source","count"],"properties":{"fact":` + text + `,"source":{"type":"string","format":"uri"},"count":{"type":"integer"}}}`,
		`{"type": "object", "properties": {"a": {"type": "integer"}}}`:         `{"type":"object","properties":{"a":{"type":"integer"}}}`,
		"true or false":                flag,
		"billing | technical":          `{"enum":["billing","technical"]}`,
		"verdict: approved | rejected": `{"enum":["approved","rejected"]}`,
		"string: approved | rejected":  `{"enum":["approved","rejected"]}`,
		"One of: x | y":                `{"enum":["x","y"]}`,
		"List: [ string ]":             list(text),
		"List of [string]":             list(text),
		"A list of { a: string[] }":    list(`{"type":"object","required":["a"],"properties":{"a":` + list(text) + `}}`),
		"One of: billing, technical":   `{"enum":["billing","technical"]}`,
		"A number from 1 to 5":         `{"type":"number","minimum":1,"maximum":5}`,
		"10 to 1":                      `{"type":"integer","minimum":1,"maximum":10}`,
		"A list of numbers":            list(`{"type":"number"}`),
		"List of { a: 1 | 2 }":         list(`{"type":"object","required":["a"],"properties":{"a":{"enum":[1,2]}}}`),

		// Keys, limits and JSON in a sentence.
		"JSON object with keys title (string), score (number 0-100) and tags (list of strings).": `{"type":"object",` +
			`"required":["title","score","tags"],"properties":{"title":` + text +
			`,"score":{"type":"number","minimum":0,"maximum":100},"tags":` + list(text) + `}}`,
		"An object with the fields name and e-mail": `{"type":"object","required":["name","e-mail"],` +
			`"properties":{"name":{},"e-mail":{}}}`,
		"A JSON array of objects with keys sku (text) and qty (integer >= 1)": list(`{"type":"object",` +
			`"required":["sku","qty"],"properties":{"sku":` + text + `,"qty":{"type":"integer","minimum":1}}}`),
		"Object: { verdict: approve | reject, score: number >= 0, share: number < 1 }": `{"type":"object",` +
			`"required":["verdict","score","share"],"properties":{"verdict":{"enum":["approve","reject"]},` +
			`"score":{"type":"number","minimum":0},"share":{"type":"number","exclusiveMaximum":1}}}`,
		"An integer of at least 3":        `{"type":"integer","minimum":3}`,
		"A list of at most 3 strings":     `{"type":"array","maxItems":3,"items":` + text + `}`,
		"List of up to five numbers":      `{"type":"array","maxItems":5,"items":{"type":"number"}}`,
		"A list of exactly 2 names":       `{"type":"array","minItems":2,"maxItems":2,"items":{"title":"name"}}`,
		"A list of at least one { name }": `{"type":"array","minItems":1,"items":{"type":"object","required":["name"],"properties":{"name":{}}}}`,
		"The final answer as JSON":        string(AnyData),
		"Valid JSON":                      string(AnyData),

		// Texts.
		"A note about the JSON": "", "An object with keys in the left hand and a sentence for each": "",
		"": "", "One page of Markdown": "", "A summary": "", "A report": "", "E": "",
		"Text": "", "A letter or a call": "",
		"Markdown with a headline, three findings and one recommendation": "",
		"A list of three bullets in Markdown":                             "",
		"Greets {name} politely":                                          "",
		"Object: { unclosed":                                              "",
		"Object: { what is this? and that }":                              "",
		"Object: {}":                                                      "",
		"Two paragraphs:\n- one about prices\n- one about people":         "",
	} {
		got := "null"
		if doc := shapeOf(expected); doc != nil {
			raw, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			got = string(raw)
			if _, err := schema.CompileValue(doc); err != nil {
				t.Errorf("%q: %v", expected, err)
			}
		}
		if want == "" {
			want = "null"
		}
		var g, w any
		if json.Unmarshal([]byte(got), &g) != nil || json.Unmarshal([]byte(want), &w) != nil {
			t.Fatalf("%s %s", got, want)
		}
		if diff := cmp.Diff(w, g); diff != "" {
			t.Errorf("%q:\n%s", expected, diff)
		}
	}
}

// Whatever people write is read without trouble, and what comes of it is a
// schema that has an answer, or nothing.
func FuzzShapeOf(f *testing.F) {
	for _, s := range []string{
		"Object: { a: 1 to 5, b: [x | y] }", "List of { a, b: list of { c } }", "An object with:\n- a: b\n",
		"One of: a, b", "0 to 1", "|", "one of ,",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, expected string) {
		doc := shapeOf(expected)
		if doc == nil {
			return
		}
		if _, err := schema.CompileValue(doc); err != nil {
			t.Fatalf("%v\n%v", doc, err)
		}
	})
}
