package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/provider/providertest"
	"github.com/espalier-run/espalier/internal/trust"
)

const hello = `---
name: hello
description: Two who greet at the same time
kind: agent-flow/workflow
---
` + "```step" + `
id: greet
type: skill
description: Say hello, and tell at some length what an espalier is.
agent: host
writes: [output.text]
` + "```" + `
` + "```agent" + `
id: host
role: Greets
goal: A greeting
` + "```" + `
`

// faults rejects the first requests in configurable ways.
type faults struct {
	server http.Handler
	first  []func(w http.ResponseWriter)
	seen   atomic.Int64
}

func (f *faults) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if n := int(f.seen.Add(1)); n <= len(f.first) {
		f.first[n-1](w)
		return
	}
	f.server.ServeHTTP(w, r)
}

func refuse(status int, after string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		if after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, `{"error":{"message":"not now"}}`)
	}
}

func cut(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w,
		"data: {\"id\":\"c\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Half of\"}}]}\n\n")
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

// A whole run against a server that refuses at first, in every way that may
// pass: the answer comes, every attempt is on record, and the bill is that of
// the calls.
func TestRunSurvivesAServerWithPassingFaults(t *testing.T) {
	dir := t.TempDir()
	good := providertest.NewServer(t, providertest.Chat)
	f := &faults{server: good, first: []func(http.ResponseWriter){
		cut, refuse(429, "0.01"), func(w http.ResponseWriter) {
			refuse(429, time.Now().Add(time.Second).UTC().Format(http.TimeFormat))(w)
		}, refuse(529, "0.01"),
	}}
	server := httptest.NewServer(f)
	defer server.Close()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if name == "espalier.yaml" {
			approvals := trust.Open(func(name string) string { return map[string]string{"HOME": dir}[name] })
			if err := approvals.Approve(trust.Record{
				Root:  dir,
				Files: []trust.File{{Path: "espalier.yaml", SHA256: trust.Sum([]byte(text))}},
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	write("hello.md", hello)
	write("espalier.yaml", fmt.Sprintf(`
models:
  default: mine/suite
  providers:
    mine: {api: openai, base_url: "%s", key: secret://key}
secrets: {key: {env: MY_KEY}}
prices: {suite: {input: 1, output: 10, cache_read: 0.1}}
`, server.URL))
	do := func(args ...string) (string, string, int) {
		var stdout, stderr strings.Builder
		code := Main(Environment{
			Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Dir: dir,
			Getenv: func(name string) string { return map[string]string{"MY_KEY": good.Key, "HOME": dir}[name] },
		}, args)
		return stdout.String(), stderr.String(), code
	}
	out, progress, code := do("run", "hello.md", "--run-id", "00000000-0000-4000-8000-00000000000a")
	if code != 0 || !strings.Contains(out, "An espalier is a tree") {
		t.Fatalf("exit %d\n%s%s", code, out, progress)
	}
	if n := strings.Count(progress, "retrying in"); n != 4 {
		t.Errorf("%d attempts are told:\n%s", n, progress)
	}
	if f.seen.Load() != 5 {
		t.Errorf("%d requests", f.seen.Load())
	}
	out, _, _ = do("status", "00000000", "--json")
	var status struct {
		Used struct {
			Calls  int64 `json:"model_calls"`
			Input  int64 `json:"input_tokens"`
			Output int64 `json:"output_tokens"`
			Micro  int64 `json:"micro_dollars"`
		} `json:"used"`
	}
	if err := json.Unmarshal([]byte(out), &status); err != nil {
		t.Fatal(err)
	}
	// 14 tokens read, 5 from the cache, 5 written; and the reply that was cut
	// off, which may have been paid for in full.
	if u := status.Used; u.Calls != 5 || u.Output != 5+4096 || u.Micro <= 4096*10 {
		t.Errorf("used %+v", u)
	}
	audit, _, code := do("audit", "00000000")
	if code != 0 || strings.Count(audit, "greet  model: ") != 4 ||
		!strings.Contains(audit, "model suite-1: 19 tokens in, 5 out, $0.000065") {
		t.Errorf("exit %d\n%s", code, audit)
	}
	// The key is nowhere.
	if err := filepath.WalkDir(filepath.Join(dir, ".espalier"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if strings.Contains(string(raw), good.Key) {
			t.Errorf("%s holds the key", path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// A provider that asks for a wait of two hours puts the run to sleep, and status shows until when. An engine test shows
// that such a run wakes up.
func TestRunSleepsAsLongAsTheProviderAsks(t *testing.T) {
	dir := t.TempDir()
	good := providertest.NewServer(t, providertest.Chat)
	f := &faults{server: good, first: []func(http.ResponseWriter){refuse(429, "7200")}}
	server := httptest.NewServer(f)
	defer server.Close()
	for name, text := range map[string]string{
		"hello.md":      hello,
		"espalier.yaml": fmt.Sprintf("models: {providers: {mine: {api: openai, base_url: %q}}}\n", server.URL),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	do := func(signals *Signals, args ...string) (string, int) {
		var out strings.Builder
		code := Main(Environment{
			Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Dir: dir,
			Getenv: func(string) string { return "" }, Signals: signals,
		}, args)
		return out.String(), code
	}
	const id = "00000000-0000-4000-8000-00000000000b"
	begin, signals, ended := time.Now(), NewSignals(), make(chan string)
	go func() {
		out, code := do(signals, "run", "hello.md", "--model", "mine/suite", "--run-id", id)
		ended <- fmt.Sprintf("exit %d\n%s", code, out)
	}()
	status, code := do(nil, "status", id)
	for !strings.Contains(status, "sleeping") && time.Since(begin) < 30*time.Second {
		status, code = do(nil, "status", id)
	}
	signals.Deliver(os.Interrupt)
	out := <-ended
	wake := regexp.MustCompile(`sleeping until (\S+ \S+) \((.*)\)`).FindStringSubmatch(status)
	if code != 0 || wake == nil || f.seen.Load() != 1 {
		t.Fatalf("exit %d\n%s\n%s", code, status, out)
	}
	until, err := time.ParseInLocation(time.DateTime, wake[1], time.Local)
	if err != nil || until.Before(begin.Add(2*time.Hour-time.Second)) || until.After(time.Now().Add(2*time.Hour)) {
		t.Errorf("%v: until %s", err, wake[1])
	}
	if !strings.Contains(wake[2], "greet") {
		t.Errorf("it sleeps because of %s", wake[2])
	}
	if !strings.Contains(out, "exit 130") || !strings.Contains(out, "greet  waits: not now; continues in 2 h") {
		t.Error(out)
	}
}

// What does not pass is not tried again, and the run says why it failed.
func TestRefusedRequestsAreNotRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		first func(http.ResponseWriter)
		want  string
	}{
		"wrong request": {refuse(400, ""), "not now"},
		"wrong key":     {refuse(401, ""), "not now"},
		"used up": {func(w http.ResponseWriter) {
			w.WriteHeader(429)
			fmt.Fprint(w, `{"error":{"code":"insufficient_quota","message":"pay first"}}`)
		}, "pay first"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			f := &faults{server: http.NotFoundHandler(), first: []func(http.ResponseWriter){c.first}}
			server := httptest.NewServer(f)
			defer server.Close()
			for name, text := range map[string]string{
				"hello.md": hello, "espalier.yaml": fmt.Sprintf("models: {providers: {mine: {api: openai, base_url: "+
					"%q}}}\n", server.URL),
			} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var stdout, stderr strings.Builder
			code := Main(Environment{
				Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr,
				Dir: dir, Getenv: func(string) string { return "" },
			}, []string{"run", "hello.md", "--model", "mine/m"})
			if code != exitFailed || !strings.Contains(stderr.String(), c.want) || f.seen.Load() != 1 {
				t.Errorf("exit %d after %d requests\n%s", code, f.seen.Load(), stderr.String())
			}
		})
	}
}
