//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/postgres"
	"github.com/espalier-run/espalier/internal/pgtest"
)

// TestScriptsPrintTheSameOnPostgres runs scripts of the command line again with a
// PostgreSQL store: what people see does not depend on the store.
func TestScriptsPrintTheSameOnPostgres(t *testing.T) {
	scriptsOnPostgres(t, "ESPALIER_STORE", "script/run", "script/work", "script/workers", "script/labels",
		"script/resume-from", "script/resume-key",
		"script/resume-scripts", "script/agent-flow-run", "script/secrets")
}

// TestMigrationMovesAProjectToPostgres moves a project from SQLite to PostgreSQL.
func TestMigrationMovesAProjectToPostgres(t *testing.T) {
	scriptsOnPostgres(t, "DATABASE", "postgres/migrate")
}

// What is wrong with a database is said in words that help.
func TestUnusableDatabasesAreExplained(t *testing.T) {
	scriptsOnPostgres(t, "DATABASE", "postgres/unusable")
}

// A bucket that cannot be reached is reported to people.
func TestUnreachableBucketIsReported(t *testing.T) {
	scriptsOnPostgres(t, "DATABASE", "postgres/unreachable-objects")
}

// doctor names the store and the engine.
func TestDoctorExaminesTheStore(t *testing.T) {
	scriptsOnPostgres(t, "DATABASE", "postgres/doctor")
}

// Records lack what a worker could not write before it was killed.
func TestVerifyCompletesRecordsOfOtherProcesses(t *testing.T) {
	scriptsOnPostgres(t, "DATABASE", "postgres/verify")
}

// The database is named in espalier.yaml.
func TestConfigurationNamesTheDatabase(t *testing.T) {
	scriptsOnPostgres(t, "DATABASE", "postgres/configured")
}

// objects is the command of scripts that counts the objects of the bucket, or loses one.
var objects func(*testscript.TestScript, bool, []string)

// scriptsOnPostgres runs scripts with the URL of an empty store in a variable.
func scriptsOnPostgres(t *testing.T, variable string, names ...string) {
	server := pgtest.Shared(t)
	t.Cleanup(pgtest.StopShared)
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, name := range names {
		files = append(files, filepath.Join(root, "testdata", name+".txtar"))
	}
	testscript.Run(t, testscript.Params{
		Files:               files,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("REPOSITORY", root)
			e.Setenv("GORACE", quickExit)
			e.Setenv("BARE_PATH", barePath(t))
			sum := sha256.Sum256([]byte(e.WorkDir))
			e.Setenv(variable, server.URL("postgres")+"&schema=s"+hex.EncodeToString(sum[:8]))
			for _, name := range []string{"S3_ENDPOINT", "S3_ACCESS_KEY", "S3_SECRET_KEY"} {
				e.Setenv(name, os.Getenv(name))
			}
			return os.MkdirAll(filepath.Join(e.WorkDir, "home"), 0o755)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "isjson": isJSON, "isxml": isXML, "ispng": isPNG, "objects": objects,
		},
	})
}

// fleet is several workers on one database.
type fleet struct {
	t       *testing.T
	k       *chainProject
	schema  string
	url     string
	program string // an executable instead of this one; empty for this one
	store   *postgres.Store
	workers []*exec.Cmd
	stderr  []*bytes.Buffer
}

// chainSteps is the length of the runs of a fleet. Each step leaves one line.
const chainSteps = 6

