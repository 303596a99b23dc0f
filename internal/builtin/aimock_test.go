package builtin

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/providertest"
)

// A server of models that we did not write, at a version that is known to work.
const aimock = "@copilotkit/aimock@1.43.0"

// need ends a test that lacks something. Where everything has to be tested,
// lacking it is a failure; elsewhere the reason is hard to overlook.
func need(t *testing.T, err error, what string) {
	t.Helper()
	if err == nil {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("%s: %v", what, err)
	}
	t.Skipf("NOT TESTED against a server that we did not write: %s: %v", what, err)
}

// installAimock puts the server into the user's cache, once for all times.
func installAimock(t *testing.T) string {
	t.Helper()
	_, err := exec.LookPath("node")
	need(t, err, "Node.js is needed")
	cache, err := os.UserCacheDir()
	need(t, err, "there is no folder for caches")
	dir := filepath.Join(cache, "espalier-tests", "aimock-1.43.0")
	installed := filepath.Join(dir, "node_modules", "@copilotkit", "aimock", "package.json")
	if _, err := os.Stat(installed); err == nil {
		return dir
	}
	// Beside its place first, so that another test never sees half of it.
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	fresh, err := os.MkdirTemp(filepath.Dir(dir), "installing-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(fresh)
	npm := exec.Command("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", fresh, aimock)
	out, err := npm.CombinedOutput()
	need(t, err, "npm cannot install "+aimock+":\n"+string(out))
	if err := os.Rename(fresh, dir); err != nil {
		if _, there := os.Stat(installed); there != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func startAimock(t *testing.T) string {
	t.Helper()
	server := exec.Command("node", filepath.Join("testdata", "aimock", "serve.cjs"), installAimock(t))
	server.Stderr = t.Output()
	in, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close() // which ends it
		_, _ = io.Copy(io.Discard, out)
		_ = server.Wait()
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(url)
}

// Every provider against a server that we did not write: streaming, tools, the
// form of replies, and statuses that are errors.
func TestAgainstAimock(t *testing.T) {
	base := startAimock(t)
	ask := func(text string) provider.Request {
		r := providertest.AskText()
		r.Messages[0].Blocks[0].Text, r.For.Step = text, text
		return r
	}
	for api, path := range map[string]string{
		config.Anthropic: "", config.OpenAI: "/v1", config.OpenAIResponses: "/v1", config.Gemini: "",
	} {
		t.Run(api, func(t *testing.T) {
			m := models(t, "models: {providers: {mock: {api: "+api+", base_url: '"+base+path+"', key_env: K, max_retries: 0}}}", map[string]string{"K": "k"})
			model := router{models: m, instead: "mock/" + map[string]string{config.Anthropic: "claude-sonnet-4-5", config.Gemini: "gemini-2.5-flash"}[api]}
			if model.instead == "mock/" {
				model.instead = "mock/gpt-5-mini"
			}
			limited := provider.Error{Class: provider.RateLimit, Status: 429, RetryAfter: 7 * time.Second}
			providertest.Run(t, providertest.Subject{Model: model, Failures: []providertest.Failure{
				{Request: ask("too often"), Want: limited},
				{Request: ask("overloaded"), Want: provider.Error{Class: provider.APIError, Status: 529}},
				{Request: ask("bad request"), Want: provider.Error{Class: provider.BadRequest, Status: 400}},
			}})
			both := providertest.AskTool()
			both.Messages[0].Blocks[0].Text = "Use both tools."
			reply, err := providertest.Collect(t, model.Generate(t.Context(), both))
			if err != nil {
				t.Fatal(err)
			}
			providertest.Check(t, both, reply)
			calls := 0
			for _, b := range reply.Blocks {
				if b.Type == provider.ToolUse {
					calls++
				}
			}
			if calls != 2 || reply.Stop != provider.WantsTool {
				t.Errorf("%d calls, stopped with %s", calls, reply.Stop)
			}
		})
	}
}
