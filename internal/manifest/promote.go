package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/protected"
)

// Staged returns the folder of a generation below a project's root.
func Staged(root, workflow, run string) string {
	return filepath.Join(root, "artifacts", workflow, run)
}

// NotReady is the error of a generation that must not be promoted.
type NotReady struct{ Reasons []string }

func (e *NotReady) Error() string { return strings.Join(e.Reasons, "; ") }

// Ready returns a *NotReady if the generation must not be promoted.
func (m *Manifest) Ready() error {
	var reasons []string
	if m.Status != Validated && m.Phases.Validation.Status != Completed {
		reasons = append(reasons, fmt.Sprintf("its status is %q, not %q", m.Status, Validated))
	}
	for _, s := range m.Steps {
		if s.Status == StepFailed {
			reasons = append(reasons, fmt.Sprintf("step %q failed", s.ID))
		}
	}
	if len(reasons) > 0 {
		return &NotReady{reasons}
	}
	return nil
}

// Reasons why a generation is not promoted.
var (
	// ErrChanged reports a file that differs from the manifest.
	ErrChanged = errors.New("a file was changed after validation")
	// ErrIncomplete reports a generation without the files of a workflow.
	ErrIncomplete = errors.New("03-workflow.yaml or an agent is missing")
	// ErrEdited reports an existing file of the workflow that no generation wrote and that would be overwritten.
	ErrEdited = errors.New("the workflow already exists and contains a file that was not generated")
	// ErrNotPromotable reports a file that is not part of a workflow.
	ErrNotPromotable = errors.New("a workflow consists of Markdown and YAML files and scripts in its folders, " +
		"without hidden files or files that other programs read as configuration; remove")
)

// promotable reports whether a file may be put into a workflow's folder: what is not listed may not.
func promotable(name string) bool {
	if protected.Path(name) != nil {
		return false
	}
	folder, _, _ := strings.Cut(name, "/")
	switch ext := strings.ToLower(path.Ext(name)); folder {
	case "workflow.yaml":
		return true
	case "agents", "skills":
		return slices.Contains([]string{".md", ".yaml", ".yml", ".json", ".txt", ".csv"}, ext)
	case "scripts":
		return slices.Contains([]string{
			".sh", ".ps1", ".py", ".js", ".mjs", ".md", ".txt", ".json", ".yaml", ".yml",
			".csv",
		}, ext)
	}
	return false
}

// Promote copies a generation to its workflow folder, archives all of it and removes the staging folder. If it is
// interrupted at any point, calling it again completes it.
func Promote(root, workflow, run string, force bool, now time.Time) (*Manifest, error) {
	return promote(root, workflow, run, force, now, func() {})
}

// promote implements Promote. It calls before ahead of each change on disk.
func promote(root, workflow, run string, force bool, now time.Time, before func()) (*Manifest, error) {
	p := &promotion{root: root, staged: Staged(root, workflow, run), now: now, before: before}
	m, err := Read(p.staged)
	if err != nil {
		return nil, err
	}
	if m.Status == Archived { // only the cleanup is left
		return m, p.clear()
	}
	if !force {
		if err := m.Ready(); err != nil {
			return m, err
		}
		if err := m.verify(p.staged); err != nil {
			return m, err
		}
	}
	target, archive := "workflows/"+workflow, "outputs/"+workflow+"/"+run+"/build"
	moves, err := p.moves(target)
	if err != nil {
		return m, err
	}
	if !force {
		if err := p.checkEdited(moves, target); err != nil {
			return m, err
		}
	}
	m.Phases.Promotion.Enter(InProgress, now)
	if err := p.note(m, p.staged); err != nil {
		return m, err
	}
	if err := p.place(m, moves, target, archive); err != nil {
		m.Fail("promotion", "", err.Error(), now)
		return m, errors.Join(err, p.note(m, p.staged))
	}
	m.Promotion = &Promotion{Target: target, PromotedAt: Time(now), ArchivePath: archive}
	m.Phases.Promotion.Enter(Completed, now)
	m.Status = Registered
	if err := p.note(m, p.staged); err != nil {
		return m, err
	}
	if err := p.archive(m, archive); err != nil {
		return m, err
	}
	return m, p.clear()
}

