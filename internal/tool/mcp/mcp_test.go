//go:build unix

package mcp_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/tool"
	"github.com/espalier-run/espalier/internal/tool/mcp"
	"github.com/espalier-run/espalier/internal/tool/tooltest"
)

// mode makes the test binary a server.
const mode = "ESPALIER_TEST_SERVER"

func TestMain(m *testing.M) {
	if how := os.Getenv(mode); how != "" {
		if err := serve(how); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type input struct {
	Say string `json:"say"`
}

// largeSchema has integers that a float64 cannot hold.
const largeSchema = `{"type":"object","properties":{"id":{"maximum":18446744073709551615,"minimum":-9223372036854775807}}}`

// wave is how a sound starts.
const wave = "RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\xff\xfe"

// server has a tool for everything that can go wrong.
func server() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "fake", Version: "1"}, nil)
	add := func(name string, a *sdk.ToolAnnotations, do func(
		ctx context.Context, req *sdk.CallToolRequest, in input,
	) (*sdk.CallToolResult, error),
	) {
		sdk.AddTool(s, &sdk.Tool{Name: name, Description: "does " + name, Annotations: a},
			func(ctx context.Context, req *sdk.CallToolRequest, in input) (*sdk.CallToolResult, any, error) {
				result, err := do(ctx, req, in)
				return result, nil, err
			})
	}
	s.AddTool(&sdk.Tool{Name: "large", InputSchema: json.RawMessage(largeSchema)}, func(
		context.Context, *sdk.CallToolRequest,
	) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{}, nil
	})
	text := func(s string) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}
	}
	add("echo", &sdk.ToolAnnotations{ReadOnlyHint: true},
		func(_ context.Context, _ *sdk.CallToolRequest, in input) (*sdk.CallToolResult, error) {
			return text(in.Say), nil
		})
	add("env", nil, func(_ context.Context, _ *sdk.CallToolRequest, in input) (*sdk.CallToolResult, error) {
		return text(os.Getenv(in.Say)), nil
	})
	add("no", nil, func(_ context.Context, _ *sdk.CallToolRequest, in input) (*sdk.CallToolResult, error) {
		return nil, errors.New("it says no")
	})
	add("die", nil, func(context.Context, *sdk.CallToolRequest, input) (*sdk.CallToolResult, error) {
		fmt.Fprintln(os.Stderr, "a last word")
		os.Exit(7)
		return nil, nil
	})
	add("hang", nil, func(ctx context.Context, _ *sdk.CallToolRequest, in input) (*sdk.CallToolResult, error) {
		// The file stays open until this call is canceled.
		f, err := os.OpenFile(in.Say, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		fmt.Fprintln(f, "hangs")
		if strings.Contains(in.Say, "deaf") {
			select {}
		}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	add("progress", nil, func(ctx context.Context, req *sdk.CallToolRequest, in input) (*sdk.CallToolResult, error) {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for i := range 20 {
			if err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
				ProgressToken: req.Params.GetProgressToken(), Progress: float64(i),
			}); err != nil {
				return nil, err
			}
			<-tick.C
		}
		return text("slow but sure"), nil
	})
	add("sound", nil, func(context.Context, *sdk.CallToolRequest, input) (*sdk.CallToolResult, error) {
		sound := &sdk.AudioContent{MIMEType: "audio/wav", Data: []byte(wave)}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "recorded"}, sound}}, nil
	})
	add("big", nil, func(context.Context, *sdk.CallToolRequest, input) (*sdk.CallToolResult, error) {
		return text(strings.Repeat("x", 12<<20)), nil
	})
	add("key", nil, func(_ context.Context, req *sdk.CallToolRequest, in input) (*sdk.CallToolResult, error) {
		meta := map[string]any{"key": req.Params.Meta["espalier/idempotency-key"]}
		if trace := req.Params.Meta["traceparent"]; trace != nil {
			meta["trace"] = trace
		}
		raw, err := json.Marshal(meta)
		return text(string(raw)), err
	})
	add("flood", nil, func(ctx context.Context, req *sdk.CallToolRequest, in input) (*sdk.CallToolResult, error) {
		for ctx.Err() == nil {
			if err := req.Session.NotifyProgress(ctx,
				&sdk.ProgressNotificationParams{ProgressToken: "x", Message: strings.Repeat("x", 1000)}); err != nil {
				return nil, err
			}
		}
		return nil, ctx.Err()
	})
	add("patter", nil, func(ctx context.Context, req *sdk.CallToolRequest, in input) (*sdk.CallToolResult, error) {
		for ctx.Err() == nil {
			progress := &sdk.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken()}
			if err := req.Session.NotifyProgress(ctx, progress); err != nil {
				return nil, err
			}
		}
		return nil, ctx.Err()
	})
	return s
}

