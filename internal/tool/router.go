package tool

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/canonical"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/schema"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Set looks up tools by name.
type Set interface {
	// Tool returns the tool with a name, or nil if there is none.
	Tool(name string) Tool
	// Names returns the names of all tools that match a pattern such as "github.*".
	Names(pattern string) []string
}

// Denial is the reason why a call is not made.
type Denial struct {
	Class ir.Class
	Why   string
}

// Admit checks permission, existence and input schema, in this order, and returns the tool or a Denial. Permission
// comes first, so that a denied call does not start a server.
func Admit(tools Set, who Caller, name string, input json.RawMessage) (Tool, *Denial) {
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	if refusal := who.Refusal(name, input); refusal != "" {
		return nil, &Denial{ir.ClassDenied, refusal}
	}
	var found Tool
	if tools != nil {
		found = tools.Tool(ir.ToolName(name))
	}
	if found == nil {
		return nil, &Denial{ir.ClassMissing, fmt.Sprintf("tool %q does not exist", name)}
	}
	if problems := BadInput(found.Spec(), input); len(problems) > 0 {
		return nil, &Denial{ir.ClassInput, fmt.Sprintf("the input of the tool %q is invalid: %s",
			name, strings.Join(problems, "; "))}
	}
	return found, nil
}

// Offered returns the tools that an agent lists and may call and that exist, under the names that the workflow uses.
func Offered(tools Set, who Caller) []Spec {
	if tools == nil || who.Agent == nil {
		return nil
	}
	var out []Spec
	add := func(name string) {
		has := func(s Spec) bool { return s.Name == name }
		if slices.ContainsFunc(out, has) || who.Refusal(name, nil) != "" {
			return
		}
		if found := tools.Tool(name); found != nil {
			spec := found.Spec()
			spec.Name = name // the name in the workflow
			out = append(out, spec)
		}
	}
	for _, entry := range who.Agent.Tools {
		name := ir.ToolName(entry.Name)
		if !strings.ContainsAny(name, "*?[") {
			add(name)
			continue
		}
		for _, one := range tools.Names(name) {
			add(one)
		}
	}
	return out
}

// Needed returns the names of the tools in a list, without patterns of arguments. Patterns of names, which may match
// nothing, are left out.
func Needed(list []ir.Name) []ir.Name {
	var out []ir.Name
	for _, entry := range list {
		if name := ir.ToolName(entry.Name); !strings.ContainsAny(name, "*?[") {
			out = append(out, ir.Name{Name: name, Span: entry.Span})
		}
	}
	return out
}

// BadInput returns the problems of a tool's input; nil if it is valid. Ambiguous JSON, such as an object with a
// duplicate key, is never valid: the tool must read the same input that was checked and approved.
func BadInput(spec Spec, input json.RawMessage) []string {
	if !json.Valid(input) {
		return []string{"the input is not JSON"}
	}
	if _, err := canonical.JSON(input); err != nil {
		return []string{fmt.Sprintf("the input is ambiguous: %v", err)}
	}
	if len(spec.Schema) == 0 {
		return nil
	}
	s, err := schema.Compile(spec.Schema)
	if err != nil {
		return []string{fmt.Sprintf("the schema of the tool is invalid: %v", err)}
	}
	problems, err := s.Check(input)
	if err != nil {
		return []string{err.Error()}
	}
	return xslices.Map(problems, schema.Problem.String)
}
