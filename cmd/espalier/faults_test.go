package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/espalier-run/espalier/internal/cli"
	"github.com/espalier-run/espalier/internal/journal"
)

// handOverFlow waits for a decision about what its first step has made.
const handOverFlow = "---\nname: gated\nkind: agent-flow/workflow\nversion: 1.0.0\n" +
	"description: Make, ask, hand over.\n---\n" +
	"```step\nid: make\ntype: transform\ndescription: Make it\nwrites: [state.draft]\ncode:\n  language: sh\n" +
	"  script: |\n    " + recordEffect + "\n```\n" +
	"```step\nid: ok\ntype: gate\ngate_method: human_review\ndescription: Is it good\nreads: [state.draft]\n" +
	"writes: [state.ok]\n```\n" +
	"```step\nid: hand_over\ntype: transform\ndescription: Hand it over\nreads: [state.draft]\nwrites: [output]\n" +
	"code:\n  language: sh\n  script: |\n    " + recordEffect + "\n```\n" +
	"```runtime\nhuman_in_the_loop: true\n```\n"

// faultyProject is a project into which tests inject faults.
type faultyProject struct {
	t   *testing.T
	dir string
	// wrapJournal wraps its journal with a fault.
	wrapJournal func(journal.Store) journal.Store
}

func newFaultyProject(t *testing.T) *faultyProject {
	t.Helper()
	f := &faultyProject{t: t, dir: t.TempDir()}
	writeApproved(t, filepath.Join(f.dir, "gated.md"), handOverFlow)
	writeApproved(t, filepath.Join(f.dir, ".espalier", "keep"), "")
	return f
}

func writeApproved(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	approve(t, path)
}

// run runs a command in this process.
func (f *faultyProject) run(args ...string) (code int, out, errs string) {
	f.t.Helper()
	var stdout, stderr bytes.Buffer
	code = cli.Main(cli.Environment{
		Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Dir: f.dir, Journal: f.wrapJournal,
		Getenv: func(name string) string {
			if name == "HOME" {
				return f.dir
			}
			return ""
		},
	}, args)
	return code, stdout.String(), stderr.String()
}

// wantExit runs a command and checks its exit code and texts that it prints to stderr. It returns its stdout.
func (f *faultyProject) wantExit(want int, wantStderr []string, args ...string) string {
	f.t.Helper()
	code, out, stderr := f.run(args...)
	if code != want {
		f.t.Errorf("espalier %s: exit code %d, want %d\n%s", strings.Join(args, " "), code, want, stderr)
	}
	for _, text := range wantStderr {
		if !strings.Contains(stderr, text) {
			f.t.Errorf("espalier %s does not print %q, but\n%s", strings.Join(args, " "), text, stderr)
		}
	}
	return out
}

// startAtGate starts a run, which waits at its gate.
func (f *faultyProject) startAtGate() {
	f.t.Helper()
	f.wantExit(4, nil, "run", "gated.md", "--allow-shell", "--run-id", testRunID)
}

// wantEffects checks that the steps had these side effects, in this order.
func (f *faultyProject) wantEffects(keys ...string) {
	f.t.Helper()
	if got := recordedEffects(f.dir); fmt.Sprint(got) != fmt.Sprint(keys) {
		f.t.Errorf("effects %q, want %q", got, keys)
	}
}

func (f *faultyProject) journalPath() string { return filepath.Join(f.dir, ".espalier", "espalier.db") }

// TestDamagedJournalIsRefusedAndStaysUnchanged checks that commands refuse a damaged journal, leave it unchanged and
// say what to do.
func TestDamagedJournalIsRefusedAndStaysUnchanged(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(t *testing.T, sound []byte) []byte
		stderr []string
	}{
		"bytes in the middle": {
			damage: func(_ *testing.T, sound []byte) []byte {
				damaged := bytes.Clone(sound)
				// The first pages stay as they are; they describe where everything is.
				copy(damaged[len(damaged)/4:], bytes.Repeat([]byte{0xff}, len(damaged)/2))
				return damaged
			},
			stderr: []string{"the journal is damaged", "from a backup"},
		},
		"its second half gone": {
			damage: func(_ *testing.T, sound []byte) []byte { return sound[:len(sound)/2] },
			stderr: []string{"the journal is damaged", "espalier.db", "from a backup"},
		},
		"something else in its place": {
			damage: func(*testing.T, []byte) []byte { return []byte(strings.Repeat("shopping list ", 100)) },
			stderr: []string{"the file is not a journal", "espalier.db", "Move that file away"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFaultyProject(t)
			f.startAtGate()
			sound, err := os.ReadFile(f.journalPath())
			if err != nil {
				t.Fatal(err)
			}
			damaged := c.damage(t, sound)
			writeApproved(t, f.journalPath(), string(damaged))
			f.wantExit(6, c.stderr, "status", testRunID)
			f.wantExit(6, c.stderr, "approve", testRunID)
			f.wantExit(6, c.stderr, "resume", testRunID)
			f.wantEffects("make#0")
			if now, err := os.ReadFile(f.journalPath()); err != nil || !bytes.Equal(now, damaged) {
				t.Error("the damaged journal was changed")
			}
			// A copy from a backup restores everything.
			writeApproved(t, f.journalPath(), string(sound))
			f.wantExit(0, nil, "approve", testRunID)
			f.wantEffects("make#0", "hand_over#0")
		})
	}
}