func newFleet(t *testing.T, server *pgtest.Server, workers int) *fleet {
	t.Helper()
	f := &fleet{t: t, k: newChainProject(t, chainSteps)}
	chain := filepath.Join(f.k.dir, "chain.md")
	text, err := os.ReadFile(chain)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.ReplaceAll(text, []byte("${ESPALIER_KEY#*/}"), []byte("$ESPALIER_KEY")) // with the run
	if err := os.WriteFile(chain, text, 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(f.k.dir))
	f.schema = "f" + hex.EncodeToString(sum[:8])
	f.url = server.URL("postgres") + "&lease=2s&schema=" + f.schema
	store, err := postgres.Open(context.Background(), f.url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f.store = store
	t.Cleanup(func() { store.Close() })
	for range workers {
		f.startWorker()
	}
	return f
}

func (f *fleet) command(args ...string) *exec.Cmd {
	cmd := f.k.command(args...)
	if f.program != "" {
		cmd.Path = f.program
	}
	cmd.Env = append(cmd.Env, "ESPALIER_STORE="+f.url)
	return cmd
}

// startWorker starts a worker.
func (f *fleet) startWorker() { f.startWorkerAt(f.url) }

// startWorkerAt starts a worker that reaches the database under another URL.
func (f *fleet) startWorkerAt(url string) {
	cmd := f.command("work")
	cmd.Env = append(cmd.Env, "ESPALIER_STORE="+url)
	f.start(cmd)
}

func (f *fleet) start(cmd *exec.Cmd) {
	stderr := new(bytes.Buffer)
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.workers, f.stderr = append(f.workers, cmd), append(f.stderr, stderr)
	f.t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGCONT)
		cmd.Process.Kill()
		cmd.Wait()
		if f.t.Failed() {
			f.t.Logf("stderr of a worker: %s", stderr)
		}
	})
}

// startRuns starts runs for the workers.
func (f *fleet) startRuns(n int) {
	f.t.Helper()
	for range n {
		if out, err := f.command("run", "chain.md", "--allow-shell", "--detach").CombinedOutput(); err != nil {
			f.t.Fatalf("%v: %s", err, out)
		}
	}
}

// waitUntil waits until the runs satisfy a condition.
func (f *fleet) waitUntil(what string, enough func([]journal.Entry) bool) []journal.Entry {
	f.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	late := time.After(45 * time.Second)
	for {
		var entries []journal.Entry
		for e, err := range f.store.Runs(context.Background(), journal.Filter{}) {
			if err != nil {
				f.t.Fatal(err)
			}
			entries = append(entries, e)
		}
		if enough(entries) {
			return entries
		}
		select {
		case <-tick.C:
		case <-late:
			for _, e := range entries {
				f.t.Logf("%s: %s %s, event %d, owner %s", e.ID, e.Status, e.Waiting, e.Seq, e.Owner)
			}
			f.t.Fatalf("timed out waiting until %s", what)
		}
	}
}

// allIdle reports whether every run has finished or asks a person.
func allIdle(entries []journal.Entry) bool {
	return !slices.ContainsFunc(entries, func(e journal.Entry) bool {
		return e.Status != journal.Finished && e.Status != journal.Waiting
	})
}

// checkExactlyOnce answers what became of interrupted steps, as a person does who looks for their effects, and compares
// the effects of all steps with the runs: nothing is lost, and nothing happens twice.
func (f *fleet) checkExactlyOnce(entries []journal.Entry, maxUnknown int) {
	f.t.Helper()
	times := map[string]int{}
	for _, key := range f.k.recordedEffects() {
		times[key]++
	}
	unknown := 0
	for _, e := range entries {
		if e.Status != journal.Waiting {
			continue
		}
		unknown++
		step := strings.TrimPrefix(e.Waiting.Label(), "unknown outcome: ")
		answer := step + "=rerun"
		for key := range times {
			if strings.HasPrefix(key, string(e.ID)+"/"+step+"#") {
				answer = step + `=result={"n": 1}`
			}
		}
		out, err := f.command("resume", string(e.ID), "--decide", answer).CombinedOutput()
		if err != nil {
			f.t.Errorf("%s: %v: %s", answer, err, out)
		}
	}
	if unknown > maxUnknown {
		f.t.Errorf("%d runs ask about a lost step, expected at most %d", unknown, maxUnknown)
	}
	f.t.Logf("%d of %d runs ask about a step whose worker was lost", unknown, len(entries))
	f.waitUntil("all runs finish", func(now []journal.Entry) bool {
		entries = now
		return !slices.ContainsFunc(now, func(e journal.Entry) bool { return e.Status != journal.Finished })
	})
	clear(times)
	for _, key := range f.k.recordedEffects() {
		if times[key]++; times[key] > 1 {
			f.t.Errorf("effect %s happened %d times", key, times[key])
		}
	}
	if len(times) != len(entries)*chainSteps {
		f.t.Errorf("%d effects of %d runs", len(times), len(entries))
	}
	for _, e := range entries {
		if e.Outcome != journal.OutcomeOK {
			f.t.Errorf("run %s: %s", e.ID, e.Outcome)
		}
		seq := journal.Seq(0)
		for event, err := range f.store.Events(context.Background(), e.ID, 0) {
			if err != nil || event.Seq != seq+1 {
				f.t.Fatalf("run %s: event %d follows event %d, %v", e.ID, event.Seq, seq, err)
			}
			seq = event.Seq
		}
	}
}

