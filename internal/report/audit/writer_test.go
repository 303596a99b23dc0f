package audit_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/canonical"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/report/audit"
	"github.com/espalier-run/espalier/internal/report/reporttest"
)

var update = flag.Bool("update", false, "write the expected audit logs anew")

// The clock of the writer does not advance, so that it does no maintenance by itself.
func frozen() time.Time { return time.Unix(0, 0) }

func writer(dir string, s *reporttest.RecordingReader) *audit.Writer {
	return audit.New(audit.Options{
		Dir: dir, Source: s, Program: s.Program, Now: frozen, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
}

func undisturbed(t testing.TB, r *reporttest.Recording) map[string]string {
	t.Helper()
	dir := t.TempDir()
	s := &reporttest.RecordingReader{Pinned: r.Program}
	w := writer(dir, s)
	for _, a := range r.Appends {
		s.Appends = append(s.Appends, a)
		if err := w.Record(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return reporttest.Files(t, dir, audit.Ext)
}

// Every recorded run has the expected audit log.
func TestLogsMatchGoldenFiles(t *testing.T) {
	for _, r := range reporttest.All(t) {
		t.Run(r.Name, func(t *testing.T) {
			all := undisturbed(t, r)
			if r.Name != "linear" { // whose exact bytes are stored
				for name, text := range all {
					all[name] = plain(t, text)
				}
			}
			got := reporttest.Together(all)
			reporttest.Golden(t, filepath.Join("testdata", r.Name+".txtar"), got, *update)
		})
	}
}

// Every line is canonical and numbered, has the base fields and the hash of the
// previous line; every log starts and ends with the right record.
func TestEveryRecordHashesThePreviousOne(t *testing.T) {
	for _, r := range reporttest.All(t) {
		for name, text := range undisturbed(t, r) {
			prev, lines := audit.Genesis, strings.SplitAfter(text, "\n")
			lines = lines[:len(lines)-1]
			for i, line := range lines {
				line = strings.TrimSuffix(line, "\n")
				var rec audit.Record
				if err := json.Unmarshal([]byte(line), &rec); err != nil {
					t.Fatal(err)
				}
				if form, err := canonical.JSON([]byte(line)); err != nil || string(form) != line {
					t.Errorf("%s %s:%d is not canonical: %v", r.Name, name, i+1, err)
				}
				if rec.Seq != int64(i+1) || rec.PrevHash != prev || rec.RunID+audit.Ext != name ||
					rec.TraceID != string(reporttest.Run) || rec.Event == "" {
					t.Errorf("%s %s:%d: %s", r.Name, name, i+1, line)
				}
				var data struct {
					Step string `json:"step_id"`
				}
				if json.Unmarshal(rec.Data, &data); data.Step != rec.StepID {
					t.Errorf("%s %s:%d: F28: data repeats the step: %s", r.Name, name, i+1, line)
				}
				if strings.HasPrefix(rec.Event, "step_") && rec.StepID == "" ||
					strings.HasPrefix(rec.Event, "run_") && rec.StepID != "" {
					t.Errorf("%s %s:%d: F28: %s", r.Name, name, i+1, line)
				}
				sum := sha256.Sum256([]byte(line))
				prev = hex.EncodeToString(sum[:])
			}
			if !strings.Contains(lines[0], `"event":"run_start"`) {
				t.Errorf("%s %s begins with %s", r.Name, name, lines[0])
			}
			if last := lines[len(lines)-1]; r.Name != "waiting" && r.Name != "budget" &&
				!strings.Contains(last, `"event":"run_complete"`) && !strings.Contains(last, `"event":"run_failed"`) {
				t.Errorf("%s %s ends with %s", r.Name, name, last)
			}
		}
	}
}

// Whatever a dead writer leaves, torn lines included, the next one completes it to
// the same log.
func TestLogIsCompletedAfterACrash(t *testing.T) {
	for _, r := range reporttest.All(t) {
		want := undisturbed(t, r)
		for at := range r.Appends {
			dir := t.TempDir()
			s := &reporttest.RecordingReader{Pinned: r.Program}
			first := writer(dir, s)
			for _, a := range r.Appends[:at] {
				s.Appends = append(s.Appends, a)
				if err := first.Record(t.Context(), a); err != nil {
					t.Fatal(err)
				}
			}
			for name, text := range reporttest.Files(t, dir, audit.Ext) { // tear the last write
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text[:len(text)-at%7]), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			second := writer(dir, s)
			for _, a := range r.Appends[max(at-1, 0):] {
				if len(s.Appends) < len(r.Appends) && a.Pos > r.Appends[at].Pos-1 {
					s.Appends = append(s.Appends, a)
				}
				if err := second.Record(t.Context(), a); err != nil {
					t.Fatal(err)
				}
			}
			if err := second.CatchUp(t.Context(), reporttest.Run); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, reporttest.Files(t, dir, audit.Ext)); diff != "" {
				t.Fatalf("%s, death before append %d:\n%s", r.Name, at, diff)
			}
			if aside, err := second.SetAside(reporttest.Run); err != nil || len(aside) > 0 {
				t.Errorf("%v, %v", aside, err)
			}
		}
	}
}

// A deleted log is written again, byte for byte, and can be derived without the
// disk; only its owner may read it.
func TestDeletedLogsAreRebuiltByteForByte(t *testing.T) {
	for _, r := range reporttest.All(t) {
		want := undisturbed(t, r)
		dir := filepath.Join(t.TempDir(), "audit")
		w := writer(dir, &reporttest.RecordingReader{Pinned: r.Program, Appends: r.Appends})
		made, err := reporttest.Rebuild(t.Context(), w, reporttest.Run)
		if err != nil {
			t.Fatal(err)
		}
		inMemory := map[string]string{}
		for id, text := range made {
			inMemory[string(id)+audit.Ext] = string(text)
		}
		if diff := cmp.Diff(want, inMemory); diff != "" {
			t.Errorf("%s: %s", r.Name, diff)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Error("rebuilding in memory has written something")
		}
		if err := w.CatchUp(t.Context(), reporttest.Run); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, reporttest.Files(t, dir, audit.Ext)); diff != "" {
			t.Errorf("%s: %s", r.Name, diff)
		}
		if is, err := os.Stat(filepath.Join(dir, string(reporttest.Run)+audit.Ext)); err != nil ||
			is.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", is.Mode(), err)
		}
	}
}

var _ report.Sink = (*audit.Writer)(nil)

// plain returns a log without hashes and ids, which change with every earlier
// record and which other tests check.
func plain(t testing.TB, text string) string {
	t.Helper()
	var b strings.Builder
	for _, r := range records(t, text) {
		fmt.Fprintf(&b, "%d %s %s %s %s\n", r.Seq, r.Timestamp.Format("15:04:05.000"), r.Event, r.StepID, r.Data)
	}
	return b.String()
}

// records decodes a log.
func records(t testing.TB, text string) []audit.Record {
	t.Helper()
	var out []audit.Record
	for line := range bytes.Lines([]byte(text)) {
		var r audit.Record
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}
