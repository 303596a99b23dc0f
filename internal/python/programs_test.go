package python

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/source"
)

var update = flag.Bool("update", false, "write the output of CPython to testdata")

// run evaluates a program and returns its output.
func run(t testing.TB, code string) (string, error) {
	t.Helper()
	f := source.NewFile("p.py", code)
	m, list := Parse(f, 0, len(code))
	for _, d := range list {
		t.Fatalf("line %d: %s", f.Position(d.Span.Start).Line, d.Message)
	}
	var out strings.Builder
	th := NewThread(t.Context())
	th.Print = func(s string) { out.WriteString(s) }
	err := th.Run(m)
	return out.String(), err
}

// The expected output in testdata comes from CPython. If python3 is installed, the
// test also checks that it is up to date.
func TestProgramsPrintWhatCPythonPrints(t *testing.T) {
	files, err := filepath.Glob("testdata/programs/*.py")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			code, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(name, ".py") + ".out"
			if python, err := exec.LookPath("python3"); err == nil {
				said, err := exec.Command(python, "-I", name).Output()
				if err != nil {
					t.Fatalf("%s: %v", said, err)
				}
				if *update {
					if err := os.WriteFile(golden, said, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				if kept, _ := os.ReadFile(golden); !bytes.Equal(kept, said) {
					t.Errorf("%s differs from the output of python3; run with -update", golden)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			got, err := run(t, string(code))
			if err != nil {
				t.Errorf("line %d: %v", LineOf(err), err)
			}
			if got != string(want) {
				g, w := strings.Split(got, "\n"), strings.Split(string(want), "\n")
				for i := range min(len(g), len(w)) {
					if g[i] != w[i] {
						t.Errorf("line %d of the output:\n got %s\nwant %s", i+1, g[i], w[i])
					}
				}
				if len(g) != len(w) {
					t.Errorf("%d lines, want %d", len(g), len(w))
				}
			}
		})
	}
}
