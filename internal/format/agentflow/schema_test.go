package agentflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/tools/txtar"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

// schemas compiles the JSON Schemas for editors, by block.
func schemas(t testing.TB) map[string]*jsonschema.Schema {
	t.Helper()
	out := map[string]*jsonschema.Schema{}
	for _, s := range (Format{}).Schemas() {
		raw, err := jsonschema.UnmarshalJSON(bytes.NewReader(s.Schema))
		if err != nil {
			t.Fatal(err)
		}
		c := jsonschema.NewCompiler()
		name := s.Block + ".json"
		if err := c.AddResource(name, raw); err != nil {
			t.Fatal(err)
		}
		if out[s.Block], err = c.Compile(name); err != nil {
			t.Fatalf("%s: %v", s.Block, err)
		}
	}
	return out
}

func TestSchemasCoverEveryBlock(t *testing.T) {
	var blocks []string
	for _, s := range (Format{}).Schemas() {
		blocks = append(blocks, s.Block)
	}
	if got, want := fmt.Sprint(blocks), "[frontmatter step agent bundle runtime observability override]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// sample returns a value that a field must accept.
func sample(f *text.Field) string {
	switch {
	case f.Choices != nil:
		return f.Choices[0]
	case f.Name == "version":
		return "1.0"
	case f.Name == "branches":
		return "{ default: one }"
	}
	switch f.Form {
	case text.AnInt:
		return fmt.Sprint(max(f.Min, 1))
	case text.ANumber:
		return "0.25"
	case text.OneOrInts:
		return fmt.Sprintf("[%d]", max(f.Min, 1))
	case text.ABool:
		return "true"
	case text.OneOrStrings:
		return "[one]"
	case text.AMap:
		return "{ any: thing }"
	case text.Object:
		return sampleMap(f.Shape)
	case text.Objects:
		return "[" + sampleMap(f.Shape) + "]"
	default:
		return "text"
	}
}

func sampleMap(s *text.Shape) string {
	var parts []string
	for i := range s.Fields {
		parts = append(parts, fmt.Sprintf("%q: %s", s.Fields[i].Name, sample(&s.Fields[i])))
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}

// For every key of every shape, a value that the schema accepts must be accepted by the parser.
// For an unknown key, both must reject it.
//
// Spec: Agent Flow §11 parser
func TestParserAndSchemasAcceptTheSameKeys(t *testing.T) {
	compiled := schemas(t)
	for _, s := range append([]*text.Shape{frontmatterShape}, blockShapes...) {
		yaml := sampleMap(s)
		n := parsed(t, yaml)
		if err := validate(compiled[s.What], n); err != nil {
			t.Errorf("the schema of %s refuses %s: %v", s.What, yaml, err)
		}
		var list diag.List
		(&binder{out: &list}).bind(n, s, s.What, nil)
		if len(list) > 0 {
			t.Errorf("the parser refuses %s: %v", yaml, list)
		}
		if s.IsOpen {
			continue
		}
		n = parsed(t, strings.Replace(yaml, "{ ", "{ nobody_knows_this: 1, ", 1))
		if validate(compiled[s.What], n) == nil {
			t.Errorf("the schema of %s takes unknown keys", s.What)
		}
		if (&binder{out: &list}).bind(n, s, s.What, nil); len(list) != 1 || list[0].Code != CodeUnknownKey {
			t.Errorf("the parser of %s takes unknown keys: %v", s.What, list)
		}
	}
}

// Editors show the descriptions.
func TestEveryFieldIsDescribed(t *testing.T) {
	var visit func(s *text.Shape)
	visit = func(s *text.Shape) {
		if s.Doc == "" {
			t.Errorf("%s has no description", s.What)
		}
		for _, f := range s.Fields {
			if !strings.HasSuffix(f.Doc, ".") {
				t.Errorf("%s.%s: %q is not a sentence", s.What, f.Name, f.Doc)
			}
			for _, name := range f.Types {
				if findStepType(name) == nil {
					t.Errorf("%s.%s: there is no step type %q", s.What, f.Name, name)
				}
			}
			if f.Shape != nil {
				visit(f.Shape)
			}
		}
	}
	for _, s := range append([]*text.Shape{frontmatterShape}, blockShapes...) {
		visit(s)
	}
	for _, st := range stepTypes {
		for _, group := range st.needs {
			for _, key := range group {
				if stepShape.Find(key) == nil {
					t.Errorf("%s needs %q, which is no key", st.name, key)
				}
			}
		}
	}
}

// Blocks without diagnostics must be valid for editors, too.
//
// Spec: Agent Flow §11 validator
func TestValidBlocksMatchTheSchemas(t *testing.T) {
	compiled := schemas(t)
	blocks := 0
	for _, f := range workflows(t) {
		var list diag.List
		if doc := parse(f, &list); doc == nil || !doc.workflow || doc.front == nil || list.Errors() {
			continue
		}
		l := &lowering{file: f, files: noFiles{}, doc: parse(f, &diag.List{}), out: &diag.List{}}
		if l.program(); l.out.Errors() {
			continue
		}
		if err := validate(compiled["frontmatter"], l.doc.front); err != nil && l.doc.head.has("version") {
			t.Errorf("%s: %v", f.Path, err)
		}
		for _, fence := range l.doc.md.Fences {
			if s := compiled[fence.Info]; s != nil {
				blocks++
				n, _ := text.ParseYAML(f, fence.Content.Start, fence.Content.End)
				if err := validate(s, n); err != nil && !warned(append(list, *l.out...), fence) {
					t.Errorf("%s: %s: %v", f.Path, fence.Info, err)
				}
			}
		}
	}
	if blocks < 100 {
		t.Errorf("only %d blocks were looked at", blocks)
	}
}

// warned reports whether the parser reported a problem with the block.
func warned(list diag.List, fence text.Fence) bool {
	for _, d := range list {
		if d.Severity > diag.Note && d.Span.Start >= fence.Span.Start && d.Span.End <= fence.Span.End {
			return true
		}
	}
	return false
}

// workflows returns the Markdown files of the cases and of the examples.
func workflows(t testing.TB) []*source.File {
	t.Helper()
	var out []*source.File
	cases, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range cases {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range archive.Files {
			if strings.HasSuffix(part.Name, ".md") {
				out = append(out, source.NewFile(name+"/"+part.Name, string(part.Data)))
			}
		}
	}
	examples, err := filepath.Glob("../../../examples/agent-flow/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range examples {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, source.NewFile(name, string(raw)))
	}
	return out
}

func parsed(t testing.TB, yaml string) *text.Node {
	t.Helper()
	n, list := text.ParseYAML(source.NewFile("sample", yaml), 0, len(yaml))
	if len(list) > 0 {
		t.Fatalf("%s: %v", yaml, list)
	}
	return n
}

func validate(s *jsonschema.Schema, n *text.Node) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(n.JSON()))
	if err != nil {
		return err
	}
	return s.Validate(value)
}

