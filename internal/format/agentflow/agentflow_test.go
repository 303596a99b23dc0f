package agentflow_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/check"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/format/agentflow"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/ir/irtest"
	"github.com/espalier-run/espalier/internal/source"
)

var update = flag.Bool("update", false, "rewrite what the cases expect")

// Names of archive files that contain expectations rather than sources.
const (
	wantProgram     = "want program"
	wantDiagnostics = "want diagnostics"
)

// The first file of each archive in testdata compiles to the program, the diagnostics or both that
// the archive expects.
func TestCasesCompileToTheirExpectedResults(t *testing.T) {
	for _, name := range caseNames(t) {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got := compile(archive)
			checkWellFormed(t, got)
			changed := false
			for i := range archive.Files {
				part := &archive.Files[i]
				var text string
				switch part.Name {
				case wantProgram:
					text = dump(got.Program)
				case wantDiagnostics:
					text = list(got)
				default:
					continue
				}
				if string(part.Data) == text {
					continue
				}
				if !*update {
					t.Errorf("%s: %s\ngot:\n%s\nwant:\n%s", name, part.Name, text, part.Data)
				}
				part.Data, changed = []byte(text), true
			}
			if *update && changed {
				write(t, name, archive)
			}
			if !slices.ContainsFunc(archive.Files, func(f txtar.File) bool { return f.Name == wantDiagnostics }) {
				for _, d := range got.Diagnostics {
					if d.Severity > diag.Note {
						t.Errorf("%s: unexpected: %s", name, line(got, d))
					}
				}
			}
		})
	}
}

// memory is a project that consists of the files of an archive. Files under outside/ are not
// part of it.
type memory map[string]*source.File

func (m memory) Read(from *source.File, ref string) (*source.File, error) {
	if path.IsAbs(ref) {
		return nil, &source.RefError{Ref: ref, Problem: source.RefAbsolute}
	}
	for _, at := range []string{path.Join(path.Dir(from.Path), ref), path.Clean(ref)} {
		if strings.HasPrefix(at, "..") {
			return nil, &source.RefError{Ref: ref, Problem: source.RefEscapes}
		}
		if f, ok := m[at]; ok {
			if len(f.Text) > 20_000 {
				return nil, &source.RefError{Ref: ref, Problem: source.RefTooLarge, Detail: "20 KB are allowed"}
			}
			return f, nil
		}
		for name := range m {
			if strings.HasPrefix(name, at+"/") {
				return nil, &source.RefError{Ref: ref, Problem: source.RefNotFile}
			}
		}
	}
	return nil, &source.RefError{Ref: ref, Problem: source.RefMissing, Near: m.near(ref)}
}

func (m memory) Skill(name string) (*source.File, error) {
	if f, ok := m[".agents/skills/"+name+"/SKILL.md"]; ok {
		return f, nil
	}
	var near []string
	for p := range m {
		if path.Base(p) == "SKILL.md" {
			near = append(near, path.Base(path.Dir(p)))
		}
	}
	problem := &source.RefError{Ref: name, Problem: source.RefMissing}
	if best := diag.Nearest(name, near); best != "" {
		problem.Near = []string{best}
	}
	return nil, problem
}

func (m memory) near(ref string) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	if near := diag.Nearest(ref, names); near != "" {
		return []string{near}
	}
	return nil
}

func compile(archive *txtar.Archive) format.Result {
	files := memory{}
	var first *source.File
	for _, part := range archive.Files {
		if part.Name == wantProgram || part.Name == wantDiagnostics {
			continue
		}
		// Archives are text with plain newlines; cases escape the rest.
		text := strings.NewReplacer("<CR>", "\r", "<BOM>", "\ufeff", "<TAB>", "\t").Replace(string(part.Data))
		f := source.NewFile(part.Name, text)
		files[part.Name] = f
		if first == nil {
			first = f
		}
	}
	return format.Set{agentflow.Format{}}.Compile(first, files)
}

func compileText(name, text string) format.Result {
	return compile(&txtar.Archive{Files: []txtar.File{{Name: name, Data: []byte(text)}}})
}

