package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/report/audit"
	"github.com/espalier-run/espalier/internal/report/transcript"
)

// Export writes a finished run to a file that does not exist yet: its journal, the values that it names, and its
// records. It returns the hash of the run's chain of appends.
func (a *App) Export(ctx context.Context, r *Run, path string) (head string, err error) {
	if r.Root != "" {
		return "", fail(InvalidRequest, "", "run %s is part of run %s", r.ID.Short(), r.Root.Short()).
			advise("Export the run that it is part of.")
	}
	env, err := a.reader(ctx, r.ID)
	if err != nil {
		return "", err
	}
	if r.Status != journal.Finished {
		return "", fail(InvalidRequest, "", "run %s has not finished", r.ID.Short()).
			advise("Only finished runs can be exported: a copy of another one could be continued twice.")
	}
	records, err := env.archivedRecords(ctx, r.ID)
	if err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return "", fail(InvalidRequest, "", "%s already exists", path).advise("Name a file that does not exist yet.")
	}
	if err != nil {
		return "", fail(InvalidRequest, "", "%v", err)
	}
	err = journal.WriteArchive(ctx, f, env.Store, r.ID, records, env.openRecord)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(path))
	}
	// The run has finished, so the hash is that of what was written.
	verified, err := journal.VerifyChain(ctx, env.Store, r.ID, nil)
	return verified.Hash.String(), err
}

// archivedRecords completes the records of a run and returns their names.
func (env *environment) archivedRecords(ctx context.Context, root journal.RunID) ([]journal.Record, error) {
	if err := env.Audits.CatchUp(ctx, root); err != nil {
		return nil, err
	}
	transcript, err := env.hasTranscript(ctx, root, false)
	if err != nil {
		return nil, err
	}
	if transcript {
		if err := env.Transcripts.CatchUp(ctx, root); err != nil {
			return nil, err
		}
	}
	runs := []journal.RunID{root}
	for child, err := range env.Store.Runs(ctx, Filter{Root: root, Children: true}) {
		if err != nil {
			return nil, err
		}
		runs = append(runs, child.ID)
	}
	var out []journal.Record
	for _, id := range runs {
		out = append(out, journal.Record{Kind: journal.RecordAudit, Run: id})
		if transcript {
			out = append(out, journal.Record{Kind: journal.RecordTranscript, Run: id})
		}
	}
	return out, nil
}

// openRecord opens a record of a run for an archive.
func (env *environment) openRecord(r journal.Record) (io.ReadCloser, error) {
	find := env.Audits.Path
	if r.Kind == journal.RecordTranscript {
		find = env.Transcripts.Path
	}
	path, err := find(r.Run)
	if err != nil {
		return nil, err
	}
	return report.ReadRecord(path)
}

// Import verifies the archive of a run and adds the run to this project. An archive that was changed, or a run that
// exists, is refused, and nothing is added. The run can be read and verified, but not continued. Import returns the
// hash of the run's chain of appends: the exporter knows which one it has to be.
func (a *App) Import(ctx context.Context, path string) (run *Run, head string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, "", fail(InvalidRequest, "", "%v", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, "", err
	}
	archive, err := journal.OpenArchive(f, info.Size())
	var env *environment
	if err == nil {
		if env, err = a.storage(ctx); err == nil {
			err = env.verifyArchive(ctx, archive)
		}
	}
	if errors.Is(err, journal.ErrArchive) || errors.Is(err, journal.ErrCorrupt) {
		return nil, "", fail(InvalidRequest, "", "%s: %v", path, err).
			advise("Nothing was imported. Export the run again, and compare the files after the transfer.")
	}
	if err != nil {
		return nil, "", err
	}
	// The mark comes before the run: after a crash in between, there is a mark without a run, and never a run from an
	// archive that could be continued.
	if _, err = env.Store.Entry(ctx, archive.Run()); err == nil {
		err = fmt.Errorf("%w: %s", journal.ErrExists, archive.Run())
	} else if errors.Is(err, journal.ErrUnknownRun) {
		if err = env.markImported(ctx, archive.Run()); err == nil {
			err = env.Store.Import(ctx, archive.Imported(ctx))
		}
	}
	if errors.Is(err, journal.ErrExists) {
		return nil, "", fail(Conflict, "", "%s: %v", path, err).
			advise("Nothing was imported: this project has the run.")
	}
	if err != nil {
		return nil, "", err
	}
	if _, err := env.archivedRecords(ctx, archive.Run()); err != nil {
		return nil, "", err
	}
	run, err = a.Get(ctx, archive.Run())
	return run, archive.Head(), err
}

// importedPrefix starts the keys of registers that name imported runs.
const importedPrefix = "imported/"

// markImported records that a run comes from an archive.
func (env *environment) markImported(ctx context.Context, id journal.RunID) error {
	_, err := env.Store.Save(ctx, journal.Register{Key: importedPrefix + string(id), Data: []byte("{}")})
	if errors.Is(err, journal.ErrConflict) {
		return nil // imported before, and removed since
	}
	return err
}

