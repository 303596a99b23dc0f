package audit

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/canonical"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
)

// Evidence is everything that an audit log is compared with.
type Evidence struct {
	Run   journal.RunID
	Trace journal.RunID // the root run
	Copy                // the log
	// Transcript is the transcript; nil if the run has none.
	Transcript *Copy
	Finished   bool
	// Journal is the damage of the journal itself. If there is any, records are
	// not compared with the journal.
	Journal []Fault
	// Definition is the pinned hash, Pinned what is stored under it.
	Definition string
	Pinned     []byte
	Audit      *ir.Audit // settings of the workflow; nil if it has none
	// SetAside are files that did not match their run and were renamed.
	SetAside []string
}

// Copy is a file that is derived from the journal.
type Copy struct {
	Path string
	File []byte // as it is on disk; nil when there is none
	// Before and After are the file as the journal has it, derived before and
	// after File was read: the run may have written in between.
	Before, After []byte
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

// Report is the result of Verify.
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
}

type verifier struct {
	e     *Evidence
	out   Report
	lines [][]byte
	recs  []Record // of the lines that are records; others are zero
}

// Verify compares the records of a run with everything that is known of it.
func Verify(e Evidence) Report {
	v := &verifier{e: &e, out: Report{Run: e.Run, Path: e.Path, Head: Genesis, Checks: slices.Clone(Checks)}}
	for _, path := range e.SetAside {
		v.note("A file that did not match this run was found and kept: %s", path)
	}
	if e.Transcript == nil {
		v.skip(CheckTranscript)
		v.note("There is no transcript to compare with.")
	}
	if e.File == nil {
		v.fault(0, CheckFile, "there is no audit log")
	} else {
		v.read()
		v.chain()
		v.ids()
		v.events()
		v.definition()
	}
	if len(e.Journal) > 0 {
		v.skip(CheckJournal, CheckTranscript)
		v.note("The journal is damaged, so the records were not compared with it.")
	} else {
		if e.File != nil {
			v.compare(CheckJournal, &e.Copy)
		}
		if e.Transcript != nil {
			v.transcript()
		}
	}
	slices.SortStableFunc(v.out.Faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(b2i(a.File != e.Path), b2i(b.File != e.Path)), cmp.Compare(a.Line, b.Line))
	})
	v.out.Faults = append(slices.Clone(e.Journal), v.out.Faults...)
	v.out.OK = len(v.out.Faults) == 0
	return v.out
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (v *verifier) skip(checks ...string) {
	v.out.Checks = slices.DeleteFunc(v.out.Checks, func(c string) bool { return slices.Contains(checks, c) })
}

func (v *verifier) fault(line int, check, format string, args ...any) {
	v.faultIn(v.e.Path, line, check, format, args...)
}

func (v *verifier) faultIn(path string, line int, check, format string, args ...any) {
	v.out.Faults = append(v.out.Faults, Fault{path, line, check, fmt.Sprintf(format, args...)})
}

func (v *verifier) note(format string, args ...any) {
	v.out.Notes = append(v.out.Notes, fmt.Sprintf(format, args...))
}

func (v *verifier) read() {
	for line := range bytes.Lines(v.e.File) {
		n := len(v.lines) + 1
		whole := bytes.HasSuffix(line, []byte("\n"))
		line = bytes.TrimSuffix(line, []byte("\n"))
		v.lines, v.recs = append(v.lines, line), append(v.recs, Record{})
		form, err := canonical.JSON(line)
		switch {
		case err != nil && !whole:
			v.fault(n, CheckFile, "the line is not complete")
			continue
		case err != nil:
			v.fault(n, CheckFile, "the line is not a record: %v", err)
			continue
		case !whole:
			v.fault(n, CheckFile, "the line has no line feed at its end")
		case !bytes.Equal(form, line):
			v.fault(n, CheckFile, "the record is not in canonical form (RFC 8785)")
		}
		if err := json.Unmarshal(line, &v.recs[n-1]); err != nil {
			v.fault(n, CheckFile, "the line is not a record: %v", err)
		}
	}
	v.out.Records = len(v.lines)
	if n := len(v.lines); n > 0 {
		v.out.Head = hash(v.lines[n-1])
	}
}

