package agentflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

// contract returns the input or output contract of the frontmatter, or nil.
func (l *lowering) contract(name string) *ir.Contract {
	v := l.doc.head.object(name)
	ref := v.word("schema_ref")
	if inline := v.node("schema"); inline != nil {
		if v.has("schema_ref") {
			found := l.out.Errorf(CodeTwoSchemas, v.key("schema_ref"), "Remove \"schema\" or \"schema_ref\".",
				"The %s has both an inline schema and a schema file.", name).
				Relate(v.key("schema"), "the inline schema")
			found.RemoveEntry("schema_ref", v.entry("schema_ref"))
			found.RemoveEntry("schema", v.entry("schema"))
		}
		return &ir.Contract{Schema: inline.JSON(), Places: inline.Places(), Span: inline.Span}
	}
	if ref.Value == "" {
		return nil
	}
	return l.schemaFile(ref)
}

// schemaFile reads a JSON Schema from a file. It returns nil after reporting a failure.
func (l *lowering) schemaFile(ref text.Text) *ir.Contract {
	f, err := l.files.Read(l.file, ref.Value)
	if err != nil {
		l.refProblem(ref, "schema", err)
		return nil
	}
	l.p.AddFile(f, "schema")
	switch path.Ext(f.Path) {
	case ".yaml", ".yml":
		n, list := text.ParseYAML(f, 0, len(f.Text))
		l.add(list)
		if n == nil || list.Errors() {
			return nil
		}
		return &ir.Contract{Schema: n.JSON(), Places: n.Places(), Span: ref.Span}
	}
	raw := []byte(strings.TrimPrefix(f.Text, "\ufeff"))
	var any json.RawMessage
	if err := json.Unmarshal(raw, &any); err != nil {
		at := f.Span(0, len(f.Line(1)))
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			end := int(syntax.Offset) + len(f.Text) - len(raw)
			at = f.Span(end-1, end)
		}
		l.out.Errorf(CodeSchemaFile, at, "Fix the JSON syntax at this position.",
			"The schema file is not valid JSON: %s.", err).Relate(ref.Span, "the schema is referred to here")
		return nil
	}
	c := &ir.Contract{Schema: any, Span: ref.Span}
	if n, list := text.ParseYAML(f, 0, len(f.Text)); !list.Errors() { // JSON is nearly always valid YAML
		c.Places = n.Places()
	}
	return c
}

// skillFileOf resolves a skill_ref or extends: a path, a folder with a SKILL.md, or the bare
// name of a skill.
func (l *lowering) skillFileOf(ref text.Text, what string) *source.File {
	if isBare(ref.Value) {
		f, err := l.files.Skill(ref.Value)
		if err == nil {
			return f
		}
		// A folder beside the file may also have that name.
		if f, err := l.files.Read(l.file, ref.Value+"/"+skillFile); err == nil {
			return f
		}
		l.refProblem(ref, what, err)
		return nil
	}
	f, err := l.files.Read(l.file, ref.Value)
	if problem, ok := errors.AsType[*source.RefError](err); ok && problem.Problem == source.RefNotFile {
		if inside, err := l.files.Read(l.file, strings.TrimSuffix(ref.Value, "/")+"/"+skillFile); err == nil {
			return inside
		}
	}
	if err != nil {
		l.refProblem(ref, what, err)
		return nil
	}
	return f
}

// isBare reports whether ref is the name of a skill rather than a path.
func isBare(ref string) bool { return !strings.ContainsAny(ref, `/\`) && path.Ext(ref) == "" }

// refProblem reports why a reference could not be resolved.
func (l *lowering) refProblem(ref text.Text, what string, err error) {
	var problem *source.RefError
	if !errors.As(err, &problem) {
		problem = &source.RefError{Ref: ref.Value, Problem: source.RefUnread, Detail: err.Error()}
	}
	detail := strings.TrimSuffix(problem.Detail, ".")
	switch problem.Problem {
	case source.RefMissing:
		help := "Paths are resolved from this file's folder, then from the project root."
		if isBare(ref.Value) {
			help = "A bare name must be a skill of the project or the user. Use the path of the file otherwise."
			if f, err := l.files.Read(l.file, path.Join("skills", ref.Value, skillFile)); err == nil {
				problem.Near = []string{f.Path}
			}
		}
		if len(problem.Near) > 0 {
			help = fmt.Sprintf("Did you mean %q?", problem.Near[0])
		}
		l.out.Errorf(CodeRefMissing, ref.Span, help, "%s %q does not exist.", upper(what), ref.Value)
	case source.RefAbsolute:
		l.out.Errorf(CodeRefAbsolute, ref.Span, "Use a path relative to this file's folder or the project root.",
			"%q is an absolute path, which is not allowed.", ref.Value)
	case source.RefEscapes:
		l.out.Errorf(CodeRefEscapes, ref.Span, "Copy the file into the project and refer to it there.",
			"%q is outside the project.", ref.Value)
	case source.RefNotFile:
		l.out.Errorf(CodeRefUnusable, ref.Span, "Use the path of a file, not of a folder.", "%q is not a file.",
			ref.Value)
	case source.RefTooLarge:
		l.out.Errorf(CodeRefUnusable, ref.Span, "Refer to a smaller file.", "%q is too large: %s.", ref.Value, detail)
	default:
		l.out.Errorf(CodeRefUnusable, ref.Span, "Check the file and its permissions.", "%q cannot be read: %s.",
			ref.Value, detail)
	}
}

// child compiles a skill or workflow that a step runs, once per file, and returns its index in Program.Children, or -1
// after an error. Its diagnostics become part of this compilation.
func (l *lowering) child(f *source.File, role string, at source.Span) int {
	if i, ok := l.children[f.Path]; ok {
		return i
	}
	l.p.AddFile(f, role)
	p, list := l.files.Compile(f, at)
	for _, d := range list {
		// Notes belong to that file's own validation.
		if d.Severity > diag.Note || d.Lenient {
			l.out.Add(d)
		}
	}
	i := -1
	if p != nil {
		i = len(l.p.Children)
		l.p.Children = append(l.p.Children, *p)
	}
	l.children[f.Path] = i
	return i
}
