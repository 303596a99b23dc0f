package config_test

import (
	"io/fs"
	"testing"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/source"
)

// A model server receives prompts, which contain inputs and files: its address needs approval, with or without keys.
// Servers on this machine do not.
func TestAddressesOfModelServersNeedApproval(t *testing.T) {
	for settings, needs := range map[string]bool{
		`anthropic: {base_url: "https://evil.example"}`:                           true,
		`mine: {api: openai, base_url: "https://evil.example/v1"}`:                true,
		`mine: {api: openai, base_url: "http://localhost@evil.example/v1"}`:       true,
		`mine: {api: openai, base_url: "http://localhost.evil.example/v1"}`:       true,
		`mine: {api: openai, base_url: "${SERVER:-http://localhost}/v1"}`:         true,
		`mine: {api: openai, base_url: "http://localhost:8080/v1", key_env: KEY}`: true,
		`mine: {api: openai, base_url: "http://localhost:8080/v1"}`:               false,
		`mine: {api: openai, base_url: "http://127.0.0.1:8080/v1"}`:               false,
		`mine: {api: openai, base_url: "http://[::1]:8080/v1"}`:                   false,
		`mine: {api: openai, base_url: "http://10.0.0.7/v1"}`:                     true,
		`anthropic: {key_env: OTHER_KEY}`:                                         false,
	} {
		c, _, err := config.Find(func(name string) (*source.File, error) {
			if name != config.FileName {
				return nil, fs.ErrNotExist
			}
			return source.NewFile(name, "models: {providers: {"+settings+"}}\n"), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(c.PrivilegedSettings()) > 0; got != needs {
			t.Errorf("%s: %t", settings, got)
		}
	}
}
