package aiflow_test

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/schema"
	"github.com/espalier-run/espalier/internal/source"
)

// files is a project in memory.
type files map[string]string

func (f files) Read(_ *source.File, ref string) (*source.File, error) {
	if text, ok := f[ref]; ok {
		return source.NewFile(ref, text), nil
	}
	return nil, &source.RefError{Ref: ref, Problem: source.RefMissing}
}

func (f files) Skill(name string) (*source.File, error) {
	return nil, &source.RefError{Ref: name, Problem: source.RefMissing}
}

func compile(text string, others files) format.Result {
	return catalog.Formats().Compile(source.NewFile("flow.aiflow", text), others)
}

// document returns a complete file with the given flow and agents.
func document(flow, agents string) string {
	return `{"metadata":{"name":"f","version":"1.0.0","created":"2026-01-05T09:00:00Z","modified":"2026-01-05T09:00:00Z"},
"flow":{` + flow + `},"agents":{` + agents + `},"tools":{},"memory":{"enabled":false}}`
}

const (
	one = `"one":{"name":"One","role":"R","provider":"openai","model":"m","prompt":"Do it."}`
	two = `"two":{"name":"Two","role":"R","provider":"openai","model":"m","prompt":"Do it."}`
)

// Each mistake is reported with its code and position.
func TestReportsMistakesAtTheirPositions(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		files files
		want  string // "CODE at, …"
	}{
		"nothing to say": {text: document(`"start":"one"`, one)},
		"A1: two first agents that agree": {
			text: document(`"start":"one","entry_agent":"one"`, one),
		},
		"A1: two first agents that differ": {
			text: document(`"start":"one","entry_agent":"two","logic":{"two":[{"if":"always","then":"one"}]}`, one+
				","+two), want: "AIFLOW_TWO_ENTRIES two",
		},
		"A3: surprises": {
			text: document(`"start":"one","logic":{"one":[{"if":"output.a = 5","then":"one"},{"if":"output.ok == `+
				`'true'","then":"end"},{"if":"always","then":"end"}]}`, one),
			want: "EXPR008 output.a = 5, EXPR021 output.ok == 'true'",
		},
		"A3: a missing field": {
			text: document(`"start":"one","variables":{"language":"nl"},"logic":{"one":[{"if":"context.langauge `+
				`== 'nl'","then":"end"},{"if":"always","then":"end"}]}`, one),
			want: "AIFLOW_MISSING_FIELD context.langauge",
		},
		"A4: a bare name": {
			text: document(`"start":"one","logic":{"one":[{"if":"ok == `+
				`true","then":"end"},{"if":"always","then":"one"}]}`, one), want: "AIFLOW_BARE_NAME ok",
		},
		"A5: a condition that cannot be read": {
			text: document(`"start":"one","logic":{"one":[{"if":"output.a `+
				`==","then":"end"},{"if":"always","then":"end"}]}`, one), want: "EXPR006 ==",
		},
		"a number as a condition, and no agent to go to": {
			text: document(`"start":"one","logic":{"one":[{"if":5,"then":"thre"},{"if":"always","then":"end"}]}`, one),
			want: "AIFLOW_WRONG_TYPE 5, LOGIC_UNKNOWN_TO thre",
		},
		"a list as a condition": {
			text: document(`"start":"one","logic":{"one":[{"if":[],"then":"one"},{"if":"always","then":"end"}]}`, one),
			want: "AIFLOW_WRONG_TYPE [",
		},
		"a number as the only condition that leads to an agent": {
			text: document(`"start":"one","logic":{"one":[{"if":5.5,"then":"two"},{"if":"always","then":"end"}]}`,
				one+`,`+two),
			want: "AIFLOW_WRONG_TYPE 5.5",
		},
		"A6: an end, written": {
			text: document(`"start":"one","logic":{"one":[{"if":"always","then":"END"}]}`, one),
		},
		"A6: an end, not written": {
			text: document(`"start":"one","logic":{"one":[{"if":"always"}]}`, one), want: "LOGIC_MISSING_TO if",
		},
		"A6: an agent called end": {
			text: document(`"start":"one","logic":{"one":[{"if":"always","then":"end"}]}`, one+
				`,"end":{"name":"E","role":"R","provider":"openai","model":"m","prompt":"Do it."}`),
		},
		"A7: rules that may all not hold": {
			text: document(`"start":"one","logic":{"one":[{"if":"output.kind == 'a'","then":"end"}]}`, one),
			want: "AIFLOW_NOT_EXHAUSTIVE one",
		},
		"A7: two rules of which one holds": {
			text: document(`"start":"one","logic":{"one":[{"if":"output.ok == `+
				`true","then":"end"},{"if":"output.ok == false","then":"one"}]}`, one),
		},
		"A7: a condition and its negation": {
			text: document(`"start":"one","logic":{"one":[{"if":"output.ok","then":"end"},{"if":"NOT `+
				`output.ok","then":"one"}]}`, one),
		},
		"A7: a part of a condition, negated": {
			text: document(`"start":"one","logic":{"one":[{"if":"output.a and output.b","then":"end"},{"if":"not `+
				`output.a and output.b","then":"one"}]}`, one), want: "AIFLOW_NOT_EXHAUSTIVE one",
		},
		"A7: two parts": {
			text: document(`"start":"one","logic":{"one":[{"if":"output.a and output.b == `+
				`true","then":"end"},{"if":"output.a and output.b == false","then":"one"}]}`, one),
			want: "AIFLOW_NOT_EXHAUSTIVE one",
		},
		"A7: names differ in case": {
			text: document(`"start":"one","logic":{"one":[{"if":"output.A == true","then":"end"},{"if":"output.a `+
				`== false","then":"one"}]}`, one), want: "AIFLOW_NOT_EXHAUSTIVE one",
		},
		"A11: a file": {
			text:  strings.ReplaceAll(document(`"start":"one"`, one), "Do it.", "do.txt"),
			files: files{"do.txt": "Do {{thing}}."},
		},
		"A11: neither a file nor a text": {
			text: strings.ReplaceAll(document(`"start":"one"`, one), "Do it.", "do.txt"),
			want: "AIFLOW_PROMPT_MISSING do.txt",
		},
		"A12: metadata": {
			text: `{"metadata":{"name":"f","version":"1.0.0"},"flow":{"start":"one"},"agents":{` + one +
				`},"tools":{},"memory":{}}`, want: "AIFLOW_METADATA metadata",
		},
		"A12: a version that is none": {
			text: strings.Replace(document(`"start":"one"`, one), "1.0.0", "one", 1), want: "AIFLOW_METADATA one",
		},
		"A12: an empty version": {
			text: strings.Replace(document(`"start":"one"`, one), `"1.0.0"`, `""`, 1), want: "AIFLOW_METADATA ",
		},
		"A12: no version": {
			text: strings.Replace(document(`"start":"one"`, one), `"1.0.0"`, "null", 1), want: "AIFLOW_METADATA null",
		},
		"A12: a pre-release": {
			text: strings.Replace(document(`"start":"one"`, one), "1.0.0", "1.0.0-beta.1+build.7", 1),
		},
		"A11: a dangling key": {
			text: strings.Replace(strings.ReplaceAll(document(`"start":"one"`, one), "Do it.", "gone"),
				`"tools":{}`, `"tools":{},"prompts":{}`, 1),
			want: "AIFLOW_PROMPT_MISSING gone",
		},
		"A4: the input object user": {
			text: document(`"start":"one","logic":{"one":[{"if":"user.tier == 'gold' and context.user.age > 9",`+
				`"then":"end"},{"if":"always","then":"one"}]}`, one),
		},
		"a condition that is a number": {
			text: document(`"start":"one","logic":{"one":[{"if":5,"then":"one"}]}`, one),
			want: "AIFLOW_WRONG_TYPE 5, AIFLOW_NOT_EXHAUSTIVE one",
		},
		"an unknown tool": {
			text: strings.Replace(document(`"start":"one"`, strings.Replace(one, `"prompt"`,
				`"tools":["sum","smu","x"],"prompt"`, 1)), `"tools":{}`, `"tools":{"sum":{"type":"builtin"}}`, 1),
			want: "AGENT_TOOL_UNKNOWN smu, AGENT_TOOL_UNKNOWN x",
		},
		"the settings of a tool agent in exports": {
			text: strings.Replace(document(`"start":"one"`,
				`"one":{"name":"One","role":"Tool","model":{"provider":"system","name":"tool-executor",`+
					`"max_tokens":0},"output_format":"raw","prompt":"","tools":["x"]}`),
				`"tools":{}`, `"tools":{"x":{"type":"http","endpoint":"/api/search"}}`, 1),
			want: "AIFLOW_BAD_VALUE 0, AIFLOW_BAD_VALUE raw, TOOL_INVALID /api/search",
		},
		"A15: sections": {
			text: `{"metadata":{"name":"f","version":"1.0.0","created":"x","modified":"x"},"flow":{"start":"one"},"agents":{` + one + `}}`, want: "AIFLOW_NO_SECTION metadata",
		},
		"A16: a first agent that does not exist": {
			text: document(`"start":"on"`, one), want: "INVALID_ENTRY_AGENT on",
		},
		"A16: a rule to an unknown agent": {
			text: document(`"start":"one","logic":{"one":[{"if":"always","then":"thre"}]}`, one+","+two),
			want: "LOGIC_UNKNOWN_TO thre, UNREACHABLE_AGENT two",
		},
		"A14: what follows a rule that a person may refuse": {
			text: document(`"start":"one","logic":{"one":[{"if":"always","then":"end","decisionOwner":"human"},{"if":"always","then":"two","decisionOwner":"human"},{"if":"always","then":"end"},{"if":"always","then":"one"}]}`, one+","+two),
			want: "LOGIC_MULTIPLE_ALWAYS if",
		},
		"all at once": {
			text: document(`"start":"one","logic":{"one":[{"if":"output.a `+
				`==","then":"gone"}],"nobody":[{"if":"always","then":"one"}]}`, one+`,"bad":7`),
			want: "LOGIC_UNKNOWN_TO gone, LOGIC_UNKNOWN_FROM nobody, AGENT_INVALID bad",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := diagnose(c.text, c.files); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// diagnose returns every diagnostic of a file, with the text that it marks.
func diagnose(text string, others files) string {
	got := compile(text, others)
	list := slices.Clone(got.Diagnostics)
	if got.Program != nil && !list.Errors() {
		list = append(list, checked(got)...)
	}
	slices.SortStableFunc(list, func(a, b diag.Diagnostic) int { return cmp.Compare(a.Span.Start, b.Span.Start) })
	var out []string
	for _, d := range list {
		out = append(out, string(d.Code)+" "+text[d.Span.Start:d.Span.End])
	}
	return strings.Join(out, ", ")
}

// Mistakes in tools and model settings are reported with their positions.
func TestReportsMistakesInTools(t *testing.T) {
	for declared, want := range map[string]string{
		`{"type":"http","endpoint":"https://e.org/{id}","headers":{"X-A":"b"},"schema":{"q":"string"}}`: "",
		`{"type":"http","endpoint":"https://e.org","method":"patch","auth":"none"}`:                     "",
		`{"type":"builtin","operation":"Add"}`:                                                          "",
		`{"type":"http","endpoint":"https://"}`:                                                         "TOOL_INVALID https://",
		`{"type":"http"}`:                                                                               "TOOL_INVALID x",
		`{"type":"mcp","server":"files","tool":"search_files"}`:                                         "",
		`{"type":"mcp"}`:                     "TOOL_INVALID x",
		`{"type":"project"}`:                 "",
		`{"type":"http","endpoint":"e.org"}`: "TOOL_INVALID e.org",
		`{"type":"http","endpoint":"https://e.org","method":"FETCH IT"}`:                           "AIFLOW_BAD_VALUE FETCH IT",
		`{"type":"http","endpoint":"https://e.org","headers":["a"]}`:                               "AIFLOW_WRONG_TYPE [",
		`{"type":"http","endpoint":"https://e.org","headers":{"A":["a"]}}`:                         "AIFLOW_WRONG_TYPE [",
		`{"type":"http","endpoint":"https://e.org","headers":{"A":"secret://a"}}`:                  "TOOL_INVALID secret://a",
		`{"type":"http","endpoint":"https://e.org","headers":{"A":"${KEY}"}}`:                      "TOOL_INVALID ${KEY}",
		`{"type":"http","endpoint":"https://e.org","auth":["bearer"]}`:                             "AIFLOW_WRONG_TYPE [",
		`{"type":"http","endpoint":"https://e.org","auth":{"type":"api_key"}}`:                     "TOOL_INVALID {",
		`{"type":"http","endpoint":"https://e.org","auth":{"type":"bearer","token":"secret://t"}}`: "TOOL_INVALID {",
		`{"type":"http","endpoint":"https://e.org","auth":{"type":"bearer","token":"t1"}}`:         "AIFLOW_SECRET_IN_FILE t1",
		`{"type":"http","endpoint":"https://e.org","auth":{"type":"digest"}}`:                      "AIFLOW_BAD_VALUE digest",
		`{"type":"http","endpoint":"https://e.org","schema":"q"}`:                                  "AIFLOW_WRONG_TYPE q",
		`{"type":"http","endpoint":"https://e.org","schema":{"type":"objekt"}}`:                    "WF019 x",
		`{"type":"builtin","operation":"sqrt"}`:                                                    "TOOL_INVALID sqrt",
		`{"type":"python"}`:                                                                        "TOOL_INVALID python",
	} {
		text := strings.Replace(document(`"start":"one"`, strings.Replace(one, `"prompt"`, `"tools":["x"],"prompt"`,
			1)), `"tools":{}`, `"tools":{"x":`+declared+`}`, 1)
		if got := diagnose(text, nil); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", declared, got, want)
		}
	}
	for written, want := range map[string]string{
		`"config":{"temperature":0.5,"top_k":3,"stop":["a"],"max_tokens":9}`: "",
		`"config":{"temperature":"hot"}`:                                     "AIFLOW_WRONG_TYPE hot",
		`"config":{"max_tokens":0}`:                                          "AIFLOW_WRONG_TYPE 0",
		`"config":{"max_tokens":1000.0}`:                                     "",
		`"config":{"max_tokens":1e3},"retryPolicy":{"maxAttempts":2.0}`:      "",
		`"config":{"max_tokens":1000.5}`:                                     "AIFLOW_WRONG_TYPE 1000.5",
		`"config":{"max_tokens":99999999999999999999}`:                       "AIFLOW_WRONG_TYPE 99999999999999999999",
		`"memory":"notes/one.json"`:                                          "",
		`"tools":["serch"]`:                                                  "AGENT_TOOLS_WITHOUT_REGISTRY serch",
	} {
		text := document(`"start":"one"`, strings.Replace(one, `"prompt"`, written+`,"prompt"`, 1))
		if got := diagnose(text, nil); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", written, got, want)
		}
	}
	if got := diagnose(document(`"start":"one"`, strings.Replace(one, "openai", "System", 1)),
		nil); got != "AIFLOW_BAD_VALUE System" {
		t.Errorf("A15: a tool that is none: %s", got)
	}
}

