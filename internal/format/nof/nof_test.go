package nof_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/format/nof"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/ir/irtest"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

// folder is a project of files in memory.
type folder map[string]string

func (f folder) Read(_ *source.File, ref string) (*source.File, error) {
	if text, ok := f[ref]; ok {
		return source.NewFile(ref, text), nil
	}
	return nil, &source.RefError{Ref: ref, Problem: source.RefMissing}
}

func (folder) Skill(name string) (*source.File, error) {
	return nil, &source.RefError{Ref: name, Problem: source.RefMissing}
}

func (folder) Compile(*source.File, source.Span) (*ir.Program, diag.List) { return nil, nil }

func read(t testing.TB, name string) string {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func compile(t testing.TB, text string, as nof.Format, files folder) (*ir.Program, diag.List) {
	t.Helper()
	f := source.NewFile("flow.nof.md", text)
	p, list := as.Compile(f, files)
	for _, d := range list {
		if d.Span.End > len(text) && d.Span.File == f.Path || d.Help == "" || !strings.HasSuffix(d.Message, ".") {
			t.Errorf("%s: not a whole diagnostic: %+v", d.Code, d)
		}
	}
	if p != nil && !list.Errors() {
		if err := irtest.Sound(p, stepkind.NewSet(kinds.Node{}, kinds.Collect{})); err != nil {
			t.Errorf("not sound: %v", err)
		}
	}
	return p, list
}

func codes(l diag.List) string {
	var out []string
	for _, d := range l {
		if !slices.Contains(out, string(d.Code)) {
			out = append(out, string(d.Code))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// change is a list of replacements in a file, old and new alternating.
type change []string

func (c change) in(t testing.TB, text string) string {
	t.Helper()
	for i := 0; i < len(c); i += 2 {
		if !strings.Contains(text, c[i]) {
			t.Fatalf("the file does not contain %q", c[i])
		}
		text = strings.Replace(text, c[i], c[i+1], 1)
	}
	return text
}

// rules adds routing rules to a file.
func rules(lines ...string) change {
	return change{abortRule, abortRule + "- " + strings.Join(lines, "\n- ") + "\n"}
}

const abortRule = "- **If** `errors` is non-empty **then** abort pipeline, return partial results\n"

// Each case is a decision, by its number.
func TestEachDecisionIsReported(t *testing.T) {
	for _, c := range []struct {
		name, file string
		change     change
		codes      string
		want       string
	}{
		{"a good file", "two", nil, "", ""},
		{"a good file of three", "three", nil, "", ""},
		{"a good crew", "crew", nil, "", ""},
		{"N2: drift of the diagram", "two", change{
			"CA --> VR[visual-report]", "CA --> WR[web-research]",
			"VR --> END", "WR --> END",
		}, "NOF030 NOF033", `does not contain agent "visual-report"`},
		{"N2: drift of the pipeline", "three", change{
			`depends_on=["batch-optimizer"]`,
			`depends_on=["cost-advisor"]`,
		}, "NOF033", `"visual-report" does not depend on it`},
		{"N2: drift of a crew", "crew", change{
			"        BO[batch-optimizer]\n    end\n",
			"    end\n    BO[batch-optimizer]\n",
		}, "NOF033 NOF034", "have different members"},
		{
			"N3: a node is known by the agent that it calls", "two",
			change{"def run_visual_report", "def draw"},
			"NOF019", "Rename it to run_visual_report",
		},
		{"N4: inert rules", "two", change{"routing: dynamic", "routing: sequential"}, "NOF023", "--honor-rules"},
		{
			"N7, N8: the worst case counts cycles", "three",
			rules("**Cycle-back** if `errors` is non-empty: re-run from `batch-optimizer` (max 3 cycles)"),
			"NOF027 NOF036", "$0.00225",
		},
		{"N8: a ceiling in the prose", "two", change{"$0.01", "$0.0001"}, "NOF028", "$0.0005"},
		{"N8: without a dollar sign", "two", change{`"$0.0005"`, "0.0005"}, "", ""},
		{
			"N9: backticks around names", "two",
			rules("**If** `spend` > 5 AND NOT (`period` == \"x\" or len(`errors`) > 2) **then** route to " +
				"`visual-report`"), "", "",
		},
		{
			"N9: backticks around everything", "two",
			rules("**if** `spend > 5 and period is not empty` **then** route to `visual-report`."), "", "",
		},
		{
			"N9: constants of Python", "two",
			rules("**If** `period != None AND spend == 0` **then** route to `visual-report`"), "", "",
		},
		{
			"N9: not a condition", "two", rules("**If** `spend >> 5` **then** route to `visual-report`"),
			"EXPR006", "",
		},
		{
			"N10: outputs of agents", "two",
			rules("**If** `cost-advisor.meta_insight` contains \"x\" **then** route to `visual-report`"), "", "",
		},
		{
			"N10: an agent that does not take part", "two",
			rules("**If** `cost-adviser.meta_insight` contains \"x\" **then** route to `visual-report`"), "NOF024",
			`Did you mean "cost-advisor"?`,
		},
		{
			"N11: names that are always there", "two",
			rules("**If** `cost_so_far > 1 OR cycle > 2 OR elapsed_ms > 10` **then** route to `visual-report`"), "",
			"",
		},
		{
			"N12: skipping several", "three",
			rules("**If** `spend == 0` **then** skip `batch-optimizer`, `visual-report` and `cost-advisor`, route " +
				"directly to `visual-report`"), "NOF036", "",
		},
		{
			"N13: a crew that is not one", "crew",
			change{
				`AgentRunner.run("batch-optimizer", {"period": state["period"]})`,
				`AgentRunner.run("batch-optimizer", {"spend": state["spend"]})`,
			},
			"NOF025",
			`reads the field "spend", which "cost-advisor" writes`,
		},
		{
			"N13: who stands between the members", "three",
			change{
				"state_schema:", "crews:\n  ends: [cost-advisor, visual-report]\nstate_schema:", "CA --> BO",
				"START --> BO", `pipeline.add("batch-optimizer", depends_on=["cost-advisor"])`,
				`pipeline.add("batch-optimizer")`, `run("visual-report", {"spend": state["spend"]})`,
				`run("visual-report", {})`,
			},
			"NOF025 NOF031 NOF034",
			`"visual-report" depends on "batch-optimizer", which runs between its members`,
		},
		{
			"N14: a field that both write", "crew",
			change{`return {"recommendations": result.output["recommendations"]}`, `return {"spend": 1.0}`},
			"NOF026",
			"listed last wins",
		},
		{"N19: a policy in prose", "two", change{
			"routing: dynamic", "routing: sequential", "Find out",
			"If cost-advisor fails, abort. Find out",
		}, "NOF023 NOF029", ""},
		{
			"N20: a field too many", "two",
			change{`return {"recommendations":`, `return {"savings":`},
			"NOF021",
			`returns the field "savings"`,
		},
		{
			"N20: an accumulator too few", "two",
			change{"    rules_applied: Annotated[List[str], operator.add]\n", ""},
			"NOF016", "rules_applied",
		},
		{"N22: a later minor version", "two", change{
			"nof/1.0", "nof/1.7", "routing: dynamic",
			"routing: dynamic\nnovelty: 1",
		}, "NOF010", "newer than"},
		{"N22: another major version", "two", change{"nof/1.0", "nof/2.0"}, "NOF001", "nof/2.0"},
		{"N22: no version", "two", change{"nof/1.0", "1.0"}, "NOF001", ""},
		{
			"N23: an unknown agent", "two",
			change{"  - visual-report", "  - visual-reprot"},
			"NOF012",
			`Did you mean "visual-report"?`,
		},
		{"N24: a subgraph stands for its members", "crew", nil, "", ""},
		{
			"N24: two nodes for one agent", "three",
			change{"CA --> BO", "CA -->|spend < 1| VR2[visual-report]\n    CA --> BO"},
			"NOF036", "conditional arrow",
		},
		{"N24: a label that describes data", "two", change{"CA --> VR", "CA --the spend--> VR"}, "", ""},
		{
			"N25: sections in any order, and others", "two",
			change{
				"## Philosophy", "## Notes\n\nMore.\n\n## Philosophy", "## Routing Rules",
				"## Changelog\n\n## Routing Rules",
			},
			"", "",
		},
		{"N26: two names", "two", change{"# Workflow: Cost check", "# Workflow: Check"}, "NOF008", ""},
		{
			"N27: a checkpoint elsewhere", "two",
			rules("**Checkpoint** after `cost-advisor`: persist state to `/etc/passwd`"), "NOF037", "",
		},
		{"N28: longer fences", "two", change{
			"```mermaid\n", "````mermaid\n", "VR --> END((End))\n```",
			"VR --> END((End))\n````", "## Topology\n",
			"## Topology\n\n````markdown\n```mermaid\nnot this one\n```\n````\n",
		}, "", ""},
		{
			"N31: recommended sections", "three",
			change{"## Routing Rules\n\n" + abortRule, ""},
			"NOF007",
			"Routing Rules",
		},
		{"N31: the whole state", "two", change{`{"spend": state["spend"]}`, `dict(state)`}, "NOF020", ""},
		{
			"N31: the whole state, taken apart", "two",
			change{`{"spend": state["spend"]}`, `{**state, "x": 1}`},
			"NOF020", "",
		},
		{"a rule that cannot be read", "two", rules("**If** `spend > 1` then do something"), "NOF022", ""},
		{"a remark", "two", rules("Look at this again."), "NOF022", ""},
		{"a diagram that cannot be read", "two", change{"CA --> VR", "CA ~> VR"}, "MMD002", ""},
		{
			"a module that is not there", "two",
			change{"import AgentRunner\n", "import AgentRunner\nimport requests\n"},
			"PY002", `"requests"`,
		},
		{
			"several names of one import", "two",
			change{"import AgentRunner\n", "import AgentRunner\nfrom datetime import a, b, c\n"},
			"PY005", `The module "datetime" has no "a", "b", "c".`,
		},
		{
			"one missing colon", "two",
			change{"def run_cost_advisor(state: CostState) -> dict:", "def run_cost_advisor(state: CostState) -> dict"},
			"PY001", "Expected a colon after the function.",
		},
		{
			"one missing bracket", "two",
			change{`{"period": state["period"]})`, `{"period": state["period"]}`},
			"PY001", "The bracket ( is never closed.",
		},
		{
			"another name for AgentRunner", "two",
			change{
				"import AgentRunner\n", "import AgentRunner as AR\n", "AgentRunner.run(", "AR.run(",
				"AgentRunner.run(", "AR.run(",
			},
			"", "",
		},
		{
			"a power", "two", rules("**If** `spend ** 2 > 1` **then** abort pipeline"),
			"EXPR002", "multiply, such as x * x",
		},
		{"the length of a number", "two", rules("**If** `len(spend) > 1` **then** abort pipeline"), "EXPR022", ""},
		{
			"a number that is never empty", "two", rules("**If** `spend is non-empty` **then** abort pipeline"),
			"EXPR020", "Compare it",
		},
		{"an undefined name", "two", change{`state["period"]}`, `state["period"], "x": limit}`}, "PY004", `"limit"`},
		{
			"a name of the result", "two",
			change{`result.output.get("analysis_data"`, `result.outpt.get("analysis_data"`},
			"PY005", `Did you mean "output"?`,
		},
		{
			"a field as an attribute", "two",
			change{`state["period"]}`, `state.period}`},
			"PY005",
			`Write state["period"]`,
		},
		{"a file", "two", change{`state["period"]}`, `open("x").read()}`}, "PY006", "Node code has no files."},
		{"eval", "two", change{`state["period"]}`, `eval("1")}`}, "PY006", ""},
		{"an attribute of a text field", "two", change{`state["period"]}`, `state["period"].uper()}`}, "PY005", "upper"},
		{
			"a value of an uncertain type", "two", change{`.get("spend", 0.0)`, `.get("spend", 0.0) and "high"`}, "", "",
		},
		{
			"a text for a float", "two",
			change{`result.output.get("analysis_data", {}).get("spend", 0.0)`, `"high"`},
			"PY008", "state schema",
		},
		{
			"wrong arguments", "two",
			change{`{"period": state["period"]})`, `{}, 1, 2)`},
			"PY007",
			"takes 2 positional arguments",
		},
		{"a node without a state", "two", change{
			"def run_visual_report(state: CostState)",
			"def run_visual_report(state, more)",
		}, "PY007", ""},
		{"an asynchronous node", "two", change{"def run_visual_report", "async def run_visual_report"}, "PY007", ""},
		{
			"a list as a condition", "two", rules("**If** `errors` **then** abort pipeline"), "EXPR019",
			"errors is non-empty",
		},
		{
			"a numbered rule", "two", change{abortRule, "1. **If** `errors` **then** abort pipeline\n"}, "EXPR019", "",
		},
		{
			"two numbered rules", "two",
			change{abortRule, "1) If `spend > 1` then abort pipeline\n2) **If** `errors` **then** abort pipeline\n"},
			"EXPR019", "",
		},
		{
			"a rule without bold", "two",
			change{abortRule, "If `errors` then abort pipeline\n"},
			"NOF022", "item of a list",
		},
		{"a rule in a table", "two", change{abortRule, "| **If** `errors` **then** abort pipeline |\n"}, "NOF022", ""},
		{"a quoted rule", "two", change{abortRule, "> - **If** `errors` **then** abort pipeline\n"}, "NOF022", ""},
		{"a rule as code", "two", change{abortRule, "```\n- If `errors` then abort pipeline\n```\n"}, "NOF022", ""},
		{
			"a commented rule", "two",
			change{abortRule, "<!--\n- **If** `errors` **then** abort pipeline\n-->\n"},
			"", "",
		},
		{
			"a rule after a comment", "two",
			change{abortRule, "<!-- a\nb -->\n- **If** `errors` **then** abort pipeline\n"},
			"EXPR019", "",
		},
		{"a remark", "two", change{abortRule, "If spend is high then tell the team to abort `x`.\n"}, "", ""},
		{
			"a typo in the output contract", "two",
			rules("**If** `cost-advisor.meta_insigth contains 'x'` **then** abort pipeline"), "NOF024", `"meta_insight"`,
		},
		{
			"a property of a text", "two", rules("**If** `any(e.x == 'x' for e in errors)` **then** abort pipeline"),
			"EXPR022", "Compare e itself",
		},
		{"a rule without a mark", "two", change{abortRule, "**If** `errors` **then** abort pipeline\n"}, "EXPR019", ""},
		{"a number and a text", "two", rules("**If** `spend < 'x'` **then** abort pipeline"), "EXPR022", ""},
		{
			"the output of an agent", "two", rules("**If** `cost-advisor.meta_insight > 3` **then** abort pipeline"),
			"EXPR022", "",
		},
		{
			"N9: more conditions", "two",
			rules("**If** `0 < spend * 2 < 10 and any(e contains 'x' for e in errors)` **then** abort pipeline"), "",
			"",
		},
		{
			"a minus without spaces", "two", rules("**If** `spend-1 > 0` **then** abort pipeline"), "NOF024",
			"Put spaces around the minus sign",
		},
		{
			"a route to the first agent", "two", rules("**If** `spend > 1` **then** route to `cost-advisor`"), "NOF039",
			"Use a Cycle-back rule",
		},
		{
			"a route back", "three", rules("**If** `recommendations is empty` **then** route to `batch-optimizer`"),
			"NOF039",
			`does not apply after "batch-optimizer", which writes "recommendations"`,
		},
		{
			"too many cycles", "two",
			rules("**Cycle-back** if `spend > 1`: re-run from `cost-advisor` (max 99999999999 cycles)"), "NOF022",
			"at most 10000",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, list := compile(t, c.change.in(t, read(t, c.file+".nof.md")), nof.Format{}, nil)
			if got := codes(list); got != c.codes {
				t.Errorf("got %q, want %q", got, c.codes)
				for _, d := range list {
					t.Logf("%s %s %s", d.Code, d.Message, d.Help)
				}
			}
			if !slices.ContainsFunc(list, func(d diag.Diagnostic) bool {
				return strings.Contains(d.Message+" "+d.Help,
					c.want)
			}) && c.want != "" {
				t.Errorf("no message contains %q: %v", c.want, list)
			}
		})
	}
}

// Each disagreement is reported with both positions.
func TestDriftHasBothPositions(t *testing.T) {
	text := change{"CA --> BO", "CA --> VR\n    CA --> BO", `depends_on=["batch-optimizer"]`, "workload={}"}.in(t,
		read(t, "three.nof.md"))
	_, list := compile(t, text, nof.Format{}, nil)
	drift := nof.Format{}.Drift(list)
	if len(drift) == 0 {
		t.Fatal("no drift")
	}
	for _, d := range drift {
		if len(d.Related) == 0 {
			t.Errorf("%s has only one position: %s", d.Code, d.Message)
		}
	}
}

// The worst case of the specification's example is exactly $0.01825.
func TestWorstCaseCostOfSpecificationExamples(t *testing.T) {
	p, _ := compile(t, read(t, "spec/kg-enhancement.nof.md"), nof.Format{}, nil)
	if p.Quote.Base != 6_250 || p.Quote.Worst != 18_250 || p.Quote.Stated.Max != 6_250 ||
		p.Quote.Ceilings[0].Max != 10_000 {
		t.Errorf("got %+v", p.Quote)
	}
	p, _ = compile(t, read(t, "spec/cost-audit.nof.md"), nof.Format{}, nil)
	if p.Quote.Base != 750 || p.Quote.Worst != 750 {
		t.Errorf("got %+v", p.Quote)
	}
	p, _ = compile(t, change{"$0.01", "$1,000.50"}.in(t, read(t, "two.nof.md")), nof.Format{}, nil)
	if p.Quote.Ceilings[0].Max != 1_000_500_000 {
		t.Errorf("got %+v", p.Quote.Ceilings)
	}
}

// More calls than fit into the quote have no bound, and the rest of the quote stays true.
func TestQuoteDoesNotOverflow(t *testing.T) {
	var agents, nodes, cycles strings.Builder
	for i := range 8 {
		key := fmt.Sprintf("visual-report-%d", i)
		fmt.Fprintf(&agents, "  - %s\n", key)
		fmt.Fprintf(&nodes, "\ndef run_visual_report_%d(state: CostState) -> dict:\n    for x in range(1000000000):\n"+
			"        AgentRunner.run(%q, {})\n    return {}\n", i, key)
	}
	for range 400 {
		cycles.WriteString("- **Cycle-back** if `spend > 1`: re-run from `visual-report-1` (max 10000 cycles)\n")
	}
	text := change{
		"  - visual-report\n", "  - visual-report\n" + agents.String(),
		"\ndef run_visual_report(", nodes.String() + "\ndef run_visual_report(",
		abortRule, abortRule + cycles.String(),
	}.in(t, read(t, "two.nof.md"))
	files := folder{}
	for i := range 8 {
		files[fmt.Sprintf("agents/visual-report-%d.md", i)] = "---\ntier: opus\n---\nDraw.\n"
	}
	p, _ := compile(t, text, nof.Format{}, files)
	q := p.Quote
	want := []string{}
	for i := 1; i < 8; i++ {
		want = append(want, fmt.Sprintf("visual-report-%d", i))
	}
	if !slices.Equal(q.Unbounded, want) {
		t.Errorf("unbounded are %v, want %v", q.Unbounded, want)
	}
	// The first one is not repeated: 10⁹ calls for 15,000 each. The others count once for each of 4,000,001 visits.
	if least := int64(1_000_000_000*15_000 + 7*4_000_001*15_000); q.Worst < least || q.Worst > least+1_000 {
		t.Errorf("the worst case is %d, want about %d", q.Worst, least)
	}
}

// The project's registry takes precedence over built-in agents.
func TestProjectRegistryTakesPrecedence(t *testing.T) {
	files := folder{
		"agents/cost-advisor.md": "---\ndescription: Counts\ntier: opus\nmodel: m\nmax_tokens: 100\n---\n" +
			"Count the money.\n",
		"agents/visual-report.md": "---\ncommand: [python3, report.py]\n---\n",
	}
	p, list := compile(t, read(t, "two.nof.md"), nof.Format{}, files)
	if list.Errors() || codes(list) != "" {
		t.Errorf("got %v", list) // without a tier the cost is unknown and not compared
	}
	a := p.Agent("cost-advisor")
	if a.Role != "Counts" || a.Instructions != "Count the money." || a.Model != "m" || a.MaxTokens != 100 {
		t.Errorf("got %+v", a)
	}
	if q := p.Quote; len(q.Unpriced) != 1 || q.Unpriced[0] != "visual-report" || q.Lines[0].Tier != "opus" {
		t.Errorf("got %+v", q)
	}
	if len(p.Files) != 2 {
		t.Errorf("got %+v", p.Files)
	}
}

// A field that a node may omit keeps its value, so the step reads it.
func TestStepReadsFieldsThatNodeMayOmit(t *testing.T) {
	const success = "    return {\n        \"spend\": result.output.get(\"analysis_data\", {}).get(\"spend\", " +
		"0.0),\n        \"meta_insights\": [result.output[\"meta_insight\"]],\n    }\n"
	for name, c := range map[string]struct {
		change change
		reads  bool
	}{
		"every return has it": {change{
			`return {"errors": [f"cost-advisor failed: {result.error}"]}`,
			`return {"spend": 0.0}`,
		}, false},
		"one has not": {nil, true},
		"it raises instead": {change{
			`return {"errors": [f"cost-advisor failed: {result.error}"]}`,
			`raise ValueError(result.error)`,
		}, false},
		"its end is reached": {change{"    if not result.success:\n" +
			"        return {\"errors\": [f\"cost-advisor failed: {result.error}\"]}\n" +
			success, "    if result.success:\n        return {\"spend\": 1.0}\n"}, true},
		"both ways return it": {change{"    if not result.success:\n" +
			"        return {\"errors\": [f\"cost-advisor failed: {result.error}\"]}\n" +
			success, "    if result.success:\n        return {\"spend\": 1.0}\n    " +
			"else:\n        return {\"spend\": 2.0}\n"}, false},
		"one is not a literal": {change{
			`return {"errors": [f"cost-advisor failed: {result.error}"]}`,
			`return result.output`,
		}, true},
		"a try that is guarded": {change{"    if not result.success:\n" +
			"        return {\"errors\": [f\"cost-advisor failed: {result.error}\"]}\n" +
			success, "    try:\n        return {\"spend\": 1.0}\n    except " +
			"ValueError:\n        pass\n"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p, list := compile(t, c.change.in(t, read(t, "two.nof.md")), nof.Format{}, nil)
			if list.Errors() {
				t.Fatal(list)
			}
			reads := slices.ContainsFunc(p.Step(ir.Body, "cost-advisor").Reads,
				func(r ir.Ref) bool { return r.Path == "state.spend" })
			if reads != c.reads {
				t.Errorf("reads the field: %v", reads)
			}
		})
	}
}

// The parts of an output that a node reads are known before the run, with their types and the fields of the state
// that they become.
func TestNodesDeclareWhatTheyReadFromOutputs(t *testing.T) {
	line := `"spend": result.output.get("analysis_data", {}).get("spend", 0.0)`
	for code, want := range map[string]string{
		line: `[{"path":"analysis_data.spend","type":"number","var":"state.spend"},{"path":"analysis_data","type":"object"},` +
			`{"path":"meta_insight","required":true}]`,
		`"spend": result.output["analysis_data"]["spend"]`: `[{"path":"analysis_data.spend","type":"number","required":true,` +
			`"var":"state.spend"},{"path":"analysis_data","required":true},{"path":"meta_insight","required":true}]`,
		`"spend": 1.0`: `[{"path":"meta_insight","required":true}]`,
		`"spend": sum(x["price"] * 2 for x in result.output.get("analysis_data", {})["items"])`: `[` +
			`{"path":"analysis_data.items","type":"array","required":true},` +
			`{"path":"analysis_data.items.*"},{"path":"analysis_data","type":"object"},` +
			`{"path":"analysis_data.items.*.price","type":"number","required":true},{"path":"meta_insight","required":true}]`,
		`"spend": len(result.output["recommendations"][0]["title"])`: `[` +
			`{"path":"recommendations.*.title","type":"array or string","required":true},` +
			`{"path":"recommendations","type":"array","required":true,"least":1},{"path":"recommendations.*"},` +
			`{"path":"meta_insight","required":true}]`,
		`"spend": 1.0 if not result.output["recommendations"] else len(result.output["recommendations"][0]["title"])`: `[` +
			`{"path":"recommendations","type":"array","required":true},` +
			`{"path":"recommendations.*.title","type":"array or string"},{"path":"recommendations.*"},` +
			`{"path":"meta_insight","required":true}]`,
	} {
		source := read(t, "two.nof.md")
		if !strings.Contains(source, line) {
			t.Fatal("the file has changed")
		}
		p, list := compile(t, strings.Replace(source, line, code, 1), nof.Format{}, nil)
		if list.Errors() {
			t.Fatal(list)
		}
		var agents map[string]struct {
			Output json.RawMessage `json:"output"`
		}
		raw := p.Step(ir.Body, "cost-advisor").Action.(ir.Task).Settings.Get("agents")
		if err := json.Unmarshal(raw, &agents); err != nil || string(agents["cost-advisor"].Output) != want {
			t.Errorf("%s: %s %v, want %s", code, agents["cost-advisor"].Output, err, want)
		}
	}
}

// What a later node assumes about the items of a list in the state belongs to the output that the items come from.
func TestNodesDeclareWhatLaterNodesReadFromTheState(t *testing.T) {
	source, err := os.ReadFile("../../../examples/nof/graph-repair.nof.md")
	if err != nil {
		t.Fatal(err)
	}
	p, list := compile(t, string(source), nof.Format{}, nil)
	if list.Errors() {
		t.Fatal(list)
	}
	for _, step := range []string{"kg-health-monitor", "relationship-suggester"} {
		settings := p.Step(ir.Body, step).Action.(ir.Task).Settings
		want := `{"path":"recommendations.*.confidence","type":"number"}`
		if got := string(settings.Get("agents")); !strings.Contains(got, want) || strings.Contains(got, `.title"`) {
			t.Errorf("%s: %s does not contain %s, or contains a part of another list", step, got, want)
		}
	}
}

// The items of a list that becomes a field of the state have the type that the schema declares.
func TestNodesDeclareTheItemsOfLists(t *testing.T) {
	source, err := os.ReadFile("../../../examples/nof/release-notes.nof.md")
	if err != nil {
		t.Fatal(err)
	}
	p, list := compile(t, string(source), nof.Format{}, nil)
	if list.Errors() {
		t.Fatal(list)
	}
	settings := p.Step(ir.Body, "playbook-advisor").Action.(ir.Task).Settings
	want := `{"path":"analysis_data.steps.*","type":"string"}`
	if got := string(settings.Get("agents")); !strings.Contains(got, want) {
		t.Errorf("%s does not contain %s", got, want)
	}
}

// Code that computes the agents it calls can call every agent of the list.
func TestComputedCallsMayReachEveryAgent(t *testing.T) {
	agents := func(c change, as nof.Format, id string) string {
		p, list := compile(t, c.in(t, read(t, "two.nof.md")), as, nil)
		if list.Errors() {
			t.Fatal(list)
		}
		var called map[string]json.RawMessage
		if err := json.Unmarshal(p.Step(ir.Body, id).Action.(ir.Task).Settings.Get("agents"), &called); err != nil {
			t.Fatal(err)
		}
		return strings.Join(slices.Sorted(maps.Keys(called)), " ")
	}
	one, both := "cost-advisor", "cost-advisor visual-report"
	after := `    if not result.success:` + "\n" + `        return {"errors": [f"cost-advisor`
	if got := agents(nil, nof.Format{}, "cost-advisor"); got != one {
		t.Errorf("got %s", got)
	}
	for _, more := range []string{
		"    other = AgentRunner.run(state[\"period\"])\n",
		"    run = AgentRunner.run\n    run(\"visual-report\")\n",
	} {
		if got := agents(change{after, more + after}, nof.Format{}, "cost-advisor"); got != both {
			t.Errorf("%s: %s", more, got)
		}
	}
	loop := change{
		`pipeline.add("visual-report", depends_on=["cost-advisor"])`,
		"for key in [\"visual-report\"]:\n    pipeline.add(key)", `def run_visual_report`,
		"def other(state):\n    return {}\n\ndef run_visual_report",
	}
	if got := agents(loop, nof.Format{Execution: true}, "execution"); got != both {
		t.Errorf("got %s", got)
	}
}

// Agents may have the names of implied steps.
func TestAgentsNamedLikeImpliedSteps(t *testing.T) {
	text := read(t, "two.nof.md")
	files := folder{}
	for old, key := range map[string]string{"cost-advisor": "begin", "visual-report": "result"} {
		text = strings.ReplaceAll(strings.ReplaceAll(text, old, key), strings.ReplaceAll("run_"+old, "-", "_"),
			"run_"+key)
		files["agents/"+key+".md"] = "---\ntier: haiku\n---\nWork.\n"
	}
	p, list := compile(t, text, nof.Format{}, files)
	var ids []string
	for _, s := range p.Blocks[ir.Body].Steps {
		ids = append(ids, s.ID)
	}
	if got := strings.Join(ids, " "); list.Errors() || got != "begin-step begin result result-step abort" {
		t.Errorf("%s, %v", got, list)
	}
}

// A node tracks everything that rules read besides the state.
func TestNodesTrackAllThatRulesRead(t *testing.T) {
	text := rules("**If** `cost_so_far > 1` **then** abort pipeline", "**If** `cycle > 3` **then** abort pipeline",
		"**If** `cost-advisor.meta_insight == \"stop\"` **then** abort pipeline").in(t, read(t, "two.nof.md"))
	p, list := compile(t, text, nof.Format{}, nil)
	var track []string
	for _, one := range p.Step(ir.Body, "cost-advisor").Task().Settings {
		if one.Name == "track" && json.Unmarshal(one.Value, &track) != nil {
			t.Errorf("track is %s", one.Value)
		}
	}
	if want := "pass.cost_so_far pass.cycle agents.cost-advisor"; list.Errors() || strings.Join(track, " ") != want {
		t.Errorf("the node tracks %v, not %s; %v", track, want, list)
	}
}

// A file with another extension compiles, with a warning.
func TestOtherExtensionIsAWarning(t *testing.T) {
	f := source.NewFile("flow.md", read(t, "two.nof.md"))
	if (nof.Format{}).Match(f) != format.Certain {
		t.Error("not recognized")
	}
	_, list := nof.Format{}.Compile(f, folder{})
	if codes(list) != "NOF009" {
		t.Errorf("got %v", list)
	}
}

// The orchestrator's instructions include the purpose of the workflow.
func TestOrchestratorGetsPhilosophy(t *testing.T) {
	text := change{"routing: dynamic", "routing: hierarchical"}.in(t, read(t, "two.nof.md"))
	p, _ := compile(t, text, nof.Format{}, nil)
	if a := p.Agent("cost-advisor"); !strings.Contains(a.Instructions, "Find out where the money goes") {
		t.Errorf("got %q", a.Instructions)
	}
	if a := p.Agent("visual-report"); strings.Contains(a.Instructions, "Find out") {
		t.Errorf("got %q", a.Instructions)
	}
}

// Regenerating the diagram removes its disagreements, and is idempotent.
func TestFixTopologyRemovesDrift(t *testing.T) {
	for _, name := range []string{"two", "three", "crew"} {
		text := read(t, name+".nof.md")
		for what, c := range map[string]change{
			"nothing":    {},
			"no arrows":  {"VR --> END((End))", "%% gone"},
			"a stranger": {"[visual-report]", "[web-research]"},
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				f := source.NewFile("flow.nof.md", c.in(t, text))
				fixed, list := nof.Format{}.FixTopology(f, folder{})
				if list.Errors() {
					t.Fatal(list)
				}
				_, list = compile(t, fixed, nof.Format{}, nil)
				if codes(list) != "" {
					t.Errorf("still: %v\n%s", list, fixed)
				}
				again, _ := nof.Format{}.FixTopology(source.NewFile("flow.nof.md", fixed), folder{})
				if again != fixed {
					t.Error("regenerating it again changes it")
				}
			})
		}
	}
}

// Regenerating the diagram keeps comments, styles and line endings.
func TestFixTopologyKeepsCommentsAndLineEndings(t *testing.T) {
	before := change{
		"graph TD\n    START((Start)) --> CA[cost-advisor]\n    CA --> VR[visual-report]\n    VR --> END((End))\n",
		"%%{init: {'theme': 'neutral'}}%%\nflowchart TD\n    %% The advisor first.\n" +
			"    START((Start)) --> CA[cost-advisor]\n" +
			"    %% This arrow is wrong.\n    VR[visual-report] --> CA\n    VR --> END((End)) %% Done.\n" +
			"    style CA fill:#f00\n" +
			"    linkStyle 0,1,2 stroke:red\n    linkStyle default stroke:blue\n    %% The end.\n",
	}.in(t, read(t, "two.nof.md"))
	want := change{
		"    %% This arrow is wrong.\n    VR[visual-report] --> CA\n    VR --> END((End)) %% Done.\n" +
			"    style CA fill:#f00\n" +
			"    linkStyle 0,1,2 stroke:red\n    linkStyle default stroke:blue\n    %% The end.\n",
		"    CA --> VR[visual-report]\n    %% Done.\n    VR --> END((End))\n\n    style CA fill:#f00\n" +
			"    linkStyle 0,2 stroke:red\n    linkStyle default stroke:blue\n    %% This arrow is wrong.\n" +
			"    %% The end.\n",
	}.in(t, before)
	for _, ending := range []string{"\n", "\r\n"} {
		fixed, list := nof.Format{}.FixTopology(source.NewFile("flow.nof.md", strings.ReplaceAll(before, "\n", ending)),
			folder{})
		if list.Errors() {
			t.Fatal(list)
		}
		if fixed != strings.ReplaceAll(want, "\n", ending) {
			t.Errorf("got:\n%q", fixed[strings.Index(fixed, "```mermaid"):strings.Index(fixed, "## State")])
		}
	}
}

// Code that only a python3 can run keeps a file from running without one, and from nothing else.
func TestLimitsOfTheInterpreterMatterToRuns(t *testing.T) {
	text := change{"import AgentRunner\n", "import AgentRunner\nimport requests\n", `state["period"]}`, `open("x").read()}`}.in(t,
		read(t, "two.nof.md"))
	for name, c := range map[string]struct {
		format nof.Format
		codes  string
		errors bool
	}{
		"validate": {nof.Format{}, "PY002 PY006", false},
		"run":      {nof.Format{Run: true}, "PY002 PY006", true},
		"python3":  {nof.Format{Run: true, Python: true}, "", false},
	} {
		p, list := compile(t, text, c.format, nil)
		if codes(list) != c.codes || list.Errors() != c.errors || p == nil {
			t.Errorf("%s: %v", name, list)
		}
	}
}

// The nodes that the step kind is tested with compile without a remark.
func TestRealisticNodesCompile(t *testing.T) {
	files, err := filepath.Glob("../../step/node/testdata/nodes/*.py")
	if err != nil || len(files) < 18 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		code := strings.NewReplacer("def run(", "def run_cost_advisor(", `"plain"`, `"cost-advisor"`).Replace(string(data))
		text := read(t, "two.nof.md")
		from := strings.Index(text, "from agents.shared.agent_sdk import AgentRunner")
		to := strings.Index(text, "def run_visual_report")
		text = text[:from] + code + "\n" + text[to:]
		text = change{
			"    spend: float\n",
			"    spend: float\n    text: str\n    records: List[Dict[str, Any]]\n    report: Any\n    score: float\n" +
				"    list: List[str]\n",
		}.in(t, text)
		if _, list := compile(t, text, nof.Format{Run: true}, nil); codes(list) != "" {
			t.Errorf("%s: %v", path, list)
		}
	}
}

