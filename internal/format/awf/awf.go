package awf

import (
	"path"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/source"
)

// Format compiles AWF workflows.
type Format struct{}

var _ format.Format = Format{}

// Name returns "awf".
func (Format) Name() string { return "awf" }

// Conventions implements format.Conventional.
func (Format) Conventions() format.Conventions {
	return format.Conventions{Files: "AWF files", NamedByFile: true, ConsentByName: true, UserFolder: "awf"}
}

// Match is certain about files in .awf/workflows, and about YAML with states and an initial state. It never returns
// Possible.
func (Format) Match(f *source.File) format.Match {
	if ext := strings.ToLower(path.Ext(f.Path)); ext != ".yaml" && ext != ".yml" {
		return format.No
	}
	if inFolder(f, "workflows") {
		return format.Certain
	}
	keys := outline(f.Text)
	states := slices.Contains(keys, "states") &&
		(slices.Contains(keys, "initial") || slices.Contains(keys, "states.initial"))
	if (states || flowStates().MatchString(f.Text)) && !inFolder(f, "templates") {
		return format.Certain
	}
	return format.No
}

// flowStates matches states in braces, as in JSON.
var flowStates = lazyregexp.New(`(?m)(^|[{,]\s*)["']?states["']?\s*:\s*\{\s*["']?initial["']?\s*:`)

// inFolder reports whether a file is in a folder of .awf. Files in its templates folder are
// parts of workflows that cannot run by themselves.
func inFolder(f *source.File, folder string) bool {
	name := f.Path
	if f.Abs != "" {
		name = strings.ReplaceAll(f.Abs, `\`, "/")
	}
	dir := path.Dir(name)
	return dir == ".awf/"+folder || strings.HasSuffix(dir, "/.awf/"+folder)
}

// outline returns the keys at the outermost level and, as "outer.inner", at the first level
// below it. It scans lines, which is enough to tell formats apart even if the YAML is invalid.
func outline(text string) []string {
	var keys []string
	outer, indent := "", 0
	for line := range strings.Lines(text) {
		trimmed := strings.TrimLeft(line, " ")
		key, _, ok := strings.Cut(trimmed, ":")
		if !ok || key == "" || strings.ContainsAny(key[:1], "#-\t\r\n") {
			continue
		}
		key = strings.Trim(strings.TrimSpace(key), `"'`)
		switch depth := len(line) - len(trimmed); {
		case depth == 0:
			outer, indent = key, 0
			keys = append(keys, key)
		case indent == 0 || depth == indent:
			indent = depth
			keys = append(keys, outer+"."+key)
		}
	}
	return keys
}

// Compile compiles a file.
func (Format) Compile(f *source.File, files format.Files) (*ir.Program, diag.List) {
	var list diag.List
	l := &lowering{
		file: f, files: files, out: &list, children: map[string]int{}, internals: map[string]*expr.Expr{},
	}
	p := &parser{file: f, out: &list, templates: l.template}
	l.doc = p.parse()
	if l.doc == nil {
		return nil, list
	}
	program := l.program()
	return program, list.Sorted() // a state may be compiled several times
}
