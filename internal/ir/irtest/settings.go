package irtest

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/espalier-run/espalier/internal/ir"
)

// rule returns what is wrong with the settings of a task; "" if nothing is.
type rule func(settings map[string]json.RawMessage) string

// rules are what the settings of each kind must contain, besides values of the right types: without it there is no work
// to do.
var rules = map[string][]rule{
	"agent":        {one("agent"), natural("max_turns")},
	"artifact":     {one("agent")},
	"combine":      {among("strategy", strategies...), among("conflict", append(conflicts, "")...)},
	"command":      {one("command", "script", "script_file")},
	"conversation": {one("agent"), among("format", "", "json", "text")},
	"handover":     {one("output")},
	"node":         {one("code")},
	"operation":    {one("operation"), object("inputs")},
	"prompt":       {one("agent", "tool"), among("format", "", "json", "text", "markdown")},
	"script":       {one("language"), one("script")},
	"shell":        {one("scripts")},
	"tool":         {one("tool")},
	"transform":    {among("mode", "validate", "model", "text", "present", "hand_over")},
	"worker":       {one("agent")},
}

var (
	strategies = []string{"combine_by_type", "union", "vote", "send_to_critic"}
	conflicts  = []string{"first_wins", "last_wins", "send_to_critic", "fail"}
)

// one requires exactly one of several settings.
func one(names ...string) rule {
	return func(settings map[string]json.RawMessage) string {
		found := 0
		for _, name := range names {
			switch string(settings[name]) {
			case "", `""`, "null", "[]", "{}":
			default:
				found++
			}
		}
		if found == 1 {
			return ""
		}
		return fmt.Sprintf("%d of the settings %q have a value, not one", found, names)
	}
}

// among requires one of several strings; "" also allows a missing setting.
func among(name string, allowed ...string) rule {
	return func(settings map[string]json.RawMessage) string {
		var value string
		if raw := settings[name]; raw != nil && json.Unmarshal(raw, &value) != nil || !slices.Contains(allowed, value) {
			return fmt.Sprintf("setting %q is %s, not one of %q", name, raw, allowed)
		}
		return ""
	}
}

// natural requires a number that is not negative, or none.
func natural(name string) rule {
	return func(settings map[string]json.RawMessage) string {
		var n uint
		if raw := settings[name]; raw != nil && json.Unmarshal(raw, &n) != nil {
			return fmt.Sprintf("setting %q is %s", name, raw)
		}
		return ""
	}
}

// object requires an object, or nothing.
func object(name string) rule {
	return func(settings map[string]json.RawMessage) string {
		var o map[string]any
		if raw := settings[name]; raw != nil && json.Unmarshal(raw, &o) != nil {
			return fmt.Sprintf("setting %q is not an object", name)
		}
		return ""
	}
}

// Described returns an error if the settings of a task describe no work.
func Described(t *ir.Task) error {
	settings := map[string]json.RawMessage{}
	for _, s := range t.Settings {
		settings[s.Name] = s.Value
	}
	for _, wrong := range rules[t.Kind] {
		if problem := wrong(settings); problem != "" {
			return fmt.Errorf("%s: %s", t.Kind, problem)
		}
	}
	return nil
}
