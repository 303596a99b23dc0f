package project

import (
	"cmp"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
)

const skillFile = "SKILL.md"

// skillFolders is where skills are kept below a project's root, most important first.
var skillFolders = [...]string{".agents/skills", ".claude/skills", ".awf/skills"}

// Scope is whose skill it is.
type Scope string

// The scopes. A project's skill hides the user's skill of the same name.
const (
	OfProject Scope = "project"
	OfUser    Scope = "user"
)

// Skill is a discovered skill. Its name is that of its folder.
type Skill struct {
	Name  string
	Scope Scope
	Path  string // of its SKILL.md, as shown
	// ShadowedBy is the skill of the same name that is used instead, "" for the one that is used.
	ShadowedBy string

	abs    string // of its SKILL.md
	within string // the folder that it is confined to
	file   string // its SKILL.md below within
}

// Skills lists the skills that can be called by name, in the order in which they are looked up, hidden ones included,
// and what could not be searched.
func (p *Project) Skills() ([]Skill, []Skipped) {
	p.space.mu.Lock()
	defer p.space.mu.Unlock()
	p.scan()
	return slices.Clone(p.skills), slices.Clone(p.skipped)
}

// Skill finds a skill by its bare name. Failures are *source.RefError.
func (p *Project) Skill(name string) (*source.File, error) {
	p.space.mu.Lock()
	defer p.space.mu.Unlock()
	p.scan()
	var names []string
	for i := range p.skills {
		if s := &p.skills[i]; s.Name == name {
			return p.openSkill(s)
		}
		names = append(names, p.skills[i].Name)
	}
	failed := &source.RefError{Ref: name, Problem: source.RefMissing, Detail: "there is no skill of that name"}
	if near := diag.Nearest(name, names); near != "" {
		failed.Near = []string{near}
	}
	return nil, failed
}

func (p *Project) openSkill(s *Skill) (*source.File, error) {
	within, err := p.confine(s.within)
	if err != nil {
		return nil, &source.RefError{Ref: s.Name, Problem: source.RefUnread, Detail: reason(err)}
	}
	return p.open(within, s.file, s.Name)
}

// SkillOf returns the skill whose SKILL.md a file is.
func (p *Project) SkillOf(f *source.File) (Skill, bool) {
	p.space.mu.Lock()
	defer p.space.mu.Unlock()
	p.scan()
	i := slices.IndexFunc(p.skills, func(s Skill) bool { return s.abs == f.Abs })
	if i < 0 {
		return Skill{}, false
	}
	return p.skills[i], true
}

// Shadowing returns a note if a file is a skill that another one hides.
func (p *Project) Shadowing(f *source.File) diag.List {
	s, ok := p.SkillOf(f)
	if !ok || s.ShadowedBy == "" {
		return nil
	}
	return diag.List{{
		Code: CodeShadowed, Severity: diag.Note, Span: f.Span(0, len(f.Line(1))),
		Message: fmt.Sprintf("The skill %q here is hidden by %s.", s.Name, s.ShadowedBy),
		Help:    fmt.Sprintf("Rename or remove one of the two: %q refers to the other one.", s.Name),
	}}
}

// scan finds the skills, once. They are found in the order in which they are looked up: folders of the environment, of
// the project, of the user. space.mu is held.
func (p *Project) scan() {
	if p.scanned {
		return
	}
	p.scanned = true
	for _, folder := range p.space.first[Skills] {
		p.scanUser(folder, 0)
	}
	for _, folder := range skillFolders {
		p.scanProject(folder, 0)
	}
	for _, folder := range p.space.userSkillFolders() {
		p.scanUser(folder, 0)
	}
	first := map[string]string{}
	seen := map[string]bool{}
	// One file may be found twice: .claude/skills is often a link to .agents/skills, and a home folder can be a project
	// too.
	p.skills = slices.DeleteFunc(p.skills, func(s Skill) bool {
		twice := seen[s.abs]
		seen[s.abs] = true
		return twice
	})
	for i := range p.skills {
		s := &p.skills[i]
		s.ShadowedBy = first[s.Name]
		first[s.Name] = cmp.Or(first[s.Name], s.Path)
	}
}