// suspendWorker stops a worker by SIGSTOP while it has runs, and returns its name in the store.
func (f *fleet) suspendWorker(worker int) (owner journal.Owner) {
	f.t.Helper()
	for {
		f.waitUntil("a worker has runs", func(e []journal.Entry) bool {
			_, held := f.runsOf(e, worker)
			return held > 0
		})
		if err := f.workers[worker].Process.Signal(syscall.SIGSTOP); err != nil {
			f.t.Fatal(err)
		}
		held := 0
		f.waitUntil("the runs are read", func(e []journal.Entry) bool {
			owner, held = f.runsOf(e, worker)
			return true
		})
		if held > 0 {
			return owner
		}
		if err := f.workers[worker].Process.Signal(syscall.SIGCONT); err != nil { // it was faster
			f.t.Fatal(err)
		}
		f.startRuns(8)
	}
}

// runsOf returns a worker's runs. The description of an owner names its process.
func (f *fleet) runsOf(entries []journal.Entry, worker int) (owner journal.Owner, runs int) {
	for _, e := range entries {
		if e.Owner == "" || e.Status != journal.Running {
			continue
		}
		if info, err := f.store.Describe(e.Owner); err == nil && info.PID == f.workers[worker].Process.Pid {
			owner = e.Owner
			runs++
		}
	}
	return owner, runs
}

// Workers share the runs of a database.
func TestFourWorkersFinishOneDatabase(t *testing.T) {
	server := pgtest.Shared(t)
	t.Cleanup(pgtest.StopShared)
	f := newFleet(t, server, 4)
	server.Exec(t, fmt.Sprintf(`CREATE TABLE owners AS SELECT owner FROM %[1]s.runs;
		CREATE FUNCTION note_owner() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN INSERT INTO public.owners VALUES (NEW.owner); RETURN NEW; END';
		CREATE TRIGGER note_owner AFTER UPDATE OF owner ON %[1]s.runs FOR EACH ROW EXECUTE FUNCTION note_owner()`, f.schema))
	const runs = 40
	f.startRuns(runs)
	entries := f.waitUntil("all runs finish", func(e []journal.Entry) bool { return len(e) == runs && allIdle(e) })
	f.checkExactlyOnce(entries, 0)
	if n := server.Number(t, "SELECT count(DISTINCT owner) FROM owners WHERE owner != ''"); n != len(f.workers) {
		t.Errorf("%d of %d workers had runs", n, len(f.workers))
	}
}

// Four workers and the commands want more connections than the server has. They wait for each other.
func TestWorkersShareFewConnections(t *testing.T) {
	server, err := pgtest.Start("fsync=off", "max_connections=20", "superuser_reserved_connections=0")
	pgtest.Require(t, err)
	t.Cleanup(server.Remove)
	f := newFleet(t, server, 4)
	const runs = 12
	f.startRuns(runs)
	entries := f.waitUntil("all runs finish", func(e []journal.Entry) bool { return len(e) == runs && allIdle(e) })
	f.checkExactlyOnce(entries, runs) // a worker without a connection may lose its runs
	if !server.LogContains("too many clients already") {
		t.Error("there were enough connections")
	}
}

