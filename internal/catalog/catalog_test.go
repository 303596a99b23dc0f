package catalog_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/source"
)

func TestFormatsRecognizeTheirFiles(t *testing.T) {
	const flow = "---\nname: x\nkind: agent-flow/workflow\n---\n"
	for _, c := range []struct{ path, text, certain, possible string }{
		{path: "SKILL.md", certain: "agent-flow"},
		{path: "a/flow.md", text: flow, certain: "agent-flow"},
		{path: "README.md", text: "# Read me\n", possible: "agent-flow"},
		{path: ".awf/workflows/x.yaml", text: "broken: [", certain: "awf"},
		{path: "a/.awf/workflows/x.yml", certain: "awf"},
		{path: "x.yaml", text: "name: x\nstates:\n  initial: a\n  a:\n    type: terminal\n", certain: "awf"},
		{path: "x.yaml", text: "initial: a\nstates:\n  a: {}\n", certain: "awf"},
		{path: "x.yaml", text: "states:\n  a:\n    initial: b\n"},
		{path: "x.nof.md", text: "no frontmatter", certain: "nof"},
		{path: "x.md", text: "---\nname: x\nformat: nof/1.0\n---\n", certain: "nof"},
		{path: "x.md", text: "---\nname: x\n---\nformat: nof/1.0\n", possible: "agent-flow"},
		{path: "w/workflow.yaml", text: "specVersion: \"1.0\"\nname: x\nsteps:\n  - id: a\n", certain: "agentfile"},
		{path: "w/workflow.yaml", text: "name: x\nsteps: []\n", certain: "agentfile"},
		{path: "w/workflow.yaml", text: "name: x\n"},
		{path: "other.yaml", text: "specVersion: \"1.0\"\nsteps: []\n", possible: "agentfile"},
		{path: "x.aiflow", certain: "aiflow"},
		{path: "x.json", text: "{}"},
		{path: ".github/workflows/ci.yaml", text: "on: push\njobs:\n  a:\n    steps: []\n"},
	} {
		f := source.NewFile(c.path, c.text)
		for _, one := range catalog.Formats() {
			want := format.No
			switch one.Name() {
			case c.certain:
				want = format.Certain
			case c.possible:
				want = format.Possible
			}
			if got := one.Match(f); got != want {
				t.Errorf("%s %q: %s says %d, want %d", c.path, c.text, one.Name(), got, want)
			}
		}
	}
}
