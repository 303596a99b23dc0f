package scaffold

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// No template is left over, and no placeholder is left in a file.
func TestWorkflowsUseAllTemplates(t *testing.T) {
	unused := map[string]string{} // text by name
	for _, format := range Formats() {
		entries, err := templates.ReadDir("templates/" + format)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			raw, err := templates.ReadFile("templates/" + format + "/" + e.Name())
			if err != nil {
				t.Fatal(err)
			}
			unused[format+"/"+e.Name()] = string(raw)
		}
	}
	now := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	fill := strings.NewReplacer("{{NAME}}", "some-name", "{{NOW}}", "2026-02-03T04:05:06Z")
	for _, format := range Formats() {
		for _, p := range PatternsOf(format) {
			w, err := NewWorkflow("some-name", format, p.Name, now)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range w.Files {
				if strings.Contains(f.Text, "{{NAME}}") || strings.Contains(f.Text, "{{NOW}}") ||
					strings.Contains(f.Name, "NAME") {
					t.Errorf("%s %s: %s has a placeholder:\n%s", format, p.Name, f.Name, f.Text)
				}
				for name, text := range unused {
					if fill.Replace(text) == f.Text {
						delete(unused, name)
					}
				}
			}
		}
	}
	if len(unused) > 0 {
		t.Errorf("not used: %v", unused)
	}
}

func TestSimilarPatternsKnowWordsOfOtherPrograms(t *testing.T) {
	for name, want := range map[string][]string{
		"parallel": {"fanout"}, "human-approval": {"gate"}, "reveiw": {"review"}, "supervisor": {"agentic"},
		"zzzzzz": nil,
	} {
		if got := SimilarPatterns("agent-flow", name); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if got := SimilarPatterns("nof", "supervisor"); len(got) > 0 {
		t.Errorf("NOF has no such pattern: %q", got)
	}
}
