package providertest

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

//go:embed testdata/contracts/*.json
var contracts embed.FS

// contractFiles names the contract of each protocol.
var contractFiles = map[Protocol]string{
	Anthropic: "anthropic-messages-request",
	Chat:      "openai-chat-request",
	Responses: "openai-responses-request",
	Gemini:    "gemini-request",
}

// additions are keys that a protocol accepts beyond its contract, with their
// schemas. testdata/contracts/README.md states the reasons.
var additions = map[Protocol]string{
	Anthropic: `{
		"temperature": {"type": "number", "minimum": 0, "maximum": 1},
		"top_p": {"type": "number", "minimum": 0, "maximum": 1},
		"top_k": {"type": "integer", "minimum": 0}
	}`,
	Chat:      `{"top_k": {"type": "integer", "minimum": 0}}`,
	Responses: `{}`,
	Gemini:    `{}`,
}

// contract is a compiled contract and its additions.
type contract struct {
	body  *jsonschema.Schema
	extra map[string]*jsonschema.Schema
}

var compiledContracts = sync.OnceValues(func() (map[Protocol]contract, error) {
	out := map[Protocol]contract{}
	for protocol, name := range contractFiles {
		raw, err := contracts.ReadFile("testdata/contracts/" + name + ".schema.json")
		if err != nil {
			return nil, err
		}
		c := jsonschema.NewCompiler()
		c.DefaultDraft(jsonschema.Draft2020)
		// OpenAI's document allows unknown keys, but its server does not.
		closed := []byte(`{"$ref": "contract.json", "unevaluatedProperties": false}`)
		for url, text := range map[string][]byte{"contract.json": raw, "closed.json": closed} {
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
			if err != nil {
				return nil, err
			}
			if err := c.AddResource(url, doc); err != nil {
				return nil, err
			}
		}
		one := contract{extra: map[string]*jsonschema.Schema{}}
		if one.body, err = c.Compile("closed.json"); err != nil {
			return nil, err
		}
		var more map[string]json.RawMessage
		if err := json.Unmarshal([]byte(additions[protocol]), &more); err != nil {
			return nil, err
		}
		for key, text := range more {
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
			if err != nil {
				return nil, err
			}
			if err := c.AddResource(key+".json", doc); err != nil {
				return nil, err
			}
			if one.extra[key], err = c.Compile(key + ".json"); err != nil {
				return nil, err
			}
		}
		out[protocol] = one
	}
	return out, nil
})

// check returns an error if a body violates the contract. Keys that the protocol accepts beyond its contract are
// checked apart.
func (c contract) check(body any) error {
	object, ok := body.(map[string]any)
	if !ok {
		return errors.New("the body is not an object")
	}
	if object["stream"] == false {
		// Anthropic's contract covers streaming requests; others differ only in
		// this key.
		object["stream"] = true
	}
	rest := map[string]any{}
	for key, value := range object {
		extra := c.extra[key]
		if extra == nil {
			rest[key] = value
		} else if err := extra.Validate(value); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return c.body.Validate(rest)
}

var metaschema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	return jsonschema.NewCompiler().Compile("https://json-schema.org/draft/2020-12/schema")
})

// checkSchema returns an error if a value is not a JSON Schema of draft 2020-12.
func checkSchema(value any) error {
	meta, err := metaschema()
	if err != nil {
		return err
	}
	if err := meta.Validate(value); err != nil {
		return fmt.Errorf("JSON schema is invalid. It must match JSON Schema draft 2020-12: %w", err)
	}
	return nil
}

// Problem returns an error if the provider's real server would reject a request
// body.
func (p Protocol) Problem(raw []byte) error {
	body, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	all, err := compiledContracts()
	if err != nil {
		return err
	}
	if err := all[p].check(body); err != nil {
		return err
	}
	if _, err := p.mediaIn(body); err != nil {
		return err
	}
	return rules[p](raw)
}
