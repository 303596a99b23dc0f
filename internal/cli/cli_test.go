package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/scaffold"
)

func TestMain(m *testing.M) {
	process.Confine(os.Args) // without it, a confined command would run all tests again
	os.Exit(m.Run())
}

// runIn runs a command in a folder, which is also the home of the user, and returns what it prints.
func runIn(t *testing.T, dir string, want int, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := Main(Environment{
		Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Dir: dir,
		Getenv: func(name string) string { return map[string]string{"HOME": dir}[name] },
	}, args)
	if code != want {
		t.Fatalf("%v: exit code %d: %s", args, code, stderr.String())
	}
	return stdout.String()
}

// run is one command line in a folder, with nothing in the environment.
func run(t *testing.T, dir string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	home := t.TempDir()
	code = Main(Environment{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &err, Dir: dir,
		Getenv: func(name string) string { return map[string]string{"HOME": home}[name] },
	}, args)
	return code, out.String(), err.String()
}

// Every example in Markdown is valid, and show, cost and graph print something about it.
func TestExamplesPassValidateShowCostAndGraph(t *testing.T) {
	root := filepath.Join("..", "..", "examples")
	var found []string
	err := filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".md") && !strings.HasSuffix(name, "README.md") {
			found = append(found, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 6 {
		t.Fatalf("found only %d examples", len(found))
	}
	for _, path := range found {
		t.Run(filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path), func(t *testing.T) {
			code, stdout, stderr := run(t, ".", "validate", path)
			if code != 0 || strings.Contains(stderr, "warning") {
				t.Errorf("validate: %d\n%s%s", code, stdout, stderr)
			}
			for _, args := range [][]string{
				{"show"},
				{"cost"},
				{"show", "--json"},
				{"cost", "--json"},
				{"graph"},
				{"graph", "--data", "--format", "svg"},
			} {
				code, stdout, stderr := run(t, ".", append(args, path)...)
				if code != 0 || stdout == "" {
					t.Errorf("%s: %d %s", args, code, stderr)
				}
				if len(args) > 1 || args[0] == "graph" {
					continue
				}
				for line := range strings.Lines(stdout) {
					if diag.Width(strings.TrimRight(line, "\n")) > 80 && !strings.Contains(line, path) {
						t.Errorf("%s: this line is wider than 80 columns: %s", args, line)
					}
				}
			}
		})
	}
}

// Every pattern that a format has is valid and runs to its end.
func TestPatternsAreValidAndRun(t *testing.T) {
	for _, format := range scaffold.Formats() {
		for _, p := range scaffold.Patterns {
			dir := t.TempDir()
			espalier := func(args ...string) (int, string) {
				var out bytes.Buffer
				code := Main(Environment{
					Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Dir: dir,
					Getenv: func(name string) string { return map[string]string{"HOME": dir}[name] },
				}, args)
				return code, out.String()
			}
			code, output := espalier("new", "some-name", "--format", format, "--pattern", p.Name)
			if why := p.MissingIn(format); why != "" {
				// The message names a format that has the pattern.
				if code != exitUsage || !strings.Contains(output, why) ||
					!strings.Contains(output, "Use --format agent-flow") {
					t.Errorf("%s %s: exit code %d: %s", format, p.Name, code, output)
				}
				continue
			}
			path, _, _ := strings.Cut(output, "\n")
			if code, output := espalier("validate", path, "--strict"); code != exitOK {
				t.Errorf("%s %s: %s", format, p.Name, output)
			}
			inputs := []string{
				"-i", "topic=x", "-i", "url=https://example.org", "-i", "question=q", "-i", "text=t", "-i",
				"document=d", "-i", "TOPIC=t", "-i", "period=2026",
			}
			run := append([]string{"run", path, "--simulate", "--auto-approve", "--allow-undeclared"}, inputs...)
			if code, output := espalier(run...); code != exitOK {
				t.Errorf("%s %s: exit code %d: %s", format, p.Name, code, output)
			}
			if p.Name == "schedule" {
				if code, output := espalier("triggers", "next", "some-name"); code != exitOK ||
					!strings.Contains(output, ":00:00 +00:00") {
					t.Errorf("%s %s: exit code %d: %s", format, p.Name, code, output)
				}
			}
		}
	}
}

