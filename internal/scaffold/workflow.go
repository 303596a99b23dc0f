package scaffold

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/xslices"
)

//go:embed templates
var templates embed.FS

// format is a format of new workflows, with the file that holds one.
type format struct{ name, file string }

// formats has the default first.
var formats = []format{
	{"agent-flow", "NAME.md"},
	{"awf", "NAME.yaml"},
	{"nof", "NAME.nof.md"},
	{"agentfile", "workflows/NAME/workflow.yaml"},
	{"aiflow", "NAME.aiflow"},
}

// extras are the files that a workflow needs beside its own, of one pattern or of all.
var extras = []struct{ format, pattern, template, file string }{
	{"agentfile", "", "agentfile/writer", "agents/writer.md"},
	{"agentfile", "review", "agentfile/reviewer", "agents/reviewer.md"},
	{"agentfile", "fanout", "agentfile/benefits", "agents/benefits.md"},
	{"agentfile", "fanout", "agentfile/risks", "agents/risks.md"},
	{"agentfile", "tool", "agentfile/look-up", "scripts/look-up.sh"},
	{"awf", "gate", "awf/approval", "NAME-approval.md"},
	{"nof", "gate", "nof/pipeline", "NAME.nof.md"},
	{"nof", "tool", "nof/look-up", "agents/look-up.md"},
	{"nof", "tool", "nof/look-up-program", "agents/look-up.sh"},
}

// scheduled has the input of scheduled runs, by the formats whose files have no triggers. Their pattern is the default
// one, with a schedule in espalier.yaml.
var scheduled = map[string]string{
	"awf": "{topic: gardens}", "nof": "{period: 2026-01}", "aiflow": "{topic: gardens}",
}

// Formats returns the names of the formats of new workflows, the default first.
func Formats() []string {
	return xslices.Map(formats, func(f format) string { return f.name })
}

// A File is a file to write. Its name has forward slashes, and is relative to the folder of the workflow or project.
type File struct{ Name, Text string }

// A Workflow is a new workflow.
type Workflow struct {
	Name  string // of the workflow to run, which is not that of Files[0] in every pattern
	Files []File // the one to run first
	// Settings are what the workflow needs in espalier.yaml; often empty.
	Settings string
}

// NewWorkflow returns a workflow of a format and one of its patterns. now is the time of its creation.
func NewWorkflow(name, format, pattern string, now time.Time) (*Workflow, error) {
	f := slices.Index(Formats(), format)
	if f < 0 || !slices.Contains(PatternNamesOf(format), pattern) {
		return nil, fmt.Errorf("the format %q has no pattern %q", format, pattern)
	}
	w, file := &Workflow{Name: name, Settings: settingsFor(name, format, pattern)}, formats[f].file
	if format == "nof" && pattern == "gate" { // nothing in NOF waits for a person: an Agent Flow workflow calls it
		w.Name, file = name+"-approval", "NAME-approval.md"
	}
	template := format + "/" + pattern
	if pattern == "schedule" && scheduled[format] != "" {
		template = format + "/" + Patterns[0].Name
	}
	fill := strings.NewReplacer("{{NAME}}", name, "{{NOW}}", now.UTC().Format(time.RFC3339))
	add := func(template, file string) error {
		raw, err := templates.ReadFile("templates/" + template + ".tmpl")
		w.Files = append(w.Files, File{strings.ReplaceAll(file, "NAME", name), fill.Replace(string(raw))})
		return err
	}
	if err := add(template, file); err != nil {
		return nil, err
	}
	for _, e := range extras {
		if e.format == format && (e.pattern == "" || e.pattern == pattern) {
			if err := add(e.template, path.Join(path.Dir(file), e.file)); err != nil {
				return nil, err
			}
		}
	}
	return w, nil
}
