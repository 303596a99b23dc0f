package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// interpreters are the packages that decide what facts mean: the plan folds them, engines act on them, and report
// interprets them for all readers.
var interpreters = []string{"internal/journal", "internal/plan", "internal/engine", "internal/report"}

// otherSwitches are the files with a switch over facts outside of the interpreters, and why.
var otherSwitches = map[string]string{
	"internal/graph/run.go": "it draws frames, and no event has those that open",
}

// TestFactsAreInterpretedInOnePlace rejects switches over the types of facts outside of the interpreters. Readers
// switch over the types of report.Events instead.
func TestFactsAreInterpretedInOnePlace(t *testing.T) {
	root := moduleRoot(t)
	facts := factTypes(t, filepath.Join(root, "internal/journal/names.go"))
	if !facts["RunStarted"] || len(facts) < 20 {
		t.Fatalf("found %d facts", len(facts))
	}
	seen := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		for _, dir := range interpreters {
			if strings.HasPrefix(rel, dir+"/") {
				return nil
			}
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, found := range factSwitches(file, facts) {
			if seen[rel] = true; otherSwitches[rel] == "" {
				t.Errorf("%s:%d: a switch over facts; use report.Events or a function of report", rel,
					fset.Position(found.Pos()).Line)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range otherSwitches {
		if !seen[name] {
			t.Errorf("%s has no switch over facts any more", name)
		}
	}
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

// factSwitches returns the type switches of a file that distinguish several facts.
func factSwitches(file *ast.File, facts map[string]bool) (found []ast.Node) {
	ast.Inspect(file, func(n ast.Node) bool {
		s, ok := n.(*ast.TypeSwitchStmt)
		if !ok {
			return true
		}
		named := 0
		for _, clause := range s.Body.List {
			for _, typ := range clause.(*ast.CaseClause).List {
				sel, ok := typ.(*ast.SelectorExpr)
				if !ok {
					continue
				}
				if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "journal" && facts[sel.Sel.Name] {
					named++
				}
			}
		}
		if named > 1 {
			found = append(found, s)
		}
		return true
	})
	return found
}

// The rule itself is tested: a pattern that matches nothing passes, too.
func TestFactSwitchesAreFound(t *testing.T) {
	facts := map[string]bool{"RunStarted": true, "RunFinished": true}
	for code, want := range map[string]int{
		`switch e.Fact.(type) { case journal.RunStarted: case journal.RunFinished: }`:  1,
		`switch x := f.(type) { case journal.RunStarted, journal.RunFinished: _ = x }`: 1,
		`switch f.(type) { case journal.RunStarted: }`:                                 0,
		`switch f.(type) { case *journal.Reply: case *journal.ToolUse: }`:              0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "p.go", "package p; func f() { "+code+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(factSwitches(file, facts)); got != want {
			t.Errorf("%s: found %d switches, want %d", code, got, want)
		}
	}
}
