package format_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

// lines is a toy format: each line "call NAME" refers to another file.
type lines struct{ name, suffix string }

func (l lines) Name() string             { return l.name }
func (l lines) Schemas() []format.Schema { return nil }

func (l lines) Match(f *source.File) format.Match {
	switch {
	case strings.HasSuffix(f.Path, l.suffix):
		return format.Certain
	case strings.HasPrefix(f.Text, "call "):
		return format.Possible
	}
	return format.No
}

func (l lines) Compile(f *source.File, files format.Files) (*ir.Program, diag.List) {
	p := &ir.Program{Format: l.name, Name: f.Path, Blocks: []ir.Block{{}}}
	var list diag.List
	for at := 0; at < len(f.Text); {
		line, _, _ := strings.Cut(f.Text[at:], "\n")
		span := f.Span(at, at+len(line))
		at += len(line) + 1
		child, err := files.Read(f, strings.TrimPrefix(line, "call "))
		if err != nil {
			list.Add(diag.Diagnostic{Code: "TOY001", Severity: diag.Error, Span: span, Message: err.Error()})
			continue
		}
		program, found := files.Compile(child, span)
		list = append(list, found...)
		if program != nil {
			p.Children = append(p.Children, *program)
		}
	}
	return p, list
}

// folder is a Reader over texts.
type folder map[string]string

func (d folder) Read(_ *source.File, ref string) (*source.File, error) {
	text, ok := d[ref]
	if !ok {
		return nil, &source.RefError{Ref: ref, Problem: source.RefMissing}
	}
	return source.NewFile(ref, text), nil
}

func (d folder) Skill(name string) (*source.File, error) { return d.Read(nil, name) }

func compile(t *testing.T, d folder, name string) format.Result {
	t.Helper()
	f, err := d.Read(nil, name)
	if err != nil {
		t.Fatal(err)
	}
	return format.Set{lines{"toy", ".toy"}}.Compile(f, d)
}

func codes(l diag.List) string {
	var out []string
	for _, d := range l {
		out = append(out, string(d.Code))
	}
	return strings.Join(out, " ")
}

func TestDetectChoosesTheOnlyMatch(t *testing.T) {
	set := format.Set{lines{"a", ".a"}, lines{"b", ".b"}, lines{"ab", ".a.b"}}
	for _, c := range []struct {
		path, text string
		format     string
		code       diag.Code
		want       string
	}{
		{path: "x.a", format: "a"},
		{path: "x.a", text: "call y", format: "a"}, // the others only consider it possible
		{path: "x.a.b", code: format.CodeSeveralFormats, want: "b and ab"},
		{path: "x", text: "call y", code: format.CodeSeveralFormats, want: "a, b and ab"},
		{path: "x", text: "nothing", code: format.CodeNoFormat, want: "not in a format"},
		{path: "x.yaml", text: "name: x\nstates:\n\tinitial: a\n", code: text.CodeTab, want: "tab"},
		{path: "x.yaml", text: "name: x\n", code: format.CodeNoFormat, want: "not in a format"},
		{path: "dir/skill.md", code: format.CodeNoFormat, want: `"SKILL.md"`},
		{path: "dir/SKILLS.md", code: format.CodeNoFormat, want: `"SKILL.md"`},
	} {
		t.Run(c.path+" "+c.text, func(t *testing.T) {
			f := source.NewFile(c.path, c.text)
			chosen, list := set.Detect(f)
			if c.code == "" {
				if chosen == nil || chosen.Name() != c.format || list != nil {
					t.Fatalf("got %v, %v; want %s", chosen, list, c.format)
				}
				return
			}
			if chosen != nil || len(list) != 1 || list[0].Code != c.code || !list.Errors() {
				t.Fatalf("got %v, %+v; want %s", chosen, list, c.code)
			}
			if text := list[0].Message + list[0].Help; !strings.Contains(text, c.want) {
				t.Errorf("%q does not contain %q", text, c.want)
			}
		})
	}
}

