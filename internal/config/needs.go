package config

import (
	"fmt"
	"regexp"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/text"
)

// labelForm is the form of a worker's label.
var labelForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/=-]*$`)

// IsLabel reports whether text can be a worker's label.
func IsLabel(text string) bool { return labelForm.MatchString(text) }

// LabelForm describes labels in help texts.
const LabelForm = "A label has letters, digits, dots, underscores, slashes, equals signs and hyphens"

// Needs is what a process must have to drive the runs of a workflow.
type Needs struct {
	Labels []text.Text
}

func readNeeds(f *fields) []Named[Needs] {
	return entries(f, "needs", "need", "Which labels a worker must have to drive runs, by workflow.",
		func(_ text.Text, f *fields) Needs {
			n := Needs{Labels: f.texts("labels", "Labels that a worker has all of.")}
			f.require("labels")
			for _, label := range n.Labels {
				if !IsLabel(label.Value) {
					f.report(CodeBadValue, label.Span, LabelForm+".", "%q is not a label.", label.Value)
				}
			}
			return n
		})
}

// LabelsOf returns the labels that a process needs to drive runs of a workflow.
func (c *Config) LabelsOf(workflow string) []string {
	for _, n := range c.Needs {
		if n.Name.Value != workflow {
			continue
		}
		labels := make([]string, len(n.Is.Labels))
		for i, label := range n.Is.Labels {
			labels[i] = label.Value
		}
		return labels
	}
	return nil
}

// checkNeeds reports needs that the engine does not honor.
func (c *Config) checkNeeds(out *diag.List) {
	if c.Engine != EngineTemporal {
		return
	}
	for _, n := range c.Needs {
		out.Add(diag.Diagnostic{
			Code: CodeBadValue, Severity: diag.Error, Span: n.Name.Span,
			Message: fmt.Sprintf("%q needs labels, which workers of Temporal do not have.", n.Name.Value),
			Help:    "Remove it, or use engine: embedded with a PostgreSQL store.",
		})
	}
}
