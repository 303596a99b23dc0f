package app_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
)

// rewrite returns a copy of a ZIP file. change returns the new content of an entry, or nil to leave it out; more are
// the names of additional entries.
func rewrite(t *testing.T, file []byte, change func(name string, text []byte) []byte, more ...string) []byte {
	t.Helper()
	in, err := zip.NewReader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	var buffer bytes.Buffer
	out := zip.NewWriter(&buffer)
	add := func(name string, text []byte) {
		w, err := out.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range in.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if text = change(f.Name, text); text != nil {
			add(f.Name, text)
		}
	}
	for _, name := range more {
		add(name, []byte("{}\n"))
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// An archive is imported only if it is whole and unchanged. Nothing is left of one that is refused.
func TestChangedArchivesAreRefused(t *testing.T) {
	a := project(t, nil)
	run := start(t, a, "shell", allowed)
	path := filepath.Join(t.TempDir(), "run.zip")
	head, err := a.Export(t.Context(), run, path)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	same := func(_ string, text []byte) []byte { return text }
	in := func(prefix string, do func([]byte) []byte) func(string, []byte) []byte {
		return func(name string, text []byte) []byte {
			if !strings.HasPrefix(name, prefix) {
				return text
			}
			changed := do(text)
			if bytes.Equal(changed, text) {
				t.Errorf("%s is not changed", name)
			}
			return changed
		}
	}
	swap := func(old, by string) func([]byte) []byte {
		return func(text []byte) []byte { return regexp.MustCompile(old).ReplaceAll(text, []byte(by)) }
	}
	gone := func([]byte) []byte { return nil }
	half := func(text []byte) []byte { return text[:bytes.IndexByte(text, '\n')+1] }
	for name, file := range map[string][]byte{
		"not an archive":           []byte("hello"),
		"cut off":                  whole[:len(whole)/2],
		"a path out of the folder": rewrite(t, whole, same, "../../.bashrc"),
		"an absolute path":         rewrite(t, whole, same, "/etc/passwd"),
		"a record of another name": rewrite(t, whole, same, "audit/..ndjson"),
		"a record of another run":  rewrite(t, whole, same, "audit/20000000-0000-4000-8000-000000000001.ndjson"),
		"an entry twice":           rewrite(t, whole, same, "manifest.json"),
		"no manifest":              rewrite(t, whole, in("manifest", gone)),
		"another format":           rewrite(t, whole, in("manifest", swap("espalier-run/1", "espalier-run/9"))),
		"another head":             rewrite(t, whole, in("manifest", swap(`"journal_head": "....`, `"journal_head": "0000`))),
		"another outcome":          rewrite(t, whole, in("manifest", swap(`"outcome": "ok"`, `"outcome": "failed"`))),
		"another name":             rewrite(t, whole, in("manifest", swap(`"name": "shell"`, `"name": "other"`))),
		"not finished":             rewrite(t, whole, in("manifest", swap(`"status": "finished"`, `"status": "running"`))),
		"a path as the ID":         rewrite(t, whole, in("manifest", swap(`"(run_id|id)": "[^"]*"`, `"$1": "../x"`))),
		"no journal":               rewrite(t, whole, in("journal", gone)),
		"the end of the journal":   rewrite(t, whole, in("journal", half)),
		"another hash":             rewrite(t, whole, in("journal", swap(`"hash":"....`, `"hash":"0000`))),
		"no blob":                  rewrite(t, whole, in("blobs/", gone)),
		"another blob":             rewrite(t, whole, in("blobs/", swap("Hello", "Adieu"))),
		"no audit log":             rewrite(t, whole, in("audit/", gone)),
		"another audit log":        rewrite(t, whole, in("audit/", swap("tester", "forger"))),
		"a short audit log":        rewrite(t, whole, in("audit/", half)),
		"another transcript":       rewrite(t, whole, in("transcript/", swap("Hello", "Adieu"))),
		"no transcript":            rewrite(t, whole, in("transcript/", gone)),
	} {
		b := project(t, nil)
		path := filepath.Join(t.TempDir(), "run.zip")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		var refused *app.Error
		if _, _, err := b.Import(t.Context(), path); !errors.As(err, &refused) || refused.Kind != app.InvalidRequest {
			t.Errorf("%s: the error is %v", name, err)
		}
		if list, err := b.Runs(t.Context(), app.Filter{Children: true}); err == nil && len(list) > 0 {
			t.Errorf("%s: %d runs are left", name, len(list))
		}
	}
	b := project(t, nil)
	imported, got, err := b.Import(t.Context(), path)
	if err != nil || got != head || imported.Outcome != run.Outcome {
		t.Fatalf("%+v, %s instead of %s, %v", imported, got, head, err)
	}
	reports, err := b.VerifyAudit(t.Context(), imported)
	if err != nil || !reports[0].OK || reports[0].JournalHead != head {
		t.Errorf("%+v, %v", reports, err)
	}
}

// A line of the journal that is longer than any run writes is refused before all of it is in memory.
func TestArchivesWithHugeLinesAreRefused(t *testing.T) {
	a := project(t, nil)
	run := start(t, a, "shell", allowed)
	path := filepath.Join(t.TempDir(), "run.zip")
	if _, err := a.Export(t.Context(), run, path); err != nil {
		t.Fatal(err)
	}
	in, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	huge := filepath.Join(t.TempDir(), "huge.zip")
	f, err := os.Create(huge)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out, spaces := zip.NewWriter(f), bytes.Repeat([]byte(" "), 1<<20)
	for _, entry := range in.File {
		text, err := entry.Open()
		if err != nil {
			t.Fatal(err)
		}
		w, err := out.CreateHeader(&zip.FileHeader{Name: entry.Name, Method: zip.Store})
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; entry.Name == "journal.ndjson" && i < 300; i++ {
			if _, err := w.Write(spaces); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := io.Copy(w, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	var refused *app.Error
	_, _, err = project(t, nil).Import(t.Context(), huge)
	if !errors.As(err, &refused) || refused.Kind != app.InvalidRequest || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("%v", err)
	}
}

// An archive contains the consent to its commands that its author gave. It is not enough to continue a run.
func TestImportedRunsDoNotContinue(t *testing.T) {
	a, b := project(t, nil), project(t, nil)
	run := start(t, a, "shell", allowed)
	path := filepath.Join(t.TempDir(), "run.zip")
	if _, err := a.Export(t.Context(), run, path); err != nil {
		t.Fatal(err)
	}
	again := app.ResumeRequest{Run: run.ID, From: app.FromCurrent}
	for range 2 { // also after it was removed
		if _, _, err := b.Import(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		var refused *app.Error
		if _, err := b.PrepareResume(t.Context(), again); !errors.As(err, &refused) ||
			refused.Reason != app.NotResumable {
			t.Errorf("the imported run continues: %v", err)
		}
		if err := b.Remove(t.Context(), run.ID, journal.Removal{}); err != nil {
			t.Fatal(err)
		}
	}
	var exists *app.Error
	if _, _, err := a.Import(t.Context(), path); !errors.As(err, &exists) || exists.Kind != app.Conflict {
		t.Errorf("the run is imported over itself: %v", err)
	}
	if _, err := a.PrepareResume(t.Context(), again); err != nil {
		t.Errorf("the run that was started here does not continue: %v", err)
	}
}
