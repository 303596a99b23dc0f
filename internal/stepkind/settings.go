package stepkind

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
)

// Decode returns the settings of a task as a struct. The error names every
// setting that does not fit; the struct leaves those out.
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

// Lenient returns Decode without the error.
func Lenient[T any](t *ir.Task) T {
	into, _ := Decode[T](t)
	return into
}

// At returns the place of a setting, or that of the step if the file does not have
// the setting.
func At(s *ir.Step, t *ir.Task, setting string) source.Span {
	if at := t.Settings.At(setting); !at.IsZero() {
		return at
	}
	return s.Span
}

// Named returns the name that a setting holds, if any, for Uses.
func Named(t *ir.Task, setting string) []ir.Name {
	if name, ok := nameOf(t, setting); ok {
		return []ir.Name{name}
	}
	return nil
}

// nameOf returns the name that a setting holds and its place; false if the
// setting is absent, empty or not a string.
func nameOf(t *ir.Task, setting string) (ir.Name, bool) {
	var name string
	raw := t.Settings.Get(setting)
	if last := len(raw) - 1; last > 1 && raw[0] == '"' && raw[last] == '"' && bytes.IndexByte(raw, '\\') < 0 {
		name = string(raw[1:last]) // the common case, without decoding
	} else if raw == nil || json.Unmarshal(raw, &name) != nil || name == "" {
		return ir.Name{}, false
	}
	return ir.Name{Name: name, Span: t.Settings.At(setting)}, true
}