func serve(how string) error {
	switch how {
	case "dies at once":
		return errors.New("I cannot live like this")
	case "never answers":
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	case "talks nonsense":
		for {
			if _, err := fmt.Println("this is not JSON"); err != nil {
				return err
			}
		}
	case "one endless line":
		for {
			if _, err := fmt.Print(strings.Repeat("x", 1<<16)); err != nil {
				return err
			}
		}
	}
	s := server()
	if how == "lists tools without end" {
		page := 0
		s.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
			return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
				if method != "tools/list" {
					return next(ctx, method, req)
				}
				page++
				one := &sdk.Tool{Name: fmt.Sprint("tool", page), InputSchema: json.RawMessage(`{"type":"object"}`)}
				return &sdk.ListToolsResult{Tools: []*sdk.Tool{one}, NextCursor: fmt.Sprint(page)}, nil
			}
		})
	}
	return s.Run(context.Background(), &sdk.StdioTransport{})
}

// TestEndlessListOfToolsFails starts a server that always has another page of tools.
func TestEndlessListOfToolsFails(t *testing.T) {
	s := start(t, "lists tools without end", func(c *mcp.Config) { c.MaxOutput = 1 << 30 })
	if _, err := s.Tools(t.Context()); err == nil || !strings.Contains(err.Error(), "more than 5000 tools") {
		t.Error(err)
	}
}

// start returns a server of ours, as a program.
func start(t *testing.T, how string, change func(*mcp.Config)) *mcp.Server {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := mcp.Config{
		Name: "fake", Command: []string{self}, Dir: t.TempDir(), Timeout: 20 * time.Second,
		MaxMessage: 1 << 20, MaxOutput: 8 << 20,
		Secrets: func(context.Context) ([]string, http.Header, error) {
			return []string{mode + "=" + how, "GIVEN=1"}, nil, nil
		},
	}
	if change != nil {
		change(&c)
	}
	s := mcp.New(c)
	t.Cleanup(s.Close)
	return s
}

func find(t *testing.T, s *mcp.Server, name string) tool.Tool {
	t.Helper()
	tools, err := s.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(tools, func(one tool.Tool) bool { return one.Spec().Name == name })
	if i < 0 {
		t.Fatalf("there is no %s", name)
	}
	return tools[i]
}

// isError is the class that call returns for a result with IsError.
const isError ir.Class = "IsError"

func call(t *testing.T, s *mcp.Server, name, input string) (output string, class ir.Class) {
	t.Helper()
	result, err := find(t, s, name).Call(t.Context(), tool.Call{Key: "k1", Input: json.RawMessage(input)})
	var failed *tool.Error
	switch {
	case errors.As(err, &failed):
		return failed.Message, failed.Class
	case err != nil:
		t.Fatal(err)
	case result.IsError:
		return string(result.Output), isError
	}
	return string(result.Output), ""
}

func TestToolsMeetTheToolContract(t *testing.T) {
	s := start(t, "well", nil)
	with := func(input string) tool.Call { return tool.Call{Key: "k1", Input: json.RawMessage(input)} }
	tooltest.Run(t, tooltest.Subject{
		Tool: find(t, s, "fake.echo"), Works: with(`{"say":"hello"}`),
		Fails: []tooltest.Failure{{Call: with(`{"say":7}`)}},
	})
}

