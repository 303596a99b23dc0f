package agentflow

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
)

// noFiles is a project without other files.
type noFiles struct{}

func (noFiles) Read(_ *source.File, ref string) (*source.File, error) {
	return nil, &source.RefError{Ref: ref, Problem: source.RefMissing}
}

func (noFiles) Skill(name string) (*source.File, error) {
	return nil, &source.RefError{Ref: name, Problem: source.RefMissing}
}

func (noFiles) Compile(*source.File, source.Span) (*ir.Program, diag.List) { return nil, nil }

func TestMatchRecognizesWorkflowsAndSkills(t *testing.T) {
	const kind = "kind: agent-flow/workflow\n"
	for _, c := range []struct {
		path, text string
		want       format.Match
	}{
		{"SKILL.md", "", format.Certain},
		{"a/b/SKILL.md", "---\nformat: nof/1.0\n---\n", format.Certain},
		{"skill.md", "", format.Possible},
		{"flow.md", "---\nname: x\n" + kind + "---\n", format.Certain},
		{"flow.MD", "\ufeff---\r\nkind: \"agent-flow/workflow\"  # yes\r\n---\r\n", format.Certain},
		{"flow.md", "---\nname: x\n---\n" + kind, format.Possible},
		{"flow.md", kind, format.Possible},
		{"flow.md", "---\nmetadata:\n  " + kind + "---\n", format.Possible},
		{"flow.md", "", format.Possible},
		{"flow.md", "---\nformat: nof/1.0\n---\n", format.No},
		{"flow.nof.md", "---\n" + kind + "---\n", format.No},
		{"flow.yaml", "---\n" + kind + "---\n", format.No},
	} {
		if got := (Format{}).Match(source.NewFile(c.path, c.text)); got != c.want {
			t.Errorf("%s %q: got %v, want %v", c.path, c.text, got, c.want)
		}
	}
}

// codes returns the constants of codes.go, parsed from its source.
func codes(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			if other := out[code]; other != "" {
				t.Errorf("%s is both %s and %s", code, other, spec.Names[0])
			}
			out[code] = spec.Names[0].Name
		}
		return true
	})
	return out
}

// A rule without a test case is not enforced.
//
// Spec: Agent Flow §11 validator
func TestCasesCoverEveryCode(t *testing.T) {
	var all strings.Builder
	names, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range names {
		if strings.HasSuffix(entry.Name(), ".txtar") {
			raw, err := os.ReadFile("testdata/" + entry.Name())
			if err != nil {
				t.Fatal(err)
			}
			all.Write(raw)
		}
	}
	for code, name := range codes(t) {
		if !strings.Contains(all.String(), "\n"+code+" ") {
			t.Errorf("no case expects %s (%s)", code, name)
		}
	}
}
