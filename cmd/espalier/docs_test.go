package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"go.yaml.in/yaml/v4"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/explain"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/project"
	"github.com/espalier-run/espalier/internal/report/reporttest"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// The documentation is run. In a ```console block, a line that begins with
// "$ " is a command and the lines below it are what it prints, stdout and
// stderr as a terminal shows them; a line of "..." stands for any lines. A
// command that ends with "# exit 3" must end with that code, any other with 0.
// The commands of a page run one after the other, in a folder of their own
// that holds the examples. A block after a line that ends with "in `NAME`:" is
// written to that file first.
//
// "go test ./cmd/espalier -run Docs -update" writes outputs and pictures anew;
// outputs with "..." in them are mended by hand.
var update = flag.Bool("update", false, "write the outputs and pictures of the documentation anew")

const (
	prompt  = "$ "
	anyText = "..."
)

// documentation lists every page, by its path from the root of the repository.
func documentation(t *testing.T) []string {
	t.Helper()
	pages := []string{
		"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "ROADMAP.md", "SECURITY.md", "CODE_OF_CONDUCT.md",
	}
	for _, dir := range []string{"docs", "docs/formats"} {
		found, err := filepath.Glob(filepath.Join(repoPath(dir), "*.md"))
		if err != nil || len(found) == 0 {
			t.Fatal(dir, err)
		}
		for _, name := range found {
			pages = append(pages, dir+"/"+filepath.Base(name))
		}
	}
	if len(pages) < 11 {
		t.Fatalf("found only %d pages", len(pages))
	}
	return pages
}

func repoPath(path string) string { return filepath.Join("..", "..", filepath.FromSlash(path)) }

func readPage(t *testing.T, page string) []string {
	t.Helper()
	raw, err := os.ReadFile(repoPath(page))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(raw), "\n")
}

// The tutorial continues in the project of the README, so that its runs need other IDs.
func TestTutorialUsesNoRunOfTheREADME(t *testing.T) {
	ids := func(page string) []string {
		var out []string
		text := strings.Join(readPage(t, page), "\n")
		for _, m := range regexp.MustCompile(`--run-id (\S+)`).FindAllStringSubmatch(text, -1) {
			out = append(out, m[1])
		}
		return out
	}
	readme, tutorial := ids("README.md"), ids("docs/first-steps.md")
	if len(readme) == 0 || len(tutorial) == 0 {
		t.Fatal(readme, tutorial)
	}
	for _, id := range tutorial {
		if slices.Contains(readme, id) {
			t.Errorf("both use %s", id)
		}
	}
}

// fence is one block of a page: the lines from first up to after, which are indented if the block is part of a list.
type fence struct {
	label, indent string
	first, after  int
}

func (f fence) text(lines []string) string {
	return strings.Join(outdent(lines[f.first:f.after], f.indent), "\n") + "\n"
}

// outdent returns lines without their indentation.
func outdent(lines []string, indent string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = strings.TrimPrefix(line, indent)
	}
	return out
}

// indented returns lines with an indentation, except for empty ones.
func indented(lines []string, indent string) []string {
	out := slices.Clone(lines)
	for i, line := range out {
		if line != "" {
			out[i] = indent + line
		}
	}
	return out
}

func fences(t *testing.T, page string, lines []string) []fence {
	t.Helper()
	var found []fence
	mark, open := "", 0
	for i, line := range lines {
		block := strings.TrimLeft(line, " ")
		indent := line[:len(line)-len(block)]
		ticks := block[:len(block)-len(strings.TrimLeft(block, "`"))]
		switch {
		case mark == "" && len(ticks) >= 3:
			mark, open = indent+ticks, i
		case mark != "" && line == mark:
			label := strings.TrimLeft(lines[open], " `")
			found = append(found, fence{label: label, indent: indent, first: open + 1, after: i})
			mark = ""
		}
	}
	if mark != "" {
		t.Fatalf("%s:%d: this block is never closed", page, open+1)
	}
	return found
}

// command is one command of a page and what it must print: the lines from
// first up to after. With a file it is not a command, but what is written there.
type command struct {
	text         string
	file         string
	indent       string
	exit         int
	first, after int
}

var (
	exitComment = regexp.MustCompile(`# exit (\d+)$`)
	fileName    = regexp.MustCompile("\\bin `([\\w./-]+)`:$")
)

