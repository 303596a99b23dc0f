package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/report/audit"
)

// AuditReport is the result of verifying the records of a run.
type AuditReport = audit.Report

// VerifyAudit verifies what is stored of a run and of its child runs: the journal with its index, blobs and snapshot,
// and the audit log and the transcript, which are derived from it. It changes nothing.
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
	found, err := engine.Verify(ctx, rt.Store, root)
	if err != nil {
		return nil, err
	}
	evidence, err := a.evidence(ctx, rt, root, entries, len(found.Damage) > 0)
	if err != nil {
		return nil, err
	}
	reports := make([]AuditReport, len(entries))
	for i, entry := range entries {
		e := &evidence[i]
		for _, d := range found.Damage {
			if d.Run == entry.ID || i == 0 && (r.Root != "" || !isOneOf(d.Run, entries)) {
				e.Journal = append(e.Journal, audit.Fault{Check: d.Part, Message: d.Message})
			}
		}
		if reports[i] = audit.Verify(*e); entry.ID == root {
			reports[i].JournalHead = found.Head.Hash.String()
			reports[i].Checks = append(append([]string{}, engine.Parts...), reports[i].Checks...)
			if n := found.Head.Unhashed; n > 0 {
				reports[i].Notes = append(reports[i].Notes, unhashedNote(n))
			}
		}
	}
	return reports, nil
}

func isOneOf(id journal.RunID, entries []journal.Entry) bool {
	for i := range entries {
		if entries[i].ID == id {
			return true
		}
	}
	return false
}

// evidence collects what the records of runs are compared with. It derives nothing from a damaged journal.
func (a *App) evidence(
	ctx context.Context, rt *environment, root journal.RunID, entries []journal.Entry, damaged bool,
) ([]audit.Evidence, error) {
	top, err := rt.Store.Entry(ctx, root)
	if err != nil {
		return nil, err
	}
	pinned, err := rt.Store.Blob(ctx, top.Definition)
	if err != nil && !errors.Is(err, journal.ErrUnknownBlob) && !errors.Is(err, journal.ErrCorrupt) {
		return nil, err
	}
	before := derived{}
	if !damaged {
		if before, err = rt.derive(ctx, root); err != nil {
			return nil, err
		}
	}
	if err := rt.Flush(ctx); err != nil {
		return nil, err
	}
	all := make([]audit.Evidence, len(entries))
	for i, one := range entries {
		if all[i], err = rt.files(one, root, before.transcripts != nil || damaged); err != nil {
			return nil, err
		}
		all[i].Definition, all[i].Pinned = top.Definition, pinned
	}
	if damaged {
		return all, nil
	}
	after, err := rt.derive(ctx, root)
	if err != nil {
		return nil, err
	}
	wanted, err := a.auditSettings(ctx, rt, root)
	if err != nil {
		return nil, err
	}
	for i := range all {
		e, id := &all[i], entries[i].ID
		e.Before, e.After, e.Audit = before.logs[id], after.logs[id], wanted[id]
		if e.Transcript != nil {
			e.Transcript.Before, e.Transcript.After = before.transcripts[id], after.transcripts[id]
		}
	}
	return all, nil
}

// derived has the records of a run and its children as the journal has them.
type derived struct{ logs, transcripts map[journal.RunID][]byte }

// derive derives the records of a run. A run that asked for no transcript has none.
func (rt *environment) derive(ctx context.Context, root journal.RunID) (d derived, err error) {
	if d.logs, err = rt.Audits.Rebuild(ctx, root); err != nil {
		return d, err
	}
	for e, err := range rt.Store.Events(ctx, root, 0) {
		if err != nil {
			return d, err
		}
		if started, ok := e.Fact.(journal.RunStarted); ok && rt.Transcripts.Omits(started) {
			return d, nil
		}
		break
	}
	d.transcripts, err = rt.Transcripts.Rebuild(ctx, root)
	return d, err
}

// files reads the records of one run.
func (rt *environment) files(entry journal.Entry, root journal.RunID, transcript bool) (audit.Evidence, error) {
	e := audit.Evidence{Run: entry.ID, Trace: root, Finished: entry.Status == journal.Finished}
	var err error
	if e.Copy, err = readCopy(rt.Audits.Path(entry.ID)); err != nil {
		return e, err
	}
	if e.SetAside, err = rt.Audits.SetAside(entry.ID); err != nil || !transcript {
		return e, err
	}
	text, err := readCopy(rt.Transcripts.Path(entry.ID))
	e.Transcript = &text
	return e, err
}

func readCopy(path string, err error) (audit.Copy, error) {
	c := audit.Copy{Path: path}
	if err != nil {
		return c, err
	}
	if c.File, err = os.ReadFile(path); errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	return c, err
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

func unhashedNote(n int) string {
	return fmt.Sprintf("An earlier release wrote %d appends without a hash. Only later hashes cover them.", n)
}

// AnchorStatement is what an anchor says about the journal of a project.
type AnchorStatement = audit.Statement

// AnchorReport is the result of comparing a journal with an anchor.
type AnchorReport = audit.AnchorReport

// Anchor verifies the chains of all runs of the project and writes a signed anchor over them.
func (a *App) Anchor(ctx context.Context, w io.Writer, sign audit.Signer) (AnchorStatement, error) {
	rt, err := a.runs(ctx)
	if err != nil {
		return AnchorStatement{}, err
	}
	return audit.WriteAnchor(ctx, w, rt.Store, time.Now(), sign)
}

// VerifyAnchor compares the journal of the project with an anchor.
func (a *App) VerifyAnchor(ctx context.Context, anchor []byte, check audit.SignatureCheck) (*AnchorReport, error) {
	rt, err := a.runs(ctx)
	if err != nil {
		return nil, err
	}
	return audit.VerifyAnchor(ctx, anchor, rt.Store, check)
}
