package agentfile_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/check"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/schema"
	"github.com/espalier-run/espalier/internal/source"
)

// files is a project in memory. Paths are relative to the workflow's folder or to the root.
type files map[string]string

func (f files) Read(from *source.File, ref string) (*source.File, error) {
	if path.IsAbs(ref) {
		return nil, &source.RefError{Ref: ref, Problem: source.RefAbsolute}
	}
	for _, name := range []string{path.Join(path.Dir(from.Path), ref), path.Clean(ref)} {
		if strings.HasPrefix(name, "..") {
			return nil, &source.RefError{Ref: ref, Problem: source.RefEscapes}
		}
		if text, ok := f[name]; ok {
			return source.NewFile(name, text), nil
		}
	}
	return nil, &source.RefError{Ref: ref, Problem: source.RefMissing}
}

func (f files) Skill(name string) (*source.File, error) {
	return nil, &source.RefError{Ref: name, Problem: source.RefMissing}
}

const here = "workflows/w/"

func project(more files) files {
	all := files{
		here + "agents/a.md": "# Agent: A\n## Persona\np\n## Responsibilities\n- r\n## Rules\n- r\n## Output " +
			"Format\no\n",
		here + "skills/s.md":  "# Skill: S\n## Purpose\np\n## Instructions\n1. i\n## Examples\ne\n",
		here + "scripts/x.sh": "echo hello\n",
		here + "data/x.txt":   "data\n",
		"shared/project.md":   "The project.\n",
		"shared/AGENTS.md":    "All agents.\n",
		"AGENTS.md":           "For editors.\n",
	}
	maps.Copy(all, more)
	return all
}

func compile(text string, more files) format.Result {
	return catalog.Formats().Compile(source.NewFile(here+"workflow.yaml", text), project(more))
}

const head = "specVersion: \"1.0\"\nname: w\nversion: 1.0.0\ndescription: d\ntrigger: {type: command}\n"

// agentStep returns a step with additional keys.
func agentStep(id, keys string) string {
	out := "  - id: " + id + "\n    name: N\n    goal: G\n"
	for _, pair := range []string{"agent: agents/a.md", "input: $AGENT_INPUT", "produces: outputs/" + id + ".md"} {
		key, _, _ := strings.Cut(pair, ":")
		if !strings.Contains(keys, key+":") {
			out += "    " + pair + "\n"
		}
	}
	for line := range strings.Lines(keys) {
		out += "    " + strings.TrimRight(line, "\n") + "\n"
	}
	return out
}

// The agent of a step with a repeated id is not reported as unused.
func TestStepsWithRepeatedIDsUseTheirAgents(t *testing.T) {
	got := compile(head+"steps:\n"+agentStep("one", "")+agentStep("one", "agent: agents/b.md"),
		files{here + "agents/b.md": project(nil)[here+"agents/a.md"]})
	if len(got.Diagnostics) != 1 || got.Diagnostics[0].Code != "AFILE007" {
		t.Errorf("got %v", got.Diagnostics)
	}
	if list := check.Program(got.Program, catalog.Kinds()); len(list) > 0 {
		t.Errorf("the check adds %v", list)
	}
}

const shellStep = "  - id: sh\n    name: N\n    goal: G\n    action: shell\n    script: {bash: scripts/x.sh}\n"