// promotion is the shared state of the phases of a promotion.
type promotion struct {
	root, staged string
	now          time.Time
	before       func()
}

func (p *promotion) note(m *Manifest, dir string) error {
	p.before()
	return m.Write(dir)
}

// copy copies a file to a place in the project. No symbolic link on the way leads elsewhere.
func (p *promotion) copy(from, to string) error {
	p.before()
	root, err := os.OpenRoot(p.root)
	if err != nil {
		return err
	}
	defer root.Close()
	rel, err := filepath.Rel(p.root, to)
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if strings.HasSuffix(rel, ".sh") {
		mode = 0o755
	}
	return protected.WriteFile(root, rel, raw, protected.Options{File: mode, Folder: 0o755})
}

// verify compares the files with their checksums.
func (m *Manifest) verify(dir string) error {
	names, err := Files(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if Canonical(name) != "" && !slices.ContainsFunc(m.Files, func(f File) bool { return f.Path == name }) {
			return fmt.Errorf("%w: %s was added", ErrChanged, name)
		}
	}
	for _, f := range m.Files {
		if f.Checksum == "" {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(f.Path)))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: %s was removed", ErrChanged, f.Path)
		}
		if err != nil {
			return err
		}
		if Checksum(raw) != f.Checksum {
			return fmt.Errorf("%w: %s", ErrChanged, f.Path)
		}
	}
	return nil
}

// move is a copy from the staging folder to the workflow's folder.
type move struct{ from, to string }

// moves returns the copies that make up the workflow.
func (p *promotion) moves(target string) ([]move, error) {
	names, err := Files(p.staged)
	if err != nil {
		return nil, err
	}
	config, agents := false, false
	var out []move
	for _, name := range names {
		to := Canonical(name)
		if to == "" {
			continue
		}
		if !promotable(to) {
			return nil, fmt.Errorf("%w: %s", ErrNotPromotable, name)
		}
		config, agents = config || to == "workflow.yaml", agents || strings.HasPrefix(to, "agents/")
		out = append(out, move{
			filepath.Join(p.staged, filepath.FromSlash(name)),
			filepath.Join(p.root, filepath.FromSlash(target), filepath.FromSlash(to)),
		})
	}
	if !config || !agents {
		return nil, ErrIncomplete
	}
	return out, nil
}

// checkEdited returns an error if a file would be lost: if it is neither the new content nor that of the last
// promotion.
func (p *promotion) checkEdited(moves []move, target string) error {
	dir := filepath.Join(p.root, filepath.FromSlash(target))
	earlier := promoted(p.root, dir)
	for _, one := range moves {
		current, err := os.ReadFile(one.to)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		new, err := os.ReadFile(one.from)
		if err != nil {
			return err
		}
		if sum := Checksum(current); sum != Checksum(new) && sum != earlier[one.to] {
			rel, err := filepath.Rel(p.root, one.to)
			return errors.Join(err, fmt.Errorf("%w: %s", ErrEdited, filepath.ToSlash(rel)))
		}
	}
	return nil
}

// promoted returns the checksums of the files that the last promotion wrote to a workflow's folder, if its archive
// still exists.
func promoted(root, dir string) map[string]string {
	var status workflowStatus
	raw, err := os.ReadFile(filepath.Join(dir, statusFile))
	if err != nil || json.Unmarshal(raw, &status) != nil || !filepath.IsLocal(filepath.FromSlash(status.Archive)) {
		return nil
	}
	archive := filepath.Join(root, filepath.FromSlash(status.Archive))
	names, err := Files(archive)
	if err != nil {
		return nil
	}
	sums := map[string]string{}
	for _, name := range names {
		to := Canonical(name)
		if raw, err := os.ReadFile(filepath.Join(archive, filepath.FromSlash(name))); err == nil && to != "" {
			sums[filepath.Join(dir, filepath.FromSlash(to))] = Checksum(raw)
		}
	}
	return sums
}

