package format

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
)

// Set is the formats to choose from.
type Set []Format

// Names lists the formats' names, in their order.
func (s Set) Names() []string {
	names := make([]string, len(s))
	for i, f := range s {
		names[i] = f.Name()
	}
	return names
}

// Find returns the format of a name, or nil.
func (s Set) Find(name string) Format {
	for _, f := range s {
		if f.Name() == name {
			return f
		}
	}
	return nil
}

// Certain returns the formats that are sure that the file is theirs. This is
// what discovery goes by: one is a workflow, several are a mistake to report.
func (s Set) Certain(f *source.File) Set { return s.matching(f, Certain) }

func (s Set) matching(f *source.File, m Match) Set {
	var out Set
	for _, one := range s {
		if one.Match(f) == m {
			out = append(out, one)
		}
	}
	return out
}

// Detect chooses the format of a file that somebody named: the only one that
// is certain, else the only one that finds it possible. Otherwise the list
// says why there is none.
func (s Set) Detect(f *source.File) (Format, diag.List) {
	for _, m := range []Match{Certain, Possible} {
		switch found := s.matching(f, m); len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			return nil, diag.List{{
				Code: CodeSeveralFormats, Severity: diag.Error, Span: f.Span(0, firstLine(f)),
				Message: fmt.Sprintf("This file could be %s.", listed(found.Names(), "or")),
				Help:    "Keep only what belongs to one of them: a file name, a folder or a key in the file points at each.",
			}}
		}
	}
	help := fmt.Sprintf("Formats are %s; \"espalier help formats\" says what makes a file one of them.", listed(s.Names(), "and"))
	if near := nearName(f.Path); near != "" {
		help = fmt.Sprintf("Did you mean to call the file %q?", near)
	}
	return nil, diag.List{{
		Code: CodeNoFormat, Severity: diag.Error, Span: f.Span(0, firstLine(f)),
		Message: "This file is in none of the formats that Espalier knows.", Help: help,
	}}
}

// nearName catches the spellings of SKILL.md that other tools do not accept.
func nearName(p string) string {
	base := path.Base(p)
	if base != "SKILL.md" && (strings.EqualFold(base, "SKILL.md") || strings.EqualFold(base, "SKILLS.md")) {
		return "SKILL.md"
	}
	return ""
}

func firstLine(f *source.File) int { return len(f.Line(1)) }

func listed(names []string, last string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " " + last + " " + names[len(names)-1]
}

// Reader reaches files on behalf of a Set; package project has it. Failures
// are *source.RefError.
type Reader interface {
	Read(from *source.File, ref string) (*source.File, error)
	Skill(name string) (*source.File, error)
}

// Result is a compiled file.
type Result struct {
	Format string // "" when none was chosen
	// Program is usable unless the list has an error; then it is what could
	// be made of the file, or nil.
	Program     *ir.Program
	Diagnostics diag.List
	// Files is every file that was read, so that spans can be shown.
	Files source.Set
}

// Compile chooses the format of a file and reads it with everything that it
// refers to.
func (s Set) Compile(f *source.File, r Reader) Result {
	l := &loader{set: s, reader: r, files: source.Set{}, done: map[string]compiled{}}
	l.files.Add(f)
	one := l.compile(f)
	return Result{Format: one.format, Program: one.program, Diagnostics: one.list, Files: l.files}
}

// Workflows inside workflows are bounded because a program holds its children
// whole: a few files that name each other twice over would otherwise fill the
// memory.
const (
	maxDepth    = 16
	maxPrograms = 1000
)

// loader is the Files of one compilation.
type loader struct {
	set    Set
	reader Reader
	files  source.Set
	// open is the files being compiled now, outermost first; a file that
	// refers to one of them closes a circle.
	open []opened
	done map[string]compiled
}

type opened struct {
	file *source.File
	at   source.Span // where it is referred to
}

type compiled struct {
	format  string
	program *ir.Program
	list    diag.List
}

func (l *loader) Read(from *source.File, ref string) (*source.File, error) {
	return l.noted(l.reader.Read(from, ref))
}

func (l *loader) Skill(name string) (*source.File, error) {
	return l.noted(l.reader.Skill(name))
}

// Bundle is what the reader knows of it.
func (l *loader) Bundle(f *source.File) (dir string, files []string) {
	if b, ok := l.reader.(Bundler); ok {
		return b.Bundle(f)
	}
	return "", nil
}

