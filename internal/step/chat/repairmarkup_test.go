package chat

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/contract"
)

// More replies as models give them: reasoning and XML tags around the answer, tables, values that are not JSON, and
// second thoughts. "" is a reply that has to be asked for again.
func TestRepliesWithMarkupAndReasoningAreRepaired(t *testing.T) {
	kinds := map[string]contract.Contract{
		"boolean": {Kind: contract.Boolean, Schema: json.RawMessage(`{"type":"boolean"}`), Name: "urgent"},
		"number":  {Kind: contract.Number, Schema: json.RawMessage(`{"type":"number"}`), Name: "score"},
		"closed":  {Kind: contract.Choice, Schema: json.RawMessage(`{"enum":["billing","technical"]}`), Name: "kind"},
		"list": {
			Kind: contract.List, Name: "items",
			Schema: json.RawMessage(`{"type":"array","items":{"type":"object","required":["part","cost"],
				"properties":{"part":{"type":"string"},"cost":{"type":"number"},"urgent":{"type":"boolean"}}}}`),
		},
		"texts": {Kind: contract.List, Schema: json.RawMessage(`{"type":"array","items":{"type":"string"}}`), Name: "tags"},
		"object": {Kind: contract.Object, Schema: json.RawMessage(`{"type":"object","required":["kind","score"],
			"properties":{"kind":{"enum":["billing","technical"]},"score":{"type":"number"},"urgent":{"type":"boolean"},
			"note":{"type":"string"}}}`)},
		"nested": {Kind: contract.Object, Schema: json.RawMessage(`{"type":"object","required":["total","lines"],
			"properties":{"total":{"type":"object","required":["amount","currency"],"properties":{
			"amount":{"type":"number"},"currency":{"type":"string"}}},
			"lines":{"type":"array","items":{"type":"object","required":["sku","count"],"properties":{
			"sku":{"type":"string"},"count":{"type":"integer"}}}}}}`)},
	}
	kinds["numbers"] = contract.Contract{Kind: contract.Choice, Schema: json.RawMessage(`{"type":"number","enum":[1,2]}`)}
	kinds["open numbers"] = contract.Contract{
		Kind: contract.Choice, Schema: json.RawMessage(`{"type":["number","string"]}`),
		Choices: []contract.Decision{{
			Options: []contract.Option{{Value: json.RawMessage("1")}, {Value: json.RawMessage("2")}},
			Open:    true, Else: "end",
		}},
	}
	kinds["unnamed number"] = contract.Contract{Kind: contract.Number, Schema: json.RawMessage(`{"type":"number"}`)}
	kinds["unnamed boolean"] = contract.Contract{Kind: contract.Boolean, Schema: json.RawMessage(`{"type":"boolean"}`)}
	kinds["one property"] = contract.Contract{Kind: contract.Object, Schema: json.RawMessage(`{"type":"object",
		"required":["score"],"properties":{"score":{"type":"number"}}}`)}
	kinds["quoted"] = contract.Contract{Kind: contract.Choice, Schema: json.RawMessage(`{"type":"string","enum":["true","false"]}`)}
	for kind, replies := range map[string][][2]string{
		"numbers": {
			{"two", "2"},
			{"Option 2.", "2"},
			{"2", "2"},
			{"2.0", "2"},
			{"three", ""},
			{"{\"choice\": \"two\"}", "2"},
		},
		"open numbers": {
			{"two", "2"},
			{"**2**", "2"},
			{"{\"choice\": 2}", "2"},
			{"I choose: 1.", "1"},
			{"none", `"none"`},
			{"7", "7"},
			{"None of these applies.", `"None of these applies."`},
		},
		"unnamed number": {
			{"<score>4</score>", "4"},
			{"Sorry for the delay!\n<rating> four </rating>\nIt has 3 flaws.", "4"},
			{"I gave it <b>4</b> for style.", ""},
			{"<score>4</score><score>5</score>", ""},
			{"<style>4</style>\n<score>5</score>", ""},
			{"<review><style>4</style></review>", ""},
			{"<score>good</score>", ""},
			{"<score>4", ""},
			{"85%", ""},
			{"<score>85%</score>", ""},
		},
		"unnamed boolean": {{"<approved>Yes</approved>", "true"}, {"Sure:\n\n<ok>false</ok>", "false"}},
		"one property": {
			{"<score>4</score>", `{"score":4}`},
			{"Sorry for the delay!\n<score>4</score>", `{"score":4}`},
			{"Here it is:\n```xml\n<score>4</score>\n```", `{"score":4}`},
			{"I gave it <score>4</score> once.", ""},
			{"{\"Score\": \"bad\"}\n<score>4</score>", ""},
			{"<rating>4</rating>", ""},
			{"85%", ""},
		},
		"quoted": {{"true", `"true"`}, {"True.", `"true"`}, {"{\"ok\": false}", `"false"`}, {"yes", ""}},
		"boolean": {
			{"<answer>yes</answer>", "true"},
			{"<thinking>It could be no. Or yes.</thinking>\nNo.", "false"},
			{"<think>\nIs it true? False?\n</think>\n\ntrue", "true"},
			{"<urgent>true</urgent>", "true"},
			{"✅ Yes", "true"},
			{"Yes\n\nThe customer waits since Monday. No reply so far.", "true"},
			{"<answer>yes</answer><answer>no</answer>", ""},
			{"Yes and no.", ""},
		},
		"number": {
			{"**7/10**", "7"},
			{"Score: **7/10**", "7"},
			{"# Score: 7", "7"},
			{"| Score | 7 |", ""},
			{"<score>7</score>", "7"},
			{"<score>\n7/10\n</score>\nIt has 3 flaws.", "7"},
			{"<think>3? 4? 8?</think>7", "7"},
			{"{\"score\": NaN}", ""},
			{"NaN", ""},
			{"7,5", ""},
			{"12,50", ""},
			{"0,7", ""},
			{"1.234,5", ""}, // seven and a half, or a list?
			{"[7, 8]", ""},
			{"7, 8", ""},
			{"Score: 7,5", ""},
			{"7th of 10", ""},
			{"It is in the 3rd place of 5", ""},
			{"7, because 2 flaws are left.", "7"},
			{"1,234", "1234"},
			{"1,234.5", "1234.5"},
			{"~7", "7"},
			{"about 7", "7"},
			{"Final answer: 7", "7"},
			{"7 / 10", "7"},
			{"7 – solid work with 2 flaws", "7"},
			{"First I thought 5. Final score: 7", "7"},
			{"{'score': 7}", "7"},
			{"score=7", "7"},
			{"{score: 7}", "7"},
			{"Score: 7 out of 10 points.", "7"},
			{"I'd rate this a 7 out of 10.", "7"},
			{"1.5k", ""},
			{"1e400", ""},
			{"{\"score\": 1e400}", ""},
			{"{\"score\": 3, \"score\": 4}", ""},
			{"{\"score\": 3, \"score\": 3}", "3"},
			{"70%", ""},
		},
		"closed": {
			{"<kind>billing</kind>", `"billing"`},
			{"<reasoning>technical? billing?</reasoning> technical", `"technical"`},
			{"`billing`", `"billing"`},
			{"Category → billing", `"billing"`},
			{"I'm sorry, but I can't be sure. Best guess: technical.", `"technical"`},
			{"**Kind**: Billing 💳", `"billing"`},
			{"1. billing", `"billing"`},
			{"billing/technical", ""},
		},
		"list": {
			{
				"| Part | Cost | Urgent |\n|---|---:|---|\n| gutter | $300 | yes |\n| tile | 1,200 | no |",
				`[{"cost":300,"part":"gutter","urgent":true},{"cost":1200,"part":"tile","urgent":false}]`,
			},
			{
				"Here they are:\n\n| part | cost |\n| --- | --- |\n| gutter | three hundred |\n\nAnything else?",
				`[{"cost":300,"part":"gutter"}]`,
			},
			{"| what | price |\n|---|---|\n| gutter | 300 |", ""},
			{"<items>[{\"part\":\"gutter\",\"cost\":300}]</items>", `[{"part":"gutter","cost":300}]`},
			{
				"- {\"part\": \"gutter\", \"cost\": 300}\n- {\"part\": \"tile\", \"cost\": 1200}",
				`[{"part":"gutter","cost":300},{"part":"tile","cost":1200}]`,
			},
			{
				"1. {\"part\": \"gutter\", \"cost\": 300}\n2. {\"part\": \"tile\", \"cost\": 1200}",
				`[{"part":"gutter","cost":300},{"part":"tile","cost":1200}]`,
			},
			{"```json\n[{part: 'gutter', cost: 300},]\n```", `[{"part":"gutter","cost":300}]`},
			{"[{\"part\":\"gutter\",\"cost\":300}]\n\nOr, without tax:\n[{\"part\":\"gutter\",\"cost\":250}]", ""},
			{"[{\"part\":\"gutter\",\"cost\":300,\"urgent\":NaN}]", `[{"cost":300,"part":"gutter"}]`},
			{"```json\n{\"part\":\"gutter\",\"cost\":300}\n```\n```json\n{\"part\":\"tile\",\"cost\":1200}\n```", ""},
		},
		"texts": {
			{"- red\n- green\n- blue", `["red","green","blue"]`},
			{"1. red\n2. green", `["red","green"]`},
			{"Sure:\n\n* red\n* green", `["red","green"]`},
			{"red, green", ""},
			{`["red", "green"]`, `["red","green"]`},
			{`['red', 'green',]`, `["red","green"]`},
			{"```\n[\"red\"]\n```", `["red"]`},
		},
		"object": {
			{`{"kind": "billing", "score": "3,5"}`, ""},
			{"| Field | Value |\n|---|---|\n| Kind | Billing |\n| Score | **7/10** |", `{"kind":"billing","score":7}`},
			{"| Kind | Score |\n|---|---|\n| billing | 7 |", `{"kind":"billing","score":7}`},
			{"<result>{\"kind\": \"billing\", \"score\": 7}</result>", `{"kind":"billing","score":7}`},
			{"<kind>billing</kind>\n<score>7</score>", `{"kind":"billing","score":7}`},
			{"<kind>billing</kind>\n<kind>technical</kind><score>7</score>", ""},
			{
				"<thinking>{\"kind\":\"technical\",\"score\":1}</thinking>{\"kind\":\"billing\",\"score\":7}",
				`{"kind":"billing","score":7}`,
			},
			{
				"My first try was {\"kind\": \"other\"}. Corrected: {\"kind\": \"billing\", \"score\": 7}",
				`{"kind":"billing","score":7}`,
			},
			{"{\"kind\":\"billing\",\"score\":1} No, wait: {\"kind\":\"technical\",\"score\":8}", ""},
			{
				"```json\n{\"kind\":\"billing\",\"score\":1}\n```\nor\n" +
					"```json\n{\"kind\":\"technical\",\"score\":8}\n```", "",
			},
			{"{\"kind\":\"billing\",\"score\":1}\n{\"kind\":\"billing\",\"score\":1}", `{"kind":"billing","score":1}`},
			{"```js\n// my answer\n{kind: 'billing', /* sure */ score: 7,}\n```", `{"kind":"billing","score":7}`},
			{"{kind: 'billing', score: 7}", `{"kind":"billing","score":7}`},
			{"{\"kind\":\"billing\",\"score\":7,\"urgent\":NaN}", `{"kind":"billing","score":7}`},
			{"{\"kind\":\"billing\",\"score\":NaN}", ""},
			{"{\"kind\":\"billing\",\"score\":7,\"note\":\"two\nlines\"}", `{"kind":"billing","score":7,"note":"two\nlines"}`},
			{
				"{\"kind\":\"billing\",\"score\":\"Seven\",\"note\":\"a } in a text\"} Hope it helps {",
				`{"kind":"billing","note":"a } in a text","score":7}`,
			},
			{"{\"kind\":\"billing\",\"score\":7", ""},
			{"\"kind\": \"billing\", \"score\": 7", `{"kind":"billing","score":7}`},
			{"json\n{\"kind\":\"billing\",\"score\":7}", `{"kind":"billing","score":7}`},
			{"{\"kind\":\"billing\" \"score\":7}", ""},
		},
		"nested": {
			{
				"Apologies!\n{'total': {'amount': 'twelve and a half', 'currency': 'EUR', 'tax': None}, 'lines': " +
					"[{'sku': 'A1', 'count': '2'},],}",
				`{"lines":[{"count":2,"sku":"A1"}],"total":{"amount":12.5,"currency":"EUR","tax":null}}`,
			},
			{
				"{\"invoice\":{\"total\":{\"amount\":\"$12.50\",\"currency\":\"USD\"},\"lines\":[]}}",
				`{"lines":[],"total":{"amount":12.50,"currency":"USD"}}`,
			},
			{"{\"total\":{\"Amount\":12.5,\"Currency\":\"EUR\"},\"lines\":{\"sku\":\"A1\",\"count\":2}}", ""},
		},
	} {
		r, err := newReader(Form{Contract: kinds[kind]})
		if err != nil {
			t.Fatal(err)
		}
		for _, reply := range replies {
			text, want := reply[0], reply[1]
			value, problems := r.read(text)
			if !sameJSON(value, want) || (want == "") != (len(problems) > 0) {
				t.Errorf("%s: %q is read as %s, want %s (%s)", kind, text, value, want, strings.Join(problems, "; "))
			}
		}
	}
}

// sameJSON reports whether two texts are the same JSON value, or both empty.
func sameJSON(got json.RawMessage, want string) bool {
	if want == "" {
		return got == nil
	}
	var a, b any
	return json.Unmarshal(got, &a) == nil && json.Unmarshal([]byte(want), &b) == nil && reflect.DeepEqual(a, b)
}
