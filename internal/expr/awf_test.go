package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
)

// awfWorld holds the values that the tests read, under the names of the program.
func awfWorld(t testing.TB) Values {
	t.Helper()
	v := Values{}
	for name, raw := range map[string]string{
		"input": `{"n": "5", "big": 1000000, "flag": "true", "zero": "007", "name": "it's", "list": ["a","b"]}`,
		"states.build": `{"Output": "built ok\n", "Stderr": "", "ExitCode": 0, "Status": "completed",
			"Response": {"k": [1, 2]}}`,
		"states.test": `{"Output": "", "Stderr": "boom", "ExitCode": 3, "Status": "failed"}`,
		"loop": `{"index": 1, "first": false, "last": true, "length": 2,
			"item": {"f": "x.go", "index1": "own", "parent": {"a": 1}, "item": "i"},
			"parent": {"index": 4, "first": true, "last": false, "length": 9, "item": "outer"}}`,
		"states.count":    `{"Output": "4\n"}`,
		"states.yes":      `{"Output": "true"}`,
		"env.HOME":        `"/home/me"`,
		"run":             `{"id": "r1", "name": "flow", "step": "now", "started": 1700000000000, "at": 1700000001500}`,
		"last":            `{"error": "it broke", "class": "COMMAND_FAILED", "step": "test", "value": {"ExitCode": 3}}`,
		"context.User":    `"me"`,
		"awf.scripts_dir": `"/p/.awf/scripts"`,
	} {
		var value any
		if err := json.Unmarshal([]byte(raw), &value); err != nil {
			t.Fatal(err)
		}
		v[name] = value
	}
	return v
}

// An Env may return values that others use, too.
func TestAWFLeavesTheValuesOfAnEnvAsTheyAre(t *testing.T) {
	world := awfWorld(t)
	for _, text := range []string{
		`states.build != nil && states.build.TokensUsed == 0 && states.build.Response.k[0] == 1`,
		`inputs.big > 1 && loop.item.f == "x.go" && loop.parent != nil && workflow != nil && error != nil`,
	} {
		e, _ := Parse(AWF, text, source.Span{})
		if ok, err := e.Bool(world); !ok || err != nil {
			t.Errorf("%s: %t, %v", text, ok, err)
		}
	}
	e, _ := ParseValue(AWFTemplate,
		`echo {{json .states.build}} {{.states.build.TokensUsed}} {{.inputs}} {{.loop}} {{.error}}`, source.Span{})
	if _, err := e.Fill(world, TemplateOptions{}); err != nil {
		t.Error(err)
	}
	for _, o := range []ShellOptions{{Untrusted: roots}, {Untrusted: roots, OneWord: roots}, {Trusted: roots}} {
		if _, err := e.FillShell(world, o); err != nil {
			t.Error(err)
		}
	}
	if !reflect.DeepEqual(world, awfWorld(t)) {
		t.Errorf("now they are %v", world)
	}
}

