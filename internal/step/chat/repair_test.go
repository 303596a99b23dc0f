package chat

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/contract"
)

// Replies as models give them, and what they mean. "" is a reply that has to be
// asked for again: there is more than one way to read it, or none.
func TestUnambiguousRepliesAreRepaired(t *testing.T) {
	open := contract.Contract{
		Kind: contract.Choice, Schema: json.RawMessage(`{"type":"string"}`),
		Choices: []contract.Decision{{Open: true, Else: "revise", Options: []contract.Option{{Value: json.RawMessage(`"approved"`)}}}},
	}
	kinds := map[string]contract.Contract{
		"boolean": {Kind: contract.Boolean, Schema: json.RawMessage(`{"type":"boolean"}`), Name: "urgent"},
		"number":  {Kind: contract.Number, Schema: json.RawMessage(`{"type":"number"}`), Name: "score"},
		"integer": {Kind: contract.Integer, Schema: json.RawMessage(`{"type":"integer","minimum":1,"maximum":10}`), Name: "score"},
		"closed":  {Kind: contract.Choice, Schema: json.RawMessage(`{"enum":["billing","technical","on hold"]}`), Name: "kind"},
		"numbers": {Kind: contract.Choice, Schema: json.RawMessage(`{"enum":[1,2,3]}`), Name: "level"},
		"open":    open,
		"inside": {
			Kind: contract.Object, Schema: json.RawMessage(`{"type":"object","required":["verdict"],"properties":{"verdict":{"type":"string"}}}`),
			Choices: []contract.Decision{{At: "verdict", Open: true, Options: open.Choices[0].Options}},
		},
		"one":      {Kind: contract.Object, Schema: json.RawMessage(`{"type":"object","required":["score"],"properties":{"score":{"type":"number"}}}`)},
		"optional": {Kind: contract.Object, Schema: json.RawMessage(`{"type":"object","properties":{"delegates":{"type":"array"}}}`)},
		"text":     {Kind: contract.Text, Schema: json.RawMessage(`{"type":"string"}`), Name: "answer"},
		"list":     {Kind: contract.List, Schema: json.RawMessage(`{"type":"array","items":{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}}`), Name: "items"},
		"object": {Kind: contract.Object, Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["kind","score"],"properties":{
			"kind":{"enum":["billing","technical"]},"score":{"type":"number"},"urgent":{"type":"boolean"},"note":{"type":"string"},
			"who":{"type":"object","required":["firstName"],"properties":{"firstName":{"type":"string"}}}}}`)},
	}
	for kind, replies := range map[string]map[string]string{
		"optional": {
			`{"delegates": ["a"]}`:               `{"delegates":["a"]}`,
			`{"delegates": {"cost-advisor": 1}}`: "", // not the object {"cost-advisor": 1}
		},
		"boolean": {
			"true": "true", "True": "true", "Yes.": "true", "**No**": "false", `"false"`: "false", "```\ntrue\n```": "true", "```json\nfalse\n```": "false",
			"I'm sorry for the confusion earlier. Yes.":            "true",
			"Yes, because the customer is waiting.":                "true",
			"The answer is: no":                                    "false",
			"Answer: **true**":                                     "true",
			"Let me think.\nIt is late.\n\nfalse":                  "false",
			`{"urgent": true}`:                                     "true",
			`{"urgent": "yes", "reason": "It says so."}`:           "true",
			`Here you go: {"urgent": false,}`:                      "false",
			"It is not true that this is urgent.":                  "",
			"No problem! Yes.":                                     "true",
			"Yes. No.":                                             "",
			"This depends on many things.":                         "",
			"I would not say yes":                                  "",
			`{"urgent": "perhaps"}`:                                "",
			"Apologies for the earlier reply, the verdict is true": "true",
		},
		"number": {
			"7": "7", "7.5": "7.5", " -3 ": "-3", `"7"`: "7", "seven": "7", "Seven.": "7", "twenty-five": "25", "007": "7", "+4": "4", "1,250": "1250",
			"Score: 7":                                 "7",
			"**Score:** 7/10":                          "7",
			"I apologize. I'd give it a seven.":        "7",
			"7 out of 10":                              "7",
			"The score is 7. It could be better.":      "7",
			`{"score": "7"}`:                           "7",
			`{"score": 7, "why": "Good, 3 strengths"}`: "7",
			"```json\n{\"score\": 7}\n```":             "7",
			"Score: 8 (out of 10)":                     "8",
			"8 (very good)":                            "8",
			"My score is 8, because it has 3 parts.":   "8",
			"three hundred":                            "300",
			"one thousand two hundred and five":        "1205",
			"twelve hundred":                           "1200",
			"two thousand three hundred and five":      "2305",
			"ninety-nine thousand nine hundred":        "99900",
			"six and a half":                           "6.5",
			"I would give it six and a half.":          "6.5",
			"6 and a half":                             "6.5",
			"Seven point two five":                     "7.25",
			"minus three":                              "-3",
			"three quarters":                           "",
			"six or seven":                             "",
			"six and seven":                            "",
			`\boxed{8}`:                                "8",
			`Adding 3 and 5 gives $\boxed{8}$.`:        "8",
			`The answer is \(\boxed{\text{eight}}\)`:   "8",
			`\boxed{8} or \boxed{9}`:                   "",
			"$1,200":                                   "1200",
			"300 EUR":                                  "300",
			"I found 3 problems in 2 places.":          "",
			"between 6 and 7":                          "",
			"high":                                     "",
		},
		"integer": {"six and a half": "", "7": "7", "eleven": "", "7.0": "7.0", "ten": "10", "It is 12.": ""},
		"closed": {
			"billing": `"billing"`, "Billing": `"billing"`, `"billing"`: `"billing"`, "**Billing.**": `"billing"`, "on_hold": `"on hold"`, "On-Hold!": `"on hold"`,
			"This is a billing question, so: billing":          `"billing"`,
			"I think the kind is technical.":                   `"technical"`,
			"Sorry for the delay! The ticket goes to billing.": `"billing"`,
			`{"kind": "technical", "confidence": 0.9}`:         `"technical"`,
			"Not billing":          "",
			"billing or technical": "",
			"other":                "",
		},
		"numbers": {"2": "2", `"2"`: "2", "Level 2": "2", "4": ""},
		"open": {
			"approved": `"approved"`, "Approved.": `"approved"`, "**APPROVED**": `"approved"`, "Verdict: approved": `"approved"`, `"approved"`: `"approved"`,
			"Not approved: the figures are missing.":           `"Not approved: the figures are missing."`,
			"This cannot be approved":                          `"This cannot be approved"`,
			"The tone is wrong":                                `"The tone is wrong"`,
			`{"status": "Approved", "note": "Fine."}`:          `"approved"`,
			"Sure:\n```json\n{\"verdict\": \"approved\"}\n```": `"approved"`,
			`{"a": "approved", "b": 7}`:                        `"approved"`,
		},
		"one": {
			"8": `{"score":8}`, "I would give it 8.": `{"score":8}`, "six": `{"score":6}`, `{"score":"8"}`: `{"score":8}`,
			"true": "", "I cannot say.": "", `"eight"`: `{"score":8}`,
		},
		"inside": {
			`{"verdict":"approved"}`: `{"verdict":"approved"}`, `{"verdict":"Approved."}`: `{"verdict":"approved"}`,
			`{"Verdict":"**APPROVED**","n":1}`: `{"n":1,"verdict":"approved"}`,
			`{"verdict":"Not approved"}`:       `{"verdict":"Not approved"}`, `{"verdict":"later"}`: `{"verdict":"later"}`,
		},
		"text": {
			"\ufeffhello": `"hello"`, "\ufeff": "", "\n\ufeff \n": "", // a byte order mark
			"hello": `"hello"`, `"hello"`: `"hello"`, `{"answer": "hello"}`: `"hello"`, "7": `"7"`, "true": `"true"`,
			"See {\"a\": \"b\"} and ```json\n\"x\"\n```": `"See {\"a\": \"b\"} and ` + "```json\\n\\\"x\\\"\\n```" + `"`,
		},
		"list": {
			`[{"n":1},{"n":"two"},]`: `[{"n":1},{"n":2}]`, `{"items":[{"n":1}],"total":1}`: `[{"n":1}]`, "Sure!\n```json\n[{\"n\": 1, \"x\": 2}]\n```\nDone.": `[{"n":1,"x":2}]`,
			"{\"n\":1}\n{\"n\":2}": `[{"n":1},{"n":2}]`, "[{\"n\":1}, // one\n{\"n\":2 /* two */}]": `[{"n":1},{"n":2}]`,
			`"[{\"n\":1}]"`: `[{"n":1}]`,
			`{"n":1}`:       "", "nothing": "", `{"n":1} and then {"n":2}`: "",
		},
		"object": {
			`{"kind":"Billing","score":"seven"}`:                                                                                    `{"kind":"billing","score":7}`,
			`{"Kind":"billing","score":1,"extra":true}`:                                                                             `{"kind":"billing","score":1}`,
			"I apologize for the confusion.\n```json\n{\"kind\": \"technical\", \"score\": 8,}\n```":                                `{"kind":"technical","score":8}`,
			`{"kind":"billing","score":1,"urgent":"No","note":5,"who":{"first_name":"Ada"}}`:                                        `{"kind":"billing","note":"5","score":1,"urgent":false,"who":{"firstName":"Ada"}}`,
			`{"kind":"billing","score":1,"urgent":None,"note":null}`:                                                                `{"kind":"billing","score":1}`,
			`{'kind': 'billing', 'score': 1, 'note': "it's \"so\"", 'urgent': False}`:                                               `{"kind":"billing","score":1,"note":"it's \"so\"","urgent":false}`,
			`{“kind”: “billing”, "score": 1}`:                                                                                       `{"kind":"billing","score":1}`,
			`{"result":{"kind":"billing","score":1}}`:                                                                               `{"kind":"billing","score":1}`,
			`[{"kind":"billing","score":1}]`:                                                                                        `{"kind":"billing","score":1}`,
			`{"kind":"billing","score":1,"who":"{\"firstName\":\"Ada\"}"}`:                                                          `{"kind":"billing","score":1,"who":{"firstName":"Ada"}}`,
			`{"a":{"kind":"billing","score":1},"b":{"kind":"technical","score":2}}`:                                                 "",
			`[{"kind":"billing","score":1},{"kind":"technical","score":2}]`:                                                         "",
			`{"kind":"other","score":1}`:                                                                                            "",
			"kind: billing\nscore: 7":                                                                                               `{"kind":"billing","score":7}`,
			"Sorry for the wait! Here it is:\n\n- **Kind:** Billing.\n- **Score:** seven\n- **Urgent:** no\n- **Confidence:** high": `{"kind":"billing","score":7,"urgent":false}`,
			"Kind = technical\nScore = 8/10\nNote: It has\ntwo lines.":                                                              `{"kind":"technical","note":"It has\ntwo lines.","score":8}`,
			"```\nkind: billing\nscore: 1\n```":                                                                                     `{"kind":"billing","score":1}`,
			"kind: billing\nscore: 1\n" +
				"kind: technical": "",
			"kind: billing\nscore: high": "",
			"kind: billing":              "",
			`{"kind":"billing"}`:         "",
		},
	} {
		r, err := newReader(Form{Contract: kinds[kind]})
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range replies {
			value, problems := r.read(text)
			if string(value) != want || (want == "") != (len(problems) > 0) {
				t.Errorf("%s: %q is read as %s, want %s (%s)", kind, text, value, want, strings.Join(problems, "; "))
			}
		}
	}
}
