package awf

// workflowSchema returns the JSON Schema for editors. It is separate from the parser because
// the parser also accepts deprecated forms.
func workflowSchema() map[string]any {
	text := map[string]any{"type": "string"}
	flag := map[string]any{"type": "boolean"}
	count := map[string]any{"type": "integer", "minimum": 0}
	texts := map[string]any{"type": "array", "items": text}
	anyMap := map[string]any{"type": "object"}
	duration := map[string]any{
		"type":        []string{"integer", "string"},
		"description": "seconds, or a duration such as 1m30s",
	}
	timeout := map[string]any{
		"type":        duration["type"],
		"description": "seconds, a duration such as 1m30s, or a template that gives one of them",
	}
	hooks := map[string]any{"type": "array", "items": map[string]any{
		"type":       "object",
		"properties": map[string]any{"log": text, "command": text, "timeout": duration},
	}}
	events := map[string]any{}
	for _, event := range hookEvents {
		events[event] = hooks
	}
	keys := map[string]any{
		"type":        map[string]any{"enum": kinds},
		"description": text,
		"timeout":     timeout,
		"on_success":  text,
		"on_failure": map[string]any{
			"type":        []string{"string", "object"},
			"description": "a state, or {message, status} to end there",
		},
		"transitions": map[string]any{"type": "array", "items": map[string]any{
			"type":     "object",
			"required": []string{"goto"}, "properties": map[string]any{"when": text, "goto": text},
		}},
		"continue_on_error": flag,
		"retry": map[string]any{"type": "object", "properties": map[string]any{
			"max_attempts": map[string]any{"type": "integer", "minimum": 1}, "initial_delay": duration,
			"max_delay":            duration,
			"backoff":              map[string]any{"enum": backoffs},
			"multiplier":           map[string]any{"type": "number"},
			"jitter":               map[string]any{"type": "number", "minimum": 0, "maximum": 1},
			"retryable_exit_codes": map[string]any{"type": "array", "items": map[string]any{"type": "integer"}},
		}},
		"hooks":   map[string]any{"type": "object", "properties": map[string]any{"pre": hooks, "post": hooks}},
		"command": text, "script_file": text, "dir": text, "shell": text,
		"status": map[string]any{"enum": statuses}, "message": text,
		"parallel": texts, "strategy": map[string]any{"enum": strategies},
		"max_concurrent": count,
		"items":          map[string]any{"type": []string{"array", "string"}}, "while": text, "body": texts,
		"break_when":     text,
		"max_iterations": map[string]any{"type": []string{"integer", "string"}}, "on_complete": text,
		"operation": text, "inputs": anyMap, "workflow": text, "outputs": anyMap,
		"provider": map[string]any{"type": "string", "examples": providers},
		"mode":     map[string]any{"enum": agentModes},
		"prompt":   text, "prompt_file": text, "system_prompt": text, "role": text,
		"skills":        map[string]any{"type": "array"},
		"output_format": map[string]any{"enum": outputFormats}, "conversation": anyMap, "options": anyMap,
		"mcp_proxy":    anyMap,
		"use_template": text, "parameters": anyMap,
	}
	return map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "AWF workflow", "type": "object",
		"required": []string{"name", "states"},
		"properties": map[string]any{
			"name": text, "version": text, "description": text, "author": text, "tags": texts, "env": texts,
			"inputs": map[string]any{"type": "array", "items": map[string]any{
				"type": "object", "required": []string{"name"},
				"properties": map[string]any{
					"name": text, "description": text,
					"type":     map[string]any{"enum": inputKinds},
					"required": flag, "default": map[string]any{}, "validation": map[string]any{
						"type": "object",
						"properties": map[string]any{
							"pattern": text, "enum": map[string]any{"type": "array"},
							"min": map[string]any{"type": "integer"},
							"max": map[string]any{"type": "integer"}, "file_exists": flag, "file_extension": texts,
						},
					},
				},
			}},
			"outputs": map[string]any{"type": []string{"array", "object"}},
			"hooks":   map[string]any{"type": "object", "properties": events},
			"states": map[string]any{
				"type": "object", "required": []string{"initial"},
				"properties":           map[string]any{"initial": text},
				"additionalProperties": map[string]any{"type": "object", "properties": keys},
			},
		},
	}
}
