package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/report/flowtrace"
)

// Transcript returns the transcript of a run, one JSON object per line. With follow, reading continues as the run does,
// until the run has finished or the context ends; follow is called whenever everything that there is has been read.
func (a *App) Transcript(ctx context.Context, r *Run, follow func()) (io.ReadCloser, error) {
	env, path, err := a.record(ctx, r, func(env *environment) *report.Writer { return env.Transcripts })
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		e := fail(NotFound, NoTranscript, "run %s has no transcript", r.ID.Short())
		e.Run = r.ID
		return nil, e
	}
	if err != nil || follow == nil {
		return f, err
	}
	return &tailReader{File: f, env: env, ctx: ctx, run: r.ID, root: cmp.Or(r.Root, r.ID), idle: follow}, nil
}

// tailReader reads a file that another goroutine, or another process, appends to, until the run has finished.
type tailReader struct {
	*os.File
	env  *environment
	ctx  context.Context
	run  journal.RunID
	root journal.RunID
	over bool
	idle func()

	complete bool // the file has everything that was appended up to last
	last     journal.Pos
}

// Read waits for more at the end of the file.
func (r *tailReader) Read(p []byte) (int, error) {
	for {
		n, err := r.File.Read(p)
		if n > 0 || err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
		if r.over {
			return 0, io.EOF
		}
		// The end of the file, and nothing is missing in it: wait for an append, and complete the file again.
		if r.complete {
			if r.idle(); !r.moved(r.last) {
				return 0, io.EOF
			}
		}
		// The position comes first, so that no append falls between it and the rest.
		if r.last, err = r.env.Store.Last(r.ctx); err != nil {
			return 0, ended(r.ctx, err)
		}
		entry, err := r.env.Store.Entry(r.ctx, r.run)
		if err != nil {
			return 0, ended(r.ctx, err)
		}
		r.over = entry.Status == journal.Finished
		if err := r.env.CompleteTranscript(context.WithoutCancel(r.ctx), r.root); err != nil {
			return 0, err
		}
		r.complete = true
	}
}

// ended returns io.EOF if the context has ended, and otherwise the error.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return io.EOF
	}
	return err
}

// WriteTo reads to the end: os.File's own method would stop at the current end of the file.
func (r *tailReader) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, struct{ io.Reader }{r}) }

// moved waits until something has been appended after a position. It reports false when the context ends.
func (r *tailReader) moved(last journal.Pos) bool {
	for _, err := range journal.Follow(r.ctx, r.env.Store, last, followPoll) {
		return err == nil
	}
	return false
}

// record returns the path of a record of a run, with everything that the journal has.
func (a *App) record(
	ctx context.Context, r *Run, of func(*environment) *report.Writer,
) (env *environment, path string, err error) {
	if env, err = a.reader(ctx, r.ID); err != nil {
		return nil, "", err
	}
	w := of(env)
	if err := w.CatchUp(ctx, cmp.Or(r.Root, r.ID)); err != nil {
		return nil, "", err
	}
	path, err = w.Path(r.ID)
	return env, path, err
}

// Program returns the program that a run has pinned.
func (a *App) Program(ctx context.Context, r *Run) (*ir.Program, error) {
	env, err := a.reader(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	_, program, _, err := env.Engine.Load(ctx, cmp.Or(r.Root, r.ID))
	if err != nil {
		return nil, err
	}
	return program.Root(), nil
}

// SourceText returns the text of a file that a run was started from, and its path below the root of the project. file
// is the path in a span. The text is empty if the file has changed since; the path too if the run has no such file.
func (a *App) SourceText(ctx context.Context, r *Run, file string) (text, path string, err error) {
	env, err := a.reader(ctx, r.ID)
	if err != nil {
		return "", "", err
	}
	root, err := a.RootRun(ctx, r)
	if err != nil {
		return "", "", err
	}
	def, err := env.Engine.Definition(ctx, root.Definition)
	if err != nil {
		return "", "", err
	}
	for _, f := range def.Sources {
		if f.Path != file && !strings.HasSuffix(f.Path, "/"+file) && !strings.HasSuffix(file, "/"+f.Path) {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(env.root, filepath.FromSlash(f.Path)))
		if err != nil || sha256Hex(raw) != f.SHA256 {
			return "", f.Path, nil //nolint:nilerr // a file that is gone has changed
		}
		return string(raw), f.Path, nil
	}
	return "", "", nil
}

// FlowTrace returns a run of an AIFLOW file as the format's trace viewer reads it.
func (a *App) FlowTrace(ctx context.Context, r *Run) ([]byte, error) {
	env, err := a.reader(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	program, err := env.Program(ctx, r.Definition)
	if err != nil {
		return nil, err
	}
	read := func(v journal.Value) (json.RawMessage, error) {
		switch {
		case v.Hash != "":
			return env.Store.Blob(ctx, v.Hash)
		case len(v.JSON) == 0:
			return json.RawMessage("null"), nil
		}
		return v.JSON, nil
	}
	return flowtrace.Document(program, env.Shown.Events(ctx, r.ID, 0), read)
}

// Flush waits until the records have everything that has been appended so far.
func (a *App) Flush(ctx context.Context) error {
	for _, env := range a.environments() {
		if env.isOpen() {
			if err := env.Flush(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// AuditLog returns the audit log of a run, one JSON object per line. A log that is missing or incomplete is made from
// the journal. The caller has to close it.
func (a *App) AuditLog(ctx context.Context, r *Run) (io.ReadCloser, error) {
	_, path, err := a.record(ctx, r, func(env *environment) *report.Writer { return env.Audits.Writer })
	if err != nil {
		return nil, err
	}
	return report.ReadRecord(path)
}

// Artifacts opens the folder that a run has written its files to. Its methods follow no link that leads out of it. The
// error is fs.ErrNotExist if the run has no folder. The caller has to close the folder.
func (a *App) Artifacts(ctx context.Context, r *Run) (*os.Root, error) {
	env, err := a.reader(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	if catalog.Formats().Conventions(r.Format).ProjectOutputs && r.Root == "" {
		root, err := env.outputs(ctx, r)
		if root != nil || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return root, err
		}
	}
	dir := env.RunDir(r.ID)
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() { // a command may have put a link in its place
		return nil, fmt.Errorf("%s is not a folder: %w", dir, fs.ErrNotExist)
	}
	return os.OpenRoot(dir)
}

// outputs opens the folder of an Agentfile run, which is in the project; nil if the run has none.
func (env *environment) outputs(ctx context.Context, r *Run) (*os.Root, error) {
	program, err := env.Program(ctx, r.Definition)
	if err != nil {
		return nil, err
	}
	started, err := report.Started(ctx, env.Store, r.ID)
	if err != nil {
		return nil, err
	}
	root := filepath.Dir(env.Dir())
	dir, err := registry.ArtifactDir(program, root, func(name string) string {
		return ir.PlainText(started.Vars[name].JSON)
	})
	if err != nil || dir == "" {
		return nil, err
	}
	project, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer project.Close()
	// Check each folder on the way by itself: os.Root follows links within the project.
	at := ""
	for name := range strings.SplitSeq(dir, "/") {
		at = path.Join(at, name)
		info, err := project.Lstat(filepath.FromSlash(at))
		if err != nil {
			return nil, err
		}
		if !info.IsDir() { // a command may have put a link in its place
			return nil, fmt.Errorf("%s is not a folder: %w", at, fs.ErrNotExist)
		}
	}
	return project.OpenRoot(filepath.FromSlash(dir))
}
