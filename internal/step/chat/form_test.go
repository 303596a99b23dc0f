package chat

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/provider"
)

const objectN = `{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`

const verdict = `{"type":"object","required":["approved"],"properties":{"approved":{"type":"boolean"}}}`

func form(schema string) Form {
	return Form{Contract: contract.Contract{Kind: contract.JSON, Schema: json.RawMessage(schema)}}
}

func TestRepliesAreReadAsTheirForm(t *testing.T) {
	strict, data := form(objectN), Form{Contract: contract.Contract{Data: true}}
	for name, c := range map[string]struct {
		form     Form
		text     string
		value    string
		problems string
	}{
		"text":                      {text: " hello \n", value: `"hello"`},
		"an object in text is text": {text: `see {"a":1}`, value: `"see {\"a\":1}"`},
		"an object is text":         {text: `{"a":1}`, value: `"{\"a\":1}"`},
		"a list is text":            {text: `[1, 2]`, value: `"[1, 2]"`},
		"a list as data":            {form: data, text: `[1, 2]`, value: `[1,2]`},
		"a list with a comma more":  {form: data, text: `[1, 2, ]`, value: `[1,2]`},
		"a fenced object as data":   {form: data, text: "```json\n{\"a\": 1}\n```", value: `{"a":1}`},
		"another fence is text":     {text: "```python\nx\n```", value: "\"```python\\nx\\n```\""},
		"two fences are text": {
			text: "```json\n{}\n```\n```json\n{}\n```", value: "\"```json\\n{}\\n```\\n```json\\n{}\\n```\"",
		},
		"empty":                 {text: "  ", problems: "empty"},
		"strict":                {form: strict, text: `{"n": 1}`, value: `{"n":1}`},
		"fenced":                {form: strict, text: "Here:\n```json\n{\"n\": 1}\n```\nDone.", value: `{"n":1}`},
		"fenced without a name": {form: strict, text: "```\n{\"n\": 1}\n```", value: `{"n":1}`},
		"text before":           {form: strict, text: `Sure! {"n": 1}`, value: `{"n":1}`},
		"text after":            {form: strict, text: `{"n": 1} I hope this helps.`, value: `{"n":1}`},
		"commas":                {form: strict, text: "{\"n\": 1 ,\n}", value: `{"n":1}`},
		"commas in texts stay":  {form: strict, text: `{"n": 1, "t": "a,}b,]",}`, value: `{"n":1,"t":"a,}b,]"}`},
		"brackets in texts":     {form: strict, text: `so: {"t": "}{\"", "n": 1} ok`, value: `{"t":"}{\"","n":1}`},
		"the first that fits":   {form: strict, text: `[1] or {"n": "x"} or {"n": 2}`, value: `{"n":2}`},
		"large numbers stay":    {form: strict, text: `{"n": 12345678901234567890}`, value: `{"n":12345678901234567890}`},
		"none that fits":        {form: strict, text: `{"n": "x"}`, problems: "n: "},
		"no JSON":               {form: strict, text: `none of it`, problems: "cannot be read as JSON"},
		"half":                  {form: strict, text: `{"n": 1`, problems: "cannot be read as JSON"},
		"a text that is wanted": {form: form(`{"type":"string","maxLength":5}`), text: "hello", value: `"hello"`},
		"a text as JSON":        {form: form(`{"type":"string"}`), text: `"hello"`, value: `"hello"`},
		"parts":                 {form: form(`{"type":"object","required":["a","b"]}`), text: `{"a":1,"b":null,"c":2}`, value: `{"a":1,"b":null,"c":2}`},
		"a part is missing":     {form: form(`{"type":"object","required":["a","b"]}`), text: `{"a":1}`, problems: `must have the property "b"`},
		"parts of a list":       {form: form(`{"type":"object","required":["a"]}`), text: `[1]`, problems: "must be an object"},
		"a verdict":             {form: form(verdict), text: `{"approved": false}`, value: `{"approved":false}`},
		"a verdict in words":    {form: form(verdict), text: `{"approved": "true"}`, value: `{"approved":true}`},
		"a verdict in nothing":  {form: form(verdict), text: `{}`, problems: `must have the property "approved"`},
		"null is not a verdict": {form: form(verdict), text: `null`, problems: "must be an object"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := newReader(c.form)
			if err != nil {
				t.Fatal(err)
			}
			value, problems := r.read(c.text)
			if string(value) != c.value || (c.problems == "") != (problems == nil) ||
				!strings.Contains(strings.Join(problems, "; "), c.problems) {
				t.Errorf("got %s, %q", value, problems)
			}
		})
	}
}

