package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// interpreters are the packages that decide what facts mean: journal says which state a step has after one, the plan
// folds them, engines act on them, and report interprets them for all readers.
var interpreters = []string{"internal/journal", "internal/plan", "internal/engine", "internal/report"}

// otherReaders are the functions outside of the interpreters that ask for the types of facts, and why.
var otherReaders = map[string]string{
	"internal/graph/run.go Tracker.Apply": "it needs what events leave out; docs/architecture.md says what",
}

// isReader reports whether a file belongs to a package below internal/report.
func isReader(file string) bool {
	return strings.HasPrefix(file, "internal/report/") && path.Dir(file) != "internal/report"
}

// TestFactsAreInterpretedInOnePlace rejects type switches and type assertions that name facts outside of the
// interpreters. Readers ask for the types of report.Events instead. The readers below internal/report may take the
// details of an event from its fact, with a type assertion.
func TestFactsAreInterpretedInOnePlace(t *testing.T) {
	root := moduleRoot(t)
	facts := factTypes(t, filepath.Join(root, "internal/journal/names.go"))
	if !facts["RunStarted"] || len(facts) < 20 {
		t.Fatalf("found %d facts", len(facts))
	}
	ignored := func(file string) bool {
		return !isReader(file) && slices.ContainsFunc(interpreters, func(dir string) bool {
			return strings.HasPrefix(file, dir+"/")
		})
	}
	seen := map[string]bool{}
	eachDeclaration(t, ignored, func(d *declaration) {
		for _, found := range factTests(d.Decl, facts) {
			if _, details := found.(*ast.TypeAssertExpr); details && isReader(d.file) {
				continue
			}
			if seen[d.name] = true; otherReaders[d.name] == "" {
				t.Errorf("%s: the type of a fact is asked for; use report.Events or a function of report", d.at(found))
			}
		}
	})
	for name := range otherReaders {
		if !seen[name] {
			t.Errorf("%s does not ask for facts any more", name)
		}
	}
}

// declaration is a declaration of a file below internal that is no test.
type declaration struct {
	ast.Decl
	file string // from the root of the module
	name string // the file and, of a function, its name
	fset *token.FileSet
}

// at returns the file and the line of a node.
func (d *declaration) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", d.file, d.fset.Position(n.Pos()).Line)
}

// eachDeclaration calls visit with all declarations of the files that are not ignored.
func eachDeclaration(t *testing.T, ignored func(file string) bool, visit func(*declaration)) {
	t.Helper()
	root := moduleRoot(t)
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if rel = filepath.ToSlash(rel); ignored(rel) {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			where := rel
			if f, ok := decl.(*ast.FuncDecl); ok {
				where += " " + receiverOf(f) + f.Name.Name
			}
			visit(&declaration{decl, rel, where, fset})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// otherFolds are the functions outside of report that switch over types of events and keep state in doing so, and why.
var otherFolds = map[string]string{
	"internal/web/story.go stepView.converse": "it makes the messages of a conversation, with chunks of the reply",
}

// TestEventsAreFoldedInOnePlace rejects switches over types of report.Events whose cases assign to fields or elements,
// outside of internal/report: what readers need to know of several events is in report.History and report.Variables.
// The readers below internal/report are exempt: the state of what is open is part of their checkpoints.
func TestEventsAreFoldedInOnePlace(t *testing.T) {
	root := moduleRoot(t)
	types := eventTypes(t, filepath.Join(root, "internal/report/event.go"))
	if !types["StepStarted"] || len(types) < 40 {
		t.Fatalf("found %d types of events", len(types))
	}
	ignored := func(file string) bool { return strings.HasPrefix(file, "internal/report/") }
	seen := map[string]bool{}
	eachDeclaration(t, ignored, func(d *declaration) {
		for _, found := range folds(d.Decl, types) {
			if seen[d.name] = true; otherFolds[d.name] == "" {
				t.Errorf("%s: state is made of several events; use report.History or report.Variables", d.at(found))
			}
		}
	})
	for name := range otherFolds {
		if !seen[name] {
			t.Errorf("%s does not keep state any more", name)
		}
	}
}

// eventTypes returns the names of the constants of type EventType.
func eventTypes(t *testing.T, name string) map[string]bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if typ, ok := spec.Type.(*ast.Ident); ok && typ.Name == "EventType" {
				types[spec.Names[0].Name] = true
			}
		}
		return true
	})
	return types
}

