package agentfile

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
)

// Format compiles Agentfile workflows.
type Format struct {
	// CLILayout places the files of a run where the agentfile CLI does: in the workflow's own
	// folder.
	CLILayout bool
	// Env lists environment variables that workflows may read, in addition to those that the
	// project lists.
	Env []string
}

var _ format.Format = Format{}

// Name returns "agentfile".
func (Format) Name() string { return "agentfile" }

// Conventions implements format.Conventional.
func (Format) Conventions() format.Conventions {
	return format.Conventions{
		Files: "Agentfile workflows", UnnamedInput: true, ProjectOutputs: true,
		Flags: []string{"layout", "env", "scripts"},
	}
}

// Match is certain about a workflow.yaml with one of the format's keys, and about an empty one
// in a workflows folder. Other YAML files with both keys are possible.
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

// folder returns the folder of a file, absolute if that is known, because f.Path may be only a
// file name.
func folder(f *source.File) string {
	if f.Abs != "" {
		return filepath.ToSlash(filepath.Dir(f.Abs))
	}
	return path.Dir(f.Path)
}

// outerKeys returns the keys at the outermost level. It scans lines, which is enough to tell
// formats apart even if the YAML is invalid.
func outerKeys(text string) []string {
	var keys []string
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		key, _, ok := strings.Cut(line, ":")
		if ok && key != "" && !strings.ContainsAny(key[:1], " #-{\t\r\n") {
			keys = append(keys, strings.Trim(strings.TrimSpace(key), `"'`))
		}
	}
	return keys
}

// Compile compiles a file together with the agents, skills and scripts that it names.
func (fm Format) Compile(f *source.File, files format.Files) (*ir.Program, diag.List) {
	var list diag.List
	doc := (&parser{file: f, out: &list}).parse()
	if doc == nil {
		return nil, list
	}
	l := &lowering{file: f, files: files, doc: doc, out: &list, cli: fm.CLILayout, allowed: fm.Env}
	return l.program(), list
}
