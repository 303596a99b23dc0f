//go:build live

package registry

import (
	"cmp"
	"os"
	"testing"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/anthropic"
	"github.com/espalier-run/espalier/internal/provider/gemini"
	"github.com/espalier-run/espalier/internal/provider/openai"
	"github.com/espalier-run/espalier/internal/provider/providertest"
)

// TestLive runs the suite of models against the providers' own servers, with the
// keys in the environment. ESPALIER_LIVE_ANTHROPIC and its likes name a model;
// without one, the test uses the provider's default model.
func TestLive(t *testing.T) {
	proven := 0
	for _, c := range []struct{ api, base, key, model, vendor string }{
		{config.Anthropic, anthropic.BaseURL, "ANTHROPIC_API_KEY", "ESPALIER_LIVE_ANTHROPIC", config.Anthropic},
		{config.OpenAI, openai.BaseURL, "OPENAI_API_KEY", "ESPALIER_LIVE_OPENAI", config.OpenAI},
		{config.OpenAIResponses, openai.BaseURL, "OPENAI_API_KEY", "ESPALIER_LIVE_OPENAI", config.OpenAI},
		{config.Gemini, gemini.BaseURL, "GEMINI_API_KEY", "ESPALIER_LIVE_GEMINI", config.Gemini},
	} {
		t.Run(c.api, func(t *testing.T) {
			key := os.Getenv(c.key)
			if key == "" {
				t.Skipf("%s is not set: nothing was proven about %s", c.key, c.api)
			}
			proven++
			m := models(t, "models: {providers: {live: {api: "+c.api+", base_url: '"+c.base+"', key_env: K}}}",
				map[string]string{"K": key})
			model := router{models: m, override: "live/" + cmp.Or(os.Getenv(c.model), config.BuiltIn(c.vendor).Model)}
			providertest.Run(t, providertest.Subject{Model: model})
			t.Run("built-in tools", func(t *testing.T) {
				req := providertest.AskText()
				box := toolbox{Tools: projectTools(t, "tools: {}\n", "")}
				for _, name := range box.Names("*") {
					if found := box.Tool(name); found != nil {
						req.Tools = append(req.Tools, provider.Tool{
							Name: name, Description: found.Spec().Description,
							Schema: found.Spec().Schema,
						})
					}
				}
				if _, err := providertest.Collect(t, model.Generate(t.Context(), req)); err != nil {
					t.Errorf("%d tools: %v", len(req.Tools), err)
				}
			})
		})
	}
	if proven == 0 {
		t.Log("no key is set: nothing was proven about any provider")
	}
}
