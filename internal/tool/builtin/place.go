package builtin

import (
	"cmp"
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

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/protected"
	"github.com/espalier-run/espalier/internal/tool"
)

// storage is Espalier's folder in the project. It holds the records of runs and approvals.
const storage = ".espalier"

// maxLinks is the maximum number of links on a path.
const maxLinks = 32

// refused returns the error for a path that a tool must not access.
func refused(name, why string) error {
	return tool.Errorf(ir.ClassDenied, "%q %s", name, why)
}

// area is a folder that file tools may access. Access goes through os.Root and never through a path that was checked
// before: another process, such as a command of the same run, may replace folders and links at any time.
type area struct {
	path     string // absolute, without links
	own      bool   // the run's folder, where every file can be read
	readOnly bool
	// may reports whether the workflow allows the call to access a path in the area; nil allows all.
	may func(path string, linked bool) bool
	// keep are files that must not be changed.
	keep protected.Files
}

// areas returns the areas of a call: the run's folder, which comes first, and the project.
func (o Options) areas(dir string) []area {
	out := make([]area, 0, 2)
	if dir != "" {
		out = append(out, area{path: real(dir), own: true})
	}
	if o.Root != "" {
		out = append(out, area{path: real(o.Root)})
	}
	for _, path := range o.Readable {
		out = append(out, area{path: real(path), readOnly: true})
	}
	for i := range out {
		out[i].may, out[i].keep = o.may, o.keep
	}
	return out
}

// of returns the options of one call, with its additional readable folders and the restrictions of the workflow.
func (o Options) of(call tool.Call) Options {
	o.Readable = slices.Concat(o.Readable, call.Readable)
	o.may, o.keep = call.MayTouch, call.Keep
	return o
}

// real returns the path of a folder without links, or dir if it cannot be resolved.
func real(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	if plain, err := filepath.EvalSymlinks(dir); err == nil {
		return plain
	}
	return dir
}

// forbidden returns why a name in the area is inaccessible, or "" if it is accessible. The rule applies in every
// folder, because a project can be nested in another project or in a readable folder.
func (a area) forbidden(parts []string, write bool) string {
	if a.readOnly && write {
		return "may only be read"
	}
	if write {
		if err, ok := errors.AsType[*protected.Error](protected.Path(strings.Join(parts, "/"))); ok {
			return fmt.Sprintf("cannot be written: programs read %q as configuration", err.Component)
		}
	}
	isStorage := func(part string) bool { // in every spelling, also the 8.3 name of Windows
		part = protected.Fold(part)
		return part == storage || strings.HasPrefix(part, "espali~")
	}
	if !a.own && slices.ContainsFunc(parts, isStorage) {
		return "belongs to Espalier itself"
	}
	return ""
}

// spot is the resolved target of a path: a name in an open folder.
type spot struct {
	dir  *os.Root
	base string
	rel  string      // relative to the area, with slashes
	info fs.FileInfo // nil if the file does not exist
	area area
}

func (s *spot) close() { s.dir.Close() }

// errChanged means that another process has changed a path while it was resolved.
var errChanged = errors.New("the path changed while it was resolved")

// walk resolves a path. It follows links as long as they stay in the area; each target is checked again, as if the call
// had named it. If makeDirs is set, it creates missing folders. The caller closes the spot.
func (a area) walk(name string, write, makeDirs bool) (*spot, error) {
	rest := splitPath(name)
	for links := 0; ; links++ {
		if links > maxLinks {
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

// splitPath splits a relative path into its elements. A path that leads out keeps its "..".
func splitPath(name string) []string {
	clean := path.Clean(filepath.ToSlash(name))
	if clean == "." {
		return nil
	}
	return strings.Split(clean, "/")
}

// step follows a path to its end or to the first link, and then returns the target of the link relative to the area. It
// opens each folder from the one above and compares it with what Lstat saw, so that it detects a folder that was
// replaced by a link in between.
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
		if at, ok := errors.AsType[*fs.PathError](err); ok {
			at.Path = cmp.Or(name, ".")
		}
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
	return nil, nil, errChanged // unreachable: the last element returns
}

// find resolves a path in the input of a tool: an absolute path in the area that contains it, a relative path in the
// first area where it exists. With create, find resolves relative paths only in the first area.
func (o Options) find(dir, name string, write, create bool) (*spot, error) {
	areas := o.areas(dir)
	if len(areas) == 0 {
		return nil, refused(name, "cannot be reached: there is no folder to work in")
	}
	at := name
	if filepath.IsAbs(name) {
		at = realParent(name)
		i := slices.IndexFunc(areas, func(a area) bool {
			rel, err := filepath.Rel(a.path, at)
			return err == nil && filepath.IsLocal(rel)
		})
		if i < 0 {
			return nil, refused(name, "is neither in the project nor in the run's folder")
		}
		areas = areas[i : i+1]
		at, _ = filepath.Rel(areas[0].path, at)
	} else if create {
		areas = areas[:1]
	}
	var missing error
	for _, a := range areas {
		s, err := a.walk(at, write, create)
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

// realParent resolves links in the part of an absolute path outside the areas, so that /tmp and /private/tmp are equal.
func realParent(name string) string {
	dir, base := filepath.Split(filepath.Clean(name))
	if plain, err := filepath.EvalSymlinks(dir); err == nil {
		return filepath.Join(plain, base)
	}
	return filepath.Clean(name)
}

// open opens the file for reading. It refuses anything but the regular file that walk has inspected. Opening does not
// block on a named pipe that has taken its place.
func (s *spot) open() (*os.File, error) {
	if s.info == nil {
		return nil, &fs.PathError{Op: "open", Path: s.rel, Err: fs.ErrNotExist}
	}
	if !s.info.Mode().IsRegular() {
		return nil, tool.Errorf(ir.ClassInput, "%q is not a file", s.rel)
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

// read reads the file up to a size limit.
func (s *spot) read() ([]byte, error) {
	f, err := s.open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxRead+1))
	if err == nil && len(raw) > maxRead {
		err = tool.Errorf(ir.ClassInput, "%q is larger than %d bytes", s.rel, maxRead)
	}
	return raw, err
}

// write replaces the file atomically: it writes a new file beside it, syncs it and renames it. A link that appears at
// its place is replaced, never followed.
func (s *spot) write(content []byte) (err error) {
	if s.info != nil && !s.info.Mode().IsRegular() {
		return tool.Errorf(ir.ClassInput, "%q is not a file", s.rel)
	}
	var old []byte
	if s.info != nil {
		if old, err = s.read(); err != nil {
			old = nil // too large to be a workflow
		}
	}
	keep := s.area.keep
	if s.area.own { // files of a run are neither workflows nor programs of the project
		keep.Consents, keep.Record = nil, nil
	}
	if err := keep.Allow(s.rel, old, content); err != nil {
		return &tool.Error{Class: ir.ClassDenied, Message: err.Error()}
	}
	mode := fs.FileMode(0o600)
	if !s.area.own {
		mode = 0o644
	}
	if s.info != nil {
		mode = s.info.Mode().Perm()
	}
	fresh := "." + rand.Text() + ".new" // a unique name, because others may write the same file at the same time
	f, err := s.dir.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = s.dir.Rename(fresh, s.base)
	}
	if err != nil {
		_ = s.dir.Remove(fresh) // incomplete
	}
	return err
}
