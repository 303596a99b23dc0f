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

// gated waits for a decision about what its first step has made.
const gated = "---\nname: gated\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: Make, ask, hand over.\n---\n" +
	"```step\nid: make\ntype: transform\ndescription: Make it\nwrites: [state.draft]\ncode:\n  language: sh\n" +
	"  script: |\n    " + trace + "\n```\n" +
	"```step\nid: ok\ntype: gate\ngate_method: human_review\ndescription: Is it good\nreads: [state.draft]\n" +
	"writes: [state.ok]\n```\n" +
	"```step\nid: hand_over\ntype: transform\ndescription: Hand it over\nreads: [state.draft]\nwrites: [output]\n" +
	"code:\n  language: sh\n  script: |\n    " + trace + "\n```\n" +
	"```runtime\nhuman_in_the_loop: true\n```\n"

// faulty is a project that something happens to.
type faulty struct {
	t   *testing.T
	dir string
	// wrap lays a fault around its journal.
	wrap func(journal.Store) journal.Store
}

func newFaulty(t *testing.T) *faulty {
	t.Helper()
	f := &faulty{t: t, dir: t.TempDir()}
	put(t, filepath.Join(f.dir, "gated.md"), gated)
	put(t, filepath.Join(f.dir, ".espalier", "keep"), "")
	return f
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	approve(t, path)
}

func (f *faulty) try(args ...string) (code int, out, told string) {
	f.t.Helper()
	var stdout, stderr bytes.Buffer
	code = cli.Main(cli.Environment{
		Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Dir: f.dir, Journal: f.wrap,
		Getenv: func(name string) string {
			if name == "HOME" {
				return f.dir
			}
			return ""
		},
	}, args)
	return code, stdout.String(), stderr.String()
}

// exits runs a command that must end with this code and tell all of this.
func (f *faulty) exits(want int, tells []string, args ...string) string {
	f.t.Helper()
	code, out, told := f.try(args...)
	if code != want {
		f.t.Errorf("espalier %s: exit code %d, not %d\n%s", strings.Join(args, " "), code, want, told)
	}
	for _, text := range tells {
		if !strings.Contains(told, text) {
			f.t.Errorf("espalier %s does not tell %q but\n%s", strings.Join(args, " "), text, told)
		}
	}
	return out
}

// waits begins a run that waits at its gate.
func (f *faulty) waits() {
	f.t.Helper()
	f.exits(4, nil, "run", "gated.md", "--allow-shell", "--run-id", errandRun)
}

func (f *faulty) once(keys ...string) {
	f.t.Helper()
	if got := traces(f.dir); fmt.Sprint(got) != fmt.Sprint(keys) {
		f.t.Errorf("done was %q, not %q", got, keys)
	}
}

func (f *faulty) journal() string { return filepath.Join(f.dir, ".espalier", "espalier.db") }

// TestDamagedJournal: nothing is guessed, nothing is overwritten, and what to do is said.
func TestDamagedJournal(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(t *testing.T, sound []byte) []byte
		tells  []string
	}{
		"bytes in the middle": {
			damage: func(_ *testing.T, sound []byte) []byte {
				damaged := bytes.Clone(sound)
				// All that stands behind the first pages, which say what is where.
				copy(damaged[len(damaged)/4:], bytes.Repeat([]byte{0xff}, len(damaged)/2))
				return damaged
			},
			tells: []string{"the journal is damaged", "from a backup"},
		},
		"its second half gone": {
			damage: func(_ *testing.T, sound []byte) []byte { return sound[:len(sound)/2] },
			tells:  []string{"the journal is damaged", "espalier.db", "from a backup"},
		},
		"something else in its place": {
			damage: func(*testing.T, []byte) []byte { return []byte(strings.Repeat("shopping list ", 100)) },
			tells:  []string{"the file is not a journal", "espalier.db", "Move that file away"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFaulty(t)
			f.waits()
			sound, err := os.ReadFile(f.journal())
			if err != nil {
				t.Fatal(err)
			}
			damaged := c.damage(t, sound)
			put(t, f.journal(), string(damaged))
			f.exits(6, c.tells, "status", errandRun)
			f.exits(6, c.tells, "approve", errandRun)
			f.exits(6, c.tells, "resume", errandRun)
			f.once("make#0")
			if now, err := os.ReadFile(f.journal()); err != nil || !bytes.Equal(now, damaged) {
				t.Error("the damaged journal has been changed")
			}
			// With the copy from the backup nothing is lost.
			put(t, f.journal(), string(sound))
			f.exits(0, nil, "approve", errandRun)
			f.once("make#0", "hand_over#0")
		})
	}
}

// TestStorageThatCannotBeMade: nothing is started.
func TestStorageThatCannotBeMade(t *testing.T) {
	f := newFaulty(t)
	if err := os.RemoveAll(filepath.Join(f.dir, ".espalier")); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(f.dir, "espalier.yaml"), "")
	put(t, filepath.Join(f.dir, ".espalier"), "a file in the place of the folder")
	for _, args := range [][]string{{"run", "gated.md", "--allow-shell"}, {"work"}} {
		f.exits(6,
			[]string{".espalier", "cannot be opened", "Nothing was started", "Check that it is a writable folder"},
			args...)
	}
	f.once()
}