func TestInvalidSchemaFails(t *testing.T) {
	if _, err := newReader(form(`{"type": 7}`)); err == nil {
		t.Error("it was accepted")
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{`{"n":1}`, "```json\n{\"n\":1,}\n```", `[[[[{"n":1`, `"\`, `{"a":"\`, strings.Repeat("[", 300), `{"n":1}}}`, "\xff{\"n\":1}"} {
		f.Add(seed)
	}
	strict, err := newReader(form(objectN))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range []*reader{strict, {}} {
			value, problems := r.read(text)
			if (value == nil) == (problems == nil) {
				t.Fatalf("%s, %q", value, problems)
			}
			if value != nil && (!json.Valid(value) || len(r.problems(value)) > 0) {
				t.Fatalf("%s is not what was asked for", value)
			}
		}
	})
}

// What means nothing is no answer, in a first reply as little as in a mended
// one; what merely looks odd is.
func TestPlaceholdersAreNotAnswers(t *testing.T) {
	const asked = `{"type":"object","properties":{
		"name":{"type":"string","description":"The customer's full name"},
		"firstName":{"type":"string","title":"First name of the customer"},
		"status":{"type":"string","title":"Open","enum":["...","<status>","done"]},
		"tags":{"type":"array","items":{"type":"string","description":"One tag"}},
		"deep":{"type":"object","properties":{"note":{"type":"string","examples":["<note>"]}}},
		"state":{"$ref":"#/$defs/the~1state"},
		"maybe":{"anyOf":[{"$ref":"#/$defs/the~1state"},{"type":"null"}]},
		"column":{"type":"object","properties":{"name":{"type":"string"},"type":{"type":"string"},"holds":{"type":"string"}}},
		"pair":{"type":"array","prefixItems":[{"enum":["TBD"]},{"type":"string"}]},
		"more":{"type":"object","patternProperties":{"^x":{"enum":["tbd"]}},"additionalProperties":{"oneOf":[{"const":"TODO"},{"const":"DONE"}]}},
		"answer":{"type":"string","description":"yes"},
		"circle":{"allOf":[{"$ref":"#/properties/circle"}]}
	},"$defs":{"the/state":{"type":"string","description":"How far it is","enum":["TODO","..."]}}}`
	for _, c := range []struct {
		value         string
		first, mended bool // it is taken for a placeholder
	}{
		{`{"name":"Ada"}`, false, false},
		{`{"name":"<name>"}`, true, true},
		{`{"name":"<your name here>"}`, true, true},
		{`{"name":"{{ name }}"}`, false, true},
		{`{"API_KEY":"${API_KEY}"}`, false, false},
		{`{"name":"[Name]"}`, true, true},
		{`{"firstName":"<first_name>"}`, true, true},
		{`{"firstName":"<name>"}`, false, true},
		{`{"name":"..."}`, true, true},
		{`{"name":"…"}`, true, true},
		{`{"name":"The customer's full name"}`, true, true},
		{`{"name":"string"}`, false, true},
		{`{"firstName":"First name of the customer"}`, true, true},
		{`{"tags":["One tag"]}`, true, true},
		{`{"tags":["a","<tags>"]}`, true, true},
		{`{"name":"<div>"}`, false, true},
		{`{"name":"N/A"}`, false, false},
		{`{"name":"NA"}`, false, false},
		{`{"name":"todo"}`, false, true},
		{`{"name":"wait..."}`, false, false},
		{`{"name":"The name is <b>Ada</b>"}`, false, false},
		{`{"name":"[the name, the age, the town and the street of the customer]"}`, false, false},
		{`{"status":"..."}`, false, false},
		{`{"status":"<status>"}`, false, false},
		{`{"deep":{"note":"<note>"}}`, false, false},
		{`{"deep":{"note":"{{note}}"}}`, false, true},
		{`{"other":"<other>"}`, true, true},
		{`{"state":"TODO"}`, false, false},
		{`{"state":"..."}`, false, false},
		{`{"state":"How far it is"}`, true, true},
		{`{"maybe":"TODO"}`, false, false},
		{`{"pair":["TBD","b"]}`, false, false},
		{`{"pair":["a","TBD"]}`, false, true},
		{`{"pair":["tbd","b"]}`, false, true},
		{`{"more":{"a":"TODO"}}`, false, false},
		{`{"more":{"x":"tbd"}}`, false, false},
		{`{"more":{"x":"todo"}}`, false, true},
		{`{"circle":"todo"}`, false, true},
		{`{"column":{"name":"email","type":"string"}}`, false, false},
		{`{"column":{"type":"string"}}`, false, false},
		{`{"column":{"name":"email","holds":"string"}}`, false, false},
		{`{"column":{"name":"string","holds":"string"}}`, true, true},
		{`{"fromType":"string","to_type":"string"}`, false, false},
		{`{"circle":3}`, false, false},
		{`{"answer":"Yes"}`, false, false},
		{`{"other":"string"}`, false, true},
		{`{"other":"Kept"}`, false, false},
		{`{"other":"<div>"}`, false, true},
		{asked, true, true},
	} {
		r := reads(t, form(asked))
		if got := r.placeholders(json.RawMessage(c.value), nil); (len(got) > 0) != c.first {
			t.Errorf("%s: %q", c.value, got)
		}
		if got := r.placeholders(json.RawMessage(c.value), said("It is open.")); (len(got) > 0) != c.mended {
			t.Errorf("%s, mended: %q", c.value, got)
		}
	}
	if got := reads(t, Form{}).placeholders(json.RawMessage(`"..."`), nil); got != nil {
		t.Errorf("a text that may be anything: %q", got)
	}
	if got := reads(t, form(`{"type":"object","required":["a"]}`)).placeholders(json.RawMessage(`{"a":"<a>"}`), nil); len(got) != 1 {
		t.Errorf("parts: %q", got)
	}
	// What was said before is not one because something else had to be mended.
	parts := reads(t, form(`{"type":"object","required":["a","b"]}`))
	for first, want := range map[string]int{
		`{"a": "<div>"}`:                       1,
		"Put it into a <div>, which is TBD.":   0,
		"Put it somewhere, when it is decided": 2,
	} {
		if got := parts.placeholders(json.RawMessage(`{"a":"<div>","b":"TBD"}`), said(first)); len(got) != want {
			t.Errorf("after %s: %q", first, got)
		}
	}
	if got := parts.placeholders(json.RawMessage(`{"a":"string","b":1}`), said("It is a string.")); got != nil {
		t.Errorf("what was said before: %q", got)
	}
}

func reads(t *testing.T, f Form) *reader {
	t.Helper()
	r, err := newReader(f)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func said(text string) *provider.Reply {
	return &provider.Reply{Blocks: []provider.Block{{Type: provider.Text, Text: text}}}
}
