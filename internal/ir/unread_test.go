package ir_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
)

func TestUnreadPartsExplainTheirNames(t *testing.T) {
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

// Files with thousands of unreadable parts and names are checked in time that is proportional to their size.
func TestManyUnreadPartsExplainEverything(t *testing.T) {
	few, many := make([]string, 200), make([]string, 201)
	for _, c := range []struct {
		unread   ir.Unread
		severity diag.Severity
		want     bool
	}{
		{ir.Unread{Texts: few}, diag.Error, false},
		{ir.Unread{Texts: many}, diag.Error, true},
		{ir.Unread{Warned: many}, diag.Error, false},
		{ir.Unread{Warned: many}, diag.Warning, true},
	} {
		if got := c.unread.Explains(c.severity, "state.a"); got != c.want {
			t.Errorf("%d and %d parts, %v: %t", len(c.unread.Texts), len(c.unread.Warned), c.severity, got)
		}
	}
}
