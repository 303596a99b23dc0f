package artifact

import (
	"encoding/json"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

// forRun replaces the name of the run's folder.
func forRun(text, run string) string { return strings.ReplaceAll(text, "{run}", run) }

// where holds the settings of a task that determine its place.
type where struct {
	workflow, folder string
	layout           kinds.ArtifactLayout
}

// differs reports whether a path is another one in each run.
func (w *where) differs(name string) bool {
	for _, p := range w.layout.Placeholders {
		if strings.Contains(p.Default, "{run}") && strings.Contains(name, "{"+p.Name+"}") {
			return true
		}
	}
	return false
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
