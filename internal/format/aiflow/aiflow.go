package aiflow

import (
	"path"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
)

// Format compiles AIFLOW files.
type Format struct {
	// Reference evaluates conditions exactly as the reference program does.
	Reference bool
}

var _ format.Format = Format{}

// Name returns "aiflow".
func (Format) Name() string { return "aiflow" }

// Conventions implements format.Conventional.
func (Format) Conventions() format.Conventions {
	return format.Conventions{Files: "AIFLOW files", Traced: true, Flags: []string{"trace"}, Imitates: "reference"}
}

// Match inspects the extension of the file name.
func (Format) Match(f *source.File) format.Match {
	if strings.EqualFold(path.Ext(f.Path), ".aiflow") {
		return format.Certain
	}
	return format.No
}

// Compile compiles a file of any generation.
func (one Format) Compile(f *source.File, files format.Files) (*ir.Program, diag.List) {
	var list diag.List
	doc := parse(f, &list)
	if doc == nil {
		return nil, list
	}
	l := &lowering{doc: doc, files: files, out: &list, dialect: expr.AIFlow}
	if one.Reference {
		l.dialect = expr.AIFlowReference
	}
	return l.program(), list
}
