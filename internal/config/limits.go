package config

import (
	"time"

	"github.com/espalier-run/espalier/internal/text"
)

// Defaults is what holds for agents that do not say otherwise. Zero is what
// Espalier itself takes.
type Defaults struct {
	MaxTokens    int64         // of one reply
	ModelTimeout time.Duration // of one attempt at it
}

func (d *Defaults) read(f *fields) {
	d.MaxTokens = f.number("max_tokens", "The most that one reply of a model may have.", 1, 10_000_000)
	d.ModelTimeout = f.duration("model_timeout", "How long a model may take for one reply.")
}

// Allow is what runs may do on this machine.
type Allow struct {
	Hosts []text.Text
	Paths []text.Text
	// Writes are folders that commands in a sandbox may change.
	Writes []text.Text
	Shell  bool
}

func (a *Allow) read(f *fields) {
	a.Hosts = f.texts("hosts", "What tools may reach besides the open internet: localhost:8080, 10.1.0.0/16, *.corp.example.")
	a.Paths = f.texts("paths", "Folders outside the project that tools may read; one that is not absolute is seen from the project.")
	a.Writes = f.texts("writes", "Folders that commands in the sandbox may change, besides the run's own; one that is not absolute is seen from the project.")
	a.Shell = f.flag("shell", "true: scripts of workflows may run without --allow-shell.")
}
