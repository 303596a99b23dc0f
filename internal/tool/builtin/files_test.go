package builtin_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/protected"
	"github.com/espalier-run/espalier/internal/schema"
	"github.com/espalier-run/espalier/internal/tool"
	"github.com/espalier-run/espalier/internal/tool/builtin"
	"github.com/espalier-run/espalier/internal/tool/tooltest"
	"github.com/espalier-run/espalier/internal/usertest"
)

func TestMain(m *testing.M) {
	process.Confine(os.Args)
	os.Exit(m.Run())
}

// world is a project with the folder of a run, and a folder outside the project.
type world struct {
	root, run, outside string
	options            builtin.Options
	mayReach           func(address string) bool
	mayTouch           func(path string, linked bool) bool
	keep               protected.Files
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{root: t.TempDir(), outside: t.TempDir()}
	w.run = filepath.Join(w.root, ".espalier", "runs", "r1")
	w.options = builtin.Options{Root: w.root}
	for name, text := range map[string]string{
		"readme.md": "one\ntwo\nthree\n", "src/a.go": "package a\n", "src/deep/b.go": "package b // needle\n",
		"espalier.yaml": "x: 1\n", ".git/config": "[core]\n",
		".espalier/espalier.db": "journal", ".espalier/runs/r1/note.txt": "mine\n",
		".espalier/runs/r2/note.txt": "another run's\n", "bin": "a\x00b",
	} {
		w.put(t, filepath.Join(w.root, name), text)
	}
	w.put(t, filepath.Join(w.outside, "secret"), "secret\n")
	return w
}

func (w *world) put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (w *world) link(t *testing.T, to, at string) {
	t.Helper()
	if err := os.Symlink(to, filepath.Join(w.root, at)); err != nil {
		t.Fatal(err)
	}
}

// isError is the class that call returns for a result with IsError.
const isError ir.Class = "IsError"

// call calls a tool. It returns its result or error as text, and the class of the error.
func (w *world) call(t *testing.T, name string, input any) (got string, class ir.Class) {
	t.Helper()
	for _, one := range builtin.Tools(w.options) {
		if one.Spec().Name != name {
			continue
		}
		raw, err := json.Marshal(input)
		if err != nil {
			t.Fatal(err)
		}
		result, err := one.Call(t.Context(), tool.Call{
			Key: "k1", TraceParent: "00-01-02-01", Input: raw, Dir: w.run, MayReach: w.mayReach, MayTouch: w.mayTouch,
			Keep: w.keep,
		})
		var failed *tool.Error
		switch {
		case errors.As(err, &failed):
			return failed.Message, failed.Class
		case err != nil:
			t.Fatalf("%s: %v", name, err)
		case result.IsError:
			return string(result.Output), isError
		}
		if problems := misfits(t, one.Spec().Returns, result.Output); len(problems) > 0 {
			t.Errorf("%s does not return what it says: %v", name, problems)
		}
		return string(result.Output), ""
	}
	t.Fatalf("there is no tool %s", name)
	return "", ""
}

type in = map[string]any

func TestToolsMeetTheToolContract(t *testing.T) {
	w := newWorld(t)
	call := func(input string) tool.Call { return tool.Call{Key: "k1", Input: json.RawMessage(input), Dir: w.run} }
	fails := func(class ir.Class, input string) []tooltest.Failure {
		return []tooltest.Failure{{Call: call(input), Class: class}}
	}
	for name, one := range map[string]tooltest.Subject{
		"Read": {Works: call(`{"path":"readme.md"}`), Fails: fails(ir.ClassTool, `{"path":"none"}`)},
		"Write": {
			Works: call(`{"path":"new.md","content":"x"}`),
			Fails: fails(ir.ClassDenied, `{"path":".git/config","content":"x"}`),
		},
		"Glob": {Works: call(`{"pattern":"**/*.go"}`), Fails: fails(ir.ClassInput, `{"pattern":7}`)},
		"Grep": {Works: call(`{"pattern":"needle"}`), Fails: fails(ir.ClassInput, `{"pattern":"("}`)},
		"Bash": {Works: call(`{"command":"echo x"}`), Fails: fails("", `{"command":"exit 3"}`)},
	} {
		one.Tool = find(t, builtin.Tools(w.options), name)
		tooltest.Run(t, one)
	}
	tooltest.Run(t, tooltest.Subject{
		Tool: builtin.Calculator("sum", "add"), Works: call(`{"a":1,"b":2}`), Fails: fails(ir.ClassInput, `{"a":"x"}`),
	})
}

