package tool

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/canonical"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/schema"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Box is the tools that there are.
type Box interface {
	// Tool returns nil when there is none of that name.
	Tool(name string) Tool
	// Names are all tools that a pattern such as "github.*" means.
	Names(pattern string) []string
}

// Denial is why a call is not made.
type Denial struct {
	Class journal.Class
	Why   string
}

// Admit returns the gate before every call. It returns the tool, or why it is not
// to be called: because it may not be, because there is none, or because the
// arguments do not fit.
func Admit(box Box, who Caller, name string, input json.RawMessage) (Tool, *Denial) {
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	if refusal := who.Refusal(name, input); refusal != "" {
		return nil, &Denial{ClassDenied, refusal}
	}
	var found Tool
	if box != nil {
		found = box.Tool(ir.ToolName(name))
	}
	if found == nil {
		return nil, &Denial{ClassMissing, fmt.Sprintf("there is no tool %q here", name)}
	}
	if problems := BadInput(found.Spec(), input); len(problems) > 0 {
		return nil, &Denial{ClassInput, fmt.Sprintf("the input of the tool %q does not fit: %s",
			name, strings.Join(problems, "; "))}
	}
	return found, nil
}

// Offered returns the tools that an agent may call, by their plain names: what it
// lists, is allowed and can be had here.
func Offered(box Box, who Caller) []Spec {
	if box == nil || who.Agent == nil {
		return nil
	}
	var out []Spec
	add := func(name string) {
		has := func(s Spec) bool { return s.Name == name }
		if slices.ContainsFunc(out, has) || who.Refusal(name, nil) != "" {
			return
		}
		if found := box.Tool(name); found != nil {
			spec := found.Spec()
			spec.Name = name // as the workflow calls it
			out = append(out, spec)
		}
	}
	for _, entry := range who.Agent.Tools {
		name := ir.ToolName(entry.Name)
		if !strings.ContainsAny(name, "*?[") {
			add(name)
			continue
		}
		for _, one := range box.Names(name) {
			add(one)
		}
	}
	return out
}

// Needed returns the plain names of the tools that an entry asks for by name; none
// if it is a pattern, which is content with what there is.
func Needed(list []ir.Name) []ir.Name {
	var out []ir.Name
	for _, entry := range list {
		if name := ir.ToolName(entry.Name); !strings.ContainsAny(name, "*?[") {
			out = append(out, ir.Name{Name: name, Span: entry.Span})
		}
	}
	return out
}

// BadInput returns everything that is wrong with a tool's input; nil when it fits.
// An input that programs may read in two ways never does: what was allowed, or
// agreed to by a person, has to be what the tool gets.
func BadInput(spec Spec, input json.RawMessage) []string {
	if !json.Valid(input) {
		return []string{"the input is not JSON"}
	}
	if _, err := canonical.JSON(input); err != nil {
		return []string{fmt.Sprintf("the input can be read in more than one way: %v", err)}
	}
	if len(spec.Schema) == 0 {
		return nil
	}
	s, err := schema.Compile(spec.Schema)
	if err != nil {
		return []string{fmt.Sprintf("the schema of the tool cannot be used: %v", err)}
	}
	problems, err := s.Check(input)
	if err != nil {
		return []string{err.Error()}
	}
	return xslices.Map(problems, schema.Problem.String)
}
