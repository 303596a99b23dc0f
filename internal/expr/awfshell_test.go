package expr

import (
	"fmt"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/source"
)

// FillShell passes untrusted values in variables; people read the command with the values in their places.
func TestFillShellPassesUntrustedValuesInVariables(t *testing.T) {
	world := Values{
		"input":    map[string]any{"x": "it"},
		"states.a": map[string]any{"Output": "a'b", "Response": map[string]any{"n": 5.0, "f$": []any{"c d"}}},
	}
	for text, want := range map[string]struct {
		run, read, values string
	}{
		`echo {{.inputs.x}}`:            {`echo it`, `echo it`, ``},
		`echo {{.states.a.Output}}`:     {`echo ${__espalier_1}`, `echo a'b`, `a'b`},
		`echo '{{.states.a.Output}}'`:   {`echo "${__espalier_1}"`, `echo 'a'b'`, `a'b`},
		`echo {{raw .states.a.Output}}`: {`echo a'b`, `echo a'b`, ``},
		`echo {{.states.a.Response.n}}`: {`echo 5`, `echo 5`, ``},
		`echo {{range index .states.a.Response "f$"}}{{.}} {{.}}{{end}}`: {
			`echo ${__espalier_1} ${__espalier_1}`, `echo c d c d`, `c d`,
		},
		`echo {{.states.a.Response}}`: {
			`echo "${__espalier_1}"`, `echo {"f$":["c d"],"n":5}`,
			`{"f$":["c d"],"n":5}`,
		},
		`{{range $k, $v := .inputs}}{{$k}}{{end}}`: {"x", "x", ``},
		`echo {{trimSpace .states.a.Output}}`:      {`echo ${__espalier_1}`, `echo a'b`, `a'b`},
		`echo {{json .states.a.Output}}`:           {`echo "${__espalier_1}"`, `echo "a'b"`, `"a'b"`},
		`echo {{join .states.a.Response.n ","}}{{print .states.a.Output}}`: {
			`echo 5"${__espalier_1}"`, `echo 5a'b`, `a'b`,
		},
	} {
		e, _ := ParseValue(AWFTemplate, text, source.Span{})
		got, err := e.FillShell(world, ShellOptions{Untrusted: []string{"states"}})
		if err != nil || strings.TrimSuffix(got.Text, "\n") != want.run || got.Read != want.read ||
			strings.Join(got.Values, "|") != want.values {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
	}
	var e *Expr
	for _, text := range []string{
		`{{range $k, $v := .states.a.Response}}{{$k}}{{end}}`,
		`{{range $k, $v := .states.a}}{{range $k, $v := .}}{{$k}}{{end}}{{end}}`,
		`{{range $k, $v := index .states.b.Response 0}}{{$k}}{{end}}`,
	} {
		world["states.b.Response"] = []any{map[string]any{"$(x)": 1.0}}
		e, _ = ParseValue(AWFTemplate, text, source.Span{})
		if got, err := e.FillShell(world, ShellOptions{Untrusted: []string{"states"}}); err == nil {
			t.Errorf("a key was taken as code: %+v", got)
		}
	}
	// A trusted value cannot contain marks.
	world["input"] = map[string]any{"x": "it\x00w$(x)\x00", "l": []any{"\x00q", map[string]any{"k": "\x00o"}}}
	e, _ = ParseValue(AWFTemplate,
		`echo {{.inputs.x}} {{.states.a.Output}} {{index .inputs.l 0}} {{(index .inputs.l 1).k}}`, source.Span{})
	if got, err := e.FillShell(world, ShellOptions{Untrusted: []string{"states"}}); err != nil ||
		got.Text != "echo itw$(x) ${__espalier_1} q o\n" {
		t.Errorf("%q, %v", got.Text, err)
	}
	// Values under the roots in OneWord are never split.
	e, _ = ParseValue(AWFTemplate, `echo {{.inputs.y}} {{.states.a.Output}} {{.inputs.m.z}}`, source.Span{})
	world["input"] = map[string]any{"y": "y y", "m": map[string]any{"z": "z"}}
	if got, err := e.FillShell(world,
		ShellOptions{Untrusted: []string{"states", "inputs"}, OneWord: []string{"inputs"}}); err != nil ||
		got.Text != `echo "${__espalier_1}" ${__espalier_2} "${__espalier_3}"`+"\n" {
		t.Errorf("%q, %v", got.Text, err)
	}
	for _, text := range []string{"{{", "{{nope}}"} {
		e, _ = ParseValue(AWFTemplate, text, source.Span{})
		if got, err := e.FillShell(world, ShellOptions{}); err == nil {
			t.Errorf("%s: %+v", text, got)
		}
		if got, err := e.Fill(world, TemplateOptions{}); err == nil {
			t.Errorf("%s: %+v", text, got)
		}
	}
	e, _ = ParseValue(AWF, "inputs.x", source.Span{})
	if got, err := e.FillShell(world, ShellOptions{}); err == nil {
		t.Errorf("a condition was taken for a template: %+v", got)
	}
}

// Trusted values are data where they can be. A text that contains an untrusted one is untrusted.
func TestTrustedValuesStayTrustedAfterFunctions(t *testing.T) {
	world := Values{
		"input": map[string]any{
			"x": "OWN $x", "l": []any{"OWN", 1.0}, "m": map[string]any{"$k": "OWN"}, "s": "-",
		},
		"states.a.Output": "STEP",
	}
	o := ShellOptions{Untrusted: []string{"states"}, Trusted: []string{"inputs"}, Shell: "sh"}
	for _, action := range []string{
		`.inputs.x`, `trimSpace .inputs.x`, `print .inputs.x 5`, `printf "a %s" .inputs.x`, `json .inputs.x`,
		`.inputs.l`, `.inputs.m`, `json .inputs.m`, `index .inputs.l 0`, `index .inputs.m "$k"`, `join .inputs.l ","`,
		`index (split .inputs.x " ") 0`, `html .inputs.x`, `slice .inputs.x 0 3`, `or .inputs.x "y"`,
	} {
		for command, isData := range map[string]bool{"echo": true, "eval": false} {
			template := command + " {{" + action + "}}"
			e, list := ParseValue(AWFTemplate, template, source.Span{})
			if list.Errors() {
				t.Fatal(list)
			}
			got, err := e.FillShell(world, o)
			if err != nil || strings.Contains(got.Text, "OWN") == isData ||
				strings.Contains(got.Text+got.Read, "\x00") {
				t.Errorf("%s: %+v, %v", template, got, err)
			}
		}
	}
	for _, action := range []string{
		`print .inputs.x .states.a.Output`, `join .inputs.l .states.a.Output`, `json .`,
		`printf .inputs.s .states.a.Output`,
	} {
		e, _ := ParseValue(AWFTemplate, "eval {{"+action+"}}", source.Span{})
		if got, err := e.FillShell(world, o); err == nil {
			t.Errorf("%s: %+v", action, got)
		}
	}
	// Keys of trusted objects are text.
	e, _ := ParseValue(AWFTemplate, `echo {{range $k, $v := .inputs.m}}'{{$k}}' "{{$v}}"{{end}}`, source.Span{})
	if got, err := e.FillShell(world, o); err != nil || got.Read != `echo '$k' "OWN"` || len(got.Values) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// The content of a file is data in a command, even if it contains marks.
func TestFileContentsAreNotExecuted(t *testing.T) {
	o := ShellOptions{
		Untrusted:       []string{"states"},
		TemplateOptions: TemplateOptions{ReadFile: func(string) (string, error) { return "x\x00w", nil }},
	}
	e, _ := ParseValue(AWFTemplate, `echo {{readFile "f"}} {{.states.a.Output}}`, source.Span{})
	got, err := e.FillShell(Values{"states.a.Output": "$(y)"}, o)
	if err != nil || got.Text != "echo ${__espalier_1} ${__espalier_2}\n" ||
		strings.Join(got.Values, "|") != "xw|$(y)" {
		t.Errorf("%+v, %v", got, err)
	}
}

// A value stays data after any template function, and Read is what the template renders elsewhere.
func TestValuesStayDataAfterFunctions(t *testing.T) {
	world := Values{
		"input": map[string]any{"list": []any{"x", "y"}, "s": "x,y", "n": 7.0},
		"states.a": map[string]any{
			"Output": "SECRET a,SECRET b",
			"Response": map[string]any{
				"l": []any{"SECRET", 1.0, []any{"SECRET"}}, "m": map[string]any{"k": "SECRET"},
				"y": "SECRET", "SECRET": map[string]any{"l": []any{"SECRET"}},
			},
		},
		"loop": map[string]any{"index": 0.0, "item": "SECRET"},
	}
	world["states"] = map[string]any{"a": world["states.a"]}
	for _, text := range []string{
		`{{.states.a.Output}}`, `{{.states.a.Response}}`, `{{.states.a.Response.l}}`, `{{.states}}`, `{{json .states}}`,
		`{{json .}}`, `{{printf "%q" .states.a.Output}}`,
		`{{split .states.a.Output ","}}`, `{{json (split .states.a.Output ",")}}`,
		`{{printf "%q" (split .states.a.Output ",")}}`, `{{js (split .states.a.Output ",")}}`,
		`{{html (split .states.a.Output ",")}}`,
		`{{print (split .states.a.Output ",")}}`, `{{println .states.a.Response}}`,
		`{{split .states.a.Output "," | trimSpace}}`, `{{index (split .states.a.Output ",") 1}}`,
		`{{slice (split .states.a.Output ",") 1}}`,
		`{{join (split .states.a.Output ",") "-"}}`, `{{join .inputs.list .states.a.Output}}`,
		`{{join .states.a.Response.l ","}}`, `{{join .states.a.Output ","}}`, `{{split .inputs.s .states.a.Output}}`,
		`{{slice .states.a.Output 0 8}}`,
		`{{escape (split .states.a.Output ",")}}`, `{{escape .states.a.Response.l}}`,
		`{{escape (escape .states.a.Output)}}`, `{{json (escape .states.a.Output)}}`,
		`{{.states.a.Output | html | js | printf "%s%d" "x" 5}}`,
		`{{with .states.a.Response}}{{range .l}}{{.}} {{end}}{{.m}}{{end}}`,
		`{{$x := index .states.a.Response.l 0}}{{$x}}`, `{{or .inputs.none .states.a.Output}}`,
		`{{index .states.a.Response (index .inputs.list 1)}}`,
		`{{index .states.a.Response .loop.Item "l" 0}} {{index .inputs .loop.Item}} {{index .states.a.Output 0}}`,
		`{{printf .states.a.Output}}`, `{{printf "%s" .}}`, `{{range split .states.a.Output ","}}[{{.}}]{{end}}`,
		`{{define "x"}}[{{.}}]{{end}}{{template "x" .states.a.Output}}`,
		`{{json .inputs.list}} {{split .inputs.s ","}} {{.inputs.n}} {{printf "%03d" .inputs.n}} {{js .inputs.s}}`,
	} {
		e, list := ParseValue(AWFTemplate, text, source.Span{})
		if list.Errors() {
			t.Errorf("%s: %v", text, list)
			continue
		}
		world["input"].(map[string]any)["none"] = ""
		read, readErr := e.Eval(world)
		e, _ = ParseValue(AWFTemplate, "echo "+text, source.Span{})
		got, err := e.FillShell(world, ShellOptions{Untrusted: []string{"states", "loop"}, Shell: "sh"})
		if err != nil || readErr != nil || strings.Contains(got.Text, "SECRET") ||
			strings.Contains(got.Text+got.Read, "\x00") {
			t.Errorf("%s: %q, %v, %v", text, got.Text, err, readErr)
		}
		if want := "echo " + fmt.Sprint(read); want != got.Read {
			t.Errorf("%s: Read is %q, want %q", text, got.Read, want)
		}
	}
}
