package agentflow

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

// contract reads input or output of the frontmatter.
func (l *lowering) contract(name string) *ir.Contract {
	v := l.doc.head.object(name)
	ref := v.word("schema_ref")
	if inline := v.node("schema"); inline != nil {
		if v.has("schema_ref") {
			l.report(CodeTwoSchemas, diag.Error, v.key("schema_ref"), fmt.Sprintf("The %s has a schema here and another one in a file.", name), "Remove \"schema\" or \"schema_ref\".",
				diag.Related{Span: v.key("schema"), Message: "the other one"})
		}
		return &ir.Contract{Schema: inline.JSON(), Places: inline.Places(), Span: inline.Span}
	}
	if ref.Value == "" {
		return nil
	}
	return l.schemaFile(ref)
}

// schemaFile reads a JSON Schema from a file; nil when that is impossible.
func (l *lowering) schemaFile(ref text.Text) *ir.Contract {
	f, err := l.files.Read(l.file, ref.Value)
	if err != nil {
		l.refProblem(ref, "schema", err)
		return nil
	}
	l.record(f, "schema")
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
		l.report(CodeSchemaFile, diag.Error, at, fmt.Sprintf("This is not JSON: %s.", err), "Mend the JSON here.",
			diag.Related{Span: ref.Span, Message: "the schema is referred to here"})
		return nil
	}
	c := &ir.Contract{Schema: any, Span: ref.Span}
	if n, list := text.ParseYAML(f, 0, len(f.Text)); !list.Errors() { // JSON is YAML, nearly always
		c.Places = n.Places()
	}
	return c
}

// skillFileOf finds what a skill_ref or extends names: a path, a folder with a
// SKILL.md in it, or the bare name of a skill.
func (l *lowering) skillFileOf(ref text.Text, what string) *source.File {
	if isBare(ref.Value) {
		f, err := l.files.Skill(ref.Value)
		if err == nil {
			return f
		}
		// A folder beside the file may have that name too.
		if f, err := l.files.Read(l.file, ref.Value+"/"+skillFile); err == nil {
			return f
		}
		l.refProblem(ref, what, err)
		return nil
	}
	f, err := l.files.Read(l.file, ref.Value)
	var problem *source.RefError
	if errors.As(err, &problem) && problem.Problem == source.RefNotFile {
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

// isBare tells the name of a skill from a path.
func isBare(ref string) bool { return !strings.ContainsAny(ref, `/\`) && path.Ext(ref) == "" }

// refProblem explains why a reference could not be followed.
func (l *lowering) refProblem(ref text.Text, what string, err error) {
	var problem *source.RefError
	if !errors.As(err, &problem) {
		problem = &source.RefError{Ref: ref.Value, Problem: source.RefUnread, Detail: err.Error()}
	}
	found := diag.Diagnostic{Severity: diag.Error, Span: ref.Span}
	switch problem.Problem {
	case source.RefMissing:
		found.Code = CodeRefMissing
		found.Message = fmt.Sprintf("There is no %s %q.", what, ref.Value)
		found.Help = "Paths are looked up from this file's folder, then from the project's root."
		if isBare(ref.Value) {
			found.Help = "A name without a path is looked up among the project's and the user's skills; write the path of the file otherwise."
			if f, err := l.files.Read(l.file, path.Join("skills", ref.Value, skillFile)); err == nil {
				problem.Near = []string{f.Path}
			}
		}
		if len(problem.Near) > 0 {
			found.Help = fmt.Sprintf("Did you mean %q?", problem.Near[0])
		}
	case source.RefAbsolute:
		found.Code = CodeRefAbsolute
		found.Message = fmt.Sprintf("%q is an absolute path, which is never followed.", ref.Value)
		found.Help = "Write the path as seen from this file's folder or from the project's root."
	case source.RefEscapes:
		found.Code = CodeRefEscapes
		found.Message = fmt.Sprintf("%q leads outside the project.", ref.Value)
		found.Help = "Copy the file into the project and refer to it there."
	case source.RefNotFile:
		found.Code = CodeRefUnusable
		found.Message = fmt.Sprintf("%q is not a file.", ref.Value)
		found.Help = "Name the file itself, not its folder."
	case source.RefTooLarge:
		found.Code = CodeRefUnusable
		found.Message = fmt.Sprintf("%q is too large: %s.", ref.Value, strings.TrimSuffix(problem.Detail, "."))
		found.Help = "Refer to a smaller file."
	default:
		found.Code = CodeRefUnusable
		found.Message = fmt.Sprintf("%q cannot be read: %s.", ref.Value, strings.TrimSuffix(problem.Detail, "."))
		found.Help = "Check the file and its permissions."
	}
	l.out.Add(found)
}

// record notes a file that went into the program.
func (l *lowering) record(f *source.File, role string) {
	sum := sha256.Sum256([]byte(f.Text))
	one := ir.File{Path: f.Path, Role: role, SHA256: hex.EncodeToString(sum[:])}
	if !slices.Contains(l.p.Files, one) {
		l.p.Files = append(l.p.Files, one)
	}
}

// child compiles a skill or workflow that a step runs, once per file; -1 when
// that is impossible.
func (l *lowering) child(f *source.File, role string, at source.Span) int {
	if i, ok := l.children[f.Path]; ok {
		return i
	}
	l.record(f, role)
	p, list := l.files.Compile(f, at)
	for _, d := range list {
		// What is merely informative belongs to that file's own validation.
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
