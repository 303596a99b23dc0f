package config

import (
	"time"

	"github.com/espalier-run/espalier/internal/text"
)

// Defaults is what holds for steps and agents that do not say otherwise. Zero
// is what Espalier itself takes.
type Defaults struct {
	MaxTokens    int64         // of one reply
	MaxTurns     int64         // of an agent with tools
	ModelTimeout time.Duration // of one call
	ToolTimeout  time.Duration
}

func (d *Defaults) read(f *fields) {
	d.MaxTokens = f.number("max_tokens", "The most that one reply of a model may have.", 1, 10_000_000)
	d.MaxTurns = f.number("max_turns", "How often an agent with tools may ask its model.", 1, 10_000)
	d.ModelTimeout = f.duration("model_timeout", "How long a model may take for one reply.")
	d.ToolTimeout = f.duration("tool_timeout", "How long a tool may take for one call.")
}

// Allow is what runs may do on this machine.
type Allow struct {
	Tools    []text.Text
	Commands []text.Text
	Hosts    []text.Text
	Paths    []text.Text
}

func (a *Allow) read(f *fields) {
	a.Tools = f.texts("tools", "Tools that may be used without asking, by name; a * stands for any text.")
	a.Commands = f.texts("commands", "Commands that tools may run.")
	a.Hosts = f.texts("hosts", "Hosts that tools may talk to.")
	a.Paths = f.texts("paths", "Folders outside the project that tools may read.")
}