// Each mistake is reported with its code and position.
func TestReportsMistakesAtTheirPositions(t *testing.T) {
	steps := func(all ...string) string { return head + "steps:\n" + strings.Join(all, "") }
	one := agentStep("one", "")
	for name, c := range map[string]struct {
		text  string
		files files
		want  string // "CODE at, …"
	}{
		"nothing to say": {text: steps(one)},
		"G1: version is the workflow's": {text: strings.Replace(steps(one), "version: 1.0.0", "version: 7.8.9",
			1)},
		"G2: a number": {
			text: strings.Replace(steps(one), `"1.0"`, "1.0", 1),
			want: "AFILE005 1.0",
		},
		"G2: none": {
			text: strings.Replace(steps(one), "specVersion: \"1.0\"\n", "", 1),
			want: "AFILE005 name",
		},
		"another version": {
			text: strings.Replace(steps(one), `"1.0"`, `"2.0"`, 1),
			want: "AFILE004 2.0",
		},
		"G3: a list": {
			text: steps(one, agentStep("two", "input: [$AGENT_INPUT, outputs/one.md, data/x.txt]")),
		},
		"G3: a block": {
			text: steps(one, agentStep("two", "input: |\n  $AGENT_INPUT\n  outputs/one.md\n")),
		},
		"G3: a line of a block": {
			text: steps(one, agentStep("two", "input: |\n  $AGENT_INPUT\n  outputs/three.md\n")),
			want: "AFILE011 outputs/three.md",
		},
		"a script that is no map": {
			text: steps(one, strings.Replace(shellStep, "{bash: scripts/x.sh}", "scripts/x.sh", 1)),
			want: "AFILE002 scripts/x.sh",
		},
		"G4: out of the project": {
			text: steps(agentStep("one", "produces: ../../../x.md")),
			want: "AFILE009 ../../../x.md",
		},
		"G4: absolute": {
			text: steps(agentStep("one", "produces: /tmp/x.md")),
			want: "AFILE009 /tmp/x.md",
		},
		"G4: an input out of the project": {
			text: steps(agentStep("one", "input: ../../../secret")),
			want: "AFILE009 ../../../secret",
		},
		"G6: a variable that is never set": {
			text: steps(agentStep("one", "input: $TOKEN")),
			want: "AFILE010 $TOKEN",
		},
		"G6: one that the project lists": {
			text:  steps(agentStep("one", "input: [$AGENT_INPUT, $LANGUAGE]")),
			files: files{"agentfile.yaml": "name: p\nenv: [LANGUAGE]\n"},
		},
		"G6: the trigger's own, or the usual": {
			text: strings.Replace(steps(agentStep("one", "input: [$TASK, $AGENT_INPUT]")), "type: command",
				"type: command, input_var: TASK", 1),
		},
		"G10: a shell step produces": {
			text: steps(one, shellStep+"    produces: outputs/x.md\n"),
			want: "AFILE014 produces",
		},
		"G11: a folder": {text: steps(agentStep("one", "produces: outputs/all/"),
			agentStep("two", "input: outputs/all/"), agentStep("three", "input: outputs/all/x.md"))},
		"G11: a folder without its slash": {
			text: steps(agentStep("one", "produces: ./outputs")),
			want: "AFILE004 ./outputs",
		},
		"G12: placeholders": {
			text: steps(agentStep("one", "produces: artifacts/{workflow_name}/{run_id}/{step_id}.md")),
		},
		"G12: an unknown one": {
			text: steps(agentStep("one", "produces: outputs/{date}.md")),
			want: "AFILE013 outputs/{date}.md",
		},
		"G13: no skills, no scripts": {text: steps(one), files: files{here + "skills/s.md": ""}},
		"G15: both": {
			text: steps(agentStep("one", "action: shell\nscript: {bash: scripts/x.sh}")), want: "AFILE006 agent",
		},
		"G15: neither": {
			text: steps("  - id: one\n    name: N\n    goal: G\n    ask: what\n"),
			want: "AFILE006 one, AFILE003 ask",
		},
		"G15: a script without its action": {
			text: steps("  - id: one\n    name: N\n    goal: G\n    script: {bash: scripts/x.sh}\n"),
			want: "AFILE006 script",
		},
		"G16: schedule": {text: strings.Replace(steps(one), "{type: command}",
			"{type: schedule, schedule: \"0 9 * * *\"}", 1), want: "AFILE014 schedule, AFILE010 0 9 * * *"},
		"G16: a schedule that does not say": {
			text: strings.Replace(steps(one), "command", "schedule", 1),
			want: "AFILE001 schedule",
		},
		"G16: commands": {text: strings.Replace(steps(one), "type: command",
			"type: command, commands: [/x]", 1), want: "AFILE014 commands"},
		"G19: any name for an artifact": {text: steps(agentStep("one", "produces: outputs/01-context.md"))},
		"G23: preferred":                {text: head + "execution: {preferred: cli}\nsteps:\n" + one},
		"an agent that is not there": {
			text: steps(agentStep("one", "agent: agents/b.md")),
			want: "AFILE008 agents/b.md",
		},
		"a skill that is not there": {
			text: steps(agentStep("one", "skill: skills/t.md")),
			want: "AFILE008 skills/t.md",
		},
		"an input that is not there": {
			text: steps(agentStep("one", "input: data/y.txt")),
			want: "AFILE008 data/y.txt",
		},
		"an input that a script may make": {text: steps(shellStep, agentStep("one", "input: outputs/y.txt"))},
		"an input that comes later": {text: steps(agentStep("one", "input: outputs/two.md"),
			agentStep("two", "")), want: "AFILE011 outputs/two.md"},
		"two of one id": {text: steps(one, one), want: "AFILE007 one"},
		"two of one id, with mistakes": {
			text: steps(one, agentStep("one", "agent: agents/b.md\nskill: skills/t.md\ninput: [$TOKEN, data/y.txt]\n"+
				"produces: ../../../x.md"), strings.Replace(shellStep, "id: sh", "id: one", 1)),
			want: "AFILE007 one, AFILE008 agents/b.md, AFILE008 skills/t.md, AFILE010 $TOKEN, AFILE008 data/y.txt, " +
				"AFILE009 ../../../x.md, AFILE007 one",
		},
		"G3: a block of one item": {text: steps(agentStep("one", "input: |\n  - data/x.txt\n"))},
		"a later step reads what a step with a repeated id produces": {
			text: steps(one, agentStep("one", "produces: outputs/two.md"), agentStep("three", "input: outputs/two.md")),
			want: "AFILE007 one",
		},
		"two of one file": {
			text: steps(one, agentStep("two", "produces: outputs/one.md")),
			want: "AFILE016 outputs/one.md",
		},
		"a name that is not the folder's": {
			text: strings.Replace(steps(one), "name: w", "name: v", 1),
			want: "AFILE015 v",
		},
		"a gate that is none": {
			text: steps(agentStep("one", "gate: human-aproval")),
			want: "AFILE004 human-aproval",
		},
		"an empty file of keys": {
			text: "specVersion: \"1.0\"\nsteps: []\n",
			want: "AFILE001 specVersion, AFILE001 specVersion, AFILE001 specVersion, AFILE001 specVersion, " +
				"AFILE001 steps",
		},
		"all at once": {
			text: steps(agentStep("one", "agent: agents/b.md\nskill: skills/t.md\ninput: $NO\nproduces: /x")),
			want: "AFILE008 agents/b.md, AFILE008 skills/t.md, AFILE010 $NO, AFILE009 /x",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := compile(c.text, c.files)
			list := slices.Clone(got.Diagnostics)
			if got.Program != nil && !list.Errors() {
				list = append(list, check.Program(got.Program, catalog.Kinds())...)
			}
			slices.SortStableFunc(list, func(a, b diag.Diagnostic) int {
				return cmp.Compare(a.Span.Start, b.Span.Start)
			})
			var found []string
			for _, d := range list {
				found = append(found, string(d.Code)+" "+c.text[d.Span.Start:d.Span.End])
			}
			if joined := strings.Join(found, ", "); joined != c.want {
				t.Errorf("got  %s\nwant %s", joined, c.want)
				for _, d := range list {
					t.Log(d.Message)
				}
			}
		})
	}
}