// What editors write into exports, such as settings of agents that only call a tool, is a warning at most.
func TestExportsOfTheEditorLoad(t *testing.T) {
	agent := `"one":{"name":"One","role":"Tool","model":{"provider":"system","name":"tool-executor","max_tokens":0},` +
		`"output_format":"raw","prompt":"","tools":["x"]}`
	for _, declared := range []string{`{"type":"http","endpoint":"/api/search"}`, `{"type":"http"}`} {
		text := strings.Replace(document(`"start":"one"`, agent), `"tools":{}`, `"tools":{"x":`+declared+`}`, 1)
		if got := compile(text, nil); got.Diagnostics.Errors() || got.Program == nil {
			t.Errorf("%s: %v", declared, got.Diagnostics)
		}
	}
}

// Exports of the editor separate the server from the path of a tool.
func TestEndpointsAreRelativeToTheirBase(t *testing.T) {
	for _, c := range []struct{ base, endpoint, want string }{
		{"https://example.org", "/search", "https://example.org/search"},
		{"https://example.org/v1/", "search?q=1", "https://example.org/v1/search?q=1"},
		{"https://example.org/v1", "", "https://example.org/v1"},
		{"https://example.org", "https://other.example/x", "https://other.example/x"},
		{"", "https://other.example/x", "https://other.example/x"},
		{"example.org", "/search", ""},
	} {
		agent := strings.Replace(one, `"prompt"`, `"tools":["x"],"prompt"`, 1)
		text := strings.Replace(document(`"start":"one"`, agent), `"tools":{}`,
			`"tools":{"x":{"type":"http","base_url":"`+c.base+`","endpoint":"`+c.endpoint+`"}}`, 1)
		got := compile(text, nil)
		if got.Diagnostics.Errors() || len(got.Diagnostics) > 0 != (c.want == "") {
			t.Errorf("%+v: %v", c, got.Diagnostics)
		}
		address := ""
		for _, tool := range got.Program.ToolDefs {
			address = tool.URL
		}
		if address != c.want {
			t.Errorf("%+v: %q", c, address)
		}
	}
}

