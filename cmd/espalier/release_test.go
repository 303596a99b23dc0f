package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
)

// A release prints its version, and the commit and the date that git has.
func TestReleasePrintsCommitAndDate(t *testing.T) {
	git := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("git", args...).Output()
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	if info, err := os.Stat(repoPath(".git")); err != nil || !info.IsDir() {
		t.Skip("go build records the commit in a clone of the repository only, not in a worktree")
	}
	program := filepath.Join(t.TempDir(), "espalier")
	// Without the other flags of a release, which would compile everything once more.
	build := exec.Command("go", "build", "-buildvcs=true", "-o", program,
		"-ldflags", "-s -w -X github.com/espalier-run/espalier/internal/cli.release=9.8.7", ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	committed, err := time.Parse(time.RFC3339, git("show", "--no-patch", "--format=%cI"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program, "version").Output()
	want := fmt.Sprintf("espalier 9.8.7 (%.12s, %s", git("rev-parse", "HEAD"), committed.UTC().Format(time.RFC3339))
	if err != nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("%v: got %s, want %s…", err, out, want)
	}
}

type action struct {
	Inputs map[string]struct {
		Description string
		Default     *string
	}
	Outputs map[string]struct{ Value string }
	Runs    struct {
		Using string
		Steps []struct {
			Name, ID, Shell, Run, Uses string
			Env, With                  map[string]string
		}
	}
}

// The GitHub Action has the right form, and its scripts run, except those that need GitHub.
func TestGitHubActionRunsItsScripts(t *testing.T) {
	raw, err := os.ReadFile(repoPath("action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var a action
	if err := yaml.Unmarshal(raw, &a); err != nil {
		t.Fatal(err)
	}
	page := strings.Join(readPage(t, "docs/automation.md"), "\n")
	for name, in := range a.Inputs {
		if in.Description == "" || in.Default == nil {
			t.Errorf("the input %s has no description, or no default", name)
		}
		if !strings.Contains(page, "| `"+name+"` |") {
			t.Errorf("docs/automation.md does not describe the input %s", name)
		}
		if !strings.Contains(string(raw), "inputs."+name+" ") {
			t.Errorf("the input %s is not used", name)
		}
	}
	for _, m := range regexp.MustCompile(`\binputs\.([\w-]+)`).FindAllStringSubmatch(string(raw), -1) {
		if _, ok := a.Inputs[m[1]]; !ok {
			t.Errorf("there is no input %s", m[1])
		}
	}
	if a.Runs.Using != "composite" || len(a.Outputs) != 1 || len(a.Runs.Steps) != 4 {
		t.Errorf("%+v", a)
	}
	newest := regexp.MustCompile(`(?m)^## \[([0-9][^]]*)\]`).FindStringSubmatch(strings.Join(readPage(t, "CHANGELOG.md"), "\n"))
	if v := a.Inputs["version"].Default; v == nil || newest == nil || *v != newest[1] {
		t.Errorf("the Action installs %v, and the newest release is %v", v, newest)
	}

	dir := t.TempDir()
	writeApproved(t, filepath.Join(dir, "hello.md"), strings.Join([]string{
		"---", "name: hello", "kind: agent-flow/workflow", "version: 1.0.0",
		"description: Say hello.", "budgets: {max_steps: 5}", "input:",
		"  schema: {type: object, required: [who], properties: {who: {type: string}}}", "---", "```step", "id: approve",
		"type: gate", "gate_method: human_review", "description: Approve", "reads: [input.who]", "```", "```step",
		"id: greet", "type: transform", "description: Greet", "reads: [input.who]", "writes: [output]", "```", "",
	}, "\n"))
	writeApproved(t, filepath.Join(dir, "hello.script.yaml"),
		"replies: [{step: greet, reply: {text: Good morning}}]\notherwise: simulate\n")
	values := map[string]string{
		"validate": "hello.md", "strict": "false", "sarif": "true", "run": "hello.md", "script": "hello.script.yaml",
		"inputs": "who=Ann\n", "allow-shell": "true", "auto-approve": "true",
	}
	outputs := filepath.Join(dir, "outputs")
	for _, step := range a.Runs.Steps {
		if step.Run == "" {
			if !regexp.MustCompile(`^[\w-]+/[\w/-]+@v\d+$`).MatchString(step.Uses) {
				t.Errorf("%s: uses %q", step.Name, step.Uses)
			}
			continue
		}
		if step.Shell != "bash" {
			t.Errorf("%s: the shell is %q", step.Name, step.Shell)
		}
		args := []string{"--noprofile", "--norc", "-eo", "pipefail", "-c", step.Run} // as GitHub runs it
		if step.Name == "Install Espalier" {
			args = []string{"-n", "-c", step.Run} // a release of GitHub is needed to run it
		}
		cmd := exec.Command("bash", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+dir, "RUNNER_TEMP="+dir, "GITHUB_OUTPUT="+outputs)
		for _, name := range slices.Sorted(maps.Keys(step.Env)) {
			from := strings.TrimSuffix(strings.TrimPrefix(step.Env[name], "${{ inputs."), " }}")
			cmd.Env = append(cmd.Env, name+"="+values[from])
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", step.Name, err, out)
		}
	}
	for file, want := range map[string]string{
		"espalier.sarif": `"2.1.0"`, "espalier-output": "Good morning", "outputs": "output=",
	} {
		if got, err := os.ReadFile(filepath.Join(dir, file)); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s: %v: %s", file, err, got)
		}
	}
}