// Limits are reported, never clamped.
// A limit outside of its range is an error, never another limit. These are all numbers that a file can set.
func TestLimitsAreReported(t *testing.T) {
	failed := func(list diag.List, code string) bool {
		return slices.ContainsFunc(list, func(d diag.Diagnostic) bool {
			return string(d.Code) == code && d.Severity == diag.Error
		})
	}
	for _, value := range []string{"99999999999", "99999999999999999999999", "0", "-1", "1.5", "many", "[1]", "true"} {
		files := folder{"agents/cost-advisor.md": "---\ntier: haiku\nmax_tokens: " + value + "\n---\nCount.\n"}
		if _, list := compile(t, read(t, "two.nof.md"), nof.Format{}, files); !failed(list, "NOF038") {
			t.Errorf("max_tokens: %s: %v", value, list)
		}
	}
	for _, value := range []string{"10001", "99999999999", "99999999999999999999999", "0", "-1", "1.5", "many"} {
		text := rules("**Cycle-back** if `spend > 1`: re-run from `cost-advisor` (max "+value+" cycles)").in(t,
			read(t, "two.nof.md"))
		if _, list := compile(t, text, nof.Format{}, nil); !failed(list, "NOF022") {
			t.Errorf("max %s cycles: %v", value, list)
		}
	}
	for _, value := range []string{"cheap", "-1", "[1]", "1e999"} {
		text := change{`cost_estimate: "$0.0005"`, "cost_estimate: " + value}.in(t, read(t, "two.nof.md"))
		_, list := compile(t, text, nof.Format{}, nil)
		if !slices.ContainsFunc(list,
			func(d diag.Diagnostic) bool { return d.Code != "NOF023" && d.Code != "NOF029" }) {
			t.Errorf("cost_estimate: %s: %v", value, list)
		}
	}
	// Limits in their range are kept as they are.
	files := folder{"agents/cost-advisor.md": "---\ntier: haiku\nmax_tokens: 1073741824\n---\nCount.\n"}
	p, list := compile(t, read(t, "two.nof.md"), nof.Format{}, files)
	if list.Errors() || !slices.ContainsFunc(p.Agents, func(a ir.Agent) bool { return a.MaxTokens == 1<<30 }) {
		t.Errorf("the largest max_tokens: %v", list)
	}
}