// An empty workflow.yaml is found and reported. Its location is known even if only the file
// name is given.
func TestEmptyWorkflowIsFoundByLocation(t *testing.T) {
	for _, text := range []string{"", "# later\n", "- a\n"} {
		if got := compile(text, nil); got.Format != "agentfile" || !got.Diagnostics.Errors() {
			t.Errorf("%q: %q %v", text, got.Format, got.Diagnostics)
		}
		elsewhere := source.NewFile("charts/w/workflow.yaml", text)
		if m := catalog.Formats().Find("agentfile").Match(elsewhere); m != format.No {
			t.Errorf("%q elsewhere: %v", text, m)
		}
	}
	f := source.NewFile("workflow.yaml", strings.Replace(head, "name: w", "name: v", 1)+"steps:\n"+agentStep("one", ""))
	f.Abs = filepath.FromSlash("/p/workflows/w/workflow.yaml")
	list := catalog.Formats().Compile(f, files{"agents/a.md": project(nil)[here+"agents/a.md"]}).Diagnostics
	if len(list) != 1 || list[0].Code != "AFILE015" {
		t.Error(list)
	}
}

// A variable may be allowed for a single run.
func TestVariableAllowedForOneRun(t *testing.T) {
	f := source.NewFile(here+"workflow.yaml", head+"steps:\n"+agentStep("one", "input: [$AGENT_INPUT, $LANGUAGE]"))
	got := catalog.FormatsFor(catalog.ReadOptions{Env: []string{"LANGUAGE", "UNUSED"}}).Compile(f, project(nil))
	if got.Diagnostics.Errors() {
		t.Fatal(got.Diagnostics)
	}
	var from []string
	for _, v := range got.Program.Vars {
		if name, ok := strings.CutPrefix(v.From, "env:"); ok {
			from = append(from, name)
		}
	}
	if !slices.Equal(from, []string{"LANGUAGE"}) {
		t.Errorf("read from the environment: %v", from)
	}
}

