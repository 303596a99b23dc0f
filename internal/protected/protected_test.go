package protected_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/espalier-run/espalier/internal/protected"
	"github.com/espalier-run/espalier/internal/usertest"
)

func TestConfigurationIsProtectedInEverySpelling(t *testing.T) {
	for _, path := range []string{
		".git", ".GIT", ".Git/config", "sub/.git/hooks/pre-commit", `sub\.git\config`, ".git.", ".git ", ".git. .",
		".git::$DATA", ".git:x", ".git::$INDEX_ALLOCATION/config",
		".g\u200cit", "\u200b.git", ".git\ufeff", ".g\u00adit", "\uff0egit", ".\uff47it", "\u2024git", ".g\u0131t",
		".G\u0130T", ".gi\ufe0ft", "\x01.git", ".g\xffit",
		"GIT~1", "git~1/config", "GITMOD~1", "ESPALI~1.YAM", "GI7EBA~1", ".gitattributes", ".gitmodules",
		".github/workflows/x.yml", ".gitlab-ci.yml", ".hg/hgrc",
		".espalier", ".ESPALIER/espalier.db", ".espalier-cache", "espalier.yaml", "Espalier.YML", "e\u017fpalier.yaml",
		"espalier.yaml.", ".mcp.json", "agentfile.yaml", ".awf/workflows/x.yaml",
		".claude/settings.json", ".cursor/mcp.json", ".clinerules", ".vscode/tasks.json", ".idea/x.xml", ".envrc",
		".npmrc", ".env", ".env.local", ".husky/pre-commit",
		".devcontainer/devcontainer.json", ".pre-commit-config.yaml", ".bashrc", ".ssh/authorized_keys",
		".agents/skills/x/SKILL.md",
		"CLAUDE.md", "docs/AGENTS.md", "gemini.md", "HEAD", "repo/head", "GNUmakefile", "lefthook.yml", "mise.toml",
		"\u200b",
		"lefthook-local.yml", "QWEN.md", "Desktop.ini", "sub/pyvenv.cfg", "bitbucket-pipelines.yml",
		"Azure-Pipelines.yaml",
	} {
		if err := protected.Path(path); err == nil {
			t.Errorf("%q may be written", path)
		}
	}
}

func TestOrdinaryOutputsAreAllowed(t *testing.T) {
	for _, path := range []string{
		"notes.md", "a/b/c.txt", "package.json", "Makefile", "src/main.go", "pyproject.toml", "README.md", "SKILL.md",
		"git/config", "config", "headline.md",
		"HEADER", "x~", "notes~1.backup.md", "longfilename~1", "espalier.md", "ünïcode/日本語.md", ".env.example",
		".gitkeep", ".editorconfig", "./notes.md", "a..b", "mise.md",
		"docs/claude-notes.md", "outputs/2026-01-02T03-04-05/execution/x.md", "x.y.z",
	} {
		if err := protected.Path(path); err != nil {
			t.Error(err)
		}
	}
}

// A link inside of the folder must not lead to configuration, nor out of it.
func TestWriteFileFollowsLinksWithCare(t *testing.T) {
	usertest.Run(t, "^TestWriteFileFollowsLinksWithCare$")
	dir := t.TempDir()
	for _, one := range []string{".git/hooks", "real"} {
		if err := os.MkdirAll(filepath.Join(dir, one), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	outside := t.TempDir()
	for name, target := range map[string]string{
		"notes": ".git/hooks", "twice": "notes", "absolute": filepath.Join(dir, ".git"), "out": outside, "up": "..",
		"round": "round",
		"fine":  "real", "alias": filepath.Join(dir, "real"), "file.md": ".git/config",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	write := func(name string) error {
		return protected.WriteFile(root, name, []byte("x"), protected.Options{File: 0o600, Folder: 0o700})
	}
	for _, name := range []string{
		"notes/post-checkout", "twice/x", "absolute/config", "out/x", "up/x", "round/x",
		"../x", "/x", ".git/config",
	} {
		if err := write(name); err == nil {
			t.Errorf("%s was written", name)
		}
	}
	for name, at := range map[string]string{
		"fine/a": "real/a", "alias/b": "real/b", "new/deep/c": "new/deep/c",
		"file.md": "file.md",
	} {
		if err := write(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if info, err := os.Lstat(filepath.Join(dir, at)); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s: %v %v", at, info, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, ".git/config")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a link was written through")
	}
}

func TestWriteFileKeepsFiles(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	o := protected.Options{File: 0o600, Folder: 0o700}
	if err := protected.WriteFile(root, "flow.md", []byte("abc"), o); err != nil {
		t.Fatal(err)
	}
	o.Keep = protected.Files{
		Sums: []string{"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
	} // FIPS 180-2: SHA-256 of "abc"
	if err := protected.WriteFile(root, "flow.md", []byte("new"), o); err == nil {
		t.Error("a file of the workflow was replaced")
	}
	if err := protected.WriteFile(root, "other.md", []byte("new"), o); err != nil {
		t.Error(err)
	}
}

func FuzzNameIsStableUnderFolding(f *testing.F) {
	for _, s := range []string{"", ".git", "a.md", "GIT~1", "\u200b.env"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if s != "" && s != "." && s != ".." && protected.Name(s) && !protected.Name(s+".") {
			t.Errorf("%q is protected and %q is not", s, s+".")
		}
	})
}
