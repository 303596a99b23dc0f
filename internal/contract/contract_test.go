package contract_test

import (
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/stepkind"
)

var update = flag.Bool("update", false, "rewrite the expected contracts")

// folder is a folder of files in memory.
type folder map[string]*source.File

func (f folder) Read(from *source.File, ref string) (*source.File, error) {
	if file := f[path.Join(path.Dir(from.Path), ref)]; file != nil {
		return file, nil
	}
	return nil, &source.RefError{Ref: ref, Problem: source.RefMissing}
}

// Lookup finds AWF workflows by name.
func (f folder) Lookup(kind, name string) (*source.File, error) {
	if file := f[name+".yaml"]; file != nil {
		return file, nil
	}
	return nil, &source.RefError{Ref: name, Problem: source.RefMissing}
}

func (f folder) Names(string) []string { return nil }

func (f folder) Skill(name string) (*source.File, error) {
	return nil, &source.RefError{Ref: name, Problem: source.RefMissing}
}

// contracts lists the contract of every model call of a program.
func contracts(p *ir.Program) string {
	var out strings.Builder
	kinds := catalog.Kinds()
	for b := range p.Blocks {
		for i := range p.Blocks[b].Steps {
			s := &p.Blocks[b].Steps[i]
			task := s.Task()
			if task == nil {
				continue
			}
			asker, ok := kinds[task.Kind].(stepkind.Asker)
			if !ok {
				continue
			}
			c, asks := asker.Contract(p, s, task)
			if !asks {
				continue
			}
			fmt.Fprintf(&out, "%s: %s", s.ID, c.Kind)
			if c.From != "" {
				fmt.Fprintf(&out, ", from %s", c.From)
			}
			out.WriteString("\n")
			if len(c.Schema) > 0 {
				fmt.Fprintf(&out, "  %s\n", c.Schema)
			}
			for _, line := range strings.Split(c.Instructions(), "\n") {
				if line != "" && !strings.HasPrefix(line, "{") {
					fmt.Fprintf(&out, "  | %s\n", line)
				}
			}
			for _, one := range c.Probes {
				fmt.Fprintf(&out, "  try %q: %s\n", one.At, one.Values)
			}
			for _, one := range c.Conflicts {
				fmt.Fprintf(&out, "  conflict: %s is used as %s and as %s\n", one.Path, one.First, one.Second)
			}
			for _, one := range c.NeverTrue {
				fmt.Fprintf(&out, "  never true: %s\n", one)
			}
		}
	}
	return out.String()
}

func TestContractsMatchGoldenFiles(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			files := folder{}
			for _, f := range archive.Files {
				files[f.Name] = source.NewFile(f.Name, string(f.Data))
			}
			result := catalog.Formats().Compile(files[archive.Files[0].Name], files)
			if result.Diagnostics.Errors() || result.Program == nil {
				t.Fatal(result.Diagnostics)
			}
			catalog.Kinds().Describe(result.Program)
			got := contracts(result.Program)
			for i := range result.Program.Children {
				got += contracts(&result.Program.Children[i])
			}
			last := len(archive.Files) - 1
			if archive.Files[last].Name != "want" {
				t.Fatal("there is no want")
			}
			if *update {
				archive.Files[last].Data = []byte(got)
				if err := os.WriteFile(name, txtar.Format(archive), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want := string(archive.Files[last].Data); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}