func FuzzAgentFlow(f *testing.F) {
	for _, name := range caseNames(f) {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(archive.Files[0].Name, string(archive.Files[0].Data))
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		if (agentflow.Format{}).Match(source.NewFile(name, text)) == format.No {
			name = "flow.md"
		}
		checkWellFormed(t, compileText(name, text))
	})
}

// BenchmarkCompile compiles a workflow of twelve steps that uses every feature.
func BenchmarkCompile(b *testing.B) {
	archive, err := txtar.ParseFile("testdata/real-twelve-steps.txtar")
	if err != nil {
		b.Fatal(err)
	}
	text := string(archive.Files[0].Data)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		program, list := agentflow.Format{}.Compile(source.NewFile("flow.md", text), nil)
		if program == nil || list.Errors() {
			b.Fatal(list)
		}
	}
}

// checkWellFormed checks the properties of every result, including one with errors.
func checkWellFormed(t testing.TB, r format.Result) {
	t.Helper()
	if r.Program == nil && !r.Diagnostics.Errors() {
		t.Error("no program and no error")
	}
	for _, d := range r.Diagnostics {
		checkSpan(t, r.Files, d.Span, d.Message)
		for _, related := range d.Related {
			checkSpan(t, r.Files, related.Span, related.Message)
		}
		if d.Code == "" || d.Message == "" || d.Help == "" || !strings.HasSuffix(d.Message, ".") {
			t.Errorf("incomplete diagnostic: %+v", d)
		}
		if d.Lenient && d.Severity != diag.Note {
			t.Errorf("lenient, but not a note: %+v", d)
		}
	}
	if r.Program != nil {
		checkProgram(t, r.Program)
	}
	if !r.Diagnostics.Errors() && r.Program != nil {
		if err := irtest.Sound(r.Program, catalog.Kinds()); err != nil {
			t.Errorf("nothing was an error, but: %v", err)
		}
		for _, d := range check.Program(r.Program, catalog.Kinds()) {
			checkSpan(t, r.Files, d.Span, d.Message)
			for _, related := range d.Related {
				checkSpan(t, r.Files, related.Span, related.Message)
			}
		}
	}
}

func checkSpan(t testing.TB, files source.Set, s source.Span, what string) {
	t.Helper()
	f := files[s.File]
	if f == nil || s.Start < 0 || s.End < s.Start || s.End > len(f.Text) {
		t.Errorf("span %+v of %q lies outside", s, what)
	}
}

func checkProgram(t testing.TB, p *ir.Program) {
	t.Helper()
	for b := range p.Blocks {
		ids := map[string]bool{}
		for i := range p.Blocks[b].Steps {
			s := &p.Blocks[b].Steps[i]
			if s.ID == "" || ids[s.ID] || s.Action == nil {
				t.Errorf("step %q is nameless, repeated or does nothing", s.ID)
			}
			ids[s.ID] = true
			switch a := s.Action.(type) {
			case ir.Call:
				if a.Child < 0 || a.Child >= len(p.Children) {
					t.Errorf("step %q calls child %d of %d", s.ID, a.Child, len(p.Children))
				}
			case ir.Parallel:
				for _, branch := range a.Branches {
					if int(branch.Block) >= len(p.Blocks) || len(p.Blocks[branch.Block].Steps) == 0 {
						t.Errorf("step %q has a branch without steps", s.ID)
					}
				}
			}
		}
		for _, s := range p.Blocks[b].Steps {
			for _, e := range s.Next {
				if e.To.Exit == "" && !ids[e.To.Step] {
					t.Errorf("step %q leads to %q, which is not there", s.ID, e.To.Step)
				}
			}
			if s.Fallback != nil && !ids[s.Fallback.Name] {
				t.Errorf("step %q falls back to %q, which is not there", s.ID, s.Fallback.Name)
			}
		}
	}
	for i := range p.Children {
		checkProgram(t, &p.Children[i])
	}
	if _, err := json.Marshal(p); err != nil {
		t.Errorf("the program has no JSON form: %v", err)
	}
}

func list(r format.Result) string {
	var b strings.Builder
	for _, d := range r.Diagnostics {
		fmt.Fprintln(&b, line(r, d))
		fmt.Fprintf(&b, "    %s\n", d.Help)
		for _, related := range d.Related {
			fmt.Fprintf(&b, "    %s %s\n", place(r.Files, related.Span), related.Message)
		}
	}
	return b.String()
}