// Shelved is what the reader knows of it.
func (l *loader) Shelved(kind, name string) (*source.File, error) {
	if shelves, ok := l.reader.(Shelves); ok {
		return l.noted(shelves.Shelved(kind, name))
	}
	return nil, &source.RefError{Ref: name, Problem: source.RefMissing}
}

func (l *loader) noted(f *source.File, err error) (*source.File, error) {
	if err == nil {
		l.files.Add(f)
	}
	return f, err
}

func (l *loader) Compile(f *source.File, at source.Span) (*ir.Program, diag.List) {
	l.files.Add(f)
	if i := slices.IndexFunc(l.open, func(o opened) bool { return identity(o.file) == identity(f) }); i >= 0 {
		return nil, diag.List{l.cycle(i, f, at)}
	}
	if len(l.open) >= maxDepth {
		return nil, diag.List{{
			Code: CodeTooNested, Severity: diag.Error, Span: at,
			Message: fmt.Sprintf("Workflows are nested more than %d deep here.", maxDepth),
			Help:    "Call the inner workflows from an outer one, side by side, instead of one inside the other.",
			Related: ends(l.chain(1)),
		}}
	}
	one, seen := l.done[identity(f)]
	if !seen {
		l.open[len(l.open)-1].at = at // how the innermost open file leads on
		one = l.compile(f)
		l.done[identity(f)] = one
	}
	if one.format == "" {
		return nil, referred(one.list, f, at)
	}
	if one.program != nil && count(one.program) > maxPrograms {
		return nil, append(slices.Clip(one.list), diag.Diagnostic{
			Code: CodeTooNested, Severity: diag.Error, Span: at,
			Message: fmt.Sprintf("This workflow contains more than %d others, one inside the other.", maxPrograms),
			Help:    "Refer to fewer workflows from each one: every reference brings a whole copy with it.",
		})
	}
	return one.program, one.list
}

func (l *loader) compile(f *source.File) compiled {
	chosen, list := l.set.Detect(f)
	if chosen == nil {
		return compiled{list: list}
	}
	l.open = append(l.open, opened{file: f})
	defer func() { l.open = l.open[:len(l.open)-1] }()
	program, list := chosen.Compile(f, l)
	// Sorted drops repetitions: a child that is referred to ten times brings
	// its diagnostics ten times.
	return compiled{format: chosen.Name(), program: program, list: list.Sorted()}
}

func (l *loader) cycle(from int, f *source.File, at source.Span) diag.Diagnostic {
	message := fmt.Sprintf("%s refers to itself.", f.Path)
	if from < len(l.open)-1 {
		var names []string
		for _, o := range l.open[from:] {
			names = append(names, o.file.Path)
		}
		message = fmt.Sprintf("These workflows refer to each other in a circle: %s → %s.", strings.Join(names, " → "), f.Path)
	}
	return diag.Diagnostic{
		Code: CodeCycle, Severity: diag.Error, Span: at, Message: message,
		Help:    "Remove one of the references; repeat steps inside one workflow with goto instead.",
		Related: l.chain(from + 1),
	}
}

// ends keeps the first and the last two of a long way.
func ends(way []diag.Related) []diag.Related {
	if len(way) <= 3 {
		return way
	}
	return append(way[:1:1], way[len(way)-2:]...)
}

// referred says why a file that no format takes was looked at.
func referred(list diag.List, f *source.File, at source.Span) diag.List {
	list = slices.Clone(list)
	for i := range list {
		list[i].Related = append(slices.Clip(list[i].Related), diag.Related{
			Span: at, Message: fmt.Sprintf("%s is referred to here.", f.Path),
		})
	}
	return list
}

// chain points at the references that led from open[first-1] to the innermost
// open file.
func (l *loader) chain(first int) []diag.Related {
	var out []diag.Related
	for i := first; i < len(l.open); i++ {
		out = append(out, diag.Related{
			Span:    l.open[i-1].at,
			Message: fmt.Sprintf("%s is referred to here.", l.open[i].file.Path),
		})
	}
	return out
}

func identity(f *source.File) string {
	if f.Abs != "" {
		return f.Abs
	}
	return f.Path
}

// count says how many programs p is made of, itself included.
func count(p *ir.Program) int {
	n := 1
	for i := range p.Children {
		n += count(&p.Children[i])
	}
	return n
}
