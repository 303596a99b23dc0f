package arch

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxColumns is the maximum width of a line, with tabs of four columns.
const maxColumns = 120

func TestLinesAreAtMost120Columns(t *testing.T) {
	root := moduleRoot(t)
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" ||
			d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(name) != ".go" {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		for _, line := range longLines(text, isTest(name)) {
			t.Errorf("%s:%d has more than %d columns", filepath.ToSlash(rel), line, maxColumns)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// longLines returns the numbers of the lines that are too long. Lines with raw strings are exempt where a line break
// would change the value: if the string alone is too long, and if it is the tag of a field. The tables of tests may
// keep a case with a raw string on one line.
func longLines(text []byte, isTest bool) []int {
	var long []int
	var lines []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		lines = append(lines, line)
		if columns(line) > maxColumns {
			long = append(long, len(lines))
		}
	}
	if long == nil {
		return nil
	}
	exempt := map[int]bool{}
	file := token.NewFileSet().AddFile("", -1, len(text))
	var scan scanner.Scanner
	scan.Init(file, text, func(token.Position, string) {}, 0)
	before := token.ILLEGAL
	for {
		pos, tok, literal := scan.Scan()
		if tok == token.EOF {
			break
		}
		if tok == token.STRING && literal[0] == '`' {
			// Other strings come after an operator or an opening bracket.
			isTag := slices.Contains([]token.Token{token.IDENT, token.RPAREN, token.RBRACK, token.RBRACE}, before)
			first := file.Line(pos)
			parts := strings.Split(literal, "\n")
			parts[0] = indentOf(lines[first-1]) + parts[0]
			for i, part := range parts {
				if isTest || isTag || columns(part) > maxColumns {
					exempt[first+i] = true
				}
			}
		}
		before = tok
	}
	return slices.DeleteFunc(long, func(n int) bool { return exempt[n] })
}

// isTest reports whether a file belongs to tests: by its name, or by that of its package, such as providertest.
func isTest(name string) bool {
	return strings.HasSuffix(name, "_test.go") || strings.HasSuffix(filepath.Base(filepath.Dir(name)), "test")
}

// columns returns the width of a line.
func columns(line string) int { return utf8.RuneCountInString(line) + 3*strings.Count(line, "\t") }

// indentOf returns the tabs at the start of a line.
func indentOf(line string) string { return line[:len(line)-len(strings.TrimLeft(line, "\t"))] }

func TestLongLinesAreFound(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for text, want := range map[string][]int{
		"// " + x(117): nil,
		"// " + x(118): {3},
		"\tvar t = \"" + strings.Repeat("ü", 106) + "\"":  nil,
		"\tvar t = \"" + strings.Repeat("ü", 107) + "\"":  {3},
		"var t = `" + x(120) + "`":                        nil,
		"\tvar t = `" + x(115) + "`":                      nil, // even on a line of its own
		"\tvar t = `" + x(110) + "`":                      {3},
		"var t = f(`a`, \"" + x(110) + "\")":              {3},
		"var t = `a\n" + x(120) + "`":                     nil,
		"var t = `a\n" + x(110) + "` + `" + x(10) + "`":   {4},
		"type t struct {\n\tA int `" + x(120) + "`\n}":    nil,
		"type t struct {\n\tA int `" + x(105) + "`\n}":    nil,
		"type t struct {\n\tA []T[B] `" + x(102) + "`\n}": nil,
	} {
		text = "package p\n\n" + text + "\n"
		if got := longLines([]byte(text), false); !slices.Equal(got, want) {
			t.Errorf("long lines are %v, want %v, in:\n%s", got, want, text)
		}
	}
	if got := longLines([]byte("package p\n\nvar t = f(`a`, \""+x(110)+"\")\n"), true); len(got) > 0 {
		t.Errorf("long lines of a test are %v", got)
	}
}