func (v *verifier) chain() {
	prev, seq := Genesis, int64(0)
	for i := range v.recs {
		r := &v.recs[i]
		seq++
		if r.Event != "" {
			if r.Seq != seq {
				v.fault(i+1, CheckChain, "seq is %d, not %d: a record was removed, inserted or moved", r.Seq, seq)
				seq = r.Seq
			}
			if r.PrevHash != prev {
				v.fault(i+1, CheckChain, "prev_hash is %s, but the hash of the previous record is %s: "+
					"one of the two was changed, or a record between them was removed", short(r.PrevHash), short(prev))
			}
			if i > 0 && r.Timestamp.Before(v.recs[i-1].Timestamp) {
				v.fault(i+1, CheckChain, "timestamp is before that of the previous record")
			}
		}
		prev = hash(v.lines[i])
	}
}

func short(hash string) string {
	if len(hash) > 12 {
		return hash[:12] + "…"
	}
	return strconv.Quote(hash)
}

// aboutSteps reports whether records of an event have a step_id.
func aboutSteps(event string) bool {
	return strings.HasPrefix(event, "step_") || strings.HasPrefix(event, "gate_") || event == BudgetCheck
}

func (v *verifier) ids() {
	for i := range v.recs {
		r := &v.recs[i]
		switch {
		case r.Event == "":
		case r.RunID != string(v.e.Run):
			v.fault(i+1, CheckIDs, "run_id is %q, not that of the run", r.RunID)
		case r.TraceID != string(v.e.Trace):
			v.fault(i+1, CheckIDs, "trace_id is %q, not that of the run", r.TraceID)
		case r.StepID == "" && aboutSteps(r.Event):
			v.fault(i+1, CheckIDs, "step_id is missing on %s", r.Event)
		case r.Timestamp.IsZero():
			v.fault(i+1, CheckIDs, "timestamp is missing")
		}
	}
}

// events checks that required records exist: those that every log has, and those
// that the workflow requires.
func (v *verifier) events() {
	if len(v.recs) == 0 {
		v.fault(0, CheckEvents, "the audit log is empty")
		return
	}
	if r := &v.recs[0]; r.Event != RunStart {
		v.fault(1, CheckEvents, "the first record is %q, not %s", r.Event, RunStart)
	}
	type visit struct {
		line    int
		gate    bool
		decided bool
	}
	open := map[string][]visit{}
	checkDue := map[string]int{} // steps whose budget_check must follow, and since which line
	for i := range v.recs {
		r := &v.recs[i]
		var data struct {
			Type, Status string
			NotAStep     bool `json:"not_a_step"`
		}
		json.Unmarshal(r.Data, &data) // what is missing counts as empty
		visits := open[r.StepID]
		last := len(visits) - 1
		switch r.Event {
		case StepStart:
			open[r.StepID] = append(visits, visit{line: i + 1, gate: data.Type == "gate"})
		case GateDecision, DoubtDecided, WaitpointTimeout:
			if data.NotAStep {
				break
			}
			if last < 0 {
				v.fault(i+1, CheckEvents, "%s of step %q, which has no %s", r.Event, r.StepID, StepStart)
				break
			}
			visits[last].decided = true
		case StepComplete:
			if last < 0 {
				v.fault(i+1, CheckEvents, "%s of step %q, which has no %s", StepComplete, r.StepID, StepStart)
				break
			}
			if visits[last].gate && !visits[last].decided && (data.Status == "completed" || data.Status == "rejected") {
				v.fault(i+1, CheckEvents, "step %q is a gate and has no %s", r.StepID, GateDecision)
			}
			open[r.StepID] = visits[:last]
			checkDue[r.StepID] = i + 1
		case BudgetCheck:
			if checkDue[r.StepID] == 0 {
				v.fault(i+1, CheckEvents, "%s of step %q, which has not ended", BudgetCheck, r.StepID)
			}
			delete(checkDue, r.StepID)
		case RunComplete, RunFailed:
			if i != len(v.recs)-1 {
				v.fault(i+2, CheckEvents, "a record follows the end of the run")
			}
			for _, step := range slices.Sorted(maps.Keys(open)) {
				for _, one := range open[step] {
					v.fault(one.line, CheckEvents, "step %q has no %s", step, StepComplete)
				}
			}
		}
	}
	for _, step := range slices.Sorted(maps.Keys(checkDue)) {
		v.fault(checkDue[step], CheckEvents, "no %s follows the end of step %q", BudgetCheck, step)
	}
	if end := v.recs[len(v.recs)-1].Event; v.e.Finished && end != RunComplete && end != RunFailed {
		v.fault(len(v.recs), CheckEvents, "the run is over, but the last record is %q: the end of the log is missing", end)
	}
	v.required()
}