func TestReportsMissingSections(t *testing.T) {
	got := compile(head+"steps:\n"+agentStep("one", "skill: skills/s.md"), files{
		here + "agents/a.md": "# Agent: A\n## persona\n## Rules\n", here + "skills/s.md": "# Skill: S\n",
	})
	want := []string{
		`The agent workflows/w/agents/a.md has no sections "## Responsibilities", "## Output Format".`,
		`The skill workflows/w/skills/s.md has no sections "## Purpose", "## Instructions", "## Examples".`,
	}
	var messages []string
	for _, d := range got.Diagnostics {
		if d.Severity != diag.Warning {
			t.Errorf("%v", d)
		}
		messages = append(messages, d.Message)
	}
	slices.Sort(messages)
	if !slices.Equal(messages, want) {
		t.Errorf("got %q", messages)
	}
}

// Shared files precede each agent's instructions. All are optional, and AGENTS.md at the
// root is not used.
func TestSharedFilesPrecedeInstructions(t *testing.T) {
	text := head + "steps:\n" + agentStep("one", "")
	system := compile(text, nil).Program.Agents[0].Instructions
	if !strings.HasPrefix(system, "The project.\n\nAll agents.\n\n# Agent: A\n") ||
		strings.Contains(system, "editors") {
		t.Error(system)
	}
	r := catalog.Formats().Compile(source.NewFile(here+"workflow.yaml", text),
		files{here + "agents/a.md": "# Agent: A\n## Persona\n## Responsibilities\n## Rules\n## Output Format\n"})
	if len(r.Diagnostics) > 0 || !strings.HasPrefix(r.Program.Agents[0].Instructions, "# Agent: A") {
		t.Errorf("%v", r.Diagnostics)
	}
}

// Two files are two agents, even with the same name.
func TestFilesWithSameNameAreDifferentAgents(t *testing.T) {
	p := compile(head+"steps:\n"+agentStep("one", "")+agentStep("two", "agent: a.md")+agentStep("three",
		"agent: ./agents/a.md"), files{
		here + "a.md": "# Agent: Another\n## Persona\n## Responsibilities\n## Rules\n## Output Format\n",
	}).Program
	var who []string
	for _, s := range p.Blocks[ir.Body].Steps {
		var id string
		if err := json.Unmarshal(s.Task().Settings.Get("agent"), &id); err != nil {
			t.Fatal(err)
		}
		_, title, _ := strings.Cut(p.Agent(id).Instructions, "# Agent: ")
		title, _, _ = strings.Cut(title, "\n")
		who = append(who, title)
	}
	if got := strings.Join(who, " "); got != "A Another A" {
		t.Error(got)
	}
}

// The gate is a separate step after the one that produces the artifact.
func TestGateFollowsItsStep(t *testing.T) {
	p := compile(head+"steps:\n"+agentStep("one", "gate: human-approval")+agentStep("two", "input: outputs/one.md"),
		nil).Program
	var ids []string
	for _, s := range p.Blocks[ir.Body].Steps {
		ids = append(ids, s.ID)
		for _, e := range s.Next {
			ids = append(ids, "→"+e.To.Step)
		}
	}
	if got := strings.Join(ids, " "); got != "one →one:gate one:gate →two two" {
		t.Error(got)
	}
}

