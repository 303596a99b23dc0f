package artifact_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/artifact"
	"github.com/espalier-run/espalier/internal/step/chat"
	"github.com/espalier-run/espalier/internal/step/steptest"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
	"github.com/espalier-run/espalier/internal/usertest"
)

func says(texts ...string) []steptest.Reply {
	var out []steptest.Reply
	for _, t := range texts {
		out = append(out, steptest.Reply{Text: t})
	}
	return out
}

func TestArtifactStepsKeepResultsWhenInterrupted(t *testing.T) {
	root := t.TempDir()
	with := func(j *step.Job) {
		j.Project = root
		j.Reads = []step.Read{
			{Path: "agentfile.run", Value: json.RawMessage(`"2026-02-23T10-41-22"`)},
			{Path: "input.AGENT_INPUT", Value: json.RawMessage(`"roses"`)},
			{Path: "artifacts.all", Value: json.RawMessage(`{"a.md":"A","b.md":"B"}`)},
		}
	}
	base := func(produces string, inputs ...kinds.ArtifactInput) steptest.Settings {
		return steptest.Settings{
			"agent": "plain", "goal": "Do it.", "workflow": "w",
			"folder": filepath.Join(root, "workflows/w"), "produces": produces, "inputs": inputs,
		}
	}
	asked := kinds.ArtifactInput{Name: "AGENT_INPUT", Read: "input.AGENT_INPUT"}
	notes := []string{journal.NotePrompt, journal.NoteReply}
	plays := []steptest.Play{
		{Name: "a file", Settings: base("outputs/a.md", asked), Replies: says("hello"), Value: `"hello"`, Notes: notes},
		{
			Name: "YAML in a fence", Settings: base("outputs/a.yaml", asked), Replies: says("```yaml\na: 1\n```"),
			Value: `"a: 1\n"`,
		},
		{
			Name: "G11: a folder", Settings: base("outputs/all/", asked),
			Replies: says("##FILE: x.md##\nX\n##END##\n=##FILE: all/sub/y.md##\nY\n##END##"),
			Value:   `{"x.md":"X\n","sub/y.md":"Y\n"}`,
		},
		{
			Name: "marks as headings", Settings: base("outputs/all/", asked),
			Replies: says("Sure!\n\n## FILE: x.md ##\nX\n## END\n## END ##\n### FILE: y.md\nY\n### END\nDone."),
			Value:   `{"x.md":"X\n## END\n","y.md":"Y\n"}`,
		},
		{
			Name: "a table in a fence, with prose around it", Settings: base("outputs/a.csv", asked),
			Replies: says("Here is the table:\n\n```csv\na,b\n1,2\n```\n\nLet me know."), Value: `"a,b\n1,2\n"`,
		},
		{
			Name: "G11: no marks", Settings: base("outputs/none/", asked), Replies: says("just text"),
			Value: `{"index.md":"just text"}`,
		},
		{
			Name: "G11: out of the folder, then inside", Settings: base("outputs/out/", asked),
			Replies: says("##FILE: ../../x.md##\nX\n##END##", "##FILE: x.md##\nX\n##END##"), Value: `{"x.md":"X\n"}`,
		},
		{
			Name:     "a file of a folder",
			Settings: base("outputs/b.md", kinds.ArtifactInput{Name: "b.md", Read: "artifacts.all", Part: "b.md"}),
			Replies:  says("ok"), Value: `"ok"`,
		},
		{
			Name:     "one that is not there",
			Settings: base("outputs/b.md", kinds.ArtifactInput{Name: "c.md", Read: "artifacts.all", Part: "c.md"}),
			Class:    ir.ClassInput,
		},
		{
			Name:     "nothing given",
			Settings: base("outputs/b.md", kinds.ArtifactInput{Name: "x", Read: "artifacts.none"}),
			Class:    ir.ClassInput,
		},
		{
			Name:     "a file that is not there",
			Settings: base("outputs/b.md", kinds.ArtifactInput{Name: "x", File: "outputs/none.txt"}),
			Class:    ir.ClassMissing,
		},
	}
	for i := range plays {
		plays[i].With = with
	}
	steptest.Runs(t, artifact.Runner{}, plays...)
	run := filepath.Join(root, "outputs/w/2026-02-23T10-41-22/execution")
	for name, want := range map[string]string{
		"a.md": "hello\n", "a.yaml": "a: 1\n", "all/sub/y.md": "Y\n",
		"none/index.md": "just text\n", "out/x.md": "X\n",
	} {
		if raw, err := os.ReadFile(filepath.Join(run, name)); err != nil || string(raw) != want {
			t.Errorf("G5: %s: %q %v", name, raw, err)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "outputs/w/x.md")); err == nil {
		t.Error("a reply has written outside of its folder")
	}
}

