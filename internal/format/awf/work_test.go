package awf_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
)

// A run pins every file that its program is compiled from, so that every change is detected.
func TestProgramListsItsFiles(t *testing.T) {
	p, list := compile(`name: f
states:
  initial: script
  script: {type: step, script_file: '{{.awf.scripts_dir}}/build.sh', on_success: places}
  places: {type: step, command: 'sh {{.awf.scripts_dir}}/other.sh {{awf.prompts_dir}}/note.md {{.awf.scripts_dir}}/none.sh', on_success: made}
  made: {use_template: maker, parameters: {what: x}, on_success: ask}
  ask: {type: agent, provider: claude, prompt_file: ask.md, role: critic, skills: [tidy, {path: mine}], on_success: again}
  again: {type: agent, provider: claude, prompt_file: ask.md, role: critic, skills: [house, {path: mine/SKILL.md}], on_success: call}
  call: {type: call_workflow, workflow: c, on_success: z}
  z: {type: terminal}
`, files{
		"../scripts/build.sh": "echo built", "../scripts/other.sh": "x", "../prompts/note.md": "x",
		".awf/templates/maker.yaml": "name: maker\nparameters: [{name: what}]\nstates:\n  initial: s\n  s: " +
			"{type: step, command: 'echo {{parameters.what}}'}\n",
		"../prompts/ask.md": "Why?", ".agents/roles/critic/AGENTS.md": "You doubt.", "tidy": "Tidy up.",
		".awf/skills/house/SKILL.md": "House rules.", "mine/SKILL.md": "Mine.",
		".awf/workflows/c.yaml": "name: c\nstates:\n  initial: z\n  z: {type: terminal}\n",
	})
	if len(list) > 0 {
		t.Fatal(list)
	}
	var got []string
	for _, f := range p.Files {
		got = append(got, f.Role+" "+f.Path)
		if len(f.SHA256) != 64 {
			t.Errorf("%+v", f)
		}
	}
	slices.Sort(got)
	if want := []string{
		"prompt ../prompts/ask.md", "prompt ../prompts/note.md", "role .agents/roles/critic/AGENTS.md",
		"script ../scripts/build.sh", "script ../scripts/other.sh",
		"skill .awf/skills/house/SKILL.md", "skill mine/SKILL.md", "skill tidy", "template .awf/templates/maker.yaml",
		"workflow .awf/workflows/c.yaml",
	}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for step, want := range map[string]string{
		"script": `"script":"echo built"`,
		"made":   `"command":"echo x"`,
		"ask":    `"skills":[{"name":"tidy","text":"Tidy up."},{"name":"mine","text":"Mine."}]`,
		"again":  `"skills":[{"name":"house","text":"House rules."},{"name":"mine","text":"Mine."}]`,
	} {
		if got := settings(t, p, step); !strings.Contains(got, want) {
			t.Errorf("%s: %s", step, got)
		}
	}
}

