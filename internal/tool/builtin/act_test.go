//go:build unix

package builtin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/netguard"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/tool"
	"github.com/espalier-run/espalier/internal/tool/builtin"
)

func TestBashReturnsOutputWithinLimits(t *testing.T) {
	w := newWorld(t)
	w.options.Shell.MaxOutput = 1000
	w.options.Shell.Env = []string{"GIVEN=1"}
	t.Setenv("SOME_API_KEY", "secret")
	for name, c := range map[string]struct {
		input in
		want  string
		class ir.Class
	}{
		"output": {
			in{"command": "echo out; echo err >&2"},
			`{"exit":0,"stdout":"out\n","stderr":"err\n"}`,
			"",
		},
		"an exit code": {in{"command": "echo half; exit 3"}, `{"exit":3,"stdout":"half\n"}`, isError},
		"where": {
			in{"command": `cat note.txt; cat "$ESPALIER_PROJECT/src/a.go"`},
			`{"exit":0,"stdout":"mine\npackage a\n"}`, "",
		},
		"its environment": {
			in{"command": `echo "$SOME_API_KEY|$GIVEN|$ESPALIER_KEY"`},
			`{"exit":0,"stdout":"|1|k1\n"}`, "",
		},
		"its trace":    {in{"command": `echo "$TRACEPARENT"`}, `{"exit":0,"stdout":"00-01-02-01\n"}`, ""},
		"too much":     {in{"command": "yes"}, "wrote more than 1000 bytes", isError},
		"a hundred MB": {in{"command": "head -c 100000000 /dev/zero"}, "wrote more than 1000 bytes", isError},
		"too long": {
			in{"command": "sleep 1000; sleep 1000", "timeout_seconds": 1},
			"stopped after 1 seconds",
			isError,
		},
		"what is no text":  {in{"command": `printf 'a\377b'`}, `{"exit":0,"stdout":"a` + "�" + `b"}`, ""},
		"something killed": {in{"command": `kill -9 $$`}, `{"exit":137,"stdout":"","signal":"killed"}`, isError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, class := w.call(t, "Bash", c.input); !strings.Contains(got, c.want) || class != c.class {
				t.Errorf("%s %s", class, got)
			}
		})
	}
}

// held returns a named pipe. Reading from it ends when its last holder has exited.
func held(t *testing.T) (path string, wait func() *bufio.Reader) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "line")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, func() *bufio.Reader {
		f, err := os.Open(path)
		if err != nil {
			t.Error(err)
			return nil
		}
		t.Cleanup(func() { f.Close() })
		r := bufio.NewReader(f)
		if _, err := r.ReadString('\n'); err != nil {
			t.Error(err)
		}
		return r
	}
}

// A canceled run kills its command and all processes that the command started.
func TestBashIsKilledWithTheRun(t *testing.T) {
	w := newWorld(t)
	path, wait := held(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	done := make(chan *bufio.Reader, 1)
	go func() {
		r := wait()
		cancel(why)
		done <- r
	}()
	raw, _ := json.Marshal(in{"command": fmt.Sprintf(`exec 5>%q; (sleep 1000 &); echo on >&5; trap '' TERM; sleep `+
		`1000; sleep 1000`, path)})
	bash := find(t, builtin.Tools(w.options), "Bash")
	if _, err := bash.Call(ctx, tool.Call{Input: raw, Dir: w.run}); !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
	if _, err := io.Copy(io.Discard, <-done); err != nil {
		t.Error(err)
	}
}

func find(t *testing.T, tools []tool.Tool, name string) tool.Tool {
	t.Helper()
	for _, one := range tools {
		if one.Spec().Name == name {
			return one
		}
	}
	t.Fatalf("no %s", name)
	return nil
}

func TestBashIsConfinedByTheSandbox(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux can confine commands")
	}
	w := newWorld(t)
	box, err := process.NewSandbox(w.root, ".espalier")
	if err != nil {
		t.Fatal(err)
	}
	w.options.Shell.Sandbox = box
	for command, class := range map[string]ir.Class{
		`echo x > made; cat made "$ESPALIER_PROJECT/readme.md"`: "",
		`echo x > "$ESPALIER_PROJECT/readme.md"`:                isError,
		`cat ../../espalier.db`:                                 isError,
		`cat ` + w.outside + `/secret`:                          isError,
	} {
		if got, was := w.call(t, "Bash", in{"command": command}); was != class {
			t.Errorf("%s: %s %s", command, was, got)
		}
	}
}

