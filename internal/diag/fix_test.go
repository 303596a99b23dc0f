package diag_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
)

// suggested returns a file and one diagnostic about the word "sumary" somewhere in a span of it.
func suggested(text, within, name string, candidates ...string) (source.Set, diag.List) {
	f := source.NewFile("flow.md", text)
	files := source.Set{}
	files.Add(f)
	start := strings.Index(text, within)
	var list diag.List
	list.Add(diag.Diagnostic{
		Code: "WF002", Severity: diag.Error, Span: f.Span(start, start+len(within)), Message: "Nothing writes it.",
	}).Suggest(name, candidates)
	return files, list
}

func TestFixReplacesOnlyTheMisspelledWord(t *testing.T) {
	tests := []struct{ name, text, within, want string }{
		{"alone", "reads: [sumary]", "sumary", "reads: [summary]"},
		{"in quotes", `reads: ["sumary"]`, `"sumary"`, `reads: ["summary"]`},
		{"in an expression", "when: sumary == 'x'", "sumary == 'x'", "when: summary == 'x'"},
		{"in a longer word", "when: sumary == sumary_text", "sumary == sumary_text", "when: summary == sumary_text"},
		{"with an escape", `reads: ["s\u0075mary"]`, `"s\u0075mary"`, ""},
		{"twice", "when: sumary == sumary", "sumary == sumary", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			files, list := suggested(test.text, test.within, "sumary", "summary", "details")
			d := list.Located(files)[0]
			if d.Help != `Did you mean "summary"?` {
				t.Errorf("the help is %q", d.Help)
			}
			switch {
			case test.want == "" && len(d.Fixes) == 0:
			case len(d.Fixes) != 1:
				t.Errorf("there are %d fixes", len(d.Fixes))
			case d.Fixes[0].Apply(files["flow.md"]) != test.want:
				t.Errorf("the fix makes %q, want %q", d.Fixes[0].Apply(files["flow.md"]), test.want)
			}
		})
	}
}

func TestFixOfAValueReplacesItsQuotes(t *testing.T) {
	for text, want := range map[string]string{"a: yes\n": "a: true\n", `a: "yes"` + "\n": "a: true\n"} {
		files, list := suggested(text, "yes", "")
		list[0].WriteValue(list[0].Span, "true")
		if got := list.Located(files)[0].Fixes[0].Apply(files["flow.md"]); got != want {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

func TestRewriteRequiresTheOldText(t *testing.T) {
	for text, want := range map[string]string{"a is None": "a == None", "a is\tNone": ""} {
		files, list := suggested(text, text[2:], "")
		list[0].Rewrite(list[0].Span, "is None", "== None")
		got := ""
		// Lists are located once more when they are written.
		if fixes := list.Located(files).Located(files)[0].Fixes; len(fixes) > 0 {
			got = fixes[0].Apply(files["flow.md"])
		}
		if got != want {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

func TestNewTextsGetOtherQuotesThanTheExpression(t *testing.T) {
	for text, want := range map[string]string{
		"a: b == 1\n": "a: b == \"1\"\n", `a: "b == 1"`: `a: "b == '1'"`, "a: 'b == 1'": `a: 'b == "1"'`,
		"a: 1 == b": "", `a: "1 == b"`: `a: "'1' == b"`, "1": "",
	} {
		files, list := suggested(text, "1", "")
		expression := list[0].Span
		if i := strings.Index(text, "b"); i >= 0 {
			expression.Start, expression.End = min(i, expression.Start), max(i+1, expression.End)
		}
		list[0].RewriteText(list[0].Span, expression, "1", "1")
		got := ""
		if fixes := list.Located(files).Located(files)[0].Fixes; len(fixes) > 0 {
			got = fixes[0].Apply(files["flow.md"])
		}
		if got != want {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

func TestFixCanRemoveSeveralSpans(t *testing.T) {
	files, list := suggested("[1,,,2]", ",", "")
	at := list[0].Span
	list[0].Remove("the commas", at, source.Span{File: at.File, Start: at.Start + 1, End: at.Start + 2})
	fix := list.Located(files)[0].Fixes[0]
	if got := fix.Apply(files["flow.md"]); got != "[1,2]" || fix.Title != "Remove the commas" {
		t.Errorf("%s: %s", fix.Title, got)
	}
	var none *diag.Diagnostic // a diagnostic that was not added
	none.Remove("it", at)
	none.Rewrite(at, "a", "b")
	none.RewriteText(at, at, "a", "b")
}

func TestNoFixWithoutACloseName(t *testing.T) {
	files, list := suggested("reads: [sumary]", "sumary", "sumary", "invoice")
	if d := list.Located(files)[0]; len(d.Fixes) > 0 || d.Help != "There is only invoice." {
		t.Errorf("the diagnostic is %+v", d)
	}
	var none *diag.Diagnostic // a diagnostic that was not added
	none.Suggest("sumary", []string{"summary"})
}

func TestReportContainsFixes(t *testing.T) {
	files, list := suggested("reads: [sumary]", "sumary", "sumary", "summary")
	got, err := json.Marshal(diag.NewReport(files, list).Diagnostics[0].Fixes)
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"title":"Replace \"sumary\" with \"summary\"","edits":[{"file":"flow.md",` +
		`"start":{"line":1,"column":9,"offset":8},"end":{"line":1,"column":15,"offset":14},"new_text":"summary"}]}]`
	if string(got) != want {
		t.Errorf("the fixes are\n%s, want\n%s", got, want)
	}
}

// TestSARIFMatchesThePublicSchema validates the output against the schema that OASIS publishes.
func TestSARIFMatchesThePublicSchema(t *testing.T) {
	const name = "testdata/sarif-schema-2.1.0.json"
	raw, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	doc, err := jsonschema.UnmarshalJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(name, doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	fixFiles, fixes := suggested("reads: [sumary]\n", "sumary", "sumary", "summary")
	sampleFiles, list := sample()
	many := make(diag.List, diag.MaxPerFile+1)
	for i := range many {
		many[i] = fixes[0]
	}
	for _, f := range fixFiles {
		sampleFiles.Add(f)
	}
	for name, list := range map[string]diag.List{
		"nothing": nil, "all forms": append(list, fixes...), "too many": many.Capped(),
	} {
		for _, root := range []string{"", "/abs"} {
			var b strings.Builder
			if err := (diag.SARIF{Files: sampleFiles, Root: root, Version: "1.2.3"}).Write(&b, list); err != nil {
				t.Fatal(err)
			}
			log, err := jsonschema.UnmarshalJSON(strings.NewReader(b.String()))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(log); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if len(list) > 0 && name != "too many" && !strings.Contains(b.String(), `"insertedContent"`) {
				t.Errorf("%s: there is no fix in\n%s", name, b.String())
			}
		}
	}
}
