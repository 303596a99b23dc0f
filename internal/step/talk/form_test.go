package talk

import (
	"encoding/json"
	"strings"
	"testing"
)

const objectN = `{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`

func TestRead(t *testing.T) {
	strict := Form{Schema: json.RawMessage(objectN)}
	for name, c := range map[string]struct {
		form     Form
		text     string
		value    string
		problems string
	}{
		"text":                       {text: " hello \n", value: `"hello"`},
		"an object in text is text":  {text: `see {"a":1}`, value: `"see {\"a\":1}"`},
		"a list":                     {text: `[1, 2]`, value: `[1,2]`},
		"a list with a comma more":   {text: `[1, 2, ]`, value: `[1,2]`},
		"another fence is text":      {text: "```python\nx\n```", value: "\"```python\\nx\\n```\""},
		"two fences are text":        {text: "```json\n{}\n```\n```json\n{}\n```", value: "\"```json\\n{}\\n```\\n```json\\n{}\\n```\""},
		"empty":                      {text: "  ", problems: "empty"},
		"strict":                     {form: strict, text: `{"n": 1}`, value: `{"n":1}`},
		"fenced":                     {form: strict, text: "Here:\n```json\n{\"n\": 1}\n```\nDone.", value: `{"n":1}`},
		"fenced without a name":      {form: strict, text: "```\n{\"n\": 1}\n```", value: `{"n":1}`},
		"text before":                {form: strict, text: `Sure! {"n": 1}`, value: `{"n":1}`},
		"text after":                 {form: strict, text: `{"n": 1} I hope this helps.`, value: `{"n":1}`},
		"commas":                     {form: strict, text: "{\"n\": 1 ,\n}", value: `{"n":1}`},
		"commas in texts stay":       {form: strict, text: `{"n": 1, "t": "a,}b,]",}`, value: `{"n":1,"t":"a,}b,]"}`},
		"brackets in texts":          {form: strict, text: `so: {"t": "}{\"", "n": 1} ok`, value: `{"t":"}{\"","n":1}`},
		"the first that fits":        {form: strict, text: `[1] or {"n": "x"} or {"n": 2}`, value: `{"n":2}`},
		"large numbers stay":         {form: strict, text: `{"n": 12345678901234567890}`, value: `{"n":12345678901234567890}`},
		"none that fits":             {form: strict, text: `{"n": "x"}`, problems: "n: "},
		"no JSON":                    {form: strict, text: `one`, problems: "not JSON"},
		"half":                       {form: strict, text: `{"n": 1`, problems: "not JSON"},
		"a text that is wanted":      {form: Form{Schema: json.RawMessage(`{"type":"string","maxLength":5}`)}, text: "hello", value: `"hello"`},
		"a text as JSON":             {form: Form{Schema: json.RawMessage(`{"type":"string"}`)}, text: `"hello"`, value: `"hello"`},
		"parts":                      {form: Form{Parts: []string{"a", "b"}}, text: `{"a":1,"b":null,"c":2}`, value: `{"a":1,"b":null,"c":2}`},
		"a part is missing":          {form: Form{Parts: []string{"a", "b"}}, text: `{"a":1}`, problems: `"b" is missing`},
		"parts of a list":            {form: Form{Parts: []string{"a"}}, text: `[1]`, problems: "not a JSON object"},
		"a verdict":                  {form: Form{Verdict: true}, text: `{"approved": false}`, value: `{"approved":false}`},
		"a verdict in words":         {form: Form{Verdict: true}, text: `{"approved": "true"}`, problems: "true or false"},
		"a verdict in nothing":       {form: Form{Verdict: true}, text: `{}`, problems: "true or false"},
		"null is not a verdict":      {form: Form{Verdict: true}, text: `null`, problems: "not a JSON object"},
		"a verdict with other needs": {form: Form{Verdict: true, Schema: json.RawMessage(objectN)}, text: `{"approved":true}`, problems: "n"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := newReader(c.form)
			if err != nil {
				t.Fatal(err)
			}
			value, problems := r.read(c.text)
			if string(value) != c.value || (c.problems == "") != (problems == nil) || !strings.Contains(strings.Join(problems, "; "), c.problems) {
				t.Errorf("got %s, %q", value, problems)
			}
		})
	}
}

func TestBadSchema(t *testing.T) {
	if _, err := newReader(Form{Schema: json.RawMessage(`{"type": 7}`)}); err == nil {
		t.Error("it was accepted")
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{`{"n":1}`, "```json\n{\"n\":1,}\n```", `[[[[{"n":1`, `"\`, `{"a":"\`, strings.Repeat("[", 300), `{"n":1}}}`, "\xff{\"n\":1}"} {
		f.Add(seed)
	}
	strict, err := newReader(Form{Schema: json.RawMessage(objectN)})
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

func TestPlaceholders(t *testing.T) {
	states := Form{Schema: json.RawMessage(`{"properties":{"state":{"enum":["TODO","done"]}}}`)}
	for _, c := range []struct {
		form  Form
		value string
		found int
	}{
		{Form{}, `{"a":"<name>","b":{"c":["...","{{x}}","[insert text]"]},"d":"TBD"}`, 5},
		{Form{}, `{"a":"the <name> tag","b":"TODO: buy roses","c":"string theory","d":1,"e":null,"f":""}`, 0},
		{states, `{"state":"TODO"}`, 0},
		{states, `{"state":"tbd"}`, 1},
		{Form{}, `"…"`, 1},
	} {
		if got := c.form.placeholders(json.RawMessage(c.value)); len(got) != c.found {
			t.Errorf("%s: %q", c.value, got)
		}
	}
}
