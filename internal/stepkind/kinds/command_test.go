package kinds_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/step/steptest"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

func TestCommandStepsMeetTheStepContract(t *testing.T) {
	steptest.Run(t, kinds.Command{},
		steptest.Case{Name: "command", Settings: steptest.Settings{
			"command": "make {{.inputs.x}}", "dir": "sub", "export": []string{"x"},
		}},
		steptest.Case{Name: "script", Settings: steptest.Settings{
			"script": "#!/bin/sh\necho", "shell": "/bin/sh", "timeout": "3s",
		}},
		steptest.Case{Name: "file", Settings: steptest.Settings{"script_file": "x.sh", "folder": "/p"}},
		steptest.Case{Name: "nothing", Misfit: true},
	)
	steptest.Run(t, kinds.Hook{},
		steptest.Case{Name: "hooks", Settings: steptest.Settings{
			"hooks": []map[string]any{{"log": "x"}, {"command": "true", "timeout": 5}}, "strict": true,
		}},
		steptest.Case{Name: "again", Settings: steptest.Settings{
			"hooks": []any{}, "again": true, "files": []string{"x"}, "export": []string{"x"},
		}},
	)
}

func TestHooksUseTheirCommands(t *testing.T) {
	for _, c := range []struct {
		hooks []map[string]string
		runs  bool
	}{{[]map[string]string{{"log": "x"}}, false}, {[]map[string]string{{"log": "x"}, {"command": "x"}}, true}} {
		_, task := steptest.Case{Settings: steptest.Settings{"hooks": c.hooks}}.Task("hook")
		if got := (kinds.Hook{}).Uses(task); (len(got.Commands) > 0) != c.runs {
			t.Errorf("%v: %+v", c.hooks, got)
		}
	}
}
