package catalog

import (
	"sync"

	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/format/agentfile"
	"github.com/espalier-run/espalier/internal/format/agentflow"
	"github.com/espalier-run/espalier/internal/format/aiflow"
	"github.com/espalier-run/espalier/internal/format/awf"
	"github.com/espalier-run/espalier/internal/format/nof"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
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
func Kinds() stepkind.Set { return all() }

var all = sync.OnceValue(func() stepkind.Set {
	return stepkind.NewSet(
		kinds.Agent{},
		kinds.Artifact{},
		kinds.Handover{},
		kinds.Shell{},
		kinds.Combine{},
		kinds.Command{},
		kinds.Hook{},
		kinds.Conversation{},
		kinds.Operation{},
		kinds.Collect{},
		kinds.Node{},
		kinds.Prompt{},
		kinds.Script{},
		kinds.Tool{},
		kinds.Transform{},
		kinds.Worker{},
	)
})
