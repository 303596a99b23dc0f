package journal

import (
	"archive/zip"
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/lazyregexp"
)

// An archive is a ZIP file with one finished run:
//
//	manifest.json        the format, and the index rows of the run and its children
//	journal.ndjson       the appends as they are stored, with their hashes
//	blobs/SHA256         the large values and definitions that the events name
//	audit/ID.ndjson      the audit log of the run and of each child
//	transcript/ID.ndjson the transcripts, unless the run has none
//
// It is read in place: no entry is ever extracted to a path.

// ArchiveFormat identifies archives of this version.
const ArchiveFormat = "espalier-run/1"

// ErrArchive means that a file is not an archive of a run, or was changed.
var ErrArchive = errors.New("the archive is not valid")

// Record is a file that is derived from a run.
type Record struct {
	Kind string // RecordAudit or RecordTranscript
	Run  RunID
}

// The kinds of records in archives.
const (
	RecordAudit      = "audit"
	RecordTranscript = "transcript"
)

// Name returns the name of the record in an archive.
func (r Record) Name() string { return r.Kind + "/" + string(r.Run) + ".ndjson" }

// manifest is the content of manifest.json.
type manifest struct {
	Format string  `json:"format"`
	Run    RunID   `json:"run_id"`
	Head   string  `json:"journal_head"`
	Runs   []Entry `json:"runs"` // the root run first
}

// archivedLink is a line of journal.ndjson.
type archivedLink struct {
	Seq  Seq    `json:"seq"`
	Hash string `json:"hash,omitempty"`
	Body []byte `json:"body"`
}

// ArchiveSource is what WriteArchive reads.
type ArchiveSource interface {
	Reader
	ChainReader
}

