package config

import (
	"errors"
	"strconv"
	"strings"
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

// Retention is when finished runs are removed. Zero fields remove none.
type Retention struct {
	OlderThan time.Duration // since the end of the run
	Keep      int64         // the newest runs that stay, however old
}

func (r *Retention) read(f *fields) {
	r.OlderThan = f.age("older_than", "How long finished runs are kept: 30d, 2w or 12h. If not set, they are kept forever.")
	r.Keep = f.number("keep", "How many of the newest finished runs are kept, however old they are.", 0, 1_000_000_000)
}

// ParseAge parses a number of days or weeks, such as 30d or 2w, or a duration.
func ParseAge(text string) (time.Duration, error) {
	const day = 24 * time.Hour
	for unit, length := range map[string]time.Duration{"d": day, "w": 7 * day} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			n, err := strconv.ParseUint(number, 10, 16)
			return time.Duration(n) * length, err
		}
	}
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = errors.New("it is negative")
	}
	return d, err
}
