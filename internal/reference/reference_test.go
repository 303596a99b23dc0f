package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/espalier-run/espalier/internal/cli"
)

// TestMenuListsEveryPage holds the menu of the site to the pages that there are: each one is listed once.
func TestMenuListsEveryPage(t *testing.T) {
	t.Chdir("../..")
	var menu []struct{ Pages []string }
	text, err := os.ReadFile("site/data/menu.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &menu); err != nil {
		t.Fatal(err)
	}
	var listed, pages []string
	for _, group := range menu {
		listed = append(listed, group.Pages...)
	}
	generated := t.TempDir()
	if err := markdown(generated); err != nil {
		t.Fatal(err)
	}
	for prefix, dir := range map[string]string{"": "docs", "reference/": generated} {
		err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
			if name, ok := strings.CutSuffix(path, ".md"); ok {
				pages = append(pages, prefix+filepath.ToSlash(name))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(listed)
	slices.Sort(pages)
	if !slices.Equal(listed, pages) {
		t.Errorf("site/data/menu.yaml lists\n%q\nand the pages are\n%q", listed, pages)
	}
}

// TestReferenceHasEveryCommand holds the generated page and the manual to the commands that there are.
func TestReferenceHasEveryCommand(t *testing.T) {
	page, err := commandsPage()
	if err != nil {
		t.Fatal(err)
	}
	manual := t.TempDir()
	if err := man(manual); err != nil {
		t.Fatal(err)
	}
	for _, c := range cli.Commands().Commands() {
		if c.Hidden || c.IsAdditionalHelpTopicCommand() {
			continue
		}
		if !strings.Contains(page, "\n## "+c.CommandPath()+"\n") {
			t.Errorf("the page lacks %q", c.CommandPath())
		}
		if _, err := os.Stat(filepath.Join(manual, "espalier-"+c.Name()+".1")); err != nil && c.Name() != "help" {
			t.Error(err)
		}
	}
}

// TestCompletionsAreWritten writes the completions of all shells.
func TestCompletionsAreWritten(t *testing.T) {
	dir := t.TempDir()
	if err := completions(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"espalier.bash", "_espalier", "espalier.fish", "espalier.ps1"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil ||
			!strings.Contains(string(text), "espalier") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
