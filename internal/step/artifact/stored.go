package artifact

import (
	"path"

	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

// Programs that were stored before the settings had a layout are those of one format. Their layout, the files that they
// do not copy, and the variables of their scripts are these.

// storedLayout returns the layout of a stored program. runs is the folder of the runs' folders, if it is not that of
// the specification.
func storedLayout(workflow, runs string) kinds.ArtifactLayout {
	dir := path.Join("outputs", workflow, "{run}", "execution")
	if runs != "" {
		dir = path.Join(runs, "{run}")
	}
	return kinds.ArtifactLayout{
		Run: "agentfile.run", Outputs: "outputs", Dir: dir, Shared: []string{"artifacts", "workflows", "shared"},
		Placeholders: []kinds.ArtifactPlaceholder{
			{Name: "workflow_name", Read: "input.workflow_name", Default: workflow},
			{Name: "run_id", Read: "input.run_id", Default: "{run}"},
		},
	}
}

var (
	storedOmit      = kinds.HandoverOmit{Files: []string{"manifest.json"}, Beside: "workflow.yaml"}
	storedVariables = kinds.ShellVariables{
		Run: "AGENTFILE_RUN_ID", Dir: "AGENTFILE_RUN_DIR", Workflow: "AGENTFILE_WORKFLOW", Input: "AGENT_INPUT",
	}
)
