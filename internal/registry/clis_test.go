package registry

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/providertest"
)

// A program sees what it needs, what its entry says, and nothing else.
func TestProgramsSeeOnlyTheirVariables(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "of the process")
	m := models(t, `
models:
  clis:
    mine: {speaks: claude-code, command: x, env: {A: secret://s, B: "${C:-none} of it"}, pass_env: [D]}
secrets: {s: {env: S}}
`, map[string]string{"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o", "S": "hidden value", "C": "all", "D": "d", "E": "e", "HTTPS_PROXY": "p"})
	env, err := m.cliEnv(t.Context(), m.cli("mine"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ANTHROPIC_API_KEY=a", "A=hidden value", "B=all of it", "D=d", "HTTPS_PROXY=p"} {
		if !slices.Contains(env, want) {
			t.Errorf("no %s in %q", want, env)
		}
	}
	for _, one := range env {
		if name, _, _ := strings.Cut(one, "="); slices.Contains([]string{"OPENAI_API_KEY", "E", "S", "C"}, name) {
			t.Errorf("it sees %s", name)
		}
	}
	if _, err := models(t,
		"models: {clis: {mine: {speaks: text, command: x, env: {A: secret://s}}}}\nsecrets: {s: {env: S}}",
		nil).cliEnv(t.Context(), m.cli("mine")); err == nil {
		t.Error("a secret that is not there is passed over")
	}
}

// A repository that was cloned cannot start commands by its settings for a program: neither before the run nor with a
// model that is chosen during the run.
func TestSettingsForProgramsNeedConsent(t *testing.T) {
	bin := t.TempDir()
	started := filepath.Join(bin, "started")
	script := "#!/bin/sh\n: > " + started + "\n"
	if err := os.WriteFile(filepath.Join(bin, "gemini"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	program := &ir.Program{
		Agents: []ir.Agent{{ID: "a", Model: "gemini-cli"}},
		Blocks: []ir.Block{{Steps: []ir.Step{{ID: "s", Action: ir.Task{
			Kind: "agent", Settings: ir.Settings{{Name: "agent", Value: json.RawMessage(`"a"`)}},
		}}}}},
	}
	for _, c := range []struct {
		folder  string
		config  string
		options RunOptions
		refused bool
	}{
		{folder: ".gemini", refused: true},
		{folder: ".gemini", options: RunOptions{AllowShell: true}},
		{folder: ".gemini", config: "allow: {shell: true}"},
		{folder: ".claude"},
	} {
		m := models(t, c.config, nil)
		m.root = t.TempDir()
		if err := os.Mkdir(filepath.Join(m.root, c.folder), 0o700); err != nil {
			t.Fatal(err)
		}
		reported := slices.ContainsFunc(m.Missing(program, c.options), func(d MissingDependency) bool {
			return strings.Contains(d.Message, "settings for gemini-cli")
		})
		if reported != c.refused {
			t.Errorf("%+v is reported before the run: %t", c, reported)
		}
		_ = os.Remove(started) // it need not exist
		r := router{models: m, override: "gemini-cli", consented: c.options.AllowShell}
		_, _ = providertest.Collect(t, r.Generate(t.Context(), providertest.AskText())) // the program says nothing
		if _, err := os.Stat(started); (err != nil) != c.refused {
			t.Errorf("%+v: the program was started: %t", c, err == nil)
		}
	}
}

// Tools about which the project has decided something are not a program's.
func TestAgentToolsThatAreDenied(t *testing.T) {
	m := models(t,
		"tools: {Bash: {requires_approval: true}, Read: {enabled: false}, Grep: {url: 'http://x/'}, Glob: {use: "+
			"Read}, Edit: {timeout: 5s}}", nil)
	info := m.agentInfo(m.cli("claude"), false)
	for _, name := range []string{"Bash", "Read", "Grep", "Glob"} {
		if slices.Contains(info.Tools, name) || info.Denied[name] == "" {
			t.Errorf("%s is given: %q", name, info.Denied[name])
		}
	}
	if !slices.Contains(info.Tools, "Edit") || !slices.Contains(info.Tools, "WebSearch") || info.Name != "claude-code" {
		t.Errorf("%+v", info)
	}
	plain := models(t, "", nil)
	for name, given := range map[string]bool{"claude-code": false, "codex": true} { // which has a sandbox of its own
		if got := slices.Contains(plain.agentInfo(plain.cli(name), true).Tools, "Bash"); got != given {
			t.Errorf("%s has Bash in a sandbox: %t", name, got)
		}
	}
}

// A program's models cost what their provider takes, as far as one knows.
func TestProgramsCostWhatTheirProvidersCharge(t *testing.T) {
	m := models(t, "prices: {copilot: {input: 1, output: 2}}", nil)
	for name, known := range map[string]bool{
		"claude-code/opus": true, "claude-code": false, "copilot": true,
		"copilot/gpt-5": false, "codex/gpt-5": true,
	} {
		choice, problem := m.Choose(name)
		if problem != nil {
			t.Fatal(problem)
		}
		if _, ok := m.Price(choice); ok != known {
			t.Errorf("the price of %s is known: %t", name, ok)
		}
	}
}

// The router knows which models are programs, whatever they are called.
func TestRouterKnowsAgents(t *testing.T) {
	m := models(t, "models: {aliases: {coder: codex/gpt-5}, providers: {codex: {api: openai, base_url: 'http://x'}}}",
		nil)
	var agents provider.Agents = router{models: m, fallback: "claude"}
	for model, name := range map[string]string{"": "claude-code", "gemini-cli/x": "gemini-cli"} {
		if info := agents.Agent(model); info == nil || info.Name != name {
			t.Errorf("%q: %+v", model, info)
		}
	}
	for _, model := range []string{
		"coder", "codex/x", "gpt-5", "gemini/x",
		"nobody/knows",
	} { // a declared provider comes first
		if info := agents.Agent(model); info != nil {
			t.Errorf("%q: %+v", model, info)
		}
	}
}

// Programs ignore the options of agents, with a warning.
func TestProgramsHaveNoOptions(t *testing.T) {
	m := models(t, "", nil)
	p := program("codex")
	p.Agents[0].Options = json.RawMessage(`{"temperature":1,"seed":2}`)
	if told := m.Ignored(p, RunOptions{}); len(told) != 1 ||
		!strings.Contains(told[0], "seed, temperature, which codex does not have") {
		t.Errorf("%q", told)
	}
}
