package builtin

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/protected"
	"github.com/espalier-run/espalier/internal/tool"
)

// storage is the project's own folder: records of runs, and what decides them.
const storage = ".espalier"

// mostLinks is how many links a path may lead over.
const mostLinks = 32

// refused returns a path that leads where a tool must not go.
func refused(name, why string) error {
	return &tool.Error{Class: tool.ClassDenied, Message: fmt.Sprintf("%q %s", name, why)}
}

// area is a folder that file tools may work in.
type area struct {
	path string // absolute, without links
	own  bool   // the run's: all of it can be read
	only bool   // to be read
	// may reports whether the workflow lets the call go to a path in the area;
	// nil allows all.
	may func(path string, linked bool) bool
	// keep are files that must not be changed.
	keep protected.Files
}

// areas returns where a call may go: the run's folder, which comes first, and the project.
func (o Options) areas(dir string) []area {
	out := make([]area, 0, 2)
	if dir != "" {
		out = append(out, area{path: real(dir), own: true})
	}
	if o.Root != "" {
		out = append(out, area{path: real(o.Root)})
	}
	for _, path := range o.Readable {
		out = append(out, area{path: real(path), only: true})
	}
	for i := range out {
		out[i].may, out[i].keep = o.may, o.keep
	}
	return out
}

// of returns the options of one call: what it may read besides, and what the
// workflow keeps it from.
func (o Options) of(call tool.Call) Options {
	o.Readable = slices.Concat(o.Readable, call.Readable)
	o.may, o.keep = call.MayTouch, call.Keep
	return o
}

// real returns a folder's path without links; as it was given if it has none.
func real(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	if plain, err := filepath.EvalSymlinks(dir); err == nil {
		return plain
	}
	return dir
}

// forbidden says why a name in the area is out of reach; "" when it is not. A
// name counts in every folder: a project can be inside of another one, and
// inside of a folder that may be read.
func (a area) forbidden(parts []string, write bool) string {
	if a.only && write {
		return "may only be read"
	}
	if write {
		if err, ok := errors.AsType[*protected.Error](protected.Path(strings.Join(parts, "/"))); ok {
			return fmt.Sprintf("cannot be written: programs read %q as configuration", err.Component)
		}
	}
	isStorage := func(part string) bool { return strings.EqualFold(part, storage) }
	if !a.own && slices.ContainsFunc(parts, isStorage) {
		return "belongs to Espalier itself"
	}
	return ""
}

// spot is where a path leads: a name in a folder that is held open.
type spot struct {
	dir  *os.Root
	base string
	rel  string      // from the area's folder, with slashes
	info fs.FileInfo // nil when there is nothing yet
	area area
}

func (s *spot) close() { s.dir.Close() }

// errChanged reports a path that another process changes at the same time.
var errChanged = errors.New("it changed while it was looked at")

// walk goes to where a path leads. Links are followed as long as they stay in
// the area. make lets it create folders that are missing.
func (a area) walk(name string, write, makeDirs bool) (*spot, error) {
	rest := splitPath(name)
	for links := 0; ; links++ {
		if links > mostLinks {
			return nil, refused(name, "leads over too many links")
		}
		if a.may != nil && !slices.Contains(rest, "..") && !a.may(path.Join(rest...), links > 0) {
			return nil, refused(name, "leads to a path that the workflow does not allow")
		}
		s, link, err := a.step(rest, write, makeDirs)
		if err != nil || link == nil {
			return s, err
		}
		rest = link
		if slices.Contains(rest, "..") {
			return nil, refused(name, "leads out of the folder that tools may use")
		}
	}
}

// splitPath takes a relative path apart. One that leads out keeps its "..".
func splitPath(name string) []string {
	clean := path.Clean(filepath.ToSlash(name))
	if clean == "." {
		return nil
	}
	return strings.Split(clean, "/")
}

