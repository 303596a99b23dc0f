package audit_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/canonical"
	"github.com/espalier-run/espalier/internal/report/audit"
	"github.com/espalier-run/espalier/internal/report/reporttest"
)

// evidence returns that of a recorded run with unchanged files.
func evidence(t testing.TB, r *reporttest.Recording) audit.Evidence {
	t.Helper()
	text := []byte(undisturbed(t, r)[string(reporttest.Run)+audit.Ext])
	e := audit.Evidence{Run: reporttest.Run, Trace: reporttest.Run, File: text, Before: text, After: text, Finished: r.Name != "waiting" && r.Name != "budget"}
	e.Pinned = []byte("the definition")
	e.Definition = sum(e.Pinned)
	// Recordings have no definition; here they get one.
	for _, part := range []*[]byte{&e.File, &e.Before, &e.After} {
		*part = rechain(bytes.ReplaceAll(*part, []byte(`"definition":"definition"`), []byte(`"definition":"`+e.Definition+`"`)))
	}
	return e
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// rechain recomputes the hashes, as a forger would.
func rechain(text []byte) []byte {
	var out []byte
	prev, n := audit.Genesis, 0
	for line := range bytes.Lines(text) {
		var r map[string]any
		if json.Unmarshal(line, &r) != nil {
			out = append(out, line...)
			continue
		}
		n++
		r["prev_hash"], r["seq"] = prev, n
		raw, err := json.Marshal(r)
		if err != nil {
			panic(err)
		}
		form, err := canonical.JSON(raw)
		if err != nil {
			panic(err)
		}
		prev = sum(form)
		out = append(append(out, form...), '\n')
	}
	return out
}

func TestVerifyAcceptsUnchangedLogs(t *testing.T) {
	for _, r := range reporttest.All(t) {
		e := evidence(t, r)
		got := audit.Verify(e)
		last := bytes.Split(bytes.TrimSpace(e.File), []byte("\n"))
		if !got.OK || len(got.Faults) > 0 || got.Records != len(last) || got.Head != sum(last[len(last)-1]) {
			t.Errorf("%s: %+v", r.Name, got)
		}
	}
}

// Verify finds each change, and names the first affected record.
func TestVerifyNamesTheChangedRecord(t *testing.T) {
	replace := func(old, by string) func([]byte) []byte {
		return func(b []byte) []byte {
			if !bytes.Contains(b, []byte(old)) {
				panic("there is no " + old)
			}
			return bytes.Replace(b, []byte(old), []byte(by), 1)
		}
	}
	drop := func(from, to int) func([]byte) []byte {
		return func(b []byte) []byte {
			lines := bytes.SplitAfter(b, []byte("\n"))
			return bytes.Join(append(slices.Clone(lines[:from-1]), lines[to:]...), nil)
		}
	}
	both := func(f, g func([]byte) []byte) func([]byte) []byte {
		return func(b []byte) []byte { return g(f(b)) }
	}
	for name, c := range map[string]struct {
		change func([]byte) []byte
		line   int
		check  string
		says   string
	}{
		"another reason":                         {replace("looks good", "looks bad"), 9, audit.CheckJournal, `data.evidence is "looks bad", but the journal says "looks good"`},
		"the same, with a new chain":             {both(replace("looks good", "looks bad"), rechain), 9, audit.CheckJournal, `data.evidence is "looks bad"`},
		"another person":                         {both(replace(`"actor":"eva","actor_kind":"person"`, `"actor":"ida","actor_kind":"person"`), rechain), 9, audit.CheckJournal, `data.actor is "ida"`},
		"a record taken out":                     {drop(9, 9), 9, audit.CheckChain, "seq is 10, not 9"},
		"a decision taken out, with a new chain": {both(drop(9, 9), rechain), 9, audit.CheckJournal, "data.actor is missing"},
		"the end cut off":                        {drop(15, 18), 14, audit.CheckEvents, `the last record is "step_start"`},
		"all of it cut off":                      {func([]byte) []byte { return []byte{} }, 0, audit.CheckEvents, "empty"},
		"no file":                                {func([]byte) []byte { return nil }, 0, audit.CheckFile, "there is no audit log"},
		"a line torn":                            {func(b []byte) []byte { return b[:len(b)-10] }, 18, audit.CheckFile, "not complete"},
		"a line feed missing":                    {func(b []byte) []byte { return b[:len(b)-1] }, 18, audit.CheckFile, "line feed"},
		"a record added":                         {both(func(b []byte) []byte { return append(bytes.Clone(b), bytes.SplitAfter(b, []byte("\n"))[12]...) }, rechain), 19, audit.CheckEvents, "follows the end"},
		"white space":                            {replace(`,"event"`, `, "event"`), 1, audit.CheckFile, "canonical"},
		"another run":                            {both(replace(`"run_id":"1`, `"run_id":"2`), rechain), 1, audit.CheckIDs, "run_id"},
		"no trace":                               {both(replace(`,"trace_id":"11111111-1111-4111-8111-111111111111"`, ``), rechain), 1, audit.CheckIDs, "trace_id"},
		"no step":                                {both(replace(`"step_id":"draft","timestamp"`, `"timestamp"`), rechain), 2, audit.CheckIDs, "step_id is missing on step_start"},
		"another definition":                     {both(replace(`"definition":"`, `"definition":"0`), rechain), 1, audit.CheckDefinition, "but the run has pinned"},
		"another time":                           {both(replace(`06:14:20.500Z`, `06:14:20.501Z`), rechain), 15, audit.CheckJournal, "timestamp is"},
	} {
		e := evidence(t, reporttest.Recorded(t, "gate-approved"))
		e.File = c.change(e.File)
		got := audit.Verify(e)
		if got.OK || len(got.Faults) == 0 {
			t.Errorf("%s: nothing was found", name)
			continue
		}
		found := slices.ContainsFunc(got.Faults, func(f audit.Fault) bool {
			return f.Line == c.line && f.Check == c.check && strings.Contains(f.Message, c.says)
		})
		if !found || got.Faults[0].Line != c.line {
			t.Errorf("%s: %+v", name, got.Faults)
		}
	}
}

// Verify also compares with the store and the transcript.
func TestVerifyAgainstStoreAndTranscript(t *testing.T) {
	told := func(e *audit.Evidence) {
		e.Transcript = []audit.TranscriptEvent{}
		for i, r := range records(t, string(e.File)) {
			switch r.Event {
			case audit.RunStart, audit.StepStart, audit.StepComplete, audit.RunComplete:
				e.Transcript = append(e.Transcript, audit.TranscriptEvent{Line: i + 1, Event: r.Event, Path: r.StepID, At: r.Timestamp})
			}
		}
	}
	for name, c := range map[string]struct {
		change func(e *audit.Evidence)
		line   int
		check  string
	}{
		"":                                  {told, 0, ""},
		"the definition was changed":        {func(e *audit.Evidence) { e.Pinned = []byte("another") }, 1, audit.CheckDefinition},
		"the definition is gone":            {func(e *audit.Evidence) { e.Pinned = nil }, 1, audit.CheckDefinition},
		"the transcript tells less":         {func(e *audit.Evidence) { told(e); e.Transcript = e.Transcript[:4] }, 11, audit.CheckTranscript},
		"the transcript tells more":         {func(e *audit.Evidence) { told(e); e.Transcript = append(e.Transcript, e.Transcript[0]) }, 18, audit.CheckTranscript},
		"the transcript tells another path": {func(e *audit.Evidence) { told(e); e.Transcript[3].Path = "x" }, 6, audit.CheckTranscript},
		"the transcript tells another time": {func(e *audit.Evidence) { told(e); e.Transcript[1].At = e.Transcript[1].At.Add(1) }, 2, audit.CheckTranscript},
		"the journal has gone on": {func(e *audit.Evidence) {
			e.Before, e.File, e.Finished = firstLines(e.File, 3), firstLines(e.File, 4), false
		}, 4, audit.CheckEvents},
		"the journal is ahead": {func(e *audit.Evidence) {
			e.Before, e.File, e.Finished = firstLines(e.File, 7), firstLines(e.File, 6), false
		}, 7, audit.CheckJournal},
	} {
		e := evidence(t, reporttest.Recorded(t, "gate-approved"))
		c.change(&e)
		got := audit.Verify(e)
		if c.check == "" {
			if !got.OK {
				t.Errorf("%s: %+v", name, got.Faults)
			}
			continue
		}
		if got.OK || got.Faults[0].Line != c.line || got.Faults[0].Check != c.check {
			t.Errorf("%s: %+v", name, got.Faults)
		}
	}
}

func firstLines(b []byte, n int) []byte {
	return bytes.Join(bytes.SplitAfter(b, []byte("\n"))[:n], nil)
}

// No byte can be changed, no line omitted, repeated or moved, with or without a
// new chain.
func TestVerifyFindsAnyChange(t *testing.T) {
	all := reporttest.All(t)
	made := map[string]audit.Evidence{}
	for _, r := range all {
		made[r.Name] = evidence(t, r)
	}
	rapid.Check(t, func(t *rapid.T) {
		e := made[all[rapid.IntRange(0, len(all)-1).Draw(t, "recording")].Name]
		text := bytes.Clone(e.File)
		lines := bytes.SplitAfter(text, []byte("\n"))
		lines = lines[:len(lines)-1]
		at := rapid.IntRange(0, len(lines)-1).Draw(t, "line")
		switch rapid.IntRange(0, 3).Draw(t, "change") {
		case 0:
			i := rapid.IntRange(0, len(text)-1).Draw(t, "byte")
			text[i] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		case 1:
			text = bytes.Join(slices.Delete(slices.Clone(lines), at, at+1), nil)
		case 2:
			text = bytes.Join(slices.Insert(slices.Clone(lines), at, lines[at]), nil)
		case 3:
			text = bytes.Join(lines[:at], nil)
		}
		if rapid.Bool().Draw(t, "forged") {
			defer func() { // a change that does not apply is skipped
				if recover() != nil {
					t.Skip()
				}
			}()
			text = rechain(text)
		}
		if bytes.Equal(text, e.File) {
			t.Skip()
		}
		e.File = text
		if got := audit.Verify(e); got.OK {
			t.Fatalf("nothing was found in\n%s", text)
		}
	})
}

// The program of docs/audit.md verifies a log without Espalier.
func TestVerifyWithoutEspalier(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	page, err := os.ReadFile("../../../docs/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	_, script, ok := strings.Cut(string(page), "```python\n")
	if !ok {
		t.Fatal("docs/audit.md has no program")
	}
	script, _, _ = strings.Cut(script, "```")
	text := []byte(undisturbed(t, reporttest.Recorded(t, "gate-approved"))[string(reporttest.Run)+audit.Ext])
	for name, c := range map[string]struct {
		text []byte
		want string
	}{
		"as it is":       {text, "18 records hold"},
		"changed":        {bytes.Replace(text, []byte("looks good"), []byte("looks bad"), 1), "line 10: the hash does not fit"},
		"shown changed":  {rechain(bytes.ReplaceAll(text, []byte("draft#0"), []byte("draft#1"))), "line 7: the digest does not fit"},
		"line taken out": {bytes.Join(slices.Delete(bytes.SplitAfter(text, []byte("\n")), 3, 4), nil), "line 4: the hash does not fit"},
		"cut off":        {text[:bytes.LastIndexByte(text[:len(text)-1], '\n')+1], "the run has not ended, or the end of the log is gone"},
	} {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, c.text, 0o600); err != nil {
			t.Fatal(err)
		}
		out, _ := exec.Command(python, "-c", script, path).CombinedOutput() // the output implies the exit code
		if !strings.Contains(string(out), c.want) {
			t.Errorf("%s: got %s", name, out)
		}
	}
}
