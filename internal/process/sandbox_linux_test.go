package process_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/process"
)

// Scripts in a sandbox succeed or fail by what they read, write and connect to.
func TestSandboxConfinesFilesAndNetwork(t *testing.T) {
	t.Run("Landlock", func(t *testing.T) {
		t.Setenv("PATH", without(t, "bwrap"))
		tryOut(t)
	})
	t.Run("bubblewrap", func(t *testing.T) {
		needsBubblewrap(t)
		tryOut(t)
	})
}

// without returns a PATH on which all programs are found except for one.
func without(t *testing.T, name string) string {
	dir := t.TempDir()
	for _, from := range filepath.SplitList(os.Getenv("PATH")) {
		entries, _ := os.ReadDir(from) // not all of them need be there
		for _, e := range entries {
			if e.Name() != name {
				_ = os.Symlink(filepath.Join(from, e.Name()), filepath.Join(dir, e.Name())) // the first one counts
			}
		}
	}
	return dir
}

func tryOut(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	for _, name := range []string{"src/main.go", ".espalier/espalier.db", ".espalier/runs/r1/x", "top.txt"} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("content\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	box, err := process.NewSandbox(root, ".espalier")
	if err != nil {
		t.Fatal(err) // every supported kernel has Landlock
	}
	dir := filepath.Join(root, ".espalier", "runs", "r1")
	given := t.TempDir()
	box.Write = append(box.Write, given)
	for _, name := range []string{"later.txt", "shared.txt"} { // what a step before it has made
		if err := os.WriteFile(filepath.Join(root, name), []byte("content\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for script, works := range map[string]bool{
		"cat ../../../src/main.go": true,
		"cat ../../../top.txt":     true,
		"cat x":                    true,
		"echo new > made && mkdir -p d && mv made d/":      true,
		"echo x > /dev/null":                               true,
		"ls /usr/bin > /dev/null":                          true,
		"sh -c 'cat x'":                                    true,
		"cat ../../espalier.db":                            false,
		"echo x > ../../../src/main.go":                    false,
		"rm ../../../top.txt":                              false,
		"cat " + outside + "/secret":                       false,
		"cat ../../../link/secret":                         false,
		"ln -s " + outside + " l; cat l/secret":            false,
		"ln ../../espalier.db hard":                        false,
		"cat ~/.ssh/id_rsa":                                false,
		fmt.Sprintf("cat /proc/%d/environ", os.Getpid()):   false,
		"echo x > $(mktemp) && echo x > ~/y":               true,
		"test $(pwd) = $HOME":                              true,
		"cat ../../../later.txt":                           true,
		"cat ../../../shared.txt":                          true,
		"echo x > ../../../shared.txt":                     false,
		"echo x >> " + given + "/given":                    true,
		fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%s", port): false,
	} {
		got, err := process.Run(t.Context(), process.Command{
			Path: "/bin/bash", Args: []string{"-c", script}, Dir: dir, Env: process.Environment(os.Environ()),
			Sandbox: box.For(dir),
		})
		if err != nil {
			t.Fatalf("%s: %v", script, err)
		}
		if (got.Exit == 0) != works {
			t.Errorf("%s: exit %d: %s", script, got.Exit, got.Stderr)
		}
	}
	// These fail, or see other processes than those outside.
	got, err := process.Run(t.Context(), process.Command{
		Path: "/bin/bash", Args: []string{"-c", "echo x > ../../../new.txt; cat /proc/1/environ"},
		Dir: dir, Env: process.Environment(os.Environ()), Sandbox: box.For(dir),
	})
	if err != nil {
		t.Fatal(err)
	}
	if ours, err := os.ReadFile("/proc/1/environ"); err == nil && len(ours) > 0 && bytes.Equal(ours, got.Stdout) {
		t.Error("it sees the variables of other processes")
	}
	if _, err := os.Stat(filepath.Join(root, "new.txt")); err == nil {
		t.Error("it made a file outside of its folder")
	}
	if raw, err := os.ReadFile(filepath.Join(root, "src", "main.go")); err != nil || string(raw) != "content\n" {
		t.Errorf("%q, %v", raw, err)
	}
	// Confined commands are killed with all their processes.
	line := newLifeline(t)
	begin := fmt.Sprintf(`(setsid sh -c 'exec 5>%q; echo on >&5; sleep 1000' &); sleep 1000`, line.path)
	open := box.For(dir)
	open.Write = append(open.Write, filepath.Dir(line.path))
	p, err := process.Start(t.Context(), process.Command{
		Path: "/bin/bash", Args: []string{"-c", begin}, Dir: dir, Env: process.Environment(os.Environ()), Sandbox: open,
	})
	if err != nil {
		t.Fatal(err)
	}
	line.begun(t)
	p.Stop()
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}
	line.dead(t)
}

// TestSocketsInASandbox connects to sockets in the file system. The programs
// behind them are not confined, so a command must not reach them.
func TestSocketsInASandbox(t *testing.T) {
	root, at := t.TempDir(), filepath.Join(t.TempDir(), "s")
	stream, err := net.Listen("unix", at+".unix")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	datagrams, err := net.ListenPacket("unixgram", at+".unixgram")
	if err != nil {
		t.Fatal(err)
	}
	defer datagrams.Close()
	t.Setenv("PATH", "") // bubblewrap hides them in its own way
	box, err := process.NewSandbox(root)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := process.Command{Path: self, Dir: root, Env: process.Environment(os.Environ(), dialled+"="+at)}
	for want, in := range map[string]*process.Sandbox{
		"unix, unixgram, udp, pair, pair of packets, pair of datagrams, raw pair": nil,
		"pair, pair of packets": box.For(root),
	} {
		command.Sandbox = in
		got, err := process.Run(t.Context(), command)
		if err != nil || string(got.Stdout) != want {
			t.Errorf("%q, want %q, %v: %s", got.Stdout, want, err, got.Stderr)
		}
	}
}

func TestSandboxWithoutArgumentsRunsNothing(t *testing.T) {
	var none *process.Sandbox
	if none.For("x") != nil {
		t.Error("no sandbox became one")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	got, err := process.Run(t.Context(), process.Command{Path: self, Args: []string{"__confine", "{", "true"}})
	if err != nil || got.Exit != 126 || !strings.Contains(string(got.Stderr), "sandbox") {
		t.Errorf("%+v, %v", got, err)
	}
}
