package audit_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
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

// copied is a file, and what the journal implies before and after it was read.
type copied struct {
	Path                string
	File, Before, After []byte
}

// stored is the evidence about a run, with the content of its files.
type stored struct {
	audit.Evidence
	copied
	Transcript *copied
}

// opened returns the copy as a Verifier reads it.
func (c *copied) opened() audit.Copy {
	out := audit.Copy{Path: c.Path}
	if c.File != nil {
		out.Open = func(offset int64) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(c.File[offset:])), nil
		}
	}
	return out
}

// verify passes everything to a Verifier, which loses its open files on the way.
func verify(t interface{ Fatal(...any) }, s stored) audit.Report {
	s.Copy = s.opened()
	if s.Transcript != nil {
		s.Evidence.Transcript = new(s.Transcript.opened())
	}
	v := audit.NewVerifier(s.Evidence)
	pass := func(c *copied, line func([]byte) error, require func()) {
		n, least := 0, bytes.Count(c.Before, []byte("\n"))
		for text := range bytes.Lines(c.After) {
			if err := line(text); err != nil {
				t.Fatal(err)
			}
			if n++; n == least {
				require()
			}
			if n%3 == 0 {
				v.Release()
			}
		}
	}
	if !s.Damaged {
		pass(&s.copied, v.LogLine, v.RequireLog)
		if s.Transcript != nil {
			pass(s.Transcript, v.TranscriptLine, v.RequireTranscript)
		}
	}
	report, err := v.Report(nil)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// evidence returns that of a recorded run with unchanged files.
func evidence(t testing.TB, r *reporttest.Recording) stored {
	t.Helper()
	text := []byte(undisturbed(t, r)[string(reporttest.Run)+audit.Ext])
	e := stored{
		Evidence: audit.Evidence{
			Run: reporttest.Run, Trace: reporttest.Run, Finished: r.Name != "waiting" && r.Name != "budget",
		},
		copied: copied{Path: "log", File: text, Before: text, After: text},
	}
	e.Pinned = []byte("the definition")
	e.Definition = sum(e.Pinned)
	// Recordings have no definition; here they get one.
	for _, part := range []*[]byte{&e.File, &e.Before, &e.After} {
		*part = rechain(bytes.ReplaceAll(*part, []byte(`"definition":"definition"`),
			[]byte(`"definition":"`+e.Definition+`"`)))
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
		got := verify(t, e)
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
		"another reason": {
			replace("looks good", "looks bad"), 9, audit.CheckJournal,
			`data.evidence is "looks bad", but the journal implies "looks good"`,
		},
		"the same, with a new chain": {
			both(replace("looks good", "looks bad"), rechain), 9,
			audit.CheckJournal, `data.evidence is "looks bad"`,
		},
		"another person": {both(replace(`"actor":"eva","actor_kind":"person"`,
			`"actor":"ida","actor_kind":"person"`), rechain), 9, audit.CheckJournal, `data.actor is "ida"`},
		"a record taken out": {drop(9, 9), 9, audit.CheckChain, "seq is 10, not 9"},
		"a decision taken out, with a new chain": {
			both(drop(9, 9), rechain), 9, audit.CheckJournal,
			"data.actor is missing",
		},
		"the end cut off": {
			drop(15, 18), 14, audit.CheckEvents,
			`the last record is "step_start"`,
		},
		"all of it cut off": {
			func([]byte) []byte { return []byte{} }, 0, audit.CheckEvents,
			"empty",
		},
		"no file": {
			func([]byte) []byte { return nil }, 0, audit.CheckFile,
			"there is no audit log",
		},
		"a line torn": {
			func(b []byte) []byte { return b[:len(b)-10] }, 18, audit.CheckFile,
			"not complete",
		},
		"a line feed missing": {
			func(b []byte) []byte { return b[:len(b)-1] }, 18, audit.CheckFile,
			"line feed",
		},
		"a record added": {both(func(b []byte) []byte {
			return append(bytes.Clone(b),
				bytes.SplitAfter(b, []byte("\n"))[12]...)
		}, rechain), 19, audit.CheckEvents, "follows the end"},
		"white space": {replace(`,"event"`, `, "event"`), 1, audit.CheckFile, "canonical"},
		"another run": {
			both(replace(`"run_id":"1`, `"run_id":"2`), rechain), 1,
			audit.CheckIDs, "run_id",
		},
		"no trace": {both(replace(`,"trace_id":"11111111-1111-4111-8111-111111111111"`,
			``), rechain), 1, audit.CheckIDs, "trace_id"},
		"no step": {both(replace(`"step_id":"draft","timestamp"`, `"timestamp"`),
			rechain), 2, audit.CheckIDs, "step_id is missing on step_start"},
		"another definition": {
			both(replace(`"definition":"`, `"definition":"0`), rechain), 1,
			audit.CheckDefinition, "but the run has pinned",
		},
		"another time": {
			both(replace(`06:14:20.500Z`, `06:14:20.501Z`), rechain), 15,
			audit.CheckJournal, "timestamp is",
		},
	} {
		e := evidence(t, reporttest.Recorded(t, "gate-approved"))
		e.File = c.change(e.File)
		got := verify(t, e)
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
	const text = "{\"seq\":1,\"type\":\"run.started\"}\n" +
		"{\"seq\":2,\"type\":\"step.completed\",\"path\":\"a\",\"payload\":{\"blocks\":[{\"text\":\"yes\"}]}}\n"
	transcript := func(have string) func(e *stored) {
		return func(e *stored) {
			e.Transcript = &copied{Path: "transcript", Before: []byte(text), After: []byte(text)}
			if have != "" {
				e.Transcript.File = []byte(have)
			}
		}
	}
	for name, c := range map[string]struct {
		change func(e *stored)
		file   string
		line   int
		check  string
		says   string
	}{
		"": {transcript(text), "", 0, "", ""},
		"the definition was changed": {
			func(e *stored) { e.Pinned = []byte("another") }, "log", 1,
			audit.CheckDefinition, "it was changed",
		},
		"the definition is gone": {
			func(e *stored) { e.Pinned = nil }, "log", 1, audit.CheckDefinition,
			"not in the store",
		},
		"the transcript is gone": {
			transcript(""), "transcript", 0, audit.CheckTranscript,
			"there is no transcript",
		},
		"a value was changed": {
			transcript(strings.Replace(text, "yes", "no", 1)), "transcript", 2, audit.CheckTranscript,
			`payload.blocks[0].text is "no", but the journal implies "yes"`,
		},
		"white space was added": {
			transcript(strings.Replace(text, ",", ", ", 1)), "transcript", 1, audit.CheckTranscript, "not written as",
		},
		"a line was added": {transcript(text + text), "transcript", 3, audit.CheckTranscript, "it was added"},
		"the end was cut": {
			transcript(text[:strings.IndexByte(text, '\n')+1]), "transcript", 2, audit.CheckTranscript,
			`step.completed of step "a"`,
		},
		"the end is torn": {transcript(text[:len(text)-1]), "transcript", 2, audit.CheckTranscript, ""},
		"the journal has gone on": {func(e *stored) {
			e.Before, e.File, e.Finished = firstLines(e.File, 3), firstLines(e.File, 4), false
		}, "log", 4, audit.CheckEvents, ""},
		"the journal is ahead": {func(e *stored) {
			e.Before, e.File, e.Finished = firstLines(e.File, 7), firstLines(e.File, 6), false
		}, "log", 7, audit.CheckJournal, ""},
		"the journal is damaged": {func(e *stored) {
			e.Journal = []audit.Fault{{Check: "appends", Message: "hash"}}
			e.Damaged = true
		}, "", 0, "appends", "hash"},
	} {
		e := evidence(t, reporttest.Recorded(t, "gate-approved"))
		c.change(&e)
		got := verify(t, e)
		if c.check == "" {
			if !got.OK {
				t.Errorf("%s: %+v", name, got.Faults)
			}
			continue
		}
		if got.OK {
			t.Errorf("%s: nothing was found", name)
			continue
		}
		f := got.Faults[0]
		if f.Line != c.line || f.Check != c.check || f.File != c.file || !strings.Contains(f.Message, c.says) {
			t.Errorf("%s: %+v", name, got.Faults)
		}
	}
}

func firstLines(b []byte, n int) []byte {
	return bytes.Join(bytes.SplitAfter(b, []byte("\n"))[:n], nil)
}

// No byte can be changed, no line omitted, repeated or moved, with or without a
// new chain.
//
// Spec: Agent Flow §7.1 machines
func TestVerifyFindsAnyChange(t *testing.T) {
	all := reporttest.All(t)
	made := map[string]stored{}
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
		if got := verify(t, e); got.OK {
			t.Fatalf("nothing was found in\n%s", text)
		}
	})
}

// The program of docs/audit.md verifies a log without Espalier.
//
// Spec: Agent Flow §7.1 machines
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
		"as it is": {text, "18 records hold"},
		"changed": {
			bytes.Replace(text, []byte("looks good"), []byte("looks bad"), 1),
			"line 10: the hash does not fit",
		},
		"shown changed": {
			rechain(bytes.ReplaceAll(text, []byte("draft#0"), []byte("draft#1"))),
			"line 7: the digest does not fit",
		},
		"line taken out": {
			bytes.Join(slices.Delete(bytes.SplitAfter(text, []byte("\n")), 3, 4), nil),
			"line 4: the hash does not fit",
		},
		"cut off": {
			text[:bytes.LastIndexByte(text[:len(text)-1], '\n')+1],
			"the run has not ended, or the end of the log is gone",
		},
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