// folds returns the switches in a node with a case that names a type of events and assigns to a field or an element.
func folds(in ast.Node, types map[string]bool) (found []ast.Node) {
	keeps := func(target ast.Expr) bool {
		switch target.(type) {
		case *ast.SelectorExpr, *ast.IndexExpr, *ast.StarExpr:
			return true
		}
		return false
	}
	ast.Inspect(in, func(n ast.Node) bool {
		clause, ok := n.(*ast.CaseClause)
		if !ok {
			return true
		}
		named, kept := false, false
		for _, e := range clause.List {
			ast.Inspect(e, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if ok && types[sel.Sel.Name] {
					pkg, ok := sel.X.(*ast.Ident)
					named = named || ok && pkg.Name == "report"
				}
				return true
			})
		}
		for _, stmt := range clause.Body {
			ast.Inspect(stmt, func(n ast.Node) bool {
				switch x := n.(type) {
				case *ast.AssignStmt:
					kept = kept || slices.ContainsFunc(x.Lhs, keeps)
				case *ast.IncDecStmt:
					kept = kept || keeps(x.X)
				}
				return true
			})
		}
		if named && kept {
			found = append(found, clause)
		}
		return true
	})
	return found
}

// factTypes returns the names of the types that have a method factName.
func factTypes(t *testing.T, name string) map[string]bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	facts := map[string]bool{}
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Name.Name == "factName" {
			if of, ok := f.Recv.List[0].Type.(*ast.Ident); ok {
				facts[of.Name] = true
			}
		}
	}
	return facts
}

// receiverOf returns the type of a method's receiver with a dot; empty for a function.
func receiverOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	typ := f.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if name, ok := typ.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}

// factTests returns the type switches and type assertions in a node that name facts.
func factTests(in ast.Node, facts map[string]bool) (found []ast.Node) {
	isFact := func(typ ast.Expr) bool {
		sel, ok := typ.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		pkg, ok := sel.X.(*ast.Ident)
		return ok && pkg.Name == "journal" && facts[sel.Sel.Name]
	}
	ast.Inspect(in, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.TypeAssertExpr:
			if isFact(x.Type) {
				found = append(found, x)
			}
		case *ast.TypeSwitchStmt:
			if slices.ContainsFunc(x.Body.List, func(clause ast.Stmt) bool {
				return slices.ContainsFunc(clause.(*ast.CaseClause).List, isFact)
			}) {
				found = append(found, x)
			}
		}
		return true
	})
	return found
}

// The rules themselves are tested: a pattern that matches nothing passes, too.
func TestFoldsAreFound(t *testing.T) {
	types := map[string]bool{"StepStarted": true, "StepFinished": true}
	for code, want := range map[string]int{
		`switch e.Type { case report.StepStarted: s.n++; case report.StepFinished: s.done[e.Step] = true }`: 2,
		`switch { case e.Type == report.StepStarted && ok: if x { s.last = e.At } }`:                        1,
		`switch e.Type { case report.StepStarted, report.StepFinished: return out.send("changed") }`:        0,
		`switch e.Type { case report.StepStarted: name = e.Step.Name }`:                                     0,
		`switch e.Type { case ir.StepStarted: s.n++ }`:                                                      0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "p.go", "package p; func f() { "+code+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(folds(file, types)); got != want {
			t.Errorf("%s: found %d cases, want %d", code, got, want)
		}
	}
}

func TestQuestionsAboutFactsAreFound(t *testing.T) {
	facts := map[string]bool{"RunStarted": true, "RunFinished": true}
	for code, want := range map[string]int{
		`switch e.Fact.(type) { case journal.RunStarted: case journal.RunFinished: }`:  1,
		`switch x := f.(type) { case journal.RunStarted, journal.RunFinished: _ = x }`: 1,
		`switch f.(type) { case journal.RunStarted: }`:                                 1,
		`switch f.(type) { case *journal.Reply: case *journal.ToolUse: }`:              0,
		`if x, ok := e.Fact.(journal.RunStarted); ok { _ = x }`:                        1,
		`_ = f.(journal.RunStarted).Name + f.(journal.RunFinished).Error`:              2,
		`_, _ = store.(journal.Maintainer)`:                                            0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "p.go", "package p; func f() { "+code+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(factTests(file, facts)); got != want {
			t.Errorf("%s: found %d questions, want %d", code, got, want)
		}
	}
}