// What workers read grows with their own runs: together they read each append
// about once, and not once for each worker.
func TestWorkersReadOnlyTheirOwnRuns(t *testing.T) {
	server, err := pgtest.Start("fsync=off", "shared_preload_libraries=pg_stat_statements",
		"pg_stat_statements.track=all")
	pgtest.Require(t, err)
	t.Cleanup(server.Remove)
	server.Exec(t, "CREATE EXTENSION pg_stat_statements")
	f := newFleet(t, server, 4)
	const runs = 16
	f.startRuns(runs)
	entries := f.waitUntil("all runs finish", func(e []journal.Entry) bool { return len(e) == runs && allIdle(e) })
	appends := 0
	for _, err := range f.store.Tail(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		appends++
	}
	// The tail above is one of these reads.
	read := server.Number(t, `SELECT coalesce(sum(rows), 0)::bigint FROM pg_stat_statements
		WHERE query LIKE '%body%' AND query NOT LIKE '%INSERT%'`)
	t.Logf("%d appends, %d rows of appends read", appends, read)
	if others := read - appends; others > 2*appends {
		t.Errorf("four workers read %d rows of %d appends", others, appends)
	}
	f.checkExactlyOnce(entries, 0)
}

// network forwards connections to a database. While it is cut, nothing passes and no connection is closed, as when a
// switch fails; afterwards everything arrives that was sent meanwhile.
type network struct {
	dir string
	mu  sync.RWMutex // locked while the network is cut
}

// postgresSocket is the name of the socket that clients of PostgreSQL look for in the folder of a URL.
const postgresSocket = ".s.PGSQL.5432"

func newNetwork(t *testing.T, server *pgtest.Server) *network {
	t.Helper()
	dir, err := os.MkdirTemp("", "network-") // short enough for the name of a socket
	if err != nil {
		t.Fatal(err)
	}
	n := &network{dir: dir}
	l, err := net.Listen("unix", filepath.Join(dir, postgresSocket))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); os.RemoveAll(dir) })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				n.mu.RLock()
				database, err := net.Dial("unix", filepath.Join(server.Dir(), postgresSocket))
				n.mu.RUnlock()
				if err != nil {
					client.Close()
					return
				}
				go n.forward(database, client)
				n.forward(client, database)
			}()
		}
	}()
	return n
}

func (n *network) forward(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 1<<16)
	for {
		size, err := from.Read(buffer)
		n.mu.RLock()
		_, failed := to.Write(buffer[:size])
		n.mu.RUnlock()
		if err != nil || failed != nil {
			return
		}
	}
}

// A worker that is cut off from the database for longer than its lease loses its runs. What it had sent arrives when
// the network is back, and changes nothing.
func TestWorkerCutOffFromTheDatabaseLosesItsRuns(t *testing.T) {
	server := pgtest.Shared(t)
	t.Cleanup(pgtest.StopShared)
	f, n := newFleet(t, server, 0), newNetwork(t, server)
	u, err := url.Parse(f.url)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("host", n.dir)
	u.RawQuery = q.Encode()
	f.testCutOff(func() { f.startWorkerAt(u.String()) }, n.mu.Lock, n.mu.Unlock)
}

