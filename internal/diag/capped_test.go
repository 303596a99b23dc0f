package diag_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/usertest"
)

// A long line with many errors is rendered with work in proportion to what is shown: each frame is as long as that of a
// short line.
func TestFramesOfLongLinesAreCropped(t *testing.T) {
	usertest.Run(t, "^TestFramesOfLongLinesAreCropped$")
	f := source.NewFile("x.yaml", strings.Repeat("a\u0301[", 10_000))
	var list diag.List
	for i := 0; i < len(f.Text); i++ {
		list.Add(diag.Diagnostic{
			Code: "X1", Severity: diag.Error, Span: f.Span(i, len(f.Text)),
			Message: fmt.Sprint("no ", i),
		})
	}
	capped := list.Sorted().Capped()
	if len(capped) != diag.MaxPerFile+1 ||
		!strings.Contains(capped[diag.MaxPerFile].Message, fmt.Sprint(len(list)-diag.MaxPerFile)) ||
		!capped.Errors() {
		t.Errorf("%d: %+v", len(capped), capped[len(capped)-1])
	}
	files := source.Set{}
	files.Add(f)
	var out bytes.Buffer
	if err := (diag.Printer{Files: files}).Print(&out, capped); err != nil {
		t.Fatal(err)
	}
	if out.Len() > len(capped)*2000 {
		t.Errorf("%d bytes for %d diagnostics", out.Len(), len(capped))
	}
	if short := list[:3].Capped(); len(short) != 3 {
		t.Errorf("%v", short)
	}
}

// Each file has its own share.
func TestCapIsPerFile(t *testing.T) {
	var list diag.List
	for _, name := range []string{"a", "b"} {
		for i := range diag.MaxPerFile + 5 {
			list.Add(diag.Diagnostic{
				Code: "X1", Severity: diag.Warning,
				Span: source.Span{File: name, Start: i, End: i + 1}, Message: "m",
			})
		}
	}
	capped := list.Sorted().Capped()
	if len(capped) != 2*(diag.MaxPerFile+1) || capped.Errors() {
		t.Errorf("%d", len(capped))
	}
}
