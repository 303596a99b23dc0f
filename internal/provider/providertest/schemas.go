package providertest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/espalier-run/espalier/internal/provider"
)

// trickySchemas are input schemas that were once converted wrongly.
// Those under "as is" must arrive unchanged.
var trickySchemas = map[string]map[string]string{
	"as is": {
		"numbers": `{"type":"object","properties":{"n":{"type":"integer","minimum":1,"maximum":9007199254740993,"default":3}},"required":["n"]}`,
		"choices": `{"type":"object","properties":{"level":{"enum":[1,2,3]},"ratio":{"enum":[0.10,1e-7,null,true,"x"]}}}`,
		"nested":  `{"type":"object","properties":{"list":{"type":"array","minItems":1,"items":{"type":"string","minLength":1,"maxLength":200}}},"additionalProperties":false}`,
		"refs":    `{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"number","multipleOf":0.01}}}`,
		"deep refs": `{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"object","properties":{"b":{"$ref":"#/$defs/b"}}},` +
			`"b":{"oneOf":[{"type":"integer","enum":[1,2]},{"type":"null"},{"type":"array","items":{"$ref":"#/$defs/a"}}]}}}`,
		"huge":     `{"type":"object","properties":{"n":{"type":"number","minimum":-1.7976931348623157e308,"maximum":1e300,"multipleOf":1e-9,"enum":[123456789012345678901234567890,0.1000,-0.0]}}}`,
		"none":     `{"type":"object","properties":{"x":{}}}`,
		"enum":     `{"type":"object","properties":{"x":` + longEnum(300, 60) + `}}`,
		"nullable": `{"type":"object","properties":{"n":{"type":["integer","null"],"enum":[1,null]},"t":true,"p":{"type":"array","prefixItems":[{"const":1.0}],"items":false}}}`,
		"samples":  `{"type":"object","properties":{"x":{"type":"number","examples":[1,2.50],"const":7}},"maxProperties":1}`,
	},
	"rewritten": {
		"patterns":     `{"type":"object","patternProperties":{"^x-\\d{1,3}$":{"type":"integer","exclusiveMinimum":0}},"propertyNames":{"maxLength":9},"minProperties":1}`,
		"unicode keys": `{"type":"object","properties":{"😀":{"type":"string"},"日本語":{"type":"integer","enum":[1,2]},"á":{},"a\u0301":{}},"required":["日本語","😀"]}`,
		"like dots":    `{"type":"object","properties":{"a.b":{"type":"string"},"a_b":{"type":"integer"},"a-b":{"type":"boolean"},"a/b":{"$ref":"#/properties/a.b"}}}`,
		"escaped refs": `{"type":"object","properties":{"a":{"$ref":"#/$defs/x~1y"},"b":{"$ref":"#/$defs/x%20z"}},"$defs":{"x/y":{"type":"string"},"x z":{"$ref":"#/$defs/x~1y"}}}`,
		"far refs":     `{"type":"object","properties":{"a":{"$ref":"https://example.com/a.json"}}}`,
		"named refs":   `{"$id":"https://example.com/t","type":"object","properties":{"a":{"$ref":"#anchor"}},"$defs":{"a":{"$anchor":"anchor","type":"integer","enum":[1,2]}}}`,
		"circle":       `{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`,
		"boolean":      `true`,
		"null":         `null`,
		"draft 7":      `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"pair":{"type":"array","items":[{"type":"number"},{"type":"string"}],"additionalItems":false}}}`,
		"draft 4":      `{"type":"object","properties":{"n":{"type":"number","minimum":0,"exclusiveMinimum":true,"required":true}}}`,
		"alternatives": `{"oneOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"b":{"type":"integer","minimum":1}},"required":["b"]}]}`,
		"together":     `{"type":"object","allOf":[{"properties":{"a":{"type":"string"}},"required":["a"]}],"properties":{"b":{"type":"string"}},"required":["b"]}`,
		"invalid":      `{"type":"object","properties":{"a":{"type":"strng","minimum":"1"}}}`,
		"lost":         `{"type":"object","properties":{"a":{"$ref":"#/$defs/nowhere"}}}`,
		"no object":    `{"type":"array","items":{"type":"number"}}`,
		"keys":         `{"type":"object","properties":{"filter[name]":{"type":"string"},"$top":{"type":"integer"},"größe":{},"":{}},"required":["$top"],"dependentRequired":{"$top":["größe"]}}`,
		"like keys":    `{"type":"object","properties":{"a[b]":{"type":"string"},"a_b_":{"type":"string"},"a(b)":{"type":"string"}}}`,
		"key by name":  `{"type":"object","properties":{"$a":{"type":"string"},"b":{"$ref":"#/properties/$a"}}}`,
	},
}