// The same with a network of the kernel, whose cable is pulled out. It needs root.
func TestWorkerBehindACutLinkLosesItsRuns(t *testing.T) {
	program, err := exec.LookPath("ip")
	if err != nil && os.Getenv("CI") != "" {
		t.Fatalf("%v (on Debian: apt-get install iproute2)", err)
	}
	name := fmt.Sprint("esp", os.Getpid()%1e6)
	if err == nil {
		err = exec.Command(program, "netns", "add", name).Run()
	}
	if err != nil && os.Getenv("CI") != "" && os.Getuid() == 0 {
		t.Fatalf("root cannot create a network: %v", err)
	}
	if err != nil {
		t.Skipf("skipped: networks need root and the program ip (on Debian: apt-get install iproute2): %v", err)
	}
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v\n%s", args, err, out)
		}
	}
	t.Cleanup(func() { ip("netns", "del", name) }) // and with it the link
	ip("link", "add", name, "type", "veth", "peer", "name", "worker", "netns", name)
	network := fmt.Sprintf("10.213.%d.", os.Getpid()%250)
	ip("address", "add", network+"1/24", "dev", name)
	ip("-n", name, "address", "add", network+"2/24", "dev", "worker")
	ip("link", "set", name, "up")
	ip("-n", name, "link", "set", "worker", "up")
	server, err := pgtest.Start("fsync=off", "listen_addresses="+network+"1")
	pgtest.Require(t, err)
	t.Cleanup(server.Remove)
	if err := server.Allow(network + "0/24"); err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, server, 0)
	f.testCutOff(func() {
		cmd := f.command("work")
		cmd.Path, cmd.Args = program, slices.Concat([]string{"ip", "netns", "exec", name, cmd.Path}, cmd.Args[1:])
		store := fmt.Sprintf("postgres://espalier@%s1/postgres?lease=2s&schema=%s", network, f.schema)
		cmd.Env = append(cmd.Env, "ESPALIER_STORE="+store)
		f.start(cmd)
	}, func() { ip("link", "set", name, "down") }, func() { ip("link", "set", name, "up") })
}

// testCutOff cuts the first worker off while it has runs. The second one takes them over. When the first one is back,
// it works alone.
func (f *fleet) testCutOff(work, cut, mend func()) {
	f.t.Helper()
	const runs = 16
	f.startRuns(runs)
	work()
	var owner journal.Owner
	f.waitUntil("the first worker has runs", func(e []journal.Entry) bool {
		var held int
		owner, held = f.runsOf(e, 0)
		return held > 0
	})
	cut()
	f.startWorker()
	f.waitUntil("the second worker takes over", func([]journal.Entry) bool { return f.store.Dead(owner) })
	f.waitUntil("the second worker finishes what it can", allIdle)
	if err := f.workers[1].Process.Kill(); err != nil {
		f.t.Fatal(err)
	}
	mend()
	f.startRuns(runs)
	entries := f.waitUntil("the first worker is back",
		func(e []journal.Entry) bool { return len(e) == 2*runs && allIdle(e) })
	f.checkExactlyOnce(entries, runs)
}

// The runs of a worker that was killed, or stopped for longer than its lease, continue in another one.
func TestRunsOfKilledAndStoppedWorkersContinue(t *testing.T) {
	server := pgtest.Shared(t)
	t.Cleanup(pgtest.StopShared)
	f := newFleet(t, server, 0)
	const runs = 16
	f.startRuns(runs) // before there is a worker: the first has its hands full
	f.startWorker()
	killed := f.suspendWorker(0)
	if err := f.workers[0].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	f.startRuns(runs)
	f.startWorker()
	f.waitUntil("the second worker takes the runs of the first", func(e []journal.Entry) bool {
		return f.store.Dead(killed) && !slices.ContainsFunc(e, func(e journal.Entry) bool { return e.Owner == killed })
	})
	stopped := f.suspendWorker(1)
	f.startWorker()
	f.waitUntil("the third worker takes the runs of the second", func(e []journal.Entry) bool {
		return f.store.Dead(stopped) &&
			!slices.ContainsFunc(e, func(e journal.Entry) bool { return e.Owner == stopped })
	})
	if err := f.workers[1].Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	f.checkExactlyOnce(f.waitUntil("all runs rest", allIdle), 2*runs)
	if err := f.workers[2].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	f.startRuns(1) // the worker that was stopped works again
	f.checkExactlyOnce(f.waitUntil("a later run finishes", allIdle), 0)
}
