package formattest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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

// rejectedByCritic matches the record of a run that a critic's gate has ended.
var rejectedByCritic = regexp.MustCompile(`rejected \{"gate_result":"rejected",.*"method":"critic_agent",.*\n` +
	`run rejected GATE_REJECTED `)

// seedsOfExamples is how many seeds each example is run with.
const seedsOfExamples = 20

// Every Agent Flow example runs to its end with simulated replies of many seeds. Every human gate is approved and every
// event is sent. A critic may reject, if the file has a critic's gate: it declares that ending.
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
			files := append([]txtar.File{f}, without(all, f.Name)...)
			finished := 0
			for seed := range uint64(seedsOfExamples) {
				h := (&trial{files: files, input: input, seed: seed, agreeable: true}).run(t)
				if h.problems.Errors() {
					t.Fatal(h.problems)
				}
				switch outcome, _ := h.ending(); {
				case outcome == "ok":
					finished++
				case outcome == "rejected" && rejectedByCritic.MatchString(h.record(t, "")):
				default:
					t.Errorf("seed %d: %s\n%s", seed, outcome, h.record(t, ""))
				}
			}
			if finished == 0 {
				t.Error("no run succeeds")
			}
		})
	}
	if ran < 9 {
		t.Errorf("only %d examples", ran)
	}
}