// toolSchemas checks that the server accepts every schema after conversion, and
// that schemas which need no conversion are sent unchanged.
func toolSchemas(t *testing.T, p Protocol, s *Server, model provider.Model) {
	for kind, schemas := range trickySchemas {
		for name, schema := range schemas {
			req := AskText()
			req.Tools = []provider.Tool{{Name: "tool", Schema: json.RawMessage(schema)}}
			before := len(s.Requests())
			if _, err := Collect(t, model.Generate(t.Context(), req)); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			want, err := decode([]byte(schema))
			if err != nil {
				t.Fatal(err)
			}
			if got := p.sentSchema(t, s.Requests()[before].Body); kind == "as is" && !reflect.DeepEqual(got, want) {
				t.Errorf("%s: the schema arrived as %v", name, got)
			}
		}
	}
}

// sentSchema returns the schema of the only tool in a request.
func (p Protocol) sentSchema(t *testing.T, body []byte) any {
	t.Helper()
	all, err := decode(body)
	if err != nil {
		t.Fatal(err)
	}
	return at(all, map[Protocol][]any{
		Anthropic: {"tools", 0, "input_schema"},
		Chat:      {"tools", 0, "function", "parameters"},
		Responses: {"tools", 0, "parameters"},
		Gemini:    {"tools", 0, "functionDeclarations", 0, "parametersJsonSchema"},
	}[p]...)
}

