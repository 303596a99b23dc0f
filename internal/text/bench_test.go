package text_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

const stepBlock = `id: validate_input
type: transform
description: Check the brief has enough detail to proceed
reads: [input]
writes: [state.validated]
on_error: stop
reason_code: BRIEF_VALIDATED
reason_code_on_fail: BRIEF_INSUFFICIENT
retry:
  max_attempts: 3
`

// twelveSteps returns a workflow of the usual size.
func twelveSteps() string {
	var b strings.Builder
	b.WriteString("---\nname: brief-to-report\ndescription: Turns a brief into a report\n" +
		"kind: agent-flow/workflow\nversion: 1.0.0\n" +
		"budgets:\n  max_steps: 40\n  max_tokens: 90000\ntools:\n  allowlist: [search, read]\n---\n\n" +
		"# Purpose\n\nTurn a brief into a report.\n\n## Agents\n\n")
	for i := range 3 {
		fmt.Fprintf(&b, "```agent\nid: agent_%d\nrole: Writes part %d\ngoal: A part that needs no second look\n"+
			"tools: [search]\nmax_tokens: 4000\nexpected_output: |\n  A list of objects: { owner, action }\n```\n\n", i,
			i)
	}
	b.WriteString("## Steps\n\n")
	for i := range 12 {
		fmt.Fprintf(&b, "### Step %d\n\nSome words on what happens here.\n\n```step\n%s```\n\n", i, stepBlock)
	}
	return b.String()
}

func BenchmarkYAML(b *testing.B) {
	f := source.NewFile("a.yaml", stepBlock)
	b.SetBytes(int64(len(stepBlock)))
	b.ReportAllocs()
	for b.Loop() {
		if _, l := text.ParseYAML(f, 0, len(stepBlock)); len(l) > 0 {
			b.Fatal(l)
		}
	}
}

func BenchmarkMarkdown(b *testing.B) {
	f := source.NewFile("a.md", twelveSteps())
	b.SetBytes(int64(len(f.Text)))
	b.ReportAllocs()
	for b.Loop() {
		text.ParseMarkdown(f)
	}
}

// BenchmarkFile measures all work of this package for a file of twelve steps.
func BenchmarkFile(b *testing.B) {
	f := source.NewFile("a.md", twelveSteps())
	b.SetBytes(int64(len(f.Text)))
	b.ReportAllocs()
	for b.Loop() {
		d := text.ParseMarkdown(f)
		if _, l := text.ParseYAML(f, d.Frontmatter.Start, d.Frontmatter.End); len(l) > 0 {
			b.Fatal(l)
		}
		for _, fence := range d.Fences {
			if _, l := text.ParseYAML(f, fence.Content.Start, fence.Content.End); len(l) > 0 {
				b.Fatal(l)
			}
		}
	}
}
