package cli

import (
	"encoding/json"
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
				t.Errorf("%s %s: without --prompt %d %s, with it %d %s", file, id, code, stderr, promptCode, promptStderr)
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
	for _, c := range [][2]string{{"flow.md", "act"}, {".awf/workflows/act.yaml", "act"}, {".awf/workflows/act.yaml", "ask"}} {
		code, _, stderr := run(t, root, "show", c[0], "--step", c[1], "--prompt")
		if code == 0 || !strings.Contains(stderr, "asks no model") {
			t.Errorf("%v: %d %s", c, code, stderr)
		}
	}
	if made, _ := filepath.Glob(filepath.Join(root, "made.txt")); made != nil {
		t.Error("show has run a step")
	}
}

// TestPreviewsShowNoKeys checks that the key of a server, which is no part of the request, is not shown.
func TestPreviewsShowNoKeys(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, ".awf", "workflows", "ask.yaml")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	err := os.WriteFile(file, []byte(`name: ask
states:
  initial: ask
  ask:
    type: agent
    provider: openai_compatible
    options: {base_url: "http://127.0.0.1:1/v1", model: llama, api_key: hunter2, top_p: 0.5}
    prompt: "Why?"
    on_success: done
  done: {type: terminal}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range [][]string{nil, {"--json"}} {
		args := append([]string{"show", ".awf/workflows/ask.yaml", "--step", "ask", "--prompt"}, more...)
		code, stdout, stderr := run(t, root, args...)
		if code != 0 || !strings.Contains(stdout, "top_p") || strings.Contains(stdout+stderr, "hunter2") {
			t.Errorf("%v: %d %s %s", args, code, stdout, stderr)
		}
	}
}