// Rules about fields of the wrong type are errors, not warnings.
func TestRulesOfTheWrongTypeAreErrors(t *testing.T) {
	for rule, code := range map[string]string{
		"health_score < 'x'": "EXPR022", "spend < 'x'": "EXPR022", "errors": "EXPR019", "len(spend) > 1": "EXPR022",
		"spend contains 'x'": "EXPR022", "unknown > 1": "NOF024",
	} {
		text := change{"    spend: float", "    spend: float\n    health_score: float"}.in(t, read(t, "two.nof.md"))
		text = rules("**If** `"+rule+"` **then** abort pipeline").in(t, text)
		_, list := compile(t, text, nof.Format{}, nil)
		if !slices.ContainsFunc(list, func(d diag.Diagnostic) bool {
			return string(d.Code) == code && d.Severity == diag.Error
		}) {
			t.Errorf("%s: %v", rule, list)
		}
	}
}

func TestCompilesWorkflowsOfTheSpecification(t *testing.T) {
	for name, want := range map[string]string{
		"cost-audit": "NOF023 NOF029", "kg-enhancement": "NOF019 NOF023 NOF025 NOF027 NOF028 NOF029 NOF034",
	} {
		if _, list := compile(t, read(t, "spec/"+name+".nof.md"), nof.Format{}, nil); list.Errors() ||
			codes(list) != want {
			t.Errorf("%s: %s", name, codes(list))
		}
		if p, list := compile(t, read(t, "spec/"+name+".nof.md"), nof.Format{Execution: true}, nil); list.Errors() ||
			len(p.Blocks[0].Steps) != 1 {
			t.Errorf("%s: %v", name, list)
		}
		if p, _ := compile(t, read(t, "spec/"+name+".nof.md"), nof.Format{HonorRules: true}, nil); len(
			p.Blocks[0].Steps[1].Next) == 0 {
			t.Error("no edges")
		}
	}
}

