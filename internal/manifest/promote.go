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

// Staged is the folder of a generation, below a project's root.
func Staged(root, workflow, run string) string {
	return filepath.Join(root, "artifacts", workflow, run)
}

// NotReady is why a generation must not be promoted.
type NotReady struct{ Reasons []string }

func (e *NotReady) Error() string { return strings.Join(e.Reasons, "; ") }

// Ready looks whether a generation may be promoted (G20).
func (m *Manifest) Ready() error {
	var why []string
	if m.Status != Validated && m.Phases.Validation.Status != Completed {
		why = append(why, fmt.Sprintf("its status is %q, and not %q", m.Status, Validated))
	}
	for _, s := range m.Steps {
		if s.Status == StepFailed {
			why = append(why, fmt.Sprintf("step %q has failed", s.ID))
		}
	}
	if len(why) > 0 {
		return &NotReady{why}
	}
	return nil
}

// Why a generation stays where it is.
var (
	// ErrChanged is a file that is not what the manifest says.
	ErrChanged = errors.New("a file was changed after it was checked")
	// ErrIncomplete is a generation that no workflow can be made of.
	ErrIncomplete = errors.New("there is no 03-workflow.yaml, or no agent, to promote")
	// ErrEdited is a file of the workflow that somebody has written, and that
	// would be lost.
	ErrEdited = errors.New("the workflow is there already, with a file that no generation has made")
	// ErrNotPromotable is a file that is no part of a workflow.
	ErrNotPromotable = errors.New("a workflow has Markdown and YAML files, and scripts, in its folders, and no hidden files or files that other programs read as configuration; remove")
)

// promotable reports whether a file may be put into a workflow's folder: what is
// not listed may not.
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
		return slices.Contains([]string{".sh", ".ps1", ".py", ".js", ".mjs", ".md", ".txt", ".json", ".yaml", ".yml", ".csv"}, ext)
	}
	return false
}

// Promote puts a generation in its place, keeps a copy of all of it and removes
// the staging folder. Interrupted anywhere, it is done by promoting once more.
func Promote(root, workflow, run string, force bool, now time.Time) (*Manifest, error) {
	return promote(root, workflow, run, force, now, func() {})
}

// promote is Promote; before is called before each change on the disk.
func promote(root, workflow, run string, force bool, now time.Time, before func()) (*Manifest, error) {
	p := &promotion{root: root, staged: Staged(root, workflow, run), now: now, before: before}
	m, err := Read(p.staged)
	if err != nil {
		return nil, err
	}
	if m.Status == Archived { // all is done but clearing away
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
		if err := p.spare(moves, target); err != nil {
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

// promotion is what the parts of promoting have in common.
type promotion struct {
	root, staged string
	now          time.Time
	before       func()
}

func (p *promotion) note(m *Manifest, dir string) error {
	p.before()
	return m.Write(dir)
}

// copy copies a file to a place in the project. No symbolic link on the way
// leads elsewhere.
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

// verify holds the files against their checksums.
func (m *Manifest) verify(dir string) error {
	names, err := Files(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if Canonical(name) != "" && !slices.ContainsFunc(m.Files, func(f File) bool { return f.Path == name }) {
			return fmt.Errorf("%w: %s is new", ErrChanged, name)
		}
	}
	for _, f := range m.Files {
		if f.Checksum == "" {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(f.Path)))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: %s is gone", ErrChanged, f.Path)
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

// move is a file on its way from the staging folder to that of the workflow.
type move struct{ from, to string }

// moves lists what makes up the workflow.
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
		out = append(out, move{filepath.Join(p.staged, filepath.FromSlash(name)), filepath.Join(p.root, filepath.FromSlash(target), filepath.FromSlash(to))})
	}
	if !config || !agents {
		return nil, ErrIncomplete
	}
	return out, nil
}

// spare looks for files that would be lost: what lies in their places is
// neither what goes there now nor what the last promotion has put there.
func (p *promotion) spare(moves []move, target string) error {
	dir := filepath.Join(p.root, filepath.FromSlash(target))
	earlier := promoted(p.root, dir)
	for _, one := range moves {
		is, err := os.ReadFile(one.to)
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
		if sum := Checksum(is); sum != Checksum(new) && sum != earlier[one.to] {
			rel, err := filepath.Rel(p.root, one.to)
			return errors.Join(err, fmt.Errorf("%w: %s", ErrEdited, filepath.ToSlash(rel)))
		}
	}
	return nil
}

// promoted is the checksums of what the last promotion has put into a
// workflow's folder, as far as its archive is still there.
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

// statusFile leads from a workflow to the generation that it came from.
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

// archive copies everything and compares it. Only then the manifest says that
// the staging folder is worth nothing any more.
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
	for _, name := range names {
		if err := p.copy(filepath.Join(p.staged, filepath.FromSlash(name)), filepath.Join(to, filepath.FromSlash(name))); err != nil {
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
			return errors.Join(err, fmt.Errorf("the copy of %s in %s is not the same", name, archive))
		}
	}
	m.Phases.Archival.Enter(Completed, p.now)
	m.Status = Archived
	if err := p.note(m, to); err != nil {
		return err
	}
	return p.note(m, p.staged)
}

// clear removes the staging folder, and last of all the manifest, which says
// that it may.
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
	_ = os.Remove(filepath.Dir(p.staged)) // if nothing else is in it
	return nil
}

// IgnoreRuns has git pass over what runs of a project make.
func IgnoreRuns(root string) error { return Ignore(root, "artifacts/*/", "outputs/") }

// Ignore adds lines to a folder's .gitignore, and keeps what is there (G22).
func Ignore(dir string, lines ...string) error {
	name := filepath.Join(dir, ".gitignore")
	raw, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text := string(raw)
	for _, line := range lines {
		there := false
		for one := range strings.Lines(text) {
			there = there || strings.TrimSpace(one) == line
		}
		if there {
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
