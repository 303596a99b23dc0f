package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"
)

// Server is a PostgreSQL server.
type Server struct {
	dir      string
	bin      string
	settings []string
	attr     *syscall.SysProcAttr
	cmd      *exec.Cmd
	exited   chan struct{}
}

var shared struct {
	sync.Mutex
	server *Server
	err    error
}

// Shared returns the server that all tests of this process share. Without
// PostgreSQL it skips the test, except in CI.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil && shared.err == nil {
		// What a crash of the machine could lose does not matter here.
		shared.server, shared.err = Start("fsync=off", "max_connections=200")
	}
	Require(t, shared.err)
	return shared.server
}

// StopShared stops the shared server. TestMain calls it.
func StopShared() {
	shared.Lock()
	defer shared.Unlock()
	if shared.server != nil {
		shared.server.Remove()
		shared.server = nil
	}
}

// ErrMissing means that PostgreSQL is not installed.
var ErrMissing = errors.New("PostgreSQL is not installed")

// Require ends a test whose server could not be started: it fails in CI and is
// skipped elsewhere if PostgreSQL is not installed.
func Require(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, ErrMissing) && os.Getenv("CI") == "":
		t.Skipf("skipped: %v (on Debian: apt-get install postgresql)", err)
	default:
		t.Fatalf("this test needs PostgreSQL: %v", err)
	}
}

// Start starts a server with a new cluster. settings are of the form name=value.
func Start(settings ...string) (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, settings: settings}
	// A short path: that of a socket has at most 107 bytes.
	if s.dir, err = os.MkdirTemp("", "pgtest-"); err != nil {
		return nil, err
	}
	if s.attr, err = AsOrdinaryUser(s.dir); err != nil {
		return nil, err
	}
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", s.data(), "-U", "espalier", "-A", "trust",
		"-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions")
	initdb.SysProcAttr, initdb.Dir = &syscall.SysProcAttr{Credential: s.attr.Credential}, s.dir
	if out, err := initdb.CombinedOutput(); err != nil {
		os.RemoveAll(s.dir)
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	if err := s.Run(); err != nil {
		os.RemoveAll(s.dir)
		return nil, err
	}
	return s, nil
}

// binaries returns the folder of initdb and postgres.
func binaries() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		path, err = filepath.EvalSymlinks(path)
		return filepath.Dir(path), err
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", ErrMissing
	}
	return filepath.Dir(slices.Max(found)), nil
}

// AsOrdinaryUser returns how a test that runs as root starts a program which
// refuses that, and gives the user of the program a folder. The program ends
// with the test.
func AsOrdinaryUser(dir string) (*syscall.SysProcAttr, error) {
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if os.Geteuid() != 0 {
		return attr, nil
	}
	who, err := user.Lookup("postgres")
	if err != nil {
		if who, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, err := strconv.Atoi(who.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(who.Gid)
	if err != nil {
		return nil, err
	}
	attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attr, os.Chown(dir, uid, gid)
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// Run starts the server again after Kill.
func (s *Server) Run() error {
	args := []string{"-D", s.data(), "-k", s.dir, "-c", "listen_addresses="}
	for _, setting := range s.settings {
		args = append(args, "-c", setting)
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = exec.Command(filepath.Join(s.bin, "postgres"), args...)
	s.cmd.SysProcAttr, s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = s.attr, s.dir, log, log
	exited := make(chan struct{})
	s.exited = exited
	started := make(chan error)
	go func() {
		defer close(exited)
		runtime.LockOSThread() // the death signal belongs to the thread
		if err := s.cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		_ = s.cmd.Wait() // how it ended does not matter
	}()
	if err := <-started; err != nil {
		return err
	}
	return s.await()
}

// await waits until the server accepts connections.
func (s *Server) await() error {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err == nil {
			err = conn.Close(ctx)
			cancel()
			return err
		}
		cancel()
		select {
		case <-s.exited:
			text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return fmt.Errorf("postgres ended: %s", text)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Kill ends the server as a power failure does: all of its processes, by SIGKILL.
func (s *Server) Kill() {
	s.cmd.Process.Signal(syscall.SIGSTOP) // it starts no other processes meanwhile
	pid := s.cmd.Process.Pid
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || !bytes.Contains(stat, []byte(") R ")) && !bytes.Contains(stat, []byte(") S ")) {
			break
		}
	}
	list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)) // none if the server has ended
	s.cmd.Process.Kill()
	for _, text := range strings.Fields(string(list)) {
		child, err := strconv.Atoi(text)
		if err != nil {
			continue
		}
		if fd, err := unix.PidfdOpen(child, 0); err == nil {
			syscall.Kill(child, syscall.SIGKILL)
			// A process that is left over keeps the next server from starting.
			for err = unix.EINTR; err == unix.EINTR; {
				_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
			}
			unix.Close(fd)
		}
	}
	<-s.exited
}

// Replica starts a server that replicates this one. A commit that one acknowledges has reached the other, from now on.
func (s *Server) Replica() (*Server, error) {
	r := &Server{bin: s.bin, settings: s.settings}
	var err error
	if r.dir, err = os.MkdirTemp("", "pgtest-"); err != nil {
		return nil, err
	}
	if r.attr, err = AsOrdinaryUser(r.dir); err != nil {
		return nil, err
	}
	backup := exec.Command(filepath.Join(s.bin, "pg_basebackup"), "-D", r.data(), "-h", s.dir, "-U", "espalier",
		"--write-recovery-conf", "--checkpoint=fast", "--no-sync")
	backup.SysProcAttr, backup.Dir = &syscall.SysProcAttr{Credential: s.attr.Credential}, r.dir
	if out, err := backup.CombinedOutput(); err != nil {
		os.RemoveAll(r.dir)
		return nil, fmt.Errorf("pg_basebackup: %w\n%s", err, out)
	}
	if err := r.Run(); err != nil {
		os.RemoveAll(r.dir)
		return nil, err
	}
	// The replica has no such setting: nothing replicates it.
	return r, s.try("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
}

// Promote makes a replica the primary server.
func (s *Server) Promote() error { return s.try("SELECT pg_promote()") }

// Allow allows connections from addresses.
func (s *Server) Allow(addresses string) error {
	f, err := os.OpenFile(filepath.Join(s.data(), "pg_hba.conf"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "host all all %s trust\n", addresses)
	return errors.Join(err, f.Close(), s.try("SELECT pg_reload_conf()"))
}

// Create creates a database.
func (s *Server) Create(database string) error {
	return s.try("CREATE DATABASE " + pgx.Identifier{database}.Sanitize())
}

// try executes statements in the database postgres.
func (s *Server) try(statements ...string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, text := range statements {
		if _, err := conn.Exec(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// Remove stops the server and deletes its cluster.
func (s *Server) Remove() {
	s.Kill()
	os.RemoveAll(s.dir)
}

// LogContains reports whether the log of the server contains a text.
func (s *Server) LogContains(text string) bool {
	log, err := os.ReadFile(filepath.Join(s.dir, "log"))
	return err == nil && strings.Contains(string(log), text)
}

// Dir returns the folder with the server's socket.
func (s *Server) Dir() string { return s.dir }

// URL returns the URL of a database.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://espalier@/%s?host=%s", database, url.QueryEscape(s.dir))
}

// Number returns the result of a query in the database postgres.
func (s *Server) Number(t testing.TB, text string) int {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var n int
	if err := conn.QueryRow(context.Background(), text).Scan(&n); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return n
}

// Exec runs a statement in the database postgres.
func (s *Server) Exec(t testing.TB, text string) {
	t.Helper()
	if err := s.try(text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}
