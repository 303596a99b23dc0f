package cliagent

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/provider"
)

var update = flag.Bool("update", false, "rewrite the expected results")

var dialects = map[string]Dialect{
	"claude": Claude{}, "codex": Codex{}, "gemini": Gemini{}, "copilot": Copilot{},
	"plain": Plain{},
}

// Each file holds the output of a program and the expected result. Its name starts with the dialect; \0 is a zero byte,
// "exit" the program's exit, "work" the request.
func TestRecordedOutputsAreRead(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no test data", err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := resultOf(t, path, archive)
			for i, f := range archive.Files {
				if f.Name != "want" {
					continue
				}
				if *update {
					archive.Files[i].Data = []byte(got)
					if err := os.WriteFile(path, txtar.Format(archive), 0o600); err != nil {
						t.Fatal(err)
					}
				} else if got != string(f.Data) {
					t.Errorf("got:\n%s\nwant:\n%s", got, f.Data)
				}
			}
		})
	}
}

func resultOf(t *testing.T, path string, archive *txtar.Archive) string {
	name, _, _ := strings.Cut(filepath.Base(path), "-")
	a := &Agent{Name: name, Dialect: dialects[strings.TrimSuffix(name, ".txtar")]}
	req := provider.Request{Task: &provider.AgentTask{}}
	var written []byte
	outcome := process.Outcome{}
	for _, f := range archive.Files {
		switch f.Name {
		case "lines":
			written = bytes.ReplaceAll(f.Data, []byte(`\0`), []byte{0})
		case "partial": // without a newline at the end
			written = append(written, bytes.TrimSuffix(f.Data, []byte("\n"))...)
		case "exit":
			code, rest, _ := strings.Cut(strings.TrimSpace(string(f.Data)), " ")
			outcome.Exit, _ = strconv.Atoi(code)
			outcome.Stderr = []byte(rest)
		case "work":
			if err := json.Unmarshal(f.Data, &req); err != nil {
				t.Fatal(err)
			}
		}
	}
	return parseOutput(a, &req, written, outcome)
}

// parseOutput returns a readable form of the chunks and the reply that result from a program's output.
func parseOutput(a *Agent, req *provider.Request, written []byte, outcome process.Outcome) string {
	var out strings.Builder
	turn := newTurn(req)
	yield := func(c provider.Chunk) bool {
		switch {
		case c.Session != "":
			fmt.Fprintf(&out, "session %s\n", c.Session)
		case c.ToolEvent != nil && !c.ToolEvent.Returned:
			fmt.Fprintf(&out, "calls %s %s %s\n", c.ToolEvent.ID, c.ToolEvent.Name, c.ToolEvent.Input)
		case c.ToolEvent != nil:
			e := c.ToolEvent
			fmt.Fprintf(&out, "returned %s %s %s %q\n", e.ID, e.Name, e.Output, e.Error)
		case c.Used != nil:
			fmt.Fprintf(&out, "used %d of input and %d of output\n",
				c.Used.Usage.Input+c.Used.Usage.CacheRead+c.Used.Usage.CacheWrite, c.Used.Usage.Output)
		default:
			fmt.Fprintf(&out, "%s %q\n", c.Type, c.Text)
		}
		return true
	}
	if a.Dialect.PlainText() {
		a.Dialect.ParseLine(clean(written), turn)
		_ = turn.flush(yield)
	} else {
		for line := range newLines(bytes.NewReader(written)).all() {
			a.Dialect.ParseLine(line, turn)
			_ = turn.flush(yield)
			if turn.over() {
				break
			}
		}
	}
	err := turn.end(a, outcome)
	var failed *provider.Error
	if errors.As(err, &failed) {
		fmt.Fprintf(&out, "failed %s %d spent=%t nosession=%t: %s\n", failed.Class, failed.Status, failed.Billable,
			failed.NoSession, failed.Message)
		return out.String()
	}
	reply := turn.reply(a.Name)
	fmt.Fprintf(&out, "answer %q, %s by %s, %+v", reply.Text(), reply.Stop, reply.Model, reply.Usage)
	if w := reply.AgentResult; w.MicroDollars != nil {
		fmt.Fprintf(&out, ", %d turns for %d", w.Turns, *w.MicroDollars)
	}
	out.WriteString("\nblocks")
	for _, b := range reply.Blocks {
		fmt.Fprintf(&out, " %s", b.Type)
	}
	out.WriteString("\n")
	return out.String()
}

// FuzzParseOutput checks that no output causes a panic, and that chunks contain valid text and JSON.
func FuzzParseOutput(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.txtar")
	for _, path := range files {
		if archive, err := txtar.ParseFile(path); err == nil {
			for _, file := range archive.Files {
				if file.Name == "lines" {
					f.Add(file.Data)
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, written []byte) {
		for name, d := range dialects {
			turn := newTurn(&provider.Request{MaxTokens: 100})
			ids := map[string]int{}
			for line := range newLines(bytes.NewReader(written)).all() {
				d.ParseLine(line, turn)
				_ = turn.flush(func(c provider.Chunk) bool {
					if strings.ContainsRune(c.Text, 0) {
						t.Errorf("%s: a zero byte in %q", name, c.Text)
					}
					if e := c.ToolEvent; e != nil {
						ids[e.ID]++
						if e.ID == "" || !json.Valid(e.Input) || e.Returned && !json.Valid(e.Output) || ids[e.ID] > 2 {
							t.Errorf("%s: %+v", name, e)
						}
					}
					return true
				})
			}
			if _, err := json.Marshal(turn.reply(name)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// A line may have several megabytes. A line above the limit is skipped, and the following lines are parsed.
func TestOverlongLineIsSkipped(t *testing.T) {
	long := strings.Repeat("x", 5<<20)
	text := `{"type":"assistant","message":{"content":[{"type":"text","text":"` + long + `"}]}}` + "\n"
	end := `{"type":"result","subtype":"success","result":"done"}`
	turn := newTurn(&provider.Request{})
	lines := newLines(strings.NewReader(text + end))
	for line := range lines.all() {
		Claude{}.ParseLine(line, turn)
	}
	if len(turn.blocks) != 1 || len(turn.blocks[0].Text) != len(long) || !turn.ended {
		t.Errorf("%d blocks, ended %t", len(turn.blocks), turn.ended)
	}
	lines = newLines(strings.NewReader(text + end))
	lines.max = 1 << 20
	n := 0
	for range lines.all() {
		n++
	}
	if n != 1 || lines.skipped != 1 {
		t.Errorf("%d lines, %d skipped", n, lines.skipped)
	}
}

// The output of a tool is truncated to a maximum size.
func TestToolOutputIsTruncated(t *testing.T) {
	turn := newTurn(&provider.Request{})
	turn.call("1", "Bash", nil)
	turn.returned("1", "", nil, toJSON(strings.Repeat("é", 3<<20)), "")
	output := turn.chunks[1].ToolEvent.Output
	if len(output) > maxToolOutput || !json.Valid(output) || !bytes.Contains(output, []byte(`"truncated":true`)) {
		t.Errorf("%d bytes: %.100s", len(output), output)
	}
}
