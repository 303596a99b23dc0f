package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/diag"
)

// examples are the workflows that these tests break, line by line.
func examples(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("../../examples/agent-flow/*.md")
	if err != nil || len(found) < 5 {
		t.Fatalf("found %d examples, %v", len(found), err)
	}
	return found
}

// broken validates a changed example in its place.
func broken(t *testing.T, path, text string) *app.Analysis {
	t.Helper()
	an, err := app.New(app.Options{Dir: "."}).Analyze(t.Context(),
		app.AnalyzeRequest{Workflow: path, Unsaved: map[string]string{path: text}})
	if err != nil {
		t.Fatal(err)
	}
	checkSpans(t, an.Diagnostics, an.Files)
	return an
}

// A file with any one line changed yields printable diagnostics, and no panic.
func TestChangedLinesYieldPrintableDiagnostics(t *testing.T) {
	// Between them, these two use every kind of block.
	for _, path := range []string{
		"../../examples/agent-flow/contract-review.md",
		"../../examples/agent-flow/vendor-onboarding.md",
	} {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(string(raw), "\n")
		for i, line := range lines {
			before, after := strings.Join(lines[:i], ""), strings.Join(lines[i+1:], "")
			for _, instead := range []string{"", "\t" + line, "]]: {{\n", line[:len(line)/2] + "\n"} {
				broken(t, path, before+instead+after)
			}
		}
	}
}

// A misspelt key is never passed over in silence.
func TestMisspeltKeysAreReported(t *testing.T) {
	key := regexp.MustCompile(`^(  )?[a-z_]{3,}:( |$)`)
	for _, path := range examples(t) {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		whole := broken(t, path, string(raw))
		lines := strings.SplitAfter(string(raw), "\n")
		inYAML, inSchema := false, false
		for i, line := range lines {
			switch {
			case strings.HasPrefix(line, "---") || strings.HasPrefix(line, "```"):
				inYAML = !inYAML
				continue
			case !inYAML || !key.MatchString(strings.TrimRight(line, "\n")):
				continue
			}
			if !strings.HasPrefix(line, " ") {
				inSchema = strings.HasPrefix(line, "input:") || strings.HasPrefix(line, "output:") ||
					strings.HasPrefix(line, "branches:")
			} else if inSchema {
				continue // names of the author's own choice
			}
			at := strings.IndexFunc(line, func(r rune) bool { return r != ' ' })
			misspelt := line[:at+1] + "x" + line[at+1:]
			an := broken(t, path, strings.Join(lines[:i], "")+misspelt+strings.Join(lines[i+1:], ""))
			known := func(d diag.Diagnostic) bool {
				return slices.ContainsFunc(whole.Diagnostics,
					func(w diag.Diagnostic) bool { return w.Code == d.Code && w.Message == d.Message })
			}
			if !slices.ContainsFunc(an.Diagnostics, func(d diag.Diagnostic) bool { return !known(d) }) {
				t.Errorf("nothing is said about %q in line %d of %s", strings.TrimSpace(misspelt), i+1, path)
			}
		}
	}
}
