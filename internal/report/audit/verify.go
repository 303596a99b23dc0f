package audit

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/auditevent"
	"github.com/espalier-run/espalier/internal/canonical"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
)

// Evidence is everything that an audit log is compared with, besides the lines
// that the journal implies.
type Evidence struct {
	Run   journal.RunID
	Trace journal.RunID // the root run
	Copy                // the log
	// Transcript is the transcript; nil if the run has none.
	Transcript *Copy
	Finished   bool
	// Journal is the damage of the journal itself that concerns the run.
	Journal []Fault
	// Damaged reports that the journal is damaged: records are not compared with it.
	Damaged bool
	// Definition is the pinned hash, Pinned what is stored under it.
	Definition string
	Pinned     []byte
	// SetAside are files that did not match their run and were renamed.
	SetAside []string
}

// Copy is a file that is derived from the journal.
type Copy struct {
	Path string
	// Open opens the file at an offset. It is nil when there is no file. The
	// content must not change between calls.
	Open func(offset int64) (io.ReadCloser, error)
}

// Checks.
const (
	CheckFile       = "file"       // it exists, and its lines are records
	CheckChain      = "chain"      // sequence numbers and hashes
	CheckIDs        = "ids"        // every record names its run and step
	CheckEvents     = "events"     // required records exist
	CheckJournal    = "journal"    // the records equal those derived from the journal
	CheckTranscript = "transcript" // the transcript equals the one derived from the journal
	CheckDefinition = "definition" // the stored definition is the pinned one
)

// Checks are all checks, in the order in which they run.
var Checks = []string{CheckFile, CheckChain, CheckIDs, CheckEvents, CheckDefinition, CheckJournal, CheckTranscript}

// Fault is the result of a failed check.
type Fault struct {
	File string `json:"file,omitempty"` // empty if the journal is damaged
	Line int    `json:"line"`           // of the file, from 1; 0 is the file as a whole
	// Check is one of Checks, or the damaged part of the journal.
	Check   string `json:"check"`
	Message string `json:"message"`
}

// Report is the result of a Verifier.
type Report struct {
	Run     journal.RunID `json:"run_id"`
	Path    string        `json:"file"`
	OK      bool          `json:"ok"`
	Records int           `json:"records"`
	Head    string        `json:"head"` // hash of the last record
	// JournalHead is the hash of the run's chain of appends; empty for a child run,
	// which has none of its own.
	JournalHead string   `json:"journal_head,omitempty"`
	Checks      []string `json:"checks"`
	// Faults are sorted by line.
	Faults []Fault  `json:"faults,omitempty"`
	Notes  []string `json:"notes,omitempty"`
	// Incomplete reports that a record matches the journal and lacks only its end, or all of it.
	Incomplete bool `json:"-"`
}

// SetAside returns the records that did not match the journal and were renamed.
func (r *Report) SetAside() []string {
	var out []string
	for _, f := range r.Faults {
		if f.Check == CheckFile && f.File != "" && f.File != r.Path {
			out = append(out, f.File)
		}
	}
	return out
}

// maxFaults is how many faults of one file are listed. In a file that was
// replaced, every line is one.
const maxFaults = 1000

// Verifier compares the records of one run with the journal. It holds a few
// lines in memory, whatever the length of the records.
type Verifier struct {
	e          Evidence
	out        Report
	log        *comparison
	transcript *comparison // nil if the run has no transcript
	omitted    int         // faults that are not listed
}

// NewVerifier returns a Verifier. Pass all lines that the journal implies to
// LogLine and TranscriptLine, in order, and then call Report.
func NewVerifier(e Evidence) *Verifier {
	v := &Verifier{e: e, out: Report{Run: e.Run, Path: e.Path, Head: Genesis, Checks: slices.Clone(Checks)}}
	v.log = &comparison{v: v, check: CheckJournal, copy: &v.e.Copy}
	if e.Transcript != nil {
		v.transcript = &comparison{v: v, check: CheckTranscript, copy: e.Transcript}
	}
	return v
}

