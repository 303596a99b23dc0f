package builtin

import (
	"bufio"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/npmtest"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/providertest"
)

// A server of models that we did not write, at a version that is known to work.
const aimock = "@copilotkit/aimock@1.43.0"

func startAimock(t *testing.T) string {
	t.Helper()
	server := exec.Command("node", filepath.Join("testdata", "aimock", "serve.cjs"), npmtest.Install(t, aimock))
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
