package text_test

import (
	"encoding/json"
	"testing"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

var stepShape = text.NewShape(
	text.Field{Name: "id", Required: true, Pattern: "^[a-z]+$", Doc: "Name of the step."},
	text.Field{Name: "mode", Choices: []string{"fast", "slow"}},
	text.Field{
		Name: "retry", Form: text.Object,
		Shape: text.NewShape(text.Field{Name: "times", Form: text.AnInt}).Open(),
	},
	text.Field{Name: "label", Hidden: true},
)

func readStep(t *testing.T, yaml string) (*text.Reader, *diag.List) {
	t.Helper()
	node, list := text.ParseYAML(source.NewFile("x.yaml", yaml), 0, len(yaml))
	codes := text.Codes{WrongType: "X1", Missing: "X2", Unknown: "X3", BadValue: "X4", UnknownAs: diag.Warning}
	return stepShape.Read(node, "step", codes, &list), &list
}

func TestShapeDecidesWhatTheReaderAccepts(t *testing.T) {
	r, list := readStep(t, "mode: fats\nlabel: x\nidd: y\n")
	r.RequireDeclared()
	r.Choice("mode")
	r.Node("label")
	r.Node("retry")
	r.Done()
	want := map[string]string{
		`The step has no "id".`:                `There is a key "idd"; rename it to "id".`,
		`"mode" of the step cannot be "fats".`: `Did you mean "fast"?`,
		`Unknown key "idd" in the step.`:       `Did you mean "id"?`,
	}
	for _, d := range *list {
		if want[d.Message] != d.Help || len(d.Fixes) != 1 {
			t.Errorf("unexpected: %s %s %+v", d.Message, d.Help, d.Fixes)
		}
		delete(want, d.Message)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

// A key that is missing one level of indentation is unknown where it is, but known in the section above it.
func TestUnknownKeysNameTheSectionThatHasThem(t *testing.T) {
	r, list := readStep(t, "id: x\nretry:\ntimes: 3\n")
	for _, key := range []string{"id", "mode", "retry"} {
		r.Node(key)
	}
	r.Done()
	if len(*list) != 1 || (*list)[0].Help != `Indent it below "retry".` {
		t.Errorf("got %v", *list)
	}
}

func TestReaderRejectsUndeclaredKeys(t *testing.T) {
	r, _ := readStep(t, "id: x\n")
	defer func() {
		if recover() == nil {
			t.Error("a key that the shape does not declare can be read")
		}
	}()
	r.String("other")
}

func TestShapeYieldsTheSchema(t *testing.T) {
	got, err := json.Marshal(stepShape.Schema())
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"additionalProperties":false,"properties":{` +
		`"id":{"description":"Name of the step.","pattern":"^[a-z]+$","type":"string"},` +
		`"mode":{"enum":["fast","slow"]},` +
		`"retry":{"properties":{"times":{"type":"integer"}},"type":"object"}},` +
		`"required":["id"],"type":"object"}`
	if string(got) != want {
		t.Errorf("the schema is\n%s, want\n%s", got, want)
	}
}