// LogLine compares the next line that the journal implies with the log.
func (v *Verifier) LogLine(line []byte) error { return v.log.line(line) }

// TranscriptLine compares the next line that the journal implies with the
// transcript.
func (v *Verifier) TranscriptLine(line []byte) error { return v.transcript.line(line) }

// RequireLog says that the journal had the lines of the log so far before the
// file was opened. The run may have written the others afterwards.
func (v *Verifier) RequireLog() { v.log.require() }

// RequireTranscript says the same of the transcript.
func (v *Verifier) RequireTranscript() { v.transcript.require() }

// Release closes the files. They are opened again when they are needed.
func (v *Verifier) Release() {
	v.log.close()
	v.transcript.close()
}

// Report checks the log itself and returns everything that was found. settings
// are those of the workflow; nil if it has none.
func (v *Verifier) Report(settings *ir.Audit) (Report, error) {
	defer v.Release()
	e := &v.e
	if e.Transcript == nil {
		v.skip(CheckTranscript)
		v.note("There is no transcript to compare with.")
	}
	compared := v.out.Faults // they come after those of the file itself
	v.out.Faults = nil
	if e.Open == nil {
		v.fault(0, CheckFile, "there is no audit log")
	} else if err := v.readLog(settings); err != nil {
		return v.out, err
	}
	v.out.Faults = append(v.out.Faults, compared...)
	if e.Damaged {
		v.skip(CheckJournal, CheckTranscript)
		v.note("The journal is damaged, so the records were not compared with it.")
	} else if err := v.finishComparisons(); err != nil {
		return v.out, err
	}
	slices.SortStableFunc(v.out.Faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(b2i(a.File != e.Path), b2i(b.File != e.Path)), cmp.Compare(a.Line, b.Line))
	})
	if v.omitted > 0 {
		v.note("Only the first %d faults are listed; there are %d more.", maxFaults, v.omitted)
	}
	for _, path := range e.SetAside {
		v.out.Faults = append(v.out.Faults, Fault{File: path, Check: CheckFile, Message: setAside})
	}
	v.out.Faults = append(slices.Clone(e.Journal), v.out.Faults...)
	v.out.OK = len(v.out.Faults) == 0
	v.out.Incomplete = !e.Damaged && (v.log.incomplete() || v.transcript.incomplete()) && !v.log.differs &&
		(v.transcript == nil || !v.transcript.differs)
	return v.out, nil
}

// setAside is the message about a file that was renamed. It stays a fault until a person has moved the file away.
const setAside = "the file did not match the journal; it was renamed and regenerated"

// finishComparisons reports the lines that a file has after those that the journal implies, or lacks.
func (v *Verifier) finishComparisons() error {
	if v.e.Open != nil {
		if err := v.log.finish(); err != nil {
			return err
		}
		if n := v.log.older; n > 0 {
			v.note("An earlier release wrote %d records without fields that this one adds; the journal has them.", n)
		}
	}
	switch {
	case v.transcript == nil:
	case v.e.Transcript.Open == nil:
		v.faultIn(v.e.Transcript.Path, 0, CheckTranscript, "there is no transcript")
	default:
		return v.transcript.finish()
	}
	return nil
}

// b2i returns 1 for true and 0 for false, for cmp.Compare.
func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// skip removes checks from those that the report says were made.
func (v *Verifier) skip(checks ...string) {
	v.out.Checks = slices.DeleteFunc(v.out.Checks, func(c string) bool { return slices.Contains(checks, c) })
}

// fault reports a fault of the audit log. Line 0 is the file as a whole.
func (v *Verifier) fault(line int, check, format string, args ...any) {
	v.faultIn(v.e.Path, line, check, format, args...)
}

// faultIn reports a fault of a file. After maxFaults they are only counted.
func (v *Verifier) faultIn(path string, line int, check, format string, args ...any) {
	if len(v.out.Faults) >= maxFaults {
		v.omitted++
		return
	}
	v.out.Faults = append(v.out.Faults, Fault{path, line, check, fmt.Sprintf(format, args...)})
}

