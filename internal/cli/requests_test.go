package cli

import (
	"flag"
	"os"
	"path/filepath"
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
	for name, c := range map[string]struct{ file, step string }{
		"agent-flow-agent":     {"examples/agent-flow/support-triage.md", "check_draft"},
		"agent-flow-tools":     {"examples/agent-flow/support-triage.md", "answer_billing"},
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
			code, got, stderr := run(t, root, "show", c.file, "--step", c.step, "--prompt")
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
