package config

import (
	"regexp"

	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xslices"
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
	// Steps are needs of single steps. One process drives all steps of a run, so it needs their labels, too.
	Steps []Named[StepNeeds]
}

// StepNeeds is what a process must have to execute a step.
type StepNeeds struct {
	Labels []text.Text
}

// readNeeds reads the needs section.
func readNeeds(f *fields) []Named[Needs] {
	return entries(f, "needs", "need", "Which labels a worker must have to drive runs, by workflow.",
		func(name text.Text, f *fields) Needs {
			n := Needs{Labels: f.labels(), Steps: entries(f, "steps", "need of a step",
				"Labels that single steps need, by step. One worker drives a run, so it has the labels of all steps.",
				func(_ text.Text, f *fields) StepNeeds {
					defer f.require("labels")
					return StepNeeds{f.labels()}
				})}
			if len(n.Labels) == 0 && len(n.Steps) == 0 {
				f.out.Errorf(CodeMissing, name.Span, "Add a line with labels: and its value.",
					"The need has no \"labels\".")
			}
			return n
		})
}

// labels reads the key labels, of a workflow or of a step.
func (f *fields) labels() []text.Text {
	all := f.texts("labels", "Labels that a worker has all of.")
	for _, label := range all {
		if !IsLabel(label.Value) {
			f.out.Errorf(CodeBadValue, label.Span, LabelForm+".", "%q is not a label.", label.Value)
		}
	}
	return all
}

// LabelsOf returns the labels that a process needs to drive runs of a workflow: those of the workflow and of its steps.
func (c *Config) LabelsOf(workflow string) (labels []string) {
	add := func(all []text.Text) { labels = xslices.AppendNew(labels, text.Values(all)...) }
	for _, n := range c.Needs {
		if n.Name.Value != workflow {
			continue
		}
		add(n.Is.Labels)
		for _, step := range n.Is.Steps {
			add(step.Is.Labels)
		}
	}
	return labels
}

// StepsWithNeeds returns the steps of a workflow that have needs of their own.
func (c *Config) StepsWithNeeds(workflow string) (steps []string) {
	for _, n := range c.Needs {
		if n.Name.Value == workflow {
			steps = append(steps, Names(n.Is.Steps)...)
		}
	}
	return steps
}
