package project_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/project"
	"github.com/espalier-run/espalier/internal/source"
	"golang.org/x/tools/txtar"
)

// tree writes a txtar archive into a new folder. A file whose text is "link TARGET" becomes a symbolic link.
func tree(t *testing.T, archive string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range txtar.Parse([]byte(archive)).Files {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if target, ok := strings.CutPrefix(strings.TrimSpace(string(f.Data)), "link "); ok {
			if runtime.GOOS == "windows" {
				t.Skip("symbolic links need a privilege on Windows")
			}
			err = os.Symlink(strings.ReplaceAll(target, "$DIR", dir), path)
		} else {
			err = os.WriteFile(path, f.Data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func space(t *testing.T, dir, home string) *project.Workspace {
	t.Helper()
	w, err := project.NewWorkspace(dir, home, filepath.Join(home, ".config", "awf"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func problem(err error) source.RefProblem {
	var failed *source.RefError
	if errors.As(err, &failed) {
		return failed.Problem
	}
	return ""
}

func TestFindRootStopsAtProjectMarkers(t *testing.T) {
	dir := tree(t, `
-- git/.git/HEAD --
-- git/a/b/x.md --
-- worktree/.git --
gitdir: elsewhere
-- worktree/a/x.md --
-- own/.espalier/espalier.db --
-- own/a/x.md --
-- config/espalier.yaml --
-- config/a/x.md --
-- awf/.awf/workflows/x.yaml --
-- manifest/agentfile.yaml --
-- manifest/a/x.md --
-- folders/workflows/one/workflow.yaml --
-- folders/a/x.md --
-- nested/.git/HEAD --
-- nested/inner/espalier.yaml --
-- nested/inner/a/x.md --
-- written/.espalier/runs/r1/repo/espalier.yaml --
-- written/.espalier/runs/r1/.git/HEAD --
`)
	for from, want := range map[string]string{
		"git/a/b":             "git",
		"git":                 "git",
		"worktree/a":          "worktree",
		"own/a":               "own",
		"config/a":            "config",
		"awf/.awf/workflows":  "awf",
		"manifest/a":          "manifest",
		"folders/a":           "folders",
		"folders/workflows/o": "folders",
		"nested/inner/a":      "nested/inner",
		// What a run has written is no project.
		"written/.espalier/runs/r1/repo": "written",
		"written/.espalier/runs/r1":      "written",
	} {
		if got := project.FindRoot(filepath.Join(dir, from)); got != filepath.Join(dir, want) {
			t.Errorf("from %s: got %s, want %s", from, got, want)
		}
	}
}

func TestReadStaysInsideTheProject(t *testing.T) {
	dir := tree(t, `
-- outside.json --
secret
-- outside/x.json --
secret
-- p/.git/HEAD --
-- p/flows/flow.md --
-- p/flows/near.json --
near
-- p/flows/both.json --
of the folder
-- p/both.json --
of the root
-- p/schemas/far.json --
far
-- p/schemas/far.json.bak --
-- p/flows/link-in.json --
link ../schemas/far.json
-- p/flows/link-out.json --
link ../../outside.json
-- p/flows/link-absolute.json --
link $DIR/outside.json
-- p/flows/folder-out --
link ../../outside
-- p/flows/dangling.json --
link nowhere.json
-- p/flows/dangling-out.json --
link ../../nowhere.json
-- p/flows/loop.json --
link loop.json
`)
	if err := os.WriteFile(filepath.Join(dir, "p/flows/large.json"), make([]byte, project.MaxFileSize+1),
		0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "p/flows/limit.json"), make([]byte, project.MaxFileSize),
		0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "p/flows/latin1.json"), []byte("caf\xe9"), 0o644); err != nil {
		t.Fatal(err)
	}
	w := space(t, filepath.Join(dir, "p"), "")
	p, from, err := w.File("flows/flow.md")
	if err != nil {
		t.Fatal(err)
	}
	if from.Path != "flows/flow.md" || p.Root != filepath.Join(dir, "p") {
		t.Fatalf("got %s in %s", from.Path, p.Root)
	}
	for ref, want := range map[string]struct {
		text, path string
		problem    source.RefProblem
	}{
		"near.json":               {text: "near", path: "flows/near.json"},
		"./near.json":             {text: "near", path: "flows/near.json"},
		"flows/near.json":         {text: "near", path: "flows/near.json"},
		"both.json":               {text: "of the folder", path: "flows/both.json"},
		"../both.json":            {text: "of the root", path: "both.json"},
		"schemas/far.json":        {text: "far", path: "schemas/far.json"},
		"../schemas/far.json":     {text: "far", path: "schemas/far.json"},
		"link-in.json":            {text: "far", path: "schemas/far.json"},
		"limit.json":              {text: "\x00", path: "flows/limit.json"},
		"":                        {problem: source.RefMissing},
		"nothing.json":            {problem: source.RefMissing},
		"near.json/below":         {problem: source.RefMissing},
		"dangling.json":           {problem: source.RefMissing},
		"../../outside.json":      {problem: source.RefEscapes},
		"../../p/both.json":       {problem: source.RefEscapes},
		"link-out.json":           {problem: source.RefEscapes},
		"link-absolute.json":      {problem: source.RefEscapes},
		"dangling-out.json":       {problem: source.RefEscapes},
		"folder-out/x.json":       {problem: source.RefEscapes},
		"https://example.org/x":   {problem: source.RefEscapes},
		"/etc/passwd":             {problem: source.RefAbsolute},
		`C:\windows\system.ini`:   {problem: source.RefAbsolute},
		`\\server\share`:          {problem: source.RefAbsolute},
		dir + "/p/both.json":      {problem: source.RefAbsolute},
		"../schemas":              {problem: source.RefNotFile},
		".":                       {problem: source.RefNotFile},
		"large.json":              {problem: source.RefTooLarge},
		"latin1.json":             {problem: source.RefUnread},
		"loop.json":               {problem: source.RefUnread},
		"flows/../../outside.txt": {problem: source.RefEscapes},
	} {
		f, err := p.Read(from, ref)
		switch {
		case want.problem != "":
			if problem(err) != want.problem {
				t.Errorf("%q: got %v (%s), want %s", ref, err, problem(err), want.problem)
			}
		case err != nil:
			t.Errorf("%q: %v", ref, err)
		case !strings.HasPrefix(f.Text, want.text) || f.Path != want.path:
			t.Errorf("%q: got %.20q at %s", ref, f.Text, f.Path)
		}
	}
}

func TestReadSuggestsANearName(t *testing.T) {
	dir := tree(t, "-- .git/HEAD --\n-- flow.md --\n-- schemas/invoice.json --\n")
	p, from, err := space(t, dir, "").File("flow.md")
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Read(from, "schemas/invioce.json")
	var failed *source.RefError
	if !errors.As(err, &failed) || !slices.Equal(failed.Near, []string{"schemas/invoice.json"}) {
		t.Errorf("got %+v", failed)
	}
}

// Workflows that look for the same file share the search for a name to suggest.
func TestMissingFileIsSearchedOnce(t *testing.T) {
	dir := tree(t, "-- .git/HEAD --\n-- flow.md --\n-- schemas/invoice.json --\n")
	p, from, err := space(t, dir, "").File("flow.md")
	if err != nil {
		t.Fatal(err)
	}
	_, first := p.Read(from, "schemas/invioce.json")
	_, second := p.Read(from, "schemas/invioce.json")
	if first == nil || first != second { //nolint:errorlint // the same error, not an equal one
		t.Errorf("got %v, then %v", first, second)
	}
	if err := os.WriteFile(filepath.Join(dir, "schemas", "invioce.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Read(from, "schemas/invioce.json"); err != nil {
		t.Errorf("a file that exists meanwhile: %v", err)
	}
}

func TestOneFileIsReadOnce(t *testing.T) {
	dir := tree(t, "-- .git/HEAD --\n-- flow.md --\n-- a/x.json --\n-- link --\nlink a\n")
	p, from, err := space(t, dir, "").File("flow.md")
	if err != nil {
		t.Fatal(err)
	}
	one, err1 := p.Read(from, "a/x.json")
	two, err2 := p.Read(from, "link/x.json")
	if err1 != nil || err2 != nil || one != two {
		t.Errorf("got %v, %v, %v, %v", one, two, err1, err2)
	}
}

func TestUserPathsAreNotConfined(t *testing.T) {
	dir := tree(t, `
-- elsewhere/flow.md --
-- elsewhere/schema.json --
-- work/link.md --
link ../elsewhere/flow.md
-- work/flow.md --
`)
	w := space(t, filepath.Join(dir, "work"), "")
	for path, want := range map[string]struct {
		path    string
		problem source.RefProblem
	}{
		"flow.md":                  {path: "flow.md"},
		"./flow.md":                {path: "flow.md"},
		"../elsewhere/flow.md":     {path: "../elsewhere/flow.md"},
		dir + "/elsewhere/flow.md": {path: "../elsewhere/flow.md"},
		"flwo.md":                  {problem: source.RefMissing},
		"../elsewhere":             {problem: source.RefNotFile},
	} {
		_, f, err := w.File(path)
		if problem(err) != want.problem || err == nil && f.Path != want.path {
			t.Errorf("%s: got %+v, %v", path, f, err)
		}
	}
	// What the user links to is the user's business: the file's real folder counts.
	p, f, err := w.File("link.md")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Read(f, "schema.json"); err != nil {
		t.Error(err)
	}
	_, _, err = w.File("flwo.md")
	if failed := new(source.RefError); !errors.As(err, &failed) || !slices.Equal(failed.Near, []string{"flow.md"}) {
		t.Errorf("got %+v", err)
	}
}

func TestProjectSkillsShadowSkillsOfTheUser(t *testing.T) {
	dir := tree(t, `
-- home/.agents/skills/lint/SKILL.md --
user's lint
-- home/.agents/skills/notes/SKILL.md --
user's notes
-- home/.agents/skills/notes/reference.md --
more
-- home/.claude/skills/linked --
link ../../../dotfiles/linked
-- home/.config/awf/skills/awful/SKILL.md --
of awf
-- dotfiles/linked/SKILL.md --
linked
-- dotfiles/linked/data.md --
data
-- p/.git/HEAD --
-- p/.agents/skills/lint/SKILL.md --
project's lint
-- p/.agents/skills/group/deep/SKILL.md --
deep
-- p/.agents/skills/wrong-case/skill.md --
not found
-- p/.agents/skills/too/deep/by/far/SKILL.md --
not found
-- p/.agents/skills/stray --
link ../../../dotfiles/linked
-- p/.claude --
link .agents
-- p/.awf/skills/lint/SKILL.md --
second lint
-- p/.awf/skills/inside --
link ../../library/inside
-- p/library/inside/SKILL.md --
inside
`)
	w := space(t, filepath.Join(dir, "p"), filepath.Join(dir, "home"))
	p, err := w.Here()
	if err != nil {
		t.Fatal(err)
	}
	skills, skipped := p.Skills()
	var got []string
	for _, s := range skills {
		line := string(s.Scope) + " " + s.Name + " " + s.Path
		if s.ShadowedBy != "" {
			line += " < " + s.ShadowedBy
		}
		got = append(got, line)
	}
	want := []string{
		"project deep .agents/skills/group/deep/SKILL.md",
		"project lint .agents/skills/lint/SKILL.md",
		"project inside .awf/skills/inside/SKILL.md",
		"project lint .awf/skills/lint/SKILL.md < .agents/skills/lint/SKILL.md",
		"user lint ../home/.agents/skills/lint/SKILL.md < .agents/skills/lint/SKILL.md",
		"user notes ../home/.agents/skills/notes/SKILL.md",
		"user linked ../home/.claude/skills/linked/SKILL.md",
		"user awful ../home/.config/awf/skills/awful/SKILL.md",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(skipped) == 0 || skipped[0].Path != ".agents/skills/stray" {
		t.Errorf("the link out of the project is not reported: %+v", skipped)
	}
	for name, text := range map[string]string{
		"lint": "project's lint", "notes": "user's notes", "linked": "linked",
		"inside": "inside",
	} {
		f, err := p.Skill(name)
		if err != nil || !strings.HasPrefix(f.Text, text) {
			t.Errorf("%s: got %+v, %v", name, f, err)
		}
	}
	for _, name := range []string{"stray", "wrong-case", "far"} {
		if _, err := p.Skill(name); problem(err) != source.RefMissing {
			t.Errorf("%s: got %v", name, err)
		}
	}

	notes, err := p.Skill("notes")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Read(notes, "reference.md"); err != nil {
		t.Errorf("a user's skill may read its own folder: %v", err)
	}
	if _, err := p.Read(notes, "../lint/SKILL.md"); problem(err) != source.RefEscapes {
		t.Errorf("a user's skill is confined to its own folder: %v", err)
	}
	linked, err := p.Skill("linked")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Read(linked, "data.md"); err != nil {
		t.Error(err)
	}

	_, hidden, err := w.File(".awf/skills/lint/SKILL.md")
	if err != nil {
		t.Fatal(err)
	}
	if l := p.Shadowing(hidden); len(l) != 1 || l[0].Code != project.CodeShadowed {
		t.Errorf("got %+v", l)
	}
	_, used, err := w.File(".agents/skills/lint/SKILL.md")
	if err != nil {
		t.Fatal(err)
	}
	if l := p.Shadowing(used); len(l) != 0 {
		t.Errorf("got %+v", l)
	}
}

func TestCandidatesAreFilesNamedLikeWorkflows(t *testing.T) {
	dir := tree(t, `
-- .git/hooks/x.md --
-- .github/x.md --
-- .agents/skills/a/SKILL.md --
-- .awf/workflows/a.yaml --
-- .claude/x.md --
-- b/FLOW.MD --
-- b/flow.aiflow --
-- b/flow.yml --
-- b/main.go --
-- b/node_modules/x/x.md --
-- b/vendor/x.md --
-- b/testdata/x.md --
-- b/link.md --
link FLOW.MD
-- linked --
link b
-- away --
link /
`)
	p, err := space(t, dir, "").Rooted(".")
	if err != nil {
		t.Fatal(err)
	}
	got, skipped := p.Candidates(".")
	want := []string{
		".agents/skills/a/SKILL.md", ".awf/workflows/a.yaml", ".claude/x.md", "b/FLOW.MD", "b/flow.aiflow",
		"b/flow.yml",
	}
	if !slices.Equal(got, want) || len(skipped) > 0 {
		t.Errorf("got %q, skipped %+v", got, skipped)
	}
	if got, _ := p.Candidates("b"); !slices.Equal(got, want[3:]) {
		t.Errorf("below b: got %q", got)
	}
	if got, _ := p.Candidates("b/testdata"); !slices.Equal(got, []string{"b/testdata/x.md"}) {
		t.Errorf("a folder that is named: got %q", got)
	}
}

func TestCandidatesReportsFoldersThatCannotBeRead(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("the superuser can read every folder")
	}
	dir := tree(t, "-- a/x.md --\n-- b/x.md --\n")
	if err := os.Chmod(filepath.Join(dir, "a"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(filepath.Join(dir, "a"), 0o755) })
	p, err := space(t, dir, "").Rooted(".")
	if err != nil {
		t.Fatal(err)
	}
	got, skipped := p.Candidates(".")
	if !slices.Equal(got, []string{"b/x.md"}) || len(skipped) != 1 || skipped[0].Path != "a" {
		t.Errorf("got %q, skipped %+v", got, skipped)
	}
}

func TestCandidatesBoundsItsDepth(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, strings.Repeat("d/", 30)), 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := space(t, dir, "").Rooted(".")
	if err != nil {
		t.Fatal(err)
	}
	if _, skipped := p.Candidates("."); len(skipped) != 1 {
		t.Errorf("got %+v", skipped)
	}
}

func TestUnsavedFilesReferToFilesFromTheirPaths(t *testing.T) {
	dir := tree(t, "-- .git/HEAD --\n-- flows/schema.json --\n{}\n-- linked/.git/HEAD --\n-- link --\nlink linked\n")
	for path, refs := range map[string][]string{
		"flows/new.md": {"schema.json", "flows/schema.json"}, "not/there/yet.md": {"flows/schema.json"},
		"flows/schema.json": {"schema.json"}, "link/new.md": {"new.md"},
	} {
		w, err := project.NewWorkspace(dir, "", "", map[string]string{path: "unsaved"})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		p, f, err := w.File(path)
		if err != nil || f.Path != path || f.Text != "unsaved" {
			t.Fatalf("%s: got %+v, %v", path, f, err)
		}
		for _, ref := range refs {
			got, err := p.Read(f, ref)
			if err != nil {
				t.Errorf("%s: %v", path, err)
			} else if same := got.Abs == f.Abs; (got.Text == "unsaved") != same {
				t.Errorf("%s: %s has the text %q", path, ref, got.Text)
			}
		}
	}
}

func TestUnsavedFilesAreListed(t *testing.T) {
	dir := tree(t, "-- .git/HEAD --\n-- flows/a.md --\na\n-- flows/b.md --\nlink a.md\n")
	w, err := project.NewWorkspace(dir, "", "", map[string]string{
		"flows/a.md": "x", "flows/b.md": "x", "flows/c.md": "x", "new/deep/d.md": "x", ".agents/skills/s/SKILL.md": "x",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	p, err := w.Here()
	if err != nil {
		t.Fatal(err)
	}
	got, skipped := p.Candidates(".")
	want := []string{".agents/skills/s/SKILL.md", "flows/a.md", "flows/c.md", "new/deep/d.md"}
	if !slices.Equal(got, want) || len(skipped) > 0 {
		t.Errorf("got %q, skipped %+v", got, skipped)
	}
	if p.IsCandidate("flows/b.md") || !p.IsCandidate("flows/c.md") {
		t.Error("an unsaved text hides a symbolic link, or a new file is no candidate")
	}
	if f, err := p.Skill("s"); err != nil || f.Text != "x" {
		t.Errorf("the unsaved skill is %+v, %v", f, err)
	}
}

// A request may name any path. Its work must not grow with the third power of the number of folders.
func TestUnsavedFilesNeedNoFoldersAtAnyDepth(t *testing.T) {
	for _, depth := range []int{1_000, 3_000} { // what the disk takes, and more
		path := strings.Repeat("a/", depth) + "new.md"
		w, err := project.NewWorkspace(t.TempDir(), "", "", map[string]string{path: "unsaved"})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if _, f, err := w.File(path); err == nil && f.Text != "unsaved" {
			t.Errorf("%d folders: %+v", depth, f)
		}
	}
}

func TestUnsavedFilesAreNoCandidatesWhereNoFileCanBe(t *testing.T) {
	dir := tree(t, "-- .git/HEAD --\n-- flow.md --\nx\n")
	for _, path := range []string{"flow.md/x.md", strings.Repeat("a/", 3_000) + "x.md"} {
		w, err := project.NewWorkspace(dir, "", "", map[string]string{path: "x"})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if p, err := w.Here(); err != nil || p.IsCandidate(path) {
			t.Errorf("%.20s… is a candidate, %v", path, err)
		}
	}
}

func TestUnsavedFilesKeepAbsoluteNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new.md")
	w, err := project.NewWorkspace(filepath.Dir(path), "", "", map[string]string{path: "x"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, f, err := w.File(path); err != nil || f.Path != filepath.ToSlash(path) {
		t.Errorf("got %+v, %v", f, err)
	}
}

func TestUnsavedFilesCannotBeReachedFromOutside(t *testing.T) {
	dir := tree(t, "-- a/.git/HEAD --\n-- a/in.md --\n-- a/link --\nlink $DIR/outside\n-- outside/.git/HEAD --\n")
	w, err := project.NewWorkspace(dir, "", "", map[string]string{"outside/out.md": "out", "a/new/text.md": "new"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	p, f, err := w.File("a/in.md")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.Read(f, "new/text.md"); err != nil || got.Text != "new" {
		t.Errorf("new/text.md: %+v, %v", got, err)
	}
	for _, ref := range []string{"link/out.md", "../outside/out.md", "link"} {
		if _, err := p.Read(f, ref); err == nil {
			t.Errorf("%s was read", ref)
		}
	}
}
