package kinds

import (
	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/xslices"
)

// ShellSettings are the settings of a task of kind "shell".
type ShellSettings struct {
	Scripts  []ShellScript   `json:"scripts"`            // the first one whose shell is installed runs
	Variable string          `json:"variable,omitempty"` // the variable with the input of the run
	Sets     *ShellVariables `json:"sets,omitempty"`     // nil is that of stored programs
	Produces string          `json:"produces,omitempty"` // must exist after the script
	Workflow string          `json:"workflow"`
	Folder   string          `json:"folder"` // the workflow's folder, in which scripts run
	Layout   *ArtifactLayout `json:"layout,omitempty"`
	Runs     string          `json:"runs,omitempty"`
}

// ShellVariables are the names of the environment variables that tell a script about its run.
type ShellVariables struct {
	Run      string `json:"run"` // name of the run's folder
	Dir      string `json:"dir"` // the run's folder
	Workflow string `json:"workflow"`
	Input    string `json:"input"` // has the input of the run, besides the variable of the workflow
}

// ShellScript is a script for one shell.
type ShellScript struct {
	Shell string `json:"shell"` // bash or pwsh
	Path  string `json:"path"`  // relative to the workflow's folder
	Text  string `json:"text"`  // content at the start of the run
}

// Shell is the step kind "shell".
type Shell struct{ stepkind.Base[ShellSettings] }

// Name returns "shell".
func (Shell) Name() string { return "shell" }

// Uses returns the scripts.
func (Shell) Uses(t *ir.Task) stepkind.Uses {
	scripts := stepkind.Lenient[ShellSettings](t).Scripts
	return stepkind.Uses{Commands: xslices.Map(scripts, func(s ShellScript) stepkind.CommandUse {
		return stepkind.CommandUse{Text: s.Shell + " " + s.Path}
	})}
}

// Bound returns the time limit of scripts.
func (Shell) Bound(_ *ir.Program, s *ir.Step, _ *ir.Task, _ *contract.Contract) stepkind.Bound {
	return commandBound(s, stepkind.Amount{Unbounded: "a script has no time limit of its own"})
}