// replySchemas checks that the server accepts requests with any reply schema.
func replySchemas(t *testing.T, p Protocol, s *Server, model provider.Model) {
	for name, c := range map[string]struct {
		schema string
		native []Protocol // the protocols that enforce the schema
	}{
		"limits":          {`{"type":"object","properties":{"n":{"type":"integer","minimum":1,"maximum":5},"s":{"type":"string","minLength":1,"pattern":"^a"}},"required":["n","s"]}`, everyProtocol},
		"integers":        {`{"type":"object","properties":{"n":{"enum":[1,2,3]}},"required":["n"],"additionalProperties":false}`, everyProtocol},
		"constant":        {`{"type":"object","properties":{"kind":{"const":"a"},"sure":{"const":true}},"required":["kind","sure"]}`, everyProtocol},
		"optional":        {`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a"]}`, []Protocol{Anthropic, Gemini}},
		"references":      {`{"type":"object","properties":{"a":{"$ref":"#/$defs/a"},"b":{"type":"array","items":{"$ref":"#/$defs/a"}}},"required":["a","b"],"$defs":{"a":{"type":"string","maxLength":3}}}`, everyProtocol},
		"alternatives":    {`{"type":"object","properties":{"a":{"oneOf":[{"type":"string"},{"type":"null"}]}},"required":["a"]}`, everyProtocol},
		"recursive":       {`{"type":"object","properties":{"next":{"$ref":"#"}},"required":["next"]}`, nil},
		"recursive defs":  {`{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}}}}}`, nil},
		"a map":           {`{"type":"object","additionalProperties":{"type":"string"}}`, nil},
		"open":            {`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":true}`, nil},
		"anything":        {`{"type":"object","properties":{"a":{}},"required":["a"]}`, nil},
		"complex enum":    {`{"type":"object","properties":{"a":{"enum":[{"x":1}]}},"required":["a"]}`, nil},
		"conditions":      {`{"type":"object","properties":{"a":{"type":"string"}},"if":{"required":["a"]},"then":{"maxProperties":1}}`, nil},
		"root choices":    {`{"type":"object","anyOf":[{"properties":{"a":{"type":"string"}}}]}`, nil},
		"not an object":   {`{"type":"array","items":{"type":"integer","minimum":1}}`, nil},
		"a number":        {`{"type":"integer","minimum":1}`, nil},
		"draft 7":         {`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"type":"array","items":[{"type":"string"}]}}}`, nil},
		"many optional":   {manyOptional(30), []Protocol{Gemini}},
		"deeply nested":   {deeplyNested(12), []Protocol{Anthropic, Gemini}},
		"not enough deep": {deeplyNested(8), everyProtocol},
		"enum": {
			`{"type":"object","properties":{"x":` + longEnum(250, 60) + `},"required":["x"]}`,
			everyProtocol,
		},
		"long enum": {
			`{"type":"object","properties":{"x":` + longEnum(251, 60) + `},"required":["x"]}`,
			[]Protocol{Anthropic, Gemini},
		},
		"huge enum": {
			`{"type":"object","properties":{"x":` + longEnum(1001, 4) + `},"required":["x"]}`,
			[]Protocol{Anthropic, Gemini},
		},
		"many long names": {
			`{"type":"object","properties":{"x":` + longEnum(200, 601) + `},"required":["x"]}`,
			[]Protocol{Anthropic, Gemini},
		},
		"odd names":       {`{"type":"object","properties":{"größe":{"type":"string"},"a b":{"type":"integer"}},"required":["größe","a b"]}`, everyProtocol},
		"empty object":    {`{"type":"object"}`, nil},
		"inner empty":     {`{"type":"object","properties":{"x":{"type":"object"}},"required":["x"]}`, nil},
		"deep references": {`{"type":"object","required":["a"],"properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"object","required":["b"],"properties":{"b":{"$ref":"#/$defs/b"}}},"b":{"oneOf":[{"type":"integer","enum":[1,2]},{"type":"null"}]}}}`, everyProtocol},
		"unicode":         {`{"type":"object","properties":{"😀":{"type":"string"},"日本語":{"enum":[1,2]}},"required":["日本語","😀"]}`, everyProtocol},
		"huge numbers":    {`{"type":"object","properties":{"n":{"type":"number","minimum":-1.7976931348623157e308,"maximum":1e300}},"required":["n"]}`, everyProtocol},
		"huge constants":  {`{"type":"object","properties":{"n":{"enum":[123456789012345678901234567890,0.1000]}},"required":["n"]}`, everyProtocol},
		"circle":          {`{"type":"object","required":["a"],"properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, nil},
		"far reference":   {`{"type":"object","required":["a"],"properties":{"a":{"$ref":"https://example.com/a.json"}}}`, nil},
		"nullable":        {`{"type":"object","properties":{"n":{"type":["integer","null"]},"s":{"enum":["a",null]}},"required":["n","s"]}`, []Protocol{Anthropic, Chat, Responses}},
		"no values":       {`{"type":"object","properties":{"n":{"const":null},"s":{"type":"string","enum":["a"],"default":"a"}},"required":["n","s"]}`, []Protocol{Anthropic, Chat, Responses}},
		"formats":         {`{"type":"object","properties":{"d":{"type":"string","format":"date"},"m":{"type":"string","format":"x-odd"}},"required":["d","m"]}`, everyProtocol},
		"pairs":           {`{"type":"object","properties":{"p":{"type":"array","prefixItems":[{"type":"number"},{"type":"string"}],"items":false}},"required":["p"]}`, nil},
		"patterns":        {`{"type":"object","patternProperties":{"^x":{"type":"integer"}},"properties":{"a":{"type":"string"}},"required":["a"]}`, nil},
		"true inside":     {`{"type":"object","properties":{"a":true,"b":{"type":"string"}},"required":["b"]}`, nil},
		"false inside":    {`{"type":"object","properties":{"a":false,"b":{"type":"string"}},"required":["b"]}`, nil},
		"beside $ref":     {`{"type":"object","properties":{"a":{"$ref":"#/$defs/a","description":"An a","minLength":2}},"required":["a"],"$defs":{"a":{"type":"string"}}}`, everyProtocol},
		"required only":   {`{"type":"object","required":["a"]}`, nil},
		"large integers":  {`{"type":"object","properties":{"n":{"enum":[9007199254740993,-9007199254740995]}},"required":["n"]}`, everyProtocol},
	} {
		req := AskText()
		req.Schema = json.RawMessage(c.schema)
		before := len(s.Requests())
		if _, err := Collect(t, model.Generate(t.Context(), req)); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := false
		for _, one := range c.native {
			want = want || one == p
		}
		body := s.Requests()[before].Body
		if got := enforces(t, p, body); got != want {
			t.Errorf("%s: asked to enforce the schema: %t, want %t", name, got, want)
		}
		schema, err := decode([]byte(c.schema))
		if err != nil {
			t.Fatal(err)
		}
		sent := p.sentReplySchema(t, body)
		if sent == nil {
			continue // only the prompt contains it
		}
		properties, _ := at(schema, "properties").(map[string]any)
		for key := range properties {
			values := at(schema, "properties", key, "enum")
			if got := at(sent, "properties", key, "enum"); values != nil && !reflect.DeepEqual(got, values) {
				t.Errorf("%s: the values of %s arrived as %v, want %v", name, key, got, values)
			}
		}
	}
}

// sentReplySchema returns the schema of the reply in a request; nil if there is none.
func (p Protocol) sentReplySchema(t *testing.T, body []byte) any {
	t.Helper()
	all, err := decode(body)
	if err != nil {
		t.Fatal(err)
	}
	return at(all, map[Protocol][]any{
		Anthropic: {"output_config", "format", "schema"},
		Chat:      {"response_format", "json_schema", "schema"},
		Responses: {"text", "format", "schema"},
		Gemini:    {"generationConfig", "responseJsonSchema"},
	}[p]...)
}

// at returns the part of a JSON value under keys of objects and indexes of lists; nil if there is none.
func at(value any, path ...any) any {
	for _, key := range path {
		switch key := key.(type) {
		case string:
			object, _ := value.(map[string]any)
			value = object[key]
		case int:
			list, _ := value.([]any)
			if key >= len(list) {
				return nil
			}
			value = list[key]
		}
	}
	return value
}

var everyProtocol = []Protocol{Anthropic, Chat, Responses, Gemini}

// enforces reports whether a request asks the server to enforce a schema.
func enforces(t *testing.T, p Protocol, body []byte) bool {
	t.Helper()
	type strict struct {
		Strict bool `json:"strict"`
	}
	var sent struct {
		OutputConfig   any `json:"output_config"`
		ResponseFormat struct {
			JSONSchema strict `json:"json_schema"`
		} `json:"response_format"`
		Text struct {
			Format strict `json:"format"`
		} `json:"text"`
		GenerationConfig struct {
			ResponseJSONSchema any `json:"responseJsonSchema"`
		} `json:"generationConfig"`
	}
	if err := json.Unmarshal(body, &sent); err != nil {
		t.Fatal(err)
	}
	switch p {
	case Anthropic:
		return sent.OutputConfig != nil
	case Chat:
		return sent.ResponseFormat.JSONSchema.Strict
	case Responses:
		return sent.Text.Format.Strict
	}
	return sent.GenerationConfig.ResponseJSONSchema != nil
}

func manyOptional(n int) string {
	properties := map[string]any{}
	for i := range n {
		properties[string(rune('a'+i%26))+string(rune('a'+i/26))] = map[string]string{"type": "string"}
	}
	return marshal(map[string]any{"type": "object", "properties": properties})
}

// longEnum returns the schema of an enum of n strings of a length.
func longEnum(n, length int) string {
	var values []string
	for i := range n {
		values = append(values, fmt.Sprintf("%0*d", length, i))
	}
	return marshal(map[string]any{"type": "string", "enum": values})
}

func deeplyNested(n int) string {
	schema := map[string]any{"type": "string"}
	for range n {
		schema = map[string]any{"type": "object", "properties": map[string]any{"a": schema}, "required": []string{"a"}}
	}
	return marshal(schema)
}

func marshal(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts only
	}
	return string(raw)
}
