package registry

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/npmtest"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/providertest"
)

// Every provider against a server that we did not write: streaming, tools, the
// form of replies, and statuses that are errors.
func TestProvidersPassAimock(t *testing.T) {
	base := npmtest.Serve(t, filepath.Join("testdata", "aimock", "serve.cjs"), npmtest.ModelServer)
	ask := func(text string) provider.Request {
		r := providertest.AskText()
		r.Messages[0].Blocks[0].Text, r.For.Step = text, text
		return r
	}
	for api, path := range map[string]string{
		config.Anthropic: "", config.OpenAI: "/v1", config.OpenAIResponses: "/v1", config.Gemini: "",
	} {
		t.Run(api, func(t *testing.T) {
			m := models(t,
				"models: {providers: {mock: {api: "+api+", base_url: '"+base+path+"', key_env: K, max_retries: 0}}}",
				map[string]string{"K": "k"})
			model := router{models: m, override: "mock/" + map[string]string{
				config.Anthropic: "claude-sonnet-4-5",
				config.Gemini:    "gemini-2.5-flash",
			}[api]}
			if model.override == "mock/" {
				model.override = "mock/gpt-5-mini"
			}
			limited := provider.Error{Class: ir.ClassRateLimit, Status: 429, RetryAfter: 7 * time.Second}
			providertest.Run(t, providertest.Subject{Model: model, Failures: []providertest.Failure{
				{Request: ask("too often"), Want: limited},
				{Request: ask("overloaded"), Want: provider.Error{Class: ir.ClassAPI, Status: 529}},
				{Request: ask("bad request"), Want: provider.Error{Class: ir.ClassBadRequest, Status: 400}},
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