// The shapes of exports: a tool that only an unreachable agent lists is not missed, and neither are the prompt, the
// instructions and the memory of a new agent. A tool that a reachable agent lists is.
func TestExportsMayHaveUnfinishedAgents(t *testing.T) {
	const export = `{"metadata":{"name":"F","version":"0.1.0","description":"d","creator":"Ann"},
"flow":{"schema_version":"1.0","entry_agent":"a","agents":["a","b","t"],"variables":{"tone":"dry"},
"logic":[{"id":"l1","from":"t","to":"b","condition":"always","description":"Link"},
{"id":"l2","from":"a","to":"b","condition":"approved == true"}LINK],"error_handling":{"retry":1,"fallback_agent":"a"}},
"agents":[{"id":"a","name":"A","role":"Planner","model":{"provider":"openai","name":"m","temperature":0.7,
"max_tokens":100},"prompt":"a.txt","instructions":"guide.md","tools":["known"],"memory":"memory/a.json",
"output_format":"json","executionStatus":"error"},
{"id":"b","name":"New","role":"Worker","model":{"provider":"openai","name":"m","temperature":0.7,"max_tokens":100},
"prompt":"new.txt","instructions":"new.md","tools":[],"memory":"","output_format":"json","executionStatus":"idle"},
{"id":"t","name":"New Tool","role":"Tool","model":{"provider":"system","name":"tool-executor","temperature":0,
"max_tokens":0},"prompt":"","instructions":"","tools":["later"],"memory":"","output_format":"raw"}],
"tools":{"known":{"type":"http","endpoint":"https://example.org/x","method":"GET","input_schema":{}}},
"prompts":{"a.txt":"Plan it."}}`
	got := compile(strings.Replace(export, "LINK", "", 1), nil)
	if got.Diagnostics.Errors() || got.Program == nil {
		t.Errorf("an unreachable tool: %v", got.Diagnostics)
	}
	got = compile(strings.Replace(export, "LINK", `,{"id":"l3","from":"a","to":"t","condition":"always"}`, 1), nil)
	if !slices.ContainsFunc(got.Diagnostics, func(d diag.Diagnostic) bool {
		return d.Code == "AGENT_TOOL_UNKNOWN" && d.Severity == diag.Error
	}) {
		t.Errorf("a reachable tool: %v", got.Diagnostics)
	}
}