// misfits returns the differences between a result and the tool's declared result schema.
func misfits(t *testing.T, returns, answer json.RawMessage) []schema.Problem {
	t.Helper()
	s, err := schema.Compile(returns)
	if err != nil {
		t.Fatal(err)
	}
	problems, err := s.Check(answer)
	if err != nil {
		t.Fatal(err)
	}
	return problems
}

func TestReadFindsFilesOfRunAndProject(t *testing.T) {
	w := newWorld(t)
	w.link(t, "src/a.go", "inner")
	w.link(t, filepath.Join(w.root, "src", "deep"), "deep")
	for name, c := range map[string]struct {
		input in
		want  string
	}{
		"from the project": {
			in{"path": "readme.md"},
			`{"content":"one\ntwo\nthree\n","lines":3,"path":"readme.md"}`,
		},
		"from the run's folder": {in{"path": "note.txt"}, `{"content":"mine\n","lines":1,"path":"note.txt"}`},
		"by a whole path": {
			in{"path": filepath.Join(w.root, "src/a.go")},
			`{"content":"package a\n","lines":1,"path":"src/a.go"}`,
		},
		"the run's, as a whole": {
			in{"path": filepath.Join(w.run, "note.txt")},
			`{"content":"mine\n","lines":1,"path":"note.txt"}`,
		},
		"some lines": {
			in{"path": "readme.md", "offset": 2, "limit": 1},
			`{"content":"two\n","lines":3,"path":"readme.md"}`,
		},
		"lines that are not": {in{"path": "readme.md", "offset": 9}, `{"content":"","lines":3,"path":"readme.md"}`},
		"over a link inside": {in{"path": "inner"}, `{"content":"package a\n","lines":1,"path":"src/a.go"}`},
		"over a folder's link": {
			in{"path": "deep/b.go"},
			`{"content":"package b // needle\n","lines":1,"path":"src/deep/b.go"}`,
		},
		"with dots that do none": {
			in{"path": "./src/../readme.md", "limit": 1},
			`{"content":"one\n","lines":3,"path":"readme.md"}`,
		},
	} {
		if got, class := w.call(t, "Read", c.input); got != c.want || class != "" {
			t.Errorf("%s: %s %s", name, class, got)
		}
	}
	if _, class := w.call(t, "Read", in{"path": "nothing"}); class != ir.ClassTool {
		t.Errorf("a file that is not there: %s", class)
	}
	for _, path := range []string{"bin", "src"} {
		if _, class := w.call(t, "Read", in{"path": path}); class != ir.ClassInput {
			t.Errorf("%s: %s", path, class)
		}
	}
}

