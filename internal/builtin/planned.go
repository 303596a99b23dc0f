package builtin

import (
	"path"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/source"
)

// How the formats that cannot be read yet are recognised. Each function moves
// to its format's own folder when that is built.

func isAgentfile(f *source.File) format.Match {
	if !isYAML(f.Path) {
		return format.No
	}
	keys := yamlKeys(f.Text)
	hasVersion, hasSteps := slices.Contains(keys, "specVersion"), slices.Contains(keys, "steps")
	switch base := path.Base(f.Path); {
	case base == "workflow.yaml" && (hasVersion || hasSteps):
		return format.Certain
	case hasVersion && hasSteps:
		return format.Possible
	}
	return format.No
}

func isYAML(name string) bool {
	ext := strings.ToLower(path.Ext(name))
	return ext == ".yaml" || ext == ".yml"
}

// yamlKeys lists the keys that begin lines at the outermost level and, as
// "outer.inner", at the first level below it. Looking at lines is enough to
// tell formats apart, also when the YAML is broken.
func yamlKeys(text string) []string {
	var keys []string
	outer, indent := "", 0
	for line := range strings.Lines(text) {
		trimmed := strings.TrimLeft(line, " ")
		key, _, ok := strings.Cut(trimmed, ":")
		if !ok || key == "" || strings.ContainsAny(key[:1], "#-\t\r\n") {
			continue
		}
		key = strings.Trim(strings.TrimSpace(key), `"'`)
		switch depth := len(line) - len(trimmed); {
		case depth == 0:
			outer, indent = key, 0
			keys = append(keys, key)
		case indent == 0 || depth == indent:
			indent = depth
			keys = append(keys, outer+"."+key)
		}
	}
	return keys
}
