package node_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/node"
	"github.com/espalier-run/espalier/internal/step/steptest"
)

var update = flag.Bool("update", false, "write the output of python3 to testdata")

const nodeState = `{
  "text": "10:01 INFO api: started\n10:02 ERROR db-main: code=500 for ann@example.org\n10:07 ERROR api: timeout after 30 s\n` +
	`10:09 WARN cache: slow; code=12",
  "records": [
    {"id": "r1", "team": "core", "amount": 12, "tags": ["db", "slow"], "opened": "2026-01-30T09:00:00"},
    {"id": "r2", "team": "edge", "amount": 3, "tags": ["net"], "opened": "2026-02-02T17:45:00"},
    {"id": "r3", "team": "core", "amount": 8, "tags": [], "opened": "2026-02-27T23:59:59"},
    {"id": "r4", "team": "lab", "amount": 20, "tags": ["db"], "opened": "2026-03-01T00:00:00"}
  ],
  "score": 1
}`

// nodePlay runs the function "run" of a file over nodeState.
func nodePlay(t *testing.T, path string, more settings) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	set := settings{
		"function": "run", "file": "x.nof.md", "code": []map[string]any{{"code": string(text), "line": 1}},
		"fields": map[string]string{
			"text": "str", "records": "list[dict]", "score": "float", "report": "any",
			"list": "list[str]",
		},
		"reducers": map[string]string{"list": "append"}, "agents": map[string]any{"plain": map[string]any{}},
		"delta": true,
	}
	for k, v := range more {
		set[k] = v
	}
	world := &steptest.World{Replies: []steptest.Reply{{Text: reply}, {Text: reply}}}
	prepare := func(j *step.Job) {
		inProject(t)(j)
		var state map[string]json.RawMessage
		if err := json.Unmarshal([]byte(nodeState), &state); err != nil {
			t.Fatal(err)
		}
		j.Reads = nil
		for _, field := range []string{"text", "records", "score"} {
			j.Reads = append(j.Reads, step.Read{Path: "state." + field, Value: state[field]})
		}
	}
	result, err := steptest.Play{Settings: set, With: prepare}.Done(t, node.Runner{}, &steptest.Log{}, world)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, n := range result.Notes {
		if printed, ok := n.Data.(map[string]string); ok && n.Kind == node.NotePrinted {
			out.WriteString(printed["text"])
		}
	}
	for _, r := range world.Requests {
		workload := regexp.MustCompile(`(?s)<data name="workload">\n(.*?)\n</data>`)
		for _, block := range r.Messages[0].Blocks {
			if m := workload.FindStringSubmatch(block.Text); m != nil {
				out.WriteString("asked: " + m[1] + "\n")
			}
		}
	}
	out.WriteString("returned: " + string(result.Value) + "\n")
	return out.String()
}

// The nodes of testdata print, ask and return the same in the built-in interpreter as in the python3
// of the machine.
func TestNodesOfTestdataDoWhatCPythonDoes(t *testing.T) {
	files, err := filepath.Glob("testdata/nodes/*.py")
	if err != nil || len(files) < 18 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".py"), func(t *testing.T) {
			golden := strings.TrimSuffix(path, ".py") + ".out"
			if python3(t) {
				said := nodePlay(t, path, settings{"python": true, "unconfined": true})
				if *update {
					if err := os.WriteFile(golden, []byte(said), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				if kept, _ := os.ReadFile(golden); string(kept) != said {
					t.Errorf("python3 says:\n%s", said)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got := nodePlay(t, path, nil); got != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}
