package artifact

import (
	"encoding/json"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
)

// Layout says what the paths of a workflow's files mean. The format decides it.
type Layout struct {
	// Run is the variable that holds the name of the run's folder.
	Run string `json:"run"`
	// Outputs is the first element of paths in the run's folder. Dir is that folder, relative to the root folder of the
	// project; {run} stands for its name.
	Outputs string `json:"outputs"`
	Dir     string `json:"dir"`
	// Shared are the first elements of paths that are relative to the root folder of the project. All other paths are
	// in the workflow's folder.
	Shared []string `json:"shared"`
	// Placeholders stand for parts of paths.
	Placeholders []Placeholder `json:"placeholders"`
}

// Placeholder is a name that stands in braces for a part of a path.
type Placeholder struct {
	Name    string `json:"name"`
	Read    string `json:"read"`    // the variable with its value
	Default string `json:"default"` // its value if the variable has none; {run} is the name of the run's folder
}

// forRun replaces the name of the run's folder.
func forRun(text, run string) string { return strings.ReplaceAll(text, "{run}", run) }

// differs reports whether a path is another one in each run.
func (l *Layout) differs(name string) bool {
	for _, p := range l.Placeholders {
		if strings.Contains(p.Default, "{run}") && strings.Contains(name, "{"+p.Name+"}") {
			return true
		}
	}
	return false
}

// where holds the settings of a task that determine its place.
type where struct {
	workflow, folder string
	layout           Layout
}

func whereOf(t *ir.Task) where {
	w := where{workflow: setting(t, "workflow"), folder: setting(t, "folder")}
	if raw := t.Settings.Get("layout"); raw == nil || json.Unmarshal(raw, &w.layout) != nil {
		w.layout = storedLayout(w.workflow, setting(t, "runs"))
	}
	return w
}

// setting returns a setting of a task that is a text; empty if it is missing.
func setting(t *ir.Task, name string) string {
	var text string
	_ = json.Unmarshal(t.Settings.Get(name), &text) // anything else is empty
	return text
}
