//go:build unix

package registry

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/source"
)

// The names that AWF has for agents mean its programs where those are there, and
// the models themselves where there is a key.
func TestAWFAgentNamesSelectProgramsOrModels(t *testing.T) {
	const declared = "models:\n  providers:\n    openai_compatible: {api: openai, base_url: 'http://mine.example', " +
		"model: own}\n  clis:\n    opencode: {}\n"
	for _, c := range []struct {
		ask, options    string
		programs, keys  string
		config          string
		want, lacks, at string
	}{
		{ask: "claude/sonnet", programs: "claude", keys: "ANTHROPIC_API_KEY", want: "claude-code/sonnet"},
		{ask: "claude", programs: "claude", want: "claude-code"},
		{ask: "claude/sonnet", keys: "ANTHROPIC_API_KEY", want: "anthropic/claude-sonnet-5-5"},
		{ask: "claude", keys: "ANTHROPIC_API_KEY", want: "anthropic/claude-sonnet-5-5"},
		{ask: "claude/sonnet", want: "claude-code/sonnet", lacks: "not on the PATH"},
		{ask: "codex/gpt-6.1-sol", keys: "OPENAI_API_KEY", want: "openai/gpt-6.1-sol"},
		{ask: "codex", programs: "codex", keys: "OPENAI_API_KEY", want: "codex"},
		{ask: "gemini", programs: "gemini", keys: "GEMINI_API_KEY", want: "gemini/gemini-3.8-flash"},
		{ask: "gemini/flash", programs: "gemini", want: "gemini-cli/flash"},
		{ask: "gemini", programs: "gemini", want: "gemini-cli"},
		{ask: "gemini/flash", want: "gemini/flash", lacks: "GEMINI_API_KEY is not set"},
		{ask: "github_copilot", programs: "copilot", want: "copilot"},
		{ask: "github_copilot", keys: "OPENAI_API_KEY", want: "copilot", lacks: "not on the PATH"},
		{ask: "mistral_vibe", programs: "vibe", want: "vibe", lacks: "cannot enforce tool permissions"},
		{ask: "opencode", programs: "opencode", config: declared, want: "opencode"},
		{
			ask: "openai_compatible/m", options: `{"base_url":"http://127.0.0.1:9/v1/","api_key":"k"}`,
			want: "openai_compatible/m", at: "http://127.0.0.1:9/v1 k",
		},
		{
			ask: "openai_compatible/m", options: `{"base_url":"http://there.example"}`, keys: "OPENAI_API_KEY",
			want: "openai_compatible/m", at: "http://there.example ",
		},
		{
			ask: "openai_compatible/m", options: `{"base_url":"https://api.openai.com/v1"}`, keys: "OPENAI_API_KEY",
			want: "openai_compatible/m", at: "https://api.openai.com/v1 OPENAI_API_KEY-value",
		},
		{
			ask: "openai_compatible/m", options: `{"base_url":"https://api.openai.com/v1"}`,
			want:  "openai_compatible/m",
			lacks: "OPENAI_API_KEY is not set",
		},
		{
			ask: "openai_compatible/m", options: `{"base_url":"http://localhost:9","api_key":"${MINE}"}`, keys: "MINE",
			want: "openai_compatible/m", at: "http://localhost:9 MINE-value",
		},
		{
			ask: "openai_compatible/m", options: `{"base_url":"http://localhost:9","api_key":"${MINE}"}`,
			want: "openai_compatible/m", lacks: "MINE",
		},
		{
			ask: "openai_compatible/m", options: `{"base_url":"https://there.example","api_key":"x${MINE}"}`,
			keys: "MINE",
			want: "openai_compatible/m", lacks: "is not sent to",
		},
		{
			ask: "openai_compatible/m", options: `{"base_url":"https://localhost@there.example","api_key":"${MINE}"}`,
			keys: "MINE", want: "openai_compatible/m", lacks: "is not sent to",
		},
		{
			ask: "openai_compatible/m", options: `{"base_url":"https://there.example","api_key":"secret://mine"}`,
			want: "openai_compatible/m", lacks: "is not sent to",
		},
		{
			ask: "openai_compatible/m", options: `{"base_url":"https://there.example","api_key":"plain"}`,
			want: "openai_compatible/m", at: "https://there.example plain",
		},
		{
			ask: "openai_compatible/m", options: `{"base_url":"http://there.example","api_key":"${OPENAI_API_KEY}"}`,
			keys: "OPENAI_API_KEY", want: "openai_compatible/m", lacks: "is not sent to",
		},
		{
			ask: "openai_compatible/m", options: `{"base_url":"http://localhost:9","api_key":"secret://mine"}`,
			config: "secrets: {mine: {env: MINE}}", keys: "MINE",
			want: "openai_compatible/m", at: "http://localhost:9 MINE-value",
		},
		{
			ask: "openai_compatible/m", options: `{"base_url":"http://localhost:9","api_key":"secret://mine"}`,
			config: "secrets: {mine: {env: OPENAI_API_KEY}}", keys: "OPENAI_API_KEY",
			want: "openai_compatible/m", lacks: "the key in OPENAI_API_KEY is not sent to http://localhost:9",
		},
		{ask: "openai_compatible/m", options: `{}`, keys: "OPENAI_API_KEY", want: "openai/m"},
		{
			ask: "openai_compatible/m", options: `{"base_url":"http://there.example"}`, config: declared,
			want: "openai_compatible/m", at: "http://mine.example ",
		},
		{ask: "openai_compatible", options: `{"base_url":"http://there.example"}`, want: "", lacks: "without a model"},
		{ask: "openai_compatible/m", options: `{"base_url":"there"}`, want: "", lacks: "is not an HTTP URL"},
	} {
		bin := t.TempDir()
		for _, name := range strings.Fields(c.programs) {
			if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("PATH", bin)
		settings, problems := config.Parse(source.NewFile(config.FileName, c.config))
		if problems.Errors() {
			t.Fatal(problems)
		}
		m := NewModels(t.TempDir(), settings, func(name string) string {
			if strings.Contains(" "+c.keys+" ", " "+name+" ") {
				return name + "-value"
			}
			return ""
		})
		choice, problem := m.ChooseWith(c.ask, json.RawMessage(c.options))
		got, lacks, at := "", "", ""
		if problem != nil {
			lacks = problem.Message
		} else {
			got = choice.String()
			if t := m.lacksKey(choice.server); t != nil {
				lacks = t.Message
			}
			if choice.server.cli == nil {
				at = choice.server.base + " "
				if key := m.key(choice.server); key != nil {
					value, _ := key(context.Background())
					at += value
				}
			}
		}
		if got != c.want || (c.lacks == "") != (lacks == "") || !strings.Contains(lacks, c.lacks) || c.at != "" &&
			at != c.at {
			t.Errorf("%+v:\n%q lacks %q at %q", c, got, lacks, at)
		}
	}
}
