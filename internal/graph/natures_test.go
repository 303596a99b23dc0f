package graph_test

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/espalier-run/espalier/internal/analysis"
	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/graph"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/project"
)

// analyzed returns the program of an example.
func analyzed(t *testing.T, path string) *ir.Program {
	t.Helper()
	space, err := project.NewWorkspace("../../examples", "", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer space.Close()
	p, f, err := space.File(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := analysis.Run(t.Context(), p, f, catalog.Formats(), catalog.Kinds())
	if err != nil || r.Diagnostics.Errors() {
		t.Fatal(path, r.Diagnostics, err)
	}
	return r.Program
}

// tones returns the tones of the tasks in the picture of a program.
func tones(p *ir.Program) map[string]graph.Tone {
	out := map[string]graph.Tone{}
	for _, n := range graph.Build(p, graph.Options{}).Nodes {
		for s := range p.Steps() {
			if _, task := s.Action.(ir.Task); task && n.Kind == graph.NodeStep && n.Step == s.ID {
				out[n.Step] = n.Tone
			}
		}
	}
	return out
}

func TestTasksThatAskModelsLookAlikeInAllFormats(t *testing.T) {
	for path, want := range map[string]map[string]graph.Tone{
		"agent-flow/press-release.md": {
			"draft": graph.ToneSkill, "short_form": graph.ToneTransform, "ask_for_quote": graph.ToneTransform,
			"publish": graph.ToneTransform,
		},
		"aiflow/support-desk.aiflow": {
			"triage": graph.ToneSkill, "answer": graph.ToneSkill, "refund": graph.ToneSkill, "apology": graph.ToneSkill,
		},
		"awf/.awf/workflows/review-change.yaml": {
			"review": graph.ToneSkill, "verdict": graph.ToneSkill, "merge": graph.ToneTool, "wait": graph.ToneTool,
		},
		"nof/graph-repair.nof.md": {
			"begin": graph.ToneTransform, "kg-health-monitor": graph.ToneSkill,
			"kg-health-monitor:checkpoint": graph.ToneTransform, "relationship-suggester": graph.ToneSkill,
			"kg-completer": graph.ToneSkill,
		},
		"agentfile/workflows/change-review/workflow.yaml": {
			"collect": graph.ToneTool, "review": graph.ToneSkill,
		},
	} {
		p := analyzed(t, path)
		if got := tones(p); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
		raw, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var stored ir.Program
		if err := json.Unmarshal(raw, &stored); err != nil {
			t.Fatal(err)
		}
		if got := tones(&stored); !maps.Equal(got, want) {
			t.Errorf("%s, stored: %v, want %v", path, got, want)
		}
	}
}
