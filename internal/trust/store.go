package trust

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/private"
)

// Store holds the approvals of a user, in a folder outside of every project that only the user can change. A record
// names a project by its path and has the hashes of what is approved.
type Store struct {
	dir string // "" if the user has no folder for it
	why error  // the reason
}

// Open returns the store of the user. It does not access the disk.
func Open(getenv func(string) string) Store {
	dir := getenv("XDG_STATE_HOME")
	if dir == "" || !filepath.IsAbs(dir) {
		home := getenv("HOME")
		var err error
		switch {
		case runtime.GOOS == "windows" || runtime.GOOS == "darwin":
			dir, err = os.UserConfigDir()
		case home != "":
			dir = filepath.Join(home, ".local", "state")
		default:
			if home, err = os.UserHomeDir(); err == nil {
				dir = filepath.Join(home, ".local", "state")
			}
		}
		if err != nil {
			return Store{why: fmt.Errorf("no folder for approvals: %w; set XDG_STATE_HOME", err)}
		}
	}
	return Store{dir: filepath.Join(dir, "espalier")}
}

// Dir returns the folder of the store, or "" if the user has none.
func (s Store) Dir() string { return s.dir }

// File is an approved content.
type File struct {
	Path   string `json:"path"` // relative to the root of the project, with slashes
	SHA256 string `json:"sha256"`
}

// Missing takes the place of the hash of a file that does not exist.
const Missing = "missing"

// Sum returns the hash of a content, as in File.
func Sum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// SumFile returns the hash of a file's content, and "" for a folder. What is neither a file nor a folder, such as a
// pipe, has a different hash each time, so that it is never approved.
func SumFile(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil || info.IsDir():
		return "", err
	case !info.Mode().IsRegular():
		return rand.Text(), nil
	}
	return sumOf(os.Open(path))
}

// SumIn returns the hash of the content of a file of a file system.
func SumIn(root fs.FS, name string) (string, error) { return sumOf(root.Open(name)) }

func sumOf(f io.ReadCloser, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Record lists what is approved in a project.
type Record struct {
	Root  string    `json:"root"`
	At    time.Time `json:"approved_at"`
	Files []File    `json:"files"`
}

const approvals = "trust"

// File returns the path of the record of a project, which need not exist.
func (s Store) File(root string) string {
	return filepath.Join(s.dir, approvals, Sum([]byte(root))+".json")
}

// Approve records the approved contents of a project. It replaces the previous
// record.
func (s Store) Approve(r Record) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return s.write(s.File(r.Root), append(raw, '\n'))
}

// write writes a file of the store atomically: readers see the old content or the new one.
func (s Store) write(name string, content []byte) error {
	if s.dir == "" {
		return s.why
	}
	if err := private.MakeFolder(s.dir); err != nil {
		return err
	}
	if err := private.MakeFolder(filepath.Dir(name)); err != nil {
		return err
	}
	fresh := filepath.Join(filepath.Dir(name), "."+rand.Text()+".new")
	if err := os.WriteFile(fresh, content, 0o600); err != nil {
		return err
	}
	if err := os.Rename(fresh, name); err != nil {
		_ = os.Remove(fresh) // incomplete
		return err
	}
	return nil
}

// writeNew is write for a file that several processes may create at the same time. The first one is kept, because
// os.Link fails if the name exists; without links, the last one is.
func (s Store) writeNew(name string, content []byte) error {
	fresh := name + "." + rand.Text()
	if err := s.write(fresh, content); err != nil {
		return err
	}
	defer os.Remove(fresh)
	if err := os.Link(fresh, name); err != nil && !errors.Is(err, fs.ErrExist) {
		return os.Rename(fresh, name) // a file system without links
	}
	return nil
}

// read returns the content of a file of the store, or nil if the file does not
// exist. It fails if other users can change the store.
func (s Store) read(name string) ([]byte, error) {
	if s.dir == "" {
		return nil, s.why
	}
	for _, path := range []string{s.dir, filepath.Dir(name), name} {
		if err := private.Check(path); err != nil {
			return nil, err
		}
	}
	raw, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return raw, err
}

// Record returns what is approved in a project. It reports false if nothing is.
func (s Store) Record(root string) (Record, bool, error) {
	raw, err := s.read(s.File(root))
	if err != nil || raw == nil {
		return Record{}, false, err
	}
	var r Record
	if err := json.Unmarshal(raw, &r); err != nil {
		return Record{}, false, fmt.Errorf("%s cannot be read: %w", s.File(root), err)
	}
	return r, r.Root == root, nil
}

// Has reports whether all files are approved in a project, each with its content at its path: what is harmless as data
// can be code in another place.
func (s Store) Has(root string, files ...File) (bool, error) {
	r, ok, err := s.Record(root)
	if err != nil || !ok {
		return false, err
	}
	for _, f := range files {
		if !slices.Contains(r.Files, f) {
			return false, nil
		}
	}
	return true, nil
}

// List returns all records, sorted by root.
func (s Store) List() ([]Record, error) {
	if s.dir == "" {
		return nil, s.why
	}
	entries, err := os.ReadDir(filepath.Join(s.dir, approvals))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Record
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		raw, err := s.read(filepath.Join(s.dir, approvals, e.Name()))
		if err != nil {
			return nil, err
		}
		var r Record
		if json.Unmarshal(raw, &r) == nil && s.File(r.Root) == filepath.Join(s.dir, approvals, e.Name()) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b Record) int { return strings.Compare(a.Root, b.Root) })
	return out, nil
}

// Revoke removes the record of a project. It reports whether there was one.
func (s Store) Revoke(root string) (bool, error) {
	if s.dir == "" {
		return false, s.why
	}
	err := os.Remove(s.File(root))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
