package config

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/text"
)

// Defaults are settings for agents that do not set their own. Zero selects Espalier's default.
type Defaults struct {
	MaxTokens    int64         // per reply
	ModelTimeout time.Duration // per attempt
	// MaxCost is the most that a run may cost whose workflow has no budget of money, in millionths of a dollar; nil
	// selects the built-in limit, and 0 is no limit.
	MaxCost *int64
}

func (d *Defaults) read(f *fields) {
	d.MaxTokens = f.number("max_tokens", "Maximum number of tokens in one reply.", 1, 10_000_000)
	d.ModelTimeout = f.duration("model_timeout", "Time limit for one reply of a model.")
	dollars := f.decimal("max_cost",
		"The most that a run may cost whose workflow has no cost budget, in US dollars; 0 is no limit.")
	if dollars.Value == "" {
		return
	}
	if rate, err := price.ParseRate(dollars.Value); err == nil { // both count millionths; decimal reports other text
		limit := int64(rate)
		d.MaxCost = &limit
	}
}

// Allow lists what runs may do on this machine.
type Allow struct {
	Hosts []text.Text
	Paths []text.Text
	// Writes are folders that sandboxed commands may change.
	Writes []text.Text
	Shell  bool
}

func (a *Allow) read(f *fields) {
	a.Hosts = f.texts("hosts",
		"Hosts that tools may reach in addition to public addresses: localhost:8080, 10.1.0.0/16, *.corp.example.")
	a.Paths = f.texts("paths", "Folders outside the project that tools may read; relative paths start at the project.")
	a.Writes = f.texts("writes", "Folders that sandboxed commands may change in addition to the run's own; relative "+
		"paths start at the project.")
	a.Shell = f.flag("shell", "true: scripts of workflows may run without --allow-shell.")
}

// Retention decides when finished runs are removed. Zero fields remove none.
type Retention struct {
	OlderThan time.Duration // since the end of the run
	Keep      int64         // the newest runs are kept regardless of age
}

func (r *Retention) read(f *fields) {
	r.OlderThan = f.age("older_than",
		"How long finished runs are kept: 30d, 2w or 12h. If not set, they are kept forever.")
	r.Keep = f.number("keep", "How many of the newest finished runs are kept, however old they are.", 0, 1_000_000_000)
	f.schema["dependentRequired"] = map[string]any{"keep": []string{"older_than"}}
	if f.lacks("older_than") && !f.lacks("keep") {
		f.out.Errorf(CodeMissing, f.r.KeySpan("keep"), "Add older_than: 30d or another age.",
			"Retention without \"older_than\" removes no runs.")
	}
}

// ParseAge parses a number of days or weeks, such as 30d or 2w, or a Go duration.
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
