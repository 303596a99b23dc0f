package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
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
)

// FileName is the manifest's, in the folder of its run.
const FileName = "manifest.json"

// Manifest is the control plane of one generation.
type Manifest struct {
	SpecVersion string     `json:"specVersion"`
	Workflow    string     `json:"workflow"`
	RunID       string     `json:"run_id"`
	CreatedAt   string     `json:"created_at"`
	UpdatedAt   string     `json:"updated_at,omitempty"`
	Mode        string     `json:"execution_mode"`
	Generator   string     `json:"generator"`
	Request     string     `json:"request,omitempty"`
	Run         string     `json:"espalier_run,omitempty"`     // the run that generates
	Repairs     []string   `json:"espalier_repairs,omitempty"` // the runs that mend what was generated
	Status      string     `json:"status"`
	Phases      Phases     `json:"phases"`
	Steps       []Step     `json:"steps"`
	Files       []File     `json:"files"`
	Promotion   *Promotion `json:"promotion,omitempty"`
	Errors      []Error    `json:"errors"`
}

// The states of a generation, in their order; it fails in Failed.
const (
	Generating = "generating"
	Generated  = "generated"
	Validated  = "validated"
	Registered = "registered"
	Archived   = "archived"
	Failed     = "failed"
)

// The states of phases and steps.
const (
	Pending    = "pending"
	InProgress = "in_progress"
	Completed  = "completed"
	StepFailed = "failed"
	Awaiting   = "awaiting_approval"
	Skipped    = "skipped"
)

// Phases are the four parts of a generation.
type Phases struct {
	Generation Phase `json:"generation"`
	Validation Phase `json:"validation"`
	Promotion  Phase `json:"promotion"`
	Archival   Phase `json:"archival"`
}

// Phase is one part.
type Phase struct {
	Status      string `json:"status"`
	StartedAt   string `json:"started_at,omitempty"`
	CompletedAt string `json:"completed_at,omitempty"`
}

// Enter sets the state of a phase, with the time that goes with it.
func (p *Phase) Enter(status string, at time.Time) {
	p.Status = status
	switch status {
	case InProgress:
		p.StartedAt = Time(at)
	case Completed, StepFailed:
		p.CompletedAt = Time(at)
	}
}

// Step mirrors a step of the workflow that generates (G18).
type Step struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Status      string `json:"status"`
	StartedAt   string `json:"started_at,omitempty"`
	CompletedAt string `json:"completed_at,omitempty"`
}

// File is something that was made.
type File struct {
	Path       string `json:"path"` // from the folder of the run
	Role       string `json:"role"`
	ProducedBy string `json:"produced_by"`
	Size       int64  `json:"size_bytes,omitempty"`
	Checksum   string `json:"checksum,omitempty"` // sha256:…
}

// Promotion is where the workflow went.
type Promotion struct {
	Target      string `json:"target"`
	PromotedAt  string `json:"promoted_at"`
	ArchivePath string `json:"archive_path"`
}

// Error is something that went wrong; entries are never removed.
type Error struct {
	At      string `json:"at"`
	Phase   string `json:"phase"`
	Message string `json:"message"`
	StepID  string `json:"step_id,omitempty"`
}

// Time is a moment as the files of the format have it.
func Time(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// New is the manifest of a generation that begins.
func New(workflow, run, generator, request string, now time.Time) *Manifest {
	pending := Phase{Status: Pending}
	m := &Manifest{
		SpecVersion: "1.0", Workflow: workflow, RunID: run, CreatedAt: Time(now), Mode: "cli", Generator: generator, Request: request,
		Status: Generating, Phases: Phases{pending, pending, pending, pending}, Steps: []Step{}, Errors: []Error{},
		Files: []File{{Path: FileName, Role: "manifest", ProducedBy: "init"}},
	}
	m.Phases.Generation.Enter(InProgress, now)
	return m
}

// Read reads the manifest of a folder.
func Read(dir string) (*Manifest, error) {
	raw, err := os.ReadFile(filepath.Join(dir, FileName))
	if err != nil {
		return nil, err
	}
	m := new(Manifest)
	if err := json.Unmarshal(raw, m); err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", filepath.Join(dir, FileName), err)
	}
	return m, nil
}

// Write writes the manifest of a folder, whole or not at all.
func (m *Manifest) Write(dir string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(m); err != nil {
		return err
	}
	return Replace(filepath.Join(dir, FileName), b.Bytes())
}

// Replace puts a file in its place, whole or not at all.
func Replace(name string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// Fail notes what went wrong.
func (m *Manifest) Fail(phase, step, message string, at time.Time) {
	m.Errors = append(m.Errors, Error{At: Time(at), Phase: phase, Message: message, StepID: step})
}

// RoleOf is what a file is for, by its place.
func RoleOf(name string) string {
	first, rest, _ := strings.Cut(name, "/")
	switch {
	case strings.HasPrefix(name, "01-"):
		return "clarification"
	case strings.HasPrefix(name, "02-"):
		return "design"
	case strings.HasPrefix(name, "03-"):
		return "workflow_config"
	case first == "04-agents":
		return "agent"
	case first == "05-skills":
		return "skill"
	case first == "06-scripts" && strings.HasPrefix(rest, "cli/"):
		return "script_cli"
	case first == "06-scripts":
		return "script_ide"
	case strings.HasPrefix(name, "07-"):
		return "review"
	}
	return "manifest"
}

// Register brings the list of files up to what lies in the folder; by names
// the steps that made what lies at a path, or below it: the nearest one counts.
func (m *Manifest) Register(dir string, by map[string]string) error {
	found, err := Files(dir)
	if err != nil {
		return err
	}
	before := m.Files
	m.Files = nil
	for _, name := range found {
		entry := File{Path: name, Role: RoleOf(name), ProducedBy: "init"}
		if i := slices.IndexFunc(before, func(f File) bool { return f.Path == name }); i >= 0 {
			entry.ProducedBy = before[i].ProducedBy
		}
		nearest := -1
		for at, step := range by {
			at = strings.TrimSuffix(at, "/")
			if (name == at || strings.HasPrefix(name, at+"/")) && len(at) > nearest {
				nearest, entry.ProducedBy = len(at), step
			}
		}
		if name != FileName { // it cannot contain its own
			raw, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
			if err != nil {
				return err
			}
			entry.Size, entry.Checksum = int64(len(raw)), Checksum(raw)
		}
		m.Files = append(m.Files, entry)
	}
	return nil
}

// Checksum is that of a file's content.
func Checksum(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Files lists the files below a folder, sorted, without hidden ones.
func Files(dir string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(d.Name(), ".") {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		out = append(out, filepath.ToSlash(rel))
		return err
	})
	slices.Sort(out)
	return out, err
}

// Canonical is where a staged file goes in the workflow's folder; "" for what
// stays behind.
func Canonical(name string) string {
	first, rest, _ := strings.Cut(name, "/")
	switch {
	case name == "03-workflow.yaml":
		return "workflow.yaml"
	case first == "04-agents" && rest != "":
		return path.Join("agents", rest)
	case first == "05-skills" && rest != "":
		return path.Join("skills", rest)
	case first == "06-scripts" && rest != "":
		return path.Join("scripts", rest)
	}
	return ""
}
