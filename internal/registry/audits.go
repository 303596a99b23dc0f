package registry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/report/audit"
	"github.com/espalier-run/espalier/internal/report/transcript"
)

// AuditReport is what verifying an audit log found out.
type AuditReport = audit.Report

// Audit prints the audit log of a run: as it is, or for people. A log that is
// missing, or that its writer could not finish, is made from the journal.
func (r *Runtime) Audit(ctx context.Context, entry journal.Entry, pretty, colour bool, w io.Writer) error {
	text, err := r.AuditLog(ctx, entry)
	if err != nil {
		return err
	}
	if pretty {
		return audit.Pretty(w, text, audit.PrettyOptions{Colour: colour})
	}
	_, err = w.Write(text)
	return err
}

// AuditLog is the audit log of a run, for whoever wants a copy of it.
func (r *Runtime) AuditLog(ctx context.Context, entry journal.Entry) ([]byte, error) {
	if err := r.Audits.CatchUp(ctx, rootOf(entry)); err != nil {
		return nil, err
	}
	path, err := r.Audits.Path(entry.ID)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

func rootOf(entry journal.Entry) journal.RunID {
	if entry.Root != "" {
		return entry.Root
	}
	return entry.ID
}

// VerifyAudit holds the audit logs of a run, and of its child runs, against the
// journal, the transcript and the pinned definition. It changes nothing.
func (r *Runtime) VerifyAudit(ctx context.Context, entry journal.Entry) ([]AuditReport, error) {
	entries := []journal.Entry{entry}
	if entry.Root == "" {
		for child, err := range r.Store.Runs(ctx, journal.Filter{Root: entry.ID, Children: true}) {
			if err != nil {
				return nil, err
			}
			entries = append(entries, child)
		}
	}
	root := rootOf(entry)
	top, err := r.Store.Entry(ctx, root)
	if err != nil {
		return nil, err
	}
	pinned, err := r.Store.Blob(ctx, top.Definition)
	if err != nil && !errors.Is(err, journal.ErrUnknownBlob) {
		return nil, err
	}
	before, err := r.Audits.Rebuild(ctx, root)
	if err != nil {
		return nil, err
	}
	if err := r.follow.Flush(ctx); err != nil {
		return nil, err
	}
	evidence := make([]audit.Evidence, len(entries))
	for i, one := range entries {
		if evidence[i], err = r.evidence(one, root); err != nil {
			return nil, err
		}
		evidence[i].Definition, evidence[i].Pinned = top.Definition, pinned
		evidence[i].Before = before[one.ID]
	}
	after, err := r.Audits.Rebuild(ctx, root)
	if err != nil {
		return nil, err
	}
	asked, err := r.asked(ctx, root)
	if err != nil {
		return nil, err
	}
	reports := make([]AuditReport, len(entries))
	for i := range evidence {
		evidence[i].After, evidence[i].Audit = after[entries[i].ID], asked[entries[i].ID]
		reports[i] = audit.Verify(evidence[i])
	}
	return reports, nil
}

// evidence reads what lies on disk of one run.
func (r *Runtime) evidence(entry journal.Entry, root journal.RunID) (audit.Evidence, error) {
	e := audit.Evidence{Run: entry.ID, Trace: root, Finished: entry.Status == journal.Finished}
	var err error
	if e.Path, err = r.Audits.Path(entry.ID); err != nil {
		return e, err
	}
	if e.File, err = os.ReadFile(e.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return e, err
	}
	if e.SetAside, err = r.Audits.SetAside(entry.ID); err != nil {
		return e, err
	}
	path, err := r.Transcripts.Path(entry.ID)
	if err != nil {
		return e, err
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return e, nil
	}
	e.Transcript = told(text)
	return e, err
}

// told is what a transcript tells that an audit log has, too.
func told(text []byte) []audit.TranscriptEvent {
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
		if err != nil || name == "" || event.Type == transcript.MessageAssistant && piece(&event) {
			continue
		}
		out = append(out, audit.TranscriptEvent{Line: line, Event: name, Path: event.Path, At: event.Timestamp})
	}
	return out
}

// piece tells whether a message is only a piece of a reply.
func piece(e *transcript.Event) bool {
	m, err := e.Message()
	return err == nil && len(m.Blocks) == 1 && m.Blocks[0].Type == transcript.BlockStream
}

// asked is what the workflows of a run and of its children ask of their audit logs.
func (r *Runtime) asked(ctx context.Context, root journal.RunID) (map[journal.RunID]*ir.Audit, error) {
	out := map[journal.RunID]*ir.Audit{}
	in := report.NewInterpreter(root, func(definition string) (*report.Outline, error) {
		p, err := r.program(ctx, definition)
		if err != nil {
			return nil, err
		}
		return report.NewOutline(p), nil
	})
	for e, err := range r.Store.Events(ctx, root, 0) {
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
