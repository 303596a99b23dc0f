//go:build unix

package mcp_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/npmtest"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/tool"
	"github.com/espalier-run/espalier/internal/tool/mcp"
)

// Servers that we did not write.
const (
	everything = "@modelcontextprotocol/server-everything@2026.8.31"
	filesystem = "@modelcontextprotocol/server-filesystem@2026.8.31"
)

func TestServerEverything(t *testing.T) {
	s := mcp.New(mcp.Config{Name: "everything", Command: []string{npmtest.Program(t, everything, "mcp-server-everything"), "stdio"}, Dir: t.TempDir()})
	defer s.Close()
	calls(t, s)
}

func calls(t *testing.T, s *mcp.Server) {
	t.Helper()
	for _, c := range []struct{ tool, input, want, class string }{
		{"everything.echo", `{"message":"roses"}`, "roses", ""},
		{"everything.get-sum", `{"a":2,"b":3}`, "5", ""},
		{"everything.get-sum", `{"a":"x","b":3}`, "", "no"},
		{"everything.trigger-long-running-operation", `{"duration":1,"steps":4}`, "completed", ""},
		{"everything.get-structured-content", `{"location":"Chicago"}`, `"temperature":`, ""},
		{"everything.get-tiny-image", `{}`, "image/png", ""},
	} {
		if got, class := call(t, s, c.tool, c.input); !strings.Contains(got, c.want) || class != c.class {
			t.Errorf("%s %s: %s %.300s", c.tool, c.input, class, got)
		}
	}
}

func TestServerEverythingOverHTTP(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	_, port, _ := net.SplitHostPort(address)
	program := npmtest.Program(t, everything, "mcp-server-everything")
	p, err := process.Start(t.Context(), process.Command{
		Path: "/bin/sh", Args: []string{"-c", `exec "$0" streamableHttp 2>&1`, program}, Env: process.Environment(os.Environ(), "PORT="+port),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		p.Stop()
		p.Wait()
		p.Stdin.Close()
		p.Stdout.Close()
	}()
	for said := bufio.NewScanner(p.Stdout); said.Scan(); {
		if strings.Contains(said.Text(), port) {
			break
		}
	}
	s := mcp.New(mcp.Config{Name: "everything", URL: "http://localhost:" + port + "/mcp", Secrets: func(context.Context) ([]string, http.Header, error) { return nil, nil, nil }})
	defer s.Close()
	calls(t, s)
}

func TestServerFilesystem(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{filepath.Join(dir, "a.txt"): "roses\n", filepath.Join(outside, "b.txt"): "secret\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := mcp.New(mcp.Config{Name: "fs", Command: []string{npmtest.Program(t, filesystem, "mcp-server-filesystem"), dir}, Dir: dir})
	defer s.Close()
	for _, c := range []struct{ tool, input, want, class string }{
		{"fs.read_text_file", `{"path":"` + filepath.Join(dir, "a.txt") + `"}`, "roses", ""},
		{"fs.read_text_file", `{"path":"` + filepath.Join(outside, "b.txt") + `"}`, "denied", "no"},
		{"fs.write_file", `{"path":"` + filepath.Join(dir, "new.txt") + `","content":"tulips"}`, "", ""},
		{"fs.list_directory", `{"path":"` + dir + `"}`, "new.txt", ""},
	} {
		if got, class := call(t, s, c.tool, c.input); !strings.Contains(got, c.want) || class != c.class {
			t.Errorf("%s %s: %s %.300s", c.tool, c.input, class, got)
		}
	}
	read, write := find(t, s, "fs.read_text_file"), find(t, s, "fs.write_file")
	if !tool.Repeatable(read, nil) || !write.Spec().SideEffects {
		t.Errorf("%+v %+v", read.Spec(), write.Spec())
	}
}