func line(r format.Result, d diag.Diagnostic) string {
	severity := d.Severity.String()
	if d.Lenient {
		severity = "lenient"
	}
	return fmt.Sprintf("%s %s %s %s", d.Code, place(r.Files, d.Span), severity, d.Message)
}

// place formats a span as line:column-endcolumn, with the end's line if it differs, and with
// the file if there are several.
func place(files source.Set, s source.Span) string {
	f := files[s.File]
	if f == nil {
		return "nowhere"
	}
	from, to := f.Position(s.Start), f.Position(s.End)
	text := fmt.Sprintf("%d:%d-%d", from.Line, from.Column, to.Column)
	if from.Line != to.Line {
		text = fmt.Sprintf("%d:%d-%d:%d", from.Line, from.Column, to.Line, to.Column)
	}
	if len(files) > 1 {
		text = s.File + ":" + text
	}
	return text
}

// dump formats a program for reading: one line per step, with its edges below.
func dump(p *ir.Program) string {
	if p == nil {
		return "nothing\n"
	}
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("%s %q %s, %s", p.Format, p.Name, p.Version, p.Level)
	for _, m := range p.Meta {
		if m.Name != "name" && m.Name != "kind" && (m.Name != "version" || p.Version == "") {
			say("meta %s %s", m.Name, m.Value)
		}
	}
	for _, t := range p.Triggers {
		if !t.Span.IsZero() {
			say("trigger %s%s", t.Kind, words(" off", t.Off, " "+strings.TrimSpace(t.Schedule+" "+t.Timezone+" "+
				t.Event), t.Schedule+t.Event != ""))
		}
	}
	if text := budget(p.Budget); text != "" {
		say("budget%s", text)
	}
	if !p.Tools.AllowAll || p.Tools.Deny != nil || p.Tools.WorkersMayUse {
		say("tools allow=%s deny=%s%s", names(p.Tools.Allow), names(p.Tools.Deny),
			words(" workers", p.Tools.WorkersMayUse))
	}
	if p.Input != nil {
		say("input %s", p.Input.Schema)
	}
	if p.Output != nil {
		say("output %s", p.Output.Schema)
	}
	if p.NoResume || p.MayIntervene || p.CheckpointEvery > 0 {
		say("runtime%s checkpoint=%d", words(" no-resume", p.NoResume, " may-intervene", p.MayIntervene),
			p.CheckpointEvery)
	}
	if a := p.Audit; a != nil {
		say("audit %s events=%s ids=%s patterns=%s%s", a.Level, names(a.RequiredEvents), names(a.RequiredIDs),
			names(a.RedactPatterns), words(" pii", a.RedactPII, " secrets", a.RedactSecrets))
	}
	for _, a := range p.Agents {
		say("agent %s%s role=%q goal=%q tools=%s%s", a.ID, words(" (implied)", a.Implied), a.Role, a.Goal,
			names(a.Tools),
			words(" model="+a.Model, a.Model != "", fmt.Sprintf(" max_tokens=%d", a.MaxTokens), a.MaxTokens > 0,
				fmt.Sprintf(" expected=%q", a.Expected), a.Expected != "",
				fmt.Sprintf(" instructions=%q", a.Instructions), a.Instructions != ""))
	}
	for i, block := range p.Blocks {
		say("block %d", i)
		for _, s := range block.Steps {
			say("  %s%s %s%s: %s%s", s.ID, words(" (implied)", s.Implied), s.Type,
				words(fmt.Sprintf(" %q", s.Description), i > 0), action(s.Action), flow(s))
			for _, e := range s.Next {
				say("    %s", edge(e))
			}
		}
	}
	for _, f := range p.Files {
		say("file %s %s %s", f.Role, f.Path, f.SHA256[:8])
	}
	for i := range p.Children {
		say("child %d", i)
		for l := range strings.Lines(dump(&p.Children[i])) {
			b.WriteString("  " + l)
		}
	}
	return b.String()
}

// words joins the texts with a true condition.
func words(pairs ...any) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1].(bool) {
			b.WriteString(pairs[i].(string))
		}
	}
	return b.String()
}

