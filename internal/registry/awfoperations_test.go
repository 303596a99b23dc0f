package registry

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/project"
	"github.com/espalier-run/espalier/internal/tool/builtin"
)

// The inputs of AWF operations are those of the tools that implement them.
func TestOperationsOfAWFAreTheTools(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, ".awf", "workflows")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	told := func(operation string, inputs map[string]string) string {
		var b strings.Builder
		for _, name := range slices.Sorted(maps.Keys(inputs)) {
			fmt.Fprintf(&b, "      %s: %q\n", name, inputs[name])
		}
		text := "name: w\nstates:\n  initial: a\n  a:\n    type: operation\n    operation: " + operation +
			"\n    inputs:\n" + b.String() +
			"    on_success: done\n  done: {type: terminal}\n"
		if err := os.WriteFile(filepath.Join(folder, "w.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		space, err := project.NewWorkspace(dir, dir, filepath.Join(dir, "awf"), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer space.Close()
		p, file, err := space.File(".awf/workflows/w.yaml")
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(catalog.Formats().Compile(file, p).Diagnostics)
	}
	looked := 0
	for _, one := range builtin.Tools(builtin.Options{}) {
		spec := one.Spec()
		if spec.Name != "http.request" && spec.Name != "notify.send" {
			continue
		}
		looked++
		var takes struct {
			Properties map[string]struct{ Enum []string }
			Required   []string
		}
		if err := json.Unmarshal(spec.Schema, &takes); err != nil {
			t.Fatal(err)
		}
		all := map[string]string{}
		for name, p := range takes.Properties {
			all[name] = "x"
			if len(p.Enum) > 0 {
				all[name] = p.Enum[0]
			}
		}
		if got := told(spec.Name, all); got != "[]" {
			t.Errorf("%s: valid inputs yield diagnostics: %s", spec.Name, got)
		}
		for name, p := range takes.Properties {
			for _, value := range p.Enum {
				with := maps.Clone(all)
				with[name] = value
				if got := told(spec.Name, with); got != "[]" {
					t.Errorf("%s: %s: %s", spec.Name, value, got)
				}
			}
			without := maps.Clone(all)
			delete(without, name)
			if got := told(spec.Name, without); (got == "[]") == slices.Contains(takes.Required, name) {
				t.Errorf("%s without %q: %s", spec.Name, name, got)
			}
		}
		all["unheard_of"] = "x"
		if got := told(spec.Name, all); !strings.Contains(got, "unheard_of") {
			t.Errorf("%s is not told of what it does not take: %s", spec.Name, got)
		}
	}
	if looked != 2 {
		t.Errorf("%d of two tools", looked)
	}
}