// note adds a remark that is not a fault.
func (v *Verifier) note(format string, args ...any) {
	v.out.Notes = append(v.out.Notes, fmt.Sprintf(format, args...))
}

// logReader checks the records of a log one after the other.
type logReader struct {
	v        *Verifier
	n        int       // line number
	seq      int64     // of the previous record
	prev     string    // hash of the previous line
	before   time.Time // of the previous record
	last     string    // event of the previous record
	seen     map[string]bool
	open     map[string][]openVisit
	checkDue map[string]int // steps whose budget_check must follow, and since which line
}

// openVisit is a step that has started and not ended.
type openVisit struct {
	line          int
	gate, decided bool
}

// readLog checks the log without the journal.
func (v *Verifier) readLog(settings *ir.Audit) error {
	in, err := v.e.Open(0)
	if err != nil {
		return err
	}
	defer in.Close()
	l := &logReader{
		v: v, prev: Genesis, seen: map[string]bool{}, open: map[string][]openVisit{}, checkDue: map[string]int{},
	}
	for line, err := range report.Lines(in) {
		if errors.Is(err, report.ErrSegment) {
			v.fault(l.n+1, CheckFile, "%v", err)
			break
		}
		if err != nil {
			return err
		}
		l.read(line)
	}
	v.out.Records, v.out.Head = l.n, l.prev
	l.end(settings)
	return nil
}