func TestCompileIncludesChildrenAndRecordsEveryFile(t *testing.T) {
	r := compile(t, folder{"top.toy": "call mid.toy\ncall leaf.toy", "mid.toy": "call leaf.toy", "leaf.toy": ""},
		"top.toy")
	if len(r.Diagnostics) > 0 {
		t.Fatal(r.Diagnostics)
	}
	if r.Format != "toy" || len(r.Program.Children) != 2 || len(r.Program.Children[0].Children) != 1 {
		t.Errorf("got %+v", r.Program)
	}
	if len(r.Files) != 3 {
		t.Errorf("got %d files, want 3", len(r.Files))
	}
}

func TestCompileReportsCycles(t *testing.T) {
	for name, c := range map[string]struct {
		files   folder
		want    string
		related int
	}{
		"itself": {folder{"a.toy": "call a.toy"}, "a.toy refers to itself.", 0},
		"two":    {folder{"a.toy": "call b.toy", "b.toy": "call a.toy"}, "a.toy → b.toy → a.toy.", 1},
		"not the first": {
			folder{"a.toy": "call b.toy", "b.toy": "call c.toy", "c.toy": "call b.toy"},
			": b.toy → c.toy → b.toy.", 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := compile(t, c.files, "a.toy")
			if codes(r.Diagnostics) != string(format.CodeCycle) {
				t.Fatalf("got %+v", r.Diagnostics)
			}
			d := r.Diagnostics[0]
			if !strings.HasSuffix(d.Message, c.want) || len(d.Related) != c.related || d.Span.IsZero() {
				t.Errorf("got %+v", d)
			}
			for _, related := range d.Related {
				if related.Span.IsZero() {
					t.Errorf("a related place has no span: %+v", related)
				}
			}
		})
	}
}

func TestCompileBoundsDepth(t *testing.T) {
	d := folder{}
	for i := range 30 {
		d[fmt.Sprintf("%d.toy", i)] = fmt.Sprintf("call %d.toy", i+1)
	}
	d["30.toy"] = ""
	r := compile(t, d, "0.toy")
	if codes(r.Diagnostics) != string(format.CodeTooNested) {
		t.Fatalf("got %+v", r.Diagnostics)
	}
	// The first and the last references are enough: sixteen frames are unreadable.
	if chain := r.Diagnostics[0].Related; len(chain) != 3 || chain[0].Span.File != "0.toy" ||
		chain[2].Span.File != "14.toy" {
		t.Errorf("the chain is %+v", chain)
	}
	if r := compile(t, d, "20.toy"); len(r.Diagnostics) > 0 {
		t.Errorf("ten levels are fine, got %+v", r.Diagnostics)
	}
}

// Twelve files that each refer to the next one ten times would yield 10¹² programs.
func TestCompileBoundsTheNumberOfPrograms(t *testing.T) {
	d := folder{"12.toy": ""}
	for i := range 12 {
		d[fmt.Sprintf("%d.toy", i)] = strings.TrimSuffix(strings.Repeat(fmt.Sprintf("call %d.toy\n", i+1), 10), "\n")
	}
	r := compile(t, d, "0.toy")
	if !strings.Contains(codes(r.Diagnostics), string(format.CodeTooNested)) {
		t.Errorf("got %s", codes(r.Diagnostics))
	}
}

// A file that matches no format is reported together with the reference to it.
func TestUnknownChildIsReportedWithItsReference(t *testing.T) {
	for _, name := range []string{"a.toy", "twice.toy"} {
		r := compile(t, folder{"a.toy": "call x.json", "twice.toy": "call x.json\ncall x.json", "x.json": "{}"}, name)
		if len(r.Diagnostics) == 0 {
			t.Fatalf("%s: no diagnostics", name)
		}
		for _, d := range r.Diagnostics {
			if d.Code != format.CodeNoFormat || d.Span.File != "x.json" {
				t.Errorf("%s: %v", name, d)
			}
			if len(d.Related) != 1 || d.Related[0].Span.File != name ||
				d.Related[0].Message != "x.json is referred to here." {
				t.Errorf("%s: related is %v", name, d.Related)
			}
		}
	}
}
