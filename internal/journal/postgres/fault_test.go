//go:build linux

package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/journaltest"
	"github.com/espalier-run/espalier/internal/journal/postgres"
	"github.com/espalier-run/espalier/internal/pgtest"
)

// proxy forwards connections to a server and can cut them.
type proxy struct {
	dir    string
	target string
	// cutReply and cutRequest are how many of the next replies or requests are
	// lost together with their connection.
	cutReply, cutRequest atomic.Int32
	cuts                 atomic.Int32
	passReply            atomic.Int32 // replies before those that are lost
	// vanishAt is part of a statement. When it has been prepared and sent, nothing passes any more, and connections
	// stay open until end is called.
	vanishAt string
	vanished atomic.Bool
	ended    context.Context
	end      func()
}

func newProxy(t *testing.T, server *pgtest.Server) *proxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgproxy-")
	if err != nil {
		t.Fatal(err)
	}
	const socket = ".s.PGSQL.5432"
	l, err := net.Listen("unix", filepath.Join(dir, socket))
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{dir: dir, target: filepath.Join(server.Dir(), socket)}
	p.ended, p.end = context.WithCancel(context.Background())
	t.Cleanup(func() { p.end(); l.Close(); os.RemoveAll(dir) })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(client)
		}
	}()
	return p
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial("unix", p.target)
	if err != nil {
		client.Close()
		return
	}
	var wg sync.WaitGroup
	forward := func(to, from net.Conn, cut *atomic.Int32) {
		defer to.Close()
		defer from.Close()
		buffer := make([]byte, 1<<16)
		prepared := false
		for {
			n, err := from.Read(buffer)
			passes := cut == &p.cutReply && p.passReply.Load() > 0 && p.passReply.Add(-1) >= 0
			if n > 0 && !passes && cut.Load() > 0 && cut.Add(-1) >= 0 {
				p.cuts.Add(1)
				return
			}
			if p.vanished.Load() {
				<-p.ended.Done()
				return
			}
			if prepared {
				p.vanished.Store(true)
			}
			prepared = p.vanishAt != "" && bytes.Contains(buffer[:n], []byte(p.vanishAt))
			if _, failed := to.Write(buffer[:n]); failed != nil || err != nil {
				return
			}
		}
	}
	wg.Go(func() { forward(server, client, &p.cutRequest) })
	wg.Go(func() { forward(client, server, &p.cutReply) })
	wg.Wait()
}

func (p *proxy) url(schema string) string {
	return fmt.Sprintf("postgres://espalier@/postgres?host=%s&schema=%s", url.QueryEscape(p.dir), schema)
}

// A connection that is lost while the server commits leaves the outcome open.
// The store finds out; no append is lost, and none happens twice.
func TestUnknownOutcomesAreResolved(t *testing.T) {
	p := newProxy(t, pgtest.Shared(t))
	s := openURL(t, p.url(schemaOf(t.TempDir())), postgres.Options{})
	const runs, steps = 4, 60
	for i := range runs {
		journaltest.Append(t, s, journaltest.Start(journal.RunID(fmt.Sprint("run-", i)), s.ID()))
	}
	messages := 0
	for n := range journal.Seq(steps) {
		switch n % 3 {
		case 1:
			p.cutReply.Store(1)
		case 2:
			p.cutRequest.Store(1)
		}
		outcomes := make(chan error, runs)
		for i := range runs {
			b := journaltest.Steps(journal.RunID(fmt.Sprint("run-", i)), 1, n+1, 1)
			s.Append(b, func(err error) { outcomes <- err })
		}
		for range runs {
			if err := <-outcomes; err != nil {
				t.Fatalf("step %d: %v", n, err)
			}
		}
		if n%5 == 0 {
			p.cutReply.Store(1)
			messages++
			if _, err := s.Enqueue(t.Context(), "run-0", journal.Message{Kind: "x"}); err != nil {
				t.Fatal(err)
			}
		}
		p.cutReply.Store(0)
		p.cutRequest.Store(0)
	}
	if p.cuts.Load() < steps/2 {
		t.Fatalf("only %d connections were cut", p.cuts.Load())
	}
	for i := range runs {
		if got := journaltest.Events(t, s, journal.RunID(fmt.Sprint("run-", i)), 0); len(got) != steps+1 {
			t.Errorf("run %d has %d events", i, len(got))
		}
	}
	if got := len(journaltest.Tail(t, s, 0)); got != runs*(steps+1) {
		t.Errorf("%d appends", got)
	}
	if got, err := s.Inbox(t.Context(), "run-0"); err != nil || len(got) != messages {
		t.Errorf("%d of %d messages, %v", len(got), messages, err)
	}
	// A release has no append that could tell.
	p.cutReply.Store(1)
	journaltest.Append(t, s, journal.Batch{Run: "run-0", Fence: 1, After: steps + 1, Release: true})
	if e, err := s.Entry(t.Context(), "run-0"); err != nil || e.Owner != "" {
		t.Errorf("%+v, %v", e, err)
	}
}

