package step_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
)

func producing(t *testing.T, files ...string) *step.Job {
	t.Helper()
	job := &step.Job{Run: "r1", Host: step.Host{Dir: t.TempDir()}, Workflow: &ir.Program{Name: "flow"}, Step: &ir.Step{
		ID: "work", ReasonOK: "FINE", ReasonFail: "SAD",
	}}
	for _, f := range files {
		job.Step.Produces = append(job.Step.Produces, ir.Name{Name: f})
	}
	return job
}

func missing(r step.Result) map[string]string {
	out := map[string]string{}
	for _, n := range r.Notes {
		if m, ok := n.Data.(journal.MissingFile); ok && n.Kind == journal.NoteMissingFile {
			out[m.Path] = m.Why
		}
	}
	return out
}

func TestFilesAreWrittenFromResults(t *testing.T) {
	for name, c := range map[string]struct {
		file, value string
		content     string // "" is a missing file
	}{
		"text":                      {"report.md", `"# Hello"`, "# Hello\n"},
		"text in a folder":          {"out/deep/report.txt", `"a\n"`, "a\n"},
		"text as a table":           {"t.csv", `"a,b\n1,2"`, "a,b\n1,2\n"},
		"an object":                 {"data.json", `{"a":[1]}`, "{\n  \"a\": [\n    1\n  ]\n}\n"},
		"JSON in a text":            {"data.json", `"{\"a\":1}"`, "{\"a\":1}\n"},
		"a text as JSON":            {"data.json", `"hello"`, "\"hello\"\n"},
		"an object to read":         {"notes.md", `{"a":1}`, "{\n  \"a\": 1\n}\n"},
		"the part called like it":   {"report.md", `{"report":"# Hi","data":1}`, "# Hi\n"},
		"the part called just that": {"report.md", `{"report.md":"# Hi","report":"no"}`, "# Hi\n"},
		"an object is no table":     {"t.csv", `{"a":1}`, ""},
		"an object is no page":      {"t.html", `[1]`, ""},
		"text is no picture":        {"report.pdf", `"# Hello"`, ""},
		"nor anything unknown":      {"thing", `"# Hello"`, ""},
		"nothing is no file":        {"report.md", `null`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			job := producing(t, c.file)
			r := job.Finish(nil, step.Result{Value: json.RawMessage(c.value)}, nil)
			got, err := os.ReadFile(filepath.Join(job.Dir, c.file))
			if c.content == "" {
				if err == nil || missing(r)[c.file] == "" {
					t.Errorf("%q, %v, %v", got, err, missing(r))
				}
				return
			}
			if err != nil || string(got) != c.content || len(r.Notes) > 0 {
				t.Errorf("%q, %v, %v", got, err, missing(r))
			}
			if entries, err := os.ReadDir(filepath.Dir(filepath.Join(job.Dir, c.file))); err != nil ||
				len(entries) != 1 {
				t.Errorf("left behind: %v, %v", entries, err)
			}
			if info, err := os.Stat(filepath.Join(job.Dir, c.file)); err != nil ||
				runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
		})
	}
}

