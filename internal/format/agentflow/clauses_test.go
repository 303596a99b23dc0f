package agentflow_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

const (
	clauseList = "testdata/clauses.txt"
	clausePage = "docs/formats/agent-flow-clauses.md"
	// root is the path of the repository from this package.
	root = "../../.."
)

// clause is a requirement of the specification.
type clause struct {
	section, name, level, text string
	decision                   string // how and why Espalier deviates from it
}

func (c *clause) id() string { return "§" + c.section + " " + c.name }

var (
	clauseLine = regexp.MustCompile(`^(\S+) ([a-z-]+) (MUST|SHOULD) (.+\.)$`)
	specLine   = regexp.MustCompile(`(?m)^(?:// |# )?Spec: Agent Flow (.*)$`)
)

// readClauses returns the clauses of clauseList.
func readClauses(t *testing.T) []*clause {
	t.Helper()
	raw, err := os.ReadFile(clauseList)
	if err != nil {
		t.Fatal(err)
	}
	var out []*clause
	seen := map[string]bool{}
	for i, line := range strings.Split(string(raw), "\n") {
		if reason, ok := strings.CutPrefix(line, "  decision: "); ok && len(out) > 0 {
			out[len(out)-1].decision = reason
			continue
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		m := clauseLine.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("%s:%d: not a clause: %s", clauseList, i+1, line)
		}
		c := &clause{section: m[1], name: m[2], level: m[3], text: m[4]}
		if seen[c.id()] {
			t.Errorf("%s:%d: duplicate clause %s", clauseList, i+1, c.id())
		}
		seen[c.id()] = true
		out = append(out, c)
	}
	return out
}

// specTest is a test, or a case of one, that names clauses in a line
// "Spec: Agent Flow §3.5 backoff, §3.5 retry-on" of its comment.
type specTest struct {
	name, file string // file is relative to the repository
	clauses    []string
}

// specTests returns the tests of the repository that name clauses: Go test functions, by their doc
// comments, and txtar cases, by the comments before their first file.
func specTests(t *testing.T) []specTest {
	t.Helper()
	var out []specTest
	add := func(path, name, comment string) {
		var clauses []string
		for _, m := range specLine.FindAllStringSubmatch(comment, -1) {
			clauses = append(clauses, strings.Split(m[1], ", ")...)
		}
		if clauses != nil {
			rel, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, specTest{name, filepath.ToSlash(rel), clauses})
		}
	}
	visit := func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return nil
		case strings.HasSuffix(path, ".txtar"):
			archive, err := txtar.ParseFile(path)
			if err != nil {
				return err
			}
			add(path, strings.TrimSuffix(filepath.Base(path), ".txtar"), string(archive.Comment))
		case strings.HasSuffix(path, "_test.go"):
			file, err := parser.ParseFile(token.NewFileSet(), path, nil,
				parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") {
					add(path, f.Name.Name, f.Doc.Text())
				}
			}
		}
		return nil
	}
	for _, dir := range []string{"cmd", "internal", "testdata"} {
		if err := filepath.WalkDir(filepath.Join(root, dir), visit); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// Every clause of the specification has a test that shows it, or a decision to deviate from it, and
// the page about clauses lists them. With -update, the page is written.
func TestEveryClauseHasATest(t *testing.T) {
	clauses := readClauses(t)
	shown := map[string][]string{}
	for _, test := range specTests(t) {
		for _, id := range test.clauses {
			if !slices.ContainsFunc(clauses, func(c *clause) bool { return c.id() == id }) {
				t.Errorf("%s: %s: there is no clause %q", test.file, test.name, id)
			}
			shown[id] = append(shown[id], fmt.Sprintf("[%s](../../%s)", test.name, test.file))
		}
	}
	var page strings.Builder
	page.WriteString(clauseHead)
	for _, c := range clauses {
		tests := shown[c.id()]
		if len(tests) == 0 && c.decision == "" {
			t.Errorf("no test shows %s: %s", c.id(), c.text)
		}
		evidence := strings.Join(tests, ", ")
		if c.decision != "" {
			if tests != nil {
				evidence = " Test of this behavior: " + evidence
			}
			evidence = "**Deviation by decision** " + c.decision + evidence
		}
		fmt.Fprintf(&page, "| %s | %s | %s | %s |\n", c.id(), c.level, c.text, evidence)
	}
	path := filepath.Join(root, filepath.FromSlash(clausePage))
	if *update {
		if err := os.WriteFile(path, []byte(page.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	old, err := os.ReadFile(path)
	if err != nil || string(old) != page.String() {
		t.Errorf("%s is out of date (%v); go test -run %s -update writes it", clausePage, err, t.Name())
	}
}

const clauseHead = `# Agent Flow: clauses and tests

This table lists the requirements of Agent Flow 0.2.0, in our own words, and the tests that show each of them. It is
generated from annotations in the tests; a clause without a test fails the build. The specification does not use the
keywords of RFC 2119: MUST marks what it requires of a file or states as behavior, SHOULD what it recommends.
[agent-flow.md](agent-flow.md) describes the behavior where the specification is silent. A deviation by decision names the
decision there and its reason, and the tests of the actual behavior.

| clause | level | requirement | tests |
|---|---|---|---|
`
