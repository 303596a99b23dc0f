package app

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/espalier-run/espalier/internal/registry"
)

// A folder in the paths of a trigger stands for the files in it.
func TestTriggersWatchTheFilesOfFolders(t *testing.T) {
	root := fstest.MapFS{"inbox/a.txt": {}, "inbox/b.md": {}, "inbox/sub/c.md": {}, "other/d.md": {}}
	for pattern, want := range map[string]string{
		"inbox/": "inbox/a.txt inbox/b.md", "inbox": "inbox/a.txt inbox/b.md", "inbox/*.md": "inbox/b.md",
		"inbox/a.txt": "inbox/a.txt", "*/": "", "nowhere/": "",
		"inbox/**/*.md": "inbox/b.md inbox/sub/c.md", "**/c.md": "inbox/sub/c.md",
		"inbox/**":       "inbox/a.txt inbox/b.md inbox/sub/c.md",
		"**/sub/**/*.md": "inbox/sub/c.md", "nowhere/**/*.md": "", "**/d.md": "other/d.md",
	} {
		found, err := watchedFiles(root, []string{pattern})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(slices.Sorted(maps.Keys(found)), " "); got != want {
			t.Errorf("%s: got %q, want %q", pattern, got, want)
		}
	}
}

// The reason why a trigger started no run names what is missing.
func TestReasonNamesWhatIsMissing(t *testing.T) {
	e := &Error{Message: "the models are not ready:", Missing: []MissingDependency{
		{Problem: registry.Problem{Message: "OPENAI_API_KEY is not set"}},
	}}
	if got, want := Summary(e), "the models are not ready: OPENAI_API_KEY is not set"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	e = fail(NotReady, NeedsConsent, "the workflow runs commands, which needs your consent:\n  make: ls")
	e.Commands = []Command{{Step: "make", Text: "ls"}}
	if got, want := Summary(e), "the workflow runs commands, which needs your consent: make: ls"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