// checkStartedHere returns an *Error for a run that was imported. Its definition, its options and the consent in them
// come from the author of the archive, so it is only a record: nothing continues from it.
func (env *environment) checkStartedHere(ctx context.Context, id journal.RunID) error {
	r, err := env.Store.Load(ctx, importedPrefix+string(id))
	if err != nil || r.Version == 0 {
		return err
	}
	return fail(InvalidRequest, NotResumable, "run %s was imported, and no run can continue from it: its "+
		"definition and its consent to commands come from the archive", id.Short()).advise("Run its workflow instead.")
}

// storage opens the storage of the project, and creates it if needed.
func (a *App) storage(ctx context.Context) (*environment, error) {
	space, root, err := a.currentProject()
	if err != nil {
		return nil, err
	}
	defer space.Close()
	return a.opened(ctx, space, root)
}

// verifyArchive verifies an archive as VerifyAudit verifies a run. A fault is an ErrArchive.
func (env *environment) verifyArchive(ctx context.Context, archive *journal.Archive) error {
	found, err := engine.Verify(ctx, archive, archive.Run())
	switch {
	case err != nil:
		return err
	case len(found.Damage) > 0:
		return archiveFault("%s: %s", found.Damage[0].Part, found.Damage[0].Message)
	case found.Head.Hash.String() != archive.Head():
		return archiveFault("the hash of the journal is %s, and the manifest names %s", found.Head.Hash, archive.Head())
	}
	// The journal is sound, so derive the records from it again and compare them with those in the archive.
	v, err := env.archiveVerification(ctx, archive)
	if err != nil {
		return err
	}
	if err := v.derive(ctx); err != nil {
		return err
	}
	for id, one := range v.runs {
		report, err := one.Report(v.settings[id])
		if err != nil {
			return err
		}
		if len(report.Faults) > 0 {
			first := report.Faults[0]
			return archiveFault("%s, line %d: %s", first.File, first.Line, first.Message)
		}
	}
	return nil
}

// archiveVerification prepares the comparison of the records in an archive with its journal.
func (env *environment) archiveVerification(ctx context.Context, archive *journal.Archive) (*verification, error) {
	// An archive can be read like a store, and an engine without runners decodes its definitions.
	core := engine.NewCore(engine.Config{Log: slog.New(slog.DiscardHandler)}, archive)
	program := func(ctx context.Context, definition string) (*ir.Program, error) {
		def, err := core.Definition(ctx, definition)
		if err != nil {
			return nil, err
		}
		return def.Program, nil
	}
	root := archive.Entries()[0]
	v := &verification{
		root: root.ID, last: root.Seq, runs: map[journal.RunID]*audit.Verifier{},
		settings: map[journal.RunID]*ir.Audit{},
		audits: audit.New(audit.Options{Source: archive, Program: program, Files: func(
			ctx context.Context, definition string,
		) ([]ir.File, error) {
			def, err := core.Definition(ctx, definition)
			if err != nil {
				return nil, err
			}
			return def.Sources, nil
		}}),
		transcripts: transcript.New(transcript.Options{Source: archive, Program: program}),
	}
	var err error
	if v.transcript, err = env.recordsTranscript(ctx, archive, root.ID); err != nil {
		return nil, err
	}
	pinned, err := archive.Blob(ctx, root.Definition)
	if err != nil {
		return nil, err
	}
	// One verifier for the root and each child, and no record of any other run.
	for _, entry := range archive.Entries() {
		e := audit.Evidence{
			Run: entry.ID, Trace: root.ID, Finished: true, Definition: root.Definition, Pinned: pinned,
			Copy: archivedCopy(archive, journal.Record{Kind: journal.RecordAudit, Run: entry.ID}),
		}
		if v.transcript {
			text := archivedCopy(archive, journal.Record{Kind: journal.RecordTranscript, Run: entry.ID})
			e.Transcript = &text
		}
		v.runs[entry.ID] = audit.NewVerifier(e)
	}
	for _, r := range archive.Records() {
		if v.runs[r.Run] == nil || r.Kind == journal.RecordTranscript && !v.transcript {
			return nil, archiveFault("it contains a record of run %s, which the journal does not have", r.Run)
		}
	}
	return v, nil
}

// archivedCopy returns a record of an archive.
func archivedCopy(archive *journal.Archive, r journal.Record) audit.Copy {
	return audit.Copy{Path: r.Name(), Open: func(offset int64) (io.ReadCloser, error) {
		in, err := archive.OpenRecord(r)
		if err != nil {
			return nil, err
		}
		if _, err := io.CopyN(io.Discard, in, offset); err != nil {
			return nil, errors.Join(err, in.Close())
		}
		return in, nil
	}}
}

// archiveFault returns an error for an archive that was changed.
func archiveFault(format string, args ...any) error {
	return fmt.Errorf("%w: %s", journal.ErrArchive, fmt.Sprintf(format, args...))
}
