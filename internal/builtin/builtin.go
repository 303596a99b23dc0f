package builtin

import (
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/format/agentflow"
	"github.com/espalier-run/espalier/internal/format/aiflow"
	"github.com/espalier-run/espalier/internal/format/awf"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/agent"
	"github.com/espalier-run/espalier/internal/step/combine"
	"github.com/espalier-run/espalier/internal/step/command"
	"github.com/espalier-run/espalier/internal/step/conversation"
	"github.com/espalier-run/espalier/internal/step/operation"
	"github.com/espalier-run/espalier/internal/step/prompt"
	"github.com/espalier-run/espalier/internal/step/script"
	"github.com/espalier-run/espalier/internal/step/tool"
	"github.com/espalier-run/espalier/internal/step/transform"
)

// Formats returns every file format that is recognised.
func Formats() format.Set {
	return format.Set{
		agentflow.Format{},
		awf.Format{},
		format.Planned("nof", "NOF", isNOF),
		format.Planned("agentfile", "Agentfile", isAgentfile),
		aiflow.Format{},
	}
}

// Kinds returns every kind of leaf work.
func Kinds() step.Set {
	return step.NewSet(
		agent.Kind{},
		combine.Kind{},
		command.Kind{},
		command.Hook{},
		conversation.Kind{},
		operation.Kind{},
		prompt.Kind{},
		script.Kind{},
		tool.Kind{},
		transform.Kind{},
	)
}