// WriteArchive writes a finished root run. records are added as they are; open
// opens one of them.
func WriteArchive(
	ctx context.Context, w io.Writer, s ArchiveSource, run RunID, records []Record,
	open func(Record) (io.ReadCloser, error),
) error {
	entry, err := s.Entry(ctx, run)
	if err != nil {
		return err
	}
	switch {
	case entry.Root != "":
		return &ChildError{Root: entry.Root}
	case entry.Status != Finished:
		return fmt.Errorf("%w: %s", ErrUnfinished, run)
	}
	m := manifest{Format: ArchiveFormat, Run: run, Runs: []Entry{entry}}
	for child, err := range s.Runs(ctx, Filter{Root: run, Children: true}) {
		if err != nil {
			return err
		}
		m.Runs = append(m.Runs, child)
	}
	slices.Reverse(m.Runs[1:]) // oldest first
	for i := range m.Runs {
		m.Runs[i].Owner = ""
	}
	out := zip.NewWriter(w)
	head, err := writeLinks(ctx, out, s, run)
	if err != nil {
		return err
	}
	m.Head = head.Hash.String()
	if err := writeBlobs(ctx, out, s, run); err != nil {
		return err
	}
	for _, r := range records {
		if err := writeRecord(out, r, open); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	f, err := out.Create(manifestName)
	if err != nil {
		return err
	}
	if _, err := f.Write(append(text, '\n')); err != nil {
		return err
	}
	return out.Close()
}

const (
	manifestName = "manifest.json"
	linksName    = "journal.ndjson"
	blobsFolder  = "blobs/"
)

func writeLinks(ctx context.Context, out *zip.Writer, s ChainReader, run RunID) (ChainHead, error) {
	f, err := out.Create(linksName)
	if err != nil {
		return ChainHead{}, err
	}
	lines := json.NewEncoder(f)
	var failed error
	head, err := VerifyChain(ctx, s, run, func(l Link, _ ChainHash) {
		if failed == nil {
			failed = lines.Encode(archivedLink{Seq: l.Seq, Hash: hex.EncodeToString(l.Hash), Body: l.Body})
		}
	})
	return head, errors.Join(err, failed)
}

func writeBlobs(ctx context.Context, out *zip.Writer, s Reader, run RunID) error {
	for blob, err := range blobsOf(ctx, s, run) {
		if err != nil {
			return err
		}
		f, err := out.Create(blobsFolder + blob.Hash)
		if err != nil {
			return err
		}
		if _, err := f.Write(blob.Data); err != nil {
			return err
		}
	}
	return nil
}

func writeRecord(out *zip.Writer, r Record, open func(Record) (io.ReadCloser, error)) error {
	in, err := open(r)
	if err != nil {
		return err
	}
	defer in.Close()
	f, err := out.Create(r.Name())
	if err != nil {
		return err
	}
	_, err = io.Copy(f, in)
	return err
}

// Archive is an archive that is open for reading. It implements ArchiveSource
// for its run; nothing of it is trusted until engine.Verify has accepted it.
type Archive struct {
	manifest manifest
	files    map[string]*zip.File
	names    []string // in the order of the file
}

var _ ArchiveSource = (*Archive)(nil)

// archiveNames are the names that an archive may contain.
var archiveNames = lazyregexp.New(`^(manifest\.json|journal\.ndjson|blobs/[0-9a-f]{64}|` +
	`(audit|transcript)/[0-9A-Za-z][0-9A-Za-z_-]{0,63}\.ndjson)$`)

// runIDs are the IDs that are safe in names of files.
var runIDs = lazyregexp.New(`^[0-9A-Za-z][0-9A-Za-z_-]{0,63}$`)

// Limits of what an archive may contain.
const (
	maxManifest = 64 << 20
	maxBlob     = 1 << 30
	maxLine     = 128 << 20 // of the journal: large values are blobs
	// An entry that is larger than maxPlain must not be compressed more than
	// maxRatio times: no run is as repetitive.
	maxPlain = 64 << 20
	maxRatio = 500
)

// OpenArchive opens an archive. An error that is an ErrArchive means that the
// file is not an archive of this format.
func OpenArchive(r io.ReaderAt, size int64) (*Archive, error) {
	in, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrArchive, err)
	}
	a := &Archive{files: map[string]*zip.File{}}
	for _, f := range in.File {
		switch {
		case !archiveNames().MatchString(f.Name) || !f.Mode().IsRegular():
			return nil, fmt.Errorf("%w: it contains %q, which does not belong to a run", ErrArchive, f.Name)
		case a.files[f.Name] != nil:
			return nil, fmt.Errorf("%w: it contains %s twice", ErrArchive, f.Name)
		case f.UncompressedSize64 > maxPlain && f.UncompressedSize64/maxRatio > f.CompressedSize64:
			return nil, fmt.Errorf("%w: %s is compressed too much", ErrArchive, f.Name)
		}
		a.files[f.Name] = f
		a.names = append(a.names, f.Name)
	}
	text, err := a.read(manifestName, maxManifest)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &a.manifest); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrArchive, manifestName, err)
	}
	return a, a.check()
}

// check checks the manifest.
func (a *Archive) check() error {
	m := &a.manifest
	if m.Format != ArchiveFormat {
		return fmt.Errorf("%w: its format is %q, and this release reads %q", ErrArchive, m.Format, ArchiveFormat)
	}
	if len(m.Runs) == 0 || m.Runs[0].ID != m.Run || m.Runs[0].Root != "" {
		return fmt.Errorf("%w: the manifest does not list its run first", ErrArchive)
	}
	seen := map[RunID]bool{}
	for i := range m.Runs {
		r := &m.Runs[i]
		switch {
		case !runIDs().MatchString(string(r.ID)) || seen[r.ID]:
			return fmt.Errorf("%w: %q is not the ID of a run, or is listed twice", ErrArchive, r.ID)
		case i > 0 && r.Root != m.Run:
			return fmt.Errorf("%w: run %s is not part of run %s", ErrArchive, r.ID, m.Run)
		case r.Status != Finished || r.Owner != "":
			return fmt.Errorf("%w: run %s has not finished", ErrArchive, r.ID)
		}
		seen[r.ID] = true
	}
	return nil
}

// open opens an entry.
func (a *Archive) open(name string) (io.ReadCloser, error) {
	f := a.files[name]
	if f == nil {
		return nil, fmt.Errorf("%w: %s is missing", ErrArchive, name)
	}
	in, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrArchive, name, err)
	}
	return in, nil
}

