package formattest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/espalier-run/espalier/internal/auditevent"
)

// All contains each constant of its package once.
func TestAllAuditEventsAreListed(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../auditevent/auditevent.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var declared []string
	for _, d := range file.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, s := range group.Specs {
			for _, value := range s.(*ast.ValueSpec).Values {
				event, err := strconv.Unquote(value.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				declared = append(declared, event)
			}
		}
	}
	if len(declared) == 0 || !slices.Equal(auditevent.All, declared) {
		t.Errorf("All is %q, but the constants are %q", auditevent.All, declared)
	}
}

// F30: required_events accepts every event that the audit log can have.
//
// Spec: Agent Flow §7.2 required-events
func TestRequiredEventsAcceptEveryAuditEvent(t *testing.T) {
	flow := flowHead + stepBlock("one", "transform", "writes: [output.a]") +
		"```observability\nrequired_events: [" + strings.Join(auditevent.All, ", ") + "]\n```\n"
	h := (&trial{files: []txtar.File{{Name: "flow.md", Data: []byte(flow)}}}).run(t)
	for _, d := range h.problems {
		if d.Code == "AF065" {
			t.Errorf("%s", d.Message)
		}
	}
	if got := len(h.program.Audit.RequiredEvents); got != len(auditevent.All) {
		t.Errorf("%d of %d events are required", got, len(auditevent.All))
	}
}