// settings returns the settings of a step's task, as JSON.
func settings(t *testing.T, p *ir.Program, step string) string {
	t.Helper()
	raw := map[string]json.RawMessage{}
	for _, s := range p.Step(ir.Body, step).Task().Settings {
		raw[s.Name] = s.Value
	}
	out, err := json.Marshal(raw)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// An agent's system prompt is found wherever the author put it and follows its role. Timeout
// and continued conversation are passed on.
func TestAgentStepsGetPromptRoleAndTimeout(t *testing.T) {
	for keys, want := range map[string]string{
		"prompt: Hi":                                     `{"agent":"x","prompt":"Hi"}`,
		"prompt: Hi, system_prompt: Be brief":            `{"agent":"x","prompt":"Hi","system":"Be brief"}`,
		"prompt: Hi, options: {system_prompt: Be brief}": `{"agent":"x","prompt":"Hi","system":"Be brief"}`,
		"prompt: Hi, system_prompt: Be brief, options: {system_prompt: Be long}": `{"agent":"x","prompt":"Hi","system":"Be brief"}`,
		"prompt: Hi, role: critic, system_prompt: Be brief":                      `{"agent":"x","prompt":"Hi","system":"You doubt.\n\nBe brief"}`,
		"prompt: Hi, role: critic":                                               `{"agent":"x","prompt":"Hi","system":"You doubt."}`,
		"prompt: Hi, timeout: '{{.inputs.t}}'":                                   `{"agent":"x","prompt":"Hi","timeout":"{{.inputs.t}}"}`,
		"prompt: Hi, output_format: json":                                        `{"agent":"x","format":"json","prompt":"Hi"}`,
		"prompt: Hi, mode: conversation":                                         `{"agent":"x","dialog":"x","prompt":"Hi"}`,
		"prompt: Hi, conversation: {}":                                           `{"agent":"x","keep":true,"prompt":"Hi"}`,
		"prompt_file: ask.md":                                                    `{"agent":"x","prompt":"Why?"}`,
		"prompt: Hi, conversation: {continue_from: before}":                      `{"agent":"x","continue_from":"before","keep":true,"prompt":"Hi"}`,
	} {
		p, list := compile("name: f\ninputs: [{name: t}]\nstates:\n  initial: before\n  before: {type: agent, "+
			"provider: claude, prompt: Hello, on_success: x}\n  x: {type: agent, provider: claude, "+keys+
			", on_success: z}\n  z: {type: terminal}\n",
			files{"../roles/critic/AGENTS.md": "You doubt.\n", "ask.md": "Why?"})
		if got := settings(t, p, "x"); got != want || len(list) > 0 {
			t.Errorf("%s: got %s, want %s; %v", keys, got, want, list)
		}
		if got, want := strings.Contains(settings(t, p, "before"), `"keep":true`),
			strings.Contains(keys, "continue_from"); got != want {
			t.Errorf("%s: the one before keeps what was said: %t", keys, got)
		}
	}
}

// The token limit of a reply is a number above 0. Options that only select tools are not
// forwarded.
func TestAgentTokenLimitAndToolOptions(t *testing.T) {
	for options, want := range map[string]string{
		"max_tokens: 0":    "0 ",
		"max_tokens: -3":   "0 ",
		"max_tokens: lots": "0 ",
		"max_completion_tokens: 7, max_tokens: 9":                                                   "7 ",
		"max_completion_tokens: 0, max_tokens: 9":                                                   "9 ",
		"allowedTools: [Read], seed: 1":                                                             `0 {"seed":1}`,
		"dangerously_skip_permissions: true, yolo: false, full_auto: false, allow_all_tools: false": "0 ",
	} {
		p, _ := compile("name: f\nstates:\n  initial: x\n  x: {type: agent, provider: claude, prompt: Hi, options: {"+
			options+"}, on_success: z}\n  z: {type: terminal}\n", nil)
		if got := fmt.Sprint(p.Agents[0].MaxTokens, " ", string(p.Agents[0].Options)); got != want {
			t.Errorf("%s: got %q, want %q", options, got, want)
		}
	}
}

// A tool may be allowed for some commands only. A model that is not a CLI program has only the
// proxy's tools.
func TestParsesToolLists(t *testing.T) {
	for keys, want := range map[string]string{
		"provider: claude, options: {allowed_tools: 'Bash(git log, (a b), *) Edit,Read'}": "[Bash(git " +
			"log, (a b), *) Edit Read]",
		"provider: claude, options: {allowed_tools: ['Bash(ls -l)', Read], allowedTools: " +
			"Read}": "[Bash(ls -l) Read]",
		"provider: claude, options: {allowed_tools: ''}":                                    "[]",
		"provider: claude, options: {allowed_tools: null}":                                  "[]",
		"provider: openai_compatible, options: {model: m, yolo: true, allowed_tools: Read}": "[]",
		"provider: openai_compatible, options: {model: m, allowed_tools: X}, mcp_proxy: {enable: true}": "[Read " +
			"Write Edit Bash Glob Grep]",
	} {
		p, _ := compile("name: f\nstates:\n  initial: x\n  x: {type: agent, prompt: Hi, "+keys+
			", on_success: z}\n  z: {type: terminal}\n", nil)
		names := []string{}
		for _, n := range p.Agents[0].Tools {
			names = append(names, n.Name)
		}
		if got := fmt.Sprint(names); got != want {
			t.Errorf("%s: got %s, want %s", keys, got, want)
		}
	}
}

// A missing script is reported, unless its path is outside of the project or computed: then it
// is read when the step runs.
func TestScriptsOutsideProjectAreReadAtRunTime(t *testing.T) {
	for ref, want := range map[string]string{
		"gone.sh":                "AWF013 gone.sh",
		"/opt/build.sh":          `"script_file":"/opt/build.sh"`,
		"~/build.sh":             `"script_file":"~/build.sh"`,
		"'{{.inputs.which}}.sh'": `"script_file":"{{.inputs.which}}.sh"`,
		"'{{.awf.scripts_dir}}/{{.inputs.which}}.sh'": `"script_file":"../scripts/{{.inputs.which}}.sh"`,
	} {
		text := "name: f\ninputs: [{name: which}]\nstates:\n  initial: x\n  x: {type: step, script_file: " + ref +
			", on_success: z}\n  z: {type: terminal}\n"
		got := strings.Join(diagnose(text, nil), ", ")
		if got == "" {
			p, _ := compile(text, nil)
			if got = settings(t, p, "x"); strings.Contains(got, want) && strings.Contains(got, `"folder":"."`) &&
				strings.Contains(got, `"export":["which"]`) {
				got = want
			}
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", ref, got, want)
		}
	}
}
