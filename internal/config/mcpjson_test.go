package config_test

import (
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/config"
)

func TestParseMCP(t *testing.T) {
	got, err := config.ParseMCP([]byte(`{"mcpServers":{
		"web":{"type":"http","url":"https://a.example/mcp","headers":{"Authorization":"Bearer ${TOKEN}"}},
		"fs":{"command":"npx","args":["-y","server","${HOME:-/tmp}"],"env":{"B":"2","A":"1"}}}}`))
	if err != nil || len(got) != 2 {
		t.Fatalf("%v, %v", got, err)
	}
	fs, web := got[0], got[1]
	if fs.Name.Value != "fs" || len(fs.Is.Command) != 4 || fs.Is.Command[3].Value != "${HOME:-/tmp}" || fs.Is.Env[0].Name != "A" {
		t.Errorf("%+v", fs)
	}
	if web.Is.URL.Value != "https://a.example/mcp" || web.Is.Headers[0].Value.Value != "Bearer ${TOKEN}" {
		t.Errorf("%+v", web)
	}
	for text, want := range map[string]string{
		`{`:                       "cannot be read",
		`{"mcpServers":{"a":{}}}`: "neither",
		`{"mcpServers":{"a":{"type":"sse","url":"http://x"}}}`: "SSE",
		`{"mcpServers":{"a.b":{"command":"x"}}}`:               "cannot be the name",
	} {
		if _, err := config.ParseMCP([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestExpand(t *testing.T) {
	env := map[string]string{"A": "1", "EMPTY": ""}
	for text, want := range map[string]string{
		"plain": "plain", "${A}": "1", "a${A}b${A}": "a1b1", "${B:-two}": "two", "${B:-}": "", "${EMPTY:-x}": "x", "$A": "$A", "${B:-${A}": "${A",
	} {
		if got, err := config.Expand(text, func(name string) string { return env[name] }); err != nil || got != want {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{"${B}": "B is not set", "${A": "not closed"} {
		if _, err := config.Expand(text, func(name string) string { return env[name] }); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
