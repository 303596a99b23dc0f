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
func sample(f *field) string {
	switch f.kind {
	case choice:
		return f.choices[0]
	case number:
		return fmt.Sprint(max(f.min, 1))
	case money:
		return "0.25"
	case numbers:
		return fmt.Sprintf("[%d]", max(f.min, 1))
	case flag:
		return "true"
	case words, tools:
		return "[one]"
	case routes:
		return "{ default: one }"
	case free:
		return "{ any: thing }"
	case object:
		return sampleMap(f.shape)
	case objects:
		return "[" + sampleMap(f.shape) + "]"
	case release:
		return "1.0"
	default:
		return "text"
	}
}

func sampleMap(s *shape) string {
	var parts []string
	for i := range s.fields {
		parts = append(parts, fmt.Sprintf("%q: %s", s.fields[i].name, sample(&s.fields[i])))
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}

// For every key of every shape, a value that the schema accepts must be accepted by the parser.
// For an unknown key, both must reject it.
//
// Spec: Agent Flow §11 parser
func TestParserAndSchemasAcceptTheSameKeys(t *testing.T) {
	compiled := schemas(t)
	for _, s := range append([]*shape{frontmatterShape}, blockShapes...) {
		yaml := sampleMap(s)
		n := parsed(t, yaml)
		if err := validate(compiled[s.what], n); err != nil {
			t.Errorf("the schema of %s refuses %s: %v", s.what, yaml, err)
		}
		var list diag.List
		(&binder{out: &list}).bind(n, s, s.what, nil)
		if len(list) > 0 {
			t.Errorf("the parser refuses %s: %v", yaml, list)
		}
		if s.open {
			continue
		}
		n = parsed(t, strings.Replace(yaml, "{ ", "{ nobody_knows_this: 1, ", 1))
		if validate(compiled[s.what], n) == nil {
			t.Errorf("the schema of %s takes unknown keys", s.what)
		}
		if (&binder{out: &list}).bind(n, s, s.what, nil); len(list) != 1 || list[0].Code != CodeUnknownKey {
			t.Errorf("the parser of %s takes unknown keys: %v", s.what, list)
		}
	}
}

// Editors show the descriptions.
func TestEveryFieldIsDescribed(t *testing.T) {
	var visit func(s *shape)
	visit = func(s *shape) {
		if s.doc == "" {
			t.Errorf("%s has no description", s.what)
		}
		for _, f := range s.fields {
			if !strings.HasSuffix(f.doc, ".") {
				t.Errorf("%s.%s: %q is not a sentence", s.what, f.name, f.doc)
			}
			for _, name := range f.types {
				if findStepType(name) == nil {
					t.Errorf("%s.%s: there is no step type %q", s.what, f.name, name)
				}
			}
			if f.shape != nil {
				visit(f.shape)
			}
		}
	}
	for _, s := range append([]*shape{frontmatterShape}, blockShapes...) {
		visit(s)
	}
	for _, st := range stepTypes {
		for _, group := range st.needs {
			for _, key := range group {
				if stepShape.field(key) == nil {
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
	for list, kinds := range map[string][]kind{
		"id description when fallback expected_output stop_condition reason_code reason_code_on_fail agent skill_ref " +
			"tool bundle goto audit_output": {word},
		"type on_error gate_method": {choice},
		"reads writes output_files": {words},
		"retry branches":            {object, routes},
	} {
		for _, key := range strings.Fields(list) {
			if f := stepShape.field(key); f == nil {
				t.Errorf("steps have no %q", key)
			} else if !slices.Contains(kinds, f.kind) {
				t.Errorf("%q is of kind %d, want one of %v", key, f.kind, kinds)
			}
		}
	}
	for key, values := range map[string]string{
		"type":        "transform skill tool decision gate parallel subagent_bundle end",
		"on_error":    "stop skip fallback retry",
		"gate_method": "human_review automated critic_agent",
	} {
		if got := strings.Join(stepShape.field(key).choices, " "); got != values {
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
			if f := stepShape.field(key); f.types != nil && !slices.Contains(f.types, name) {
				t.Errorf("%q has no effect in a step of type %s", key, name)
			}
		}
	}
}