// step goes along a path until its end, or until a link, and then says where
// that leads, from the area's folder.
func (a area) step(parts []string, write, makeDirs bool) (_ *spot, link []string, err error) {
	name := strings.Join(parts, "/")
	if slices.Contains(parts, "..") {
		return nil, nil, refused(name, "leads out of the folder that tools may use")
	}
	if why := a.forbidden(parts, write); why != "" {
		return nil, nil, refused(name, why)
	}
	dir, err := os.OpenRoot(a.path)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil || link != nil {
			dir.Close()
		}
	}()
	if len(parts) == 0 {
		info, err := dir.Stat(".")
		return &spot{dir: dir, base: ".", rel: ".", info: info, area: a}, nil, err
	}
	for i, part := range parts {
		info, err := dir.Lstat(part)
		last := i == len(parts)-1
		switch {
		case errors.Is(err, fs.ErrNotExist) && last:
			return &spot{dir: dir, base: part, rel: name, area: a}, nil, nil
		case errors.Is(err, fs.ErrNotExist) && makeDirs:
			if err := dir.Mkdir(part, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
				return nil, nil, err
			}
			if info, err = dir.Lstat(part); err != nil {
				return nil, nil, err
			}
		case err != nil:
			return nil, nil, err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			to, err := dir.Readlink(part)
			if err != nil {
				return nil, nil, err
			}
			if filepath.IsAbs(to) {
				inside, err := filepath.Rel(a.path, to)
				if err != nil || !filepath.IsLocal(inside) {
					return nil, nil, refused(name, "is a link that leads out of the folder that tools may use")
				}
				return nil, append(splitPath(inside), parts[i+1:]...), nil
			}
			to = path.Join(path.Join(parts[:i]...), filepath.ToSlash(to), path.Join(parts[i+1:]...))
			if !filepath.IsLocal(to) {
				return nil, nil, refused(name, "is a link that leads out of the folder that tools may use")
			}
			return nil, append([]string{}, splitPath(to)...), nil
		}
		if last {
			return &spot{dir: dir, base: part, rel: name, info: info, area: a}, nil, nil
		}
		inner, err := dir.OpenRoot(part)
		if err != nil {
			return nil, nil, err
		}
		now, err := inner.Stat(".")
		if err != nil || !os.SameFile(info, now) {
			inner.Close()
			return nil, nil, errors.Join(err, errChanged)
		}
		dir.Close()
		dir = inner
	}
	return nil, nil, errChanged // not reached: the last part returns
}

// find goes to a path that was given to a tool: an absolute one in the area
// that it names, any other in the first area that has it. With create it is
// the first area where nothing of the name exists.
func (o Options) find(dir, name string, write, create bool) (*spot, error) {
	areas := o.areas(dir)
	if len(areas) == 0 {
		return nil, refused(name, "cannot be reached: there is no folder to work in")
	}
	if filepath.IsAbs(name) {
		name = realParent(name)
		for _, a := range areas {
			if rel, err := filepath.Rel(a.path, name); err == nil && filepath.IsLocal(rel) {
				return a.walk(rel, write, create)
			}
		}
		return nil, refused(name, "is neither in the project nor in the run's folder")
	}
	if create {
		areas = areas[:1]
	}
	var missing error
	for _, a := range areas {
		s, err := a.walk(name, write, create)
		if err == nil && (s.info != nil || create) {
			return s, nil
		}
		if err == nil {
			s.close()
			err = &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		missing = err
	}
	return nil, missing
}

// realParent resolves links in the part of an absolute path that is outside of
// our areas, so that /tmp and /private/tmp are the same.
func realParent(name string) string {
	dir, base := filepath.Split(filepath.Clean(name))
	if plain, err := filepath.EvalSymlinks(dir); err == nil {
		return filepath.Join(plain, base)
	}
	return filepath.Clean(name)
}

// open opens the file for reading; only a plain file, and only the one that
// was looked at.
func (s *spot) open() (*os.File, error) {
	if s.info == nil {
		return nil, &fs.PathError{Op: "open", Path: s.rel, Err: fs.ErrNotExist}
	}
	if !s.info.Mode().IsRegular() {
		return nil, &tool.Error{Class: tool.ClassInput, Message: fmt.Sprintf("%q is not a file", s.rel)}
	}
	f, err := s.dir.OpenFile(s.base, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return nil, err
	}
	now, err := f.Stat()
	if err != nil || !os.SameFile(s.info, now) {
		f.Close()
		return nil, errors.Join(err, errChanged)
	}
	return f, nil
}

// read reads the file, up to a size.
func (s *spot) read(most int64) ([]byte, error) {
	f, err := s.open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(raw)) > most {
		err = &tool.Error{Class: tool.ClassInput, Message: fmt.Sprintf("%q is larger than %d bytes", s.rel, most)}
	}
	return raw, err
}

// write puts content in place of the file, whole or not at all. A link that
// somebody puts there meanwhile is replaced, never followed.
func (s *spot) write(content []byte) (err error) {
	if s.info != nil && !s.info.Mode().IsRegular() {
		return &tool.Error{Class: tool.ClassInput, Message: fmt.Sprintf("%q is not a file", s.rel)}
	}
	var old []byte
	if s.info != nil {
		if old, err = s.read(maxRead); err != nil {
			old = nil // no workflow is that large
		}
	}
	keep := s.area.keep
	if s.area.own { // files of a run are not workflows that a person names
		keep.Consents = nil
	}
	if err := keep.Check(s.rel, old, content); err != nil {
		return &tool.Error{Class: tool.ClassDenied, Message: err.Error()}
	}
	mode := fs.FileMode(0o600)
	if !s.area.own {
		mode = 0o644
	}
	if s.info != nil {
		mode = s.info.Mode().Perm()
	}
	fresh := "." + rand.Text() + ".new" // others may write the same file at this moment
	f, err := s.dir.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = s.dir.Rename(fresh, s.base)
	}
	if err != nil {
		_ = s.dir.Remove(fresh) // it is worth nothing now
	}
	return err
}
