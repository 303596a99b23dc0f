package project

import (
	"path/filepath"
	"strings"
)

// stateFolder is where Espalier keeps a project's runs.
const stateFolder = ".espalier"

// markers are the files and folders that a project's root holds.
var markers = [...]string{stateFolder, "espalier.yaml", ".awf", "agentfile.yaml", ".git"}

// FindRoot returns the nearest folder, from dir upwards, that holds a sign of a project; dir itself when there is none.
// A folder inside of a state folder belongs to the project around it: runs write there, and what they write is never
// the root of a project.
func FindRoot(dir string) string { return files{}.findRoot(dir) }

func (s files) findRoot(dir string) string {
	sep := string(filepath.Separator)
	if before, _, inside := strings.Cut(dir+sep, sep+stateFolder+sep); inside && before != "" {
		dir = before
	}
	for at := dir; ; {
		if s.isRoot(at) {
			return at
		}
		up := filepath.Dir(at)
		if up == at {
			return dir
		}
		at = up
	}
}

// isRoot reports whether a folder has a sign of a project: one of the markers, or a workflow of the Agentfile format.
func (s files) isRoot(dir string) bool {
	for _, name := range markers {
		if _, err := s.lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	workflows, err := s.readDir(filepath.Join(dir, "workflows"))
	if err != nil {
		return false
	}
	for _, w := range workflows {
		if !w.IsDir() {
			continue
		}
		if _, err := s.lstat(filepath.Join(dir, "workflows", w.Name(), "workflow.yaml")); err == nil {
			return true
		}
	}
	return false
}
