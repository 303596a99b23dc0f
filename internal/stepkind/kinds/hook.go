package kinds

import (
	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// HookSettings are the settings of a task of kind "hook".
type HookSettings struct {
	Hooks []HookSetting `json:"hooks"`
	// Strict makes a hook that fails fail the step; otherwise it is only logged.
	Strict bool `json:"strict,omitempty"`
	// Again ends the step as the step before it ended.
	Again bool `json:"again,omitempty"`
	// Files must exist.
	Files []string `json:"files,omitempty"`
	// Failure is the error that the hooks see if the step before did not fail
	// but the run is about to end as failed.
	Failure *HookFailure `json:"failure,omitempty"`
	// State is the state that the hooks belong to and see as the current one.
	// Empty is the state that failed, if one did.
	State string `json:"state,omitempty"`

	Export []string `json:"export,omitempty"`
	// UntrustedRoots is that of CommandSettings.
	UntrustedRoots []string `json:"doubts,omitempty"`
}

// HookFailure describes a run that a state ends as failed.
type HookFailure struct {
	State   string `json:"state"`
	Message string `json:"message"` // a template
}

// HookSetting is one hook: a line to log, or a command.
type HookSetting struct {
	Log     string    `json:"log,omitempty"`
	Command string    `json:"command,omitempty"`
	Timeout ir.Millis `json:"timeout,omitempty"`
}

// Hook is the step kind "hook".
type Hook struct{ stepkind.Base[HookSettings] }

// Name returns "hook".
func (Hook) Name() string { return "hook" }

// Uses returns the hooks that are commands.
func (Hook) Uses(t *ir.Task) stepkind.Uses {
	var u stepkind.Uses
	for _, h := range stepkind.Lenient[HookSettings](t).Hooks {
		if h.Command != "" {
			u.Commands = append(u.Commands, stepkind.CommandUse{Text: h.Command})
		}
	}
	return u
}

// Bound returns the time that commands may take.
func (Hook) Bound(_ *ir.Program, s *ir.Step, _ *ir.Task, _ *contract.Contract) stepkind.Bound {
	return commandBound(s, unlimited)
}