// The output is assembled at the end if it can change or is copied.
func TestOutputIsCollected(t *testing.T) {
	for text, want := range map[string]bool{
		head + "steps:\n" + agentStep("one", ""):                                               false,
		head + "steps:\n" + agentStep("one", "gate: human-approval"):                           true,
		head + "output: {directory: results/{workflow_name}}\nsteps:\n" + agentStep("one", ""): true,
		head + "steps:\n" + agentStep("one", "gate: human-approval") + agentStep("two", ""):    false,
	} {
		text = strings.Replace(text, "results/{workflow_name}", `"results/{workflow_name}"`, 1)
		r := compile(text, nil)
		if r.Diagnostics.Errors() {
			t.Fatal(r.Diagnostics)
		}
		steps := r.Program.Blocks[ir.Body].Steps
		if got := steps[len(steps)-1].ID == "output:collect"; got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestCompilesTriggersAndMetadata(t *testing.T) {
	text := head + "execution: {preferred: cli}\nsteps:\n" + agentStep("one", "")
	for trigger, want := range map[string]ir.TriggerKind{
		"{type: command}": ir.OnCommand, "{type: natural-language}": ir.OnMention,
		"{type: file, paths: [a/*.csv]}": ir.OnFile, `{type: schedule, schedule: "0 9 * * *"}`: ir.OnSchedule,
	} {
		p := compile(strings.Replace(text, "{type: command}", trigger, 1), nil).Program
		if len(p.Triggers) != 1 || p.Triggers[0].Kind != want {
			t.Errorf("%s: %+v", trigger, p.Triggers)
		}
		if len(p.Meta) != 2 || string(p.Meta[1].Value) != `"cli"` {
			t.Errorf("G23: %+v", p.Meta)
		}
	}
}

// The schema for editors accepts what the parser accepts.
func TestSchemaAcceptsValidFiles(t *testing.T) {
	s, err := schema.Compile(catalog.Formats().Find("agentfile").Schemas()[0].Schema)
	if err != nil {
		t.Fatal(err)
	}
	good := `{"specVersion":"1.0","name":"w","version":"1.0.0","description":"d","trigger":{"type":"command"},"steps":[{"id":"a","name":"A","goal":"g","agent":"agents/a.md","input":"$AGENT_INPUT","produces":"outputs/a.md"}]}`
	if problems, err := s.Check(json.RawMessage(good)); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	if problems, _ := s.Check(json.RawMessage(strings.Replace(good, "command", "magic", 1))); len(problems) == 0 {
		t.Error("anything fits")
	}
}

// FuzzAgentfile checks that every invalid file yields diagnostics instead of a panic.
func FuzzAgentfile(f *testing.F) {
	f.Add(head + "steps:\n" + agentStep("one", "gate: human-approval") + shellStep)
	f.Add("specVersion: 1.0\nsteps:\n  - {id: a, input: [$A, {}], script: []}\n")
	f.Add("steps: x\ntrigger: []\noutput: {directory: ../x}\n")
	f.Fuzz(func(t *testing.T, text string) {
		got := compile(text, nil)
		if got.Program == nil && !got.Diagnostics.Errors() {
			t.Fatal("nothing came of it, and nothing is said")
		}
		if got.Program != nil {
			check.Program(got.Program, catalog.Kinds())
			if _, err := json.Marshal(got.Program); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// The forms of published workflows load. Only two kinds of files are refused: those whose steps have neither an
// agent nor a script, which the specification ("Agent Step Fields", "Shell Step Fields") does not allow, and those
// with kinds of steps that it does not have.
func TestPublishedFormsLoad(t *testing.T) {
	const rest = "name: w\nversion: 1.0.0\ndescription: d\n"
	one := agentStep("one", "")
	for name, c := range map[string]struct {
		text    string
		refused bool
	}{
		"no specVersion": {rest + "trigger: {type: natural-language, input_var: AGENT_INPUT}\nsteps:\n" +
			one, false},
		"specVersion 1.0": {"specVersion: 1.0\n" + rest + "trigger: {type: command}\nsteps:\n" + one, false},
		"execution and output": {head + "execution: {preferred: ide}\noutput: {directory: outputs}\nsteps:\n" +
			one, false},
		"another input": {"specVersion: \"1.0\"\n" +
			rest + "trigger: {type: command, input_var: REQUEST}\nsteps:\n" +
			agentStep("one", "input: $REQUEST"), false},
		"commands by name": {"specVersion: \"1.0\"\n" + rest +
			"trigger:\n  type: command\n  commands: {create: \"/agentfile:create <name>\"}\nsteps:\n" + one, false},
		"a list of inputs": {head + "steps:\n" +
			one + agentStep("two", "input: [outputs/one.md, $AGENT_INPUT]"), false},
		"staged products": {head + "output: {directory: \"workflows/{workflow_name}\"}\nsteps:\n" +
			agentStep("one", "produces: \"artifacts/{workflow_name}/{run_id}/manifest.json\"") +
			agentStep("two", "input: \"artifacts/{workflow_name}/{run_id}/manifest.json\"\n"+
				"produces: \"workflows/{workflow_name}/\""), false},
		"a block of inputs": {head + "steps:\n" + one +
			agentStep("two", "input: |\n      outputs/one.md\n      $AGENT_INPUT"), false},
		"folders": {head + "output: {directory: outputs/}\nsteps:\n" +
			agentStep("one", "produces: outputs/04-agents/") +
			agentStep("two", "input: [outputs/04-agents/]\nproduces: artifacts/w/files/") +
			agentStep("three", "input: artifacts/w/"), false},
		"scripts of two shells, of which one is there": {head + "steps:\n" +
			one + "  - id: end\n    name: N\n    goal: G\n    action: shell\n" +
			"    script: {bash: scripts/x.sh, pwsh: scripts/x.ps1}\n", false},
		"a script at the end": {head + "steps:\n" +
			one + "  - {id: end, name: N, goal: G, action: shell, script: {bash: scripts/x.sh}}\n", false},
		"a step without agent": {head + "steps:\n  - {id: init, name: N, goal: G, produces: outputs/x.md}\n" +
			one, false},
		"neither kind of step": {head + "steps:\n  - {id: init, name: N, goal: G}\n" + one, true},
		"other kinds of steps": {
			head + "variables: {a: b}\nsteps:\n  - {id: ask, name: N, ask: \"Who?\", action: echo}\n" + one, true,
		},
	} {
		got := compile(c.text, nil).Diagnostics
		if got.Errors() != c.refused {
			t.Errorf("%s: %v", name, got)
		}
		if c.refused && !slices.ContainsFunc(got, func(d diag.Diagnostic) bool {
			return strings.Contains(d.Help, `specification, "Agent Step Fields"`)
		}) {
			t.Errorf("%s: no diagnostic names the clause: %v", name, got)
		}
	}
}

// A path that a run cannot write is reported before anything is paid for.
func TestReportsPathsThatRunsCannotWrite(t *testing.T) {
	for path, bad := range map[string]bool{
		".git/hooks": true, "agents": true, "workflows/other/agents": true, ".github/workflows": true,
		"shared/public": false, "results": false, "artifacts/agents": false, "workflows/other": false,
	} {
		for _, text := range []string{
			head + "output: {directory: " + path + "}\nsteps:\n" + agentStep("one", "produces: outputs/a.md"),
			head + "steps:\n" + agentStep("one", "produces: "+path+"/a.md"),
		} {
			list := compile(text, nil).Diagnostics
			found := slices.ContainsFunc(list, func(d diag.Diagnostic) bool {
				return d.Code == "AFILE004" && d.Severity == diag.Error &&
					strings.Contains(d.Message, "A run cannot write")
			})
			if found != bad {
				t.Errorf("%s: reported %t, want %t: %v", path, found, bad, list)
			}
		}
	}
}

// A scheduled run has no input. It starts all the same, and validate warns.
func TestScheduledRunsNeedNoInput(t *testing.T) {
	scheduled := strings.Replace(head, "{type: command}", `{type: schedule, schedule: "0 6 * * *"}`, 1)
	r := compile(scheduled+"steps:\n"+agentStep("one", ""), nil)
	if !slices.ContainsFunc(r.Diagnostics, func(d diag.Diagnostic) bool {
		return d.Code == "AFILE010" && d.Severity == diag.Warning
	}) {
		t.Errorf("no warning: %v", r.Diagnostics)
	}
	var schema struct {
		Properties map[string]struct{ Default *string }
		Required   []string
	}
	if err := json.Unmarshal(r.Program.Input.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	if def := schema.Properties["AGENT_INPUT"].Default; def == nil || *def != "" || len(schema.Required) > 0 {
		t.Errorf("schema: %s", r.Program.Input.Schema)
	}
	if r := compile(scheduled+"steps:\n"+agentStep("one", "input: agents/a.md"), nil); slices.ContainsFunc(
		r.Diagnostics, func(d diag.Diagnostic) bool { return d.Code == "AFILE010" }) {
		t.Errorf("a workflow that reads no input: %v", r.Diagnostics)
	}
}
