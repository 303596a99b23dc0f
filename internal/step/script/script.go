package script

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step"
)

// Settings is what a task of this kind says.
type Settings struct {
	Language     string   `json:"language"`
	Script       string   `json:"script"`
	Dependencies []string `json:"dependencies,omitempty"` // must be there already; never installed
	// Folder is where it runs, from the project's root; the run's folder
	// without it.
	Folder string `json:"folder,omitempty"`
	// OnLeave scripts run only where somebody has allowed scripts.
	OnLeave bool `json:"on_leave,omitempty"`
}

// Languages are the ones that can be run.
func Languages() []string { return []string{"bash", "javascript", "python", "sh"} }

// usual are other names that people give to the languages.
var usual = map[string]string{
	"js": "javascript", "node": "javascript", "nodejs": "javascript",
	"py": "python", "python3": "python",
	"shell": "sh", "posix": "sh", "zsh": "bash",
}

// Kind is the step kind "script".
type Kind struct{}

var _ step.Kind = Kind{}

// Name is "script".
func (Kind) Name() string { return "script" }

// Understands wants a language and a script, whatever they are.
func (Kind) Understands(t *ir.Task) error {
	set, err := step.Decode[Settings](t)
	if set.Language == "" || set.Script == "" {
		err = errors.Join(err, errors.New("there is no language or no script"))
	}
	return err
}

// Check wants a language that can be run and at least one line to run in it.
func (Kind) Check(_ *ir.Program, s *ir.Step, t *ir.Task) diag.List {
	set := step.Lenient[Settings](t)
	var list diag.List
	if set.Language != "" && !slices.Contains(Languages(), set.Language) {
		list.Add(diag.Diagnostic{
			Code: step.CodeLanguage, Severity: diag.Error, Span: step.At(s, t, "language"),
			Message: fmt.Sprintf("Scripts in %q cannot be run.", set.Language),
			Help:    suggest(set.Language),
		})
	}
	if set.Script != "" && empty(set.Script) {
		list.Add(diag.Diagnostic{
			Code: step.CodeEmptyScript, Severity: diag.Error, Span: step.At(s, t, "script"),
			Message: fmt.Sprintf("The script of step %q has nothing to run.", s.ID),
			Help:    "Write the code under \"script: |\", or remove the code from the step.",
		})
	}
	return list
}

func suggest(language string) string {
	if known := usual[strings.ToLower(language)]; known != "" {
		return fmt.Sprintf("Did you mean %q?", known)
	}
	return diag.DidYouMean(language, Languages())
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

// Uses is the script.
func (Kind) Uses(t *ir.Task) step.Uses {
	set := step.Lenient[Settings](t)
	return step.Uses{Commands: []step.CommandUse{{Text: set.Language + ": " + set.Script, Optional: set.OnLeave}}}
}

// Bound is the time a script may take. It calls no models and no tools.
func (Kind) Bound(*ir.Program, *ir.Step, *ir.Task, *contract.Contract) step.Bound {
	return step.Bound{
		Base:  step.Cost{Seconds: step.N(step.UsualScriptSeconds)},
		Worst: step.Cost{Seconds: step.N(step.ScriptSeconds)},
	}
}