// read checks the next line.
func (l *logReader) read(line []byte) {
	l.n++
	whole := bytes.HasSuffix(line, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\n"))
	r := l.record(line, whole)
	l.chain(r)
	l.ids(r)
	l.events(r)
	if l.n == 1 {
		l.v.definition(r)
	}
	l.prev, l.before, l.last = hash(line), r.Timestamp, r.Event
	l.seen[r.Event] = true
}

// record decodes a line; one that is no record is the zero Record.
func (l *logReader) record(line []byte, whole bool) *Record {
	r := &Record{}
	form, err := canonical.JSON(line)
	switch {
	case err != nil && !whole:
		l.fault(CheckFile, "the line is not complete")
		return r
	case err != nil:
		l.fault(CheckFile, "the line is not a record: %v", err)
		return r
	case !whole:
		l.fault(CheckFile, "the line has no line feed at its end")
	case !bytes.Equal(form, line):
		l.fault(CheckFile, "the record is not in canonical form (RFC 8785)")
	}
	if err := json.Unmarshal(line, r); err != nil {
		l.fault(CheckFile, "the line is not a record: %v", err)
	}
	return r
}

// fault reports a fault of the current line.
func (l *logReader) fault(check, format string, args ...any) { l.v.fault(l.n, check, format, args...) }

// chain checks the number, the hash of the previous record and the time. After a gap in the numbers it continues from
// the number found, so that the gap is reported once.
func (l *logReader) chain(r *Record) {
	l.seq++
	if r.Event == "" {
		return
	}
	if r.Seq != l.seq {
		l.fault(CheckChain, "seq is %d, not %d: a record was removed, inserted or moved", r.Seq, l.seq)
		l.seq = r.Seq
	}
	if r.PrevHash != l.prev {
		l.fault(CheckChain, "prev_hash is %s, but the hash of the previous record is %s: "+
			"one of the two was changed, or a record between them was removed", short(r.PrevHash), short(l.prev))
	}
	if l.n > 1 && r.Timestamp.Before(l.before) {
		l.fault(CheckChain, "timestamp is before that of the previous record")
	}
}

// short returns the beginning of a hash for a message.
func short(hash string) string {
	if len(hash) > 12 {
		return hash[:12] + "…"
	}
	return strconv.Quote(hash)
}

// aboutSteps reports whether records of an event have a step_id.
func aboutSteps(event string) bool {
	return strings.HasPrefix(event, "step_") || strings.HasPrefix(event, "gate_") || event == auditevent.BudgetCheck
}

// ids checks the names of the run and the step in a record. It reports only the first fault.
func (l *logReader) ids(r *Record) {
	switch {
	case r.Event == "":
	case r.RunID != string(l.v.e.Run):
		l.fault(CheckIDs, "run_id is %q, not that of the run", r.RunID)
	case r.TraceID != string(l.v.e.Trace):
		l.fault(CheckIDs, "trace_id is %q, not that of the run", r.TraceID)
	case r.StepID == "" && aboutSteps(r.Event):
		l.fault(CheckIDs, "step_id is missing on %s", r.Event)
	case r.Timestamp.IsZero():
		l.fault(CheckIDs, "timestamp is missing")
	}
}

// events checks that required records exist.
func (l *logReader) events(r *Record) {
	if l.n == 1 && r.Event != auditevent.RunStart {
		l.fault(CheckEvents, "the first record is %q, not %s", r.Event, auditevent.RunStart)
	}
	if l.last == auditevent.RunComplete || l.last == auditevent.RunFailed {
		l.fault(CheckEvents, "a record follows the end of the run")
	}
	var data struct {
		Type, Status string
		NotAStep     bool `json:"not_a_step"`
	}
	json.Unmarshal(r.Data, &data) // what is missing counts as empty
	visits := l.open[r.StepID]
	last := len(visits) - 1
	switch r.Event {
	case auditevent.StepStart:
		l.open[r.StepID] = append(visits, openVisit{line: l.n, gate: data.Type == "gate"})
	case auditevent.GateDecision, auditevent.UnknownOutcomeDecided, auditevent.WaitpointTimeout:
		if data.NotAStep {
			break
		}
		if last < 0 {
			l.fault(CheckEvents, "%s of step %q, which has no %s", r.Event, r.StepID, auditevent.StepStart)
			break
		}
		visits[last].decided = true
	case auditevent.StepComplete:
		if last < 0 {
			l.fault(CheckEvents, "%s of step %q, which has no %s", auditevent.StepComplete, r.StepID,
				auditevent.StepStart)
			break
		}
		if visits[last].gate && !visits[last].decided && (data.Status == "completed" || data.Status == "rejected") {
			l.fault(CheckEvents, "step %q is a gate and has no %s", r.StepID, auditevent.GateDecision)
		}
		if l.open[r.StepID] = visits[:last]; last == 0 {
			delete(l.open, r.StepID)
		}
		l.checkDue[r.StepID] = l.n
	case auditevent.BudgetCheck:
		if l.checkDue[r.StepID] == 0 {
			l.fault(CheckEvents, "%s of step %q, which has not ended", auditevent.BudgetCheck, r.StepID)
		}
		delete(l.checkDue, r.StepID)
	case auditevent.RunComplete, auditevent.RunFailed:
		for _, step := range slices.Sorted(maps.Keys(l.open)) {
			for _, one := range l.open[step] {
				l.v.fault(one.line, CheckEvents, "step %q has no %s", step, auditevent.StepComplete)
			}
		}
	}
}

// end checks what only the whole log shows.
func (l *logReader) end(settings *ir.Audit) {
	if l.n == 0 {
		l.v.fault(0, CheckEvents, "the audit log is empty")
		return
	}
	for _, step := range slices.Sorted(maps.Keys(l.checkDue)) {
		l.v.fault(l.checkDue[step], CheckEvents, "no %s follows the end of step %q", auditevent.BudgetCheck, step)
	}
	if l.v.e.Finished && l.last != auditevent.RunComplete && l.last != auditevent.RunFailed {
		l.fault(CheckEvents, "the run has finished, but the last record is %q: the end of the log is missing", l.last)
	}
	if settings == nil {
		return
	}
	// A run that fails can end before its first step.
	for _, name := range settings.RequiredEvents {
		switch name.Name {
		case auditevent.RunStart, auditevent.StepStart, auditevent.StepComplete, auditevent.BudgetCheck:
			if !l.seen[name.Name] && (l.seen[auditevent.RunComplete] || name.Name == auditevent.RunStart) {
				l.v.fault(0, CheckEvents, "the workflow requires %s, but the log has none", name.Name)
			}
		}
	}
}

// definition compares the definition that the first record names.
func (v *Verifier) definition(first *Record) {
	var data struct {
		Format     string `json:"audit_format"`
		Definition string `json:"definition"`
	}
	json.Unmarshal(first.Data, &data) // what is missing counts as empty
	if data.Format != Format {
		v.note("The log is in the format %q; this program writes %q.", data.Format, Format)
	}
	if data.Definition != v.e.Definition {
		v.fault(1, CheckDefinition, "definition is %s, but the run has pinned %s",
			short(data.Definition), short(v.e.Definition))
	}
	if v.e.Pinned == nil {
		v.fault(1, CheckDefinition, "the definition %s is not in the store", short(v.e.Definition))
	} else if got := hash(v.e.Pinned); got != v.e.Definition {
		v.fault(1, CheckDefinition, "the stored definition %s has the hash %s: it was changed",
			short(v.e.Definition), short(got))
	}
}

// comparison compares a file with the lines that the journal implies, up to the
// first difference: all records of a chain after a change differ. A nil comparison
// is that of a record that the run does not have.
type comparison struct {
	v       *Verifier
	check   string
	copy    *Copy
	file    io.ReadCloser // nil if it is closed
	in      *report.LineReader
	offset  int64 // of the next line
	have    int   // lines of the file that are equal
	derived int   // lines that the journal implies
	least   int   // lines that the file must have
	missing string
	over    bool // the file has ended, or differs
	differs bool
	older   int // lines that an earlier release has written without fields that this one adds
}

// next returns the next line of the file; nil at its end.
func (c *comparison) next() ([]byte, error) {
	if c.file == nil {
		var err error
		if c.file, err = c.copy.Open(c.offset); err != nil {
			return nil, err
		}
		c.in = report.NewLineReader(c.file)
	}
	line, err := c.in.Next()
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	c.offset += int64(len(line))
	return line, err
}

// require says that the file must have the lines so far.
func (c *comparison) require() {
	if c != nil {
		c.least = c.derived
	}
}

// close closes the file. It may be called again, and for nil.
func (c *comparison) close() {
	if c != nil && c.file != nil {
		c.file.Close() // it was only read
		c.file, c.in = nil, nil
	}
}

// line compares the next line that the journal implies.
func (c *comparison) line(want []byte) error {
	if c == nil {
		return nil
	}
	c.derived++
	if c.over || c.copy.Open == nil {
		return nil
	}
	have, err := c.next()
	switch {
	case errors.Is(err, report.ErrSegment):
		c.over, c.differs = true, true
		c.v.faultIn(c.copy.Path, c.derived, c.check, "%v", err)
	case err != nil:
		return err
	case have == nil, !bytes.HasSuffix(have, []byte("\n")) && bytes.HasPrefix(want, have): // its writer was interrupted
		c.over, c.missing = true, describe(want)
	case !bytes.Equal(have, want) && !c.earlier(have, want):
		c.over, c.differs = true, true
		c.v.faultIn(c.copy.Path, c.derived, c.check, "%s", difference(have, want))
	default:
		c.have++
		return nil
	}
	c.close()
	return nil
}

// earlier reports whether a line is what an earlier release has derived: without fields that this one adds. The hashes
// of all later lines differ then; CheckChain verifies them.
func (c *comparison) earlier(have, want []byte) bool {
	var a, b, x, y map[string]json.RawMessage
	if c.check != CheckJournal || json.Unmarshal(have, &a) != nil || json.Unmarshal(want, &b) != nil ||
		json.Unmarshal(a["data"], &x) != nil || json.Unmarshal(b["data"], &y) != nil {
		return false
	}
	lacks := false
	for _, name := range addedFields {
		_, has := x[name]
		if _, should := y[name]; should && !has {
			lacks = true
			delete(y, name)
		}
	}
	if c.older > 0 {
		delete(a, "prev_hash")
		delete(b, "prev_hash")
	}
	delete(a, "data")
	delete(b, "data")
	same := func(x, y json.RawMessage) bool { return bytes.Equal(x, y) }
	if !maps.EqualFunc(a, b, same) || !maps.EqualFunc(x, y, same) {
		return false
	}
	if lacks {
		c.older++
	}
	return true
}

// incomplete reports whether the file lacks lines, and has no other ones instead.
func (c *comparison) incomplete() bool { return c != nil && !c.differs && c.have < c.least }

// finish compares the length of the file.
func (c *comparison) finish() error {
	defer c.close()
	if !c.over {
		more, err := c.next()
		if more != nil {
			c.v.faultIn(c.copy.Path, c.have+1, c.check,
				"the journal does not have this record: it was added, or the end of the journal is gone")
		}
		return err
	}
	if c.incomplete() {
		c.v.faultIn(c.copy.Path, c.have+1, c.check, "the file ends here, but the journal has %d more: the next is %s",
			c.least-c.have, c.missing)
	}
	return nil
}

// describe names a derived record: a line of a log or of a transcript.
func describe(line []byte) string {
	var r struct {
		Record
		Type, Path string
	}
	json.Unmarshal(line, &r) // it is derived, so it is valid
	if r.Type != "" {
		r.Event, r.StepID = r.Type, r.Path
	}
	return about(&r.Record)
}

// about names a record in a message.
func about(r *Record) string {
	if r.StepID == "" {
		return r.Event
	}
	return fmt.Sprintf("%s of step %q", r.Event, r.StepID)
}

// difference returns where two records differ.
func difference(got, want []byte) string {
	var a, b any
	if json.Unmarshal(got, &a) != nil || json.Unmarshal(want, &b) != nil {
		return "the line is not what the journal implies"
	}
	// A prev_hash that differs because of an earlier record is not the change.
	for _, skip := range []string{"prev_hash", ""} {
		if path, x, y, differs := part("", a, b, skip); differs {
			return fmt.Sprintf("%s is %s, but the journal implies %s", path, brief(x), brief(y))
		}
	}
	return "the record is not written as the journal implies"
}

// absent stands for a member that one of two records does not have, which is not the same as null.
type absent struct{}

// part returns the first place where two values differ, and what is there in each. It skips the member with the name
// skip at the top.
func part(path string, got, want any, skip string) (at string, x, y any, differs bool) {
	if x, ok := got.([]any); ok {
		if y, both := want.([]any); both && len(x) == len(y) {
			for i := range x {
				if at, p, q, differs := part(fmt.Sprintf("%s[%d]", path, i), x[i], y[i], skip); differs {
					return at, p, q, true
				}
			}
			return path, nil, nil, false
		}
	}
	a, isObject := got.(map[string]any)
	b, both := want.(map[string]any)
	if !isObject || !both {
		p, _ := json.Marshal(got)
		q, _ := json.Marshal(want)
		return path, got, want, !bytes.Equal(p, q)
	}
	all := maps.Clone(a)
	maps.Copy(all, b)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if path == "" && name == skip {
			continue
		}
		member := func(of map[string]any) any {
			if v, has := of[name]; has {
				return v
			}
			return absent{}
		}
		inner := name
		if path != "" {
			inner = path + "." + name
		}
		if at, p, q, differs := part(inner, member(a), member(b), skip); differs {
			return at, p, q, true
		}
	}
	return path, nil, nil, false
}

// brief returns a value for a message, shortened if it is long.
func brief(v any) string {
	if v == (absent{}) {
		return "missing"
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return "unreadable"
	}
	if len(raw) > 80 {
		return strings.ToValidUTF8(string(raw[:80]), "") + "…"
	}
	return string(raw)
}
