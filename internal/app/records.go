package app

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/report/audit"
	"github.com/espalier-run/espalier/internal/report/flowtrace"
	"github.com/espalier-run/espalier/internal/report/transcript"
)

// Transcript returns the transcript of a run, one JSON object per line. With follow, reading continues as the run does,
// until the run has finished or the context ends.
func (a *App) Transcript(ctx context.Context, r *Run, follow bool) (io.ReadCloser, error) {
	rt, err := a.reader(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	if err := rt.Transcripts.CatchUp(ctx, cmp.Or(r.Root, r.ID)); err != nil {
		return nil, err
	}
	path, err := rt.Transcripts.Path(r.ID)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		e := fail(NotFound, NoTranscript, "run %s has no transcript", short(r.ID))
		e.Run = r.ID
		return nil, e
	}
	if err != nil || !follow {
		return f, err
	}
	return &growing{File: f, rt: rt, ctx: ctx, run: r.ID, root: cmp.Or(r.Root, r.ID)}, nil
}

// growing reads a file that another goroutine, or another process, appends to, until the run has finished.
type growing struct {
	*os.File
	rt   *environment
	ctx  context.Context
	run  journal.RunID
	root journal.RunID
	over bool
}

// Read waits for more at the end of the file.
func (g *growing) Read(p []byte) (int, error) {
	for {
		n, err := g.File.Read(p)
		if n > 0 || err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
		if g.over {
			return 0, io.EOF
		}
		last, err := g.rt.Store.Last(g.ctx) // before the status, so that no append falls between
		if err != nil {
			return 0, ended(g.ctx, err)
		}
		entry, err := g.rt.Store.Entry(g.ctx, g.run)
		if err != nil {
			return 0, ended(g.ctx, err)
		}
		if g.over = entry.Status == journal.Finished; !g.over && !g.moved(last) {
			return 0, io.EOF
		}
		if err := g.rt.CompleteTranscript(context.WithoutCancel(g.ctx), g.root); err != nil {
			return 0, err
		}
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
func (g *growing) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, struct{ io.Reader }{g}) }

// moved waits until something has been appended after a position. It reports false when the context ends.
func (g *growing) moved(last journal.Pos) bool {
	for _, err := range journal.Follow(g.ctx, g.rt.Store, last, followPoll) {
		return err == nil
	}
	return false
}

