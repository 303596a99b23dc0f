package nof

import (
	"path"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/python"
	"github.com/espalier-run/espalier/internal/source"
)

// Format compiles NOF files. A file contains two programs: the graph of its agents with the
// node functions, and the Execution block.
type Format struct {
	// Execution compiles the Execution block instead of the graph.
	Execution bool
	// HonorRules applies all routing rules in every routing mode.
	HonorRules bool
	// Run reports code that the built-in interpreter cannot run as an error. Without it, it is a
	// warning: such a file can still be checked, priced and drawn.
	Run bool
	// Python runs the code with a real python3.
	Python bool
	// Unconfined runs that python3 without a sandbox.
	Unconfined bool
	// SDK follows the public SDK where it deviates from its documentation.
	SDK bool
}

var _ format.Format = Format{}

// Name returns "nof".
func (Format) Name() string { return "nof" }

// Conventions implements format.Conventional.
func (Format) Conventions() format.Conventions {
	return format.Conventions{
		Files: "NOF files", Flags: []string{"execution", "honor-rules", "python"}, Imitates: "sdk",
	}
}

// Match inspects the file name and the lines of the frontmatter.
func (Format) Match(f *source.File) format.Match {
	if strings.HasSuffix(strings.ToLower(f.Path), ".nof.md") {
		return format.Certain
	}
	if !strings.EqualFold(path.Ext(f.Path), ".md") {
		return format.No
	}
	head, ok := strings.CutPrefix(strings.TrimPrefix(f.Text, "\ufeff"), "---")
	if !ok {
		return format.No
	}
	head, _, _ = strings.Cut(head, "\n---")
	for line := range strings.Lines(head) {
		if value, ok := strings.CutPrefix(line, "format:"); ok && strings.HasPrefix(strings.Trim(value, " \t\"'"),
			"nof/") {
			return format.Certain
		}
	}
	return format.No
}

// Compile compiles a file.
func (o Format) Compile(f *source.File, files format.Files) (*ir.Program, diag.List) {
	var list diag.List
	doc := parse(f, &list)
	if doc == nil {
		return nil, list
	}
	list = o.limits(list)
	l := &lowering{Format: o, doc: doc, files: files, out: &list}
	return l.program(), list
}

// limits adjusts diagnostics about limits of the built-in interpreter, which a python3 does not have.
func (o Format) limits(list diag.List) diag.List {
	var out diag.List
	for _, d := range list {
		limit := d.Code == python.CodeModule || d.Code == python.CodeForbidden
		if limit && o.Python {
			continue
		}
		if limit && !o.Run {
			d.Severity = diag.Warning
		}
		out = append(out, d)
	}
	return out
}