// Every tool refuses paths that lead out of its areas or to Espalier's own files.
func TestForbiddenPathsAreRefused(t *testing.T) {
	w := newWorld(t)
	w.link(t, w.outside, "out")
	w.link(t, filepath.Join(w.outside, "secret"), "out.txt")
	w.link(t, "../"+filepath.Base(w.outside)+"/secret", "up.txt")
	w.link(t, ".espalier", "own")
	w.link(t, ".espalier/espalier.db", "own.db")
	w.link(t, "round", "round")
	w.link(t, "espalier.yaml", "config")
	if err := os.Symlink(w.outside, filepath.Join(w.run, "away")); err != nil {
		t.Fatal(err)
	}
	reads := []string{
		"../../../../etc/passwd", "/etc/passwd", filepath.Join(w.outside, "secret"), "out/secret", "out.txt", "up.txt",
		"away/secret",
		".espalier/espalier.db", "own/espalier.db", "own.db", ".ESPALIER/espalier.db", "own/runs/r2/note.txt",
		filepath.Join(w.root, ".espalier", "espalier.db"), filepath.Join(w.root, ".espalier/runs/r2/note.txt"),
		"../r2/note.txt", "round",
	}
	for _, path := range reads {
		if got, class := w.call(t, "Read", in{"path": path}); class != ir.ClassDenied {
			// on a case-sensitive file system, another case is another name
			if class != "TOOL_ERROR" || !strings.Contains(got, "no such file") {
				t.Errorf("Read %s: %s %s", path, class, got)
			}
		}
		if got, class := w.call(t, "Grep", in{"pattern": ".", "path": path}); class == "" {
			t.Errorf("Grep %s: %s %s", path, class, got)
		}
	}
	// Names that other file systems take for the state folder are refused before the file system is asked.
	for _, name := range []string{
		".ESPALIER", ".e\u017fpalier", ".espalier.", ".espalier ", ".espalier::$INDEX_ALLOCATION", ".esp\u200calier",
		"\uff0eespalier", "ESPALI~1",
	} {
		path := filepath.Join(w.root, name, "server-token")
		if got, class := w.call(t, "Read", in{"path": path}); class != ir.ClassDenied {
			t.Errorf("Read %q: %s %s", path, class, got)
		}
	}
	writes := append(reads,
		filepath.Join(w.root, "espalier.yaml"), filepath.Join(w.root, ".mcp.json"),
		filepath.Join(w.root, ".git/hooks/pre-commit"),
		filepath.Join(w.root, "src/espalier.yaml"), filepath.Join(w.root, "src/.mcp.json"),
		filepath.Join(w.root, "vendored/.git/hooks/pre-commit"),
		filepath.Join(w.root, "src/.espalier/new"), filepath.Join(w.root, "config"), filepath.Join(w.root, "own/new"),
		filepath.Join(w.root, "out/new"), "away/new",
	)
	for _, path := range writes {
		if !filepath.IsAbs(path) && !strings.HasPrefix(path, "..") && !strings.HasPrefix(path, "away") {
			path = filepath.Join(w.root, path) // a relative path would be in the run's folder
		}
		if got, class := w.call(t, "Write", in{"path": path, "content": "x"}); class != ir.ClassDenied {
			t.Errorf("Write %s: %s %s", path, class, got)
		}
		if got, class := w.call(t, "Edit",
			in{"path": path, "old_string": "e", "new_string": "x"}); class != ir.ClassDenied &&
			class != ir.ClassTool {
			t.Errorf("Edit %s: %s %s", path, class, got)
		}
	}
	for path, want := range map[string]string{
		filepath.Join(w.outside, "secret"):             "secret\n",
		filepath.Join(w.root, ".espalier/espalier.db"): "journal",
	} {
		if raw, err := os.ReadFile(path); err != nil || string(raw) != want {
			t.Errorf("%s: %q, %v", path, raw, err)
		}
	}
	if entries, err := os.ReadDir(w.outside); err != nil || len(entries) != 1 {
		t.Errorf("outside: %v, %v", entries, err)
	}
}

// Folders in Readable can be read but not changed.
func TestReadableFoldersAreReadOnly(t *testing.T) {
	w := newWorld(t)
	w.options.Readable = []string{w.outside}
	path := filepath.Join(w.outside, "secret")
	if got, class := w.call(t, "Read", in{"path": path}); class != "" || !strings.Contains(got, "secret") {
		t.Errorf("%s %s", class, got)
	}
	for name, input := range map[string]in{
		"Write": {"path": path, "content": "x"}, "Edit": {"path": path, "old_string": "secret", "new_string": "x"},
	} {
		if got, class := w.call(t, name, input); class != ir.ClassDenied {
			t.Errorf("%s: %s %s", name, class, got)
		}
	}
	if got, class := w.call(t, "Write",
		in{"path": filepath.Join(w.outside, "new"), "content": "x"}); class != ir.ClassDenied {
		t.Errorf("Write: %s %s", class, got)
	}
	// A readable folder that contains the project does not open Espalier's own files.
	w.options.Readable = []string{filepath.Dir(w.root)}
	own := filepath.Base(w.root) + "/.espalier/espalier.db"
	if got, class := w.call(t, "Read", in{"path": own}); class != ir.ClassDenied {
		t.Errorf("Read %s: %s %s", own, class, got)
	}
	for name, input := range map[string]in{"Grep": {"pattern": "journal"}, "Glob": {"pattern": "espalier.db"}} {
		if got, class := w.call(t, name, input); class != "" || strings.Contains(got, "espalier.db") {
			t.Errorf("%s: %s %s", name, class, got)
		}
	}
}