// statusFile names the file in a workflow's folder that refers to its generation.
const statusFile = "workflow_status.json"

type workflowStatus struct {
	Workflow     string `json:"workflow"`
	RegisteredAt string `json:"registered_at"`
	SourceRunID  string `json:"source_run_id"`
	Archive      string `json:"archive"`
}

// place copies the workflow to its folder.
func (p *promotion) place(m *Manifest, moves []move, target, archive string) error {
	for _, one := range moves {
		if err := p.copy(one.from, one.to); err != nil {
			return err
		}
	}
	status, err := json.MarshalIndent(workflowStatus{m.Workflow, Time(p.now), m.RunID, archive}, "", "  ")
	if err != nil {
		return err
	}
	dir := filepath.Join(p.root, filepath.FromSlash(target))
	p.before()
	if err := Replace(filepath.Join(dir, statusFile), append(status, '\n')); err != nil {
		return err
	}
	p.before()
	return Ignore(dir, "outputs/")
}

// archive copies everything and compares it. Only then does the manifest allow the removal of the staging folder.
func (p *promotion) archive(m *Manifest, archive string) error {
	m.Phases.Archival.Enter(InProgress, p.now)
	if err := p.note(m, p.staged); err != nil {
		return err
	}
	names, err := Files(p.staged)
	if err != nil {
		return err
	}
	to := filepath.Join(p.root, filepath.FromSlash(archive))
	if err := p.chmodFolders(to, 0o755); err != nil { // an interrupted promotion may have made them read-only
		return err
	}
	for _, name := range names {
		if err := p.copy(filepath.Join(p.staged, filepath.FromSlash(name)),
			filepath.Join(to, filepath.FromSlash(name))); err != nil {
			return err
		}
	}
	for _, name := range names {
		was, err := os.ReadFile(filepath.Join(p.staged, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		is, err := os.ReadFile(filepath.Join(to, filepath.FromSlash(name)))
		if err != nil || Checksum(was) != Checksum(is) {
			return errors.Join(err, fmt.Errorf("the copy of %s in %s differs from the original", name, archive))
		}
	}
	m.Phases.Archival.Enter(Completed, p.now)
	m.Status = Archived
	if err := p.note(m, to); err != nil {
		return err
	}
	for _, name := range names { // the archive is a read-only record
		p.before()
		if err := os.Chmod(filepath.Join(to, filepath.FromSlash(name)), 0o444); err != nil {
			return err
		}
	}
	if err := p.chmodFolders(to, 0o555); err != nil {
		return err
	}
	return p.note(m, p.staged)
}

// chmodFolders sets the permissions of a folder, if it exists, and of all folders below it.
func (p *promotion) chmodFolders(dir string, mode fs.FileMode) error {
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		p.before()
		return os.Chmod(name, mode)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// clear removes the staging folder. The manifest is removed last, because it marks the folder as removable.
func (p *promotion) clear() error {
	names, err := Files(p.staged)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == FileName {
			continue
		}
		p.before()
		if err := os.Remove(filepath.Join(p.staged, filepath.FromSlash(name))); err != nil {
			return err
		}
	}
	p.before()
	if err := os.RemoveAll(p.staged); err != nil {
		return err
	}
	_ = os.Remove(filepath.Dir(p.staged)) // if it is empty
	return nil
}

// IgnoreRuns makes git ignore the files of a project's runs.
func IgnoreRuns(root string) error { return Ignore(root, "artifacts/*/", "outputs/") }

// Ignore adds lines to a folder's .gitignore and keeps its content.
func Ignore(dir string, lines ...string) error {
	name := filepath.Join(dir, ".gitignore")
	raw, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text := string(raw)
	for _, line := range lines {
		found := false
		for one := range strings.Lines(text) {
			found = found || strings.TrimSpace(one) == line
		}
		if found {
			continue
		}
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		text += line + "\n"
	}
	if text == string(raw) {
		return nil
	}
	return Replace(name, []byte(text))
}