func (w *Workspace) userSkillFolders() []string {
	var out []string
	if w.home != "" {
		out = append(out, filepath.Join(w.home, ".agents", "skills"), filepath.Join(w.home, ".claude", "skills"))
	}
	if w.config != "" {
		out = append(out, filepath.Join(w.config, "skills"))
	}
	return out
}

// maxSkillDepth lets skills be grouped in folders: skills/GROUP/NAME/SKILL.md.
const maxSkillDepth = 3

// scanProject looks for skills below a folder of the project. Links are followed as long as they stay inside it.
func (p *Project) scanProject(folder string, depth int) {
	root := p.roots[0]
	entries, err := root.ReadDir(folder)
	if err != nil {
		p.skipUnlessMissing(filepath.Join(root.dir, folder), err)
		return
	}
	if depth > 0 && hasSkill(entries) {
		name := filepath.Join(filepath.FromSlash(folder), skillFile)
		p.add(Skill{Scope: OfProject, within: root.dir, file: name}, filepath.Join(root.dir, name))
		return
	}
	if depth == maxSkillDepth {
		return
	}
	for _, e := range entries {
		below := folder + "/" + e.Name()
		if skipSkillFolder(e.Name()) {
			continue
		}
		isDir := e.IsDir()
		if e.Type()&fs.ModeSymlink != 0 {
			info, err := root.Stat(filepath.FromSlash(below))
			if err != nil {
				p.skipped = append(p.skipped, Skipped{
					Path:   p.space.Display(filepath.Join(root.dir, below)),
					Reason: "this symbolic link does not lead to anything inside the project",
				})
				continue
			}
			isDir = info.IsDir()
		}
		if isDir {
			p.scanProject(below, depth+1)
		}
	}
}

// scanUser looks for skills below one of the user's folders. The user made these folders and the links in them, so
// links are followed; each skill is then confined to its own folder.
func (p *Project) scanUser(folder string, depth int) {
	entries, err := p.space.files.readDir(folder)
	if err != nil {
		p.skipUnlessMissing(folder, err)
		return
	}
	if depth > 0 && hasSkill(entries) {
		if real, err := p.space.files.evalSymlinks(folder); err == nil {
			p.add(Skill{Scope: OfUser, within: real, file: skillFile}, filepath.Join(folder, skillFile))
		}
		return
	}
	if depth == maxSkillDepth {
		return
	}
	for _, e := range entries {
		below := filepath.Join(folder, e.Name())
		if skipSkillFolder(e.Name()) {
			continue
		}
		if info, err := p.space.files.stat(below); err == nil && info.IsDir() {
			p.scanUser(below, depth+1)
		}
	}
}

// add adds a skill whose SKILL.md is at a path.
func (p *Project) add(s Skill, path string) {
	abs, err := p.space.files.evalSymlinks(path)
	if err != nil {
		p.skipped = append(p.skipped, Skipped{Path: p.space.Display(path), Reason: reason(err)})
		return
	}
	s.Name, s.Path, s.abs = filepath.Base(filepath.Dir(path)), p.space.Display(path), abs
	p.skills = append(p.skills, s)
}

func (p *Project) skipUnlessMissing(folder string, err error) {
	if _, missing := p.space.files.lstat(folder); missing != nil {
		return // most of these folders do not exist
	}
	p.skipped = append(p.skipped, Skipped{Path: p.space.Display(folder), Reason: reason(err)})
}

func hasSkill(entries []fs.DirEntry) bool {
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == skillFile && !e.IsDir() })
}

func skipSkillFolder(name string) bool { return name[0] == '.' || name == "node_modules" }
