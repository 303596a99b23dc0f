package agentflow

import (
	"path"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
)

// Format compiles Agent Flow workflows and SKILL.md files.
type Format struct{}

var _ format.Format = Format{}

// Name returns "agent-flow".
func (Format) Name() string { return "agent-flow" }

const skillFile = "SKILL.md"

// Match inspects only the file name and the lines of the frontmatter. Other Markdown files are possible, except those
// of NOF, because a person may name any of them as a skill.
func (Format) Match(f *source.File) format.Match {
	base := path.Base(f.Path)
	if base == skillFile {
		return format.Certain
	}
	if !strings.EqualFold(path.Ext(base), ".md") || strings.HasSuffix(strings.ToLower(base), ".nof.md") {
		return format.No
	}
	match := format.Possible
	for key, value := range frontmatterLines(f.Text) {
		switch {
		case key == "kind" && value == workflowKind:
			return format.Certain
		case key == "format" && strings.HasPrefix(value, "nof/"):
			match = format.No
		}
	}
	return match
}

// frontmatterLines yields the unindented `key: value` lines between the first two lines of
// three hyphens, without parsing YAML.
func frontmatterLines(text string) func(yield func(key, value string) bool) {
	return func(yield func(key, value string) bool) {
		inside := false
		for line := range strings.SplitSeq(strings.TrimPrefix(text, "\ufeff"), "\n") {
			line = strings.TrimRight(line, " \t\r")
			switch fence := line == "---"; {
			case fence && !inside:
				inside = true
				continue
			case fence || !inside:
				return
			}
			key, value, ok := strings.Cut(line, ":")
			if !ok || key == "" || strings.ContainsAny(key[:1], " \t#-") {
				continue
			}
			value, _, _ = strings.Cut(value, " #")
			if !yield(strings.Trim(strings.TrimSpace(key), `"'`), strings.Trim(strings.TrimSpace(value), `"'`)) {
				return
			}
		}
	}
}

// Compile compiles a file. A file without `kind: agent-flow/workflow` is a skill.
func (Format) Compile(f *source.File, files format.Files) (*ir.Program, diag.List) {
	var list diag.List
	doc := parse(f, &list)
	if doc == nil {
		return nil, list
	}
	l := &lowering{file: f, files: files, doc: doc, out: &list}
	return l.program(), list
}