// Without the prompt that it names, an agent gets one made of its role, its name and its instructions.
func TestDanglingPromptKeysGiveAGeneratedPrompt(t *testing.T) {
	agent := strings.NewReplacer("Do it.", "gone", `"prompt"`, `"instructions":"Be brief.","prompt"`).Replace(one)
	for _, prompts := range []string{"", `,"prompts":{"other":"Not this."}`} {
		text := strings.Replace(document(`"start":"one"`, agent), `"tools":{}`, `"tools":{}`+prompts, 1)
		got := compile(text, nil)
		if got.Diagnostics.Errors() {
			t.Fatal(got.Diagnostics)
		}
		raw, err := json.Marshal(got.Program.Blocks[0].Steps[0])
		if err != nil {
			t.Fatal(err)
		}
		task := string(raw)
		if !strings.Contains(task, "You are One, R. Do your part of the work.") || strings.Contains(task, "gone") ||
			strings.Contains(task, "Not this.") {
			t.Errorf("the prompt: %s", task)
		}
		if a := got.Program.Agents[0]; a.Instructions != "Be brief." || a.Role != "R" {
			t.Errorf("role %q, instructions %q", a.Role, a.Instructions)
		}
	}
}

// Settings beside the model's name take precedence over the config.
func TestModelSettingsTakePrecedence(t *testing.T) {
	model := `{"provider":"openai","name":"m","temperature":0.1,"max_tokens":10},"config":{"temperature":0.9,"max_tokens":20,"top_p":0.5}`
	got := compile(document(`"start":"one"`, strings.Replace(one, `"m"`, model, 1)), nil).Program.Agents[0]
	if string(got.Options) != `{"temperature":0.1,"top_p":0.5}` || got.MaxTokens != 10 {
		t.Errorf("%s, %d", got.Options, got.MaxTokens)
	}
	model = `"m","config":{"max_tokens":1e3}`
	got = compile(document(`"start":"one"`, strings.Replace(one, `"m"`, model, 1)), nil).Program.Agents[0]
	if got.MaxTokens != 1000 {
		t.Errorf("1e3 is %d", got.MaxTokens)
	}
}

