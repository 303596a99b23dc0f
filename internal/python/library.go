package python

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/espalier-run/espalier/internal/xslices"
)

// libraryText lists the modules of the built-in interpreter, one per line, and the names in those that code often uses.
// "go run ./internal/cpython/build" writes it.
//
//go:embed library.txt
var libraryText string

// library returns the names in modules and types. The list of a module is empty if its names are not known.
var library = sync.OnceValue(func() map[string][]string {
	out := map[string][]string{
		"agents": {"shared"}, "agents.shared": {"agent_sdk", "agent_base"},
		base:                    {"AgentInput", "AgentOutput"},
		sdk:                     {"AgentRunner", "Pipeline", "PipelineResult", "StepResult"},
		sdk + ":AgentRunner":    {"run"},
		sdk + ":StepResult":     {"agent_name", "success", "output", "duration_ms", "error"},
		sdk + ":Pipeline()":     {"name", "add", "run", "describe"},
		base + ":AgentInput()":  {"workload", "options", "context"},
		base + ":AgentOutput()": OutputKeyNames(),
		sdk + ":PipelineResult": {
			"name", "total_steps", "succeeded", "failed", "total_duration_ms", "steps",
			"aggregated_recommendations", "aggregated_rules",
		},
	}
	for line := range strings.Lines(libraryText) {
		name, names, _ := strings.Cut(strings.TrimSpace(line), ":")
		out[strings.TrimPrefix(name, "class ")] = strings.Fields(names)
	}
	return out
})

// isModule reports whether a module exists.
func isModule(name string) bool {
	_, ok := library()[name]
	return ok && !isClass(name) && !strings.Contains(name, ":")
}

// isClass reports whether a name is that of a class in the library, such as datetime.date.
func isClass(name string) bool { return strings.Contains(libraryText, "\nclass "+name+":") }

// exporters returns the modules that define a name, in the order of how common they are.
func exporters(name string) []string {
	return xslices.Filter([]string{
		sdk, base, "typing", "dataclasses", "collections", "datetime", "functools", "enum",
		"itertools", "pathlib", "decimal", "re", "json", "math",
	}, func(module string) bool { return slices.Contains(library()[module], name) })
}
