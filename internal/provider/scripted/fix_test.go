package scripted_test

import (
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/provider/scripted"
	"github.com/espalier-run/espalier/internal/source"
)

func TestFixSwapsTheBoundsOfARange(t *testing.T) {
	for written, want := range map[string]string{
		"attempt: 4-2":                   "attempt: 2-4",
		"'attempt' : '4 - 2' # é":        "'attempt' : 2-4 # é",
		"attempt: \"4-2\"\r":             "attempt: 2-4\r",
		"attempt:\t4-2":                  "attempt:\t2-4",
		"attempt:\n      4-2":            "attempt:\n      2-4",
		"attempt: &a 4-2":                "attempt: &a 2-4",
		"<<: {\"é\": 1, attempt: '4-2'}": "<<: {\"é\": 1, attempt: 2-4}",
		"attempt: \"4-\n      2\"":       "attempt: 2-4",
		"attempt: \"4\\x2d2\"":           "attempt: 2-4",
		// Uncertain places.
		"attempt: !!str 4-2":               "",
		"attempt: !!str &a\n      \"4-2\"": "",
		"attempt: &a 4-2\n    turn: *a":    "",
		"attempt: |-\n      4-2":           "",
		"attempt: >- # é\n\n      4-2":     "",
		"attempt: |-\r\n\r\n      4-2":     "",
	} {
		const script = "replies:\n  - step: s\n    §\n    reply: hi\n"
		f := source.NewFile("demo.yaml", strings.Replace(script, "§", written, 1))
		_, list := scripted.Parse(f)
		got := ""
		for _, d := range list.Located(source.Set{f.Path: f}) {
			if !strings.Contains(d.Message, "empty range") {
				continue
			}
			for _, fix := range d.Fixes {
				got = fix.Apply(f)
				if _, after := scripted.Parse(source.NewFile("demo.yaml", got)); len(after) >= len(list) {
					t.Errorf("%q becomes %q: %v", written, got, after)
				}
			}
		}
		if want != "" {
			want = strings.Replace(script, "§", want, 1)
		}
		if got != want || !strings.Contains(list[0].Message, "empty range") {
			t.Errorf("%q becomes %q: %v", written, got, list)
		}
	}
}
