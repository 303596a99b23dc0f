//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/report/reporttest"
)

// exampleInputs are what the examples need, by name.
var exampleInputs = map[string][]string{
	"change-review":     {"AGENT_INPUT=."},
	"compress":          {"text=roses"},
	"contract-review":   {"contract=We promise everything."},
	"course-kit":        {"TOPIC=roses"},
	"interview-digest":  {"AGENT_INPUT=Eva likes roses."},
	"market-brief":      {"question=What do roses cost in winter?"},
	"meeting-minutes":   {"transcript=" + strings.Repeat("Eva: we ship on Friday. Kim: I write the notes. ", 6)},
	"minutes":           {"input=Eva: we ship on Friday."},
	"press-release":     {"news=Roses are in bloom."},
	"release-notes":     {"input=Fixed a bug."},
	"second-opinion":    {"case_text=A branch fell on the roof."},
	"support-triage":    {"ticket=The roses have withered.", "customer_id=7", "service_tier=enterprise"},
	"vendor-onboarding": {"company=Rosen GmbH", "contact=eva@example.org", "country=DE"},
	"weekly-metrics":    {`orders=[{"region": "north", "amount": 3}, {"region": "south", "amount": 4.5}]`},
}

// TestTranscriptsOfExamplesKeepTheirForm runs every example of every format, simulated, and
// holds what is then on disk to what is promised about transcripts.
func TestTranscriptsOfExamplesKeepTheirForm(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "examples")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "examples"))); err != nil {
		t.Fatal(err)
	}
	espalier := func(args ...string) *exec.Cmd {
		cmd := exec.Command("espalier", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "NO_COLOR=1", "HOME="+dir, "GORACE="+quickExit)
		return cmd
	}
	out, err := espalier("list", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Workflows []struct{ Name, Path, Format string }
	}
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatal(err)
	}
	formats := map[string]int{}
	for i, w := range list.Workflows {
		formats[w.Format]++
		run := fmt.Sprintf("%08d-1111-4111-8111-111111111111", i)
		args := []string{"run", w.Path, "--simulate", "--allow-shell", "--run-id", run}
		for _, input := range exampleInputs[w.Name] {
			args = append(args, "--input", input)
		}
		t.Run(w.Format+"/"+w.Name, func(t *testing.T) {
			t.Parallel()
			text, err := espalier(args...).CombinedOutput()
			code := 0
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
				code = exit.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			const failed, waits = 1, 4
			if code != 0 && code != failed && code != waits {
				t.Fatalf("exit code %d: %s", code, text)
			}
			files := map[string]string{}
			collectTranscripts(t, dir, run, files)
			for _, breach := range reporttest.Breaches(files, run, code != waits) {
				t.Error(breach)
			}
		})
	}
	if len(formats) != 5 || len(list.Workflows) < 25 {
		t.Errorf("there are %d examples, of %v", len(list.Workflows), formats)
	}
}

// collectTranscripts reads the transcript of a run, and those of its children.
func collectTranscripts(t *testing.T, dir, run string, into map[string]string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*", ".espalier", "storage", "transcripts", run+".jsonl"))
	more, _ := filepath.Glob(filepath.Join(dir, ".espalier", "storage", "transcripts", run+".jsonl"))
	if found = slices.Concat(found, more); err != nil || len(found) != 1 {
		t.Fatalf("the transcripts of %s are %q: %v", run, found, err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	into[run] = string(text)
	for line := range strings.Lines(string(text)) {
		var e struct {
			Child string `json:"child_run_id"`
		}
		if json.Unmarshal([]byte(line), &e) == nil && e.Child != "" && into[e.Child] == "" {
			collectTranscripts(t, dir, e.Child, into)
		}
	}
}
