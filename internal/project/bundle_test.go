package project_test

import (
	"path/filepath"
	"slices"
	"testing"
)

// The files of a skill are listed by the path under which they can be read: relative to the project's root, or absolute
// if the skill is in a user's folder.
func TestSkillFilesAreListedByReadablePath(t *testing.T) {
	dir := tree(t, `
-- secret --
x
-- p/.git/HEAD --
-- p/README.md --
-- p/scripts/build.sh --
-- p/SKILL.md --
-- p/.claude/skills/own/SKILL.md --
-- p/.claude/skills/own/forms.md --
-- p/.claude/skills/own/data.bin --
-- p/.claude/skills/own/scripts/deep/run.py --
-- p/.claude/skills/own/scripts/.hidden --
-- p/.claude/skills/own/references/out.md --
link ../../../../../secret
-- p/.claude/skills/own/assets/logo.svg --
-- p/.claude/skills/bare/SKILL.md --
-- home/.claude/skills/users/SKILL.md --
-- home/.claude/skills/users/references/guide.md --
`)
	w := space(t, filepath.Join(dir, "p"), filepath.Join(dir, "home"))
	here, err := w.Here()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		dir   string
		files []string
	}{
		"own":   {".claude/skills/own", []string{"assets/logo.svg", "forms.md", "scripts/deep/run.py"}},
		"users": {filepath.Join(dir, "home/.claude/skills/users"), []string{"references/guide.md"}},
		"bare":  {".claude/skills/bare", nil},
	} {
		f, err := here.Skill(name)
		if err != nil {
			t.Fatal(err)
		}
		if at, files := here.Bundle(f); at != want.dir || !slices.Equal(files, want.files) {
			t.Errorf("%s: %s %q", name, at, files)
		}
	}
	// Markdown files of the project do not belong to a skill.
	_, f, err := w.File(filepath.Join(dir, "p/SKILL.md"))
	if err != nil {
		t.Fatal(err)
	}
	if at, files := here.Bundle(f); at != "." || !slices.Equal(files, []string{"scripts/build.sh"}) {
		t.Errorf("at the root: %s %q", at, files)
	}
	_, f, err = w.File(filepath.Join(dir, "p/README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if at, files := here.Bundle(f); len(files) > 0 {
		t.Errorf("README.md: %s %q", at, files)
	}
}
