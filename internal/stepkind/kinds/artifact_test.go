package kinds_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/step/steptest"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

func TestArtifactStepsMeetTheStepContract(t *testing.T) {
	steptest.Run(t, kinds.Artifact{},
		steptest.Case{
			Name:     "plain",
			Settings: steptest.Settings{"agent": "plain", "goal": "g", "produces": "outputs/a.md"},
		},
		steptest.Case{
			Name:     "a folder",
			Settings: steptest.Settings{"agent": "plain", "goal": "g", "produces": "outputs/a/", "draft": "agents"},
		},
		steptest.Case{Name: "nobody", Misfit: true},
	)
	steptest.Run(t, kinds.Shell{},
		steptest.Case{
			Name:     "plain",
			Settings: steptest.Settings{"scripts": []kinds.ShellScript{{Shell: "bash", Path: "x.sh"}}},
		},
		steptest.Case{Name: "nothing", Misfit: true},
	)
	steptest.Run(t, kinds.Handover{},
		steptest.Case{Name: "plain", Settings: steptest.Settings{"output": "artifacts.a"}},
		steptest.Case{Name: "nothing", Misfit: true},
	)
}
