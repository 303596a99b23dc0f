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

// Lines with raw strings are exempt: a line break would change their value.
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
		for _, line := range longLines(text) {
			t.Errorf("%s:%d has more than %d columns", filepath.ToSlash(rel), line, maxColumns)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// longLines returns the numbers of the lines that are too long.
func longLines(text []byte) []int {
	var long []int
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if utf8.RuneCountInString(line)+3*strings.Count(line, "\t") > maxColumns {
			long = append(long, n)
		}
	}
	if long == nil {
		return nil
	}
	raw := map[int]bool{}
	file := token.NewFileSet().AddFile("", -1, len(text))
	var scan scanner.Scanner
	scan.Init(file, text, func(token.Position, string) {}, 0)
	for {
		pos, tok, literal := scan.Scan()
		if tok == token.EOF {
			break
		}
		if tok == token.STRING && literal[0] == '`' {
			for i := range 1 + strings.Count(literal, "\n") {
				raw[file.Line(pos)+i] = true
			}
		}
	}
	return slices.DeleteFunc(long, func(line int) bool { return raw[line] })
}

func TestLongLines(t *testing.T) {
	text := "package p\n\n// " + strings.Repeat("x", 118) + "\n\nvar s = `" + strings.Repeat("x", 120) + "`\n" +
		"\tvar t = \"" + strings.Repeat("ü", 106) + "\"\n\tvar u = \"" + strings.Repeat("ü", 107) + "\"\n"
	if got := longLines([]byte(text)); !slices.Equal(got, []int{3, 7}) {
		t.Errorf("long lines are %v", got)
	}
}
