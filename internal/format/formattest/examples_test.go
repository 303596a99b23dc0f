package formattest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// inputs are the inputs of the examples that need any.
var inputs = map[string]string{
	"contract-review.md": `{"contract": "We promise everything."}`,
	"market-brief.md":    `{"question": "What do roses cost in winter?"}`,
	"meeting-minutes.md": `{"transcript": "` + strings.Repeat("Eva: we ship on Friday. Kim: I write the notes. ",
		6) + `"}`,
	"press-release.md":        `{"news": "Roses are in bloom."}`,
	"second-opinion.md":       `{"case_text": "A branch fell on the roof."}`,
	"support-triage.md":       `{"ticket": "The roses have withered.", "customer_id": "7", "service_tier": "enterprise"}`,
	"vendor-onboarding.md":    `{"company": "Rosen GmbH", "contact": "eva@example.org", "country": "DE"}`,
	"weekly-metrics.md":       `{"orders": [{"region": "north", "amount": 3}, {"region": "south", "amount": 4.5}]}`,
	"nightly-import.md":       `{}`,
	"release-notes/SKILL.md":  `"Fixed a bug."`,
	"skills/minutes/SKILL.md": `"Eva: we ship on Friday."`,
}

// Every Agent Flow example runs to its end with simulated replies. Every gate is approved and
// every event is sent.
func TestExamplesRunToTheirEnd(t *testing.T) {
	root := filepath.Join("..", "..", "..", "examples", "agent-flow")
	var all []txtar.File
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		all = append(all, txtar.File{Name: filepath.ToSlash(rel), Data: raw})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, f := range all {
		if !strings.HasSuffix(f.Name, ".md") || strings.HasSuffix(f.Name, "README.md") {
			continue
		}
		ran++
		t.Run(f.Name, func(t *testing.T) {
			input, ok := inputs[f.Name]
			if !ok {
				t.Fatal("there is no input for this example")
			}
			h := (&trial{files: append([]txtar.File{f}, without(all, f.Name)...), input: input, agreeable: true}).run(t)
			if h.problems.Errors() {
				t.Fatal(h.problems)
			}
			if outcome, _ := h.ending(); outcome != "ok" {
				t.Errorf("%s\n%s", outcome, h.record(t, ""))
			}
		})
	}
	if ran < 9 {
		t.Errorf("only %d examples", ran)
	}
}
