package kinds

import (
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// ScriptSettings are the settings of a task of kind "script".
type ScriptSettings struct {
	Language     string   `json:"language"`
	Script       string   `json:"script"`
	Dependencies []string `json:"dependencies,omitempty"` // must be installed; Espalier installs none
	// Folder is the working folder, from the project's root; empty is the run's
	// folder.
	Folder string `json:"folder,omitempty"`
	// OnLeave scripts run only if the user allows the scripts of skills.
	OnLeave bool `json:"on_leave,omitempty"`
}

// ScriptLanguages returns the languages that can be run.
func ScriptLanguages() []string { return []string{"bash", "javascript", "python", "sh"} }

// languageAliases are other names of the languages.
var languageAliases = map[string]string{
	"js": "javascript", "node": "javascript", "nodejs": "javascript",
	"py": "python", "python3": "python",
	"shell": "sh", "posix": "sh", "zsh": "bash",
}

// Script is the step kind "script".
type Script struct{ stepkind.Base[ScriptSettings] }

var _ stepkind.Explorer = Script{}

// Name returns "script".
func (Script) Name() string { return "script" }

// Traits returns those of a script, which gets its reads.
func (Script) Traits(_ *ir.Program, t *ir.Task) ir.Traits {
	language := stepkind.Lenient[ScriptSettings](t).Language
	return ir.Traits{Nature: ir.Computes, Language: language, PassReads: true}
}

// Check reports languages that cannot be run, and scripts without code.
func (Script) Check(_ *ir.Program, s *ir.Step, t *ir.Task) diag.List {
	set := stepkind.Lenient[ScriptSettings](t)
	var list diag.List
	if set.Language != "" && !slices.Contains(ScriptLanguages(), set.Language) {
		list.Errorf(stepkind.CodeLanguage, stepkind.At(s, t, "language"), suggestLanguage(set.Language),
			"Scripts in %q are not supported.", set.Language)
	}
	if set.Script != "" && isEmptyScript(set.Script) {
		list.Errorf(stepkind.CodeEmptyScript, stepkind.At(s, t, "script"),
			"Write the code under \"script: |\", or remove the code from the step.",
			"The script of step %q has nothing to run.", s.ID)
	}
	return list
}

func suggestLanguage(language string) string {
	if known := languageAliases[strings.ToLower(language)]; known != "" {
		return fmt.Sprintf("Did you mean %q?", known)
	}
	if near := diag.Nearest(language, ScriptLanguages()); near != "" {
		return fmt.Sprintf("Did you mean %q?", near)
	}
	return "Supported languages: " + diag.Enumerate(ScriptLanguages()) + "."
}

// isEmptyScript reports whether a script has only blank lines and comments.
func isEmptyScript(script string) bool {
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "//") {
			return false
		}
	}
	return true
}

// Uses returns the script.
func (Script) Uses(t *ir.Task) stepkind.Uses {
	set := stepkind.Lenient[ScriptSettings](t)
	return stepkind.Uses{Commands: []stepkind.CommandUse{
		{Text: set.Language + ": " + set.Script, Optional: set.OnLeave},
	}}
}

// Bound returns the time that a script may take.
func (Script) Bound(_ *ir.Program, s *ir.Step, _ *ir.Task, _ *contract.Contract) stepkind.Bound {
	return commandBound(s, stepkind.N(stepkind.ScriptSeconds))
}

// Explored returns the contract of what the script prints.
func (Script) Explored(p *ir.Program, s *ir.Step, _ *ir.Task) contract.Contract {
	return contract.Derive(p, s, contract.Spec{})
}
