package script

import (
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/exec"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// Settings are the settings of a task.
type Settings struct {
	Language     string   `json:"language"`
	Script       string   `json:"script"`
	Dependencies []string `json:"dependencies,omitempty"` // must be installed; Espalier installs none
	// Folder is the working folder, from the project's root; empty is the run's
	// folder.
	Folder string `json:"folder,omitempty"`
	// OnLeave scripts run only if the user allows the scripts of skills.
	OnLeave bool `json:"on_leave,omitempty"`
}

// Languages returns the languages that can be run.
func Languages() []string { return []string{"bash", "javascript", "python", "sh"} }

// aliases are other names of the languages.
var aliases = map[string]string{
	"js": "javascript", "node": "javascript", "nodejs": "javascript",
	"py": "python", "python3": "python",
	"shell": "sh", "posix": "sh", "zsh": "bash",
}

// Kind is the step kind "script".
type Kind struct{ exec.Base[Settings] }

var (
	_ step.Runner       = Kind{}
	_ stepkind.Explorer = Kind{}
)

// Name returns "script".
func (Kind) Name() string { return "script" }

// Check reports languages that cannot be run, and scripts without code.
func (Kind) Check(_ *ir.Program, s *ir.Step, t *ir.Task) diag.List {
	set := stepkind.Lenient[Settings](t)
	var list diag.List
	if set.Language != "" && !slices.Contains(Languages(), set.Language) {
		list.Errorf(stepkind.CodeLanguage, stepkind.At(s, t, "language"), suggest(set.Language),
			"Scripts in %q cannot be run.", set.Language)
	}
	if set.Script != "" && empty(set.Script) {
		list.Errorf(stepkind.CodeEmptyScript, stepkind.At(s, t, "script"),
			"Write the code under \"script: |\", or remove the code from the step.",
			"The script of step %q has nothing to run.", s.ID)
	}
	return list
}

func suggest(language string) string {
	if known := aliases[strings.ToLower(language)]; known != "" {
		return fmt.Sprintf("Did you mean %q?", known)
	}
	if near := diag.Nearest(language, Languages()); near != "" {
		return fmt.Sprintf("Did you mean %q?", near)
	}
	return "Supported languages: " + diag.Enumerate(Languages()) + "."
}

// empty reports whether a script has only blank lines and comments.
func empty(script string) bool {
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "//") {
			return false
		}
	}
	return true
}

// Uses returns the script.
func (Kind) Uses(t *ir.Task) stepkind.Uses {
	set := stepkind.Lenient[Settings](t)
	return stepkind.Uses{Commands: []stepkind.CommandUse{
		{Text: set.Language + ": " + set.Script, Optional: set.OnLeave},
	}}
}

// Bound returns the time that a script may take.
func (Kind) Bound(_ *ir.Program, s *ir.Step, _ *ir.Task, _ *contract.Contract) stepkind.Bound {
	return exec.Bound(s, stepkind.N(stepkind.ScriptSeconds))
}

// Explored returns the contract of what the script prints.
func (Kind) Explored(p *ir.Program, s *ir.Step, _ *ir.Task) contract.Contract {
	return contract.Of(p, s, contract.Spec{})
}
