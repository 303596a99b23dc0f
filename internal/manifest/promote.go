package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
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

// ErrChanged is a file that is not what the manifest says.
var ErrChanged = errors.New("a file was changed after it was checked")

// Promote puts a generation in its place, keeps a copy of all of it and removes
// the staging folder. Every part may be done again after an interruption.
func Promote(root, workflow, run string, force bool, now time.Time) (*Manifest, error) {
	staged := Staged(root, workflow, run)
	m, err := Read(staged)
	if err != nil {
		return nil, err
	}
	if !force {
		if err := m.Ready(); err != nil {
			return m, err
		}
		if err := m.verify(staged); err != nil {
			return m, err
		}
	}
	target, archive := "workflows/"+workflow, "outputs/"+workflow+"/"+run+"/build"
	m.Phases.Promotion.Enter(InProgress, now)
	if err := m.Write(staged); err != nil {
		return m, err
	}
	if err := place(root, staged, target, archive, m, now); err != nil {
		m.Fail("promotion", "", err.Error(), now)
		return m, errors.Join(err, m.Write(staged))
	}
	m.Promotion = &Promotion{Target: target, PromotedAt: Time(now), ArchivePath: archive}
	m.Phases.Promotion.Enter(Completed, now)
	m.Status = Registered
	if err := m.Write(staged); err != nil {
		return m, err
	}
	return m, m.archive(root, staged, archive, now)
}

// verify holds the files against their checksums.
func (m *Manifest) verify(dir string) error {
	for _, f := range m.Files {
		if f.Checksum == "" {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(f.Path)))
		if err != nil {
			return err
		}
		if Checksum(raw) != f.Checksum {
			return fmt.Errorf("%w: %s", ErrChanged, f.Path)
		}
	}
	return nil
}

// place copies the workflow to its folder.
func place(root, staged, target, archive string, m *Manifest, now time.Time) error {
	names, err := Files(staged)
	if err != nil {
		return err
	}
	dir := filepath.Join(root, filepath.FromSlash(target))
	agents := 0
	for _, name := range names {
		to := Canonical(name)
		if to == "" {
			continue
		}
		if strings.HasPrefix(to, "agents/") {
			agents++
		}
		if err := copyFile(filepath.Join(staged, filepath.FromSlash(name)), filepath.Join(dir, filepath.FromSlash(to))); err != nil {
			return err
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "workflow.yaml")); err != nil || agents == 0 {
		return errors.New("there is no workflow.yaml, or no agent, to promote")
	}
	status, err := json.MarshalIndent(struct {
		Workflow     string `json:"workflow"`
		RegisteredAt string `json:"registered_at"`
		SourceRunID  string `json:"source_run_id"`
		Archive      string `json:"archive"`
	}{m.Workflow, Time(now), m.RunID, archive}, "", "  ")
	if err != nil {
		return err
	}
	if err := Replace(filepath.Join(dir, "workflow_status.json"), append(status, '\n')); err != nil {
		return err
	}
	return Ignore(dir, "outputs/")
}

// archive copies everything, compares it, and only then removes the staging folder.
func (m *Manifest) archive(root, staged, archive string, now time.Time) error {
	m.Phases.Archival.Enter(InProgress, now)
	if err := m.Write(staged); err != nil {
		return err
	}
	names, err := Files(staged)
	if err != nil {
		return err
	}
	to := filepath.Join(root, filepath.FromSlash(archive))
	for _, name := range names {
		if err := copyFile(filepath.Join(staged, filepath.FromSlash(name)), filepath.Join(to, filepath.FromSlash(name))); err != nil {
			return err
		}
	}
	for _, name := range names {
		was, err := os.ReadFile(filepath.Join(staged, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		is, err := os.ReadFile(filepath.Join(to, filepath.FromSlash(name)))
		if err != nil || Checksum(was) != Checksum(is) {
			return errors.Join(err, fmt.Errorf("the copy of %s in %s is not the same", name, archive))
		}
	}
	m.Phases.Archival.Enter(Completed, now)
	m.Status = Archived
	if err := m.Write(to); err != nil {
		return err
	}
	if err := os.RemoveAll(staged); err != nil {
		return err
	}
	_ = os.Remove(filepath.Dir(staged)) // if nothing else is in it
	return nil
}

func copyFile(from, to string) error {
	raw, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := Replace(to, raw); err != nil {
		return err
	}
	if strings.HasSuffix(to, ".sh") {
		return os.Chmod(to, 0o755)
	}
	return nil
}

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
