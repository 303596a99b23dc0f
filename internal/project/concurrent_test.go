package project_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/espalier-run/espalier/internal/project"
	"github.com/espalier-run/espalier/internal/source"
)

// Workflows of a folder are analyzed at once, and they refer to the same files. One text stays one File.
func TestProjectsAreReadConcurrently(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		".agents/skills/helper/SKILL.md": "help", ".agents/skills/helper/scripts/run.sh": "true",
		".awf/prompts/p.md": "p", "shared.md": "shared",
	}
	const workflows = 8
	for i := range workflows {
		files[fmt.Sprintf("flow%d.md", i)] = "flow"
	}
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	space, err := project.NewWorkspace(dir, "", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer space.Close()
	var shared [workflows]*source.File
	var wg sync.WaitGroup
	for i := range workflows {
		wg.Go(func() {
			p, f, err := space.File(fmt.Sprintf("flow%d.md", i))
			if err != nil {
				t.Error(err)
				return
			}
			if shared[i], err = p.Read(f, "shared.md"); err != nil {
				t.Error(err)
			}
			if _, err := p.Read(f, "missing.md"); err == nil {
				t.Error("a file that does not exist was read")
			}
			if _, err := p.Lookup(project.Prompts, "p.md"); err != nil {
				t.Error(err)
			}
			skill, err := p.Skill("helper")
			if err != nil {
				t.Error(err)
				return
			}
			if _, names := p.Bundle(skill); len(names) != 1 {
				t.Errorf("files of the skill: %q", names)
			}
			if _, ok := p.SkillOf(skill); !ok {
				t.Error("the skill was not found by its file")
			}
		})
	}
	wg.Wait()
	for _, f := range shared {
		if f != shared[0] {
			t.Fatal("one text became several files")
		}
	}
}
