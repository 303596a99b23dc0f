package schema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/schema"
)

func TestCheckReportsAllProblemsSortedByPath(t *testing.T) {
	s, err := schema.Compile(json.RawMessage(`{
		"type": "object", "required": ["name", "orders"],
		"properties": {
			"name": {"type": "string"},
			"mail": {"type": "string", "format": "email"},
			"orders": {"type": "array", "items": {
				"type": "object", "required": ["amount"], "properties": {"amount": {"type": "number"}}}}
		}}`))
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string][]string{
		`{"name": "x", "orders": []}`:                                {},
		`{"orders": [{"amount": 1}, {}]}`:                            {"", "orders[1]"},
		`{"name": 1, "mail": "nobody", "orders": [{"amount": "1"}]}`: {"mail", "name", "orders[0].amount"},
	} {
		problems, err := s.Check(json.RawMessage(value))
		if err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, p := range problems {
			got = append(got, p.Path)
			if p.Message == "" {
				t.Errorf("%s: %q has no message", value, p.Path)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %v\n%s", value, problems, diff)
		}
	}
}

func TestReferencesToOtherDocumentsAreRejected(t *testing.T) {
	for _, ref := range []string{"file:///etc/passwd", "other.json", "https://example.com/s.json"} {
		if _, err := schema.Compile(json.RawMessage(`{"$ref": "` + ref + `"}`)); err == nil {
			t.Errorf("%s was accepted", ref)
		}
	}
	local := json.RawMessage(`{"$ref": "#/$defs/x", "$defs": {"x": {"type": "string"}}}`)
	if _, err := schema.Compile(local); err != nil {
		t.Error(err)
	}
}

func TestFillSetsDefaultsOfMissingProperties(t *testing.T) {
	s, err := schema.Compile(json.RawMessage(`{"properties": {
		"currency": {"default": "EUR"},
		"deep": {"properties": {"n": {"default": 1}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{
		`{}`:                  `{"currency":"EUR"}`,
		`{"currency": "USD"}`: `{"currency": "USD"}`,
		`{"deep": {}}`:        `{"currency":"EUR","deep":{"n":1}}`,
		`"text"`:              `"text"`,
	} {
		if got := string(s.Fill(json.RawMessage(value))); got != want {
			t.Errorf("%s: got %s, want %s", value, got, want)
		}
	}
}

func TestInvalidSchemasAreRejected(t *testing.T) {
	for _, raw := range []string{``, `{`, `{"type": "strin"}`, `{"required": "x"}`, `{"pattern": "("}`} {
		if _, err := schema.Compile(json.RawMessage(raw)); err == nil || strings.Contains(err.Error(), "panic") {
			t.Errorf("%q: %v", raw, err)
		}
	}
}
