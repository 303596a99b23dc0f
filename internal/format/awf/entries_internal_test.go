package awf

import (
	"slices"
	"testing"
)

func TestToolListsAreSplitAfterAStrayParenthesis(t *testing.T) {
	for list, want := range map[string][]string{
		"Read, Bash(git log, *) Write": {"Read", "", "Bash(git log, *)", "Write"},
		"Read) Write,Edit":             {"Read)", "Write", "Edit"},
	} {
		if got := entries(list); !slices.Equal(got, want) {
			t.Errorf("entries(%q) = %q, want %q", list, got, want)
		}
	}
}
