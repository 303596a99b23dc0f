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
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// FileName is the name of the manifest in the folder of its run.
const FileName = "manifest.json"

// Manifest is the state of one generation.
type Manifest struct {
	SpecVersion string     `json:"specVersion"`
	Workflow    string     `json:"workflow"`
	RunID       string     `json:"run_id"`
	CreatedAt   string     `json:"created_at"`
	UpdatedAt   string     `json:"updated_at,omitempty"`
	Mode        string     `json:"execution_mode"`
	Generator   string     `json:"generator"`
	Request     string     `json:"request,omitempty"`
	Run         string     `json:"espalier_run,omitempty"`     // the generating run
	Repairs     []string   `json:"espalier_repairs,omitempty"` // runs that repair the result
	Status      string     `json:"status"`
	Phases      Phases     `json:"phases"`
	Steps       []Step     `json:"steps"`
	Files       []File     `json:"files"`
	Promotion   *Promotion `json:"promotion,omitempty"`
	Errors      []Error    `json:"errors"`
}

// The states of a generation, in order, and Failed.
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

// Running is the state of a run in its record. The others are Awaiting, Completed and Failed.
const Running = "running"

// Phases are the four phases of a generation.
type Phases struct {
	Generation Phase `json:"generation"`
	Validation Phase `json:"validation"`
	Promotion  Phase `json:"promotion"`
	Archival   Phase `json:"archival"`
}

// Phase is the state of one phase.
type Phase struct {
	Status      string `json:"status"`
	StartedAt   string `json:"started_at,omitempty"`
	CompletedAt string `json:"completed_at,omitempty"`
}

// Enter sets the state of a phase and the matching timestamp.
func (p *Phase) Enter(status string, at time.Time) {
	p.Status = status
	switch status {
	case InProgress:
		p.StartedAt = Time(at)
	case Completed, StepFailed:
		p.CompletedAt = Time(at)
	}
}

// Step mirrors a step of the generating workflow.
type Step struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Status      string `json:"status"`
	StartedAt   string `json:"started_at,omitempty"`
	CompletedAt string `json:"completed_at,omitempty"`
}

// File is a generated file.
type File struct {
	Path       string `json:"path"` // relative to the folder of the run
	Role       string `json:"role"`
	ProducedBy string `json:"produced_by"`
	Size       int64  `json:"size_bytes,omitempty"`
	Checksum   string `json:"checksum,omitempty"` // sha256:…
}

// Promotion is the destination of the workflow.
type Promotion struct {
	Target      string `json:"target"`
	PromotedAt  string `json:"promoted_at"`
	ArchivePath string `json:"archive_path"`
}

// Error is a failure. Entries are never removed.
type Error struct {
	At      string `json:"at"`
	Phase   string `json:"phase"`
	Message string `json:"message"`
	StepID  string `json:"step_id,omitempty"`
}

// Time formats a time as in the format's files.
func Time(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// New returns the manifest of a generation that starts at now.
func New(workflow, run, generator, request string, now time.Time) *Manifest {
	pending := Phase{Status: Pending}
	m := &Manifest{
		SpecVersion: "1.0", Workflow: workflow, RunID: run, CreatedAt: Time(now), Mode: "cli", Generator: generator,
		Request: request,
		Status:  Generating, Phases: Phases{pending, pending, pending, pending}, Steps: []Step{}, Errors: []Error{},
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

// Write writes the manifest to a folder atomically.
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

// Replace writes a file atomically.
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

// Fail appends an error.
func (m *Manifest) Fail(phase, step, message string, at time.Time) {
	m.Errors = append(m.Errors, Error{At: Time(at), Phase: phase, Message: message, StepID: step})
}

// stages are what a generation consists of, by the beginnings of paths in its folder. What is installed is promoted to
// a path with that beginning in the workflow's folder.
var stages = []struct{ staged, role, installed string }{
	{"01-", "clarification", ""},
	{"02-", "design", ""},
	{"03-workflow.yaml", "workflow_config", "workflow.yaml"},
	{"03-", "workflow_config", ""},
	{"04-agents/", "agent", "agents/"},
	{"05-skills/", "skill", "skills/"},
	{"06-scripts/cli/", "script_cli", "scripts/cli/"},
	{"06-scripts/", "script_ide", "scripts/"},
	{"07-", "review", ""},
}

// roleOf returns the role of a file by its path.
func roleOf(name string) string {
	for _, s := range stages {
		if strings.HasPrefix(name, s.staged) {
			return s.role
		}
	}
	return "manifest"
}

// Register updates the list of files from the folder. by maps paths to the steps that produced them or everything below
// them; the longest matching path wins.
func (m *Manifest) Register(dir string, by map[string]string) error {
	found, err := Files(dir)
	if err != nil {
		return err
	}
	before := m.Files
	m.Files = nil
	for _, name := range found {
		entry := File{Path: name, Role: roleOf(name), ProducedBy: "init"}
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
		if name != FileName { // it cannot contain its own checksum
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

// Checksum returns the checksum of a file's content.
func Checksum(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Files returns the files below a folder, sorted, without hidden ones.
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

// Canonical returns the path of a staged file in the workflow's folder, or "" for files that are not promoted.
func Canonical(name string) string {
	for _, s := range stages {
		if rest, ok := strings.CutPrefix(name, s.staged); ok && installs(s.installed, rest) {
			return s.installed + rest
		}
	}
	return ""
}

// Source returns the path of the staged file that is promoted to a path in the workflow's folder; "" if there is none.
func Source(canonical string) string {
	for _, s := range stages {
		if rest, ok := strings.CutPrefix(canonical, s.installed); ok && installs(s.installed, rest) {
			return s.staged + rest
		}
	}
	return ""
}

// installs reports whether a stage is a folder with the rest of a path, or a file and there is no rest.
func installs(stage, rest string) bool {
	return stage != "" && strings.HasSuffix(stage, "/") == (rest != "")
}
