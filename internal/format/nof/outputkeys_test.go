package nof_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/python"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// A reply that the output contract accepts is what the Python code of a node expects.
func TestOutputContractHasTheKeysOfTheSDK(t *testing.T) {
	var contract struct {
		Required   []string
		Properties map[string]struct {
			Type  string
			Items struct{ Type string }
		}
	}
	if err := json.Unmarshal([]byte(stepkind.AgentOutput), &contract); err != nil {
		t.Fatal(err)
	}
	required := map[string]bool{}
	for _, name := range contract.Required {
		required[name] = true
	}
	got := map[string]python.OutputKey{}
	for name, p := range contract.Properties {
		got[name] = python.OutputKey{Name: name, Type: p.Type, Items: p.Items.Type, Required: required[name]}
	}
	want := map[string]python.OutputKey{}
	for _, key := range python.OutputKeys {
		want[key.Name] = key
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