// TestStorageThatCannotBeCreatedStartsNothing checks the error when the folder of the journal cannot be created.
func TestStorageThatCannotBeCreatedStartsNothing(t *testing.T) {
	f := newFaultyProject(t)
	if err := os.RemoveAll(filepath.Join(f.dir, ".espalier")); err != nil {
		t.Fatal(err)
	}
	writeApproved(t, filepath.Join(f.dir, "espalier.yaml"), "")
	writeApproved(t, filepath.Join(f.dir, ".espalier"), "a file in the place of the folder")
	for _, args := range [][]string{{"run", "gated.md", "--allow-shell"}, {"work"}} {
		f.wantExit(6,
			[]string{".espalier", "cannot be opened", "Nothing was started", "Check that it is a writable folder"},
			args...)
	}
	f.wantEffects()
}

// failingStore is a journal on a disk that fails from one write on.
type failingStore struct {
	journal.Store
	mu         *sync.Mutex
	writesLeft *int // writes that still succeed
	err        error
	applied    bool // the write that fails is stored nevertheless
}

func (s failingStore) Append(b journal.Batch, done func(error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed := func(error) { done(fmt.Errorf("%w: espalier.db", s.err)) }
	switch *s.writesLeft--; {
	case *s.writesLeft >= 0:
		s.Store.Append(b, done)
	case *s.writesLeft == -1 && s.applied:
		s.Store.Append(b, failed)
	default:
		go failed(nil)
	}
}

// TestRunContinuesAfterFullDisk fails every write in turn because the disk is full. The command reports it, and with
// free space the run continues where it stopped.
func TestRunContinuesAfterFullDisk(t *testing.T) {
	testDiskFailure(t, failingStore{err: journal.ErrFull}, "the disk is full", "Free space on the disk")
}

// TestRunContinuesAfterFailedDiskWrite fails every write in turn, without and with storing it. The command reports the
// failure, and the run continues from what is stored.
func TestRunContinuesAfterFailedDiskWrite(t *testing.T) {
	for _, written := range []bool{false, true} {
		testDiskFailure(t, failingStore{err: journal.ErrNotKept, applied: written},
			"the disk did not keep what was written", "Check the disk first")
	}
}

func testDiskFailure(t *testing.T, how failingStore, wantStderr ...string) {
	t.Helper()
	for room := 0; ; room++ {
		f := newFaultyProject(t)
		left := room
		var mu sync.Mutex
		f.wrapJournal = func(s journal.Store) journal.Store {
			how.Store, how.mu, how.writesLeft = s, &mu, &left
			return how
		}
		code, _, stderr := f.run("run", "gated.md", "--allow-shell", "--run-id", testRunID)
		if code == 4 { // all writes succeeded
			if room < 3 {
				t.Fatalf("the whole run has only %d writes", room)
			}
			break
		}
		if code != 6 || !strings.Contains(stderr, wantStderr[0]) || !strings.Contains(stderr, wantStderr[1]) {
			t.Errorf("room for %d writes: exit code %d\n%s", room, code, stderr)
		}
		f.wrapJournal = nil
		if code, _, _ := f.run("status", testRunID); code == 2 {
			f.startAtGate() // it never started
		} else {
			f.run("resume", testRunID)
		}
		var a statusOutput
		if err := json.Unmarshal([]byte(f.wantExit(0, nil, "status", testRunID, "--json")), &a); err != nil {
			t.Fatal(err)
		}
		e := &simulatedUser{Dir: f.dir}
		for range 5 {
			f.run(e.nextCommand(&a)...)
			a = statusOutput{}
			if err := json.Unmarshal([]byte(f.wantExit(0, nil, "status", testRunID, "--json")), &a); err != nil {
				t.Fatal(err)
			}
			if a.Status == "finished" {
				break
			}
		}
		if a.Outcome != "ok" {
			t.Errorf("room for %d writes: %+v", room, a)
		}
		f.wantEffects("make#0", "hand_over#0")
	}
}

// TestDeletedTranscriptIsRebuiltByteForByte deletes and truncates the transcript, also in the middle of a run.
func TestDeletedTranscriptIsRebuiltByteForByte(t *testing.T) {
	f := newFaultyProject(t)
	f.startAtGate()
	path := filepath.Join(f.dir, ".espalier", "storage", "transcripts", testRunID+".jsonl")
	spoil := func(change func(text []byte)) {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		change(text)
		if out := f.wantExit(0, nil, "transcript", testRunID); out != string(text) {
			t.Errorf("the rebuilt transcript is\n%s\nwant\n%s", out, text)
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, text) {
			t.Errorf("the file contains\n%s\nwant\n%s", now, text)
		}
	}
	gone := func([]byte) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // while it waits, and when it is over
		spoil(gone)
		spoil(func(text []byte) { writeApproved(t, path, string(text[:len(text)/2])) })
		spoil(func([]byte) { writeApproved(t, path, "") })
		f.run("approve", testRunID)
	}
}

// TestDecisionsAreSingleUse checks that a gate refuses a second approval, and one of content that has changed since it
// was shown.
func TestDecisionsAreSingleUse(t *testing.T) {
	f := newFaultyProject(t)
	f.startAtGate()
	var shown struct {
		Gates []struct{ Digest string } `json:"gates"`
	}
	if err := json.Unmarshal([]byte(f.wantExit(0, nil, "status", testRunID, "--json")), &shown); err != nil {
		t.Fatal(err)
	}
	f.wantExit(0, nil, "edit", testRunID, "state.draft=other")
	f.wantExit(2, []string{"changed after it was shown"}, "approve", testRunID, "--digest", shown.Gates[0].Digest)
	f.wantEffects("make#0")
	if err := json.Unmarshal([]byte(f.wantExit(0, nil, "status", testRunID, "--json")), &shown); err != nil {
		t.Fatal(err)
	}
	f.wantExit(0, nil, "approve", testRunID, "--digest", shown.Gates[0].Digest)
	f.wantExit(2, nil, "approve", testRunID)
	f.wantEffects("make#0", "hand_over#0")
}
