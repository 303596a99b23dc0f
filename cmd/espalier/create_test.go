//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/manifest"
)

// TestCreateInterruptedAtAnyWriteEndsTheSame kills "espalier create" at every write to the journal
// and around every change of the manifest. Carried on, it ends with the same
// files and the same manifest, and no model has been asked twice.
func TestCreateInterruptedAtAnyWriteEndsTheSame(t *testing.T) {
	for name, s := range generationShapes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calm := s.createProject(t)
			back := s.runProcess(t, calm, s.simulatedUser)
			want := generatedFiles(t, calm)
			if len(want) < 5 {
				t.Fatalf("undisturbed: %q", want)
			}
			for at := 1; at <= back.Writes; at++ {
				for _, after := range killTimes(at) {
					broken := s.createProject(t)
					one := s.simulatedUser
					one.KillAt, one.After = at, after
					if s.runProcess(t, broken, one) == nil {
						again := s.simulatedUser
						again.Resume = at/2%2 == 0 // for kills before a write and for kills after one
						s.runProcess(t, broken, again)
					}
					if diff := cmp.Diff(want, generatedFiles(t, broken)); diff != "" {
						t.Errorf("killed %s write %d of %d (-calm +killed):\n%s",
							beforeOrAfter(after), at, back.Writes, diff)
					}
					os.RemoveAll(broken)
				}
			}
		})
	}
}

// generationShapes returns a workflow that is valid at once and one that a model repairs.
func generationShapes() map[string]*shape {
	const words = "Read the letters and write answers"
	return map[string]*shape{
		"simulated": {simulatedUser: simulatedUser{
			Create: []string{"letters", words, "--simulate"},
		}, files: map[string]string{
			"agentfile.yaml": "name: example\n",
		}},
		"repaired": {simulatedUser: simulatedUser{
			Create: []string{"letters", words, "--script", "wrong.script.yaml"},
		}, files: map[string]string{
			"agentfile.yaml": "name: example\n",
			"wrong.script.yaml": `otherwise: simulate
replies:
  - step: generate-workflow
    reply: |
      specVersion: "1.0"
      name: letters
  - step: repair
    reply: |
      ##FILE: 03-workflow.yaml##
      specVersion: "1.0"
      name: letters
      version: 1.0.0
      description: Answers letters
      trigger:
        type: command
      steps:
        - id: read
          name: Read
          agent: agents/reader.md
          input: $AGENT_INPUT
          goal: Read it.
          produces: outputs/read.md
      ##END##
`,
		}},
	}
}

// varyingValues matches what differs between two generations: times and ids.
var varyingValues = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d[:-]\d\d[:-]\d\d(\.\d+)?Z?|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// generatedFiles returns the generated files and the model calls, without times and ids.
func generatedFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	manifests, err := filepath.Glob(filepath.Join(dir, "artifacts", "letters", "*", manifest.FileName))
	if err != nil || len(manifests) != 1 {
		t.Errorf("there are %d generations, %v", len(manifests), err)
		return out
	}
	staged := filepath.Dir(manifests[0])
	names, err := manifest.Files(staged)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		raw, err := os.ReadFile(filepath.Join(staged, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = varyingValues.ReplaceAllString(string(raw), "*")
	}
	// What was asked of models, in all runs.
	var asked []string
	paths, err := filepath.Glob(filepath.Join(dir, ".espalier", "storage", "transcripts", "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(raw)) {
			var e struct{ Type, Step string }
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			asked = append(asked, e.Type)
		}
	}
	slices.Sort(asked)
	out["(records)"] = fmt.Sprintf("%d runs: %s", len(paths), strings.Join(asked, " "))
	return out
}
