package agentfile

import (
	_ "embed" // for the schema below
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
)

// Format reads Agentfile workflows.
type Format struct {
	// CLILayout puts the files of a run where the agentfile CLI puts them:
	// into the workflow's own folder (G5).
	CLILayout bool
	// Env are variables of the environment that workflows may read, beside
	// those that the project lists (G6).
	Env []string
}

var _ format.Format = Format{}

// Name is "agentfile".
func (Format) Name() string { return "agentfile" }

// Match is certain of a workflow.yaml with the keys of the format, and of one
// that holds nothing in the place where workflows are looked for; other YAML
// with both of its keys is possible.
func (Format) Match(f *source.File) format.Match {
	if ext := strings.ToLower(path.Ext(f.Path)); ext != ".yaml" && ext != ".yml" {
		return format.No
	}
	keys := outerKeys(f.Text)
	hasVersion, hasSteps := slices.Contains(keys, "specVersion"), slices.Contains(keys, "steps")
	switch named := path.Base(f.Path) == "workflow.yaml"; {
	case named && (hasVersion || hasSteps), named && len(keys) == 0 && path.Base(path.Dir(folder(f))) == "workflows":
		return format.Certain
	case hasVersion && hasSteps:
		return format.Possible
	}
	return format.No
}

// folder is the whole path of the folder that a file lies in, as far as it is
// known: whoever works in it names the file alone.
func folder(f *source.File) string {
	if f.Abs != "" {
		return filepath.ToSlash(filepath.Dir(f.Abs))
	}
	return path.Dir(f.Path)
}

// outerKeys lists the keys that begin lines at the outermost level. Looking at
// lines is enough to tell formats apart, also when the YAML is broken.
func outerKeys(text string) []string {
	var keys []string
	for line := range strings.Lines(text) {
		key, _, ok := strings.Cut(line, ":")
		if ok && key != "" && !strings.ContainsAny(key[:1], " #-\t\r\n") {
			keys = append(keys, strings.Trim(strings.TrimSpace(key), `"'`))
		}
	}
	return keys
}

// Compile reads a file with the agents, skills and scripts that it names.
func (fm Format) Compile(f *source.File, files format.Files) (*ir.Program, diag.List) {
	var list diag.List
	doc := (&parser{file: f, out: &list}).parse()
	if doc == nil {
		return nil, list
	}
	l := &lowering{file: f, files: files, doc: doc, out: &list, cli: fm.CLILayout, allowed: fm.Env}
	return l.program(), list
}

//go:embed schema.json
var schema []byte

// Schemas describes workflow.yaml for editors.
func (Format) Schemas() []format.Schema {
	return []format.Schema{{Block: "workflow", Schema: schema}}
}
