package ir_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
)

func TestUnread(t *testing.T) {
	u := ir.Unread{Texts: []string{"id: \"sort\nwrites: [state.kind, state.request.text]\nagent: first-reader\n", "output"}}
	for name, want := range map[string]bool{
		"sort": true, "sor": false, "ort": false, "kind": false, "first-reader": true, "reader": false, "": false, "output": true,
	} {
		if got := u.Mentions(name); got != want {
			t.Errorf("Mentions(%q) = %v", name, got)
		}
	}
	for path, want := range map[string]bool{
		"state.kind": true, "state.kind.of": true, "state.request": true, "state.request.other": true, "state.kin": false,
		"output": true, "output.a": false, "state": true,
	} {
		if got := u.MentionsPath(path); got != want {
			t.Errorf("MentionsPath(%q) = %v", path, got)
		}
	}
	if (&ir.Unread{}).MentionsPath("state.kind") {
		t.Error("nothing mentions something")
	}
}
