package stepkind

import (
	"encoding/json"
	"strings"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
)

// AgentOutput is the JSON Schema of the output of every agent that works on a workload.
const AgentOutput = `{"type":"object","required":["recommendations","rules_applied","meta_insight"],"properties":{` +
	`"recommendations":{"type":"array","items":{"type":"object"}},` +
	`"rules_applied":{"type":"array","items":{"type":"string"}},"meta_insight":{"type":"string"},` +
	`"analysis_data":{"type":"object"},"anti_patterns":{"type":"array"},"agent_metadata":{"type":"object"}}}`

// OutputField is a part of the output of an agent that code reads.
type OutputField struct {
	Path     string `json:"path"`            // dotted; * stands for the items of a list
	Type     string `json:"type,omitempty"`  // in JSON, several with " or " between them; empty if any
	Least    int    `json:"least,omitempty"` // how many items it must have
	Required bool   `json:"required,omitempty"`
	Var      string `json:"var,omitempty"` // the variable that it becomes
}

// OutputSpec returns what is known about the output of an agent, and the variables that it is written to.
func OutputSpec(agent string, fields []OutputField) (contract.Spec, []ir.Write) {
	spec := contract.Spec{Schema: json.RawMessage(AgentOutput), From: "the output contract of agents"}
	writes := []ir.Write{{Path: "agents." + agent}}
	if len(fields) == 0 {
		return spec, writes
	}
	var root schemaNode
	if json.Unmarshal(spec.Schema, &root) != nil {
		return spec, writes
	}
	for _, f := range fields {
		root.add(strings.Split(f.Path, "."), f)
		if f.Var != "" {
			writes = append(writes, ir.Write{Path: f.Var, Part: f.Path})
		}
	}
	raw, err := json.Marshal(&root)
	if err != nil {
		return spec, writes
	}
	spec.Schema, spec.From = contract.Ordered(raw), "the output contract of agents, and how the node uses the output"
	return spec, writes
}

// schemaNode is the part of JSON Schema that describes an output.
type schemaNode struct {
	Type       any                    `json:"type,omitempty"`
	Required   []string               `json:"required,omitempty"`
	Properties map[string]*schemaNode `json:"properties,omitempty"`
	Items      *schemaNode            `json:"items,omitempty"`
	MinItems   int                    `json:"minItems,omitempty"`
}

// add adds a field below a node, unless the schema says something else about it.
func (n *schemaNode) add(path []string, f OutputField) {
	if len(path) == 0 {
		switch {
		case n.Type != nil || f.Type == "":
		case strings.Contains(f.Type, " or "):
			n.Type = strings.Split(f.Type, " or ")
		default:
			n.Type = f.Type
		}
		if n.Type == "array" {
			n.MinItems = max(n.MinItems, f.Least)
		}
		return
	}
	// The items of a list. A field below something that is no list is left out.
	if path[0] == contract.AnyItem {
		if n.Type == nil {
			n.Type = "array"
		}
		if n.Type == "array" {
			if n.Items == nil {
				n.Items = &schemaNode{}
			}
			n.Items.add(path[1:], f)
		}
		return
	}
	if n.Type == nil {
		n.Type = "object"
	}
	if n.Type != "object" {
		return
	}
	if n.Properties == nil {
		n.Properties = map[string]*schemaNode{}
	}
	name := path[0]
	if n.Properties[name] == nil {
		n.Properties[name] = &schemaNode{}
	}
	listed := false
	for _, one := range n.Required {
		listed = listed || one == name
	}
	if f.Required && !listed {
		n.Required = append(n.Required, name)
	}
	n.Properties[name].add(path[1:], f)
}