func FuzzCompile(f *testing.F) {
	for _, name := range []string{"two", "three", "crew", "spec/cost-audit"} {
		f.Add(read(f, name+".nof.md"))
	}
	f.Fuzz(func(t *testing.T, text string) {
		file := source.NewFile("flow.nof.md", text)
		p, list := nof.Format{}.Compile(file, folder{})
		for _, d := range list {
			if d.Span.Start < 0 || d.Span.End > len(text) || d.Span.Start > d.Span.End {
				t.Errorf("%s: span %+v", d.Code, d.Span)
			}
		}
		if p != nil && !list.Errors() {
			if err := irtest.Sound(p, stepkind.NewSet(kinds.Node{}, kinds.Collect{})); err != nil {
				t.Error(err)
			}
		}
		if p == nil && !list.Errors() {
			t.Error("no program, and no error")
		}
	})
}

// Agents whose nodes cannot be read are not reported as unused.
func TestAgentsOfUnreadableNodesAreNotUnused(t *testing.T) {
	text := change{`{"period": state["period"]})`, `{"period": state["period"]}`}.in(t, read(t, "two.nof.md"))
	p, _ := compile(t, text, nof.Format{}, nil)
	for _, a := range p.Agents {
		if !a.Implied {
			t.Errorf("agent %q counts as one that the file defines for its steps", a.ID)
		}
	}
	p, _ = compile(t, read(t, "two.nof.md"), nof.Format{}, nil)
	for _, a := range p.Agents {
		if a.Implied {
			t.Errorf("agent %q of a valid file is implied", a.ID)
		}
	}
}