func names(list []ir.Name) string {
	var out []string
	for _, n := range list {
		out = append(out, n.Name)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

func budget(b ir.Budget) string {
	out := ""
	for _, one := range []struct {
		name  string
		limit *ir.Limit
	}{{"steps", b.Steps}, {"tool_calls", b.ToolCalls}, {"tokens", b.Tokens}, {"seconds", b.ActiveSeconds}} {
		if one.limit != nil {
			out += fmt.Sprintf(" %s=%d", one.name, one.limit.Max)
		}
	}
	return out
}

func task(t ir.Task) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s{", t.Kind)
	for i, s := range t.Settings {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s=%s", s.Name, s.Value)
	}
	return b.String() + "}"
}

func action(a ir.Action) string {
	switch a := a.(type) {
	case ir.Task:
		return task(a)
	case ir.Gate:
		out := "gate by " + string(a.Decider)
		if a.Verdict != nil {
			out += " " + task(*a.Verdict)
		}
		return out + words(" event="+a.Event, a.Event != "", fmt.Sprintf(" timeout=%dms then %s", a.Timeout,
			a.OnTimeout), a.Timeout > 0 || a.OnTimeout != "", " name="+a.Name, a.Name != "")
	case ir.Parallel:
		out := fmt.Sprintf("parallel %s join=%s%s", a.Name, a.Join, words(fmt.Sprintf(" at most %d", a.MaxConcurrent),
			a.MaxConcurrent > 0))
		for _, b := range a.Branches {
			out += fmt.Sprintf(" [%s block %d%s%s]", b.Name, b.Block, words(" when "+b.When.String(), b.When != nil),
				budget(b.Budget))
		}
		if a.Combine != nil {
			out += " " + task(*a.Combine)
		}
		return out
	case ir.Call:
		return fmt.Sprintf("call child %d%s", a.Child, words(" with reads", a.PassReads))
	case ir.End:
		out := "end" + words(" check "+a.Check.String(), a.Check != nil)
		if a.Work != nil {
			out += " " + task(*a.Work)
		}
		return out
	default:
		return ir.ActionName(a)
	}
}

func flow(s ir.Step) string {
	var b strings.Builder
	for i, r := range s.Reads {
		b.WriteString(words(" reads ", i == 0, ", ", i > 0) + r.Path)
	}
	for i, w := range s.Writes {
		b.WriteString(words(" writes ", i == 0, ", ", i > 0) + w.Path +
			words("<-."+w.Part, w.Part != "", " ("+string(w.Reducer)+")", w.Reducer != "", " under "+w.Under,
				w.Under != "", " as list", w.AsList, " flat", w.Flat))
	}
	if s.When != nil {
		b.WriteString(" when " + s.When.String() + bound(s))
	}
	if s.StopWhen != nil {
		b.WriteString(" stop when " + s.StopWhen.String())
	}
	if r := s.Retry; r != nil {
		fmt.Fprintf(&b, " retry %d %v on %v", r.MaxAttempts, r.Delays, r.On)
	}
	b.WriteString(words(" skip on error", s.SkipOnError))
	if s.Fallback != nil {
		b.WriteString(" fallback " + s.Fallback.Name)
	}
	if s.Produces != nil {
		b.WriteString(" makes " + names(s.Produces))
	}
	return b.String() + words(" audit "+s.AuditFile, s.AuditFile != "", " ok="+s.ReasonOK, s.ReasonOK != "", " fail="+
		s.ReasonFail, s.ReasonFail != "")
}

func bound(s ir.Step) string {
	var out []string
	for name, meaning := range s.When.Names {
		out = append(out, name+" = "+meaning)
	}
	slices.Sort(out)
	return words(" ("+strings.Join(out, ", ")+")", out != nil)
}

func edge(e ir.Edge) string {
	var on []string
	for _, o := range e.On {
		on = append(on, string(o))
	}
	to := e.To.Step
	if e.To.Exit != "" {
		to = fmt.Sprintf("exit %s %s", e.To.Exit, e.To.Reason)
	}
	arrow := "->"
	if e.Sequential {
		arrow = "~>"
	}
	return fmt.Sprintf("%s %s %s%s", strings.Join(on, ","), arrow, to, words(" if "+e.When.String(), e.When != nil,
		fmt.Sprintf(" %q", e.Label), e.Label != ""))
}
