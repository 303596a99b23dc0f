package format

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Set is a list of formats to choose from.
type Set []Format

// Names returns the formats' names, in order.
func (s Set) Names() []string {
	return xslices.Map(s, func(f Format) string { return f.Name() })
}

// Find returns the format with the given name, or nil.
func (s Set) Find(name string) Format {
	return xslices.Find(s, func(f Format) bool { return f.Name() == name })
}

// Conventions returns the conventions of the format with the given name; those of an unknown format are empty.
func (s Set) Conventions(name string) Conventions {
	if f, ok := s.Find(name).(Conventional); ok {
		return f.Conventions()
	}
	return Conventions{}
}

// Certain returns the formats that are certain that the file is theirs. Discovery relies on it:
// one match is a workflow, several are an error.
func (s Set) Certain(f *source.File) Set { return s.matching(f, Certain) }

// matching returns the formats that match a file with a degree of certainty.
func (s Set) matching(f *source.File, m Match) Set {
	return xslices.Filter(s, func(one Format) bool { return one.Match(f) == m })
}

// Detect returns the format of a file that the user named: the only one that is certain, or
// else the only one that considers it possible. If there is none, the list contains the reason.
func (s Set) Detect(f *source.File) (Format, diag.List) {
	for _, m := range []Match{Certain, Possible} {
		switch found := s.matching(f, m); len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			return nil, diag.List{{
				Code: CodeSeveralFormats, Severity: diag.Error, Span: f.Span(0, firstLine(f)),
				Message: fmt.Sprintf("The file matches several formats: %s.", listed(found.Names(), "and")),
				Help:    "Keep the file name, folder or keys of only one of them.",
			}}
		}
	}
	// No format matches. YAML formats recognize a file by its keys, which a syntax error can hide.
	if ext := path.Ext(f.Path); ext == ".yaml" || ext == ".yml" {
		if _, problems := text.ParseYAML(f, 0, len(f.Text)); problems.Errors() {
			return nil, problems // the format is known when these are fixed
		}
	}
	help := fmt.Sprintf("Supported formats are %s. Run \"espalier help formats\" to see how each is recognized.",
		listed(s.Names(), "and"))
	if near := nearName(f.Path); near != "" {
		help = fmt.Sprintf("Rename the file to %q.", near)
	}
	return nil, diag.List{{
		Code: CodeNoFormat, Severity: diag.Error, Span: f.Span(0, firstLine(f)),
		Message: "The file is not in a format that Espalier supports.", Help: help,
	}}
}

// nearName returns "SKILL.md" for spellings of it that other tools do not accept.
func nearName(p string) string {
	base := path.Base(p)
	if base != "SKILL.md" && (strings.EqualFold(base, "SKILL.md") || strings.EqualFold(base, "SKILLS.md")) {
		return "SKILL.md"
	}
	return ""
}

// firstLine returns the length of the first line, where diagnostics about the whole file point.
func firstLine(f *source.File) int { return len(f.Line(1)) }

// listed joins names for a sentence: "a, b and c".
func listed(names []string, last string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " " + last + " " + names[len(names)-1]
}

// Reader reads files for a Set. Package project implements it, and keeps references inside the project. Failures are
// *source.RefError.
type Reader interface {
	Read(from *source.File, ref string) (*source.File, error)
	Skill(name string) (*source.File, error)
}

// Result is a compiled file.
type Result struct {
	Format string // "" if no format was chosen
	// Program is usable unless Diagnostics contains an error. Then it is partial, or nil.
	Program     *ir.Program
	Diagnostics diag.List
	// Files contains every file that was read, so that spans can be rendered.
	Files source.Set
}

// Compile chooses the format of a file and compiles it together with everything it refers to.
func (s Set) Compile(f *source.File, r Reader) Result {
	l := &loader{set: s, reader: r, files: source.Set{}, done: map[string]compiled{}}
	l.files.Add(f)
	one := l.compile(f)
	if one.program != nil {
		one.program.Link()
	}
	return Result{Format: one.format, Program: one.program, Diagnostics: one.list, Files: l.files}
}

// Nesting is bounded because a program contains its children in full: a few files that refer to
// each other twice would otherwise grow exponentially.
const (
	maxDepth    = 16
	maxPrograms = 1000
)

// loader implements Files for one compilation. It is not safe for concurrent use.
type loader struct {
	set    Set
	reader Reader
	files  source.Set
	// open are the files being compiled, outermost first. A reference to one of them is a cycle.
	open []opened
	// done has the compiled files by identity. Several parents share one program, so formats clone what they change in
	// a child.
	done map[string]compiled
}

// opened is a file that is being compiled.
type opened struct {
	file *source.File
	at   source.Span // the reference to the next file
}

// compiled is the result of compiling one file. format is empty if no format was chosen.
type compiled struct {
	format  string
	program *ir.Program
	list    diag.List
}

// Read implements Files.
func (l *loader) Read(from *source.File, ref string) (*source.File, error) {
	return l.add(l.reader.Read(from, ref))
}