// A model of "google" is one of gemini. Instructions besides the prompt are kept.
func TestAgentsKeepTheirInstructions(t *testing.T) {
	got := compile(document(`"start":"one"`, strings.Replace(one, `"openai"`, `"Google","instructions":"Be brief."`,
		1)), nil).Program.Agents[0]
	if got.Provider != "gemini" || got.Instructions != "Be brief." || got.Role != "R" || got.Model != "m" {
		t.Errorf("%+v", got)
	}
}

// A tool step is retried only if the file requests it.
func TestToolsAreRetriedOnlyOnRequest(t *testing.T) {
	member := `"one":{"name":"One","role":"Tool","model":{"provider":"system","name":"tool-executor"},"tools":["x"]`
	for written, want := range map[string]int{
		document(`"start":"one"`, member+"}"):                                         0,
		document(`"start":"one"`, member+`,"retryPolicy":{"maxAttempts":3}}`):         3,
		document(`"start":"one","error_handling":{"retry":1}`, member+"}"):            2,
		document(`"start":"one"`, strings.Replace(member, "system", "openai", 1)+"}"): 2,
	} {
		got := 0
		if r := compile(written, nil).Program.Blocks[0].Steps[0].Retry; r != nil {
			got = r.MaxAttempts
		}
		if got != want {
			t.Errorf("%s: %d attempts, want %d", written, got, want)
		}
	}
}