// A connection that is lost in the middle of a result does not repeat what had arrived.
func TestResultsAreReadOnce(t *testing.T) {
	p := newProxy(t, pgtest.Shared(t))
	s := openURL(t, p.url(schemaOf(t.TempDir())), postgres.Options{Lease: time.Hour})
	const run, appends, each = "run", 20, 1000
	journaltest.Append(t, s, journaltest.Start(run, s.ID()))
	for i := range journal.Seq(appends) {
		journaltest.Append(t, s, journaltest.Steps(run, 1, 1+i*each, each))
	}
	for pass := range int32(8) { // a reply is at most 64 KiB of a result
		p.passReply.Store(pass)
		p.cutReply.Store(1)
		if got := journaltest.Events(t, s, run, 0); len(got) != 1+appends*each {
			t.Errorf("%d events", len(got))
		}
		if got := journaltest.Tail(t, s, 0); len(got) != 1+appends {
			t.Errorf("%d appends", len(got))
		}
		if p.cutReply.Swap(0) > 0 {
			t.Errorf("%d replies were not cut", pass)
		}
	}
}

// beginElsewhere begins a transaction of another client.
func beginElsewhere(t *testing.T, server *pgtest.Server) pgx.Tx {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

// A statement that takes long is not given up while the server is there, also if its caller has a short wait limit.
func TestSlowStatementsAreNotGivenUp(t *testing.T) {
	dir := t.TempDir()
	server := pgtest.Shared(t)
	s := openURL(t, schemaURL(t, dir), postgres.Options{Lease: time.Hour})
	tx := beginElsewhere(t, server)
	if _, err := tx.Exec(t.Context(), "LOCK TABLE "+pgx.Identifier{schemaOf(dir), "runs"}.Sanitize()); err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := s.PendingInboxes(journal.WithWaitLimit(context.Background(), 0))
		read <- err
	}()
	awaitLock(t, server, read)
	for range 3 { // it has asked whether the server is there
		server.Number(t, "SELECT count(*) FROM pg_sleep(0.1)")
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-read; err != nil {
		t.Error(err)
	}
}

// Calls with one context share its wait limit: when one has waited in vain, the others fail at once.
func TestWaitLimitIsShared(t *testing.T) {
	server, err := pgtest.Start("fsync=off")
	pgtest.Require(t, err)
	defer server.Remove()
	s := openURL(t, server.URL("postgres"), postgres.Options{Lease: time.Hour})
	server.Kill()
	ctx := journal.WithWaitLimit(t.Context(), 10*time.Millisecond)
	_, first := s.Last(ctx)
	if !errors.Is(first, journal.ErrUnavailable) {
		t.Fatal(first)
	}
	if err := server.Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PendingInboxes(ctx); err != first { //nolint:errorlint // it is the same
		t.Errorf("the next call waits again: %v", err)
	}
	if _, err := s.Last(journal.WithoutWaitLimit(ctx)); err != nil {
		t.Error(err)
	}
}

// load appends to runs as fast as it can until it is ended, and then compares what was acknowledged with the journal.
func load(t *testing.T, s *postgres.Store) (end func()) {
	t.Helper()
	const runs = 16
	var acknowledged [runs]atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	for i := range runs {
		id := journal.RunID(fmt.Sprint("run-", i))
		wg.Go(func() {
			if err := journal.Append(context.Background(), s, journaltest.Start(id, s.ID())); err != nil {
				t.Error(err)
				return
			}
			for n := journal.Seq(1); !stop.Load(); n++ {
				acknowledged[i].Store(int64(n))
				if err := journal.Append(context.Background(), s, journaltest.Steps(id, 1, n, 1)); err != nil {
					t.Errorf("%s after %d: %v", id, n, err)
					return
				}
			}
		})
	}
	return func() {
		t.Helper()
		stop.Store(true)
		wg.Wait()
		for i := range runs {
			got := journaltest.Events(t, s, journal.RunID(fmt.Sprint("run-", i)), 0)
			if want := acknowledged[i].Load() + 1; int64(len(got)) != want {
				t.Errorf("run %d has %d events, of which %d are known", i, len(got), want)
			}
		}
	}
}

// The server is killed again and again under load: what was acknowledged is
// there, and nothing else is.
func TestServerKilledUnderLoad(t *testing.T) {
	server, err := pgtest.Start()
	pgtest.Require(t, err)
	defer server.Remove()
	s := openURL(t, server.URL("postgres"), postgres.Options{Lease: time.Minute})
	end := load(t, s)
	for range 3 {
		changed := s.Changed()
		<-changed // it works again
		server.Kill()
		if err := server.Run(); err != nil {
			t.Fatal(err)
		}
	}
	<-s.Changed()
	end()
}

// The primary server is lost under load, and a replica takes its place. With synchronous replication, what was
// acknowledged is there, and nothing else is.
func TestReplicaTakesOver(t *testing.T) {
	primary, err := pgtest.Start()
	pgtest.Require(t, err)
	defer primary.Remove()
	replica, err := primary.Replica()
	if err != nil {
		t.Fatal(err)
	}
	defer replica.Remove()
	s := openURL(t, fmt.Sprintf("postgres://espalier@/postgres?host=%s,%s&target_session_attrs=read-write",
		primary.Dir(), replica.Dir()), postgres.Options{Lease: time.Minute})
	end := load(t, s)
	<-s.Changed()
	primary.Kill()
	if err := replica.Promote(); err != nil {
		t.Fatal(err)
	}
	<-s.Changed()
	end()
}

// A process that others have declared dead claims nothing under its old name: no other process would find such a run.
func TestFencedProcessClaimsNothing(t *testing.T) {
	dir := t.TempDir()
	options := postgres.Options{Lease: time.Hour} // it does not notice by itself
	paused, next := openURL(t, schemaURL(t, dir), options), openURL(t, schemaURL(t, dir), options)
	old := paused.ID()
	postgres.Leave(t, paused, old)
	none := func(journal.RunID) bool { return false }
	if _, err := next.ClaimNext(t.Context(), next.ID(), 1, none); err != nil { // which seals the old name
		t.Fatal(err)
	}
	if err := openURL(t, schemaURL(t, dir), options).Close(); err != nil { // which forgets sealed names without runs
		t.Fatal(err)
	}
	journaltest.Append(t, next, journaltest.Start("a", ""))
	journaltest.Append(t, next, journaltest.Start("b", ""))
	if got, err := paused.ClaimNext(t.Context(), old, 2, none); !errors.Is(err, journal.ErrFenced) {
		t.Errorf("claimed %q, %v", got, err)
	}
	if claim, err := paused.Claim(t.Context(), "a", old); !errors.Is(err, journal.ErrFenced) {
		t.Errorf("claimed %+v, %v", claim, err)
	}
	if paused.ID() == old {
		t.Error("the process has no new name")
	}
	if got, err := paused.ClaimNext(t.Context(), paused.ID(), 2, none); err != nil || len(got) != 2 {
		t.Errorf("under its new name it has claimed %q, %v", got, err)
	}
}

// Wake-ups arrive as notifications. A process that receives them does not poll.
func TestWakesAreNotifications(t *testing.T) {
	dir := t.TempDir()
	sleeper, waker := openURL(t, schemaURL(t, dir), postgres.Options{}),
		openURL(t, schemaURL(t, dir), postgres.Options{})
	wakes := sleeper.Wakes()
	for quiet := false; !quiet; {
		select {
		case <-wakes: // for what came before
		case <-time.After(postgres.PollsWithin):
			quiet = true
		}
	}
	waker.Wake(sleeper.ID())
	<-wakes
	waker.Wake("") // all processes
	<-wakes
}

// A process that does not renew its lease loses its runs at once and for all:
// nothing that it has queued gets in, and it continues under a new name.
func TestFencedProcessAppendsNothing(t *testing.T) {
	dir := t.TempDir()
	paused, next := openURL(t, schemaURL(t, dir), postgres.Options{}), openURL(t, schemaURL(t, dir), postgres.Options{})
	old := paused.ID()
	const runs = 16
	for i := range runs {
		journaltest.Append(t, paused, journaltest.Start(journal.RunID(fmt.Sprint("run-", i)), old))
	}
	postgres.Leave(t, paused, old) // as if it had slept beyond its lease
	claim, err := next.Claim(t.Context(), "run-0", next.ID())
	if err != nil {
		t.Fatal(err)
	}
	for i := range runs {
		err := journal.Append(t.Context(), paused, journaltest.Steps(journal.RunID(fmt.Sprint("run-", i)), 1, 1, 1))
		fenced := errors.Is(err, journal.ErrFenced)
		if !fenced && (i == 0 || !errors.Is(err, journal.ErrConflict)) {
			t.Errorf("run %d: %v", i, err)
		}
	}
	if paused.ID() == old || !next.Dead(old) || next.Dead(paused.ID()) {
		t.Errorf("the process is still %q; dead: %t, %t", paused.ID(), next.Dead(old), next.Dead(paused.ID()))
	}
	journaltest.Append(t, next, journaltest.Steps("run-0", claim.Fence, claim.Seq, 1))
	// The others are claimed by whichever process comes first, also the old one.
	got, err := paused.ClaimNext(t.Context(), paused.ID(), runs, func(journal.RunID) bool { return false })
	if err != nil || len(got) != runs-1 {
		t.Errorf("claimed %q, %v", got, err)
	}
}

// A process whose machine disappears in the middle of a claim does not keep its locks, and so not its runs.
func TestLostProcessKeepsNoLocks(t *testing.T) {
	server := pgtest.Shared(t)
	dir := t.TempDir()
	p := newProxy(t, server)
	p.vanishAt = "FOR SHARE"
	options := postgres.Options{Lease: time.Second}
	lost, other := openURL(t, p.url(schemaOf(dir)), options), openURL(t, schemaURL(t, dir), options)
	journaltest.Append(t, lost, journaltest.Start("r", lost.ID()))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	none := func(journal.RunID) bool { return false }
	go func() {
		defer close(ended)
		_, _ = lost.ClaimNext(ctx, lost.ID(), 1, none)
	}()
	defer func() { cancel(); p.end(); <-ended }()
	limited, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for claimed := 0; claimed == 0; time.Sleep(50 * time.Millisecond) { // nothing announces the end of a lease
		if !p.vanished.Load() {
			continue
		}
		runs, err := other.ClaimNext(limited, other.ID(), 1, none)
		if err != nil {
			t.Fatal(err)
		}
		claimed = len(runs)
	}
}

// The server notices within a lease that the machine of a process is gone, also if it does not wait for a statement.
func TestServerLooksForLostMachines(t *testing.T) {
	address := fmt.Sprintf("127.213.%d.%d", os.Getpid()/250%250, os.Getpid()%250)
	server, err := pgtest.Start("fsync=off", "listen_addresses="+address)
	pgtest.Require(t, err)
	t.Cleanup(server.Remove)
	if err := server.Allow("127.0.0.0/8"); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"":                        "5 2 2 9000",
		"&lease=2s":               "1 1 2 3000",
		"&tcp_keepalives_idle=60": "60 2 2 9000",
	} {
		s := openURL(t, "postgres://espalier@"+address+"/postgres?sslmode=disable"+url, postgres.Options{})
		if got := postgres.Keepalives(t, s); got[0] != want || got[1] != want {
			t.Errorf("%q: got %q, want %s", url, got, want)
		}
	}
}