// A folder that is gone and a file that cannot be read are reported by the names in the call.
func TestErrorsNameNoPathsOfThisMachine(t *testing.T) {
	w := newWorld(t)
	w.options.Readable = []string{filepath.Join(w.outside, "gone")}
	if got, class := w.call(t, "Read", in{"path": "a/none"}); class != ir.ClassTool ||
		!strings.HasPrefix(got, `"a/none": `) {
		t.Errorf("%s %s", class, got)
	}
	gone := filepath.Join(w.outside, "gone")
	got, class := w.call(t, "Glob", in{"pattern": "*", "path": gone})
	if class != ir.ClassTool || !strings.HasPrefix(got, quoted(gone)+": ") {
		t.Errorf("%s %s", class, got)
	}
	if runtime.GOOS != "linux" {
		return
	}
	w.options = builtin.Options{Root: "/proc/self"}
	if got, class := w.call(t, "Read", in{"path": "mem"}); class != ir.ClassTool || !strings.HasPrefix(got, `"mem": `) {
		t.Errorf("%s %s", class, got)
	}
}

func TestWriteChangesOnlyItsFile(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct{ path, at string }{
		"into the run's folder": {"out/report.md", filepath.Join(w.run, "out/report.md")},
		"into the project":      {filepath.Join(w.root, "new/file.md"), filepath.Join(w.root, "new/file.md")},
		"over what is there":    {filepath.Join(w.root, "readme.md"), filepath.Join(w.root, "readme.md")},
	} {
		if got, class := w.call(t, "Write", in{"path": c.path, "content": "text\n"}); class != "" {
			t.Errorf("%s: %s %s", name, class, got)
		}
		if raw, err := os.ReadFile(c.at); err != nil || string(raw) != "text\n" {
			t.Errorf("%s: %q, %v", name, raw, err)
		}
	}
	// Writing changes no other file and leaves no temporary file.
	w.put(t, filepath.Join(w.root, ".readme.md.new"), "mine")
	if got, class := w.call(t, "Write", in{"path": filepath.Join(w.root, "readme.md"), "content": "x"}); class != "" {
		t.Errorf("%s %s", class, got)
	}
	if raw, err := os.ReadFile(filepath.Join(w.root, ".readme.md.new")); err != nil || string(raw) != "mine" {
		t.Errorf("beside: %q, %v", raw, err)
	}
	if left, err := filepath.Glob(filepath.Join(w.root, ".*readme*")); err != nil || len(left) != 1 {
		t.Errorf("beside: %v, %v", left, err)
	}
	if _, class := w.call(t, "Write", in{"path": strings.Repeat("n", 255), "content": ""}); class != "" {
		t.Errorf("a long name: %s", class)
	}
	if _, class := w.call(t, "Write",
		in{"path": filepath.Join(w.root, "src"), "content": ""}); class != ir.ClassInput {
		t.Errorf("over a folder: %s", class)
	}
	if _, class := w.call(t, "Write",
		in{"path": "big", "content": strings.Repeat("x", 16<<20+1)}); class != ir.ClassInput {
		t.Errorf("too much: %s", class)
	}
}

// Concurrent writes of one file leave the complete content of one of them.
func TestConcurrentWritesAreAtomic(t *testing.T) {
	w := newWorld(t)
	texts := []string{strings.Repeat("a", 1<<18), strings.Repeat("b", 1<<18)}
	var writing sync.WaitGroup
	for _, text := range texts {
		writing.Go(func() {
			for range 10 {
				if got, class := w.call(t, "Write", in{"path": "same", "content": text}); class != "" {
					t.Errorf("%s %s", class, got)
				}
				if raw, err := os.ReadFile(filepath.Join(w.run, "same")); err != nil ||
					!slices.Contains(texts, string(raw)) {
					t.Errorf("%d bytes, %v", len(raw), err)
				}
			}
		})
	}
	writing.Wait()
}

func TestEditReplacesUniqueOrAllMatches(t *testing.T) {
	w := newWorld(t)
	w.put(t, filepath.Join(w.root, "e.txt"), "a b a\n")
	for _, c := range []struct {
		input in
		class ir.Class
		now   string
	}{
		{in{"path": "e.txt", "old_string": "a", "new_string": "c"}, isError, "a b a\n"},
		{in{"path": "e.txt", "old_string": "z", "new_string": "c"}, isError, "a b a\n"},
		{in{"path": "e.txt", "old_string": "b", "new_string": "c"}, "", "a c a\n"},
		{in{"path": "e.txt", "old_string": "a", "new_string": "d", "replace_all": true}, "", "d c d\n"},
	} {
		got, class := w.call(t, "Edit", c.input)
		raw, err := os.ReadFile(filepath.Join(w.root, "e.txt"))
		if class != c.class || string(raw) != c.now || err != nil {
			t.Errorf("%v: %s %s, now %q", c.input, class, got, raw)
		}
	}
}

