package cli

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var updateRequests = flag.Bool("update-requests", false, "rewrite the recorded requests")

// TestRequests holds the complete request of one realistic step for each format
// and each kind of model call.
func TestRequests(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	bound := t.TempDir() // a project with tools
	for name, text := range map[string]string{
		"support-triage.md": readText(t, filepath.Join(root, "examples", "agent-flow", "support-triage.md")),
		"espalier.yaml":     "tools: {crm.read: {use: Read}}\n",
	} {
		if err := os.WriteFile(filepath.Join(bound, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct{ file, step string }{
		"agent-flow-agent":     {"examples/agent-flow/support-triage.md", "check_draft"},
		"agent-flow-tools":     {"support-triage.md", "answer_billing"},
		"agent-flow-worker":    {"examples/agent-flow/second-opinion.md", "R1"},
		"agent-flow-transform": {"examples/agent-flow/support-triage.md", "finish"},
		"agent-flow-gate":      {"examples/agent-flow/market-brief.md", "review"},
		"agent-flow-merge":     {"examples/agent-flow/second-opinion.md", "read"},
		"agent-flow-skill":     {"examples/agent-flow/release-notes/SKILL.md", "skill"},
		"aiflow-choice":        {"examples/aiflow/support-desk.aiflow", "triage"},
		"aiflow-text":          {"examples/aiflow/translate.aiflow", "translator"},
		"awf-agent":            {"examples/awf/.awf/workflows/review-change.yaml", "review"},
		"awf-conversation":     {"examples/awf/.awf/workflows/review-change.yaml", "verdict"},
		"nof-worker":           {"examples/nof/cost-review.nof.md", "cost-advisor"},
		"agentfile-artifact":   {"examples/agentfile/workflows/course-kit/workflow.yaml", "outline"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := root
			if !strings.Contains(c.file, "/") {
				dir = bound
			}
			code, got, stderr := run(t, dir, "show", c.file, "--step", c.step, "--prompt")
			if code != 0 {
				t.Fatal(stderr)
			}
			golden := filepath.Join("testdata", "requests", name+".txt")
			if *updateRequests {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(golden)
			if err != nil || string(want) != got {
				t.Errorf("%v\ngot\n%s\nwant\n%s", err, got, want)
			}
		})
	}
}

func readText(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