// After an outage, all leases have ended. The process that is back first does not declare the others dead.
func TestProcessesThatReturnLateAreAlive(t *testing.T) {
	server := pgtest.Shared(t)
	dir := t.TempDir()
	early, late := newProxy(t, server), newProxy(t, server)
	options := postgres.Options{Lease: 4 * time.Second} // what follows has to happen within that time
	first, second := openURL(t, early.url(schemaOf(dir)), options), openURL(t, late.url(schemaOf(dir)), options)
	id := second.ID()
	journaltest.Append(t, second, journaltest.Start("r", id))
	const all = 1 << 30
	early.cutRequest.Store(all)
	late.cutRequest.Store(all)
	workers := pgx.Identifier{schemaOf(dir), "workers"}.Sanitize()
	for server.Number(t, "SELECT count(*) FROM "+workers+" WHERE until < clock_timestamp()") < 2 {
		time.Sleep(50 * time.Millisecond) // nothing announces the end of a lease
	}
	early.cutRequest.Store(0)
	none := func(journal.RunID) bool { return false }
	if claimed, err := first.ClaimNext(t.Context(), first.ID(), 1, none); err != nil || len(claimed) > 0 {
		t.Errorf("claimed %q, %v", claimed, err)
	}
	if _, err := first.Claim(t.Context(), "r", first.ID()); !errors.As(err, new(*journal.OwnedError)) {
		t.Errorf("claimed: %v", err)
	}
	late.cutRequest.Store(0)
	journaltest.Append(t, second, journaltest.Steps("r", 1, 1, 1))
	if second.ID() != id {
		t.Error("the second process was taken for dead")
	}
}

