package step

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
)

// Decode fills a kind's own struct with the settings of a task, strictly.
// What does not fit is left out, and all of it is named in the error.
func Decode[T any](t *ir.Task) (T, error) {
	var into T
	if t.Settings.Decode(&into) == nil {
		return into, nil
	}
	var problems []error
	var good ir.Settings
	for _, one := range t.Settings {
		var alone T
		if err := (ir.Settings{one}).Decode(&alone); err != nil {
			problems = append(problems, fmt.Errorf("setting %q: %w", one.Name, err))
			continue
		}
		good = append(good, one)
	}
	into = *new(T)
	if err := good.Decode(&into); err != nil {
		problems = append(problems, err)
	}
	return into, errors.Join(problems...)
}

// Lenient is Decode for those who make the best of what there is.
func Lenient[T any](t *ir.Task) T {
	into, _ := Decode[T](t)
	return into
}

// OneOf is an error unless the value of a setting is one of those allowed.
func OneOf(setting, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("setting %q is %q, not one of %q", setting, value, allowed)
}

// At is where a setting stands; where the step stands when it was not written.
func At(s *ir.Step, t *ir.Task, setting string) source.Span {
	if at := t.Settings.At(setting); !at.IsZero() {
		return at
	}
	return s.Span
}

// Named is the name that a setting holds, if it does, as Uses lists it.
func Named(t *ir.Task, setting string) []ir.Name {
	if name, ok := nameOf(t, setting); ok {
		return []ir.Name{name}
	}
	return nil
}

// nameOf is a setting that holds a name, with its place; false when it is
// absent, empty or not text.
func nameOf(t *ir.Task, setting string) (ir.Name, bool) {
	var name string
	raw := t.Settings.Get(setting)
	if last := len(raw) - 1; last > 1 && raw[0] == '"' && raw[last] == '"' && bytes.IndexByte(raw, '\\') < 0 {
		name = string(raw[1:last]) // as nearly all are; this is asked often
	} else if raw == nil || json.Unmarshal(raw, &name) != nil || name == "" {
		return ir.Name{}, false
	}
	return ir.Name{Name: name, Span: t.Settings.At(setting)}, true
}
