package config_test

import (
	"slices"
	"testing"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/source"
)

func TestFixRemovesAKeyThatExcludesAnother(t *testing.T) {
	for before, want := range map[string]string{
		"mcp:\n  a:\n    url: https://a.b\n    sandbox: true\n":          "mcp:\n  a:\n    url: https://a.b\n",
		"mcp:\n  a:\n    sandbox: true\n    url: https://a.b\n":          "mcp:\n  a:\n    url: https://a.b\n",
		"mcp: {a: {\"sandbox\": true, url: 'https://a.b'}}\n":            "mcp: {a: {url: 'https://a.b'}}\n",
		"mcp:\n  a:\n    command: [x]\n    oauth:\n      client_id: c\n": "mcp:\n  a:\n    command: [x]\n",
		"mcp:\n  a:\n    url: https://a.b\n    sandbox: true # safe\n":   "",
	} {
		f := source.NewFile("espalier.yaml", before)
		_, list := config.Parse(f)
		got := ""
		for _, d := range list.Located(source.Set{f.Path: f}) {
			for _, fix := range d.Fixes {
				got = fix.Apply(f)
			}
		}
		_, after := config.Parse(source.NewFile("espalier.yaml", got))
		if got != want || len(list) != 1 || len(after) > 0 {
			t.Errorf("%s becomes %q: %v, then %v", before, got, list, after)
		}
	}
}

func TestFixesOfAPlaceholderInACommand(t *testing.T) {
	const before = "models:\n  clis:\n    codex:\n      command: [codex, '{prompt}']\n"
	f := source.NewFile("espalier.yaml", before)
	_, list := config.Parse(f)
	want := []string{
		"models:\n  clis:\n    codex:\n      command: [codex]\n",
		"models:\n  clis:\n    codex:\n      speaks: text\n      command: [codex, '{prompt}']\n",
	}
	var got []string
	for _, d := range list.Located(source.Set{f.Path: f}) {
		for _, fix := range d.Fixes {
			got = append(got, fix.Apply(f))
			if _, after := config.Parse(source.NewFile("espalier.yaml", fix.Apply(f))); len(after) > 0 {
				t.Errorf("after %s: %v", fix.Title, after)
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q: %v", got, list)
	}
}

func TestFixRemovesTheQueryOfAnAddress(t *testing.T) {
	const before = "models: {providers: {openai: {base_url: "
	for address, want := range map[string]string{
		"http://c/v1?key=1#x}}}":  "http://c/v1}}}",
		"'http://c/%20?key=1'}}}": "'http://c/%20'}}}",
		"http://c/v1#a?b}}}":      "http://c/v1}}}",
		`"http://c/\x3fkey=1"}}}`: "", // an escape
	} {
		f := source.NewFile("espalier.yaml", before+address)
		_, list := config.Parse(f)
		got := ""
		for _, d := range list.Located(source.Set{f.Path: f}) {
			for _, fix := range d.Fixes {
				got = fix.Apply(f)[len(before):]
			}
		}
		if len(list) != 1 || got != want {
			t.Errorf("%s becomes %q: %v", address, got, list)
		}
	}
}
