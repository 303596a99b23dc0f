package worker_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/steptest"
	"github.com/espalier-run/espalier/internal/step/worker"
)

const good = `{"recommendations": [{"a": 1}], "rules_applied": ["r"], "meta_insight": "m"}`

func TestWorkerStepsKeepResultsWhenInterrupted(t *testing.T) {
	plain := steptest.Settings{"agent": "plain"}
	p, r := journal.NotePrompt, journal.NoteReply
	steptest.Runs(t, worker.Runner{},
		steptest.Play{
			Name: "keeps to the contract", Settings: plain, Replies: []steptest.Reply{{Text: good}},
			Value: good, Notes: []string{p, r},
		},
		steptest.Play{Name: "is mended", Settings: plain, Replies: []steptest.Reply{{Text: `{"meta_insight": "m"}`}, {Text: good}}, Value: good, Notes: []string{p, r, p, r}},
		steptest.Play{
			Name: "never does", Settings: plain, Class: ir.ClassInvalid,
			Replies: []steptest.Reply{{Text: "no"}, {Text: `{"recommendations": "no"}`}, {Text: `{"recommendations": ["text"], "rules_applied": [], "meta_insight": ""}`}},
		},
		steptest.Play{
			Name: "unknown agent", Settings: steptest.Settings{"agent": "nobody"}, Class: ir.ClassMissing,
		},
	)
}

// A command takes the workload as JSON and gives the output as JSON.
func TestWorkersRunTheirCommands(t *testing.T) {
	project := t.TempDir()
	script := func(name, body string) []string {
		if err := os.WriteFile(filepath.Join(project, name), []byte("#!/bin/sh\n"+body), 0o700); err != nil {
			t.Fatal(err)
		}
		return []string{"./" + name, "one"}
	}
	run := func(command []string) (step.Result, error) {
		play := steptest.Play{
			Settings: steptest.Settings{"agent": "plain", "command": command}, With: func(j *step.Job) {
				j.Project = project
				j.Reads = []step.Read{{Path: "workload", Value: []byte(`{"x":1}`)}}
			},
		}
		return play.Done(t, worker.Runner{}, &steptest.Log{}, &steptest.World{})
	}
	result, err := run(script("good", `printf '{"recommendations": [], "rules_applied": ["'$1'"], "meta_insight": "%s", "analysis_data": '"$(cat)"'}' "$(basename "$PWD" | head -c 0)"`))
	if want := `{"recommendations":[],"rules_applied":["one"],"meta_insight":"","analysis_data":{"x":1}}`; err != nil || string(result.Value) != want {
		t.Errorf("got %s, %v", result.Value, err)
	}
	for name, c := range map[string]struct {
		body  string
		class ir.Class
		says  string
	}{
		"fails":    {"echo why >&2; exit 4", ir.ClassCommand, "exit code 4: why"},
		"text":     {"echo hello", ir.ClassInvalid, "not JSON"},
		"contract": {`echo '{"meta_insight": 1}'`, ir.ClassInvalid, "recommendations"},
	} {
		_, err := run(script(name, c.body))
		var f *step.Error
		if !errors.As(err, &f) || f.Class != c.class || !strings.Contains(f.Message, c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := run([]string{"no-such-program"}); err == nil {
		t.Error("a program that is not there")
	}
	k := worker.Runner{}
	if k.Recovery(nil, nil) != step.Rerun ||
		k.Recovery(nil, []journal.TaskNoted{{Kind: journal.NoteCommand}}) != step.Ask {
		t.Error("recovery")
	}
}
