package artifact

import "path"

// Programs that were stored before the settings had a layout are those of one format. Their layout, the files that they
// do not copy, and the variables of their scripts are these.

// storedLayout returns the layout of a stored program. runs is the folder of the runs' folders, if it is not that of
// the specification.
func storedLayout(workflow, runs string) Layout {
	dir := path.Join("outputs", workflow, "{run}", "execution")
	if runs != "" {
		dir = path.Join(runs, "{run}")
	}
	return Layout{
		Run: "agentfile.run", Outputs: "outputs", Dir: dir, Shared: []string{"artifacts", "workflows", "shared"},
		Placeholders: []Placeholder{
			{"workflow_name", "input.workflow_name", workflow}, {"run_id", "input.run_id", "{run}"},
		},
	}
}

var (
	storedOmit      = Omit{Files: []string{"manifest.json"}, Beside: "workflow.yaml"}
	storedVariables = Variables{
		Run: "AGENTFILE_RUN_ID", Dir: "AGENTFILE_RUN_DIR", Workflow: "AGENTFILE_WORKFLOW", Input: "AGENT_INPUT",
	}
)
