package diag_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
)

func TestStrictTurnsWarningsIntoErrors(t *testing.T) {
	list := diag.List{
		{Code: "A", Severity: diag.Note},
		{Code: "B", Severity: diag.Note, Lenient: true},
		{Code: "C", Severity: diag.Warning},
		{Code: "D", Severity: diag.Error},
	}
	var got []diag.Severity
	for _, d := range list.Strict() {
		got = append(got, d.Severity)
	}
	if diff := cmp.Diff([]diag.Severity{diag.Note, diag.Error, diag.Error, diag.Error}, got); diff != "" {
		t.Error(diff)
	}
	if list[1].Severity != diag.Note {
		t.Error("the list itself has changed")
	}
	if !list.Errors() || list[:3].Errors() {
		t.Error("Errors does not look at severities alone")
	}
}

func TestSortedOrdersByPlaceWithoutDuplicates(t *testing.T) {
	at := func(code diag.Code, file string, start, end int) diag.Diagnostic {
		return diag.Diagnostic{Code: code, Span: source.Span{File: file, Start: start, End: end}, Message: string(code)}
	}
	list := diag.List{
		at("B", "b", 0, 1), at("A", "a", 5, 6), at("C", "a", 5, 6), at("A", "a", 5, 6),
		at("A", "a", 0, 9), at("A", "a", 0, 2),
	}
	want := diag.List{
		at("A", "a", 0, 2), at("A", "a", 0, 9), at("A", "a", 5, 6), at("C", "a", 5, 6),
		at("B", "b", 0, 1),
	}
	if diff := cmp.Diff(want, list.Sorted()); diff != "" {
		t.Error(diff)
	}
}

// Files may have thousands of names, or names of megabytes: no suggestion is made then.
func TestSuggestionsAreBounded(t *testing.T) {
	var many []string
	for i := range 1001 {
		many = append(many, fmt.Sprintf("name%d", i))
	}
	for text, candidates := range map[string][]string{
		"nome7": many, strings.Repeat("x", 101): {strings.Repeat("x", 100)},
		"x" + strings.Repeat("y", 99): {"x" + strings.Repeat("y", 100)},
	} {
		if got := diag.Nearest(text, candidates); got != "" {
			t.Errorf("%d candidates for a name of %d bytes: %q", len(candidates), len(text), got)
		}
		if got := diag.DidYouMean(text, candidates); len(got) > 200 {
			t.Errorf("%.200s", got)
		}
	}
	if got := diag.Nearest("nome7", many[:1000]); got != "name7" {
		t.Errorf("%q", got)
	}
	if got := diag.DidYouMean("anything", many); got != "" {
		t.Errorf("%q", got)
	}
}

func TestNearestSuggestsOnlySimilarNames(t *testing.T) {
	steps := []string{"validate_input", "extract", "review", "Publish", "id"}
	for name, want := range map[string]string{
		"validate_inptu": "validate_input", // two letters swapped
		"validateinput":  "validate_input",
		"extrcat":        "extract",
		"extracts":       "extract",
		"reveiw":         "review",
		"publish":        "Publish", // only the case differs
		"PUBLISH":        "Publish",
		"di":             "id",
		"x":              "",
		"approve":        "",
		"":               "",
		"validate":       "", // six letters differ, so there is no suggestion
	} {
		if got := diag.Nearest(name, steps); got != want {
			t.Errorf("nearest to %q is %q, want %q", name, got, want)
		}
	}
	if got := diag.Nearest("y", []string{"a", "b"}); got != "" {
		t.Errorf("a name that shares nothing is not near: %q", got)
	}
	if got := diag.Nearest("nn", []string{"n"}); got != "n" {
		t.Errorf("nearest to nn is %q", got)
	}
	if got := diag.Nearest("ab", []string{"ac", "aa"}); got != "aa" {
		t.Errorf("of two that are equally near the first by name is taken, not %q", got)
	}
	if got := diag.Nearest("résumé", []string{"resume", "résume"}); got != "résume" {
		t.Errorf("letters are counted, not bytes: %q", got)
	}
}

func TestNearestNameIsSuggested(t *testing.T) {
	for _, c := range []struct {
		name       string
		candidates []string
		want       string
	}{
		{"reviw", []string{"review"}, `Did you mean "review"?`},
		{"x", []string{"review", "extract", "review"}, "There are extract and review."},
		{"x", []string{"review", "review"}, "There is only review."},
		{"x", nil, ""},
		{
			"zzz",
			[]string{"a01", "a02", "a03", "a04", "a05", "a06", "a07", "a08", "a09", "a10", "a11", "a12", "a13", "a14"},
			"There are a01, a02, a03, a04, a05, a06, a07, a08, a09, a10, a11, a12 and 2 more.",
		},
	} {
		if got := diag.DidYouMean(c.name, c.candidates); got != c.want {
			t.Errorf("%q: %q, want %q", c.name, got, c.want)
		}
	}
}