func commands(t *testing.T, page string, lines []string) []command {
	t.Helper()
	var all []command
	for _, f := range fences(t, page, lines) {
		if f.label != "console" {
			if m := fileName.FindStringSubmatch(lines[max(f.first-3, 0)]); m != nil && lines[f.first-2] == "" {
				all = append(all, command{text: f.text(lines), file: m[1], first: f.first, after: f.after})
			}
			continue
		}
		for i := f.first; i < f.after; {
			text, ok := strings.CutPrefix(lines[i], f.indent+prompt)
			if !ok {
				t.Fatalf("%s:%d: a console block must begin with a command", page, i+1)
			}
			c := command{text: text, indent: f.indent, first: i + 1}
			if m := exitComment.FindStringSubmatch(text); m != nil {
				c.exit, _ = strconv.Atoi(m[1])
			}
			for i++; i < f.after && !strings.HasPrefix(lines[i], f.indent+prompt); i++ {
			}
			c.after = i
			all = append(all, c)
		}
	}
	return all
}

// Nothing but the program itself and a few commands that change nothing else
// may be shown; what they are called with stays inside the page's folder.
var mayRun = []string{
	"espalier", "cat", "cd", "cp", "curl", "echo", "export", "grep", "head", "kill", "ls", "mkdir",
	"sed", "sleep", "ssh-keygen", "tr",
}

// collectorAddress is where pages have a collector, which is another one here.
const collectorAddress = "http://localhost:4318"

// words are the programs that a command line starts. Quotes are respected,
// everything else of the shell's grammar is not needed.
func programs(line string) []string {
	var names []string
	var word strings.Builder
	quote, begins := rune(0), true
	flush := func() {
		if word.Len() > 0 && begins {
			names, begins = append(names, word.String()), false
		}
		word.Reset()
	}
	for _, r := range line {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '\'' || r == '"':
			quote = r
		case r == '|' || r == ';' || r == '&':
			flush()
			begins = true
		case unicode.IsSpace(r):
			flush()
		default:
			word.WriteRune(r)
		}
	}
	flush()
	return names
}

