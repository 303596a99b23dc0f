package command

import (
	"cmp"
	"errors"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step"
)

// Settings is what a task of the kind "command" says: one of Command, Script
// and ScriptFile. All texts are templates.
type Settings struct {
	Command    string   `json:"command,omitempty"`
	Script     string   `json:"script,omitempty"`      // what a script file holds
	ScriptFile string   `json:"script_file,omitempty"` // read when the step runs
	Folder     string   `json:"folder,omitempty"`      // that the path of a script file begins in
	Dir        string   `json:"dir,omitempty"`         // to run in
	Shell      string   `json:"shell,omitempty"`       // empty: the user's
	Timeout    string   `json:"timeout,omitempty"`     // seconds, or a duration
	Export     []string `json:"export,omitempty"`      // inputs that it sees as environment variables
	// Doubts are "loop" and "inputs", when what these hold came from steps: then
	// it is never a part of the command's code, as what steps gave is not.
	Doubts []string `json:"doubts,omitempty"`
}

// Kind is the step kind "command".
type Kind struct{}

var _ step.Kind = Kind{}

// Name is "command".
func (Kind) Name() string { return "command" }

// Understands wants something to run.
func (Kind) Understands(t *ir.Task) error {
	set, err := step.Decode[Settings](t)
	if set.Command == "" && set.Script == "" && set.ScriptFile == "" {
		err = errors.Join(err, errors.New("there is nothing to run"))
	}
	return err
}

// Check has nothing to say: a shell takes any text.
func (Kind) Check(*ir.Program, *ir.Step, *ir.Task) diag.List { return nil }

// Uses is the command.
func (Kind) Uses(t *ir.Task) step.Uses {
	set := step.Lenient[Settings](t)
	text := cmp.Or(set.Command, set.Script)
	if set.ScriptFile != "" {
		text = "script " + set.ScriptFile
	}
	return step.Uses{Commands: []step.CommandUse{{Text: text}}}
}

// Bound is the time a command may take. It calls no models and no tools.
func (Kind) Bound(_ *ir.Program, s *ir.Step, _ *ir.Task, _ *contract.Contract) step.Bound {
	return bound(s)
}

func bound(s *ir.Step) step.Bound {
	worst := step.Amount{Unbounded: "a command has no time limit of its own"}
	if s.Timeout > 0 {
		worst = step.N(int64((s.Timeout + 999) / 1000))
	}
	base := step.N(step.UsualScriptSeconds)
	if worst.Unbounded == "" && worst.N < base.N {
		base = worst
	}
	return step.Bound{Base: step.Cost{Seconds: base}, Worst: step.Cost{Seconds: worst}}
}