// Sealing a process waits for the append that it has in flight.
func TestClaimWaitsForTheAppendInFlight(t *testing.T) {
	dir := t.TempDir()
	server := pgtest.Shared(t)
	a, b := openURL(t, schemaURL(t, dir), postgres.Options{}), openURL(t, schemaURL(t, dir), postgres.Options{})
	journaltest.Append(t, a, journaltest.Start("r", a.ID()))
	tx := beginElsewhere(t, server)
	workers := pgx.Identifier{schemaOf(dir), "workers"}.Sanitize()
	if _, err := tx.Exec(t.Context(), "SELECT 1 FROM "+workers+" WHERE id = $1 FOR KEY SHARE", a.ID()); err != nil {
		t.Fatal(err)
	}
	postgres.Leave(t, a, a.ID())
	claimed := make(chan error, 1)
	go func() {
		_, err := b.Claim(context.Background(), "r", b.ID())
		claimed <- err
	}()
	awaitLock(t, server, claimed)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-claimed; err != nil {
		t.Error(err)
	}
}

// awaitLock waits until a statement waits for a lock. The statement fails the
// test if it ends instead.
func awaitLock(t *testing.T, server *pgtest.Server, ended <-chan error) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for waiting := false; !waiting; {
		select {
		case err := <-ended:
			t.Fatalf("the statement did not wait: %v", err)
		default:
		}
		err := conn.QueryRow(t.Context(), "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted)").Scan(&waiting)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A transaction that began earlier and commits later is not skipped.
func TestTailStopsAtTheOldestRunningTransaction(t *testing.T) {
	dir := t.TempDir()
	server := pgtest.Shared(t)
	s := openURL(t, schemaURL(t, dir), postgres.Options{})
	journaltest.Append(t, s, journaltest.Start("r", "me"))
	first := journaltest.Tail(t, s, 0)
	tx := beginElsewhere(t, server)
	q := func(table string) string { return pgx.Identifier{schemaOf(dir), table}.Sanitize() }
	if _, err := tx.Exec(t.Context(), `INSERT INTO `+q("appends")+` (run, first, last, at, pos, token, body)
		SELECT n, 2, 2, 0, (SELECT era + (pg_current_xact_id()::text::bigint << 10) + 1 FROM `+q("journal")+`), 0,
			convert_to('{"q":2,"t":0,"k":"Paused","d":{}}' || chr(10), 'UTF8') FROM `+q("runs")+` WHERE id = 'r'`); err != nil {
		t.Fatal(err)
	}
	journaltest.Append(t, s, journaltest.Start("later", "me"))
	if got := journaltest.Tail(t, s, first[0].Pos); len(got) != 0 {
		t.Fatalf("a reader would skip an append that is still to be committed: %+v", got)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := journaltest.Tail(t, s, first[0].Pos); len(got) != 2 || got[0].Run != "r" || got[1].Run != "later" {
		t.Errorf("%+v", got)
	}
}

// A dump that is restored into a new cluster has positions beyond its
// transaction ids.
func TestRestoredDumpStartsANewEra(t *testing.T) {
	dir := t.TempDir()
	s := openURL(t, schemaURL(t, dir), postgres.Options{})
	journaltest.Append(t, s, journaltest.Start("r", "me"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	appends := pgx.Identifier{schemaOf(dir), "appends"}.Sanitize()
	pgtest.Shared(t).Exec(t, "UPDATE "+appends+" SET pos = pos + (1000000::bigint << 10)")
	s = openURL(t, schemaURL(t, dir), postgres.Options{})
	old := journaltest.Tail(t, s, 0)
	if len(old) != 1 {
		t.Fatalf("the tail has %d appends", len(old))
	}
	journaltest.Append(t, s, journaltest.Start("new", "me"))
	if got := journaltest.Tail(t, s, old[0].Pos); len(got) != 1 || got[0].Run != "new" {
		t.Errorf("%+v", got)
	}
}

// Processes that start together create the journal once.
func TestConcurrentOpensCreateTheJournalOnce(t *testing.T) {
	url := schemaURL(t, t.TempDir())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := postgres.Open(context.Background(), url, postgres.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			s.Close()
		})
	}
	wg.Wait()
}

// The ids of one inbox become visible in their order: a message waits for one
// that was enqueued before it and is not committed yet.
func TestEnqueueWaitsForAnEarlierMessage(t *testing.T) {
	dir := t.TempDir()
	server := pgtest.Shared(t)
	s := openURL(t, schemaURL(t, dir), postgres.Options{})
	journaltest.Append(t, s, journaltest.Start("r", "me"))
	tx := beginElsewhere(t, server)
	runs, inbox := pgx.Identifier{schemaOf(dir), "runs"}.Sanitize(), pgx.Identifier{schemaOf(dir), "inbox"}.Sanitize()
	if _, err := tx.Exec(t.Context(), "WITH r AS (SELECT n FROM "+runs+" WHERE id = 'r' FOR NO KEY UPDATE) "+
		"INSERT INTO "+inbox+" (run, token, kind, data, at) SELECT n, 'first', 'first', '', 0 FROM r"); err != nil {
		t.Fatal(err)
	}
	enqueued := make(chan error, 1)
	go func() {
		_, err := s.Enqueue(context.Background(), "r", journal.Message{Kind: "second"})
		enqueued <- err
	}()
	awaitLock(t, server, enqueued)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-enqueued; err != nil {
		t.Fatal(err)
	}
	if got, err := s.Inbox(t.Context(), "r"); err != nil || len(got) != 2 || got[0].Kind != "first" {
		t.Errorf("%+v, %v", got, err)
	}
}

// Behind PgBouncer in transaction mode, which offers neither notifications nor
// named statements, the store keeps all its promises.
func TestPgBouncerInTransactionMode(t *testing.T) {
	server := pgtest.Shared(t)
	dir := startPgBouncer(t, server, "transaction", 3)
	behind := subject()
	behind.Small = true
	behind.Open = func(t testing.TB, folder string, _ *journaltest.Processes) journal.Store {
		const form = "postgres://espalier@/postgres?host=%s&port=6432&schema=%s"
		return openURL(t, fmt.Sprintf(form, url.QueryEscape(dir), schemaOf(folder)), postgres.Options{})
	}
	journaltest.Run(t, behind)
	// Wake-ups arrive although notifications do not.
	a := behind.Open(t, t.TempDir(), nil).(*postgres.Store)
	<-a.Wakes()
	<-a.Wakes()
}

// A pooler in session mode that has too few connections lets a process wait. People learn what it waits for, and it
// fails after its wait limit.
func TestPoolerWithoutFreeConnections(t *testing.T) {
	server := pgtest.Shared(t)
	for name, others := range map[string]int{"too few": 0, "all in use": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := startPgBouncer(t, server, "session", 1)
			address := fmt.Sprintf("postgres://espalier@/postgres?host=%s&port=6432", url.QueryEscape(dir))
			for range others {
				conn, err := pgx.Connect(t.Context(), address)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close(context.Background())
				if _, err := conn.Exec(t.Context(), "SELECT 1"); err != nil { // it gets the server connection
					t.Fatal(err)
				}
			}
			const session = "in session mode it needs up to 7"
			var notices []string
			s, err := postgres.Open(t.Context(), address+"&schema="+schemaOf(t.TempDir()), postgres.Options{
				MaxWait: 6 * time.Second, Notice: func(text string) { notices = append(notices, text) },
			})
			if err == nil {
				s.Close()
			}
			if !errors.Is(err, journal.ErrUnavailable) || !strings.Contains(err.Error(), session) {
				t.Errorf("the error is: %v", err)
			}
			if len(notices) != 1 || !strings.HasPrefix(notices[0], "Waiting for the database, for up to 6s: ") ||
				!strings.Contains(notices[0], session) {
				t.Errorf("people see %q", notices)
			}
		})
	}
}

