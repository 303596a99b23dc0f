package providertest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Bodies that the real servers accept, and changes that make them reject one.
// A change replaces the text before => with the text after it.
// The first word of a name is the protocol.
var ruleCases = map[string]struct {
	good string
	bad  map[string]string
}{
	"anthropic": {
		good: `{"model":"claude-sonnet-4-5","max_tokens":100,"stream":true,"system":[{"type":"text","text":"S"}],
			"tools":[{"name":"a_b","input_schema":{"type":"object","properties":{"n":{"type":"integer","minimum":1}}}},{"name":"c","input_schema":{"type":"object"}}],
			"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{"x":{"type":"string"}},"required":["x"],"additionalProperties":false}}},
			"messages":[{"role":"user","content":[{"type":"text","text":"Q"}]},
				{"role":"assistant","content":[{"type":"thinking","thinking":"I should look it up.","signature":"c2lnbmVk"},{"type":"tool_use","id":"t1","name":"a_b","input":{"n":1}}]},
				{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"R"}]},{"type":"text","text":"T"}]}]}`,
		bad: map[string]string{
			"number as text":     `"minimum":1=>"minimum":"1"`,
			"tool name":          `"name":"c"=>"name":"c.d"`,
			"long tool name":     `"name":"c"=>"name":"` + strings.Repeat("c", 129) + `"`,
			"repeated tool name": `"name":"c"=>"name":"a_b"`,
			"schema of a list":   `"input_schema":{"type":"object"}=>"input_schema":{"type":"array"}`,
			"combinator at root": `"input_schema":{"type":"object"}=>"input_schema":{"type":"object","oneOf":[{}]}`,
			"no max_tokens":      `"max_tokens":100,=>`,
			"max_tokens of 0":    `"max_tokens":100=>"max_tokens":0`,
			"unknown key":        `"stream":true=>"stream":true,"seed":1`,
			"assistant first":    `{"role":"user","content":[{"type":"text","text":"Q"}]},=>`,
			"user twice":         `{"role":"user","content":[{"type":"text","text":"Q"}]}=>{"role":"user","content":"Q"},{"role":"user","content":"Q"}`,
			"empty text":         `"text":"T"=>"text":" "`,
			"empty system":       `"text":"S"=>"text":""`,
			"empty result":       `"text":"R"=>"text":""`,
			"no content":         `"content":[{"type":"text","text":"Q"}]=>"content":[]`,
			"no result":          `{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"R"}]},=>`,
			"second result":      `{"type":"text","text":"T"}=>{"type":"tool_result","tool_use_id":"t1"}`,
			"result of nothing":  `"tool_use_id":"t1"=>"tool_use_id":"t2"`,
			"result after text":  `"content":[{"type":"tool_result"=>"content":[{"type":"text","text":"U"},{"type":"tool_result"`,
			"changed thought":    `look it up=>look it over`,
			"changed signature":  `c2lnbmVk=>c2lnbmVl`,
			"five breakpoints": `"system":[{"type":"text","text":"S"}]=>"system":[` +
				strings.Repeat(`{"type":"text","text":"S","cache_control":{"type":"ephemeral"}},`, 5) +
				`{"type":"text","text":"S"}]`,
			"malformed response":    `"x":{"type":"string"}=>"x":{"type":"strng"}`,
			"open response":         `,"additionalProperties":false=>`,
			"limit in response":     `"x":{"type":"string"}=>"x":{"type":"string","minLength":1}`,
			"complex response enum": `"x":{"type":"string"}=>"x":{"enum":[[1]]}`,
			"temperature":           `"stream":true=>"stream":true,"temperature":1.5`,
			"property key":          `"properties":{"n"=>"properties":{"filter[n]"`,
			"long property key":     `"properties":{"n"=>"properties":{"` + strings.Repeat("n", 65) + `"`,
			"id of a call":          `"id":"t1"=>"id":"t.1"`,
		},
	},
	"anthropic media": {
		good: `{"model":"claude-sonnet-4-5","max_tokens":100,"stream":true,"tools":[{"name":"c","input_schema":{"type":"object"}}],
			"messages":[{"role":"user","content":"Q"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"c","input":{}}]},
				{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]}]}]}`,
		bad: map[string]string{
			"sound":        `image/png=>audio/wav`,
			"not base64":   `iVBORw0KGgo==>iVBORw0KGg!`,
			"other format": `iVBORw0KGgo==>R0lGODlh`,
			"a data URL":   `iVBORw0KGgo==>data:image/png;base64,iVBORw0KGgo=`,
			"as text":      `"content":"Q"=>"content":"data:image/png;base64,iVBORw0KGgo="`,
		},
	},
	"chat media": {
		good: `{"model":"gpt-5","stream":true,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}},
			{"type":"input_audio","input_audio":{"data":"UklGRiQAAABXQVZF","format":"wav"}},{"type":"text","text":"Q"}]}]}`,
		bad: map[string]string{
			"sound as image": `data:image/png;base64,iVBORw0KGgo==>data:audio/wav;base64,UklGRiQAAABXQVZF`,
			"not base64":     `iVBORw0KGgo==>iVBORw0KGg!`,
			"no data URL":    `data:image/png;base64,iVBORw0KGgo==>iVBORw0KGgo=`,
			"other format":   `iVBORw0KGgo==>R0lGODlh`,
			"other sound":    `"format":"wav"=>"format":"mp3"`,
			"odd sound":      `"format":"wav"=>"format":"ogg"`,
			"as text":        `"text":"Q"=>"text":"See data:image/png;base64,iVBORw0KGgo="`,
		},
	},
	"responses media": {
		good: `{"model":"gpt-5","stream":true,"store":false,"input":[{"role":"user","content":"Q"},
			{"type":"function_call","call_id":"t1","name":"c","arguments":"{}"},
			{"type":"function_call_output","call_id":"t1","output":[{"type":"input_text","text":"R"},{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo="}]}]}`,
		bad: map[string]string{
			"sound":       `data:image/png;base64,iVBORw0KGgo==>data:audio/wav;base64,UklGRiQAAABXQVZF`,
			"not base64":  `iVBORw0KGgo==>iVBORw0KGg!`,
			"no data URL": `data:image/png;base64,iVBORw0KGgo==>iVBORw0KGgo=`,
			"as text":     `"text":"R"=>"text":"data:image/png;base64,iVBORw0KGgo="`,
		},
	},
	"gemini media": {
		good: `{"generationConfig":{"maxOutputTokens":100},"contents":[{"role":"user","parts":[{"text":"Q"},{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}},
			{"inlineData":{"mimeType":"audio/wav","data":"UklGRiQAAABXQVZF"}}]}]}`,
		bad: map[string]string{
			"other type":   `image/png=>image/bmp`,
			"not base64":   `iVBORw0KGgo==>iVBORw0KGg!`,
			"other format": `iVBORw0KGgo==>R0lGODlh`,
			"as text":      `"text":"Q"=>"text":"data:image/png;base64,iVBORw0KGgo="`,
		},
	},
	"chat": {
		good: `{"model":"gpt-5","max_completion_tokens":100,"stream":true,"stream_options":{"include_usage":true},
			"tools":[{"type":"function","function":{"name":"a_b","parameters":{"type":"object","properties":{"n":{"type":"integer","minimum":1}}}}},{"type":"function","function":{"name":"c"}}],
			"response_format":{"type":"json_schema","json_schema":{"name":"reply","strict":true,"schema":{"type":"object","properties":{"x":{"type":"string"}},"required":["x"],"additionalProperties":false}}},
			"messages":[{"role":"system","content":"S"},{"role":"user","content":"Q"},
				{"role":"assistant","tool_calls":[{"id":"t1","type":"function","function":{"name":"a_b","arguments":"{}"}}]},
				{"role":"tool","tool_call_id":"t1","content":"R"},{"role":"user","content":"T"}]}`,
		bad: map[string]string{
			"number as text":     `"minimum":1=>"minimum":"1"`,
			"tool name":          `"name":"c"=>"name":"c.d"`,
			"long tool name":     `"name":"c"=>"name":"` + strings.Repeat("c", 65) + `"`,
			"repeated tool name": `"name":"c"=>"name":"a_b"`,
			"unknown key":        `"stream":true=>"stream":true,"thinking":{}`,
			"both limits":        `"max_completion_tokens":100=>"max_completion_tokens":100,"max_tokens":100`,
			"no answer":          `{"role":"tool","tool_call_id":"t1","content":"R"},=>`,
			"late answer":        `{"role":"tool","tool_call_id":"t1","content":"R"},{"role":"user","content":"T"}=>{"role":"user","content":"T"},{"role":"tool","tool_call_id":"t1","content":"R"}`,
			"answer to nothing":  `"tool_call_id":"t1"=>"tool_call_id":"t2"`,
			"second answer":      `{"role":"user","content":"T"}=>{"role":"tool","tool_call_id":"t1","content":"R"}`,
			"empty content":      `"content":"T"=>"content":""`,
			"open response":      `,"additionalProperties":false=>`,
			"optional property":  `"required":["x"]=>"required":[]`,
			"length in response": `"x":{"type":"string"}=>"x":{"type":"string","maxLength":1}`,
			"allOf in response":  `"x":{"type":"string"}=>"x":{"type":"string","allOf":[{}]}`,
			"malformed response": `"x":{"type":"string"}=>"x":{"type":"strng"}`,
			"response number":    `"x":{"type":"string"}=>"x":{"type":"integer","minimum":"1"}`,
			"list as response":   `"schema":{"type":"object"=>"schema":{"type":"array"`,
			"temperature":        `"stream":true=>"stream":true,"temperature":3`,
			"long enum":          `"x":{"type":"string"}=>"x":` + longEnum(251, 60),
			"many long names":    `"x":{"type":"string"}=>"x":` + longEnum(200, 601),
		},
	},
	"responses": {
		good: `{"model":"gpt-5","max_output_tokens":100,"stream":true,"store":false,"instructions":"S",
			"tools":[{"type":"function","name":"a_b","strict":false,"parameters":{"type":"object","properties":{"n":{"type":"integer","minimum":1}}}}],
			"text":{"format":{"type":"json_schema","name":"reply","strict":true,"schema":{"type":"object","properties":{"x":{"type":"string"}},"required":["x"],"additionalProperties":false}}},
			"input":[{"role":"user","content":"Q"},{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"e"},
				{"type":"function_call","call_id":"t1","name":"a_b","arguments":"{}"},{"type":"function_call_output","call_id":"t1","output":"R"},{"role":"user","content":"T"}]}`,
		bad: map[string]string{
			"number as text":     `"minimum":1=>"minimum":"1"`,
			"strict by default":  `"name":"a_b","strict":false=>"name":"a_b","strict":null`,
			"small limit":        `"max_output_tokens":100=>"max_output_tokens":15`,
			"unknown key":        `"store":false=>"store":false,"seed":1`,
			"no answer":          `,{"type":"function_call_output","call_id":"t1","output":"R"}=>`,
			"answer to nothing":  `"type":"function_call_output","call_id":"t1"=>"type":"function_call_output","call_id":"t2"`,
			"lonely reasoning":   `{"role":"user","content":"T"}=>{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"e"}`,
			"reasoning, user":    `{"role":"user","content":"T"}=>{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"e"},{"role":"user","content":"T"}`,
			"optional property":  `"required":["x"]=>"required":[]`,
			"malformed response": `"x":{"type":"string"}=>"x":{"type":"strng"}`,
			"response number":    `"x":{"type":"string"}=>"x":{"type":"integer","minimum":"1"}`,
			"length in response": `"x":{"type":"string"}=>"x":{"type":"string","maxLength":1}`,
			"empty content":      `"content":"T"=>"content":""`,
		},
	},
	"gemini": {
		good: `{"generationConfig":{"maxOutputTokens":100},
			"tools":[{"functionDeclarations":[{"name":"a_b","parametersJsonSchema":{"type":"object","properties":{"n":{"type":"integer","minimum":1}}}},{"name":"c"}]}],
			"contents":[{"role":"user","parts":[{"text":"Q"}]},{"role":"model","parts":[{"functionCall":{"name":"a_b","args":{}}}]},
				{"role":"user","parts":[{"functionResponse":{"name":"a_b","response":{"output":"R"}}}]}]}`,
		bad: map[string]string{
			"number as text":     `"minimum":1=>"minimum":"1"`,
			"tool name":          `"name":"c"=>"name":"1c"`,
			"repeated tool name": `"name":"c"=>"name":"a_b"`,
			"no answer":          `{"functionResponse":{"name":"a_b","response":{"output":"R"}}}=>{"text":"T"}`,
			"other answer":       `"functionResponse":{"name":"a_b"=>"functionResponse":{"name":"c"`,
			"model first":        `{"role":"user","parts":[{"text":"Q"}]},=>`,
			"user repeated":      `"contents":[=>"contents":[{"role":"user","parts":[{"text":"P"}]},{"role":"user","parts":[{"text":"P"}]},`,
			"model last":         `"response":{"output":"R"}}}]}=>"response":{"output":"R"}}}]},{"role":"model","parts":[{"text":"T"}]}`,
			"form beside tools":  `"maxOutputTokens":100=>"maxOutputTokens":100,"responseMimeType":"application/json","responseJsonSchema":{"type":"object","properties":{"x":{"type":"string"}}}`,
			"unknown key":        `"generationConfig":{=>"seed":1,"generationConfig":{`,
		},
	},
	"gemini response schema": {
		good: `{"generationConfig":{"maxOutputTokens":100,"responseMimeType":"application/json","responseJsonSchema":{"type":"object",
				"properties":{"x":{"type":"string"},"n":{"type":"integer","minimum":1,"enum":[1,2]},"l":{"type":"array","maxItems":3,"items":{"$ref":"#/$defs/d"}}},
				"required":["x"],"additionalProperties":false,"propertyOrdering":["x","n","l"],"$defs":{"d":{"anyOf":[{"type":"string"},{"type":"null"}]}}}},
			"contents":[{"role":"user","parts":[{"text":"Q"}]}]}`,
		bad: map[string]string{
			"malformed":          `"x":{"type":"string"}=>"x":{"type":"strng"}`,
			"number as text":     `"minimum":1=>"minimum":"1"`,
			"length":             `"x":{"type":"string"}=>"x":{"type":"string","minLength":1}`,
			"pattern":            `"x":{"type":"string"}=>"x":{"type":"string","pattern":"^a"}`,
			"constant":           `"x":{"type":"string"}=>"x":{"const":"a"}`,
			"default":            `"x":{"type":"string"}=>"x":{"type":"string","default":"a"}`,
			"allOf":              `"x":{"type":"string"}=>"x":{"allOf":[{"type":"string"}]}`,
			"exclusive limit":    `"minimum":1=>"exclusiveMinimum":0`,
			"factor":             `"minimum":1=>"multipleOf":1`,
			"boolean enum":       `"x":{"type":"string"}=>"x":{"enum":[true]}`,
			"null in enum":       `"enum":[1,2]=>"enum":[1,null]`,
			"open names":         `"additionalProperties":false=>"patternProperties":{"^x":{}}`,
			"beside a reference": `"$ref":"#/$defs/d"=>"$ref":"#/$defs/d","description":"D"`,
			"inside a list":      `"items":{"$ref":"#/$defs/d"}=>"items":{"type":"string","maxLength":1}`,
			"inside definitions": `{"type":"null"}=>{"type":"null","not":{}}`,
			"without its type":   `"responseMimeType":"application/json",=>`,
		},
	},
}