func TestGlobAndGrepStayInTheirFolder(t *testing.T) {
	w := newWorld(t)
	w.link(t, w.outside, "out")
	w.link(t, ".espalier", "own")
	for _, c := range []struct {
		tool  string
		input in
		want  string
	}{
		{"Glob", in{"pattern": "**/*.go"}, `{"files":["src/a.go","src/deep/b.go"]}`},
		{"Glob", in{"pattern": "src/*.go"}, `{"files":["src/a.go"]}`},
		{"Glob", in{"pattern": "*.go"}, `{"files":["src/a.go","src/deep/b.go"]}`},
		{"Glob", in{"pattern": "*", "path": "src/deep"}, `{"files":["src/deep/b.go"]}`},
		{"Glob", in{"pattern": "*.txt"}, `{"files":["note.txt"]}`},
		{"Glob", in{"pattern": "**/secret"}, `{"files":[]}`},
		{"Glob", in{"pattern": "**/config"}, `{"files":[]}`},
		{
			"Grep",
			in{"pattern": "needle"},
			`{"matches":[{"path":"src/deep/b.go","line":1,"text":"package b // needle"}]}`,
		},
		{
			"Grep",
			in{"pattern": "^T", "ignore_case": true},
			`{"matches":[{"path":"readme.md","line":2,"text":"two"},{"path":"readme.md","line":3,"text":"three"}]}`,
		},
		{
			"Grep",
			in{"pattern": "package", "glob": "a.*"},
			`{"matches":[{"path":"src/a.go","line":1,"text":"package a"}]}`,
		},
		{"Grep", in{"pattern": "two", "path": "readme.md"}, `{"matches":[{"path":"readme.md","line":2,"text":"two"}]}`},
		{"Grep", in{"pattern": "journal|secret|another"}, `{"matches":[]}`},
	} {
		if got, class := w.call(t, c.tool, c.input); got != c.want || class != "" {
			t.Errorf("%s %v: %s %s", c.tool, c.input, class, got)
		}
	}
	for _, c := range []in{{"pattern": "["}, {"pattern": "src/["}} {
		if _, class := w.call(t, "Glob", c); class != ir.ClassInput {
			t.Errorf("%v: %s", c, class)
		}
	}
	if _, class := w.call(t, "Grep", in{"pattern": "("}); class != ir.ClassInput {
		t.Errorf("a broken expression: %s", class)
	}
}

func TestLargeResultsAreTruncated(t *testing.T) {
	w := newWorld(t)
	for n := range 1005 {
		w.put(t, filepath.Join(w.root, "many", fmt.Sprintf("f%04d", n)), "hit\n")
	}
	w.put(t, filepath.Join(w.root, "long"), strings.Repeat("x", 300<<10))
	for name, input := range map[string]in{
		"Glob": {"pattern": "many/*"}, "Grep": {"pattern": "hit"},
		"Read": {"path": "long"},
	} {
		if got, class := w.call(t, name, input); class != "" || !strings.Contains(got, `"truncated":true`) {
			t.Errorf("%s: %s %.100s", name, class, got)
		}
	}
}

// While another process swaps a folder for a link that leads out, and back, reading and writing through it either stay
// inside or are refused.
func TestFolderSwappedForLinkNeverLeadsOut(t *testing.T) {
	w := newWorld(t)
	inside, spare := filepath.Join(w.root, "swap"), filepath.Join(w.root, "spare")
	w.put(t, filepath.Join(inside, "secret"), "harmless\n")
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Rename(inside, spare)
			_ = os.Symlink(w.outside, inside)
			_ = os.Remove(inside)
			_ = os.Rename(spare, inside)
		}
	})
	for range 300 {
		if got, class := w.call(t, "Read", in{"path": "swap/secret"}); class == "" && !strings.Contains(got,
			"harmless") {
			t.Fatalf("read outside: %s", got)
		}
		w.call(t, "Write", in{"path": filepath.Join(inside, "secret"), "content": "harmless\n"})
		w.call(t, "Write", in{"path": filepath.Join(inside, "made"), "content": "harmless\n"})
	}
	close(stop)
	swapping.Wait()
	entries, err := os.ReadDir(w.outside)
	raw, readErr := os.ReadFile(filepath.Join(w.outside, "secret"))
	if err != nil || readErr != nil || len(entries) != 1 || string(raw) != "secret\n" {
		t.Errorf("outside: %v, %q, %v, %v", entries, raw, err, readErr)
	}
}