// required checks the events that the workflow requires and that every run has.
// A run that fails can end before its first step.
func (v *verifier) required() {
	if v.e.Audit == nil {
		return
	}
	seen := map[string]bool{}
	for i := range v.recs {
		seen[v.recs[i].Event] = true
	}
	for _, name := range v.e.Audit.RequiredEvents {
		switch name.Name {
		case RunStart, StepStart, StepComplete, BudgetCheck:
			if !seen[name.Name] && (seen[RunComplete] || name.Name == RunStart) {
				v.fault(0, CheckEvents, "the workflow requires %s, and there is none", name.Name)
			}
		}
	}
}

func (v *verifier) definition() {
	if len(v.recs) == 0 {
		return
	}
	var data struct {
		Format     string `json:"audit_format"`
		Definition string `json:"definition"`
	}
	json.Unmarshal(v.recs[0].Data, &data) // what is missing counts as empty
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

// compare compares a file with the one derived from the journal, up to the first
// difference: all records of a chain after a change differ.
func (v *verifier) compare(check string, c *Copy) {
	have, want := splitLines(c.File), splitLines(c.After)
	for i, line := range have {
		if i >= len(want) {
			v.faultIn(c.Path, i+1, check, "the journal does not have this record: it was added, or the end of the journal is gone")
			return
		}
		if !bytes.Equal(line, want[i]) {
			v.faultIn(c.Path, i+1, check, "%s", difference(line, want[i]))
			return
		}
	}
	if least := len(splitLines(c.Before)); len(have) < least {
		v.faultIn(c.Path, len(have)+1, check, "the file ends here, but the journal has %d more: the next is %s",
			least-len(have), describe(want[len(have)]))
	}
}

// splitLines returns the lines of a file, with their line feeds.
func splitLines(b []byte) [][]byte { return slices.Collect(bytes.Lines(b)) }

// transcript compares the transcript with the one derived from the journal.
func (v *verifier) transcript() {
	if v.e.Transcript.File == nil {
		v.faultIn(v.e.Transcript.Path, 0, CheckTranscript, "there is no transcript")
		return
	}
	v.compare(CheckTranscript, v.e.Transcript)
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
		return "the line is not what the journal says"
	}
	// A prev_hash that differs because of an earlier record is not the change.
	for _, skip := range []string{"prev_hash", ""} {
		if path, x, y, differs := part("", a, b, skip); differs {
			return fmt.Sprintf("%s is %s, but the journal says %s", path, brief(x), brief(y))
		}
	}
	return "the record is not written as the journal says"
}

type absent struct{}

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
	names := slices.Collect(maps.Keys(a))
	for name := range b {
		if _, has := a[name]; !has {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if path == "" && name == skip {
			continue
		}
		x, hasX := a[name]
		y, hasY := b[name]
		if !hasX {
			x = absent{}
		}
		if !hasY {
			y = absent{}
		}
		inner := name
		if path != "" {
			inner = path + "." + name
		}
		if at, p, q, differs := part(inner, x, y, skip); differs {
			return at, p, q, true
		}
	}
	return path, nil, nil, false
}

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
