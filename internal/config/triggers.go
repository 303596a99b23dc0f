package config

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/schedule"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Trigger configures the triggers of one workflow.
type Trigger struct {
	Schedule text.Text // adds a schedule to the workflow, for formats whose files have none
	Timezone text.Text // an IANA name; empty means UTC
	Overlap  schedule.Overlap
	CatchUp  time.Duration
	Jitter   time.Duration
	Simulate bool
	Input    json.RawMessage // a JSON object
	Map      []Mapping
}

// Mapping computes one input of a run from the event that starts it.
type Mapping struct {
	Input string
	Value *expr.Expr
}

func readTriggers(f *fields) []Named[Trigger] {
	return entries(f, "triggers", "trigger",
		"How the triggers of workflows start runs, by the name of the workflow.",
		func(name text.Text, f *fields) Trigger {
			t := Trigger{
				Schedule: f.text("schedule",
					"A cron expression, which adds a schedule to the workflow: \"0 6 * * 1-5\"."),
				Timezone: f.text("timezone", "The time zone of the schedule: Europe/Berlin. The default is UTC."),
				Overlap: schedule.Overlap(f.choice("overlap",
					"What a schedule does while its previous run is active; a run that waits for "+
						"a person is active. The default is skip.",
					xslices.Map(schedule.Overlaps, func(o schedule.Overlap) string { return string(o) })...)),
				CatchUp: f.duration("catch_up",
					"How late a scheduled run may start after the server was down; 1h if not set."),
				Jitter:   f.duration("jitter", "Delays each scheduled run by a random time below this."),
				Simulate: f.flag("simulate", "true: simulate the replies of models and tools."),
				Input:    f.json("input", "Input of the runs."),
				Map: f.mappings("map",
					"Expressions that compute inputs from an event: {repo: event.data.repository.name}."),
			}
			if name.Value != "" {
				f.checkSchedule(t)
			}
			return t
		})
}

// checkSchedule reports a schedule that cannot be read or never fires.
func (f *fields) checkSchedule(t Trigger) {
	zone, err := time.LoadLocation(t.Timezone.Value) // no name is UTC
	if err != nil || t.Timezone.Value == "Local" {
		f.out.Errorf(CodeBadValue, t.Timezone.Span,
			"Write a name of the IANA list, such as \"Europe/Berlin\" or \"UTC\".", "There is no time zone %q.",
			t.Timezone.Value)
		zone = time.UTC
	}
	if t.Schedule.Value == "" {
		if t.Timezone.Value != "" {
			f.out.Errorf(CodeMissing, t.Timezone.Span, "Add a line schedule: \"0 6 * * 1-5\", or remove the time zone.",
				"A time zone without a schedule has no effect.")
		}
		return
	}
	times, err := schedule.Parse(t.Schedule.Value, zone)
	switch {
	case err != nil:
		f.out.Errorf(CodeBadValue, t.Schedule.Span,
			"Write five fields (minute, hour, day of month, month, day of week), such as \"0 6 * * 1-5\". A sixth "+
				"field in front of them sets the seconds.", "The schedule %q cannot be read: %s.", t.Schedule.Value,
			strings.TrimSuffix(err.Error(), "."))
	case times.Next(time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)).IsZero():
		f.out.Errorf(CodeBadValue, t.Schedule.Span, "Choose a day that the month has.",
			"The schedule %q never fires: there is no such day.", t.Schedule.Value)
	}
}

// Webhook configures an address that starts runs.
type Webhook struct {
	Workflow  text.Text
	Verify    string
	Secret    text.Text
	Tolerance time.Duration
	Simulate  bool
	Map       []Mapping

	Unapproved bool // see PrivilegedSetting
}

// The methods of verifying requests to a webhook.
const (
	VerifyStandard = "standard-webhooks"
	VerifyGitHub   = "github"
	VerifyNothing  = "none"
)

func readWebhooks(f *fields) []Named[Webhook] {
	return entries(f, "webhooks", "webhook",
		"Addresses of the server that start runs: POST /hooks/NAME.",
		func(name text.Text, f *fields) Webhook {
			w := Webhook{
				Workflow: f.text("workflow", "Name or path of the workflow."),
				Verify: f.choice("verify", "How requests are signed; none accepts requests without a signature.",
					VerifyStandard, VerifyGitHub, VerifyNothing),
				Secret: f.text("secret", "The secret that requests are signed with: secret://NAME."),
				Tolerance: f.duration("tolerance",
					"How old a signed request may be, with standard-webhooks; 5m if not set."),
				Simulate: f.flag("simulate", "true: simulate the replies of models and tools."),
				Map: f.mappings("map",
					"Expressions that compute inputs from the request: {repo: event.data.repository.name}."),
			}
			f.require("workflow", "verify")
			if name.Value == "" {
				return w
			}
			f.checkKey(w.Secret, "secret: secret://NAME")
			if !secretName().MatchString(name.Value) {
				f.out.Errorf(CodeBadValue, name.Span, "Use letters, digits, dashes and underscores.",
					"Invalid webhook name %q.", name.Value)
			}
			if w.Secret.Value == "" && w.Verify != "" && w.Verify != VerifyNothing {
				f.out.Errorf(CodeMissing, name.Span, "Declare a secret, and add a line secret: secret://NAME.",
					"The webhook %q verifies signatures and has no secret.", name.Value)
			}
			return w
		})
}

// Webhook returns the entry of a webhook, or nil if there is none.
func (c *Config) Webhook(name string) *Webhook { return entry(c.Webhooks, name) }

// Trigger returns the configuration of a workflow's triggers, with defaults filled in.
func (c *Config) Trigger(workflow string) Trigger {
	var t Trigger
	if found := entry(c.Triggers, workflow); found != nil {
		t = *found
	}
	t.Overlap, t.CatchUp = cmp.Or(t.Overlap, schedule.Overlaps[0]), cmp.Or(t.CatchUp, time.Hour)
	return t
}

// json reads a map as raw JSON.
func (f *fields) json(key, doc string) json.RawMessage {
	f.note(key, doc, map[string]any{"type": "object"})
	n := f.r.Map(key)
	if n == nil {
		return nil
	}
	return n.JSON()
}

// mappings reads a map from inputs to expressions, in the dialect of Agent Flow, which may read event and nothing else.
func (f *fields) mappings(key, doc string) []Mapping {
	var out []Mapping
	for _, one := range f.named(key, doc) {
		value, problems := expr.ParseValue(expr.AgentFlow, one.Value.Value, one.Value.Span)
		for _, p := range problems {
			p.Code = CodeBadValue
			f.out.Add(p)
		}
		for _, path := range value.Paths() {
			if path.Segments[0] != "event" {
				f.out.Errorf(CodeBadValue, one.Value.Span,
					"Write event.data.NAME, event.type, event.source or event.id.", "%q is not known here.",
					strings.Join(path.Written, "."))
			}
		}
		if !slices.ContainsFunc(problems, func(d diag.Diagnostic) bool { return d.Severity == diag.Error }) {
			out = append(out, Mapping{Input: one.Name, Value: value})
		}
	}
	return out
}
