package format

import (
	"fmt"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
)

// Planned is a format that is recognised, so that its files are listed and
// named for what they are, but that cannot be read yet.
func Planned(name, title string, match func(*source.File) Match) Format {
	return planned{name: name, title: title, match: match}
}

type planned struct {
	name, title string
	match       func(*source.File) Match
}

func (p planned) Name() string               { return p.name }
func (p planned) Match(f *source.File) Match { return p.match(f) }
func (p planned) Schemas() []Schema          { return nil }

func (p planned) Compile(f *source.File, _ Files) (*ir.Program, diag.List) {
	return nil, diag.List{{
		Code: CodeNotBuilt, Severity: diag.Error, Span: f.Span(0, firstLine(f)),
		Message: fmt.Sprintf("%s files are recognised but cannot be read yet.", p.title),
		Help:    "Write the workflow as Agent Flow for now (\"espalier new NAME --pattern pipeline\" begins one), or leave this file out.",
	}}
}
