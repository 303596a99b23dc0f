package registry_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/project"
	"github.com/espalier-run/espalier/internal/registry"
)

// The side effects of a run are found in one pass: twice as many commands take about twice as many allocations.
func TestRealCommandsAreFoundInOnePass(t *testing.T) {
	allocations := func(steps int) float64 {
		var text strings.Builder
		text.WriteString("name: chain\nstates:\n  initial: s0\n")
		for i := range steps {
			fmt.Fprintf(&text, "  s%d: {type: step, command: 'true', on_success: s%d}\n", i, i+1)
		}
		fmt.Fprintf(&text, "  s%d: {type: terminal}\n", steps)
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "chain.yaml"), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		space, err := project.NewWorkspace(dir, dir, dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer space.Close()
		files, file, err := space.File("chain.yaml")
		if err != nil {
			t.Fatal(err)
		}
		compiled := catalog.Formats().Compile(file, files)
		if compiled.Program == nil {
			t.Fatal(compiled.Diagnostics)
		}
		tools := registry.NewTools(t.TempDir(), &config.Config{}, func(string) string { return "" }, nil)
		if n := len(tools.SideEffects(compiled.Program, registry.RunOptions{})); n != steps {
			t.Fatalf("%d of %d commands are real", n, steps)
		}
		return testing.AllocsPerRun(3, func() { tools.SideEffects(compiled.Program, registry.RunOptions{}) })
	}
	if few, many := allocations(100), allocations(200); many > 3*few {
		t.Errorf("200 commands take %.0f allocations, 100 take %.0f", many, few)
	}
}