// The prompt is the skill and the goal, the inputs as data under their names,
// and the form of the reply. The system prompt is the agent's, followed by
// what data is.
func TestPromptsNameInputsAndProducts(t *testing.T) {
	world := &steptest.World{Replies: says("ok")}
	p := steptest.Play{
		Settings: steptest.Settings{
			"agent": "plain", "skill": "# Skill: S\n", "goal": "Do it.", "workflow": "w", "folder": "f",
			"produces": "outputs/a.md",
			"inputs": []kinds.ArtifactInput{
				{Name: "AGENT_INPUT", Read: "state.a"}, {Name: "data/x.txt", Text: "data\n"},
			},
		},
		With: func(j *step.Job) { j.Project = t.TempDir() },
	}
	job := p.Job("artifact", t.TempDir(), &steptest.Log{}, world)
	if _, err := (artifact.Runner{}).Run(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	want := "# Skill: S\n\nGoal: Do it.\n\n<data name=\"AGENT_INPUT\">\nwhat a says\n</data>\n\n" +
		"<data name=\"data/x.txt\">\ndata\n</data>\n\n" +
		"Reply with the complete content of the file a.md and nothing else."
	if got := world.Requests[0].Messages[0].Blocks[0].Text; got != want {
		t.Errorf("got %q", got)
	}
	if system := world.Requests[0].System; !strings.HasSuffix(system, chat.AboutData) {
		t.Errorf("got %q", system)
	}
}

// A file whose name ends in .json contains JSON, however the model wraps it; a reply without JSON is requested again.
func TestJSONFilesHoldJSON(t *testing.T) {
	root := t.TempDir()
	p := steptest.Play{
		Settings: steptest.Settings{
			"agent": "plain", "goal": "g", "workflow": "w", "folder": filepath.Join(root, "w"),
			"produces": "artifacts/a.json",
		},
		With: func(j *step.Job) { j.Project = root },
	}
	world := &steptest.World{Replies: says("I cannot do that.", "Here it is:\n```json\n{\"a\": [1, 2,]}\n```\nEnjoy!")}
	result, err := p.Done(t, artifact.Runner{}, &steptest.Log{}, world)
	if err != nil || len(world.Requests) != 2 {
		t.Fatalf("%v after %d requests", err, len(world.Requests))
	}
	want := "{\n  \"a\": [\n    1,\n    2\n  ]\n}\n"
	if raw, err := os.ReadFile(filepath.Join(root, "artifacts", "a.json")); err != nil || string(raw) != want {
		t.Errorf("the file has %q, %v", raw, err)
	}
	if got := ir.PlainText(result.Value); got != want {
		t.Errorf("the result is %q", got)
	}
	if asked := world.Requests[0].Messages[0].Blocks[0].Text; !strings.Contains(asked, "JSON") {
		t.Errorf("the model is not asked for JSON: %q", asked)
	}
}

// The base folders of paths.
func TestPathsResolveToTheirFolders(t *testing.T) {
	root := t.TempDir()
	for produces, want := range map[string]string{
		"outputs/a.md": "outputs/w/run/execution/a.md", "artifacts/x/a.md": "artifacts/x/a.md",
		"shared/a.md":      "shared/a.md",
		"workflows/v/a.md": "workflows/v/a.md", "notes/a.md": "workflows/w/notes/a.md",
		"artifacts/{workflow_name}/{run_id}/a.md": "artifacts/made/r1/a.md",
	} {
		p := steptest.Play{
			Settings: steptest.Settings{
				"agent": "plain", "goal": "g", "workflow": "w",
				"folder": filepath.Join(root, "workflows/w"), "produces": produces,
			},
			With: func(j *step.Job) {
				j.Project = root
				j.Reads = []step.Read{
					{Path: "agentfile.run", Value: json.RawMessage(`"run"`)},
					{Path: "input.workflow_name", Value: json.RawMessage(`"made"`)},
					{Path: "input.run_id", Value: json.RawMessage(`"r1"`)},
				}
			},
		}
		job := p.Job("artifact", t.TempDir(), &steptest.Log{}, &steptest.World{Replies: says(produces)})
		if _, err := (artifact.Runner{}).Run(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		if raw, err := os.ReadFile(filepath.Join(root, want)); err != nil || string(raw) != produces+"\n" {
			t.Errorf("%s: %q %v", produces, raw, err)
		}
	}
}

// A program says where the files of its runs are. Stored programs have no layout, but at most the folder of the runs.
func TestFilesAreWhereTheProgramSays(t *testing.T) {
	layout := kinds.ArtifactLayout{
		Run: "run", Outputs: "out", Dir: "runs/{run}/files", Shared: []string{"common"},
		Placeholders: []kinds.ArtifactPlaceholder{{Name: "who", Read: "input.who", Default: "w-{run}"}},
	}
	for produces, c := range map[string]struct {
		setting string
		value   any
		want    string
	}{
		"outputs/a.md":      {"runs", "workflows/w/outputs", "workflows/w/outputs/r1/a.md"},
		"out/a.md":          {"layout", layout, "runs/r1/files/a.md"},
		"common/{who}/a.md": {"layout", layout, "common/w-r1/a.md"},
		"outputs/b.md":      {"layout", layout, "workflows/w/outputs/b.md"},
	} {
		root := t.TempDir()
		p := steptest.Play{
			Settings: steptest.Settings{
				"agent": "plain", "goal": "g", "workflow": "w", "folder": filepath.Join(root, "workflows/w"),
				"produces": produces, c.setting: c.value,
			},
			With: func(j *step.Job) {
				j.Project = root
				for _, name := range []string{"run", "agentfile.run"} {
					j.Reads = append(j.Reads, step.Read{Path: name, Value: json.RawMessage(`"r1"`)})
				}
			},
		}
		job := p.Job("artifact", t.TempDir(), &steptest.Log{}, &steptest.World{Replies: says("text")})
		if _, err := (artifact.Runner{}).Run(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		if raw, err := os.ReadFile(filepath.Join(root, c.want)); err != nil || string(raw) != "text\n" {
			t.Errorf("%s: %q %v", produces, raw, err)
		}
	}
}

// Scripts run in the workflow's folder, with a minimal environment.
func TestScriptsRunInTheWorkflowFolder(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no bash")
	}
	t.Setenv("A_SECRET", "hush")
	root := t.TempDir()
	folder := filepath.Join(root, "workflows/w")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	text := `echo "$PWD|$AGENT_INPUT|$TASK|$AGENTFILE_RUN_ID|$AGENTFILE_RUN_DIR|` +
		`$AGENTFILE_WORKFLOW|${A_SECRET-none}|$ESPALIER_KEY|$0"`
	play := steptest.Play{
		Settings: steptest.Settings{
			"scripts":  []kinds.ShellScript{{Shell: "bash", Path: "x.sh", Text: text}},
			"variable": "TASK", "workflow": "w", "folder": folder,
		},
		With: func(j *step.Job) {
			j.Project, j.MayRunCommands = root, true
			j.Reads = []step.Read{
				{Path: "agentfile.run", Value: json.RawMessage(`"run"`)},
				{Path: "input.TASK", Value: json.RawMessage(`"roses"`)},
			}
		},
	}
	for _, same := range []bool{true, false} {
		content := text
		if !same {
			content = "echo another"
		}
		if err := os.WriteFile(filepath.Join(folder, "x.sh"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		result, err := play.Done(t, artifact.ShellRunner{}, &steptest.Log{}, &steptest.World{})
		if err != nil {
			t.Fatal(err)
		}
		var printed string
		if err := json.Unmarshal(result.Value, &printed); err != nil {
			t.Fatal(err)
		}
		want := strings.Join([]string{
			folder, "roses", "roses", "run", filepath.Join(root, "outputs/w/run/execution"),
			"w", "none", "/work#0",
		}, "|")
		if !strings.HasPrefix(printed, want) || strings.Contains(printed, folder+"/x.sh") != same {
			t.Errorf("got %s", printed)
		}
	}
	// An input that is too long for the environment is in a file while the script runs.
	long := play
	long.Settings = steptest.Settings{"scripts": []kinds.ShellScript{{
		Shell: "bash", Path: "long.sh",
		Text: `echo "${AGENT_INPUT-none} $(wc -c < "$AGENT_INPUT_FILE") $TASK_FILE"`,
	}}, "variable": "TASK", "workflow": "w", "folder": folder}
	long.With = func(j *step.Job) {
		play.With(j)
		j.Reads[1].Value = step.JSON(strings.Repeat("x", 200<<10))
	}
	result, err := long.Done(t, artifact.ShellRunner{}, &steptest.Log{}, &steptest.World{})
	var printed string
	if err != nil || json.Unmarshal(result.Value, &printed) != nil || !strings.HasPrefix(printed, "none 204800 /") {
		t.Errorf("%s, %v", result.Value, err)
	}
	if _, err := os.Stat(strings.TrimSpace(strings.TrimPrefix(printed, "none 204800 "))); err == nil {
		t.Error("the file is still there")
	}
	refused := play
	refused.With = func(j *step.Job) { play.With(j); j.MayRunCommands = false }
	if _, err := refused.Done(t, artifact.ShellRunner{}, &steptest.Log{}, &steptest.World{}); err == nil {
		t.Error("a script ran without approval")
	}
}

// Bash is preferred to pwsh; without both, the error names what the step needs. A fake pwsh prints its command
// line.
func TestFirstInstalledShellRuns(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the stand-in is a script of sh")
	}
	both := []kinds.ShellScript{
		{Shell: "bash", Path: "x.sh", Text: "echo bash"},
		{Shell: "pwsh", Path: "x.ps1", Text: "Write-Output x"},
	}
	for name, c := range map[string]struct {
		installed string
		scripts   []kinds.ShellScript
		want      string // part of the output, or of the error
	}{
		"both":       {"bash pwsh", both, "as bash"},
		"only pwsh":  {"pwsh", both, "as pwsh -NoProfile -NonInteractive -File"},
		"other kind": {"bash", both[1:], "needs pwsh, which is not installed"},
		"neither":    {"", both, "needs bash or pwsh, which is not installed"},
	} {
		t.Run(name, func(t *testing.T) {
			bin, root := t.TempDir(), t.TempDir()
			for _, shell := range strings.Fields(c.installed) {
				if err := os.WriteFile(filepath.Join(bin, shell), []byte("#!/bin/sh\necho as "+shell+" \"$@\"\n"),
					0o755); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", bin)
			play := steptest.Play{
				Settings: steptest.Settings{"scripts": c.scripts, "variable": "TASK", "workflow": "w", "folder": root},
				With: func(j *step.Job) {
					j.Project, j.MayRunCommands = root, true
					j.Reads = []step.Read{{Path: "agentfile.run", Value: json.RawMessage(`"run"`)}}
				},
			}
			result, err := play.Done(t, artifact.ShellRunner{}, &steptest.Log{}, &steptest.World{})
			got := string(result.Value)
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("got %s", got)
			}
		})
	}
}

// The files of a folder that a script fills are the result, as with an agent.
func TestScriptProducesAFolder(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no bash")
	}
	root := t.TempDir()
	text := `mkdir -p "$AGENTFILE_RUN_DIR/all/sub"; echo A > "$AGENTFILE_RUN_DIR/all/a.md"; echo B > ` +
		`"$AGENTFILE_RUN_DIR/all/sub/b.md"`
	play := steptest.Play{
		Settings: steptest.Settings{
			"scripts":  []kinds.ShellScript{{Shell: "bash", Path: "x.sh", Text: text}},
			"workflow": "w", "folder": root, "produces": "outputs/all/",
		},
		With: func(j *step.Job) {
			j.Project, j.MayRunCommands = root, true
			j.Reads = []step.Read{{Path: "agentfile.run", Value: json.RawMessage(`"run"`)}}
		},
	}
	result, err := play.Done(t, artifact.ShellRunner{}, &steptest.Log{}, &steptest.World{})
	if want := `{"a.md":"A\n","sub/b.md":"B\n"}`; err != nil || string(result.Value) != want {
		t.Errorf("got %s %v", result.Value, err)
	}
	play.Settings["produces"] = "outputs/none/"
	if _, err := play.Done(t, artifact.ShellRunner{}, &steptest.Log{}, &steptest.World{}); err == nil {
		t.Error("a folder that is not there was produced")
	}
}

// Only the files that a step has produced count as edited, not other files beside them, and hidden files are kept.
func TestEditedReportsChangedProducts(t *testing.T) {
	for name, c := range map[string]struct {
		produces, was string
		change        map[string]string // relative to the run's folder; "" removes the file
		want          string            // "" means unchanged
	}{
		"nothing": {produces: "outputs/all/", was: `{"a.md":"A\n",".hidden":"H\n"}`},
		"a file": {
			produces: "outputs/a.md", was: `"A\n"`,
			change: map[string]string{"a.md": "B\n"}, want: `"B\n"`,
		},
		"a file of a folder": {
			produces: "outputs/all/", was: `{"a.md":"A\n",".hidden":"H\n"}`,
			change: map[string]string{"all/a.md": "B\n"}, want: `{".hidden":"H\n","a.md":"B\n"}`,
		},
		"one more": {
			produces: "outputs/all/", was: `{"a.md":"A\n"}`,
			change: map[string]string{"all/b.md": "B\n"}, want: `{"a.md":"A\n","b.md":"B\n"}`,
		},
		"one less": {
			produces: "outputs/all/", was: `{"a.md":"A\n","b.md":"B\n"}`,
			change: map[string]string{"all/b.md": ""}, want: `{"a.md":"A\n"}`,
		},
		"one that an editor leaves": {
			produces: "outputs/all/", was: `{"a.md":"A\n"}`,
			change: map[string]string{"all/.a.md.swp": "x"},
		},
		"the run's own folder": {
			produces: "outputs/", was: `{"a.md":"A\n"}`,
			change: map[string]string{"execution-state.json": "{}"},
		},
		"a file of the run's own folder": {
			produces: "outputs/", was: `{"a.md":"A\n"}`,
			change: map[string]string{"a.md": "B\n", "other.md": "x"}, want: `{"a.md":"B\n"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			run := filepath.Join(root, "outputs/w/run/execution")
			put := func(name, text string) {
				name = filepath.Join(run, name)
				if text == "" {
					if err := os.Remove(name); err != nil {
						t.Fatal(err)
					}
					return
				}
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			below := strings.TrimPrefix(c.produces, "outputs/")
			var files map[string]string
			if json.Unmarshal([]byte(c.was), &files) != nil {
				put(below, "A\n")
			}
			for name, text := range files {
				put(below+name, text)
			}
			for name, text := range c.change {
				put(name, text)
			}
			task := ir.Task{Kind: "artifact"}
			for key, value := range map[string]string{
				"agent": "a", "workflow": "w", "folder": root,
				"produces": c.produces,
			} {
				task.Settings.Put(key, value, source.Span{})
			}
			p := &ir.Program{Blocks: []ir.Block{
				{Steps: []ir.Step{{ID: "one", Action: task, Writes: []ir.Write{{Path: "artifacts.one"}}}}},
			}}
			file, err := artifact.FileOf(p, root, "artifacts.one", json.RawMessage(c.was), func(path string) string {
				return map[string]string{"agentfile.run": "run"}[path]
			})
			if err != nil {
				t.Fatal(err)
			}
			if file.Changed != (c.want != "") || string(file.Now) != c.want {
				t.Errorf("got %s %v, want %s", file.Now, file.Changed, c.want)
			}
		})
	}
}

// All products are copied, including those of the same name.
func TestCopiesAllProducts(t *testing.T) {
	root := t.TempDir()
	play := steptest.Play{
		Settings: steptest.Settings{
			"output": "artifacts.one", "directory": "results/{run_id}", "workflow": "w", "folder": root,
			"products": []kinds.HandoverProduct{
				{Read: "artifacts.one", Path: "outputs/en/a.md"},
				{Read: "artifacts.two", Path: "outputs/de/a.md"},
				{Read: "artifacts.all", Path: "outputs/all/"},
			},
		},
		With: func(j *step.Job) {
			j.Project = root
			j.Reads = []step.Read{
				{Path: "agentfile.run", Value: json.RawMessage(`"run"`)},
				{Path: "artifacts.one", Value: json.RawMessage(`"one"`)},
				{Path: "artifacts.two", Value: json.RawMessage(`"two"`)},
				{Path: "artifacts.all", Value: json.RawMessage(`{"x.md":"X"}`)},
			}
		},
	}
	result, err := play.Done(t, artifact.HandoverRunner{}, &steptest.Log{}, &steptest.World{})
	if err != nil || string(result.Value) != `"one"` {
		t.Errorf("got %s %v", result.Value, err)
	}
	for name, want := range map[string]string{"en/a.md": "one\n", "de/a.md": "two\n", "all/x.md": "X\n"} {
		if raw, err := os.ReadFile(filepath.Join(root, "results/run", name)); err != nil || string(raw) != want {
			t.Errorf("%s: %q %v", name, raw, err)
		}
	}
}

// No path that a workflow or a model names becomes configuration of the next run, or part of a workflow.
func TestRepliesNeverBecomeConfiguration(t *testing.T) {
	usertest.Run(t, "^TestRepliesNeverBecomeConfiguration$")
	root := t.TempDir()
	folder := filepath.Join(root, "workflows/w")
	for _, dir := range []string{".git/hooks", "workflows/w"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join("..", ".git", "hooks"), filepath.Join(root, "workflows", "link")); err != nil {
		t.Fatal(err)
	}
	with := func(j *step.Job) {
		j.Project = root
		j.Reads = []step.Read{{Path: "agentfile.run", Value: json.RawMessage(`"r"`)}}
		j.Consents = func(_ string, content []byte) bool { return bytes.Contains(content, []byte("states:")) }
	}
	produce := func(produces, reply string) error {
		play := steptest.Play{
			Settings: steptest.Settings{
				"agent": "plain", "goal": "g", "workflow": "w", "folder": folder,
				"produces": produces,
			}, With: with,
			Replies: says(reply, reply, reply, reply),
		}
		_, err := play.Done(t, artifact.Runner{}, &steptest.Log{}, &steptest.World{Replies: play.Replies})
		return err
	}
	for _, path := range []string{
		"espalier.yaml", "shared/espalier.yaml", "workflows/other/.mcp.json", "outputs/.git/config", "agentfile.yaml",
		"outputs/.claude/settings.json", "workflow.yaml",
		"workflows/w/workflow.yaml", "workflows/new/agents/a.md", "skills/s.md", "scripts/cli/run.sh",
		"workflows/link/post-checkout", "shared/.GIT/config",
		"\u017fkills/s.md", "workflows/new/\uff41gents/a.md", "./Scripts/run.sh",
	} {
		if err := produce(path, "model: evil"); err == nil {
			t.Errorf("%s was written", path)
		}
	}
	for _, name := range []string{
		".git/hooks/post-checkout", "espalier.yaml", "deep/.mcp.json", "GIT~1/config",
		".g\u200cit/config",
	} {
		if err := produce("outputs/folder/", "##FILE: "+name+"##\nevil\n##END##"); err == nil {
			t.Errorf("the model chose %s", name)
		}
	}
	// Naming such a file runs its commands, and it is found by its name in every folder of the project.
	for produces, reply := range map[string]string{
		"outputs/release.yaml": "states: {}", "artifacts/release.yaml": "states: {}",
		"shared/release.yaml": "states: {}", "outputs/folder/": "##FILE: release.yaml##\nstates: {}\n##END##",
	} {
		if err := produce(produces, reply); err == nil {
			t.Errorf("%s: a workflow was written whose name is consent to its commands", produces)
		}
	}
	if err := produce("outputs/fine.md", "fine"); err != nil {
		t.Error(err)
	}
	// The folder of the workflow is the root of the project, or a shared folder.
	for _, one := range []string{"", "shared/w"} {
		folder = filepath.Join(root, one)
		for _, path := range []string{
			"workflow.yaml", "scripts/run.sh", "shared/w/skills/s.md",
			"workflows/new/agents/a.md",
		} {
			if one == "" && strings.HasPrefix(path, "shared/") {
				continue
			}
			if err := produce(path, "evil"); err == nil {
				t.Errorf("%s was written from %s", path, folder)
			}
		}
	}
}

// TestScriptsWriteInsideTheProject runs a script in a project whose outputs folder is a link to another folder.
func TestScriptsWriteInsideTheProject(t *testing.T) {
	for _, name := range []string{"outputs", "outputs/w"} {
		root, outside := t.TempDir(), t.TempDir()
		link := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, link); err != nil {
			t.Fatal(err)
		}
		play := steptest.Play{
			Settings: steptest.Settings{
				"scripts":  []kinds.ShellScript{{Shell: "bash", Path: "x.sh", Text: `echo x > "$AGENTFILE_RUN_DIR/x"`}},
				"workflow": "w", "folder": root,
			},
			With: func(j *step.Job) {
				j.Project, j.MayRunCommands = root, true
				j.Reads = []step.Read{{Path: "agentfile.run", Value: json.RawMessage(`"r"`)}}
			},
		}
		if _, err := play.Done(t, artifact.ShellRunner{}, &steptest.Log{}, &steptest.World{}); err == nil {
			t.Errorf("%s: the script was executed", name)
		}
		if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
			t.Errorf("%s: %v, %v", name, left, err)
		}
	}
}

// No name of a run leads its files out of the folder for outputs, wherever the name comes from.
func TestFilesOfARunStayInItsFolder(t *testing.T) {
	for _, name := range []string{
		"../../hack", "..", ".", "a/b", `a\b`, "/etc", "a/../../b", "../2026-02-23T10-41-22", " ", "a\x00b", "a\n",
	} {
		above := t.TempDir()
		root := filepath.Join(above, "project")
		if err := os.MkdirAll(filepath.Join(root, "workflows/w"), 0o755); err != nil {
			t.Fatal(err)
		}
		for kind, settings := range map[step.Runner]steptest.Settings{
			artifact.Runner{}: {"agent": "plain", "goal": "g", "produces": "outputs/a.md"},
			artifact.ShellRunner{}: {
				"scripts": []kinds.ShellScript{{Shell: "bash", Path: "x.sh", Text: `echo x > "$AGENTFILE_RUN_DIR/a.md"`}},
			},
			artifact.HandoverRunner{}: {
				"output": "artifacts.a", "directory": "outputs/copy",
				"products": []kinds.HandoverProduct{{Read: "artifacts.a", Path: "outputs/a.md"}},
			},
		} {
			settings["workflow"], settings["folder"] = "w", filepath.Join(root, "workflows/w")
			play := steptest.Play{Settings: settings, With: func(j *step.Job) {
				j.Project, j.MayRunCommands = root, true
				j.Reads = []step.Read{
					{Path: "agentfile.run", Value: step.JSON(name)}, {Path: "artifacts.a", Value: step.JSON("text")},
				}
			}}
			job := play.Job(kind.Name(), t.TempDir(), &steptest.Log{}, &steptest.World{Replies: says("text")})
			if _, err := kind.Run(t.Context(), job); err == nil || !strings.Contains(err.Error(), "run's folder") {
				t.Errorf("%s of run %q: %v", kind.Name(), name, err)
			}
		}
		if found := filesBelow(t, above); len(found) > 0 {
			t.Errorf("%q: %v", name, found)
		}
	}
}

// filesBelow returns the files below a folder with their contents.
func filesBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(at string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(at)
		name, _ := filepath.Rel(dir, at) // at is below dir
		found[filepath.ToSlash(name)] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A run that continues another one has copies of what it inherits: the products of the steps before as they were then,
// and files that are no product. The folder of the earlier run stays as it is.
func TestContinuedRunHasFilesOfItsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		products []string          // of the steps a, b and c; the new run starts with c
		values   map[string]string // what the new run starts with
		files    map[string]string // of the earlier run
		want     map[string]string
	}{
		"files": {
			products: []string{"outputs/a.md", "outputs/b.md", "outputs/c.md"},
			values:   map[string]string{"a": `"A"`, "b": `"B\n"`},
			files:    map[string]string{"a.md": "A\n", "b.md": "B\n", "c.md": "C\n", "notes/n.txt": "N"},
			want:     map[string]string{"a.md": "A\n", "b.md": "B\n", "notes/n.txt": "N"},
		},
		"files that were changed since, or are gone": {
			products: []string{"outputs/a.md", "outputs/b.md", "outputs/c.md"},
			values:   map[string]string{"a": `"A"`, "b": `"B"`},
			files:    map[string]string{"a.md": "other\n"},
			want:     map[string]string{"a.md": "A\n", "b.md": "B\n"},
		},
		"folders": {
			products: []string{"outputs/a/", "outputs/b/", "outputs/c/"},
			values:   map[string]string{"a": `{"x.md":"X"}`, "b": `{"y.md":"Y"}`},
			files:    map[string]string{"a/x.md": "X\n", "b/y.md": "Y\n", "b/more.md": "M\n", "c/z.md": "Z\n"},
			want:     map[string]string{"a/x.md": "X\n", "b/y.md": "Y\n"},
		},
		"a file in a folder": {
			products: []string{"outputs/a/", "outputs/a/x.md", "outputs/a/y.md"},
			values:   map[string]string{"a": `{"x.md":"X1","y.md":"Y1"}`, "b": `"X2"`},
			files:    map[string]string{"a/x.md": "X2\n", "a/y.md": "Y2\n"},
			want:     map[string]string{"a/x.md": "X2\n", "a/y.md": "Y1\n"},
		},
		"the same file twice": {
			products: []string{"outputs/a.md", "outputs/a.md", "outputs/a.md"},
			values:   map[string]string{"a": `"A1"`, "b": `"A2"`},
			files:    map[string]string{"a.md": "A2\n"},
			want:     map[string]string{"a.md": "A2\n"},
		},
		"the run's own folder": {
			products: []string{"outputs/", "outputs/b.md", "outputs/c.md"},
			values:   map[string]string{"a": `{"x.md":"X"}`, "b": `"B"`},
			files:    map[string]string{"x.md": "X\n", "b.md": "B\n", "c.md": "C\n", "execution-state.json": "{}"},
			want:     map[string]string{"x.md": "X\n", "b.md": "B\n"},
		},
		"the run's id in a path": {
			products: []string{"outputs/{run_id}/a.md", "", "outputs/{run_id}/c.md"},
			values:   map[string]string{"a": `"A"`},
			files:    map[string]string{"old/a.md": "A\n", "old/c.md": "C\n"},
			want:     map[string]string{"new/a.md": "A\n"},
		},
		"products elsewhere": {
			products: []string{"artifacts/a.md", "b.md", "outputs/c.md"},
			values:   map[string]string{"a": `"A"`, "b": `"B"`},
			want:     map[string]string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			p := &ir.Program{Blocks: []ir.Block{{}}}
			for i, produces := range c.products {
				task := ir.Task{Kind: "artifact"}
				for key, value := range map[string]string{
					"workflow": "w", "folder": filepath.Join(root, "workflows/w"), "produces": produces,
				} {
					task.Settings.Put(key, value, source.Span{})
				}
				id := string(rune('a' + i))
				p.Blocks[ir.Body].Steps = append(p.Blocks[ir.Body].Steps, ir.Step{
					ID: id, Action: task, Writes: []ir.Write{{Path: "artifacts." + id}},
				})
			}
			run := filepath.Join(root, "outputs/w/old/execution")
			for name, text := range c.files {
				name = filepath.Join(run, name)
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			vars := func(folder string) func(path string) json.RawMessage {
				return func(path string) json.RawMessage {
					if path == "agentfile.run" {
						return step.JSON(folder)
					}
					return json.RawMessage(c.values[strings.TrimPrefix(path, "artifacts.")])
				}
			}
			continued := artifact.Continued{Program: p, Root: root, Step: "c", Was: vars("old"), Now: vars("new")}
			if err := continued.Inherit(); err != nil {
				t.Fatal(err)
			}
			if got := filesBelow(t, filepath.Join(root, "outputs/w/new/execution")); !maps.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if len(c.files) > 0 {
				if got := filesBelow(t, run); !maps.Equal(got, c.files) {
					t.Errorf("the earlier run has %q, and had %q", got, c.files)
				}
			}
		})
	}
}
