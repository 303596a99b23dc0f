package python

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/source"
)

// standardLibrary returns files of the standard library of the installed python3.
func standardLibrary(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("python3", "-I", "-c", "import os; print(os.path.dirname(os.__file__))").Output()
	if err != nil {
		t.Skip("python3 is not installed")
	}
	dir := strings.TrimSpace(string(out))
	var files []string
	for _, pattern := range []string{
		"*.py", "json/*.py", "logging/*.py", "asyncio/*.py", "collections/*.py", "email/*.py", "importlib/*.py",
		"test/test_fstring.py", "test/test_patma.py", "test/test_grammar.py", "test/test_generators.py",
	} {
		more, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	if len(files) < 100 {
		t.Skipf("only %d files of the standard library are installed", len(files))
	}
	return files
}

// CPython's own library is code that the parser must accept, and that has no undefined names or wrong calls.
func TestStandardLibraryHasNoMistakes(t *testing.T) {
	for _, path := range standardLibrary(t) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(path)
		if len(data) > maxCode || name == "ssl.py" || name == "turtle.py" { // these two define names by calls
			continue
		}
		f := source.NewFile(path, string(data))
		m, list := Parse(f, 0, len(data))
		if !list.Errors() && !strings.HasPrefix(name, "test_") {
			list = Analyze([]*Module{m}, Nodes{})
		}
		for _, d := range list {
			// The library uses private modules and functions that node code cannot.
			if d.Code == CodeSyntax || d.Code == CodeName || d.Code == CodeArguments ||
				d.Code == CodeType {
				p := f.Position(d.Span.Start)
				t.Errorf("%s:%d:%d: %s %s", name, p.Line, p.Column, d.Message, d.Help)
			}
		}
	}
}
