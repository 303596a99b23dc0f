package app

import "testing"

func TestUnnamedWorkflowsAreCalledByTheirFileOrFolder(t *testing.T) {
	for path, want := range map[string]string{
		"a/flow.md": "flow", "review.nof.md": "review", "a/minutes/SKILL.md": "minutes",
		"w/clean/workflow.yaml": "clean", "SKILL.md": "SKILL",
	} {
		if got := fileName(path); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}
