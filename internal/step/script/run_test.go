//go:build unix

package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/script"
	"github.com/espalier-run/espalier/internal/step/steptest"
)

func sh(code string) steptest.Settings { return steptest.Settings{"language": "sh", "script": code} }

func TestScriptStepsKeepResultsWhenInterrupted(t *testing.T) {
	notes := []string{journal.NoteCommand}
	plays := []steptest.Play{
		{Name: "text", Settings: sh("echo hello; echo there"), Value: `"hello\nthere"`, Notes: notes},
		{Name: "JSON", Settings: sh(`echo '{"a": [1, 2.50]}'`), Value: `{"a":[1,2.50]}`},
		{Name: "nothing", Settings: sh(":"), Value: `""`},
		{Name: "what it reads", Settings: sh("cat"), Value: `{"a":"what a says"}`},
		{Name: "not quite JSON", Settings: sh(`echo '{"a": 1} and more'`), Value: `"{\"a\": 1} and more"`},
		{Name: "what is not text", Settings: sh(`printf '\377x'`), Value: `"�x"`},
		{Name: "who it is", Settings: sh(`printf "$ESPALIER_RUN_ID $ESPALIER_STEP $ESPALIER_KEY"`), Value: `"r1 work /work#0"`},
		{Name: "its trace", Settings: sh(`printf "$TRACEPARENT"`), Value: string(step.JSON(journal.TraceParent("", "r1")))},
		{Name: "a failure", Settings: sh("echo why >&2; exit 3"), Class: ir.ClassCommand, Notes: notes},
		{
			Name: "a language that is not there", Settings: steptest.Settings{"language": "cobol", "script": "x"},
			Class: ir.ClassMissing, Notes: []string{},
		},
		{Name: "F46: what is there", Settings: steptest.Settings{"language": "sh", "script": "echo 1", "dependencies": []string{"cat", "sh >= 1"}}, Value: `1`},
		{Name: "F46: what is not", Settings: steptest.Settings{
			"language": "sh", "script": "echo 1", "dependencies": []string{"no-such-command"},
		}, Class: ir.ClassMissing, Notes: []string{}},
	}
	for language, code := range map[string]string{
		"bash":       `read -r line; [[ $line == *"what a says"* ]] && echo '{"ok": true}'`,
		"python":     `import json, sys; print(json.dumps({"ok": json.load(sys.stdin)["a"] == "what a says"}))`,
		"javascript": `const read = JSON.parse(require("fs").readFileSync(0, "utf8")); console.log(JSON.stringify({ok: read.a === "what a says"}))`,
	} {
		if _, err := exec.LookPath(map[string]string{
			"bash": "bash", "python": "python3", "javascript": "node",
		}[language]); err == nil {
			plays = append(plays, steptest.Play{Name: language, Settings: steptest.Settings{"language": language, "script": code}, Value: `{"ok":true}`})
		}
	}
	for i := range plays {
		plays[i].Repeats = true // only a person has a command run again
	}
	steptest.Runs(t, script.Runner{}, plays...)
}

func failure(t *testing.T, p steptest.Play) *step.Error {
	t.Helper()
	_, err := p.Done(t, script.Runner{}, &steptest.Log{}, &steptest.World{})
	var f *step.Error
	if !errors.As(err, &f) {
		t.Fatalf("got %v", err)
	}
	return f
}

func TestFailuresHaveTheExitCodeAndTheEndOfTheOutput(t *testing.T) {
	f := failure(t, steptest.Play{Settings: sh(`i=0; while [ $i -lt 100 ]; do echo "line $i" >&2; i=$((i+1)); done; exit 9`)})
	if f.Exit != 9 || !strings.Contains(f.Message, "exit code 9") || !strings.HasSuffix(f.Message, "line 99") ||
		strings.Contains(f.Message, "line 79\n") {
		t.Error(f.Message)
	}
	if f = failure(t, steptest.Play{Settings: sh(`kill -9 $$`)}); f.Exit != 137 || !strings.Contains(f.Message, "killed") {
		t.Error(f.Message)
	}
	if f = failure(t, steptest.Play{Settings: sh(`yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa`)}); !strings.Contains(f.Message, "16 MiB") {
		t.Error(f.Message)
	}
}

