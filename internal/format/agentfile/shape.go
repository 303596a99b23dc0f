package agentfile

import (
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/text"
)

// Forms of names.
const (
	nameForm     = `^[a-z][a-z0-9-]*$`
	variableForm = `^[A-Za-z_][A-Za-z0-9_]*$`
)

// The keys of a file.
var (
	scriptShape = text.NewShape(text.Field{Name: "bash"}, text.Field{Name: "pwsh"})

	stepShape = text.NewShape(
		text.Field{Name: "id", Required: true, Pattern: nameForm},
		text.Field{Name: "name", Required: true},
		text.Field{Name: "goal", Required: true, Doc: "Goal of the step."},
		text.Field{Name: "agent", Doc: "Path of the agent's Markdown file."},
		text.Field{Name: "skill", Doc: "Path of a skill's Markdown file."},
		text.Field{
			Name: "input", Form: text.Strings, Doc: "$VARIABLE or paths.",
			More: map[string]any{"type": []string{"string", "array"}},
		},
		text.Field{Name: "produces", Doc: "Path of the file that the step writes, or of a folder if it ends with /."},
		text.Field{Name: "gate", Choices: []string{"human-approval"}},
		text.Field{Name: "draft", Doc: "Extension: rules that create a draft for the model to improve."},
		text.Field{Name: "action", Choices: []string{"shell"}},
		text.Field{Name: "script", Form: text.Object, Shape: scriptShape},
	)

	triggerShape = text.NewShape(
		text.Field{Name: "type", Required: true, Choices: []string{"natural-language", "file", "schedule", "command"}},
		text.Field{Name: "input_var", Pattern: variableForm, Doc: "Variable with the run's input."},
		text.Field{Name: "schedule", Doc: "Extension: schedule, as a cron expression."},
		text.Field{
			Name: "commands", Form: text.AnyForm,
			Doc: "Extension: commands that start the workflow, as a list or by name.",
			More: map[string]any{"anyOf": []any{
				map[string]any{"type": "array", "items": map[string]any{"type": "string"}},
				map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}},
			}},
		},
		text.Field{
			Name: "paths", Form: text.Strings,
			Doc: "Extension: files that start the workflow when they change, as patterns such as inbox/*.csv.",
		},
	)

	executionShape = text.NewShape(text.Field{Name: "preferred", Choices: []string{"ide", "cli"}})

	outputShape = text.NewShape(
		text.Field{Name: "directory", Doc: "Folder for a copy of the products of all steps."},
	)

	workflowShape = text.NewShape(
		text.Field{
			Name: "specVersion", Required: true, Choices: []string{"1.0"}, Doc: "Version of the format, in quotes.",
		},
		text.Field{
			Name: "name", Required: true, Pattern: nameForm, Doc: "Name of the workflow, as of its folder.",
		},
		text.Field{
			Name: "version", Required: true, Pattern: `^[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?$`,
			Doc: "Version of the workflow.",
		},
		text.Field{Name: "description", Required: true},
		text.Field{Name: "trigger", Required: true, Form: text.Object, Shape: triggerShape},
		text.Field{Name: "execution", Form: text.Object, Shape: executionShape},
		text.Field{Name: "output", Form: text.Object, Shape: outputShape},
		text.Field{
			Name: "steps", Required: true, Form: text.Objects, Shape: stepShape, More: map[string]any{"minItems": 1},
		},
	)
)

// Schemas returns the JSON Schema of workflow.yaml for editors.
func (Format) Schemas() []format.Schema {
	return []format.Schema{format.NewSchema("workflow", "Agentfile workflow", workflowShape.Schema())}
}
