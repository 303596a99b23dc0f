package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/report/audit"
	"github.com/espalier-run/espalier/internal/report/transcript"
	"github.com/espalier-run/espalier/internal/xslices"
)

// AuditReport is the result of verifying the records of a run.
type AuditReport = audit.Report

// VerifyAudit verifies what is stored of a run and of its child runs: the journal with its index, blobs and snapshot,
// and the audit log and the transcript, which are derived from it. It changes nothing, except that records which lack
// only their end are completed if other processes may have had to write it.
func (a *App) VerifyAudit(ctx context.Context, r *Run) ([]AuditReport, error) {
	env, err := a.reader(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	entries := []journal.Entry{r.Entry}
	if r.Root == "" {
		for child, err := range env.Store.Runs(ctx, Filter{Root: r.ID, Children: true}) {
			if err != nil {
				return nil, err
			}
			entries = append(entries, child)
		}
	}
	root := cmp.Or(r.Root, r.ID)
	found, err := engine.Verify(ctx, env.Store, root)
	if err != nil {
		return nil, err
	}
	// At first only what this process has to write is completed. On a shared store, other processes write the records
	// of their runs on their machines: if only the end is missing here, this process derives it and verifies again.
	reports, err := env.verify(ctx, root, entries, found, env.Flush)
	if err != nil || !env.Shared() || !slices.ContainsFunc(reports, func(r AuditReport) bool { return r.Incomplete }) {
		return reports, err
	}
	return env.verify(ctx, root, entries, found, func(ctx context.Context) error {
		return cmp.Or(env.Audits.CatchUp(ctx, root), env.Transcripts.CatchUp(ctx, root))
	})
}

// verify compares the records of runs with the journal. complete makes them have everything that the journal has now.
func (env *environment) verify(
	ctx context.Context, root journal.RunID, entries []journal.Entry, found engine.Verified,
	complete func(context.Context) error,
) ([]AuditReport, error) {
	v, err := env.newVerification(ctx, root, entries, found.Damage, complete)
	if err != nil {
		return nil, err
	}
	if len(found.Damage) == 0 { // nothing is derived from a damaged journal
		if err := v.derive(ctx); err != nil {
			return nil, err
		}
	}
	reports := make([]AuditReport, len(entries))
	for i, entry := range entries {
		if reports[i], err = v.runs[entry.ID].Report(v.settings[entry.ID]); err != nil {
			return nil, err
		}
		if entry.ID == root {
			reports[i].JournalHead = found.Head.Hash.String()
			reports[i].Checks = append(append([]string{}, engine.Parts...), reports[i].Checks...)
			if n := found.Head.Unhashed; n > 0 {
				reports[i].Notes = append(reports[i].Notes, fmt.Sprintf(
					"An earlier release wrote %d appends without a hash. Only later hashes cover them.", n))
			}
		}
	}
	return reports, nil
}

// verification compares the records of a run and of its children with the journal.
type verification struct {
	audits      *audit.Writer
	transcripts *transcript.Writer
	root        journal.RunID
	last        journal.Seq // the files have at least the lines up to this event
	transcript  bool        // the run has a transcript
	runs        map[journal.RunID]*audit.Verifier
	settings    map[journal.RunID]*ir.Audit // what the workflows ask of their logs
	open        []*audit.Verifier           // those that may have open files
}

// newVerification finds the files of runs.
func (env *environment) newVerification(
	ctx context.Context, root journal.RunID, entries []journal.Entry, damage []engine.Damage,
	complete func(context.Context) error,
) (*verification, error) {
	v := &verification{
		audits: env.Audits, transcripts: env.Transcripts, root: root,
		runs: map[journal.RunID]*audit.Verifier{}, settings: map[journal.RunID]*ir.Audit{},
	}
	top, err := env.Store.Entry(ctx, root)
	if err != nil {
		return nil, err
	}
	// The last event is read before the records are completed: they must have at least the lines up to it.
	v.last = top.Seq
	pinned, err := env.Store.Blob(ctx, top.Definition)
	if err != nil && !errors.Is(err, journal.ErrUnknownBlob) && !errors.Is(err, journal.ErrCorrupt) {
		return nil, err
	}
	if v.transcript, err = env.hasTranscript(ctx, root, len(damage) > 0); err != nil {
		return nil, err
	}
	if err := complete(ctx); err != nil {
		return nil, err
	}
	ids := xslices.Map(entries, func(entry journal.Entry) journal.RunID { return entry.ID })
	for i, entry := range entries {
		e := audit.Evidence{
			Run: entry.ID, Trace: root, Finished: entry.Status == journal.Finished, Definition: top.Definition,
			Pinned: pinned, Damaged: len(damage) > 0,
		}
		if err := env.files(&e, v.transcript); err != nil {
			return nil, err
		}
		for _, d := range damage {
			if d.Run == entry.ID || i == 0 && (entry.Root != "" || !slices.Contains(ids, d.Run)) {
				e.Journal = append(e.Journal, audit.Fault{Check: d.Part, Message: d.Message})
			}
		}
		v.runs[entry.ID] = audit.NewVerifier(e)
	}
	return v, nil
}

// hasTranscript reports whether a run has a transcript. In a damaged journal, that may be unknown.
func (env *environment) hasTranscript(ctx context.Context, root journal.RunID, damaged bool) (bool, error) {
	has, err := env.recordsTranscript(ctx, env.Store, root)
	if damaged && err != nil {
		return true, nil
	}
	return has, err
}

// recordsTranscript reports whether a run has a transcript.
func (env *environment) recordsTranscript(
	ctx context.Context, r journal.EventReader, root journal.RunID,
) (bool, error) {
	started, err := report.Started(ctx, r, root)
	return !env.Transcripts.Omits(started), err
}

// files adds the records of a run to its evidence. What is appended to them later is not part of it.
func (env *environment) files(e *audit.Evidence, transcript bool) (err error) {
	if e.Copy, err = copyAt(env.Audits.Path(e.Run)); err != nil {
		return err
	}
	if e.SetAside, err = env.setAside(e.Run); err != nil || !transcript {
		return err
	}
	text, err := copyAt(env.Transcripts.Path(e.Run))
	e.Transcript = &text
	return err
}

// setAside returns the audit logs and transcripts of a run that did not match the journal and were renamed.
func (env *environment) setAside(run journal.RunID) ([]string, error) {
	logs, err := env.Audits.SetAside(run)
	if err != nil {
		return nil, err
	}
	transcripts, err := env.Transcripts.SetAside(run)
	return append(logs, transcripts...), err
}

// SetAside returns the audit logs and transcripts of a run that did not match the journal, as if a person had changed
// them. They were renamed, and made again from the journal.
func (a *App) SetAside(ctx context.Context, r *Run) ([]string, error) {
	env, err := a.reader(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	return env.setAside(r.ID)
}

// copyAt returns a file as long as it is now.
func copyAt(path string, err error) (audit.Copy, error) {
	c := audit.Copy{Path: path}
	if err != nil {
		return c, err
	}
	f, err := report.OpenRecord(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	c.Open = func(offset int64) (io.ReadCloser, error) {
		again, err := report.OpenRecord(path)
		if err != nil {
			return nil, err
		}
		return again.Part(offset, f.Size()), nil
	}
	return c, f.Close()
}

// maxVerified is how many runs may have open files at the same time.
const maxVerified = 64

// verifier returns the verifier of a run; nil if the run is not verified.
func (v *verification) verifier(run journal.RunID) *audit.Verifier {
	one := v.runs[run]
	if one == nil || len(v.open) > 0 && v.open[len(v.open)-1] == one {
		return one
	}
	// Closed files are opened again where reading stopped.
	if len(v.open) >= maxVerified {
		for _, old := range v.open {
			old.Release()
		}
		v.open = v.open[:0]
	}
	v.open = append(v.open, one)
	return one
}

// derive derives the records from the journal, line by line, and compares them.
func (v *verification) derive(ctx context.Context) error {
	// The lines up to the event that was the last one before the files were opened must be there; later ones may be
	// missing.
	require := func(mark func(*audit.Verifier)) func(journal.Seq) {
		return func(seq journal.Seq) {
			if seq == v.last {
				for _, one := range v.runs {
					mark(one)
				}
			}
		}
	}
	err := v.audits.Derive(ctx, v.root, func(run *report.Run, line []byte) error {
		if _, known := v.settings[run.ID]; !known {
			v.settings[run.ID] = nil
			if run.Program != nil {
				v.settings[run.ID] = run.Program.Audit
			}
		}
		if one := v.verifier(run.ID); one != nil {
			return one.LogLine(line)
		}
		return nil
	}, require((*audit.Verifier).RequireLog))
	if err != nil || !v.transcript {
		return err
	}
	return v.transcripts.Derive(ctx, v.root, func(run *report.Run, line []byte) error {
		if one := v.verifier(run.ID); one != nil {
			return one.TranscriptLine(line)
		}
		return nil
	}, require((*audit.Verifier).RequireTranscript))
}

// AnchorStatement is the statement of an anchor about the journal of a project.
type AnchorStatement = audit.Statement

// AnchorReport is the result of comparing a journal with an anchor.
type AnchorReport = audit.AnchorReport

// Anchor verifies the chains of all runs of the project and writes a signed anchor over them.
func (a *App) Anchor(ctx context.Context, w io.Writer, sign audit.Signer) (AnchorStatement, error) {
	env, err := a.runs(ctx)
	if err != nil {
		return AnchorStatement{}, err
	}
	return audit.WriteAnchor(ctx, w, env.Store, time.Now(), sign)
}

// VerifyAnchor compares the journal of the project with an anchor.
func (a *App) VerifyAnchor(ctx context.Context, anchor []byte, check audit.SignatureCheck) (*AnchorReport, error) {
	env, err := a.runs(ctx)
	if err != nil {
		return nil, err
	}
	return audit.VerifyAnchor(ctx, anchor, env.Store, check)
}