// What a run of a new workflow returns after a gate is what was approved: no step changes it afterwards.
func TestGatePatternsReturnWhatWasApproved(t *testing.T) {
	for _, of := range []struct{ format, pattern string }{
		{"agent-flow", "gate"}, {"awf", "gate"}, {"nof", "gate"}, {"agentfile", "gate"}, {"aiflow", "gate"},
	} {
		t.Run(of.format+" "+of.pattern, func(t *testing.T) {
			dir := t.TempDir()
			const id = "00000000-0000-4000-8000-000000000001"
			espalier := func(want int, args ...string) string { t.Helper(); return runIn(t, dir, want, args...) }
			espalier(exitOK, "init") // the pattern waits without any other setting
			path, _, _ := strings.Cut(
				espalier(exitOK, "new", "x", "--format", of.format, "--pattern", of.pattern), "\n")
			espalier(exitWaiting, "run", path, "--simulate", "--allow-undeclared", "--run-id", id, "-i", "topic=x",
				"-i", "document=d", "-i", "TOPIC=t", "-i", "period=2026")
			var status struct {
				Gates []struct {
					Shows map[string]any `json:"shows"`
				} `json:"gates"`
			}
			if err := json.Unmarshal([]byte(espalier(exitOK, "status", id, "--json")), &status); err != nil {
				t.Fatal(err)
			}
			if len(status.Gates) != 1 || len(status.Gates[0].Shows) == 0 {
				t.Fatalf("%+v", status)
			}
			espalier(exitOK, "approve", id)
			var output any
			if text := espalier(exitOK, "output", id); json.Unmarshal([]byte(text), &output) != nil {
				output = text
			}
			returned := []any{output}
			if object, ok := output.(map[string]any); ok {
				returned = slices.Collect(maps.Values(object))
			}
			for name, value := range status.Gates[0].Shows {
				if len(returned) != 1 ||
					strings.TrimSpace(fmt.Sprint(returned[0])) != strings.TrimSpace(fmt.Sprint(value)) {
					t.Errorf("the run returns %v, and %s was approved as %v", returned, name, value)
				}
			}
		})
	}
}

// A step of a new workflow that builds on the work of another one receives it.
func TestPatternsPassOnWhatTheySay(t *testing.T) {
	for _, of := range []struct {
		format, pattern string
		inputs          []string
		event, path     string
		want            string // what the last such event has
	}{
		{"nof", "pipeline", nil, "message.user", "batch-optimizer", `\"findings\":[{\"note\":`},
		{"nof", "schedule", nil, "message.user", "batch-optimizer", `\"findings\":[{\"note\":`},
		{"nof", "review", nil, "message.user", "kg-health-monitor", `\"work\":[{\"note\":`},
		{
			"awf", "review",
			[]string{"-i", "topic=x"},
			"message.user", "review.write",
			`Revise the last version:\n<data>\nThis is a simulated reply for step \"write\"`,
		},
		{"aiflow", "tool", nil, "tool.call", "search", `"q":"Simulated`},
	} {
		t.Run(of.format+" "+of.pattern, func(t *testing.T) {
			dir := t.TempDir()
			const id = "00000000-0000-4000-8000-000000000001"
			espalier := func(args ...string) string { t.Helper(); return runIn(t, dir, exitOK, args...) }
			path, _, _ := strings.Cut(espalier("new", "x", "--format", of.format, "--pattern", of.pattern), "\n")
			espalier(append([]string{"run", path, "--simulate", "--run-id", id}, of.inputs...)...)
			last := ""
			for line := range strings.Lines(espalier("transcript", id)) {
				var event struct{ Type, Path string }
				if err := json.Unmarshal([]byte(line), &event); err != nil {
					t.Fatal(err)
				}
				if event.Type == of.event && event.Path == of.path {
					last = line
				}
			}
			if !strings.Contains(last, of.want) {
				t.Errorf("no %s in %s", of.want, last)
			}
		})
	}
}