// Skill implements Files.
func (l *loader) Skill(name string) (*source.File, error) {
	return l.add(l.reader.Skill(name))
}

// Bundle implements Bundler if the reader does.
func (l *loader) Bundle(f *source.File) (dir string, files []string) {
	if b, ok := l.reader.(Bundler); ok {
		return b.Bundle(f)
	}
	return "", nil
}

// Lookup implements SearchPath if the reader does.
func (l *loader) Lookup(kind, name string) (*source.File, error) {
	if path, ok := l.reader.(SearchPath); ok {
		return l.add(path.Lookup(kind, name))
	}
	return nil, &source.RefError{Ref: name, Problem: source.RefMissing}
}

// Names implements SearchPath if the reader does.
func (l *loader) Names(kind string) []string {
	if path, ok := l.reader.(SearchPath); ok {
		return path.Names(kind)
	}
	return nil
}

// add records a file that was read, so that its spans can be rendered.
func (l *loader) add(f *source.File, err error) (*source.File, error) {
	if err == nil {
		l.files.Add(f)
	}
	return f, err
}

// Compile implements Files. A file is compiled once, however often it is referred to. Limits are reported at the
// reference that exceeds them, because the file itself may be fine.
func (l *loader) Compile(f *source.File, at source.Span) (*ir.Program, diag.List) {
	l.files.Add(f)
	if i := slices.IndexFunc(l.open, func(o opened) bool { return identity(o.file) == identity(f) }); i >= 0 {
		return nil, diag.List{l.cycle(i, f, at)}
	}
	if len(l.open) >= maxDepth {
		return nil, diag.List{{
			Code: CodeTooNested, Severity: diag.Error, Span: at,
			Message: fmt.Sprintf("Workflows are nested more than %d levels deep.", maxDepth),
			Help:    "Call the inner workflows from one outer workflow instead of nesting them.",
			Related: ends(l.chain(1)),
		}}
	}
	one, seen := l.done[identity(f)]
	if !seen {
		l.open[len(l.open)-1].at = at // the reference from the innermost open file
		one = l.compile(f)
		l.done[identity(f)] = one
	}
	if one.format == "" {
		return nil, referred(one.list, f, at)
	}
	if one.program != nil && count(one.program) > maxPrograms {
		return nil, append(slices.Clip(one.list), diag.Diagnostic{
			Code: CodeTooNested, Severity: diag.Error, Span: at,
			Message: fmt.Sprintf("The workflow contains more than %d nested workflows.", maxPrograms),
			Help:    "Refer to fewer workflows: each reference includes a full copy.",
		})
	}
	return one.program, one.list
}

// compile compiles a file, which counts as open meanwhile.
func (l *loader) compile(f *source.File) compiled {
	chosen, list := l.set.Detect(f)
	if chosen == nil {
		return compiled{list: list}
	}
	l.open = append(l.open, opened{file: f})
	defer func() { l.open = l.open[:len(l.open)-1] }()
	program, list := chosen.Compile(f, l)
	// Sorted removes duplicates: a child that is referenced ten times yields its diagnostics ten
	// times.
	return compiled{format: chosen.Name(), program: program, list: list.Sorted()}
}

// cycle reports that open[from] refers to itself, directly or through the files after it.
func (l *loader) cycle(from int, f *source.File, at source.Span) diag.Diagnostic {
	message := fmt.Sprintf("%s refers to itself.", f.Path)
	if from < len(l.open)-1 {
		names := xslices.Map(l.open[from:], func(o opened) string { return o.file.Path })
		message = fmt.Sprintf("Workflows refer to each other in a cycle: %s → %s.", strings.Join(names, " → "), f.Path)
	}
	return diag.Diagnostic{
		Code: CodeCycle, Severity: diag.Error, Span: at, Message: message,
		Help:    "Remove one of the references. To repeat steps, use goto inside one workflow.",
		Related: l.chain(from + 1),
	}
}

// ends returns the first and the last two elements of a long chain.
func ends(way []diag.Related) []diag.Related {
	if len(way) <= 3 {
		return way
	}
	return append(way[:1:1], way[len(way)-2:]...)
}

// referred adds the reference at at to the diagnostics of a file that matches no format.
func referred(list diag.List, f *source.File, at source.Span) diag.List {
	list = slices.Clone(list)
	for i := range list {
		list[i].Related = append(slices.Clip(list[i].Related), diag.Related{
			Span: at, Message: fmt.Sprintf("%s is referred to here.", f.Path),
		})
	}
	return list
}

// chain returns the references that lead from open[first-1] to the innermost open file.
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

// identity returns a key that is equal for equal files.
func identity(f *source.File) string {
	if f.Abs != "" {
		return f.Abs
	}
	return f.Path
}

// count returns the number of programs in p, including p itself.
func count(p *ir.Program) int {
	n := 1
	for i := range p.Children {
		n += count(&p.Children[i])
	}
	return n
}
