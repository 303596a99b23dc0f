package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/source"
)

// BenchmarkMaskingInARun runs a workflow of twenty steps, each of which has a reply of four kilobytes, without secrets
// and with three of them. Masking is to cost at most a tenth of a run.
func BenchmarkMaskingInARun(b *testing.B) {
	workflow, script := &strings.Builder{}, &strings.Builder{}
	fmt.Fprintf(workflow, head, "chain")
	script.WriteString("replies:\n")
	text := strings.Repeat("The quick brown fox jumps over the lazy dog, and then some more of it. ", 57)
	for i := range 20 {
		fmt.Fprintf(workflow, "```step\nid: s%d\ntype: transform\ndescription: Write\nwrites: [state.v%d]\n```\n", i, i)
		fmt.Fprintf(script, "  - {step: s%d, reply: {v%d: %q}}\n", i, i, text)
	}
	const secrets = "secrets:\n  a: {env: A}\n  b: {env: B}\n  c: {env: C}\n"
	values := map[string]string{
		"A": "sk-ant-api03-0123456789abcdefghijklmnopqrstuvwxyz", "B": "ghp_ABCDEFGHIJKLMNOPQRSTUVWXYZ",
		"C": "hunter2-äöü/€ \"x\"",
	}
	for name, settings := range map[string]string{"without secrets": "", "three secrets": secrets} {
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			for file, content := range map[string]string{"chain.md": workflow.String(), "espalier.yaml": settings} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
					b.Fatal(err)
				}
			}
			a := app.New(
				app.Options{Dir: dir, Home: b.TempDir(), Getenv: func(name string) string { return values[name] }})
			defer a.Close()
			for b.Loop() {
				an, err := a.Analyze(b.Context(), app.AnalyzeRequest{Workflow: "chain"})
				if err != nil {
					b.Fatal(err)
				}
				p, err := a.Prepare(b.Context(), app.PrepareRequest{
					Workflow: an, Script: source.NewFile("chain.script.yaml", script.String()),
				})
				if err != nil || p.Err() != nil {
					b.Fatal(err, p.Err())
				}
				id, err := a.Start(b.Context(), p, "", journal.Actor{User: "tester"})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := a.Wait(b.Context(), id); err != nil {
					b.Fatal(err)
				}
			}
			if err := a.Flush(b.Context()); err != nil {
				b.Fatal(err)
			}
		})
	}
}
