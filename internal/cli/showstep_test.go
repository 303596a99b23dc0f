package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// exampleFiles returns the paths of all example workflows, relative to the root of the repository.
func exampleFiles(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{
		"agent-flow/*.md", "agent-flow/*/SKILL.md", "agent-flow/skills/*/SKILL.md", "aiflow/*.aiflow",
		"awf/.awf/workflows/*.yaml", "nof/*.nof.md", "agentfile/workflows/*/workflow.yaml",
	} {
		found, err := filepath.Glob(filepath.Join(root, "examples", pattern))
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		for _, name := range found {
			rel, err := filepath.Rel(root, name)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, filepath.ToSlash(rel))
		}
	}
	return out
}

// stepIDs returns the IDs of all steps of a workflow.
func stepIDs(t *testing.T, root, file string) []string {
	t.Helper()
	code, stdout, stderr := run(t, root, "show", file, "--json")
	if code != 0 {
		t.Fatal(stderr)
	}
	var shown struct {
		Steps []struct {
			ID string `json:"id"`
		} `json:"steps"`
	}
	if err := json.Unmarshal([]byte(stdout), &shown); err != nil || len(shown.Steps) == 0 {
		t.Fatal(file, err, stdout)
	}
	var out []string
	for _, s := range shown.Steps {
		out = append(out, s.ID)
	}
	return out
}

func TestShowStepPrintsContractAndRequestOfEveryModelStep(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	asking := 0
	for _, file := range exampleFiles(t, root) {
		for _, id := range stepIDs(t, root, file) {
			code, contract, stderr := run(t, root, "show", file, "--step", id)
			promptCode, request, promptStderr := run(t, root, "show", file, "--step", id, "--prompt")
			switch {
			case code != promptCode || stderr != promptStderr:
				t.Errorf("%s %s: without --prompt %d %s, with it %d %s",
					file, id, code, stderr, promptCode, promptStderr)
			case code == 0 && (contract == "" || !strings.Contains(request, "--- user ---")):
				t.Errorf("%s %s:\n%s\n%s", file, id, contract, request)
			case code == 0:
				asking++
			case !strings.Contains(stderr, "asks no model"):
				t.Errorf("%s %s: %s", file, id, stderr)
			}
		}
	}
	if asking < 30 {
		t.Errorf("only %d steps ask a model", asking)
	}
}

func TestShowStepExecutesNothing(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("flow.md", `---
name: flow
kind: agent-flow/workflow
version: 1.0.0
description: Writes a file.
tools:
  allowlist: [Write]
---

## Steps

`+"```step\nid: act\ntype: tool\ndescription: Write a file\ntool: Write\nargs: {path: made.txt, content: hello}\n"+
		"writes: [output.x]\n```\n")
	write(".awf/workflows/act.yaml", `name: act
states:
  initial: act
  act:
    type: step
    command: touch made.txt
    on_success: ask
    on_failure: ask
  ask:
    type: operation
    operation: http.request
    inputs: {url: "http://localhost:1/", method: GET}
    on_success: done
    on_failure: done
  done: {type: terminal}
`)
	for _, c := range [][2]string{
		{"flow.md", "act"}, {".awf/workflows/act.yaml", "act"}, {".awf/workflows/act.yaml", "ask"},
	} {
		code, _, stderr := run(t, root, "show", c[0], "--step", c[1], "--prompt")
		if code == 0 || !strings.Contains(stderr, "asks no model") {
			t.Errorf("%v: %d %s", c, code, stderr)
		}
	}
	if made, _ := filepath.Glob(filepath.Join(root, "made.txt")); made != nil {
		t.Error("show has run a step")
	}
}

// promptOf returns the text of show --step --prompt for a step of a workflow in AWF.
func promptOf(t *testing.T, states, step string, options ...string) string {
	t.Helper()
	root := t.TempDir()
	name := filepath.Join(root, ".awf", "workflows", "flow.yaml")
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte("name: flow\nstates:\n"+
		states+"  done: {type: terminal}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"show", ".awf/workflows/flow.yaml", "--step", step, "--prompt"}, options...)
	code, stdout, stderr := run(t, root, args...)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	return stdout
}

func TestShowStepMasksSecretsInOptions(t *testing.T) {
	const states = `  initial: ask
  ask:
    type: agent
    provider: openai_compatible
    options: {base_url: "http://localhost:1/v1", model: m, top_k: 3, api_key: %s, nested: {client_secret: %s}}
    prompt: Hello
    on_success: done
`
	for key, want := range map[string]string{
		"hunter2-literal": "[redacted secret]", "secret://MODEL_KEY": "secret://MODEL_KEY",
		"${MODEL_KEY}": "${MODEL_KEY}", "x${MODEL_KEY}": "[redacted secret]",
	} {
		for _, option := range [][]string{nil, {"--json"}} {
			got := promptOf(t, fmt.Sprintf(states, `"`+key+`"`, "hunter2-literal"), "ask", option...)
			if strings.Contains(got, "hunter2-literal") || !strings.Contains(got, want) ||
				!strings.Contains(got, "top_k") {
				t.Errorf("%s %v: want %s in\n%s", key, option, want, got)
			}
		}
	}
}

func TestShowStepInLoopsHasPlaceholders(t *testing.T) {
	const states = `  initial: outer
  outer: {type: for_each, items: '[{"name": "x"}]', body: [each], on_complete: done}
  each: {type: for_each, items: '[{"sku": "a"}]', body: [pack, whole], on_complete: outer}
  pack:
    type: agent
    provider: claude
    prompt: "{{.loop.Item.sku}} in {{.loop.Item.box.size}}, {{.loop.Index1}}/{{.loop.Length}}, {{.loop.Parent.Item.name}}"
    on_success: whole
  whole: {type: agent, provider: claude, prompt: "Judge {{.loop.Item}}", on_success: each}
`
	for step, want := range map[string]string{
		"pack":  "(loop.Item.sku) in (loop.Item.box.size), 1/(loop.Length), (loop.Parent.Item.name)\n",
		"whole": "Judge (loop.Item)\n",
	} {
		if got := promptOf(t, states, step); !strings.Contains(got, want) {
			t.Errorf("%s: want %q in\n%s", step, want, got)
		}
	}
}

// The request of an agent that a node calls asks for the contract of the step, also if the code of the node cannot
// compute the workload from placeholders.
func TestShowStepOfNodesAsksForTheContract(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	file := "examples/nof/graph-repair.nof.md"
	for step, want := range map[string]string{"kg-health-monitor": `"health"`, "kg-completer": `"filled"`} {
		code, stdout, stderr := run(t, root, "show", file, "--step", step, "--prompt", "--json")
		var shown struct {
			Contract, Request struct{ Schema json.RawMessage }
		}
		if err := json.Unmarshal([]byte(stdout), &shown); code != 0 || err != nil {
			t.Fatalf("%d %v: %s", code, err, stderr)
		}
		if got := string(shown.Request.Schema); got != string(shown.Contract.Schema) || !strings.Contains(got, want) {
			t.Errorf("%s: the request asks for\n%s\nthe contract is\n%s", step, got, shown.Contract.Schema)
		}
	}
}

func TestShowStepHasOnePlaceholderForAList(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"show", "examples/nof/release-notes.nof.md", "--step", "visual-report", "--prompt"}
	code, stdout, stderr := run(t, root, args...)
	if want := `"steps":["1. (state.steps)"]`; code != 0 || !strings.Contains(stdout, want) {
		t.Errorf("%d %s: no %s in\n%s", code, stderr, want, stdout)
	}
}
