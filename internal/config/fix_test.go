package config_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/source"
)

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