// The server accepts what real servers accept, and rejects each violation with
// a 400 in the provider's own form.
func TestServerIsStrict(t *testing.T) {
	for name, c := range ruleCases {
		t.Run(name, func(t *testing.T) {
			protocol := Protocol(strings.Fields(name)[0])
			if err := protocol.Problem([]byte(c.good)); err != nil {
				t.Fatalf("the good body is rejected: %v", err)
			}
			for name, change := range c.bad {
				before, after, _ := strings.Cut(change, "=>")
				body := strings.Replace(c.good, before, after, 1)
				if body == c.good || !json.Valid([]byte(body)) {
					t.Fatalf("%s: the change does not apply", name)
				}
				if err := protocol.Problem([]byte(body)); err == nil {
					t.Errorf("%s: accepted", name)
				}
			}
		})
	}
}

func TestViolationsGetStatus400(t *testing.T) {
	for protocol, want := range map[Protocol]string{
		Anthropic: `"type":"error"`, Chat: `"param":null`, Responses: `"param":null`,
		Gemini: `"status":"INVALID_ARGUMENT"`,
	} {
		inner := &critic{TB: t}
		s := NewServer(inner, protocol)
		resp, err := http.Post(s.URL+protocol.path(), "application/json", strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d %s %v", protocol, resp.StatusCode, body, err)
		}
		if !inner.complained {
			t.Errorf("%s: the test that sent it passes", protocol)
		}
	}
}
