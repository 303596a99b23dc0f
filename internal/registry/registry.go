package registry

import (
	"encoding/json"
	"sync"

	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/format/agentfile"
	"github.com/espalier-run/espalier/internal/format/agentflow"
	"github.com/espalier-run/espalier/internal/format/aiflow"
	"github.com/espalier-run/espalier/internal/format/awf"
	"github.com/espalier-run/espalier/internal/format/nof"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step/agent"
	"github.com/espalier-run/espalier/internal/step/artifact"
	"github.com/espalier-run/espalier/internal/step/combine"
	"github.com/espalier-run/espalier/internal/step/command"
	"github.com/espalier-run/espalier/internal/step/conversation"
	"github.com/espalier-run/espalier/internal/step/node"
	"github.com/espalier-run/espalier/internal/step/operation"
	"github.com/espalier-run/espalier/internal/step/prompt"
	"github.com/espalier-run/espalier/internal/step/script"
	"github.com/espalier-run/espalier/internal/step/tool"
	"github.com/espalier-run/espalier/internal/step/transform"
	"github.com/espalier-run/espalier/internal/step/worker"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// Formats returns all file formats.
func Formats() format.Set { return FormatsFor(ReadOptions{}) }

// AgentInput is the input of Agentfile workflows whose trigger declares no other name.
const AgentInput = agentfile.DefaultVariable

// ReadOptions select how ambiguous files are read.
type ReadOptions struct {
	// Execution reads the Execution block of a NOF file instead of its graph.
	Execution bool
	// HonorRules applies the routing rules of a NOF file in every mode.
	HonorRules bool
	// Run reports everything that prevents a run as an error.
	Run bool
	// Python runs the Python code of workflows in a real python3: one of the
	// constants below, or empty for the built-in interpreter.
	Python string
	// Compat imitates the program that a format comes from: "sdk" for NOF,
	// "reference" for AIFLOW.
	Compat string
	// CLILayout puts the files of Agentfile runs where the agentfile CLI does.
	CLILayout bool
	// Env are variables of the environment that Agentfile workflows may read.
	Env []string
}

// How a real python3 runs: in a sandbox, or with all permissions of the user.
const (
	PythonConfined   = "confined"
	PythonUnconfined = "unconfined"
)

// FormatsFor returns all file formats, which read files in the selected way.
func FormatsFor(r ReadOptions) format.Set {
	return format.Set{
		agentflow.Format{},
		awf.Format{},
		nof.Format{
			Execution: r.Execution, HonorRules: r.HonorRules, Run: r.Run, Python: r.Python != "",
			Unconfined: r.Python == PythonUnconfined, SDK: r.Compat == "sdk",
		},
		agentfile.Format{CLILayout: r.CLILayout, Env: r.Env},
		aiflow.Format{Reference: r.Compat == "reference"},
	}
}

// Kinds returns every kind of leaf work. The set is shared: callers must not change it.
func Kinds() stepkind.Set { return kinds() }

var kinds = sync.OnceValue(func() stepkind.Set {
	return stepkind.NewSet(
		agent.Kind{},
		artifact.Kind{},
		artifact.Collect{},
		artifact.Shell{},
		combine.Kind{},
		command.Kind{},
		command.Hook{},
		conversation.Kind{},
		operation.Kind{},
		node.Collect{},
		node.Kind{},
		prompt.Kind{},
		script.Kind{},
		tool.Kind{},
		transform.Kind{},
		worker.Kind{},
	)
})

// ArtifactFile returns the file that holds the value of a variable; nil if there is none. See [artifact.FileOf].
func ArtifactFile(
	p *ir.Program, root, variable string, was json.RawMessage, read func(path string) string,
) (*artifact.File, error) {
	return artifact.FileOf(p, root, variable, was, read)
}

// ArtifactDir returns the folder of a run's files below the root, if its format has one. See [artifact.RunDir].
func ArtifactDir(p *ir.Program, root string, read func(path string) string) (string, error) {
	return artifact.RunDir(p, root, read)
}
