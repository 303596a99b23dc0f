package registry

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// stampForm is a time as the name of a folder, safe on all systems.
const stampForm = "2006-01-02T15-04-05"

// Stamp makes a folder that is called after the time, below a folder of the
// project, and gives its name. Two runs of one second get two seconds (G14).
func Stamp(root, dir string, now time.Time) (string, bool) {
	if !filepath.IsLocal(filepath.FromSlash(dir)) {
		return "", false
	}
	parent := filepath.Join(root, filepath.FromSlash(dir))
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", false
	}
	const tries = 3600
	for range tries {
		name := now.UTC().Format(stampForm)
		err := os.Mkdir(filepath.Join(parent, name), 0o755)
		if err == nil {
			return name, true
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", false
		}
		now = now.Add(time.Second)
	}
	return "", false
}