func TestMissingInterpreterErrorSaysWhereToGetIt(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	f := failure(t, steptest.Play{Settings: steptest.Settings{"language": "javascript", "script": "1"}})
	if f.Class != ir.ClassMissing || !strings.Contains(f.Message, "node") ||
		!strings.Contains(f.Message, "nodejs.org") {
		t.Error(f.Message)
	}
}

// Modules of the language are looked for too, all missing ones are named,
// and nothing is installed.
func TestAllMissingModulesAreNamed(t *testing.T) {
	for language, c := range map[string]struct{ program, there, install string }{
		"python":     {"python3", "json", "pip install"},
		"javascript": {"node", "fs", "npm install"},
	} {
		if _, err := exec.LookPath(c.program); err != nil {
			t.Logf("%s is not there", c.program)
			continue
		}
		f := failure(t, steptest.Play{Settings: steptest.Settings{
			"language": language, "script": "1",
			"dependencies": []string{c.there, "no-such-thing>=2", "nor_this[x]==1.0", "@nor/that@4"},
		}})
		if f.Class != ir.ClassMissing || !strings.Contains(f.Message,
			c.install+" no-such-thing nor_this @nor/that") || strings.Contains(f.Message, c.there+",") {
			t.Error(f.Message)
		}
	}
}

func TestScriptsSeeNoSecretsAndHaveAPrivateFolder(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "secret")
	dir := filepath.Join(t.TempDir(), "run")
	log := &steptest.Log{}
	job := steptest.Play{Settings: sh(`pwd > here; env > vars; ls`)}.Job("script", dir, log, &steptest.World{})
	if _, err := (script.Runner{}).Run(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	vars, err := os.ReadFile(filepath.Join(dir, "vars"))
	if err != nil || strings.Contains(string(vars), "secret") || !strings.Contains(string(vars), "PATH=") {
		t.Errorf("%s, %v", vars, err)
	}
}

// A script that was noted may have run; one that was not noted has not.
func TestScriptsThatMayHaveRunAsk(t *testing.T) {
	k := script.Runner{}
	if got := k.Recovery(nil, nil); got != step.Rerun {
		t.Errorf("not noted: %v", got)
	}
	if got := k.Recovery(nil, []journal.TaskNoted{{Kind: journal.NoteCommand}}); got != step.Ask {
		t.Errorf("noted: %v", got)
	}
	dir := t.TempDir()
	log := &steptest.Log{StopAt: 1}
	job := steptest.Play{Settings: sh(`echo x >> effects`)}.Job("script", dir, log, &steptest.World{})
	if _, err := k.Run(t.Context(), job); !errors.Is(err, steptest.ErrStopped) {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "effects")); err == nil {
		t.Error("the script ran before it was noted")
	}
}

func TestCanceledScriptsReturnTheCause(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if out, err := exec.Command("mkfifo", pipe).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		if _, err := os.ReadFile(pipe); err == nil { // until the script has written to it
			cancel(why)
		}
	}()
	job := steptest.Play{Settings: sh(`echo on > pipe; sleep 1000`)}.Job("script", dir, &steptest.Log{}, &steptest.World{})
	if _, err := (script.Runner{}).Run(ctx, job); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

func TestReadsAreByTheirLastNames(t *testing.T) {
	log := &steptest.Log{}
	result, err := steptest.Play{Settings: sh("cat"), With: func(j *step.Job) {
		j.Reads = []step.Read{{Path: "state.x.y", Value: json.RawMessage(`1`)}, {Path: "input", Value: json.RawMessage(`{"z":"<&>"}`)}}
	}}.Done(t, script.Runner{}, log, &steptest.World{})
	if err != nil || string(result.Value) != `{"input":{"z":"<&>"},"y":1}` {
		t.Errorf("%s, %v", result.Value, err)
	}
}
