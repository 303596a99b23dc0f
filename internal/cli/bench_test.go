package cli

import (
	"os"
	"testing"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/project"
	"github.com/espalier-run/espalier/internal/source"
)

// BenchmarkValidate is one workflow of twelve steps from text to diagnostics.
func BenchmarkValidate(b *testing.B) {
	raw, err := os.ReadFile("../bench/twelve.md.txt")
	if err != nil {
		b.Fatal(err)
	}
	space, err := project.NewWorkspace(b.TempDir(), "", "", nil)
	if err != nil {
		b.Fatal(err)
	}
	defer space.Close()
	p, err := space.Here()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		an, err := app.AnalyzeFile(b.Context(), p, source.NewFile("flow.md", string(raw)), catalog.ReadOptions{})
		if err != nil {
			b.Fatal(err)
		}
		if an.Diagnostics.Errors() {
			b.Fatal(an.Diagnostics)
		}
	}
}
