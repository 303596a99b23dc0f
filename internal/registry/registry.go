package registry

import (
	"encoding/json"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step"
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
)

// Runners returns the runners of all kinds of leaf work, by the names of the kinds.
func Runners() map[string]step.Runner {
	out := map[string]step.Runner{}
	for _, r := range []step.Runner{
		agent.Runner{},
		artifact.Runner{},
		artifact.HandoverRunner{},
		artifact.ShellRunner{},
		combine.Runner{},
		command.Runner{},
		command.HookRunner{},
		conversation.Runner{},
		operation.Runner{},
		node.CollectRunner{},
		node.Runner{},
		prompt.Runner{},
		script.Runner{},
		tool.Runner{},
		transform.Runner{},
		worker.Runner{},
	} {
		out[r.Name()] = r
	}
	return out
}

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