func TestRequestsReachOnlyAllowedAddresses(t *testing.T) {
	w := newWorld(t)
	s := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/json":
			out.Header().Set("Content-Type", "application/json")
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(out, `{"method":%q,"body":%q,"type":%q,"key":%q}`, r.Method, body, r.Header.Get("Content-Type"),
				r.Header.Get("X-Key"))
		case "/text":
			fmt.Fprint(out, "hello")
		case "/missing":
			out.WriteHeader(http.StatusNotFound)
		case "/flood":
			for range 1 << 20 {
				if _, err := out.Write(make([]byte, 1024)); err != nil {
					return
				}
			}
		case "/hang":
			<-r.Context().Done()
		case "/on":
			http.Redirect(out, r, "/text", http.StatusFound)
		case "/inside":
			http.Redirect(out, r, "http://169.254.169.254/latest/meta-data", http.StatusFound)
		}
	}))
	defer s.Close()
	w.options.Network = builtin.Network{
		Guard:    netguard.Options{Allow: []string{s.Listener.Addr().String()}},
		MaxBytes: 1 << 20,
	}
	for name, c := range map[string]struct {
		input in
		want  string
		class ir.Class
	}{
		"text": {in{"url": s.URL + "/text"}, `"body":"hello"`, ""},
		"JSON": {in{
			"url": s.URL + "/json", "method": "POST", "body": in{"a": 1},
			"headers": in{"X-Key": "k"},
		}, `"json":{"method":"POST","body":"{\"a\":1}","type":"application/json","key":"k"}`, ""},
		"text to send": {
			in{"url": s.URL + "/json", "method": "PUT", "body": "plain"},
			`"body":"plain","type":"text/plain; charset=utf-8"`, "",
		},
		"a no":              {in{"url": s.URL + "/missing"}, `"status":404`, isError},
		"an endless answer": {in{"url": s.URL + "/flood"}, "longer than", ir.ClassTool},
		"no answer":         {in{"url": s.URL + "/hang", "timeout_seconds": 1}, "in time", ir.ClassTimeout},
		"a redirect inside": {
			in{"url": s.URL + "/inside"},
			"169.254.169.254 is a link-local address",
			ir.ClassDenied,
		},
		"another port of ours": {
			in{"url": "http://127.0.0.1:1"},
			"127.0.0.1 is a loopback address",
			ir.ClassDenied,
		},
		"a private address":      {in{"url": "http://10.0.0.1"}, "private address", ir.ClassDenied},
		"one that is wrapped up": {in{"url": "http://[::ffff:192.168.0.1]"}, "private address", ir.ClassDenied},
		"a file":                 {in{"url": "file:///etc/passwd"}, "only http and https", ir.ClassInput},
		"nothing":                {in{"url": "x"}, "only http and https", ir.ClassInput},
	} {
		t.Run(name, func(t *testing.T) {
			if got, class := w.call(t, "http.request", c.input); !strings.Contains(got, c.want) || class != c.class {
				t.Errorf("%s %s", class, got)
			}
		})
	}
	if got, class := w.call(t, "http.request", in{"url": s.URL + "/on"}); class != "" ||
		!strings.Contains(got, "hello") {
		t.Errorf("sent on: %s %s", class, got)
	}
	asked := ""
	w.mayReach = func(address string) bool { asked = address; return false }
	if got, class := w.call(t, "http.request", in{"url": s.URL + "/on"}); class != ir.ClassDenied || asked != s.URL+
		"/text" || strings.Contains(got, "hello") {
		t.Errorf("sent on to where it may not go (%s): %s %s", asked, class, got)
	}
	w.mayReach = nil
	w.options.Network.Guard = netguard.Options{Resolve: func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}}
	if got, class := w.call(t, "http.request", in{"url": "http://innocent.example"}); class != ir.ClassDenied ||
		!strings.Contains(got, "innocent.example is at 127.0.0.1") {
		t.Errorf("a name that means us: %s %s", class, got)
	}
}