// read reads an entry of a limited size.
func (a *Archive) read(name string, most uint64) ([]byte, error) {
	in, err := a.open(name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if size := a.files[name].UncompressedSize64; size > most {
		return nil, fmt.Errorf("%w: %s has %d bytes", ErrArchive, name, size)
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrArchive, name, err)
	}
	return text, nil
}

// Run returns the ID of the run.
func (a *Archive) Run() RunID { return a.manifest.Run }

// Head returns the hash of the run's chain, for the manifest.
func (a *Archive) Head() string { return a.manifest.Head }

// Entries returns the index rows of the run and of its children, the run first.
func (a *Archive) Entries() []Entry { return a.manifest.Runs }

// Records returns the records that the archive contains.
func (a *Archive) Records() []Record {
	var out []Record
	for _, name := range a.names {
		for _, kind := range []string{RecordAudit, RecordTranscript} {
			if file, ok := strings.CutPrefix(name, kind+"/"); ok {
				out = append(out, Record{kind, RunID(strings.TrimSuffix(file, ".ndjson"))})
			}
		}
	}
	return out
}

// OpenRecord opens a record.
func (a *Archive) OpenRecord(r Record) (io.ReadCloser, error) { return a.open(r.Name()) }

// Imported returns the run as Admin.Import takes it.
func (a *Archive) Imported(ctx context.Context) ImportedRun {
	return ImportedRun{Runs: a.manifest.Runs, Links: a.Links(ctx, a.manifest.Run), Blobs: a.blobs()}
}

func (a *Archive) blobs() iter.Seq2[Blob, error] {
	return func(yield func(Blob, error) bool) {
		for _, name := range a.names {
			hash, ok := strings.CutPrefix(name, blobsFolder)
			if !ok {
				continue
			}
			b := Blob{Hash: hash}
			var err error
			if b.Data, err = a.Blob(context.Background(), b.Hash); !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// Links implements ChainReader.
func (a *Archive) Links(ctx context.Context, run RunID) iter.Seq2[Link, error] {
	return func(yield func(Link, error) bool) {
		if run != a.manifest.Run {
			yield(Link{}, fmt.Errorf("%w: %s", ErrUnknownRun, run))
			return
		}
		in, err := a.open(linksName)
		if err != nil {
			yield(Link{}, err)
			return
		}
		defer in.Close()
		lines := bufio.NewScanner(in)
		lines.Buffer(make([]byte, 64<<10), maxLine)
		for n := 1; ; n++ {
			var line archivedLink
			var err error
			if lines.Scan() {
				decoder := json.NewDecoder(bytes.NewReader(lines.Bytes()))
				decoder.DisallowUnknownFields()
				if err = decoder.Decode(&line); err == nil && decoder.More() {
					err = errors.New("it has more than one value")
				}
			} else if err = lines.Err(); err == nil {
				return
			}
			link := Link{Pos: Pos(n), Seq: line.Seq, Body: line.Body}
			if err == nil {
				link.Hash, err = hex.DecodeString(line.Hash)
			}
			if err = cmp.Or(err, ctx.Err()); err != nil {
				yield(Link{}, fmt.Errorf("%w: %s: line %d: %w", ErrArchive, linksName, n, err))
				return
			}
			if !yield(link, nil) {
				return
			}
		}
	}
}

// Tombstones implements ChainReader. An archive has none.
func (*Archive) Tombstones(context.Context) iter.Seq2[Link, error] {
	return func(func(Link, error) bool) {}
}

// Events implements EventReader.
func (a *Archive) Events(ctx context.Context, run RunID, after Seq) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		next := Seq(1)
		for link, err := range a.Links(ctx, run) {
			var events []Event
			if err == nil {
				events, err = link.Events(next)
			}
			if err != nil {
				yield(Event{}, err)
				return
			}
			for _, e := range events {
				if e.Seq > after && !yield(e, nil) {
					return
				}
			}
			next = link.Seq + 1
		}
	}
}

// Blob implements Reader.
func (a *Archive) Blob(_ context.Context, hash string) ([]byte, error) {
	if a.files[blobsFolder+hash] == nil {
		return nil, fmt.Errorf("%w: %s", ErrUnknownBlob, hash)
	}
	data, err := a.read(blobsFolder+hash, maxBlob)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != hash {
		return nil, fmt.Errorf("%w: the value %s was changed", ErrCorrupt, hash)
	}
	return data, nil
}

// Entry implements Reader.
func (a *Archive) Entry(_ context.Context, run RunID) (Entry, error) {
	for _, e := range a.manifest.Runs {
		if e.ID == run {
			return e, nil
		}
	}
	return Entry{}, fmt.Errorf("%w: %s", ErrUnknownRun, run)
}

// Runs implements Reader. It supports the filters Root and Children.
func (a *Archive) Runs(_ context.Context, f Filter) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for _, e := range a.manifest.Runs {
			if (e.Root == "" || f.Children) && (f.Root == "" || e.Root == f.Root) && !yield(e, nil) {
				return
			}
		}
	}
}