// The instructions of an agent are a key of the prompts, a file, or the text itself.
func TestInstructionsAreResolved(t *testing.T) {
	for written, want := range map[string]string{"Be brief.": "Be brief.", "rules": "Be kind.", "do.txt": "Be quick."} {
		text := strings.Replace(document(`"start":"one"`, strings.Replace(one, `"prompt"`,
			`"instructions":"`+written+`","prompt"`, 1)), `"tools":{}`, `"tools":{},"prompts":{"rules":"Be kind."}`, 1)
		if got := compile(text, files{"do.txt": "Be quick."}).Program.Agents[0].Instructions; got != want {
			t.Errorf("%s: %q, want %q", written, got, want)
		}
	}
}

// A file name that leads nowhere is reported and is not an instruction.
func TestMissingFilesAreNoInstructions(t *testing.T) {
	for written, want := range map[string]string{
		"guide.md": "", "Rules.TXT": "", "brief": "brief", "a.md b": "a.md b",
	} {
		got := compile(document(`"start":"one"`, strings.Replace(one, `"prompt"`,
			`"instructions":"`+written+`","prompt"`, 1)), nil)
		warned := slices.ContainsFunc(got.Diagnostics, func(d diag.Diagnostic) bool {
			return d.Code == "AIFLOW_PROMPT_MISSING" && d.Severity == diag.Warning
		})
		if text := got.Program.Agents[0].Instructions; text != want || warned != (want == "") {
			t.Errorf("%s: %q, %v", written, text, got.Diagnostics)
		}
	}
}

