package diag_test

import (
	"flag"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
)

var update = flag.Bool("update", false, "rewrite the expectations in testdata")

// cut removes two marks from a text and returns the span between them.
func cut(text, opening, closing string) (string, int, int) {
	before, rest, found := strings.Cut(text, opening)
	if !found {
		return text, -1, -1
	}
	inside, after, _ := strings.Cut(rest, closing)
	return before + inside + after, len(before), len(before) + len(inside)
}

// marked returns a diagnostic for the marked span of a text.
func marked(name, in string) (*source.File, diag.Diagnostic) {
	in = strings.NewReplacer("␍", "\r", "→", "\t", "¶\n", "", "☇", "\x1b", "⇄", "\u202e").Replace(in)
	d := diag.Diagnostic{Code: "AF001", Severity: diag.Error, Message: "Something is wrong.", Help: "Mend it."}
	// The marks of one span must not affect the offsets of the other.
	withoutRelated := strings.NewReplacer("‹", "", "›", "").Replace(in)
	text, start, end := cut(withoutRelated, "«", "»")
	f := source.NewFile(name, text)
	d.Span = f.Span(start, end)
	if _, start, end := cut(strings.NewReplacer("«", "", "»", "").Replace(in), "‹", "›"); start >= 0 {
		d.Related = []diag.Related{{Span: f.Span(start, end), Message: "first written here"}}
	}
	return f, d
}

func TestPrintMatchesGoldenFile(t *testing.T) {
	const path = "testdata/render.txtar"
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wanted := map[string]string{}
	for _, f := range archive.Files {
		wanted[f.Name] = string(f.Data)
	}
	rewritten := &txtar.Archive{Comment: archive.Comment}
	for _, c := range archive.Files {
		name, isCase := strings.CutSuffix(c.Name, ".txt")
		if !isCase {
			continue
		}
		f, d := marked(c.Name, string(c.Data))
		var b strings.Builder
		if err := (diag.Printer{Files: source.Set{f.Path: f}}).Print(&b, diag.List{d}); err != nil {
			t.Fatal(err)
		}
		rewritten.Files = append(rewritten.Files, c, txtar.File{Name: name + ".out", Data: []byte(b.String())})
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(wanted[name+".out"], b.String()); diff != "" && !*update {
				t.Errorf("(-wanted +got):\n%s", diff)
			}
		})
	}
	if *update {
		if err := os.WriteFile(path, txtar.Format(rewritten), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Places in other files, missing files, and diagnostics without a place.
func TestPrintPlacesOutsideTheFile(t *testing.T) {
	a, b := source.NewFile("a.md", "id: x\n"), source.NewFile("sub/b.md", "one\nid: x\n")
	files := source.Set{}
	files.Add(a, b, nil)
	list := diag.List{
		{Code: "AF001", Severity: diag.Error, Span: a.Span(4, 5), Message: "There are two.", Related: []diag.Related{
			{Span: b.Span(8, 9), Message: "the other one"},
			{Span: source.Span{File: "gone.md", Start: 3, End: 4}, Message: "a third one"},
		}},
		{
			Code: "AF002", Severity: diag.Warning, Span: source.Span{File: "gone.md", Start: 3, End: 4},
			Message: "It is not there.", Help: "Look for it.",
		},
		{Code: "PRJ001", Severity: diag.Note, Message: "Nothing in particular."},
	}
	const want = `error[AF001]: There are two.
 --> a.md:1:5
  |
1 | id: x
  |     ^
 ::: sub/b.md:2:5
  |
2 | id: x
  |     - the other one
 ::: gone.md
  = a third one

warning[AF002]: It is not there.
 --> gone.md
  = help: Look for it.

note[PRJ001]: Nothing in particular.
`
	var out strings.Builder
	if err := (diag.Printer{Files: files}).Print(&out, list); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-wanted +got):\n%s", diff)
	}
}

func TestColorIsTheOnlyEscapeSequence(t *testing.T) {
	f, d := marked("a.md", "id: «x»\n")
	d.Message = "There is no \x1b[2Jstep\n\"x\"."
	var plain, colored strings.Builder
	files := source.Set{f.Path: f}
	for color, b := range map[bool]*strings.Builder{false: &plain, true: &colored} {
		if err := (diag.Printer{Files: files, Color: color}).Print(b, diag.List{d}); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(plain.String(), "\x1b") {
		t.Errorf("an escape sequence without color: %q", plain.String())
	}
	if !strings.Contains(colored.String(), "\x1b[1;31m^\x1b[0m") {
		t.Errorf("no red caret: %q", colored.String())
	}
	stripped := colored.String()
	for _, code := range []string{"\x1b[0m", "\x1b[1m", "\x1b[1;31m", "\x1b[34m", "\x1b[1;32m"} {
		stripped = strings.ReplaceAll(stripped, code, "")
	}
	if stripped != plain.String() {
		t.Errorf("color changes the text:\n%s\n%s", plain.String(), stripped)
	}
}

// Every file and span has a frame, whose lines are short and contain no control characters.
func TestFramesAreShortAndPrintable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("ab \t\r\n\n名é\u0301😀\x1b\u202e\u2028x")), 0, 400, -1).Draw(t,
			"text")
		start := rapid.IntRange(0, len(text)).Draw(t, "start")
		end := rapid.IntRange(start, len(text)).Draw(t, "end")
		f := source.NewFile("a.md", text)
		var b strings.Builder
		d := diag.Diagnostic{Code: "AF001", Severity: diag.Error, Span: f.Span(start, end), Message: "Something."}
		if err := (diag.Printer{Files: source.Set{f.Path: f}}).Print(&b, diag.List{d}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), "^") || strings.ContainsAny(b.String(), "\x1b\r\t\u202e") {
			t.Fatalf("%q", b.String())
		}
		for line := range strings.Lines(b.String()) {
			// Combining marks take no column, so a line may have more characters than columns.
			if utf8.RuneCountInString(line) > 600 {
				t.Fatalf("a line of %d characters", utf8.RuneCountInString(line))
			}
		}
	})
}

func TestSummaryCountsBySeverity(t *testing.T) {
	list := func(severities ...diag.Severity) (l diag.List) {
		for _, s := range severities {
			l.Add(diag.Diagnostic{Severity: s})
		}
		return l
	}
	for _, c := range []struct {
		list diag.List
		want string
	}{
		{nil, ""},
		{list(diag.Error), "1 error"},
		{list(diag.Warning, diag.Error, diag.Error), "2 errors, 1 warning"},
		{list(diag.Note, diag.Note, diag.Warning, diag.Warning), "2 warnings, 2 notes"},
	} {
		if got := diag.Summary(c.list); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