// Snapshot implements Reader. An archive has none.
func (*Archive) Snapshot(context.Context, RunID) (Seq, []byte, error) { return 0, nil, nil }

// Tail implements Tailer. An archive is not part of the order of a store.
func (*Archive) Tail(context.Context, Pos) iter.Seq2[Appended, error] {
	return func(func(Appended, error) bool) {}
}

// Last implements Tailer.
func (*Archive) Last(context.Context) (Pos, error) { return 0, nil }

// Changed implements Tailer. An archive never changes.
func (*Archive) Changed() <-chan struct{} { return nil }

// ImportedRun is a run of another store.
type ImportedRun struct {
	Runs  []Entry // the root run first, then its children
	Links iter.Seq2[Link, error]
	Blobs iter.Seq2[Blob, error]
	// Moved allows a run that has not finished. The caller makes sure that no
	// process continues it in the other store.
	Moved bool
	Inbox []InboxMessage // of a run that has not finished
}

// Check returns ErrInvalid or ErrUnfinished if the run cannot be imported.
func (r *ImportedRun) Check() error {
	for i := range r.Runs {
		if (r.Runs[i].Root == "") != (i == 0) || i > 0 && r.Runs[i].Root != r.Runs[0].ID {
			return fmt.Errorf("%w: run %s", ErrInvalid, r.Runs[i].ID)
		}
		if r.Runs[i].Status != Finished && !r.Moved {
			return fmt.Errorf("%w: %s", ErrUnfinished, r.Runs[i].ID)
		}
	}
	if len(r.Runs) == 0 {
		return fmt.Errorf("%w: there is no run", ErrInvalid)
	}
	return nil
}

// Appends returns the links with their events, which follow each other from the
// first event of the run to the last one that its index names.
func (r *ImportedRun) Appends() iter.Seq2[ImportedAppend, error] {
	return func(yield func(ImportedAppend, error) bool) {
		next := Seq(1)
		for link, err := range r.Links {
			var events []Event
			if err == nil {
				events, err = link.Events(next)
			}
			if err != nil {
				yield(ImportedAppend{}, err)
				return
			}
			next = link.Seq + 1
			if !yield(ImportedAppend{link, events[0].Seq, events[len(events)-1].At}, nil) {
				return
			}
		}
		if last := r.Runs[0].Seq; next != last+1 {
			yield(ImportedAppend{}, fmt.Errorf("%w: the run ends with event %d, not %d", ErrInvalid, next-1, last))
		}
	}
}

// ImportedAppend is an append of an imported run.
type ImportedAppend struct {
	Link
	First Seq    // its first event
	At    Millis // of its last event
}

// Events decodes the events of an append that starts with the event first.
func (l *Link) Events(first Seq) ([]Event, error) {
	events, err := Decode(l.Body)
	if err == nil && (len(events) == 0 || events[len(events)-1].Seq != l.Seq) {
		err = fmt.Errorf("it does not end with event %d", l.Seq)
	}
	for i := 0; i < len(events) && err == nil; i++ {
		if want := first + Seq(i); events[i].Seq != want {
			err = fmt.Errorf("found event %d, expected %d", events[i].Seq, want)
		}
	}
	if err != nil {
		return nil, &CorruptError{Pos: l.Pos, Why: err}
	}
	return events, nil
}