func TestAWFConditionsHaveTheExpectedResults(t *testing.T) {
	for text, want := range map[string]any{
		`states.build.ExitCode == 0`:                             true,
		`states.build.exit_code == 0 and inputs.n > 4`:           true,
		`inputs.zero == 7`:                                       true,
		`inputs.flag`:                                            true,
		`not inputs.flag`:                                        false,
		`!inputs.flag || inputs.n == 5`:                          true,
		`states.build.Output contains "ok"`:                      true,
		`contains(states.build.Output, "ok")`:                    true,
		`inputs.flag and contains(states.build.Output, "no")`:    false,
		`states.build.Output contains("ok")`:                     true,
		`startsWith(states.build.Output, "built")`:               true,
		`has_prefix(states.build.Output, "built")`:               true,
		`len(states.build.Response.k) == 2`:                      true,
		`states.build.Response.k[1] == 2`:                        true,
		`states.nowhere.Output == "x"`:                           false,
		`states.nowhere.ExitCode > 3`:                            false,
		`inputs.nothing`:                                         false,
		`loop.Index == 1 and loop.Index1 == 2 and loop.Last`:     true,
		`loop.index1 == 2`:                                       true,
		`loop.Parent.Item == "outer"`:                            true,
		`loop.Item.f == "x.go"`:                                  true,
		`env.HOME == "/home/me"`:                                 true,
		`workflow.Name == "flow" and workflow.id == "r1"`:        true,
		`error.Type == "COMMAND_FAILED" and error.ExitCode == 3`: true,
		`context.User == "me"`:                                   true,
		// The output of a state is a text. Compared with a number or a boolean, it is read as one.
		`states.yes.Output == true and true == states.yes.output`:   true,
		`states.yes.Output == "true"`:                               true,
		`states.yes.Output != true`:                                 false,
		`states.count.Output == 4 and states.count.Output > 3`:      true,
		`states.count.Output in [3, 4] and 3 < states.count.Output`: true,
		`states.count.Output > -1`:                                  true,
		`states.count.Output == "4\n"`:                              true,
		`states.build.Output == 4 or states.build.Output == true`:   false,
		// The documented form, which the reference program does not take.
		`{{.states.test.ExitCode}} != 0`:       true,
		`'{{.states.build.Status}}' == 'done'`: false,
		// In quotes it is a text, whatever it looks like.
		`'{{.inputs.n}}' == '5' and "{{ inputs.flag }}" == 'true'`:                                   true,
		`'{{.inputs.zero}}' == '007' and '{{.inputs.zero}}' != '7' and inputs.zero == 7`:             true,
		"`{{.states.test.ExitCode}}` == '3'":                                                         true,
		`'{{.inputs.n}}' == 5`:                                                                       false,
		`'{{.states.build.Response}}' == '{"k":[1,2]}'`:                                              true,
		`'build of {{.inputs.zero}}: {{- .states.build.Status -}} !' == 'build of 007: completed !'`: true,
		`inputs.name == "it's" and states.build.Output contains "{{x}}{{json .inputs.n}} {{"`:        false,
		`'{{.states.nowhere.Output}}' == '' or 'a{{.states.nowhere.Output}}' == 'a'`:                 false,
		`'{{.states.nowhere.Output}}' != 'done'`:                                                     true,
		`{(inputs.name): 1}["it's"] == 1`:                                                            true,
		// A state that has not run is nil, however it is asked for.
		`"nowhere" in states`:                                        false,
		`"build" in states and not ("nowhere" in states)`:            true,
		`"a" in inputs.list and "n" in inputs and not ("x" in env)`:  true,
		`states.nowhere == nil or states.nowhere.Output == "x"`:      true,
		`states.nowhere != nil and states.nowhere.Output == nil`:     false,
		`get(states, "nowhere") == nil`:                              true,
		`get(states, "nowhere").Output == "x"`:                       false,
		`get(states, "build").ExitCode == 0`:                         true,
		`let s = states; s.nowhere.Output == nil and s.build != nil`: true,
		`$env.states.nowhere.Output == nil`:                          true,
		// A test that needs its value is false; the rest of the condition is evaluated.
		`states.nowhere.ExitCode > 3 || inputs.n == 5`:                                true,
		`inputs.n == 5 or states.nowhere.ExitCode > 3`:                                true,
		`states.nowhere.ExitCode > 3 or states.test.ExitCode > 3`:                     false,
		`states.nowhere.ExitCode > 3 || states.nowhere.ExitCode < 3`:                  false,
		`states.nowhere.ExitCode > 3 and inputs.n == 5`:                               false,
		`!(states.nowhere.ExitCode > 3)`:                                              true,
		`not (len(states.nowhere.Output) > 0) && inputs.n == 5`:                       true,
		`trim(states.nowhere.Output) != "done"`:                                       true,
		`"done" == trim(lower(states.nowhere.Output))`:                                false,
		`(trim(states.nowhere.Output) ?? "x") == "x"`:                                 true,
		`(states.nowhere.ExitCode > 3 ? "a" : "b") == "b"`:                            true,
		`let s = states.nowhere; s.ExitCode > 3 || inputs.n == 5`:                     true,
		`let n = trim(states.nowhere.Output); n == nil and inputs.n == 5`:             true,
		`states["no" + "where"].ExitCode > 3 || inputs.n == 5`:                        true,
		`any(["nowhere"], states[#].ExitCode > 3) || inputs.n == 5`:                   true,
		`'a{{.states.nowhere.Output}}' == 'a' or inputs.n == 5`:                       true,
		`Contains(states.nowhere.Output, "x") or len(states.nowhere.Output) == 0`:     false,
		`not (states.nowhere.Output startsWith "x") and !(states.nowhere.ExitCode>1)`: true,
		`$env["states"]["build"].ExitCode == 0`:                                       true,
	} {
		e, list := Parse(AWF, text, source.Span{})
		if list.Errors() {
			t.Errorf("%s: %v", text, list)
			continue
		}
		if got, err := e.Bool(awfWorld(t)); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	e, _ := Parse(AWF, `states.build.Output > 3`, source.Span{})
	if _, err := e.Bool(awfWorld(t)); err == nil {
		t.Error("a text was compared with a number")
	}
	e, _ = Parse(AWF, `states.nowhere.ExitCode > 3 || states.build.Output > 3`, source.Span{})
	if ok, err := e.Bool(awfWorld(t)); err == nil {
		t.Error("a text was compared with a number beside a missing value:", ok)
	}
	e, _ = Parse(AWFLenient, `states.build.Output > 3`, source.Span{})
	if ok, err := e.Bool(awfWorld(t)); err == nil || ok {
		t.Error("a condition without a value must be an error:", ok, err)
	}
	e, _ = Parse(AWF, `states.build.Output`, source.Span{})
	var failed *EvalError
	if _, err := e.Bool(awfWorld(t)); !errors.As(err, &failed) || failed.Problem != ProblemNotCondition {
		t.Error(err)
	}
}

func TestAWFTemplatesHaveTheExpectedResults(t *testing.T) {
	const item = `{"f":"x.go","index1":"own","item":"i","parent":{"a":1}}`
	for text, want := range map[string]string{
		`plain`:                                "plain",
		`a {{.inputs.n}} b`:                    "a 5 b",
		`{{inputs.n}} {{loop.index}}`:          "5 1",
		`{{.inputs.big}}`:                      "1000000",
		`{{.states.build.Output}}`:             "built ok\n",
		`{{.states.build.output | trimSpace}}`: "built ok",
		`{{.states.build.Response}}`:           `{"k":[1,2]}`,
		`{{.states.build.Data.k}}`:             `[1,2]`,
		`{{json .states.build.Response}}`:      `{"k":[1,2]}`,
		`{{.loop.Item}} {{.loop.Parent.Index1}} {{.loop.parent.item}}`:                   item + ` 5 outer`,
		`{{.loop.Item}} {{.loop.Item.f}}`:                                                item + ` x.go`,
		`{{.loop.Item.index1}} {{.loop.Item.parent}} {{.loop.item.item}}`:                `own {"a":1} i`,
		`{{escape .inputs.name}}`:                                                        `'it'\''s'`,
		`{{join (split "a,b" ",") "-"}}`:                                                 "a-b",
		`{{join .inputs.list "+"}}`:                                                      "a+b",
		`{{range .inputs.list}}<{{.}}>{{end}}`:                                           "<a><b>",
		`{{with .states.build}}{{.ExitCode}}{{end}}`:                                     "0",
		`{{range .inputs.list}}{{$.inputs.n}}{{end}}`:                                    "55",
		`{{if eq .states.test.Status "failed"}}no{{end}}`:                                "no",
		`{{index .inputs.list 1}} {{index .inputs "none"}} {{index .inputs.list 0 0}}`:   "b <no value> 97",
		`{{index .states "test" "Stderr"}}`:                                              "boom",
		`{{index . "inputs" "n"}} {{index $ "states" "test" "Stderr"}}`:                  "5 boom",
		`{{range .inputs.list}}{{index . 0}}{{index $ "inputs" "n"}}{{end}}`:             "975985",
		`{{with .}}{{.states.test.Stderr}}{{end}}{{with $}}{{.loop.Index}}{{end}}`:       "boom1",
		`{{$s := .states}}{{$s.test.stderr}}{{with .states}}{{.test.ExitCode}}{{end}}`:   "boom3",
		`{{range $k, $v := .states}}{{$k}}={{$v.Stderr}}{{end}}`:                         "test=boom",
		`{{with index .states "none"}}{{.Output}}{{else}}no{{end}}`:                      "no",
		`{{define "t"}}{{.test.Stderr}}{{$.test.Status}}{{end}}{{template "t" .states}}`: "boomfailed",
		`{{.workflow.ID}} {{.workflow.name}} {{.workflow.Duration}}`:                     "r1 flow 1.5s",
		`{{.workflow.StartedAt}}`:                                                        "2023-11-14T22:13:20Z",
		`{{.error.Message}} {{.error.type}} {{.error.State}} {{.error.exit_code}}`: "it broke COMMAND_FAILED " +
			"test 3",
		`{{json error}}`: `{"ExitCode":3,"Message":"it broke","State":"test",` +
			`"Type":"COMMAND_FAILED"}`,
		`{{.states.par.steps.build.output}}`: "built ok\n",
		`{{.awf.scripts_dir}}/x`:             "/p/.awf/scripts/x",
	} {
		e, list := ParseValue(AWFTemplate, text, source.Span{})
		if list.Errors() {
			t.Errorf("%s: %v", text, list)
			continue
		}
		world := awfWorld(t)
		world["states"] = map[string]any{"test": world["states.test"]}
		if got, err := e.Eval(world); err != nil || got != want {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}

// A.4: a condition can distinguish null from the text "null".
func TestAWFNullItemsPrintAsNull(t *testing.T) {
	world := Values{"loop": map[string]any{
		"index": 0.0, "item": nil,
		"parent": map[string]any{"index": 0.0, "item": nil},
	}}
	for _, text := range []string{
		`{{.loop.Item}}`, `{{loop.item}}`, `{{.loop.Parent.Item}}`, `{{json .loop.Item}}`,
		`{{if .loop.Item}}true{{else}}null{{end}}`,
	} {
		e, list := ParseValue(AWFTemplate, text, source.Span{})
		if list.Errors() {
			t.Fatalf("%s: %v", text, list)
		}
		if got, err := e.Eval(world); err != nil || got != "null" {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	for text, want := range map[string]bool{`loop.Item == nil`: true, `loop.Item == "null"`: false} {
		e, _ := Parse(AWF, text, source.Span{})
		if got, err := e.Eval(world); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

func TestAWFTemplateErrorsNameTheCause(t *testing.T) {
	for text, says := range map[string]string{
		`{{.inputs.nope}}`:           "There is no inputs.nope.",
		`{{.states.later.Output}}`:   "There is no states.later.Output.",
		`{{readFile "/etc/passwd"}}`: "files cannot be read here",
		`{{index .inputs.list 2}}`:   "2 is not an index of a list of 2.",
		`{{index .inputs.list "a"}}`: "a is not an index of a list of 2.",
		`{{index .inputs 0}}`:        "0 is not a name in an object.",
		`{{index .inputs.big 0}}`:    "1000000 has no elements.",
	} {
		e, _ := ParseValue(AWFTemplate, text, source.Span{})
		_, err := e.Eval(awfWorld(t))
		var failed *EvalError
		if !errors.As(err, &failed) || !strings.Contains(failed.Message, says) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestAWFItemsAndNumbersAreConverted(t *testing.T) {
	for text, want := range map[string]any{
		`["a", "{{.inputs.n}}", 3]`:          []any{"a", "5", 3.0},
		`[{"a": ["{{.inputs.n}}"], "b": 1}]`: []any{map[string]any{"a": []any{"5"}, "b": 1.0}},
		`{{.inputs.list}}`:                   []any{"a", "b"},
		`a, b ,c`:                            []any{"a", "b", "c"},
		`{{.states.test.Output}}`:            []any{},
		`[{{.inputs.n}}, 2]`:                 []any{5.0, 2.0},
		`{{.inputs.n}},x`:                    []any{"5", "x"},
	} {
		e, list := ParseValue(AWFItems, text, source.Span{})
		got, err := e.Eval(awfWorld(t))
		if err != nil || list.Errors() || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v, %v", text, got, err, list)
		}
	}
	for text, want := range map[string]any{
		`7`: 7.0, `{{.inputs.n}}`: 5.0, `{{.inputs.n * .inputs.zero}}`: 35.0, `{{.inputs.n}} + 1`: 6.0,
		`inputs.n * 2`: 10.0, `{{.inputs.n + 10}}`: 15.0,
	} {
		e, list := ParseValue(AWFNumber, text, source.Span{})
		got, err := e.Eval(awfWorld(t))
		if err != nil || list.Errors() || got != want {
			t.Errorf("%s: %v, %v, %v", text, got, err, list)
		}
	}
}

func TestAWFOutputsConvertInputsOnlyInComputations(t *testing.T) {
	text := `{"a":"inputs.zero","b":"{{.inputs.zero}}","c":"v{{.inputs.zero}}-{{.inputs.n}}",
		"d":"{{.inputs.zero | trimSpace}}","e":"inputs.zero + 1","f":" {{ inputs.flag }} ",
		"g":"{{.states.build.Response.k}}","h":"x{{.states.none.Output}}","i":"states.none.Output",
		"j":"{{.states.none.Output | trimSpace}}","k":"inputs.big"}`
	want := map[string]any{
		"a": "007", "b": "007", "c": "v007-5", "d": "007", "e": 8.0, "f": "true", "g": []any{1.0, 2.0},
		"h": "x", "i": nil, "j": nil, "k": 1000000.0,
	}
	e, list := ParseValue(AWFOutputs, text, source.Span{})
	got, err := e.Eval(awfWorld(t))
	if err != nil || list.Errors() || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v, %v", got, err, list)
	}
	// To conditions it is one, also to those that were read as an output before.
	e, _ = Parse(AWF, "inputs.zero", source.Span{})
	if got, err := e.Eval(awfWorld(t)); err != nil || got != 7.0 {
		t.Error(got, err)
	}
}

func TestAWFNumberErrorsShowTheValue(t *testing.T) {
	for text, says := range map[string]string{
		`{{.inputs.name}}`:         `"it's" is not a number.`,
		`{{.states.build.Status}}`: `"completed" is not a number.`,
	} {
		e, _ := ParseValue(AWFNumber, text, source.Span{})
		_, err := e.Eval(awfWorld(t))
		var failed *EvalError
		if !errors.As(err, &failed) || failed.Message != says {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestAWFErrorsHaveASpan(t *testing.T) {
	for text, c := range map[string]struct {
		dialect Dialect
		at      string
	}{
		`states.a.Output = 3 and`:           {AWF, `=`},
		`(inputs.a == 1`:                    {AWF, ``},
		"line\nthen {{.inputs.a | nope}} x": {AWFTemplate, `nope`},
		"{{if .inputs.a}}":                  {AWFTemplate, ``},
		"a\nb {{.inputs.a | 3}} c":          {AWFTemplate, `{{.inputs.a | 3}} c`},
		`now() > 1`:                         {AWF, `now`},
		` {{.inputs.a + nope(.inputs.b)}}`:  {AWFNumber, `nope`},
	} {
		at := source.Span{File: "f", Start: 100, End: 100 + len(text)}
		e, list := Parse(c.dialect, text, at)
		if len(list) != 1 || list[0].Code != CodeForeign || list[0].Span.Start < 100 || list[0].Span.End > at.End ||
			!strings.HasSuffix(list[0].Message, ".") {
			t.Errorf("%s: %v", text, list)
			continue
		}
		if strings.HasPrefix(list[0].Help, "Use ==") != (c.at == "=") {
			t.Errorf("%s: %s", text, list[0].Help)
		}
		if _, err := e.Eval(nil); err == nil {
			t.Errorf("%s was evaluated", text)
		}
		if got := text[list[0].Span.Start-100 : list[0].Span.End-100]; c.at != "" && got != c.at {
			t.Errorf("%s: it points at %q", text, got)
		}
	}
}

func TestAWFPathsKeepTheirSpelling(t *testing.T) {
	for text, c := range map[string]struct {
		dialect Dialect
		want    string
	}{
		`states.a.output == inputs.b and contains(loop.Item, env.X)`: {
			AWF,
			`states.a.Output@states.a.output input.b@inputs.b loop.item@loop.Item env.X@env.X`,
		},
		`x {{.states.a.Output}} {{ .inputs.b | json }}`: {
			AWFTemplate,
			`states.a.Output@states.a.Output input.b@inputs.b`,
		},
		`{{range .states.a.Response.k}}{{.x}} {{$.inputs.c}}{{end}}`: {
			AWFTemplate,
			`states.a.Response.k@states.a.Response.k input.c@inputs.c`,
		},
		`{{states.a.Output}}{{workflow.ID}}`: {
			AWFTemplate,
			`states.a.Output@states.a.Output run.id@workflow.ID`,
		},
		`{{.inputs.a * .inputs.b}}`: {
			AWFNumber,
			`input.a@inputs.a input.b@inputs.b`,
		},
		`  {{.inputs.a + .loop.Index}} `: {
			AWFNumber,
			`input.a@inputs.a loop.index@loop.Index`,
		},
		`'{{.inputs.a}}' != "é{{states.b.output}}y" + inputs.c`: {
			AWF,
			`input.a@inputs.a states.b.Output@states.b.output input.c@inputs.c`,
		},
		`states["a b"].Output == {(inputs.c): inputs.d}.x`: {
			AWF,
			`states.a b.Output@states["a b"].Output input.c@inputs.c input.d@inputs.d`,
		},
		`"a" in states or 'b' not in states`:   {AWF, `states.a@"a" in states states.b@'b' not in states`},
		`"a" in inputs.list`:                   {AWF, `input.list@inputs.list`},
		`get(get(states, "a"), "Output") == 1`: {AWF, `states.a.Output@get(get(states, "a"), "Output")`},
		`let s = states.a; let n = 2; s.Output == n + inputs.b`: {
			AWF,
			`states.a@states.a states.a.Output@s.Output input.b@inputs.b`,
		},
		`$env.states.a.Output == "x"`: {AWF, `states.a.Output@$env.states.a.Output`},
	} {
		for range 2 { // parsing again gives the same spans
			e, list := Parse(c.dialect, text, source.Span{File: "f", Start: 0, End: len(text)})
			if list.Errors() {
				t.Error(list)
			}
			var got []string
			for _, p := range e.Paths() {
				got = append(got, strings.Join(p.Segments, ".")+"@"+text[p.Span.Start:p.Span.End])
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%s: %s", text, strings.Join(got, " "))
			}
		}
	}
}

func TestAWFExpressionsSurviveEncoding(t *testing.T) {
	e, _ := Parse(AWF, `states.a.Output == "x"`, source.Span{File: "f", Start: 1, End: 23})
	raw, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	back := new(Expr)
	if err := json.Unmarshal(raw, back); err != nil || !back.Equal(e) {
		t.Fatal(err)
	}
	if ok, err := back.Bool(Values{"states.a": map[string]any{"Output": "x"}}); !ok || err != nil {
		t.Error(ok, err)
	}
	for _, broken := range []string{
		`{"dialect":"awf","text":"a ="}`, `{"dialect":"awf-outputs","text":"[]"}`,
		`{"dialect":"awf-outputs","text":"{\"a\": \"{{x\"}"}`,
	} {
		if json.Unmarshal([]byte(broken), back) == nil {
			t.Error("something broken was read:", broken)
		}
	}
}

func TestAWFNeverPanicsAndSpansAreInTheText(t *testing.T) {
	piece := rapid.SampledFrom([]string{
		"{{", "}}", ".inputs.a", "inputs.a", "states", "[", "]", "(", ")", "contains(", " and ", "==", "'", `"`, "é",
		"1",
		"|", "json", "range ", "end", "$", "\n", "?.", "len(", "{", "}", ":", "#", "let x = 1; ",
	})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(t, "text"), "")
		d := rapid.SampledFrom([]Dialect{AWF, AWFLenient, AWFTemplate, AWFItems, AWFNumber, AWFOutputs}).Draw(t,
			"dialect")
		if d == AWFOutputs && rapid.Bool().Draw(t, "object") {
			raw, _ := json.Marshal(map[string]string{"a": text, "b": "states.x"})
			text = string(raw)
		}
		e, list := Parse(d, text, source.Span{File: "f", Start: 10, End: 10 + len(text)})
		for _, one := range list {
			if one.Span.Start < 10 || one.Span.End > 10+len(text) || one.Span.End < one.Span.Start {
				t.Fatalf("%q: %v", text, one)
			}
		}
		for _, p := range e.Paths() {
			if p.Span.Start < 10 || p.Span.End > 10+len(text) {
				t.Fatalf("%q: %v", text, p)
			}
		}
		e.Eval(Values{"input": map[string]any{"a": "1"}})
		e.Bool(nil)
		if list.Count(diag.Error) == 0 && e.String() != text {
			t.Fatal(e.String())
		}
	})
}

// A cached condition must not leak its span, dialect or errors into another one, and the cache must be bounded.
func TestConditionCacheIsTransparentAndBounded(t *testing.T) {
	text := `states.build.ExitCode == 0`
	one, _ := ParseValue(AWF, text, source.Span{Start: 1, End: 2})
	other, _ := ParseValue(AWF, text, source.Span{Start: 8, End: 9})
	if one.other != other.other || one.Span == other.Span {
		t.Errorf("%+v, %+v", one, other)
	}
	if lenient, _ := ParseValue(AWFLenient, text, source.Span{}); lenient.Dialect != AWFLenient {
		t.Errorf("%+v", lenient)
	}
	for range 2 {
		if _, list := ParseValue(AWF, "states.(", source.Span{}); !list.Errors() {
			t.Error("a mistake was made the second time, and not told")
		}
	}
	for n := range maxConditions + 5 {
		ParseValue(AWF, fmt.Sprintf("states.build.ExitCode == %d", n), source.Span{})
	}
	if n := len(recent.known); n > maxConditions {
		t.Errorf("%d are kept", n)
	}
}

func BenchmarkCondition(b *testing.B) {
	for b.Loop() {
		ParseValue(AWF, `result.Output ?? ""`, source.Span{})
	}
}