func TestSchemasAreStable(t *testing.T) {
	for _, s := range (Format{}).Schemas() {
		if !json.Valid(s.Schema) || !bytes.Contains(s.Schema, []byte("2020-12")) {
			t.Errorf("%s is not a schema", s.Block)
		}
	}
}

// Steps have the fields that section 3.2 lists, with their types and values, and every type of step has those that
// Appendix A lists for it.
//
// Spec: Agent Flow §A optional, §3.2 keys
func TestStepTypesHaveTheFieldsOfTheSpecification(t *testing.T) {
	// The types are those of the table in section 3.2.
	for list, forms := range map[string][]text.Form{
		"id description when fallback expected_output stop_condition reason_code reason_code_on_fail agent skill_ref " +
			"tool bundle goto audit_output": {text.AString},
		"type on_error gate_method": {text.AString},
		"reads writes output_files": {text.OneOrStrings},
		"retry branches":            {text.Object, text.AMap},
	} {
		for _, key := range strings.Fields(list) {
			if f := stepShape.Find(key); f == nil {
				t.Errorf("steps have no %q", key)
			} else if !slices.Contains(forms, f.Form) {
				t.Errorf("%q has form %d, want one of %v", key, f.Form, forms)
			}
		}
	}
	for key, values := range map[string]string{
		"type":        "transform skill tool decision gate parallel subagent_bundle end",
		"on_error":    "stop skip fallback retry",
		"gate_method": "human_review automated critic_agent",
	} {
		if got := strings.Join(stepShape.Find(key).Choices, " "); got != values {
			t.Errorf("%s has the values %s, want %s", key, got, values)
		}
	}
	for name, keys := range map[string]string{
		"transform":       "reads writes when on_error expected_output output_files audit_output",
		"skill":           "skill_ref agent reads writes when on_error expected_output output_files audit_output",
		"tool":            "tool reads writes when retry fallback output_files audit_output",
		"decision":        "branches reads",
		"gate":            "reads writes agent gate_method when",
		"parallel":        "bundle reads writes",
		"subagent_bundle": "bundle reads writes",
		"end":             "description reason_code",
	} {
		if findStepType(name) == nil {
			t.Errorf("there is no step type %q", name)
		}
		for _, key := range strings.Fields(keys) {
			if f := stepShape.Find(key); f.Types != nil && !slices.Contains(f.Types, name) {
				t.Errorf("%q has no effect in a step of type %s", key, name)
			}
		}
	}
}