// startPgBouncer starts a pooler with some connections to the server and returns
// the folder of its socket.
func startPgBouncer(t *testing.T, server *pgtest.Server, mode string, size int) string {
	t.Helper()
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		if path = "/usr/sbin/pgbouncer"; !exists(path) {
			if os.Getenv("CI") != "" {
				t.Fatal("this test needs pgbouncer")
			}
			t.Skip("skipped: pgbouncer is not installed (on Debian: apt-get install pgbouncer)")
		}
	}
	dir, err := os.MkdirTemp("", "pgbouncer-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	settings := fmt.Sprintf(`[databases]
postgres = host=%s dbname=postgres
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = %s
auth_type = any
pool_mode = %s
default_pool_size = %d
`, server.Dir(), dir, mode, size)
	settings = strings.Replace(settings, "dbname=postgres", "dbname=postgres user=espalier", 1)
	file := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, file)
	cmd.Dir = dir
	output := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = output, output
	if cmd.SysProcAttr, err = pgtest.AsOrdinaryUser(dir); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it is killed
	}()
	t.Cleanup(func() { cmd.Process.Kill(); <-ended })
	for !exists(filepath.Join(dir, ".s.PGSQL.6432")) {
		select {
		case <-ended:
			t.Fatalf("pgbouncer ended: %s", output)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return dir
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
