package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/trigger"
	"github.com/espalier-run/espalier/internal/trust"
	"github.com/espalier-run/espalier/internal/xmaps"
	"github.com/espalier-run/espalier/internal/xslices"
)

// maxWatched bounds the files that one trigger watches.
const maxWatched = 10_000

// fireFiles starts runs for files that have changed. A file counts when it is the same at two looks in a row, so that
// a run does not see half of it. One version of a file starts one run.
func (s *triggerService) fireFiles(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	root, err := os.OpenRoot(s.env.root)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, d := range s.declared {
		if d.spec.Kind != ir.OnFile || d.spec.Off {
			continue
		}
		if err := s.fireChanged(ctx, d, root.FS()); err != nil {
			return err
		}
	}
	return nil
}

// fireChanged starts runs for the files of one trigger that have settled since the last look. Only a settled file is
// read; its hash, not its time, decides whether it is a new version.
func (s *triggerService) fireChanged(ctx context.Context, d *workflowTrigger, root fs.FS) error {
	looks, err := watchedFiles(root, d.spec.Paths)
	if err != nil {
		return err
	}
	before, known := s.looks[d.id]
	s.looks[d.id] = looks
	var settled []string
	for name, look := range looks {
		if before[name] == look && s.settled[d.id+"\x00"+name] != look {
			settled = append(settled, name)
		}
	}
	slices.Sort(settled)
	if !known {
		return s.baseline(ctx, d, root, looks)
	}
	for _, name := range settled {
		version, err := trust.SumIn(root, name)
		if err != nil {
			continue // it is gone, or being replaced
		}
		state, _, err := s.env.loadTrigger(ctx, d)
		if err != nil {
			return err
		}
		if state.Seen[name] != version {
			if err := s.fireFile(ctx, d, name, version); err != nil {
				return err
			}
		}
		s.settled[d.id+"\x00"+name] = looks[name]
	}
	return nil
}

// baseline records the files that exist when a trigger is first seen: they start no runs.
func (s *triggerService) baseline(ctx context.Context, d *workflowTrigger, root fs.FS, looks map[string]string) error {
	state, _, err := s.env.loadTrigger(ctx, d)
	if err != nil || state.Seen != nil {
		return err
	}
	seen := map[string]string{}
	for name := range looks {
		if version, err := trust.SumIn(root, name); err == nil {
			seen[name] = version
		}
	}
	return s.env.changeTrigger(ctx, d, func(state *triggerState) {
		if state.Seen == nil {
			state.Seen = seen
		}
	})
}

// fireFile starts the run for a version of a file and then notes the version. After a crash in between, the next
// process starts the run again with the same id, which the store refuses.
func (s *triggerService) fireFile(ctx context.Context, d *workflowTrigger, name, version string) error {
	id := trigger.RunID(d.file, d.name, name, version)
	text, err := json.Marshal(name)
	if err != nil {
		return err
	}
	e := Incoming{ID: version, Source: name, Type: string(ir.OnFile), Time: s.env.now(), Data: text}
	_, problem, err := s.app.startForEvent(ctx, s.env, d, id, e, triggerActor(d))
	if err != nil && problem == "" {
		return err
	}
	if problem != "" {
		s.app.o.Notify(Notice{Text: fmt.Sprintf("%s started no run for %s: %s", d.id, name, problem)})
	}
	return s.env.changeTrigger(ctx, d, func(state *triggerState) {
		xmaps.Set(&state.Seen, name, version)
	})
}

// watchedFiles returns the files that match patterns, with a text that identifies the version of a file without reading
// it. A folder means the files in it.
func watchedFiles(root fs.FS, patterns []string) (map[string]string, error) {
	out := map[string]string{}
	for _, pattern := range patterns {
		pattern = filepath.ToSlash(filepath.Clean(pattern))
		names, err := glob(root, pattern)
		if err != nil {
			return nil, err
		}
		if info, err := fs.Stat(root, pattern); err == nil && info.IsDir() {
			if names, err = fs.Glob(root, path.Join(pattern, "*")); err != nil {
				return nil, err
			}
		}
		for _, name := range names {
			info, err := fs.Stat(root, name)
			if err != nil || !info.Mode().IsRegular() || len(out) >= maxWatched ||
				strings.HasPrefix(name, storageFolder+"/") {
				continue
			}
			out[name] = fmt.Sprint(info.ModTime().UnixNano(), " ", info.Size())
		}
	}
	return out, nil
}

// anyFolders is the part of a pattern that matches any number of folders, also none.
const anyFolders = "**"

// glob is fs.Glob with patterns that may contain anyFolders.
func glob(root fs.FS, pattern string) (names []string, err error) {
	before, after, found := strings.Cut("/"+pattern+"/", "/"+anyFolders+"/")
	if !found {
		return fs.Glob(root, pattern)
	}
	before, after = strings.Trim(before, "/"), strings.Trim(after, "/")
	tops := []string{"."}
	if before != "" {
		if tops, err = fs.Glob(root, before); err != nil {
			return nil, err
		}
	}
	for _, top := range tops {
		err := fs.WalkDir(root, top, func(name string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return nil //nolint:nilerr // a folder that cannot be read has no files
			case !d.IsDir():
				return nil
			case name == storageFolder || len(names) >= maxWatched:
				return fs.SkipDir
			}
			folder, err := fs.Sub(root, name)
			if err != nil {
				return err
			}
			found, err := glob(folder, cmp.Or(after, "*"))
			names = xslices.AppendNew(names,
				xslices.Map(found, func(one string) string { return path.Join(name, one) })...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return names, nil
}