func TestFilesOfTheStepAreNotReplaced(t *testing.T) {
	command := []journal.TaskNoted{{Kind: journal.NoteCommand}}
	for name, c := range map[string]struct {
		history []journal.TaskNoted
		visit   int
		want    string
	}{
		"made by a command":             {history: command, want: "old"},
		"made by a command, once more":  {history: command, visit: 1, want: "old"},
		"made by another step":          {want: "old"},
		"made of what it gave the last": {visit: 1, want: "new\n"},
	} {
		t.Run(name, func(t *testing.T) {
			job := producing(t, "report.md")
			job.Visit = c.visit
			if err := os.WriteFile(filepath.Join(job.Dir, "report.md"), []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			r := job.Finish(c.history, step.Result{Value: json.RawMessage(`"new"`)}, nil)
			got, err := os.ReadFile(filepath.Join(job.Dir, "report.md"))
			if err != nil || string(got) != c.want || len(r.Notes) > 0 {
				t.Errorf("%q, %v, %v", got, err, missing(r))
			}
		})
	}
}

func TestFilesStayInTheFolder(t *testing.T) {
	outside := t.TempDir()
	job := producing(t, "../up.md", filepath.Join(outside, "abs.md"), "link/in.md", "dir", "a/../../up.md")
	if err := os.Symlink(outside, filepath.Join(job.Dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(job.Dir, "dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	r := job.Finish(nil, step.Result{Value: json.RawMessage(`"x"`)}, nil)
	if len(missing(r)) != 5 {
		t.Errorf("%v", missing(r))
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(job.Dir), "up.md")); err == nil {
		t.Error("a file was written beside the folder")
	}
}

func TestAuditOutputIsWritten(t *testing.T) {
	job := producing(t)
	job.Step.AuditFile = "audit/work.json"
	job.Reads = []step.Read{{Path: "state.a", Value: json.RawMessage(`1`)}}
	job.Branches = []step.Branch{{Name: "w1", Outcome: ir.OK, Value: json.RawMessage(`2`)}}
	notes := []journal.TaskNoted{{Kind: journal.NoteReply, Usage: journal.Usage{ModelCalls: 1, InputTokens: 5}}}
	last := []step.Note{{
		Kind: journal.NoteMerge, Data: journal.MergeDecision{Key: "k", Why: "majority"},
		Usage: journal.Usage{InputTokens: 2},
	}}
	read := func(r step.Result, err error) string {
		t.Helper()
		if got := job.Finish(notes, r, err); len(missing(got)) > 0 {
			t.Error(missing(got))
		}
		raw, err := os.ReadFile(filepath.Join(job.Dir, "audit", "work.json"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(string(raw)), "")
	}
	got := read(step.Result{Value: json.RawMessage(`{"b":3}`), Notes: last}, nil)
	for _, want := range []string{
		`"workflow":"flow"`, `"run":"r1"`, `"step":"work"`, `"attempt":1`, `"reads":[{"path":"state.a","value":1}]`, `"result":{"b":3}`, `"reason":"FINE"`,
		`"workers":[{"worker":"w1","outcome":"ok","value":2}]`, `"key":"k"`, `"usage":{"model_calls":1,"input_tokens":7}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	got = read(step.Result{}, step.Errorf(ir.ClassTool, "broken"))
	for _, want := range []string{`"error":"broken"`, `"class":"TOOL_ERROR"`, `"reason":"SAD"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
}

func TestFailedStepsWriteNoFiles(t *testing.T) {
	job := producing(t, "report.md")
	if r := job.Finish(nil, step.Result{Value: json.RawMessage(`"x"`)}, errors.New("failed")); len(r.Notes) > 0 {
		t.Error(missing(r))
	}
	if entries, err := os.ReadDir(job.Dir); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

// The run's folder is created for the first file, and the reason is noted if that fails.
func TestRunFolderIsCreatedForTheFirstFile(t *testing.T) {
	job := producing(t, "report.md")
	job.Dir = filepath.Join(job.Dir, "runs", "r1")
	if r := job.Finish(nil, step.Result{Value: json.RawMessage(`"x"`)}, nil); len(missing(r)) > 0 {
		t.Errorf("%v", missing(r))
	}
	job.Dir = filepath.Join(job.Dir, "report.md", "below-a-file")
	if r := job.Finish(nil, step.Result{Value: json.RawMessage(`"x"`)}, nil); missing(r)["report.md"] == "" {
		t.Error("it is not noted")
	}
}

// A result never becomes configuration of a program that runs later.
func TestProducedFilesAreNeverConfiguration(t *testing.T) {
	for _, name := range []string{
		".git/config.txt", "espalier.yaml", "sub/.claude/settings.json", ".mcp.json", "agentfile.yaml",
		".ENVRC.txt", "CLAUDE.md",
	} {
		job := producing(t, name)
		job.Step.AuditFile = name
		r := job.Finish(nil, step.Result{Value: json.RawMessage(`"x"`)}, nil)
		if _, err := os.Stat(filepath.Join(job.Dir, name)); err == nil || missing(r)[name] == "" {
			t.Errorf("%s: %v, %v", name, err, missing(r))
		}
	}
}