// Program returns the program that a run has pinned.
func (a *App) Program(ctx context.Context, r *Run) (*ir.Program, error) {
	rt, err := a.reader(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	_, program, _, err := rt.Engine.Load(ctx, cmp.Or(r.Root, r.ID))
	if err != nil {
		return nil, err
	}
	return program.Root(), nil
}

// FlowTrace returns a run of an AIFLOW file as the format's trace viewer reads it.
func (a *App) FlowTrace(ctx context.Context, r *Run) ([]byte, error) {
	rt, err := a.reader(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	program, err := rt.Program(ctx, r.Definition)
	if err != nil {
		return nil, err
	}
	read := func(v journal.Value) (json.RawMessage, error) {
		switch {
		case v.Hash != "":
			return rt.Store.Blob(ctx, v.Hash)
		case len(v.JSON) == 0:
			return json.RawMessage("null"), nil
		}
		return v.JSON, nil
	}
	return flowtrace.Document(program, rt.Store.Events(ctx, r.ID, 0), read)
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
// the journal.
func (a *App) AuditLog(ctx context.Context, r *Run) ([]byte, error) {
	rt, err := a.reader(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	if err := rt.Audits.CatchUp(ctx, cmp.Or(r.Root, r.ID)); err != nil {
		return nil, err
	}
	path, err := rt.Audits.Path(r.ID)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// AuditReport is what verifying an audit log found.
type AuditReport = audit.Report

// VerifyAudit compares the audit logs of a run, and of its child runs, with the journal, the transcript and the pinned
// definition. It changes nothing.
func (a *App) VerifyAudit(ctx context.Context, r *Run) ([]AuditReport, error) {
	rt, err := a.reader(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	entries := []journal.Entry{r.Entry}
	if r.Root == "" {
		for child, err := range rt.Store.Runs(ctx, Filter{Root: r.ID, Children: true}) {
			if err != nil {
				return nil, err
			}
			entries = append(entries, child)
		}
	}
	root := cmp.Or(r.Root, r.ID)
	top, err := rt.Store.Entry(ctx, root)
	if err != nil {
		return nil, err
	}
	pinned, err := rt.Store.Blob(ctx, top.Definition)
	if err != nil && !errors.Is(err, journal.ErrUnknownBlob) {
		return nil, err
	}
	before, err := rt.Audits.Rebuild(ctx, root)
	if err != nil {
		return nil, err
	}
	if err := rt.Flush(ctx); err != nil {
		return nil, err
	}
	evidence := make([]audit.Evidence, len(entries))
	for i, one := range entries {
		if evidence[i], err = rt.evidence(one, root); err != nil {
			return nil, err
		}
		evidence[i].Definition, evidence[i].Pinned = top.Definition, pinned
		evidence[i].Before = before[one.ID]
	}
	after, err := rt.Audits.Rebuild(ctx, root)
	if err != nil {
		return nil, err
	}
	wanted, err := a.auditSettings(ctx, rt, root)
	if err != nil {
		return nil, err
	}
	reports := make([]AuditReport, len(entries))
	for i := range evidence {
		evidence[i].After, evidence[i].Audit = after[entries[i].ID], wanted[entries[i].ID]
		reports[i] = audit.Verify(evidence[i])
	}
	return reports, nil
}

// evidence reads the files of one run.
func (rt *environment) evidence(entry journal.Entry, root journal.RunID) (audit.Evidence, error) {
	e := audit.Evidence{Run: entry.ID, Trace: root, Finished: entry.Status == journal.Finished}
	var err error
	if e.Path, err = rt.Audits.Path(entry.ID); err != nil {
		return e, err
	}
	if e.File, err = os.ReadFile(e.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return e, err
	}
	if e.SetAside, err = rt.Audits.SetAside(entry.ID); err != nil {
		return e, err
	}
	path, err := rt.Transcripts.Path(entry.ID)
	if err != nil {
		return e, err
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return e, nil
	}
	e.Transcript = auditedEvents(text)
	return e, err
}

// auditedEvents returns the events of a transcript that an audit log has, too.
func auditedEvents(text []byte) []audit.TranscriptEvent {
	names := map[transcript.Type]string{
		transcript.RunStarted: audit.RunStart, transcript.RunCompleted: audit.RunComplete,
		transcript.StepStarted: audit.StepStart, transcript.CallStarted: audit.StepStart,
		transcript.StepCompleted: audit.StepComplete, transcript.CallCompleted: audit.StepComplete,
		transcript.MessageAssistant: audit.ModelCall, transcript.ToolResult: audit.ToolCall,
	}
	out := []audit.TranscriptEvent{}
	line := 0
	for event, err := range transcript.Read(bytes.NewReader(text)) {
		line++
		name := names[event.Type]
		if err != nil || name == "" || event.Type == transcript.MessageAssistant && isChunk(&event) {
			continue
		}
		out = append(out, audit.TranscriptEvent{Line: line, Event: name, Path: event.Path, At: event.Timestamp})
	}
	return out
}

// isChunk reports whether a message is only a chunk of a reply.
func isChunk(e *transcript.Event) bool {
	m, err := e.Message()
	return err == nil && len(m.Blocks) == 1 && m.Blocks[0].Type == transcript.BlockStream
}

// auditSettings returns what the workflows of a run and of its children ask of their audit logs.
func (a *App) auditSettings(
	ctx context.Context, rt *environment, root journal.RunID,
) (map[journal.RunID]*ir.Audit, error) {
	out := map[journal.RunID]*ir.Audit{}
	in := report.NewInterpreter(root, a.outline(ctx, rt))
	for e, err := range rt.Store.Events(ctx, root, 0) {
		if err != nil {
			return nil, err
		}
		err := in.Interpret(&e, func(ev *report.Event) error {
			if ev.Type == report.RunStarted && ev.Run.Program != nil {
				out[ev.Run.ID] = ev.Run.Program.Audit
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Artifacts opens the folder that a run has written its files to. Its methods follow no link that leads out of it. The
// error is fs.ErrNotExist if the run has no folder. The caller has to close the folder.
func (a *App) Artifacts(ctx context.Context, r *Run) (*os.Root, error) {
	rt, err := a.reader(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	dir := rt.RunDir(r.ID)
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() { // a command may have put a link in its place
		return nil, fmt.Errorf("%s is not a folder: %w", dir, fs.ErrNotExist)
	}
	return os.OpenRoot(dir)
}