func TestCallReturnsResultOfServer(t *testing.T) {
	t.Setenv("SOME_API_KEY", "secret")
	s := start(t, "well", nil)
	for _, c := range []struct {
		tool, input, want string
		class             ir.Class
	}{
		{"fake.echo", `{"say":"hello"}`, `"hello"`, ""},
		{"fake.echo", `{"say":"{\"a\":1}"}`, `{"a":1}`, ""},
		{"fake.echo", `{"say":"{broken"}`, `"{broken"`, ""},
		{"fake.env", `{"say":"SOME_API_KEY"}`, `""`, ""},
		{"fake.env", `{"say":"GIVEN"}`, `"1"`, ""},
		{"fake.no", `{"say":""}`, "it says no", isError},
		{"fake.echo", `{"say":7}`, "", isError}, // the server validates its input
		{"fake.key", `{"say":""}`, `{"key":"k1"}`, ""},
	} {
		if got, class := call(t, s, c.tool, c.input); !strings.Contains(got, c.want) || class != c.class {
			t.Errorf("%s %s: %s %s", c.tool, c.input, class, got)
		}
	}
	echo, env := find(t, s, "fake.echo").Spec(), find(t, s, "fake.env").Spec()
	if echo.SideEffects || !env.SideEffects || echo.Description != "does echo" ||
		!strings.Contains(string(echo.Schema), "say") || echo.Target == "" {
		t.Errorf("%+v %+v", echo, env)
	}
}

