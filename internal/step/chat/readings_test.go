package chat

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/contract"
)

// reading is a reply and its value; "" is a reply that the model is asked for again.
type reading struct{ reply, value string }

// checkReadings reads replies under a contract. problem is part of the message of each reply that has no value.
func checkReadings(t *testing.T, c contract.Contract, problem string, readings []reading) {
	t.Helper()
	r := reads(t, Form{Contract: c})
	for _, one := range readings {
		value, problems := r.read(one.reply)
		message := strings.Join(problems, "; ")
		if !sameJSON(value, one.value) || (one.value == "") != (len(problems) > 0) {
			t.Errorf("%q is read as %s, want %s (%s)", one.reply, value, one.value, message)
		} else if one.value == "" && !strings.Contains(message, problem) {
			t.Errorf("%q: the message %q does not contain %q", one.reply, message, problem)
		}
	}
}

const contactSchema = `{"type":"object","required":["name"],"properties":{"name":{"type":"string"},
	"contact":{"type":"object","properties":{"name":{"type":"string"}}}}}`

var contactContract = contract.Contract{Kind: contract.Object, Schema: json.RawMessage(contactSchema), Under: "name"}

func TestBrokenJSONIsNeverReadAsItsInnerObject(t *testing.T) {
	checkReadings(t, contactContract, "JSON is broken", []reading{
		{`{"name":"Acme","contact":{"name":"Bob"}`, `{"name":"Acme","contact":{"name":"Bob"}}`},
		{"Sure:\n{\"name\":\"Acme\",\"contact\":{\"name\":\"Bob\"}\n", `{"name":"Acme","contact":{"name":"Bob"}}`},
		{"```json\n{\"name\":\"Acme\",\"contact\":{\"name\":\"Bob\"}\n```", `{"name":"Acme","contact":{"name":"Bob"}}`},
		{`{"name":"Acme"`, `{"name":"Acme"}`},
		{`{"name":"Acme" "contact":{"name":"Bob"}}`, ""},
		{`Here: {"name":"Acme" "contact":{"name":"Bob"}}`, ""},
		{`{"name":"Acme "the" Co","contact":{"name":"Bob"}}`, ""},
		{`{"name":"Acme "the Co","contact":{"name":"Bob"}}`, ""},
		{"```json\n{\"name\":\"Acme\" \"contact\":{\"name\":\"Bob\"}}\n```", ""},
		{`{"name":"Acme","contact":{"name":"Bob"} I hope this helps.`, ""},
		{`{"name":"Acme","contact":{"name":"Bob"`, ""},
		{`{"name":"Acme","contact":[{"name":"Bob"}}`, ""},
		{`{"name":"Ac`, ""},
		{`[{"name":"Acme" {"name":"Bob"}]`, ""},
		{`{"contact" {"name":"Bob"}} No: {"name":"Acme"}`, `{"name":"Acme"}`},
		{`Use { to begin: {"name":"Acme"}`, `{"name":"Acme"}`},
		{`{see below} {"name":"Acme"}`, `{"name":"Acme"}`},
	})
}

func TestNumbersInRepliesKeepSignAndSize(t *testing.T) {
	number := contract.Contract{Kind: contract.Number, Schema: json.RawMessage(`{"type":"number"}`), Name: "v"}
	checkReadings(t, number, "cannot be read as a number", []reading{
		{"negative 3", "-3"},
		{"Negative three.", "-3"},
		{"minus 3", "-3"},
		{"minus $5", "-5"},
		{"-$5", "-5"},
		{"$-5", "-5"},
		{"The score is minus 3.", "-3"},
		{"−3", "-3"},
		{".5", "0.5"},
		{"-.5", "-0.5"},
		{"+.5", "0.5"},
		{"point five", "0.5"},
		{"minus point five", "-0.5"},
		{"half", "0.5"},
		{"one half", "0.5"},
		{"06 and a half", "6.5"},
		{"about 7", "7"},
		{"7/10", "7"},
		{"4/5 stars", "4"},
		{"Score - 7", "7"},
		{"- 7", "7"},
		{"7 (was 6)", "7"},
		{`{"v":"negative 5"}`, "-5"},
		{`{"v":.5}`, "0.5"},
		{`{"v":+5}`, "5"},
		{"<7>", "7"},
		{"-0.0", "-0.0"},
		{"7–8", ""},
		{"7 – 8", ""},
		{"7-8", ""},
		{"0.2 - 0.3", ""},
		{"0.2 - 0.3 because it is short", ""},
		{"5 - 3", ""},
		{"seven, maybe eight", ""},
		{"seven – eight", ""},
		{"less than 7", ""},
		{"The score is at least 7", ""},
		{"> 7", ""},
		{">7", ""},
		{"Score > 7", ""},
		{"12:30", ""},
		{"1/2", ""},
		{"3/4", ""},
		{"minus -3", ""},
		{".", ""},
	})
}

