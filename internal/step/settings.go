package step

import (
	"encoding/json"
	"fmt"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
)

// Decode fills a kind's own struct with the settings of a task, strictly. It
// reports each setting that does not fit, at its place in the file.
func Decode[T any](s *ir.Step, t *ir.Task) (T, diag.List) {
	var into T
	if t.Settings.Decode(&into) == nil {
		return into, nil
	}
	var list diag.List
	var good ir.Settings
	for _, one := range t.Settings {
		var alone T
		if err := (ir.Settings{one}).Decode(&alone); err != nil {
			list.Add(Misfit(s, t, one.Name, reason(err)))
			continue
		}
		good = append(good, one)
	}
	into = *new(T)
	if good.Decode(&into) != nil {
		into = *new(T)
	}
	return into, list
}

// Misfit is the diagnostic for a setting that its kind cannot use.
func Misfit(s *ir.Step, t *ir.Task, setting, why string) diag.Diagnostic {
	return diag.Diagnostic{
		Code: CodeSettings, Severity: diag.Error, Span: At(s, t, setting),
		Message: fmt.Sprintf("The setting %q of step %q cannot be used: %s.", setting, s.ID, why),
		Help:    "Write it in the form that the format's documentation shows, or leave it out.",
	}
}

// At is where a setting stands; where the step stands when it was not written.
func At(s *ir.Step, t *ir.Task, setting string) source.Span {
	if at := t.Settings.At(setting); !at.IsZero() {
		return at
	}
	return s.Span
}

func reason(err error) string {
	if bad, ok := err.(*json.UnmarshalTypeError); ok {
		return fmt.Sprintf("it wants %s, not %s", plain(bad.Type.Kind().String()), article(bad.Value))
	}
	return "there is no such setting for this kind of work"
}

// plain says a Go type in the words that people use of YAML and JSON.
func plain(kind string) string {
	switch kind {
	case "slice", "array":
		return "a list"
	case "map", "struct":
		return "an object"
	case "string":
		return "text"
	case "bool":
		return "true or false"
	default:
		return "a number"
	}
}

func article(value string) string {
	switch value {
	case "array":
		return "a list"
	case "object":
		return "an object"
	case "string":
		return "text"
	case "bool":
		return "true or false"
	default:
		return "a number"
	}
}

func text(raw json.RawMessage) (string, bool) {
	var s string
	if raw == nil || json.Unmarshal(raw, &s) != nil || s == "" {
		return "", false
	}
	return s, true
}

// NameOf is a setting that holds a name, with its place; false when it is
// absent or not text.
func NameOf(t *ir.Task, setting string) (ir.Name, bool) {
	name, ok := text(t.Settings.Get(setting))
	return ir.Name{Name: name, Span: t.Settings.At(setting)}, ok
}
