//go:build unix

package mcp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
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

func TestReferenceServerAnswersCalls(t *testing.T) {
	s := mcp.New(mcp.Config{
		Name:    "everything",
		Command: []string{npmtest.Program(t, everything, "mcp-server-everything"), "stdio"}, Dir: t.TempDir(),
	})
	defer s.Close()
	calls(t, s)
}

func calls(t *testing.T, s *mcp.Server) {
	t.Helper()
	for _, c := range []struct{ tool, input, want, class string }{
		{"everything.echo", `{"message":"roses"}`, "roses", ""},
		{"everything.get-sum", `{"a":2,"b":3}`, "5", ""},
		{"everything.get-sum", `{"a":"x","b":3}`, "", string(isError)},
		{"everything.trigger-long-running-operation", `{"duration":1,"steps":4}`, "completed", ""},
		{"everything.get-structured-content", `{"location":"Chicago"}`, `"temperature":`, ""},
		{"everything.get-tiny-image", `{}`, "image/png", ""},
	} {
		if got, class := call(t, s, c.tool, c.input); !strings.Contains(got, c.want) || string(class) != c.class {
			t.Errorf("%s %s: %s %.300s", c.tool, c.input, class, got)
		}
	}
}

// An image is returned as media, with a placeholder in the output.
func TestImagesAreNotText(t *testing.T) {
	s := mcp.New(mcp.Config{
		Name:    "everything",
		Command: []string{npmtest.Program(t, everything, "mcp-server-everything"), "stdio"}, Dir: t.TempDir(),
	})
	defer s.Close()
	result, err := find(t, s, "everything.get-tiny-image").Call(t.Context(), tool.Call{Input: json.RawMessage(`{}`)})
	if err != nil || len(result.Media) != 1 || result.Media[0].Type != "image/png" ||
		!bytes.HasPrefix(result.Media[0].Data, []byte("\x89PNG")) {
		t.Fatalf("%+v, %v", result, err)
	}
	if out := string(result.Output); strings.Contains(out, "iVBOR") ||
		!strings.Contains(out, result.Media[0].Placeholder()) {
		t.Errorf("the output is %s", out)
	}
}

// A long call of a published server reports progress and can be canceled while the server keeps running. Without
// progress, the server is stopped and restarted.
func TestServerEverythingWithLongCalls(t *testing.T) {
	program := npmtest.Program(t, everything, "mcp-server-everything")
	start := func(t *testing.T, timeout time.Duration) (*mcp.Server, tool.Tool) {
		t.Parallel()
		s := mcp.New(
			mcp.Config{Name: "everything", Command: []string{program, "stdio"}, Dir: t.TempDir(), Timeout: timeout})
		t.Cleanup(s.Close)
		return s, find(t, s, "everything.trigger-long-running-operation")
	}
	serves := func(t *testing.T, s *mcp.Server) {
		t.Helper()
		if got, class := call(t, s, "everything.echo", `{"message":"roses"}`); !strings.Contains(got, "roses") {
			t.Errorf("afterwards: %s %s", class, got)
		}
	}
	t.Run("progress", func(t *testing.T) {
		// In all it takes longer than a call may without progress.
		s, long := start(t, 3*time.Second)
		progress := make(chan tool.Progress, 100)
		result, err := long.Call(t.Context(), tool.Call{
			Input: json.RawMessage(`{"duration":4,"steps":20}`), Progress: func(p tool.Progress) { progress <- p },
		})
		if first := <-progress; err != nil || !strings.Contains(string(result.Output), "completed") ||
			first.Total != 20 {
			t.Errorf("%s, %v, %+v", result.Output, err, first)
		}
		serves(t, s)
	})
	t.Run("cancelled", func(t *testing.T) {
		s, long := start(t, time.Minute)
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("canceled by the test")
		_, err := long.Call(ctx, tool.Call{
			Input: json.RawMessage(`{"duration":600,"steps":6000}`), Progress: func(tool.Progress) { cancel(why) },
		})
		if !errors.Is(err, why) {
			t.Error(err)
		}
		serves(t, s)
	})
	t.Run("timed out", func(t *testing.T) {
		s, long := start(t, time.Second)
		_, err := long.Call(t.Context(), tool.Call{Input: json.RawMessage(`{"duration":600,"steps":1}`)})
		var failed *tool.Error
		if !errors.As(err, &failed) || failed.Class != ir.ClassTimeout {
			t.Error(err)
		}
		serves(t, s)
	})
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
	for lines := bufio.NewScanner(p.Stdout); lines.Scan(); {
		if strings.Contains(lines.Text(), port) {
			break
		}
	}
	s := mcp.New(mcp.Config{
		Name: "everything", URL: "http://localhost:" + port + "/mcp",
		Secrets: func(context.Context) ([]string, http.Header, error) { return nil, nil, nil },
	})
	defer s.Close()
	calls(t, s)
	progress := make(chan tool.Progress, 100)
	long := find(t, s, "everything.trigger-long-running-operation")
	_, err = long.Call(t.Context(), tool.Call{Input: json.RawMessage(`{"duration":1,"steps":5}`), Progress: func(p tool.Progress) { progress <- p }})
	if first := <-progress; err != nil || first.Total != 5 {
		t.Errorf("%v, %+v", err, first)
	}
}

func TestFilesystemServerStaysInItsFolder(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{
		filepath.Join(dir, "a.txt"): "roses\n", filepath.Join(outside, "b.txt"): "secret\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := mcp.New(mcp.Config{
		Name: "fs", Command: []string{npmtest.Program(t, filesystem, "mcp-server-filesystem"), dir}, Dir: dir,
	})
	defer s.Close()
	for _, c := range []struct{ tool, input, want, class string }{
		{"fs.read_text_file", `{"path":"` + filepath.Join(dir, "a.txt") + `"}`, "roses", ""},
		{"fs.read_text_file", `{"path":"` + filepath.Join(outside, "b.txt") + `"}`, "denied", string(isError)},
		{"fs.write_file", `{"path":"` + filepath.Join(dir, "new.txt") + `","content":"tulips"}`, "", ""},
		{"fs.list_directory", `{"path":"` + dir + `"}`, "new.txt", ""},
	} {
		if got, class := call(t, s, c.tool, c.input); !strings.Contains(got, c.want) || string(class) != c.class {
			t.Errorf("%s %s: %s %.300s", c.tool, c.input, class, got)
		}
	}
	read, write := find(t, s, "fs.read_text_file"), find(t, s, "fs.write_file")
	if !tool.Repeatable(read, nil) || !write.Spec().SideEffects {
		t.Errorf("%+v %+v", read.Spec(), write.Spec())
	}
}
