package redact

import (
	"testing"

	"pgregory.net/rapid"
)

// A text without a hint of a rule has no match of it.
func TestHintsAreComplete(t *testing.T) {
	for _, r := range builtin() {
		if r.hints == nil {
			continue
		}
		rapid.Check(t, func(t *rapid.T) {
			text := rapid.StringMatching(r.expr).Draw(t, "text")
			if r.find().MatchString(text) && !r.hinted(text) {
				t.Fatalf("%s: %q", r.name, text)
			}
		})
	}
}
