package owner_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/filelock"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/owner"
)

// The test binary is also the other process: it announces itself, says its
// name, and says "woken" whenever it is.
func TestMain(m *testing.M) {
	dir := os.Getenv("ESPALIER_TEST_OWNER")
	if dir == "" {
		os.Exit(m.Run())
	}
	p, err := owner.New(dir)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if os.Getenv("ESPALIER_TEST_CHILD") != "" {
		// A command that lives on must not keep its dead parent alive.
		cmd := exec.Command("sleep", "60")
		if err := cmd.Start(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(cmd.Process.Pid)
	}
	if os.Getenv("ESPALIER_TEST_COMMANDS") != "" {
		for range 4 {
			go func() {
				for {
					_ = exec.Command("true").Run() // how it ends does not matter
				}
			}()
		}
	}
	fmt.Println(p.ID())
	for range p.Wakes() {
		fmt.Println("woken")
	}
}

type other struct {
	cmd  *exec.Cmd
	out  *bufio.Scanner
	name journal.Owner
}

func (o *other) line(t *testing.T) string {
	t.Helper()
	if !o.out.Scan() {
		t.Fatalf("the other process said nothing: %v", o.out.Err())
	}
	return o.out.Text()
}

func start(t *testing.T, dir string, env ...string) *other {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "ESPALIER_TEST_OWNER="+dir), env...)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return &other{cmd: cmd, out: bufio.NewScanner(pipe)}
}

func me(t *testing.T, dir string) *owner.Process {
	t.Helper()
	p, err := owner.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func TestKilledProcessIsDeadAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "owners")
	p := me(t, dir)
	o := start(t, dir)
	o.name = journal.Owner(o.line(t))
	if p.Dead(o.name) {
		t.Fatal("a living process is taken for dead")
	}
	if info, err := p.Describe(o.name); err != nil || info.PID != o.cmd.Process.Pid || info.Command == "" {
		t.Errorf("%+v, %v", info, err)
	}
	if p.Dead(p.ID()) {
		t.Error("I am taken for dead")
	}
	o.cmd.Process.Kill()
	o.cmd.Wait()
	if !p.Dead(o.name) {
		t.Error("a killed process is taken for living")
	}
	p.Wake(o.name) // must not block, nor fail
}

func TestChildCommandDoesNotKeepItsParentAlive(t *testing.T) {
	if _, err := exec.LookPath("sleep"); err != nil {
		t.Skip("there is no sleep command")
	}
	dir := t.TempDir()
	p := me(t, dir)
	o := start(t, dir, "ESPALIER_TEST_CHILD=1")
	pid := 0
	fmt.Sscan(o.line(t), &pid)
	child, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer child.Kill()
	o.name = journal.Owner(o.line(t))
	o.cmd.Process.Kill()
	o.cmd.Process.Wait()
	if !p.Dead(o.name) {
		t.Error("the lock is still held while a child command lives")
	}
}

// A process that is killed while it starts commands is dead at once, also if one of the commands exists but has not
// replaced its copy of the process yet, which has the lock.
func TestProcessKilledWhileItStartsCommandsIsDead(t *testing.T) {
	if _, err := exec.LookPath("true"); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p := me(t, dir)
	const tries = 200
	alive := 0
	for i := range tries {
		o := start(t, dir, "ESPALIER_TEST_COMMANDS=1")
		o.name = journal.Owner(o.line(t))
		time.Sleep(time.Duration(i%20) * 100 * time.Microsecond) // somewhere between the starts of commands
		o.cmd.Process.Kill()
		o.cmd.Process.Wait()
		if !p.Dead(o.name) {
			alive++
		}
	}
	if alive > 0 {
		t.Errorf("%d of %d dead processes are taken for living", alive, tries)
	}
}

func TestWakeReachesAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	p := me(t, dir)
	o := start(t, dir)
	o.name = journal.Owner(o.line(t))
	for range 20 {
		p.Wake(o.name)
		if got := o.line(t); got != "woken" {
			t.Fatalf("got %q", got)
		}
	}
	// Oneself, and from inside the process by another announcement.
	p.Wake(p.ID())
	<-p.Wakes()
	q := me(t, dir)
	q.Wake(p.ID())
	<-p.Wakes()
	// Wake-ups that are not received do not block.
	for range 100_000 {
		q.Wake(p.ID())
	}
	<-p.Wakes()
}

func TestUnknownOwnersAreDead(t *testing.T) {
	dir := t.TempDir()
	p := me(t, dir)
	outside, err := filelock.Open(filepath.Join(dir, "..", "outside.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer outside.Close()
	if err := outside.Exclusive(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []journal.Owner{"", "NOBODY", "../outside", "a/b", "."} {
		if !p.Dead(name) {
			t.Errorf("%q is taken for a living process", name)
		}
		p.Wake(name)
		if _, err := p.Describe(name); err == nil {
			t.Errorf("%q is described", name)
		}
	}
}

func TestClosedProcessIsDead(t *testing.T) {
	dir := t.TempDir()
	p, q := me(t, dir), me(t, dir)
	if p.Dead(q.ID()) || p.ID() == q.ID() {
		t.Fatal("two announcements are not two")
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if !p.Dead(q.ID()) {
		t.Error("a closed one is taken for living")
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		if !strings.HasPrefix(e.Name(), string(p.ID())) {
			t.Errorf("%s is left", e.Name())
		}
	}
}

func TestFilesOfDeadProcessesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	o := start(t, dir)
	o.name = journal.Owner(o.line(t))
	living := me(t, dir)
	o.cmd.Process.Kill()
	o.cmd.Wait()
	old := time.Now().Add(-time.Hour)
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := os.Chtimes(filepath.Join(dir, f.Name()), old, old); err != nil {
			t.Fatal(err)
		}
	}
	// One that has not locked its file yet is not dead, only young.
	young := filepath.Join(dir, "YOUNG.lock")
	if err := os.WriteFile(young, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := me(t, dir)
	files, err = os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasPrefix(f.Name(), string(o.name)) {
			t.Errorf("%s of a dead process is left", f.Name())
		}
	}
	if _, err := os.Stat(young); err != nil {
		t.Error(err)
	}
	if p.Dead(living.ID()) || !p.Dead(o.name) {
		t.Error("sweeping changed who lives")
	}
	if info, err := os.Stat(filepath.Join(dir, string(p.ID())+".lock")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func BenchmarkProbe(b *testing.B) {
	dir := b.TempDir()
	p, err := owner.New(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	q, err := owner.New(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer q.Close()
	for b.Loop() {
		if p.Dead(q.ID()) {
			b.Fatal("dead")
		}
	}
}

// Another process drives its runs until it says otherwise or ends.
func TestDrivesUntilItStops(t *testing.T) {
	dir := t.TempDir()
	a, err := owner.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := owner.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if !a.Drives(b.ID()) {
		t.Error("a living process does not drive")
	}
	b.StopDriving()
	if a.Drives(b.ID()) || a.Dead(b.ID()) {
		t.Errorf("a process that has stopped driving: drives %t, dead %t", a.Drives(b.ID()), a.Dead(b.ID()))
	}
	if !b.Drives(a.ID()) {
		t.Error("the announcement counts for another process")
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if a.Drives(b.ID()) || a.Drives("") {
		t.Error("a process that has ended drives")
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range left {
		if strings.HasPrefix(f.Name(), string(b.ID())) {
			t.Errorf("%s is left behind", f.Name())
		}
	}
}
