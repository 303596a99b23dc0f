package registry

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/espalier-run/espalier/internal/protected"
)

// stampForm is a time as the name of a folder, safe on all systems.
const stampForm = "2006-01-02T15-04-05"

// Stamp creates a folder named after the time, below a folder of the project, and returns its name. Two runs within one
// second get two seconds. It returns false if the folder would be outside of the project or in configuration.
func Stamp(root, dir string, now time.Time) (string, bool) {
	in, err := os.OpenRoot(root)
	if err != nil {
		return "", false
	}
	defer in.Close()
	const tries = 3600
	for range tries {
		name := now.UTC().Format(stampForm)
		resolved, err := protected.Resolve(in, path.Join(dir, name))
		if err == nil {
			err = in.MkdirAll(filepath.FromSlash(path.Dir(resolved)), 0o755)
		}
		if err == nil {
			err = in.Mkdir(filepath.FromSlash(resolved), 0o755)
		}
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