func TestChoicesAreFoundInSentences(t *testing.T) {
	schema := json.RawMessage(`{"enum":["billing","tech support","bug"]}`)
	closed := contract.Contract{Kind: contract.Choice, Schema: schema, Name: "kind"}
	var options []contract.Option
	for _, value := range []string{`"billing"`, `"tech support"`, `"bug"`, `"approved"`, `"no"`, `"A"`} {
		options = append(options, contract.Option{Value: json.RawMessage(value)})
	}
	open := contract.Contract{
		Kind: contract.Choice, Schema: json.RawMessage(`{"type":"string"}`),
		Choices: []contract.Decision{{Open: true, Else: "other", Options: options}},
	}
	both := []reading{
		{`I would classify this mail as "billing".`, `"billing"`},
		{"I'm sorry, this is about billing.", `"billing"`},
		{"**bug**", `"bug"`},
		{"Bug", `"bug"`},
		{"This is a billing question.", `"billing"`},
		{"A Tech-Support question", `"tech support"`},
	}
	checkReadings(t, closed, "", append([]reading{
		{"Hello! I read the mail twice. The billing department has to see it. Have a nice day.", `"billing"`},
		{"This isn't billing", ""},
		{"This is not a billing question.", ""},
		{"I don't think the kind is billing", ""},
		{"I'm not sure, but the kind is billing", `"billing"`},
		{"A billing question, or a bug report.", ""},
		{"A debugging question.", ""},
		{"billing/bug", ""},
	}, both...))
	long := "The draft repeats itself in the second part, and its title has a word too many. The approved wording is " +
		"in the style guide."
	const twoTexts = `{"status":"rejected","note":"Use the approved wording"}`
	checkReadings(t, open, "", append([]reading{
		{"LGTM, approved", `"approved"`},
		{"This isn't billing", `"This isn't billing"`},
		{"not billing", `"not billing"`},
		{"Billing is not the topic.", `"Billing is not the topic."`},
		{"Fix the title before this is approved.", `"Fix the title before this is approved."`},
		{"It should be approved by the owner.", `"It should be approved by the owner."`},
		{"It is about billing and a bug.", `"It is about billing and a bug."`},
		{"There is no title on a page.", `"There is no title on a page."`},
		{long, string(jsonText(long))},
		{twoTexts, string(jsonText(twoTexts))},
	}, both...))
}

func jsonText(text string) json.RawMessage {
	raw, _ := json.Marshal(text) // a text has no error
	return raw
}

func TestObjectsInOtherNotations(t *testing.T) {
	checkReadings(t, contactContract, "", []reading{
		{"{name: Acme}", `{"name":"Acme"}`},
		{"{name: Acme Co, contact: {name: Bob}}", `{"name":"Acme Co","contact":{"name":"Bob"}}`},
		{"- name: Acme", `{"name":"Acme"}`},
		{"Name: Acme\n\nof London", `{"name":"Acme\n\nof London"}`},
		{"- name: Acme\n- contact: {name: Bob}", `{"name":"Acme","contact":{"name":"Bob"}}`},
		{"| Field | Value |\n|---|---|\n| name | Acme |", `{"name":"Acme"}`},
		{"| name | contact |\n|---|---|\n| Acme | {\"name\":\"Bob\"} |", `{"name":"Acme","contact":{"name":"Bob"}}`},
		{"A customer of ours", `{"name":"A customer of ours"}`},
	})
	checkReadings(t, contactContract, "contact", []reading{
		{"- name: Acme\n- contact: Bob", ""},
		{"Here it is:\n- name: Acme\n- contact: Bob", ""},
		{"| Field | Value |\n|---|---|\n| name | Acme |\n| contact | Bob |", ""},
		{"| name | contact |\n|---|---|\n| Acme | Bob |", ""},
	})
	checkReadings(t, contactContract, "", []reading{
		{"- name: Acme\n- contact:\n  - name: Bob", ""},
		{"- contact: Bob", ""},
	})
	nested := contactContract
	nested.Schema = json.RawMessage(strings.Replace(contactSchema, `["name"]`, `["name","contact"]`, 1))
	checkReadings(t, nested, "", []reading{
		{"- name: Acme", ""},
		{"Acme", ""},
		{`{"name":"Acme"}`, ""},
	})
}

// A property that may be null need not be in the reply.
func TestMissingPropertiesAreNullWhereThatIsAllowed(t *testing.T) {
	form := contactContract
	form.Schema = json.RawMessage(`{"type":"object","required":["kind","amount"],"properties":` +
		`{"kind":{"type":"string"},"amount":{"type":["number","null"]}}}`)
	checkReadings(t, form, "", []reading{
		{`{"kind":"question"}`, `{"kind":"question","amount":null}`},
		{`{"kind":"refund","amount":3}`, `{"kind":"refund","amount":3}`},
		{`{"amount":3}`, ""},
		{`{"other":3}`, ""},
	})
}

func TestNumberedListsAreListsOfTexts(t *testing.T) {
	for _, schema := range []string{
		`{"type":"array","items":{"type":"string"}}`, `{"type":"array"}`, `{"type":"array","items":{}}`,
	} {
		checkReadings(t, contract.Contract{Kind: contract.List, Schema: json.RawMessage(schema)}, "", []reading{
			{"Sure:\n1. a\n2. b", `["a","b"]`},
			{"Sure:\n\n1) a\n2) b\n\nAnything else?", `["a","b"]`},
			{"- a\n- b", `["a","b"]`},
			{"a and b", ""},
		})
	}
	schema := json.RawMessage(`{"type":"array","items":{"type":"number"}}`)
	numbers := contract.Contract{Kind: contract.List, Schema: schema}
	checkReadings(t, numbers, "", []reading{{"1. 7\n2. 8", "[7,8]"}, {"1. seven\n2. a lot", ""}})
}

func TestJSONInTextsStaysText(t *testing.T) {
	text := contract.Contract{Kind: contract.Text, Schema: json.RawMessage(`{"type":"string"}`), Name: "v"}
	checkReadings(t, text, "", []reading{
		{`{"a":1}`, `"{\"a\":1}"`},
		{`{"a":true}`, `"{\"a\":true}"`},
		{`{"a":[1]}`, `"{\"a\":[1]}"`},
		{`{"v":7}`, `"7"`},
		{`{"text":"Hello"}`, `"Hello"`},
	})
}
