package temporaltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/espalier-run/espalier/internal/gotest"
)

// Version is the version of Temporal's command line program. It has the server.
const Version = "v1.5.1"

// Program returns the path of Temporal's program and installs it into the user's
// cache if it is not there, which takes minutes.
func Program() (string, error) {
	return gotest.Install("github.com/temporalio/cli/cmd/temporal", Version)
}

// Server is a development server.
type Server struct {
	Address string
	dir     string
	cmd     *exec.Cmd
	exited  chan struct{} // closed when the process has ended
	output  bytes.Buffer
}

// Start starts a server with a database in a new folder. The arguments are those
// of "temporal server start-dev".
func Start(args ...string) (*Server, error) {
	dir, err := os.MkdirTemp("", "espalier-temporal-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir}
	if err := s.start(true, args); err != nil {
		s.Remove()
		return nil, err
	}
	return s, nil
}

// Restart starts a server that was killed, with its database and its address.
func (s *Server) Restart(args ...string) error { return s.start(false, args) }

// start starts the server, and again if it ends at once: another process may have taken one of its ports since.
func (s *Server) start(anywhere bool, args []string) (err error) {
	for range 5 {
		if anywhere {
			port, err := freePort()
			if err != nil {
				return err
			}
			s.Address = "127.0.0.1:" + strconv.Itoa(port)
		}
		if err = s.run(args); !errors.Is(err, errExited) {
			return err
		}
	}
	return fmt.Errorf("%w\n%s", err, s.output.String())
}

var errExited = errors.New("the server has ended")

// run starts the server once, and waits until it answers.
func (s *Server) run(args []string) error {
	program, err := Program()
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		return err
	}
	s.cmd = exec.Command(program, append([]string{
		"server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", port, "--log-level", "error",
		"--db-filename", filepath.Join(s.dir, "temporal.db"),
		"--dynamic-config-value", "system.enableActivityEagerExecution=true",
		"--dynamic-config-value", "system.forceSearchAttributesCacheRefreshOnRead=true",
	}, args...)...)
	s.cmd.Stdout, s.cmd.Stderr = &s.output, &s.output
	if err := s.cmd.Start(); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	s.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) {
		_ = cmd.Wait() // how it ended does not matter
		close(exited)
		stop()
	}(s.cmd, s.exited)
	for {
		c, err := client.DialContext(ctx, client.Options{HostPort: s.Address, Logger: silent{}})
		if err == nil {
			c.Close()
		}
		select {
		case <-s.exited:
			return errExited
		default:
		}
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			s.Kill()
			return fmt.Errorf("the server does not answer: %w\n%s", err, s.output.String())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// PID returns the process of the server.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Kill ends the server as a crash does.
func (s *Server) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill() // it may have ended
		<-s.exited
		s.cmd = nil
	}
}

// Remove ends the server and removes its database.
func (s *Server) Remove() {
	s.Kill()
	_ = os.RemoveAll(s.dir)
}

var shared struct {
	sync.Mutex
	server *Server
}

// Shared returns the server that all tests of this process share.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		var err error
		if shared.server, err = Start(); err != nil {
			t.Fatal(err)
		}
	}
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

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// silent discards what the client logs while the server starts.
type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}
