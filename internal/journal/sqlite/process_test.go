package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/journaltest"
	"github.com/espalier-run/espalier/internal/journal/sqlite"
)

// The test binary is also the other process.
func TestMain(m *testing.M) {
	dir := os.Getenv("ESPALIER_TEST_DIR")
	var err error
	switch os.Getenv("ESPALIER_TEST_ROLE") {
	case "append":
		err = appendForEver(dir)
	case "own":
		err = ownAndAnswer(dir)
	default:
		os.Exit(m.Run())
	}
	fmt.Println("error", err)
	os.Exit(1)
}

func startProcess(t testing.TB, role, dir string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "ESPALIER_TEST_ROLE="+role, "ESPALIER_TEST_DIR="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd, bufio.NewScanner(out)
}

const workers = 6

func worker(n int) journal.RunID { return journal.RunID(fmt.Sprintf("worker-%d", n)) }

// appendForEver carries several runs on from where an earlier process left
// them, with everything that a batch can hold, and says of each append that it
// has been acknowledged. Messages that it posts to itself carry the number of
// the event before; each must be answered once.
func appendForEver(dir string) error {
	s, err := sqlite.Open(filepath.Join(dir, "espalier.db"), sqlite.Options{Dead: everyone})
	if err != nil {
		return err
	}
	ctx := context.Background()
	fmt.Println("open")
	failed := make(chan error)
	for n := range workers {
		go func() { failed <- work(ctx, s, worker(n), n) }()
	}
	return <-failed
}

func work(ctx context.Context, s journal.Store, id journal.RunID, n int) error {
	me := journal.Owner(fmt.Sprint("process-", os.Getpid()))
	c, err := s.Claim(ctx, id, me)
	if errors.Is(err, journal.ErrUnknownRun) {
		if err := journal.Append(ctx, s, journaltest.Start(id, me)); err != nil {
			return err
		}
		c = journal.Claim{Fence: journal.FirstFence, Seq: 1}
	} else if err != nil {
		return err
	}
	for round := 0; ; round++ {
		inbox, err := s.Inbox(ctx, id)
		if err != nil {
			return err
		}
		b := journaltest.Steps(id, c.Fence, c.Seq, 1+(n+round)%4)
		for _, m := range inbox {
			b.Taken = append(b.Taken, m.ID)
			b.Events = append(b.Events, journal.Event{
				Seq: b.LastSeq() + 1, Fact: journal.InputRefused{Input: string(m.Data), Why: "a test"},
			})
		}
		if round%5 == 0 {
			b.Index = &journal.Index{Status: journal.Waiting, Wake: journal.Millis(b.LastSeq())}
			b.Snapshot = fmt.Append(nil, b.LastSeq())
			b.Blobs = []journal.Blob{journaltest.Definition(fmt.Sprint(id, b.LastSeq()))}
		}
		if err := journal.Append(ctx, s, b); err != nil {
			return err
		}
		c.Seq = b.LastSeq()
		fmt.Println("appended", id, c.Seq)
		if round%3 == 0 {
			if _, err := s.Enqueue(
				ctx, id, journal.Message{Kind: "note", Data: fmt.Append(nil, id, "/", c.Seq)},
			); err != nil {
				return err
			}
			fmt.Println("posted", id, c.Seq)
		}
	}
}

// What has been acknowledged is there after a kill at any moment, and what is
// there is whole.
func TestNothingAcknowledgedIsLost(t *testing.T) {
	rounds := 25
	if testing.Short() {
		rounds = 5
	}
	dir := t.TempDir()
	acknowledged := map[journal.RunID]journal.Seq{}
	posted := map[string]bool{}
	kills := 0
	for round := range rounds {
		cmd, out := startProcess(t, "append", dir)
		// Sometimes so early that the recovery itself is killed.
		lines := rand.IntN(1 << rand.IntN(12))
		for i := 0; out.Scan(); i++ {
			if i == lines {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				kills++
			}
			word, rest, _ := strings.Cut(out.Text(), " ")
			id, seq := journal.RunID(""), journal.Seq(0)
			fmt.Sscan(rest, &id, &seq)
			switch word {
			case "appended":
				acknowledged[id] = seq
			case "posted":
				posted[fmt.Sprint(id, "/", seq)] = true
			case "open":
			default:
				t.Fatalf("the other process: %s", out.Text())
			}
		}
		cmd.Wait()
		if round%3 == 2 || round == rounds-1 { // not each time, so that crashes pile up
			verify(t, dir, acknowledged, posted)
		}
	}
	t.Logf("%d kills, %d messages, last events %v", kills, len(posted), acknowledged)
}