// An empty retryOn means that no failure is retried.
func TestAnEmptyRetryOnNeverRetries(t *testing.T) {
	for policy, want := range map[string]bool{
		`{"maxAttempts":3}`: true, `{"maxAttempts":3,"retryOn":[]}`: false,
		`{"maxAttempts":3,"retryOn":["timeout"]}`: true, `{"maxAttempts":3,"retryOn":["hard"]}`: false,
	} {
		text := document(`"start":"one"`, strings.Replace(one, `"prompt"`, `"retryPolicy":`+policy+`,"prompt"`, 1))
		if got := compile(text, nil).Program.Blocks[0].Steps[0].Retry != nil; got != want {
			t.Errorf("%s: retries %t", policy, got)
		}
	}
}

// The schema for editors accepts files of all generations.
func TestSchemaAcceptsAllGenerations(t *testing.T) {
	s, err := schema.Compile(catalog.Formats().Find("aiflow").Schemas()[0].Schema)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"a": document(`"start":"one","logic":{"one":[{"if":"always","then":"end"}]}`, one),
		"c": `{"metadata":{"name":"f"},"flow":{"entry_agent":"one","logic":[{"id":"r","from":"one","to":"end","condition":"always"}]},"agents":[{"id":"one","model":{"provider":"openai","name":"m"}}]}`,
	} {
		if problems, err := s.Check(json.RawMessage(text)); err != nil || len(problems) > 0 {
			t.Errorf("%s: %v %v", name, problems, err)
		}
	}
	if problems, _ := s.Check(json.RawMessage(`{"flow":{"max_steps":0},"agents":[]}`)); len(problems) == 0 {
		t.Error("anything fits")
	}
}

// FuzzAIFLOW checks that every invalid file yields diagnostics instead of a panic.
func FuzzAIFLOW(f *testing.F) {
	f.Add(document(`"start":"one","logic":{"one":[{"if":"output.ok == true","then":"two","decisionOwner":"human"}]}`,
		one+","+two))
	f.Add(`{"flow":{"entry_agent":"a","logic":[{"from":"a","to":"a"}]},"agents":[{"id":"a","model":{"name":"m"},"tools":["t"]}],"tools":[{"id":"t","type":"http"}]}`)
	f.Add(`{"agents":{"a":{"prompt":{}}},"prompts":{"x":[]},"flow":{"variables":{"a":null},"error_handling":{"retry":-1}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		got := compile(text, nil)
		if got.Program == nil && !got.Diagnostics.Errors() {
			t.Fatal("parse returned neither a program nor a diagnostic")
		}
		if got.Program != nil {
			checked(got)
			if _, err := json.Marshal(got.Program); err != nil {
				t.Fatal(err)
			}
		}
	})
}