// The schemas are well-formed and match what the tools accept.
func TestSpecsMatchTheTools(t *testing.T) {
	seen := map[string]bool{}
	for _, one := range builtin.Tools(builtin.Options{}) {
		spec := one.Spec()
		if _, err := schema.Compile(spec.Schema); err != nil || spec.Description == "" || spec.Target == "" ||
			seen[spec.Name] {
			t.Errorf("%s: %v", spec.Name, err)
		}
		seen[spec.Name] = true
	}
	if len(seen) != 8 {
		t.Errorf("%v", seen)
	}
}

// The run's folder must not contain configuration either: an allowed command, such as git status, would read it.
func TestRunFolderTakesNoConfiguration(t *testing.T) {
	usertest.Run(t, "^TestRunFolderTakesNoConfiguration$")
	w := newWorld(t)
	for _, path := range []string{
		".git", ".git/config", ".GIT/config", "sub/.git/config", ".g\u200cit/config", "GIT~1/config", ".git::$DATA",
		"HEAD", "repo/HEAD", ".envrc", ".npmrc", "espalier.yaml", ".mcp.json",
		".claude/settings.json", "CLAUDE.md", ".vscode/tasks.json",
	} {
		if got, class := w.call(t, "Write", in{"path": path, "content": "x"}); class != ir.ClassDenied {
			t.Errorf("Write %s: %s %s", path, class, got)
		}
	}
	for _, path := range []string{"package.json", "src/main.go", "notes.md"} {
		if got, class := w.call(t, "Write", in{"path": path, "content": "x"}); class != "" {
			t.Errorf("Write %s: %s %s", path, class, got)
		}
	}
}

// A repository in the folder of a run would let an allowed "git status" execute the fsmonitor command in its
// configuration. No run can write one, neither as .git nor as a bare repository.
func TestGitRunsNothingThatARunWrote(t *testing.T) {
	usertest.Run(t, "^TestGitRunsNothingThatARunWrote$")
	if _, err := exec.LookPath("git"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	w := newWorld(t)
	pwned := filepath.Join(w.outside, "pwned")
	home := t.TempDir()
	git := func(dir string, args ...string) {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+home, "GIT_CONFIG_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES="+w.root)
		_ = cmd.Run() // it fails where there is no repository
	}
	config := fmt.Sprintf("[core]\n\trepositoryformatversion = 0\n\tworktree = %s\n\tfsmonitor = touch %s\n",
		w.outside, pwned)
	planted := filepath.Join(w.outside, "repository")
	git(w.outside, "init", "-q", planted)
	w.put(t, filepath.Join(planted, ".git", "config"), config)
	git(planted, "status")
	if err := os.Remove(pwned); err != nil {
		t.Fatalf("git does not execute the command of a planted repository: %v", err)
	}
	var names []string
	err := fs.WalkDir(os.DirFS(filepath.Join(planted, ".git")), ".", func(name string, d fs.DirEntry, err error) error {
		if d != nil && d.Type().IsRegular() {
			names = append(names, name)
		}
		return err
	})
	if err != nil || len(names) == 0 {
		t.Fatalf("%q, %v", names, err)
	}
	names = append(names, "refs/heads/x", "objects/x") // folders that have to exist
	for _, folder := range []string{"", "sub/"} {
		for _, as := range []string{".git/", ".GIT/", ".g\u200cit/", "GIT~1/", "", "bare/"} {
			for _, name := range names {
				text := config
				if name == "HEAD" {
					text = "ref: refs/heads/main\n"
				}
				w.call(t, "Write", in{"path": folder + as + name, "content": text})
			}
			git(filepath.Join(w.run, folder), "status")
			git(filepath.Join(w.run, folder, as), "status")
		}
	}
	if _, err := os.Stat(pwned); err == nil {
		t.Error("git executed a command that a run wrote")
	}
}

