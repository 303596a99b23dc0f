package registry

import (
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/npmtest"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/providertest"
)

// Every provider accepts the definitions of all built-in tools and of all tools
// of two public MCP servers.
func TestEveryToolIsAccepted(t *testing.T) {
	t.Setenv("TEST_SERVER", npmtest.Program(t, "@modelcontextprotocol/server-everything@2026.8.31",
		"mcp-server-everything"))
	files := npmtest.Program(t, "@modelcontextprotocol/server-filesystem@2026.8.31", "mcp-server-filesystem")
	tools := projectTools(t, "mcp: {files: {command: ["+files+", "+t.TempDir()+"]}}\n",
		`{"mcpServers":{"everything":{"command":"${SERVER}","args":["stdio"]}}}`)
	box := toolbox{Tools: tools}
	var offered []provider.Tool
	for _, pattern := range []string{"*", "everything.*", "files.*"} {
		for _, name := range box.Names(pattern) {
			if found := box.Tool(name); found != nil && !slices.ContainsFunc(offered,
				func(t provider.Tool) bool { return t.Name == name }) {
				spec := found.Spec()
				offered = append(offered, provider.Tool{
					Name: spec.Name, Description: spec.Description,
					Schema: spec.Schema,
				})
			}
		}
	}
	for kind, least := range map[string]int{"everything.": 8, "files.": 10, "": 26} {
		n := 0
		for _, o := range offered {
			if strings.HasPrefix(o.Name, kind) {
				n++
			}
		}
		if n < least {
			t.Fatalf("found only %d tools %q of %v", n, kind, offered)
		}
	}
	for api, protocol := range map[string]providertest.Protocol{
		config.Anthropic: providertest.Anthropic, config.OpenAI: providertest.Chat,
		config.OpenAIResponses: providertest.Responses, config.Gemini: providertest.Gemini,
	} {
		t.Run(api, func(t *testing.T) {
			server := providertest.NewServer(t, protocol)
			m := models(t,
				"models: {providers: {mock: {api: "+api+", base_url: '"+server.URL+"', key_env: K, max_retries: 0}}}",
				map[string]string{"K": server.Key})
			req := providertest.AskText()
			req.Tools, req.Options = offered, []byte(`{"temperature":0.5}`)
			reply, err := providertest.Collect(t, router{models: m, override: "mock/suite"}.Generate(t.Context(), req))
			if err != nil {
				t.Fatal(err)
			}
			if a := reply.RequestParams; a == nil || a.Server != "127.0.0.1" || a.MaxTokens != req.MaxTokens ||
				a.Temperature == nil || *a.Temperature != 0.5 || a.JSON {
				t.Errorf("recorded about the request: %+v", a)
			}
		})
	}
}
