package ir_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
)

func TestUnread(t *testing.T) {
	u := ir.Unread{
		Texts:  []string{"id: \"sort\nwrites: [state.kind, state.request.text]\nagent: first-reader\n", "output"},
		Warned: []string{"agent: second"},
	}
	for name, want := range map[string]bool{
		"sort": true, "sor": false, "ort": false, "kind": false, "first-reader": true, "reader": false, "": false,
		"second":     false,
		"state.kind": true, "state.kind.of": true, "state.request": true, "state.request.other": true,
		"state.kin": false,
		"output":    true, "output.a": false,
	} {
		if got := u.Explains(diag.Error, name); got != want {
			t.Errorf("Explains(%q) = %v", name, got)
		}
	}
	if !u.Explains(diag.Warning, "second") || !u.Explains(diag.Error, "nothing", "sort") || u.Explains(diag.Error) {
		t.Error("warnings, several names or none")
	}
	if (&ir.Unread{}).Explains(diag.Note, "state.kind") {
		t.Error("nothing explains something")
	}
}