func TestDocsCommandsPrintWhatPagesShow(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no sh to run the documentation with")
	}
	makefile := strings.Join(readPage(t, "Makefile"), "\n")
	for _, page := range documentation(t) {
		lines := readPage(t, page)
		all := commands(t, page, lines)
		if len(all) == 0 {
			continue
		}
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			s := newShell(t, shell)
			var mended []string
			next := 0
			for _, c := range all {
				mended = append(mended, lines[next:c.first]...)
				next = c.after
				want := outdent(lines[c.first:c.after], c.indent)
				if c.file != "" {
					mended = append(mended, lines[c.first:c.after]...)
					name := filepath.Join(s.dir, filepath.FromSlash(c.file))
					if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(name, []byte(c.text), 0o644); err != nil {
						t.Fatal(err)
					}
					continue
				}
				if target, ok := strings.CutPrefix(c.text, "make "); ok {
					// These fetch and build for minutes; TestDemoShowsWhatTheProgramDoes has the rest.
					if !strings.Contains(makefile, "\n"+target+":") {
						t.Errorf("%s:%d: there is no target %q in the Makefile", page, c.first, target)
					}
					mended = append(mended, lines[c.first:c.after]...)
					continue
				}
				for _, name := range programs(exitComment.ReplaceAllString(c.text, "")) {
					if !slices.Contains(mayRun, name) {
						t.Fatalf("%s:%d: %q is not a command that documentation may show", page, c.first, name)
					}
				}
				got, exit := s.run(t, c.text)
				if exit != c.exit {
					t.Errorf("%s:%d: %s: exit code %d, want %d\n%s",
						page, c.first, c.text, exit, c.exit, strings.Join(got, "\n"))
				}
				if matchesLines(want, got) {
					mended = append(mended, lines[c.first:c.after]...)
					continue
				}
				mended = append(mended, indented(got, c.indent)...)
				if !*update || slices.ContainsFunc(want, isAnyText) {
					t.Errorf("%s:%d: %s\nprints\n%s\nbut the page says\n%s",
						page, c.first, c.text, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
			mended = append(mended, lines[next:]...)
			if s.collector != nil && len(s.collector.Spans()) == 0 {
				t.Errorf("%s: nothing has arrived at the collector", page)
			}
			if *update && !t.Failed() {
				if err := os.WriteFile(repoPath(page), []byte(strings.Join(mended, "\n")), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func isAnyText(line string) bool { return strings.TrimSpace(line) == anyText }

// matchesLines compares lines with a pattern in which "..." stands for any lines.
func matchesLines(pattern, lines []string) bool {
	if len(pattern) == 0 {
		return len(lines) == 0
	}
	if isAnyText(pattern[0]) {
		for skip := range len(lines) + 1 {
			if matchesLines(pattern[1:], lines[skip:]) {
				return true
			}
		}
		return false
	}
	return len(lines) > 0 && pattern[0] == lines[0] && matchesLines(pattern[1:], lines[1:])
}

func TestDocsDotsMatchAnyLines(t *testing.T) {
	for _, c := range []struct {
		pattern, lines string
		want           bool
	}{
		{"", "", true},
		{"a", "a", true},
		{"a", "b", false},
		{"a", "a b", false},
		{"a b", "a", false},
		{"...", "", true},
		{"... b", "a a b", true},
		{"a ... d", "a b c d", true},
		{"a ... d", "a b c", false},
		{"a ...", "b", false},
	} {
		if got := matchesLines(strings.Fields(c.pattern), strings.Fields(c.lines)); got != c.want {
			t.Errorf("%q against %q: got %t", c.pattern, c.lines, got)
		}
	}
	list := []string{"1. First:", "", "   ```console", "   $ espalier list", "     a", "   $ espalier runs", "   ```"}
	found := commands(t, "list.md", list)
	if len(found) != 2 || found[0].text != "espalier list" || found[1].text != "espalier runs" ||
		outdent(list[found[0].first:found[0].after], found[0].indent)[0] != "  a" {
		t.Errorf("a block in a list has the commands %+v", found)
	}
	for line, want := range map[string]string{
		`espalier expr 'a | rm'`:                 "espalier",
		`cat x.md | espalier validate - && ls`:   "cat espalier ls",
		`sed 's/a/b/; s/c/d/' x > y; curl "a b"`: "sed curl",
	} {
		if got := strings.Join(programs(line), " "); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

// shell runs the commands of one page.
type shell struct {
	path, home, pwd string
	dir             string // where the next command runs
	exported        []string
	collector       *reporttest.Collector // nil until a command names it
	alive           *os.File              // inherited by every process that a command starts
}

func newShell(t *testing.T, path string) *shell {
	t.Helper()
	// Without links on the way: paths that are printed must not depend on them.
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &shell{
		path: path, home: filepath.Join(base, "home"), pwd: filepath.Join(base, "pwd"),
		dir: filepath.Join(base, "work"),
	}
	if err := os.CopyFS(filepath.Join(s.dir, "examples"), os.DirFS(repoPath("examples"))); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{s.home, filepath.Join(s.dir, ".git")} { // where the project begins
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.awaitProcesses(t)
	return s
}

// awaitProcesses makes the test wait, before its folder is removed, for processes that outlive their commands, such as
// a server in the background. They inherit one end of a pipe; the other end is at EOF when all of them have ended.
func (s *shell) awaitProcesses(t *testing.T) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s.alive = w
	t.Cleanup(func() {
		if err := errors.Join(w.Close(), r.SetReadDeadline(time.Now().Add(time.Minute))); err != nil {
			t.Error(err)
		}
		if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("a process that a command started in the background has not ended: %v", err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

func (s *shell) run(t *testing.T, text string) (output []string, exit int) {
	t.Helper()
	if variable, ok := strings.CutPrefix(text, "export "); ok {
		if s.collector == nil && strings.Contains(variable, collectorAddress) {
			s.collector = reporttest.NewCollector(t)
			variable = strings.ReplaceAll(variable, collectorAddress, s.collector.URL)
		}
		s.exported = append(s.exported, variable)
		return nil, 0
	}
	cmd := exec.CommandContext(t.Context(), s.path, "-c", text+"\ncode=$?; pwd >\"$WHERE\"; exit $code")
	cmd.Dir = s.dir
	cmd.Env = []string{
		"PATH=" + barePath(t), "HOME=" + s.home, "WHERE=" + s.pwd, "PWD=" + s.dir, "NO_COLOR=1", "COLUMNS=80",
		"LC_ALL=C", "GORACE=" + quickExit,
	}
	cmd.Env = append(cmd.Env, "XDG_CACHE_HOME="+os.Getenv("XDG_CACHE_HOME"))
	cmd.Env = append(cmd.Env, s.exported...)
	cmd.ExtraFiles = []*os.File{s.alive}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out // one pipe, so that the order is kept
	var failed *exec.ExitError
	if err := cmd.Run(); errors.As(err, &failed) {
		exit = failed.ExitCode()
	} else if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	where, err := os.ReadFile(s.pwd)
	if err != nil {
		t.Fatal(err)
	}
	s.dir = strings.TrimSuffix(string(where), "\n")
	if out.Len() == 0 {
		return nil, exit
	}
	printed := out.String()
	if s.collector != nil {
		printed = strings.ReplaceAll(printed, s.collector.URL, collectorAddress)
	}
	return strings.Split(strings.TrimSuffix(printed, "\n"), "\n"), exit
}

// Data and workflows that pages show are what they say they are.
func TestDocsBlocksAreWhatTheySay(t *testing.T) {
	for _, page := range documentation(t) {
		lines := readPage(t, page)
		for _, f := range fences(t, page, lines) {
			text := f.text(lines)
			at := fmt.Sprintf("%s:%d", page, f.first)
			switch f.label {
			case "console": // TestDocsCommandsPrintWhatPagesShow
			case "json":
				if !json.Valid([]byte(text)) {
					t.Errorf("%s: this is not JSON", at)
				}
			case "yaml":
				var any any
				if err := yaml.Unmarshal([]byte(text), &any); err != nil {
					t.Errorf("%s: this is not YAML: %v", at, err)
				}
				checkUsage(t, at, text)
			case "markdown":
				if strings.HasPrefix(text, "---\n") { // a whole file
					name := filepath.Join(t.TempDir(), "flow.md")
					if m := fileName.FindStringSubmatch(lines[max(f.first-3, 0)]); m != nil {
						name = filepath.Join(filepath.Dir(name), filepath.Base(m[1]))
					}
					if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
						t.Fatal(err)
					}
					if out, err := exec.CommandContext(t.Context(), "espalier", "validate", "--strict", name).
						CombinedOutput(); err != nil {
						t.Errorf("%s: this workflow is not valid: %v\n%s", at, err, out)
					}
				}
			case "python": // run by the tests of internal/report/audit
			case "sql": // run by the tests of internal/journal/postgres
			case "text":
				// Commands that cannot run here say why, on the line above the block.
				if before := strings.TrimSpace(lines[max(f.first-2, 0)]); showsCommand.MatchString(text) &&
					!notRun.MatchString(before) {
					t.Errorf("%s: commands belong into console blocks, or below a line such as "+
						"<!-- not run: needs systemd -->", at)
				}
				if reason := strings.TrimSpace(lines[max(f.first-2, 0)]); notRun.MatchString(reason) &&
					!namesATest(t, reason) {
					t.Errorf("%s: commands that are not run here need a test, a script or a target of make that "+
						"runs them, and the line above them has to name it", at)
				}
				checkUsage(t, at, strings.ReplaceAll(text, "\\\n", " "))
			case "html", "make", "go":
			default:
				t.Errorf("%s: a block labelled %q is not checked by anything; commands belong into console blocks",
					at, f.label)
			}
		}
	}
}

var (
	showsCommand = regexp.MustCompile(`(?m)^(\$ )?(?:[A-Z_]+=\S+ )*(?:espalier|docker|podman|systemctl|export|curl|psql|kubectl|make) `)
	notRun       = regexp.MustCompile(`^<!-- not run: .+ -->$`)
)

var evidence = regexp.MustCompile(`\b(Test\w+|[\w/-]+\.txtar|make [a-z-]+)\b`)

// namesATest reports whether a text names a test, a script or a target of make that exists.
func namesATest(t *testing.T, text string) bool {
	t.Helper()
	name := evidence.FindString(text)
	target, isTarget := strings.CutPrefix(name, "make ")
	switch {
	case name == "":
		return false
	case isTarget:
		return strings.Contains(strings.Join(readPage(t, "Makefile"), "\n"), "\n"+target+":")
	case strings.HasSuffix(name, ".txtar"):
		_, err := os.Stat(repoPath(name))
		return err == nil
	}
	found := false
	err := filepath.WalkDir(repoPath("."), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || found || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		raw, err := os.ReadFile(path)
		found = strings.Contains(string(raw), "\nfunc "+name+"(")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

var usage = regexp.MustCompile(`\bespalier ([a-z]+)((?: +[^\s|>]+)*)`)

var subcommand = regexp.MustCompile(`^[a-z]+$`)

// checkUsage holds that commands named in running text exist, with their flags.
func checkUsage(t *testing.T, at, text string) {
	t.Helper()
	for _, m := range usage.FindAllStringSubmatch(text, -1) {
		help := helpOf(t, m[1])
		if help == "" {
			t.Errorf("%s: %q: there is no such command", at, m[0])
			continue
		}
		if words := strings.Fields(m[2]); len(words) > 0 && subcommand.MatchString(words[0]) {
			// A word that is not a subcommand prints the help of the command again.
			help += helpOf(t, m[1], words[0])
		}
		for word := range strings.FieldsSeq(m[2]) {
			if strings.HasPrefix(word, "--") && !strings.Contains(help, word+" ") {
				t.Errorf("%s: %q: there is no flag %s", at, m[0], word)
			}
		}
	}
}

// helps has the help of the commands that pages name.
var helps sync.Map

// helpOf returns the help of a command, or "" if there is no such command.
func helpOf(t *testing.T, command ...string) string {
	t.Helper()
	name := strings.Join(command, " ")
	help, ok := helps.Load(name)
	if !ok {
		out, err := exec.CommandContext(t.Context(), "espalier", append([]string{"help"}, command...)...).Output()
		if err != nil {
			out = nil
		}
		help, _ = helps.LoadOrStore(name, string(out))
	}
	return help.(string)
}

var (
	inlineCode = regexp.MustCompile("`[^`\n]+`")
	codeName   = regexp.MustCompile(`\b([A-Z]{2,6})\d{3}\b`)
)

// What running text names, exists: commands, flags, codes of diagnostics.
func TestDocsNamesExist(t *testing.T) {
	known, families := explain.Codes(), map[string]bool{}
	for _, code := range known {
		families[strings.TrimRight(code, "0123456789")] = true
	}
	for _, page := range documentation(t) {
		lines := readPage(t, page)
		for i, line := range lines {
			for _, m := range codeName.FindAllStringSubmatch(line, -1) {
				if !slices.Contains(known, m[0]) && families[m[1]] {
					t.Errorf("%s:%d: there is no code %s", page, i+1, m[0])
				}
			}
		}
		for i, line := range prose(t, page, lines) {
			for _, code := range inlineCode.FindAllString(line, -1) {
				checkUsage(t, fmt.Sprintf("%s:%d", page, i+1), strings.Trim(code, "`"))
			}
		}
	}
}

// prose is the lines of a page with blocks emptied.
func prose(t *testing.T, page string, lines []string) []string {
	t.Helper()
	out := slices.Clone(lines)
	for _, f := range fences(t, page, lines) {
		for i := f.first - 1; i <= f.after; i++ {
			out[i] = ""
		}
	}
	return out
}

var link = regexp.MustCompile(`\[([^\]]*)\]\(([^)\s]+)\)`)

// Links within the repository lead somewhere: to a file, to a heading, and a
// link called like a function to a file that declares it.
func TestDocsLinksLeadSomewhere(t *testing.T) {
	for _, page := range documentation(t) {
		lines := readPage(t, page)
		for i, line := range prose(t, page, lines) {
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				if why := linkError(t, page, m[1], m[2]); why != "" {
					t.Errorf("%s:%d: %s: %s", page, i+1, m[0], why)
				}
			}
		}
	}
}

func linkError(t *testing.T, page, name, target string) string {
	t.Helper()
	if strings.HasPrefix(target, "https://") {
		return ""
	}
	path, heading, _ := strings.Cut(target, "#")
	file := page
	if path != "" {
		file = filepath.ToSlash(filepath.Join(filepath.Dir(filepath.FromSlash(page)), filepath.FromSlash(path)))
	}
	if strings.HasPrefix(file, "..") {
		return "this leads out of the repository"
	}
	if _, err := os.Stat(repoPath(file)); err != nil {
		return "there is no " + file
	}
	if heading != "" && !slices.Contains(headings(t, file), heading) {
		return fmt.Sprintf("%s has no heading #%s", file, heading)
	}
	if declared := strings.Trim(name, "`"); declared != name && strings.HasSuffix(file, ".go") {
		if declared != filepath.Base(file) && !declares(t, file, declared) {
			return fmt.Sprintf("%s does not declare %s", file, declared)
		}
	}
	return ""
}

// headings lists the anchors of a page, as code hosting sites make them.
func headings(t *testing.T, page string) []string {
	t.Helper()
	var out []string
	for _, line := range prose(t, page, readPage(t, page)) {
		title := strings.TrimLeft(line, "#")
		if title == line || !strings.HasPrefix(title, " ") {
			continue
		}
		var anchor strings.Builder
		for _, r := range strings.ToLower(strings.TrimSpace(title)) {
			switch {
			case r == ' ':
				anchor.WriteByte('-')
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				anchor.WriteRune(r)
			}
		}
		out = append(out, anchor.String())
	}
	return out
}

// declares reports whether a Go file declares a name, which may be written with
// its package or its type (check.Program, State.Apply), or is of that package.
func declares(t *testing.T, file, name string) bool {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), repoPath(file), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	name = name[strings.LastIndexByte(name, '.')+1:]
	found := parsed.Name.Name == name
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			found = found || n.Name.Name == name
		case *ast.TypeSpec:
			found = found || n.Name.Name == name
		case *ast.ValueSpec:
			found = found || slices.ContainsFunc(n.Names, func(id *ast.Ident) bool { return id.Name == name })
		}
		return true
	})
	return found
}

// What runs leave behind is listed where people look for it, and so are the folders that variables name.
func TestDocsListsWhatIsStored(t *testing.T) {
	const page = "docs/configuration.md"
	table := map[string]bool{}
	for _, line := range readPage(t, page) {
		if paths, content, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok && content != "" {
			for _, path := range inlineCode.FindAllString(paths, -1) {
				table[strings.Trim(path, "`")] = true
			}
		}
	}
	dir, home := t.TempDir(), t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(repoPath("examples/agentfile"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "espalier", "run", "workflows/change-review/workflow.yaml", "--simulate",
		"--input", "x", "--auto-approve")
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + barePath(t), "HOME=" + home, "GORACE=" + quickExit}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	names := func(dir string) (names []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	for _, name := range names(dir) {
		old := slices.ContainsFunc(before, func(e fs.DirEntry) bool { return e.Name() == name })
		if !old && name != ".espalier" && !table[name] {
			t.Errorf("%s does not list %s", page, name)
		}
	}
	for _, name := range names(filepath.Join(dir, ".espalier")) {
		name, _, _ = strings.Cut(name, "-")
		if !table[".espalier/"+name] {
			t.Errorf("%s does not list .espalier/%s", page, name)
		}
	}
	help, err := exec.CommandContext(t.Context(), "espalier", "help", "environment").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, variable := range []string{"XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"} {
		listed := false
		for path := range table {
			listed = listed || strings.HasPrefix(path, "$"+variable+"/espalier")
		}
		if !listed || !bytes.Contains(help, []byte("  "+variable+" ")) {
			t.Errorf("%s or \"espalier help environment\" lacks %s", page, variable)
		}
	}
}

// Every package has a place in the tour, and every leaf a word.
func TestDocsTourIsComplete(t *testing.T) {
	tour := strings.Join(readPage(t, "docs/architecture.md"), "\n")
	entries, err := os.ReadDir(repoPath("internal"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !strings.Contains(tour, "\n| `"+e.Name()+"`") {
			t.Errorf("docs/architecture.md has no row for internal/%s", e.Name())
		}
	}
	leaves, err := filepath.Glob(repoPath("internal/*/*/doc.go"))
	if err != nil || len(leaves) == 0 {
		t.Fatal(leaves, err)
	}
	for _, doc := range leaves {
		if name := filepath.Base(filepath.Dir(doc)); !strings.Contains(tour, "`"+name+"`") {
			t.Errorf("docs/architecture.md does not name %s", filepath.Dir(doc))
		}
	}
}

// The figures that an estimate assumes are those of the code.
func TestDocsAssumptionsAreThoseOfTheCode(t *testing.T) {
	page := strings.Join(readPage(t, "docs/cost.md"), "\n")
	for what, figures := range map[string][]int64{
		"tokens per reply":                         {stepkind.DefaultReplyTokens, stepkind.DefaultReplyTokens},
		"model calls of an agent with tools":       {stepkind.DefaultMaxTurns, 1},
		"additional calls for a reply":             {stepkind.RepairCalls, 0},
		"seconds per model call":                   {stepkind.ModelCallSeconds, stepkind.UsualModelSeconds},
		"seconds per tool call":                    {stepkind.ToolCallSeconds, stepkind.UsualToolSeconds},
		"seconds per script":                       {stepkind.ScriptSeconds, stepkind.UsualScriptSeconds},
		"tool calls of one reply":                  {stepkind.MaxCallsPerTurn},
		"visits of each step":                      {ir.VisitCap},
		"tokens per input value that a step reads": {stepkind.AssumedInputTokens, stepkind.AssumedInputTokens},
		"tokens per result of":                     {stepkind.AssumedResultTokens, stepkind.AssumedResultTokens},
		"tokens per gate note":                     {stepkind.AssumedNoteTokens, stepkind.AssumedNoteTokens},
	} {
		row := `\n\| ` + regexp.QuoteMeta(what) + `[^|]*`
		for _, n := range figures {
			row += `\| ` + stepkind.N(n).String() + ` `
		}
		if !regexp.MustCompile(row + `\|`).MatchString(page) {
			t.Errorf("docs/cost.md does not say %v for %q", figures, what)
		}
	}
}

// Every key of every block has its place, and every decision that the code
// names by its number.
func TestDocsAgentFlowIsComplete(t *testing.T) {
	page := strings.Join(readPage(t, "docs/formats/agent-flow.md"), "\n")
	for _, s := range catalog.Formats().Find("agent-flow").Schemas() {
		_, section, ok := strings.Cut(page, "\n### "+s.Block+"\n")
		if !ok {
			t.Errorf("docs/formats/agent-flow.md has no section on %s", s.Block)
			continue
		}
		section, _, _ = strings.Cut(section, "\n##")
		var schema struct {
			Properties map[string]any `json:"properties"`
		}
		if err := json.Unmarshal(s.Schema, &schema); err != nil {
			t.Fatal(err)
		}
		for key := range schema.Properties {
			if !strings.Contains(section, "`"+key+"`") {
				t.Errorf("docs/formats/agent-flow.md does not mention %q of %s", key, s.Block)
			}
		}
	}
	for n := 1; n <= 46; n++ {
		if !regexp.MustCompile(fmt.Sprintf(`\n\| [F0-9, ]*F%d\b`, n)).MatchString(page) {
			t.Errorf("docs/formats/agent-flow.md has no row for F%d", n)
		}
	}
}

// Every key of an AWF state is in the tables of its page.
func TestDocsAWFIsComplete(t *testing.T) {
	page := strings.Join(readPage(t, "docs/formats/awf.md"), "\n")
	_, tables, _ := strings.Cut(page, "\n## Keys of states\n")
	tables, _, _ = strings.Cut(tables, "\n## ")
	var schema struct {
		Properties struct {
			States struct {
				AdditionalProperties struct {
					Properties map[string]any `json:"properties"`
				} `json:"additionalProperties"`
			} `json:"states"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(catalog.Formats().Find("awf").Schemas()[0].Schema, &schema); err != nil {
		t.Fatal(err)
	}
	keys := schema.Properties.States.AdditionalProperties.Properties
	if len(keys) < 30 {
		t.Fatalf("the schema has only %d keys", len(keys))
	}
	for key := range keys {
		if !strings.Contains(tables, "`"+key+"`") {
			t.Errorf("docs/formats/awf.md does not mention %q", key)
		}
	}
}

// The pictures are what the program draws now.
func TestDocsPicturesAreCurrent(t *testing.T) {
	drawn := map[string][]string{
		"support-triage.svg":  {"examples/agent-flow/support-triage.md"},
		"contract-review.svg": {"examples/agent-flow/contract-review.md", "--data"},
	}
	entries, err := os.ReadDir(repoPath("docs/pictures"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		screenshot := strings.HasPrefix(e.Name(), "web-") // by "make pictures"
		recorded := e.Name() == "recording.svg"           // by "make recording"
		if drawn[e.Name()] == nil && !screenshot && !recorded {
			t.Errorf("nothing draws docs/pictures/%s", e.Name())
		}
	}
	for name, args := range drawn {
		cmd := exec.CommandContext(t.Context(), "espalier", append([]string{"graph", "--format", "svg"}, args...)...)
		cmd.Dir = repoPath(".")
		got, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		file := repoPath("docs/pictures/" + name)
		if *update {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
			t.Errorf("docs/pictures/%s is not what the program draws now (%v); run this test with -update", name, err)
		}
	}
}

// The pictures of web pages are of the examples as they are now.
func TestDocsPicturesAreOfTheExamples(t *testing.T) {
	sources := 0
	for _, line := range readPage(t, "docs/pictures/web-sources.sha256") {
		digest, name, ok := strings.Cut(line, "  ")
		if !ok {
			continue
		}
		sources++
		raw, err := os.ReadFile(repoPath(name))
		if err != nil || fmt.Sprintf("%x", sha256.Sum256(raw)) != digest {
			t.Errorf("docs/pictures shows web pages of another %s (%v). Run \"make pictures\".", name, err)
		}
	}
	if sources == 0 {
		t.Error("docs/pictures/web-sources.sha256 has no sources")
	}
}

// requireMake skips a test on a machine without make, which CI has.
func requireMake(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("make"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("there is no make")
	}
}

// TestDemoShowsWhatTheProgramDoes runs what "make demo" shows, with the program that is tested.
func TestDemoShowsWhatTheProgramDoes(t *testing.T) {
	requireMake(t)
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "examples"), os.DirFS(repoPath("examples"))); err != nil {
		t.Fatal(err)
	}
	copyCandidates(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "Makefile"),
		[]byte(strings.Join(readPage(t, "Makefile"), "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath("espalier")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("make", "demo", "GO=true", "ESPALIER="+program) // nothing is built
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "HOME="+dir, "GORACE="+quickExit)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"contract-review", "support-triage  finished", "simulated", `There is no agent "sumarizer"`, `Did you mean "summarizer"?`, "2 errors",
		"\nNext: ",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("there is no %s in\n%s", want, out)
		}
	}
	// What is shown can be copied into a shell: only the file with mistakes is refused.
	script := ""
	for _, m := range regexp.MustCompile(`(?m)^\$ (.*)$`).FindAllStringSubmatch(string(out), -1) {
		script += m[1] + "\necho \"exit $?\"\n"
	}
	copied := exec.Command("sh", "-c", script)
	copied.Dir, copied.Env = dir, cmd.Env
	again, err := copied.CombinedOutput()
	exits := regexp.MustCompile(`(?m)^exit \d+$`).FindAllString(string(again), -1)
	if err != nil || strings.Join(exits, ", ") != strings.Repeat("exit 0, ", max(0, len(exits)-1))+"exit 3" ||
		len(exits) < 8 {
		t.Errorf("copied into a shell, the commands of the demonstration end with %v, %v\n%s", exits, err, again)
	}
	listed := exec.Command("espalier", "list", "examples", "--json")
	listed.Dir, listed.Env = dir, cmd.Env
	raw, err := listed.Output()
	var found struct{ Workflows []struct{ Path string } }
	if err = cmp.Or(err, json.Unmarshal(raw, &found)); err != nil || len(found.Workflows) == 0 {
		t.Fatalf("%v\n%s", err, raw)
	}
	for _, w := range found.Workflows {
		if !strings.HasPrefix(w.Path, "examples/") {
			t.Errorf("the demonstration lists %s", w.Path)
		}
	}
	if picture, err := os.ReadFile(filepath.Join(dir, "bin", "contract-review.svg")); err != nil ||
		!strings.Contains(string(picture), "<svg") {
		t.Errorf("%v\n%s", err, picture)
	}
}

// copyCandidates copies every file of the repository that could be a workflow, except the examples.
func copyCandidates(t *testing.T, to string) {
	root := repoPath(".")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{".git", "bin", "dist", "examples", "node_modules"}, rel) {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || !project.CouldBeWorkflow(rel) {
			return nil
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		copied := filepath.Join(to, rel)
		return errors.Join(os.MkdirAll(filepath.Dir(copied), 0o700), os.WriteFile(copied, raw, 0o600))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A page that names a test links to the file that has it, and every row of a table of promises links to a test or to a
// script of the command line.
func TestDocsPromisesLinkToTests(t *testing.T) {
	linked := regexp.MustCompile("\\[`((?:Test|Fuzz)\\w+)`\\]\\(\\.\\./([^)]+)\\)")
	script := regexp.MustCompile("\\[`([\\w-]+)`\\]\\((\\.\\./testdata/script/([\\w-]+)\\.txtar)\\)")
	unlinked := regexp.MustCompile("(?:^|[^\\[])`((?:Test|Fuzz)[A-Z]\\w+)`")
	rows := map[string]int{}
	for _, page := range documentation(t) {
		if !strings.HasPrefix(page, "docs/") || page == "docs/formats/agent-flow-clauses.md" {
			continue
		}
		promises := false
		for _, line := range readPage(t, page) {
			for _, m := range linked.FindAllStringSubmatch(line, -1) {
				code, err := os.ReadFile(repoPath(m[2]))
				if err != nil || !strings.Contains(string(code), "\nfunc "+m[1]+"(") {
					t.Errorf("%s: there is no %s in %s", page, m[1], m[2])
				}
			}
			for _, m := range script.FindAllStringSubmatch(line, -1) {
				if _, err := os.Stat(filepath.Join(repoPath("docs"), m[2])); err != nil || m[1] != m[3] {
					t.Errorf("%s: %s is not the script %s", page, m[2], m[1])
				}
			}
			for _, m := range unlinked.FindAllStringSubmatch(line, -1) {
				t.Errorf("%s: %s has no link to its file", page, m[1])
			}
			switch {
			case strings.HasSuffix(line, "| test |"):
				promises = true
			case !strings.HasPrefix(line, "|"):
				promises = false
			case promises && !strings.HasPrefix(line, "|---"):
				if rows[page]++; !linked.MatchString(line) && !script.MatchString(line) {
					t.Errorf("%s: no test is named in %s", page, line)
				}
			}
		}
	}
	if rows["docs/guarantees.md"] < 60 || rows["docs/security.md"] < 40 {
		t.Errorf("the pages have so many promises: %v", rows)
	}
}

// Every page of the documentation has a row with its promises and their tests, and links to it.
func TestDocsPromisesNameTests(t *testing.T) {
	const collected = "guarantees.md"
	named := map[string]string{}
	row := regexp.MustCompile(`^\| \[[\w-]+\]\(([\w/-]+\.md)\) \| [^|]+ \| (.+) \|$`)
	for _, line := range readPage(t, "docs/"+collected) {
		if m := row.FindStringSubmatch(line); m != nil {
			named["docs/"+m[1]] = m[2]
		}
	}
	for _, page := range documentation(t) {
		own := []string{"docs/" + collected, "docs/security.md", "docs/formats/agent-flow-clauses.md"}
		if !strings.HasPrefix(page, "docs/") || slices.Contains(own, page) {
			continue
		}
		if !strings.Contains(named[page], "[`Test") {
			t.Errorf("docs/%s has no row with a test for %s", collected, page)
		}
		if !strings.Contains(strings.Join(readPage(t, page), "\n"), collected) {
			t.Errorf("%s does not link to %s", page, collected)
		}
	}
}

// TestLiveWithoutKeysProvesNothing holds that "make test-live" says so if there is no key. Nothing is built.
func TestLiveWithoutKeysProvesNothing(t *testing.T) {
	requireMake(t)
	for key, silent := range map[string]bool{"": false, "ANTHROPIC_API_KEY": true, "GEMINI_API_KEY": true} {
		cmd := exec.Command("make", "--no-print-directory", "test-live", "GO=true")
		cmd.Dir = repoPath(".")
		cmd.Env = append(os.Environ(), "ANTHROPIC_API_KEY=", "OPENAI_API_KEY=", "GEMINI_API_KEY=")
		if key != "" {
			cmd.Env = append(cmd.Env, key+"=k")
		}
		out, err := cmd.CombinedOutput()
		if err != nil || strings.Contains(string(out), "nothing will be proven about any provider") == silent {
			t.Errorf("with the key %q: %v\n%s", key, err, out)
		}
	}
}