// The schemas of tools keep their numbers, over both transports.
func TestSchemasKeepLargeIntegers(t *testing.T) {
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server() }, nil)
	web := httptest.NewServer(handler)
	defer web.Close()
	remote := mcp.New(mcp.Config{Name: "fake", URL: web.URL, MaxMessage: 1 << 20, MaxOutput: 8 << 20})
	defer remote.Close()
	for name, s := range map[string]*mcp.Server{"program": start(t, "well", nil), "HTTP": remote} {
		if got := string(find(t, s, "fake.large").Spec().Schema); got != largeSchema {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// The server is written with the MCP project's own SDK, so the audio is encoded as the protocol requires.
func TestSoundIsNotText(t *testing.T) {
	s := start(t, "well", nil)
	result, err := find(t, s, "fake.sound").Call(t.Context(), tool.Call{Input: json.RawMessage(`{"say":""}`)})
	if err != nil || len(result.Media) != 1 || result.Media[0].Type != "audio/wav" ||
		string(result.Media[0].Data) != wave {
		t.Fatalf("%+v, %v", result, err)
	}
	out := string(result.Output)
	if strings.Contains(out, base64.StdEncoding.EncodeToString([]byte(wave))) ||
		!strings.Contains(out, result.Media[0].Placeholder()) || !strings.Contains(out, "recorded") {
		t.Errorf("the output is %s", out)
	}
}

func TestOnlyListedToolsAreOffered(t *testing.T) {
	s := start(t, "well", func(c *mcp.Config) { c.Only = []string{"echo"} })
	tools, err := s.Tools(t.Context())
	if err != nil || len(tools) != 1 || tools[0].Spec().Name != "fake.echo" {
		t.Errorf("%v, %v", tools, err)
	}
}

// A call whose server dies reports the exit code and the standard error. The server is restarted a few times.
func TestDeadServerIsRestartedUpToALimit(t *testing.T) {
	s := start(t, "well", nil)
	for range 5 {
		got, class := call(t, s, "fake.die", `{"say":""}`)
		if class != ir.ClassTool || !strings.Contains(got, "exit code 7") || !strings.Contains(got, "a last word") {
			t.Fatalf("%s %s", class, got)
		}
	}
	if _, err := s.Tools(t.Context()); err == nil || !strings.Contains(err.Error(), "5 times") {
		t.Errorf("%v", err)
	}
}

func TestFailedStartReportsReason(t *testing.T) {
	for how, c := range map[string]struct {
		change func(*mcp.Config)
		want   string
	}{
		"dies at once":     {nil, "I cannot live like this"},
		"one endless line": {nil, ""},
		"talks nonsense":   {nil, ""},
		"no program": {
			func(c *mcp.Config) { c.Command = []string{"espalier-there-is-no-such-program"} }, "not found",
		},
		"no secret": {func(c *mcp.Config) {
			c.Secrets = func(context.Context) ([]string, http.Header, error) {
				return nil, nil, errors.New("no such secret")
			}
		}, "no such secret"},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := start(t, how, c.change)
			if _, err := s.Tools(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
		})
	}
	t.Run("never answers", func(t *testing.T) {
		s := start(t, "never answers", nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Tools(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}

func TestOutputOfACallIsLimited(t *testing.T) {
	s := start(t, "well", nil)
	for _, name := range []string{"fake.flood", "fake.big"} {
		if got, class := call(t, s, name, `{"say":""}`); class != ir.ClassTool {
			t.Errorf("%s: %s %.200s", name, class, got)
		}
		if got, class := call(t, s, "fake.echo", `{"say":"still here"}`); got != `"still here"` {
			t.Errorf("after %s: %s %s", name, class, got)
		}
	}
}

// Decoding a short message costs much more than reading it, so the number of messages is limited, too.
func TestNumberOfMessagesInACallIsLimited(t *testing.T) {
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server() }, nil)
	web := httptest.NewServer(handler)
	t.Cleanup(web.Close)
	remote := mcp.New(mcp.Config{Name: "fake", URL: web.URL, MaxMessage: 1 << 20, MaxOutput: 8 << 20})
	t.Cleanup(remote.Close)
	for name, s := range map[string]*mcp.Server{"program": start(t, "well", nil), "HTTP": remote} {
		t.Run(name, func(t *testing.T) {
			heard := 0
			_, err := find(t, s, "fake.patter").Call(t.Context(), tool.Call{
				Key: "k1", Input: json.RawMessage(`{"say":""}`), Progress: func(tool.Progress) { heard++ },
			})
			var failed *tool.Error
			if !errors.As(err, &failed) || failed.Class != ir.ClassTool {
				t.Errorf("%v", err)
			}
			// 8 MiB, of which each message counts 4 KiB and its bytes.
			if heard == 0 || heard > 2048 {
				t.Errorf("%d messages were decoded", heard)
			}
		})
	}
}

// line returns a file whose reader sees when its last writer is gone.
func line(t *testing.T, name string) (path string, wait func() io.Reader) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := mkfifo(path); err != nil {
		t.Fatal(err)
	}
	return path, func() io.Reader {
		f, err := os.Open(path)
		if err != nil {
			t.Error(err)
			return strings.NewReader("")
		}
		t.Cleanup(func() { f.Close() })
		if _, err := f.Read(make([]byte, len("hangs\n"))); err != nil {
			t.Error(err)
		}
		return f
	}
}

// A canceled call is canceled at the server, which keeps running. A call that times out stops its server.
func TestHangingCallIsCanceledOrTimesOut(t *testing.T) {
	for name, c := range map[string]struct {
		timeout time.Duration
		cancel  bool
		class   ir.Class
	}{
		"cancelled":     {timeout: time.Minute, cancel: true},
		"too long":      {timeout: 100 * time.Millisecond, class: ir.ClassTimeout},
		"too long deaf": {timeout: 100 * time.Millisecond, class: ir.ClassTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, "well", func(m *mcp.Config) { m.Timeout = c.timeout })
			path, wait := line(t, name)
			hang := find(t, s, "fake.hang")
			ctx, cancel := context.WithCancelCause(t.Context())
			why := errors.New("why")
			var rest io.Reader
			var watching sync.WaitGroup
			watching.Go(func() {
				rest = wait()
				if c.cancel {
					cancel(why)
				}
			})
			raw, _ := json.Marshal(input{path})
			_, err := hang.Call(ctx, tool.Call{Input: raw})
			watching.Wait()
			var failed *tool.Error
			if c.cancel && !errors.Is(err, why) ||
				c.class != "" && (!errors.As(err, &failed) || failed.Class != c.class) {
				t.Errorf("%v", err)
			}
			if _, err := io.Copy(io.Discard, rest); err != nil {
				t.Error(err)
			}
			if got, class := call(t, s, "fake.echo", `{"say":"again"}`); got != `"again"` {
				t.Errorf("afterwards: %s %s", class, got)
			}
		})
	}
}