// failing is a journal on a disk that fails from one write on.
type failing struct {
	journal.Store
	mu      *sync.Mutex
	room    *int // writes that still succeed
	why     error
	written bool // the write at which it fails is there all the same
}

func (s failing) Append(b journal.Batch, done func(error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed := func(error) { done(fmt.Errorf("%w: espalier.db", s.why)) }
	switch *s.room--; {
	case *s.room >= 0:
		s.Store.Append(b, done)
	case *s.room == -1 && s.written:
		s.Store.Append(b, failed)
	default:
		go failed(nil)
	}
}

// TestFullDisk: the disk is full at every write in turn. It is said, and with
// room again the run goes on from where it was.
func TestFullDisk(t *testing.T) {
	diskFails(t, failing{why: journal.ErrFull}, "the disk is full", "Free space on the disk")
}

// TestADiskThatFails: every write in turn is the one after which nobody knows
// what the disk has. It is said, and whatever it has, the run continues from there.
func TestADiskThatFails(t *testing.T) {
	for _, written := range []bool{false, true} {
		diskFails(t, failing{why: journal.ErrNotKept, written: written},
			"the disk did not keep what was written", "Check the disk first")
	}
}

func diskFails(t *testing.T, how failing, tells ...string) {
	t.Helper()
	for room := 0; ; room++ {
		f := newFaulty(t)
		left := room
		var mu sync.Mutex
		f.wrap = func(s journal.Store) journal.Store {
			how.Store, how.mu, how.room = s, &mu, &left
			return how
		}
		code, _, told := f.try("run", "gated.md", "--allow-shell", "--run-id", errandRun)
		if code == 4 { // it fitted
			if room < 3 {
				t.Fatalf("the whole run is %d writes", room)
			}
			break
		}
		if code != 6 || !strings.Contains(told, tells[0]) || !strings.Contains(told, tells[1]) {
			t.Errorf("room for %d writes: exit code %d\n%s", room, code, told)
		}
		f.wrap = nil
		if code, _, _ := f.try("status", errandRun); code == 2 {
			f.waits() // it never began
		} else {
			f.try("resume", errandRun)
		}
		var a asked
		if err := json.Unmarshal([]byte(f.exits(0, nil, "status", errandRun, "--json")), &a); err != nil {
			t.Fatal(err)
		}
		e := &errand{Dir: f.dir}
		for range 5 {
			f.try(e.answer(&a)...)
			a = asked{}
			if err := json.Unmarshal([]byte(f.exits(0, nil, "status", errandRun, "--json")), &a); err != nil {
				t.Fatal(err)
			}
			if a.Status == "finished" {
				break
			}
		}
		if a.Outcome != "ok" {
			t.Errorf("room for %d writes: %+v", room, a)
		}
		f.once("make#0", "hand_over#0")
	}
}

// TestTranscriptIsMadeAgain: deleted or cut off, it comes back byte for byte,
// also in the middle of a run.
func TestTranscriptIsMadeAgain(t *testing.T) {
	f := newFaulty(t)
	f.waits()
	path := filepath.Join(f.dir, ".espalier", "storage", "transcripts", errandRun+".jsonl")
	spoil := func(change func(text []byte)) {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		change(text)
		if out := f.exits(0, nil, "transcript", errandRun); out != string(text) {
			t.Errorf("made again:\n%s\nnot\n%s", out, text)
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, text) {
			t.Errorf("the file holds\n%s\nnot\n%s", now, text)
		}
	}
	gone := func([]byte) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // while it waits, and when it is over
		spoil(gone)
		spoil(func(text []byte) { put(t, path, string(text[:len(text)/2])) })
		spoil(func([]byte) { put(t, path, "") })
		f.try("approve", errandRun)
	}
}

// TestDecisionsAreSingleUse: approving twice, and approving what has changed
// since it was shown.
func TestDecisionsAreSingleUse(t *testing.T) {
	f := newFaulty(t)
	f.waits()
	var shown struct {
		Gates []struct{ Digest string } `json:"gates"`
	}
	if err := json.Unmarshal([]byte(f.exits(0, nil, "status", errandRun, "--json")), &shown); err != nil {
		t.Fatal(err)
	}
	f.exits(0, nil, "edit", errandRun, "state.draft=other")
	f.exits(2, []string{"look at it again"}, "approve", errandRun, "--digest", shown.Gates[0].Digest)
	f.once("make#0")
	if err := json.Unmarshal([]byte(f.exits(0, nil, "status", errandRun, "--json")), &shown); err != nil {
		t.Fatal(err)
	}
	f.exits(0, nil, "approve", errandRun, "--digest", shown.Gates[0].Digest)
	f.exits(2, nil, "approve", errandRun)
	f.once("make#0", "hand_over#0")
}
