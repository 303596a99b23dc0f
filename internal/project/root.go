package project

import (
	"os"
	"path/filepath"
)

// markers are the files and folders that a project's root holds.
var markers = [...]string{".espalier", "espalier.yaml", ".awf", "agentfile.yaml", ".git"}

// FindRoot returns the nearest folder, from dir upwards, that holds a sign of
// a project; dir itself when there is none.
func FindRoot(dir string) string {
	for at := dir; ; {
		if isRoot(at) {
			return at
		}
		up := filepath.Dir(at)
		if up == at {
			return dir
		}
		at = up
	}
}

func isRoot(dir string) bool {
	for _, name := range markers {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	workflows, err := os.ReadDir(filepath.Join(dir, "workflows"))
	if err != nil {
		return false
	}
	for _, w := range workflows {
		if !w.IsDir() {
			continue
		}
		if _, err := os.Lstat(filepath.Join(dir, "workflows", w.Name(), "workflow.yaml")); err == nil {
			return true
		}
	}
	return false
}
