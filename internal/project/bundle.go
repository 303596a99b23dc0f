package project

import (
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/source"
)

// bundleFolders are the folders of a skill's additional files.
var bundleFolders = [...]string{"assets", "references", "scripts"}

// maxBundle is the maximum number of files of a skill that are listed; all of them can be read.
const maxBundle = 200

// Bundle returns the files of a SKILL.md: those in its folders scripts, references and assets, and Markdown files
// beside it. It omits hidden files and symbolic links. dir is relative to the project's root, or absolute if the skill
// is in one of the user's folders.
func (p *Project) Bundle(f *source.File) (dir string, names []string) {
	p.space.mu.Lock()
	defer p.space.mu.Unlock()
	if filepath.Base(f.Abs) != skillFile {
		return "", nil
	}
	within := p.confining(f)
	rel, err := filepath.Rel(within.dir, filepath.Dir(f.Abs))
	if err != nil || !filepath.IsLocal(rel) {
		return "", nil
	}
	rel = filepath.ToSlash(rel)
	dir = rel
	ofProject := within.dir == p.Root
	if !ofProject {
		dir = filepath.Dir(f.Abs)
	}
	if entries, err := within.ReadDir(rel); err == nil && (rel != "." || !ofProject) {
		for _, e := range entries {
			if name := e.Name(); e.Type().IsRegular() && name != skillFile && path.Ext(name) == ".md" &&
				name[0] != '.' {
				names = append(names, name)
			}
		}
	}
	for _, folder := range bundleFolders {
		start := path.Join(rel, folder)
		// Unreadable folders are not listed; the skill works without them.
		_ = fs.WalkDir(within, start, func(at string, d fs.DirEntry, err error) error {
			switch {
			case len(names) >= maxBundle:
				return fs.SkipAll
			case err != nil && d != nil && d.IsDir():
				return fs.SkipDir
			case err != nil:
				return nil
			case d.Name()[0] == '.' || d.Name() == "node_modules" || d.Name() == "__pycache__":
				if d.IsDir() {
					return fs.SkipDir
				}
			case d.Type().IsRegular():
				name := at
				if rel != "." {
					name = strings.TrimPrefix(at, rel+"/")
				}
				names = append(names, name)
			}
			return nil
		})
	}
	slices.Sort(names)
	return dir, names[:min(len(names), maxBundle)]
}
