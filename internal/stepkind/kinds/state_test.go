package kinds

import (
	"encoding/json"
	"testing"
)

// What simulated commands leave has the keys of what real ones leave.
func TestSchemaOfStatesHasTheKeysOfState(t *testing.T) {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal(stateSchema, &schema); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(State{})
	if err != nil {
		t.Fatal(err)
	}
	var state map[string]json.RawMessage // without Error, which only failed steps have
	if err := json.Unmarshal(raw, &state); err != nil {
		t.Fatal(err)
	}
	for key := range state {
		if schema.Properties[key] == nil {
			t.Errorf("the schema has no %s", key)
		}
	}
	if len(state) != len(schema.Properties) {
		t.Errorf("%d keys, and %d in the schema", len(state), len(schema.Properties))
	}
}