func verify(t *testing.T, dir string, acknowledged map[journal.RunID]journal.Seq, posted map[string]bool) {
	t.Helper()
	s := open(t, dir)
	defer s.Close()
	seen := map[journal.RunID]journal.Seq{}
	for _, a := range journaltest.Tail(t, s, 0) {
		for _, e := range a.Events {
			if seen[a.Run]++; e.Seq != seen[a.Run] {
				t.Fatalf("in the tail, event %d of %s stands where %d should", e.Seq, a.Run, seen[a.Run])
			}
		}
	}
	answered := map[string]int{}
	for id, seq := range acknowledged {
		events := journaltest.Events(t, s, id, 0)
		if len(events) < int(seq) {
			t.Errorf("%s: event %d was acknowledged, the stream ends at %d", id, seq, len(events))
		}
		if len(events) != int(seen[id]) {
			t.Errorf("%s: %d events in its stream, %d in the tail", id, len(events), seen[id])
		}
		e, err := s.Entry(t.Context(), id)
		if err != nil || int(e.Seq) != len(events) {
			t.Errorf("%s: the index says %d, %v; the stream ends at %d", id, e.Seq, err, len(events))
		}
		if at, state, err := s.Snapshot(t.Context(), id); err != nil || at > 0 && string(state) != fmt.Sprint(at) {
			t.Errorf("%s: snapshot %q at %d, %v", id, state, at, err)
		}
		for _, e := range events {
			if refused, ok := e.Fact.(journal.InputRefused); ok {
				answered[refused.Input]++
			}
		}
		left, err := s.Inbox(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range left {
			answered[string(m.Data)]++
		}
	}
	for m := range posted {
		if answered[m] != 1 {
			t.Errorf("message %s is there %d times", m, answered[m])
		}
	}
}

// ownAndAnswer keeps the store busy with its own runs without pause, and answers
// the messages of another process to one run.
func ownAndAnswer(dir string) error {
	ctx := context.Background()
	s, err := sqlite.Open(filepath.Join(dir, "espalier.db"), sqlite.Options{})
	if err != nil {
		return err
	}
	for n := range 64 {
		id := journal.RunID(fmt.Sprint("busy-", n))
		if err := journal.Append(ctx, s, journaltest.Start(id, "busy")); err != nil {
			return err
		}
		seq := journal.Seq(1)
		var next func(error)
		next = func(err error) {
			if err != nil {
				fmt.Println("error", err)
				return
			}
			b := journaltest.Steps(id, 1, seq, 2)
			seq = b.LastSeq()
			s.Append(b, next)
		}
		next(nil)
	}
	if err := journal.Append(ctx, s, journaltest.Start("shared", "busy")); err != nil {
		return err
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	select {}
}

func TestTwoProcessesOnOneStore(t *testing.T) {
	dir := t.TempDir()
	cmd, out := startProcess(t, "own", dir)
	if !out.Scan() || out.Text() != "ready" {
		t.Fatalf("the other process: %s", out.Text())
	}
	var killed atomic.Bool
	s := openWith(t, dir, sqlite.Options{Dead: func(o journal.Owner) bool { return o == "busy" && killed.Load() }})
	defer s.Close()
	var owned *journal.OwnedError
	if _, err := s.Claim(t.Context(), "shared", "me"); !errors.As(err, &owned) || owned.Owner != "busy" {
		t.Fatalf("the living owner gave way: %v", err)
	}
	// Messages, runs of our own, and listings go on beside it.
	for n := range 30 {
		if owner, err := s.Enqueue(t.Context(), "shared", journal.Message{Kind: fmt.Sprint(n)}); err != nil ||
			owner != "busy" {
			t.Fatalf("%q, %v", owner, err)
		}
	}
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			id := journal.RunID(fmt.Sprint("mine-", n))
			if err := journal.Append(context.Background(), s, journaltest.Start(id, "me")); err != nil {
				t.Error(err)
			}
			for seq := range journal.Seq(20) {
				if err := journal.Append(context.Background(), s, journaltest.Steps(id, 1, seq+1, 1)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	posted, err := s.Inbox(t.Context(), "shared")
	if err != nil || len(posted) != 30 {
		t.Fatalf("%d messages, %v", len(posted), err)
	}
	for n, m := range posted {
		if m.Kind != fmt.Sprint(n) {
			t.Errorf("message %d is %q", n, m.Kind)
		}
	}
	// The other one dies; its runs can be claimed, and its appends no more.
	cmd.Process.Kill()
	cmd.Wait()
	killed.Store(true)
	c, err := s.Claim(t.Context(), "busy-0", "me")
	if err != nil || c.Fence <= journal.FirstFence {
		t.Fatalf("%+v, %v", c, err)
	}
	wantError(
		t, journal.Append(t.Context(), s, journaltest.Steps("busy-0", journal.FirstFence, c.Seq, 1)),
		journal.ErrConflict,
	)
	journaltest.Append(t, s, journaltest.Steps("busy-0", c.Fence, c.Seq, 1))
	for n := range 64 {
		journaltest.Events(t, s, journal.RunID(fmt.Sprint("busy-", n)), 0)
	}
}

// A reader sees what another process commits when it looks again.
func TestFollowSeesAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	reader, writer := open(t, dir), open(t, dir)
	defer reader.Close()
	defer writer.Close()
	seen := 0
	go func() {
		journaltest.Append(t, writer, journaltest.Start("a", "me"))
		for n := range journal.Seq(9) {
			journaltest.Append(t, writer, journaltest.Steps("a", 1, n+1, 1))
		}
	}()
	for a, err := range journal.Follow(t.Context(), reader, 0, 1e6) {
		if err != nil {
			t.Fatal(err)
		}
		if seen++; a.Events[0].Seq != journal.Seq(seen) {
			t.Fatalf("event %d is number %d", a.Events[0].Seq, seen)
		}
		if seen == 10 {
			break
		}
	}
}
