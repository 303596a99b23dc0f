package python

import (
	"slices"

	"github.com/espalier-run/espalier/internal/xslices"
)

// OutputKey is a key of the output of every agent.
type OutputKey struct {
	Name     string
	Type     string // as JSON Schema names it
	Items    string // the type of the items of an array; "" if any
	Required bool
}

// OutputKeys are the keys of the output of every agent: the parameters of AgentOutput, in their order.
var OutputKeys = []OutputKey{
	{Name: "recommendations", Type: "array", Items: "object", Required: true},
	{Name: "rules_applied", Type: "array", Items: "string", Required: true},
	{Name: "meta_insight", Type: "string", Required: true},
	{Name: "analysis_data", Type: "object"},
	{Name: "anti_patterns", Type: "array"},
	{Name: "agent_metadata", Type: "object"},
}

// OutputKeyNames returns the names of OutputKeys.
func OutputKeyNames() []string {
	return xslices.Map(OutputKeys, func(k OutputKey) string { return k.Name })
}

// FindOutputKey returns the key of a name; the zero OutputKey if there is none.
func FindOutputKey(name string) OutputKey {
	if i := slices.IndexFunc(OutputKeys, func(k OutputKey) bool { return k.Name == name }); i >= 0 {
		return OutputKeys[i]
	}
	return OutputKey{}
}

// pythonTypes are the types of Python that JSON values become.
var pythonTypes = map[string]string{"array": "list", "object": "dict", "string": "str"}

// typeOfOutput returns the type of a required key of an agent's output; nil for other keys, which may be missing.
func typeOfOutput(name string) *Type {
	key := FindOutputKey(name)
	if !key.Required {
		return nil
	}
	t := &Type{Name: pythonTypes[key.Type]}
	if key.Items != "" {
		t.Elem = &Type{Name: pythonTypes[key.Items]}
	}
	return t
}

// outputParameters returns the parameters of AgentOutput.
func outputParameters() []Param {
	return slices.Concat(xslices.Map(OutputKeys, func(k OutputKey) []Param {
		if k.Required {
			return required(k.Name)
		}
		return optional(k.Name)
	})...)
}
