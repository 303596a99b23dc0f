package providertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// rules are the documented rules of each protocol that its contract cannot
// express.
var rules = map[Protocol]func([]byte) error{
	Anthropic: anthropicRules,
	Chat:      chatRules,
	Responses: responsesRules,
	Gemini:    geminiRules,
}

var (
	anthropicName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
	openAIName    = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	geminiName    = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$`)
	anthropicID   = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	// anthropicKey matches the names of a tool's properties; the server's error message states it.
	anthropicKey = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)
)

// offeredTool is a tool definition of any protocol.
type offeredTool struct {
	name   string
	schema json.RawMessage
	strict bool
}

// checkTools checks names and schemas of the tools in a request.
func checkTools(tools []offeredTool, legal *regexp.Regexp, strict subset) error {
	seen := map[string]bool{}
	for i, t := range tools {
		at := fmt.Sprintf("tools.%d", i)
		switch {
		case !legal.MatchString(t.name):
			return fmt.Errorf("%s: the name %q does not match %s", at, t.name, legal)
		case seen[t.name]:
			return fmt.Errorf("%s: tool names must be unique: %q", at, t.name)
		}
		seen[t.name] = true
		if t.schema == nil {
			continue // a function without parameters
		}
		schema, err := decode(t.schema)
		if err != nil {
			return err
		}
		if object, ok := schema.(map[string]any); !ok || object["type"] != "object" {
			return fmt.Errorf("%s: the schema of %q must have type object", at, t.name)
		}
		for _, key := range []string{"anyOf", "oneOf", "allOf", "not", "enum"} {
			if schema.(map[string]any)[key] != nil {
				return fmt.Errorf("%s: input schemas do not support %s at the top level", at, key)
			}
		}
		if err := checkSchema(schema); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		if t.strict {
			if err := strict.check(schema); err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
		}
	}
	return nil
}

func decode(raw []byte) (any, error) { return jsonschema.UnmarshalJSON(bytes.NewReader(raw)) }

// checkResponseSchema checks a schema that the reply has to match.
func checkResponseSchema(raw json.RawMessage, strict bool, allowed subset) error {
	if raw == nil {
		return nil
	}
	schema, err := decode(raw)
	if err != nil {
		return err
	}
	if strict {
		return allowed.check(schema)
	}
	if object, ok := schema.(map[string]any); !ok || object["type"] != "object" {
		return errors.New("the response schema must have type object")
	}
	return checkSchema(schema)
}

// block is a content block of Anthropic's Messages API.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
}

// blocks reads content, which is a list of blocks or a single text.
func blocks(raw json.RawMessage) ([]block, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []block{{Type: "text", Text: text}}, nil
	}
	var out []block
	err := json.Unmarshal(raw, &out)
	return out, err
}

// anthropicRules checks a request of the Messages API: alternating roles, tool results before other blocks and for
// exactly the tool uses of the message before, unchanged thinking, and no empty texts.
func anthropicRules(raw []byte) error {
	var body struct {
		MaxTokens json.Number     `json:"max_tokens"`
		System    json.RawMessage `json:"system"`
		Messages  []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		Tools []struct {
			Name   string          `json:"name"`
			Schema json.RawMessage `json:"input_schema"`
			Strict bool            `json:"strict"`
		} `json:"tools"`
		OutputConfig struct {
			Format struct {
				Schema json.RawMessage `json:"schema"`
			} `json:"format"`
		} `json:"output_config"`
	}
	if err := json.Unmarshal(raw, &body); err != nil {
		return err
	}
	if n, err := body.MaxTokens.Int64(); err != nil || n < 1 {
		return fmt.Errorf("max_tokens: %q is not an integer of at least 1", body.MaxTokens)
	}
	if n := bytes.Count(raw, []byte(`"cache_control":{`)); n > 4 {
		return fmt.Errorf("%d cache breakpoints; the limit is 4", n)
	}
	if body.System != nil {
		if err := filled(body.System, "system"); err != nil {
			return err
		}
	}
	var tools []offeredTool
	for i, t := range body.Tools {
		tools = append(tools, offeredTool{t.Name, t.Schema, t.Strict})
		var schema struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if err := json.Unmarshal(t.Schema, &schema); err != nil {
			return err
		}
		for key := range schema.Properties {
			if !anthropicKey.MatchString(key) {
				return fmt.Errorf("tools.%d.custom.input_schema.properties: Property keys should match pattern '%s'", i,
					anthropicKey)
			}
		}
	}
	if err := checkTools(tools, anthropicName, anthropicSubset); err != nil {
		return err
	}
	if err := checkResponseSchema(body.OutputConfig.Format.Schema, true, anthropicSubset); err != nil {
		return fmt.Errorf("output_config.format.schema: %w", err)
	}
	var open []string // tool_use ids of the message before
	ids := map[string]bool{}
	for i, m := range body.Messages {
		at := fmt.Sprintf("messages.%d", i)
		if want := [...]string{"user", "assistant"}[i%2]; m.Role != want {
			return fmt.Errorf("%s: the role is %q; roles must alternate, starting with user", at, m.Role)
		}
		content, err := blocks(m.Content)
		if err != nil {
			return err
		}
		if err := filled(m.Content, at); err != nil {
			return err
		}
		if open, err = anthropicTurn(content, open, ids); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
	}
	if len(body.Messages)%2 == 0 {
		return errors.New("the conversation must end with a user message")
	}
	return nil
}

// filled returns an error unless content has blocks, none of which is an empty text.
func filled(raw json.RawMessage, at string) error {
	content, err := blocks(raw)
	if err != nil {
		return err
	}
	if len(content) == 0 {
		return fmt.Errorf("%s: content must not be empty", at)
	}
	for _, b := range content {
		if b.Type == "text" && strings.TrimSpace(b.Text) == "" {
			return fmt.Errorf("%s: text content blocks must contain non-whitespace text", at)
		}
	}
	return nil
}

// anthropicTurn checks the blocks of one message. open are the ids of tool uses
// in the message before, ids those of the whole conversation.
func anthropicTurn(content []block, open []string, ids map[string]bool) ([]string, error) {
	var uses []string
	answering := true
	for _, b := range content {
		if b.Type == "tool_result" {
			i := slices.Index(open, b.ToolUseID)
			switch {
			case !answering:
				return nil, errors.New("tool_result blocks must come before any other block")
			case i < 0:
				return nil, fmt.Errorf("tool_result %q has no tool_use in the previous message, or a second result",
					b.ToolUseID)
			}
			open = slices.Delete(slices.Clone(open), i, i+1)
			if b.Content != nil {
				if err := filled(b.Content, "tool_result"); err != nil {
					return nil, err
				}
			}
			continue
		}
		answering = false
		switch b.Type {
		case "tool_use":
			if !anthropicID.MatchString(b.ID) || !anthropicName.MatchString(b.Name) || ids[b.ID] {
				return nil, fmt.Errorf("tool_use %q of %q: illegal or repeated", b.ID, b.Name)
			}
			ids[b.ID] = true
			uses = append(uses, b.ID)
		case "thinking":
			if b.Thinking != thought || b.Signature != signature {
				return nil, errors.New("thinking blocks cannot be modified")
			}
		}
	}
	if len(open) > 0 {
		return nil, fmt.Errorf("tool_use ids without tool_result in the next message: %s", strings.Join(open, ", "))
	}
	return uses, nil
}

// chatRules checks a request of Chat Completions: each tool call is answered by a tool message before any other
// message.
func chatRules(raw []byte) error {
	var body struct {
		MaxTokens           *int            `json:"max_tokens"`
		MaxCompletionTokens *int            `json:"max_completion_tokens"`
		Stream              bool            `json:"stream"`
		StreamOptions       json.RawMessage `json:"stream_options"`
		Messages            []struct {
			Role       string          `json:"role"`
			Content    json.RawMessage `json:"content"`
			ToolCallID string          `json:"tool_call_id"`
			ToolCalls  []struct {
				ID       string `json:"id"`
				Function struct {
					Name string `json:"name"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"messages"`
		Tools []struct {
			Function struct {
				Name       string          `json:"name"`
				Parameters json.RawMessage `json:"parameters"`
				Strict     bool            `json:"strict"`
			} `json:"function"`
		} `json:"tools"`
		ResponseFormat struct {
			JSONSchema struct {
				Name   string          `json:"name"`
				Schema json.RawMessage `json:"schema"`
				Strict bool            `json:"strict"`
			} `json:"json_schema"`
		} `json:"response_format"`
	}
	if err := json.Unmarshal(raw, &body); err != nil {
		return err
	}
	switch {
	case body.MaxTokens != nil && body.MaxCompletionTokens != nil:
		return errors.New("max_tokens and max_completion_tokens exclude each other")
	case body.StreamOptions != nil && !body.Stream:
		return errors.New("stream_options needs stream: true")
	}
	var tools []offeredTool
	for _, t := range body.Tools {
		tools = append(tools, offeredTool{t.Function.Name, t.Function.Parameters, t.Function.Strict})
	}
	if err := checkTools(tools, openAIName, openAISubset); err != nil {
		return err
	}
	format := body.ResponseFormat.JSONSchema
	if format.Schema != nil && !openAIName.MatchString(format.Name) {
		return fmt.Errorf("response_format: the name %q", format.Name)
	}
	if err := checkResponseSchema(format.Schema, format.Strict, openAISubset); err != nil {
		return fmt.Errorf("response_format: %w", err)
	}
	var open []string // ids of tool calls that have no answer yet
	for i, m := range body.Messages {
		at := fmt.Sprintf("messages.%d", i)
		empty := len(m.Content) == 0 || string(m.Content) == "null" || string(m.Content) == `""`
		if m.Role == "tool" {
			at := slices.Index(open, m.ToolCallID)
			if at < 0 {
				return fmt.Errorf("messages with role tool must answer a preceding message with tool_calls: %q",
					m.ToolCallID)
			}
			open = slices.Delete(open, at, at+1)
			continue
		}
		switch {
		case len(open) > 0:
			return fmt.Errorf("%s: tool_calls without tool messages: %s", at, strings.Join(open, ", "))
		case empty && len(m.ToolCalls) == 0:
			return fmt.Errorf("%s: content must not be empty", at)
		case m.Role != "assistant" && len(m.ToolCalls) > 0:
			return fmt.Errorf("%s: only the assistant calls tools", at)
		}
		for _, c := range m.ToolCalls {
			if c.ID == "" || !openAIName.MatchString(c.Function.Name) || slices.Contains(open, c.ID) {
				return fmt.Errorf("%s: tool call %q of %q: illegal or repeated", at, c.ID, c.Function.Name)
			}
			open = append(open, c.ID)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("tool_calls without tool messages: %s", strings.Join(open, ", "))
	}
	return nil
}

// responsesRules checks a request of the Responses API: calls and outputs belong together, and a reasoning item is
// followed by what the model did after it.
func responsesRules(raw []byte) error {
	var body struct {
		Input []struct {
			Type    string          `json:"type"`
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
			CallID  string          `json:"call_id"`
			Name    string          `json:"name"`
		} `json:"input"`
		Tools []struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
			Strict     *bool           `json:"strict"`
		} `json:"tools"`
		Text struct {
			Format struct {
				Name   string          `json:"name"`
				Schema json.RawMessage `json:"schema"`
				Strict bool            `json:"strict"`
			} `json:"format"`
		} `json:"text"`
	}
	if err := json.Unmarshal(raw, &body); err != nil {
		return err
	}
	var tools []offeredTool
	for _, t := range body.Tools {
		// Responses treat a missing value as true.
		tools = append(tools, offeredTool{t.Name, t.Parameters, t.Strict == nil || *t.Strict})
	}
	if err := checkTools(tools, openAIName, openAISubset); err != nil {
		return err
	}
	format := body.Text.Format
	if format.Schema != nil && !openAIName.MatchString(format.Name) {
		return fmt.Errorf("text.format: the name %q", format.Name)
	}
	if err := checkResponseSchema(format.Schema, format.Strict, openAISubset); err != nil {
		return fmt.Errorf("text.format: %w", err)
	}
	var open []string
	answered := map[string]bool{}
	for i, item := range body.Input {
		at := fmt.Sprintf("input.%d", i)
		if i > 0 && body.Input[i-1].Type == "reasoning" && item.Type != "reasoning" && item.Type != "function_call" &&
			item.Role != "assistant" {
			return fmt.Errorf("%s: the reasoning item before it lacks its required following item", at)
		}
		switch {
		case item.Type == "function_call":
			if item.CallID == "" || !openAIName.MatchString(item.Name) || slices.Contains(open, item.CallID) ||
				answered[item.CallID] {
				return fmt.Errorf("%s: call %q of %q: illegal or repeated", at, item.CallID, item.Name)
			}
			open = append(open, item.CallID)
		case item.Type == "function_call_output":
			found := slices.Index(open, item.CallID)
			if found < 0 {
				return fmt.Errorf("%s: no tool call found for function call output with call_id %q", at, item.CallID)
			}
			open = slices.Delete(open, found, found+1)
			answered[item.CallID] = true
		case item.Role != "" && string(item.Content) == `""`:
			return fmt.Errorf("%s: content must not be empty", at)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("no tool output found for function calls %s", strings.Join(open, ", "))
	}
	if n := len(body.Input); n > 0 && body.Input[n-1].Type == "reasoning" {
		return errors.New("the last reasoning item lacks its required following item")
	}
	return nil
}

// geminiRules checks a request of generateContent: alternating roles, responses for the calls of the turn before, and
// no schema for the reply together with tools.
func geminiRules(raw []byte) error {
	type call struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	var body struct {
		Contents []struct {
			Role  string `json:"role"`
			Parts []struct {
				FunctionCall     *call `json:"functionCall"`
				FunctionResponse *call `json:"functionResponse"`
			} `json:"parts"`
		} `json:"contents"`
		Tools []struct {
			FunctionDeclarations []struct {
				Name       string          `json:"name"`
				Parameters json.RawMessage `json:"parametersJsonSchema"`
			} `json:"functionDeclarations"`
		} `json:"tools"`
		GenerationConfig struct {
			ResponseMIMEType   string          `json:"responseMimeType"`
			ResponseJSONSchema json.RawMessage `json:"responseJsonSchema"`
		} `json:"generationConfig"`
	}
	if err := json.Unmarshal(raw, &body); err != nil {
		return err
	}
	var tools []offeredTool
	for _, t := range body.Tools {
		for _, f := range t.FunctionDeclarations {
			tools = append(tools, offeredTool{f.Name, f.Parameters, false})
		}
	}
	if err := checkTools(tools, geminiName, subset{}); err != nil {
		return err
	}
	schema := body.GenerationConfig.ResponseJSONSchema
	if schema != nil && len(tools) > 0 {
		return errors.New("function calling with a response mime type of application/json is unsupported")
	}
	if schema != nil && body.GenerationConfig.ResponseMIMEType != "application/json" {
		return errors.New("generationConfig.responseJsonSchema needs a response mime type of application/json")
	}
	if err := checkResponseSchema(schema, true, geminiSubset); err != nil {
		return fmt.Errorf("generationConfig.responseJsonSchema: %w", err)
	}
	var open []call
	for i, c := range body.Contents {
		at := fmt.Sprintf("contents[%d]", i)
		if want := [...]string{"user", "model"}[i%2]; c.Role != want {
			return fmt.Errorf("%s: the role is %q; function call turns must follow a user turn, and turns alternate",
				at, c.Role)
		}
		var calls, responses []call
		for _, p := range c.Parts {
			if p.FunctionCall != nil {
				calls = append(calls, *p.FunctionCall)
			}
			if p.FunctionResponse != nil {
				responses = append(responses, *p.FunctionResponse)
			}
		}
		if !slices.Equal(open, responses) {
			return fmt.Errorf("%s: the function response parts %v do not equal the function call parts %v of the "+
				"turn before", at, responses, open)
		}
		open = calls
	}
	if len(body.Contents)%2 == 0 {
		return errors.New("the last turn must be a user's")
	}
	return nil
}