func TestProgressRestartsTheTimeout(t *testing.T) {
	s := start(t, "well", func(c *mcp.Config) { c.Timeout = 500 * time.Millisecond })
	if got, class := call(t, s, "fake.progress", `{"say":""}`); got != `"slow but sure"` {
		t.Errorf("%s %s", class, got)
	}
}

func TestCloseEndsRunningCalls(t *testing.T) {
	s := start(t, "well", nil)
	path, wait := line(t, "deaf")
	hang := find(t, s, "fake.hang")
	done := make(chan error, 1)
	raw, _ := json.Marshal(input{path})
	go func() {
		_, err := hang.Call(context.Background(), tool.Call{Input: raw})
		done <- err
	}()
	rest := wait()
	s.Close()
	s.Close()
	if _, err := io.Copy(io.Discard, rest); err != nil {
		t.Error(err)
	}
	if err := <-done; err == nil {
		t.Error("the call came back well")
	}
	if _, err := s.Tools(t.Context()); !errors.Is(err, mcp.ErrClosed) {
		t.Errorf("%v", err)
	}
}

func TestCallsOverHTTPSendHeaders(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]bool{}
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server() }, nil)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.Header.Get("Authorization")] = true
		mu.Unlock()
		handler.ServeHTTP(w, r)
	}))
	defer web.Close()
	s := mcp.New(mcp.Config{
		Name: "web", URL: web.URL, MaxMessage: 1 << 20,
		MaxOutput: 8 << 20, Secrets: func(context.Context) ([]string, http.Header, error) {
			return nil, http.Header{"Authorization": {"Bearer x"}}, nil
		},
	})
	defer s.Close()
	for _, c := range []struct {
		tool, input, want string
		class             ir.Class
	}{
		{"web.echo", `{"say":"hello"}`, `"hello"`, ""},
		{"web.no", `{"say":""}`, "it says no", isError},
		{"web.big", `{"say":""}`, "", ir.ClassTool},
		{"web.echo", `{"say":"still here"}`, `"still here"`, ""},
	} {
		if got, class := call(t, s, c.tool, c.input); !strings.Contains(got, c.want) || class != c.class {
			t.Errorf("%s %s: %s %.200s", c.tool, c.input, class, got)
		}
	}
	if len(seen) != 1 || !seen["Bearer x"] {
		t.Errorf("the server saw %v", seen)
	}
	away := httptest.NewServer(http.RedirectHandler("http://10.0.0.1/mcp", http.StatusTemporaryRedirect))
	defer away.Close()
	lost := mcp.New(mcp.Config{Name: "away", URL: away.URL})
	defer lost.Close()
	if _, err := lost.Tools(t.Context()); err == nil || !strings.Contains(err.Error(), "private address") {
		t.Errorf("a redirect inside: %v", err)
	}
}

// A failed start is reported without messages of the SDK.
func TestStartErrorsAreReworded(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	for want, c := range map[string]mcp.Config{
		`the MCP server "x" cannot be started: it exited before it responded; stderr: no luck`:                                        {Command: []string{"sh", "-c", "echo no luck >&2; exit 3"}},
		`the MCP server "x" cannot be started: its standard output is not MCP`:                                                        {Command: []string{"sh", "-c", "echo hello; cat"}},
		`the MCP server "x" cannot be started: ` + strings.TrimPrefix(gone.URL, "http://") + ` cannot be reached: connection refused`: {URL: gone.URL},
	} {
		c.Name = "x"
		s := mcp.New(c)
		defer s.Close()
		if _, err := s.Tools(t.Context()); err == nil || err.Error() != want {
			t.Errorf("%v\nand not %s", err, want)
		}
	}
}

// A call belongs to the trace of its run.
func TestTraceParentIsPropagated(t *testing.T) {
	s := start(t, "well", nil)
	result, err := find(t, s, "fake.key").Call(t.Context(), tool.Call{Key: "k1", Input: json.RawMessage(`{"say":""}`), TraceParent: "00-01-02-01"})
	if err != nil || string(result.Output) != `{"key":"k1","trace":"00-01-02-01"}` {
		t.Errorf("%s, %v", result.Output, err)
	}
}