// A new project of every format and pattern runs with its file of replies, by the command that the file shows for CI.
func TestNewProjectRunsWithItsScript(t *testing.T) {
	for _, format := range scaffold.Formats() {
		for _, p := range scaffold.Patterns {
			if p.MissingIn(format) != "" {
				continue
			}
			dir := t.TempDir()
			espalier := func(args ...string) {
				t.Helper()
				if code, _, stderr := run(t, dir, args...); code != exitOK {
					t.Errorf("%s %s: %v: exit code %d: %s", format, p.Name, args, code, stderr)
				}
			}
			espalier("init", "--workflow", "hello", "--format", format, "--pattern", p.Name)
			script, err := os.ReadFile(filepath.Join(dir, "hello.script.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			shown := regexp.MustCompile(`(?m)^#   espalier (.*)$`).FindSubmatch(script)
			if shown == nil {
				t.Fatalf("no command in %s", script)
			}
			espalier(strings.Fields(string(shown[1]))...)
		}
	}
}

// Each secret of the sample is declared, and belongs to one service.
func TestSampleKeysBelongToTheirServices(t *testing.T) {
	declared := map[string]string{"groq": "GROQ_API_KEY", "mail": "MAIL_TOKEN"}
	for _, m := range regexp.MustCompile(`secret://(\w+)`).FindAllStringSubmatch(scaffold.SampleConfig, -1) {
		if declared[m[1]] == "" || !strings.Contains(scaffold.SampleConfig, m[1]+": {env: "+declared[m[1]]+"}") {
			t.Errorf("the secret %s is not declared, or is used for two services", m[1])
		}
		delete(declared, m[1])
	}
	if len(declared) > 0 {
		t.Errorf("not used: %v", declared)
	}
}

func TestSecondsTakeAtMostTwoUnits(t *testing.T) {
	for n, want := range map[int64]string{
		0: "-", 1: "1 s", 59: "59 s", 60: "1 min", 90: "1 min 30 s", 3600: "1 h", 3660: "1 h 1 min", 3601: "1 h",
		86400: "1 d", 86400*3 + 7200: "3 d 2 h", 86400 * 5000: "5,000 d",
	} {
		if got := seconds(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

func TestWrapKeepsEveryWordAndTheWidth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-zäß漢字_/.,-]{0,30}( [a-z→漢-]{1,12}){0,12}`).Draw(t, "text")
		columns := rapid.IntRange(2, 40).Draw(t, "columns")
		lines := wrap(text, columns)
		for _, line := range lines {
			if diag.Width(line) > columns {
				t.Fatalf("%q is wider than %d", line, columns)
			}
		}
		squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") }
		if got := squeeze(strings.Join(lines, "")); got != squeeze(text) {
			t.Fatalf("got %q from %q", lines, text)
		}
	})
}

func TestTableWrapsTextWithinTheWidth(t *testing.T) {
	table := table{header: []string{"NAME", "EMPTY", "N", "TEXT"}, right: []int{2}}
	table.add("one", "", "5", "a few words that do not fit on one line")
	table.under("below the row")
	table.add("漢字", "", "1,000", "short")
	out := table.text(30, "  ")
	want := `  NAME      N  TEXT
  one       5  a few words
               that do not fit
               on one line
      below the row
  漢字  1,000  short
`
	if out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}

// Numbers do not break from their units; the widest text gives way.
func TestTableKeepsNumbersWhole(t *testing.T) {
	table := table{header: []string{"STEP", "ACTIVE"}, right: []int{1}}
	table.add("name_parts", "5 h 44 min")
	table.add("y", "11 h 28 min")
	out := table.text(20, "")
	want := `STEP          ACTIVE
name_     5 h 44 min
parts
y        11 h 28 min
`
	if out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}

// Files are replaced atomically and keep their mode, and a failed write leaves no files.
func TestFilesAreReplacedWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	a := &invocation{Environment: Environment{Dir: dir, Getenv: func(string) string { return "" }}}
	target := filepath.Join(dir, "out.txt")
	if err := os.WriteFile(target, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.replaceFile("out.txt", []byte("new"), 0o644); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(target); err != nil || string(raw) != "new" {
		t.Errorf("got %q, %v", raw, err)
	}
	if info, err := os.Stat(target); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("the file's mode changed: %v, %v", info.Mode(), err)
	}
	if err := a.replaceFile("no/such/folder.txt", nil, 0o600); err == nil {
		t.Error("there is no such folder")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v", entries, err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// What cannot be written is a failure, for help as for every result.
func TestCommandsFailOnAFullDisk(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"help"},
		{"help", "formats"},
		{"validate", "--help"},
		{"version"},
		{"explain", "AF001"},
		{"list"},
		{"completion", "bash"},
		{"doctor", "--offline"},
	} {
		world := Environment{
			Stdin: strings.NewReader(""), Stdout: full{}, Stderr: io.Discard,
			Getenv: func(string) string { return "" }, Dir: t.TempDir(),
		}
		if err := os.WriteFile(filepath.Join(world.Dir, "flow.md"),
			[]byte("---\nname: x\nkind: agent-flow/workflow\n---\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if code := Main(world, args); code != ExitNotReady {
			t.Errorf("espalier %s ends with %d", strings.Join(args, " "), code)
		}
	}
}

// gone is a pipe whose reader has ended.
type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// What a command has found does not hide that its result could not be written.
func TestWriteErrorsCountMoreThanFindings(t *testing.T) {
	code := Main(Environment{
		Stdin: strings.NewReader(""), Stdout: gone{}, Stderr: io.Discard, Dir: t.TempDir(),
		Getenv: func(string) string { return "" },
	}, []string{"doctor", "--offline"})
	if code != exitClosed {
		t.Errorf("doctor ends with %d", code)
	}
}

func TestEmptyArgumentsAreNotDefaults(t *testing.T) {
	for _, args := range [][]string{{"login", ""}, {"logout", ""}, {"trust", ""}, {"output", "x", ""}} {
		code := Main(Environment{
			Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Dir: t.TempDir(),
			Getenv: func(string) string { return "https://example.com" },
		}, args)
		if code != exitUsage {
			t.Errorf("espalier %q ends with %d", args, code)
		}
	}
}

// A schedule shows its next five times, with the offset that changes when
// clocks do; 02:30 does not exist on that Sunday.
func TestShowListsTheNextTimesOfASchedule(t *testing.T) {
	dir := t.TempDir()
	text := "---\nname: nightly\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: Nightly.\n" +
		"triggers:\n  schedule: \"30 2 * * *\"\n  timezone: Europe/Berlin\n  manual: false\n---\n" +
		"```step\nid: a\ntype: transform\ndescription: Do it\n```\n"
	if err := os.WriteFile(filepath.Join(dir, "nightly.md"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code := Main(Environment{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Dir: dir, Getenv: func(string) string { return "" },
		Now: func() time.Time { return time.Date(2026, time.March, 27, 12, 0, 0, 0, time.UTC) },
	}, []string{"show", "nightly.md"})
	for _, want := range []string{
		"by hand (disabled); schedule 30 2 * * *, Europe/Berlin", "next",
		"Sat 2026-03-28 02:30 +01:00", "Sun 2026-03-29 03:00 +02:00", "Mon 2026-03-30 02:30 +02:00",
		"Tue 2026-03-31", "Wed 2026-04-01",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%d: there is no %q in:\n%s%s", code, want, out.String(), errs.String())
		}
	}
}

// Files of the server are named from the working folder, not from the folder of the project.
func TestFilesOfTheServerAreInTheWorkingFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "project"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"project/espalier.yaml": "", "oidc.json": "{}", "cert.pem": "not one"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, flags := range [][]string{{"--oidc", "oidc.json"}, {"--tls-cert", "cert.pem", "--tls-key", "cert.pem"}} {
		args := append([]string{"serve", "project", "--addr", "127.0.0.1:0"}, flags...)
		if code, _, stderr := run(t, dir, args...); code != ExitNotReady || strings.Contains(stderr, "no such file") {
			t.Errorf("%q: exit code %d: %s", flags, code, stderr)
		}
	}
}