func TestOnlyIdempotentCallsAreRepeatable(t *testing.T) {
	tools := builtin.Tools(builtin.Options{})
	for _, c := range []struct {
		name, input string
		want        bool
	}{
		{"Read", `{"path":"x"}`, true},
		{"Write", `{"path":"x","content":""}`, true},
		{"Edit", `{"path":"x","old_string":"a","new_string":"b"}`, false},
		{"Bash", `{"command":"ls"}`, false},
		{"http.request", `{"url":"http://x"}`, true},
		{"http.request", `{"url":"http://x","method":"HEAD"}`, true},
		{"http.request", `{"url":"http://x","method":"POST"}`, false},
		{"http.request", `{`, false},
	} {
		if got := tool.Repeatable(find(t, tools, c.name), json.RawMessage(c.input)); got != c.want {
			t.Errorf("%s %s: %t", c.name, c.input, got)
		}
	}
}

func TestNotificationsGoToTheirBackend(t *testing.T) {
	w := newWorld(t)
	s := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		want := `{"message":"it <stands>","priority":"high","text":"Nightly: it <stands>","title":"Nightly"}`
		var got, wanted map[string]string
		if json.Unmarshal(body, &got) != nil || json.Unmarshal([]byte(want), &wanted) != nil ||
			fmt.Sprint(got) != fmt.Sprint(wanted) ||
			r.Method != http.MethodPost || r.Header.Get("Idempotency-Key") != "k1" || r.URL.Path != "/hook" {
			out.WriteHeader(http.StatusTeapot)
		}
	}))
	t.Cleanup(s.Close)
	t.Setenv("PATH", t.TempDir()) // no desktop is available
	hook := in{
		"backend": "webhook", "webhook_url": s.URL + "/hook", "title": "Nightly", "message": "it <stands>",
		"priority": "high",
	}
	if got, class := w.call(t, "notify.send", hook); class != ir.ClassDenied ||
		!strings.Contains(got, "loopback address") {
		t.Errorf("the network guard let it pass: %s %s", class, got)
	}
	w.options.Network.Guard.Allow = []string{strings.TrimPrefix(s.URL, "http://")}
	for name, c := range map[string]struct {
		input in
		want  string
		class ir.Class
	}{
		"log":           {in{"message": "hi"}, `{"backend":"log","status":"sent"}`, ""},
		"webhook":       {hook, `{"backend":"webhook","status":"sent","status_code":200}`, ""},
		"its refusal":   {in{"backend": "webhook", "webhook_url": s.URL + "/other", "message": "x"}, "418", isError},
		"webhook of no": {in{"backend": "webhook", "message": "x"}, `needs "webhook_url"`, ir.ClassInput},
		"no such scheme": {
			in{"backend": "webhook", "webhook_url": "file:///etc/passwd", "message": "x"},
			"cannot be reached", ir.ClassInput,
		},
		"no desktop": {in{"backend": "desktop", "message": "x"}, `use the backend "log" or "webhook"`, ir.ClassTool},
	} {
		t.Run(name, func(t *testing.T) {
			if got, class := w.call(t, "notify.send", c.input); !strings.Contains(got, c.want) || class != c.class {
				t.Errorf("%s %s", class, got)
			}
		})
	}
}