// Denied paths stay denied through links, and no run changes the files of its own workflow.
func TestWorkflowRulesHoldForResolvedPaths(t *testing.T) {
	usertest.Run(t, "^TestWorkflowRulesHoldForResolvedPaths$")
	w := newWorld(t)
	w.link(t, "src/deep", "public")
	caller := tool.Caller{Program: &ir.Program{Tools: ir.Tools{
		AllowAll: true,
		Deny:     []ir.Name{{Name: "Read(src/deep/**)"}, {Name: "Write(src/deep/**)"}},
	}}}
	for name, input := range map[string]in{
		"Read":  {"path": "public/b.go"},
		"Write": {"path": filepath.Join(w.root, "public/new/b.go"), "content": "x"},
	} {
		w.mayTouch = func(path string, linked bool) bool { return caller.MayTouch(name, path, linked) }
		if got, class := w.call(t, name, input); class != ir.ClassDenied {
			t.Errorf("%s: %s %s", name, class, got)
		}
	}
	if _, err := os.Stat(filepath.Join(w.root, "src/deep/new")); err == nil {
		t.Error("a folder was made in a denied one")
	}
	// A list that allows docs/** does not allow the targets of links in docs.
	w.put(t, filepath.Join(w.root, "docs/own.md"), "own\n")
	w.link(t, "../src", "docs/away")
	caller = tool.Caller{Program: &ir.Program{Tools: ir.Tools{Allow: []ir.Name{{Name: "Read(docs/**)"}}}}}
	w.mayTouch = func(path string, linked bool) bool { return caller.MayTouch("Read", path, linked) }
	if got, class := w.call(t, "Read", in{"path": "docs/away/a.go"}); class != ir.ClassDenied {
		t.Errorf("%s %s", class, got)
	}
	if got, class := w.call(t, "Read", in{"path": "docs/own.md"}); class != "" {
		t.Errorf("%s %s", class, got)
	}
	w.mayTouch = nil
	sum := sha256.Sum256([]byte("one\ntwo\nthree\n"))
	w.keep.Sums = []string{hex.EncodeToString(sum[:])}
	flow := filepath.Join(w.root, "readme.md")
	for name, input := range map[string]in{
		"Write": {"path": flow, "content": "x"},
		"Edit":  {"path": flow, "old_string": "two", "new_string": "x"},
	} {
		if got, class := w.call(t, name, input); class != ir.ClassDenied {
			t.Errorf("%s: %s %s", name, class, got)
		}
	}
}

// quoted returns a path as errors of the file system show it.
func quoted(path string) string { return strconv.Quote(filepath.ToSlash(path)) }

// Errors name the path that the model asked for, and no other path of this machine.
func TestErrorsNameThePathOfTheCall(t *testing.T) {
	usertest.Run(t, "^TestErrorsNameThePathOfTheCall$")
	w := newWorld(t)
	away := filepath.Join(t.TempDir(), "away")
	if err := os.Symlink(w.outside, away); err != nil {
		t.Fatal(err)
	}
	asked := filepath.Join(away, "secret")
	if got, _ := w.call(t, "Read", in{"path": asked}); !strings.Contains(got, strconv.Quote(asked)) ||
		strings.Contains(got, w.outside) {
		t.Errorf("Read over a link: %s", got)
	}
	for _, asked := range []string{"nowhere", filepath.Join(w.root, "nowhere"), filepath.Join(w.root, "nowhere/deep")} {
		for name, input := range map[string]in{
			"Read": {"path": asked}, "Glob": {"path": asked, "pattern": "*"}, "Grep": {"path": asked, "pattern": "."},
		} {
			if got, class := w.call(t, name, input); !strings.HasPrefix(got, quoted(asked)+": ") ||
				class != ir.ClassTool {
				t.Errorf("%s %s: %s %s", name, asked, class, got)
			}
		}
	}
	if os.Geteuid() == 0 || runtime.GOOS == "windows" {
		return // the permissions of a folder do not matter
	}
	// The folder accepts no new file, so the replacement of the file cannot be created.
	locked := filepath.Join(w.root, "locked")
	w.put(t, filepath.Join(locked, "a.md"), "a\n")
	if err := os.Chmod(locked, 0o500); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(locked, 0o700)
	asked = filepath.Join(locked, "a.md")
	want := quoted(asked) + ": permission denied"
	if got, _ := w.call(t, "Write", in{"path": asked, "content": "b"}); got != want {
		t.Errorf("Write: %s, want %s", got, want)
	}
	if got, _ := w.call(t, "Edit", in{"path": asked, "old_string": "a", "new_string": "b"}); got != want {
		t.Errorf("Edit: %s, want %s", got, want)
	}
}
