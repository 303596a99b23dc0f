package awf

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xslices"
)

// inputs compiles the inputs to a JSON Schema. Values of the project's AWF configuration take the place of defaults.
func (l *lowering) inputs() {
	configured := l.configured()
	properties := map[string]any{}
	var required, files []string
	places := map[string]source.Span{}
	for _, in := range l.doc.inputs {
		name := in.name.Value
		one := map[string]any{}
		kind := in.kind.Value
		if kind != "" {
			one["type"] = kind
		}
		if in.description.Value != "" {
			one["description"] = in.description.Value
		}
		def := in.def
		if v := configured.Get(name); v != nil {
			def = v
		}
		if def != nil {
			value, ok := asInput(def, kind)
			if !ok {
				l.out.Errorf(CodeBadValue, def.Span, fmt.Sprintf("Use %s, or change the type.", article(kind)),
					"The default of input %q is not %s.", name, article(kind))
			} else {
				one["default"] = value
				places["/properties/"+name+"/default"] = def.Span
			}
		}
		if values := l.allowed(in); len(values) > 0 {
			one["enum"] = values
		}
		l.bounds(in, one)
		if in.fileExists {
			files = append(files, name)
		}
		properties[name] = one
		places["/properties/"+name] = in.name.Span
		if in.required && def == nil {
			required = append(required, name)
		}
	}
	schema := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		schema["required"] = required
	}
	l.p.Input = &ir.Contract{
		Schema: format.JSON(schema), Places: places, Files: files, Span: cmp.Or(l.doc.inputsAt, l.doc.first),
	}
}

// allowed returns the values that an input may have, if it lists them.
func (l *lowering) allowed(in *input) []any {
	var out []any
	for _, n := range in.enum {
		v, ok := asInput(n, in.kind.Value)
		if !ok {
			kind := article(in.kind.Value)
			l.out.Warnf(CodeBadValue, n.Span, fmt.Sprintf("Use %s, or change the type.", kind),
				"Input %q can never have this value: it is not %s.", in.name.Value, kind)
			v = string(n.JSON()) // matches no input of this type
		}
		out = append(out, v)
	}
	return out
}

// bounds adds the rules of an input to its schema. Patterns use Go's syntax for regular expressions.
func (l *lowering) bounds(in *input, one map[string]any) {
	var patterns []string
	if in.pattern.Value != "" {
		if _, err := regexp.Compile(in.pattern.Value); err != nil {
			l.out.Errorf(CodeBadValue, in.pattern.Span, "Use Go's regular expression syntax.",
				"%q is not a valid regular expression.", in.pattern.Value)
		} else {
			patterns = append(patterns, in.pattern.Value)
		}
	}
	if len(in.extensions) > 0 {
		ends := xslices.Map(in.extensions, func(e text.Text) string { return regexp.QuoteMeta(e.Value) })
		patterns = append(patterns, "("+strings.Join(ends, "|")+")$")
	}
	switch len(patterns) {
	case 1:
		one["pattern"] = patterns[0]
	case 2:
		one["allOf"] = []any{map[string]any{"pattern": patterns[0]}, map[string]any{"pattern": patterns[1]}}
	}
	if in.min != nil {
		one["minimum"] = *in.min
	}
	if in.max != nil {
		one["maximum"] = *in.max
	}
}

// article returns a type of inputs with its article, for messages.
func article(kind string) string {
	switch kind {
	case "integer":
		return "an integer"
	case "boolean":
		return "true or false"
	}
	return "a string"
}

// asInput converts a value of the file to an input of the given type.
func asInput(n *text.Node, kind string) (any, bool) {
	switch kind {
	case "integer":
		v, err := strconv.ParseInt(n.Value, 10, 64)
		return v, err == nil
	case "boolean":
		return text.ParseBool(n.Value)
	}
	if n.Kind >= text.List {
		return string(n.JSON()), true
	}
	return n.Value, true
}

// inputTypes returns the types of a program's inputs by name.
func inputTypes(p *ir.Program) map[string]string {
	out := map[string]string{}
	if p.Input == nil {
		return out
	}
	var schema struct {
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
	}
	if json.Unmarshal(p.Input.Schema, &schema) == nil {
		for name, one := range schema.Properties {
			kind, _ := one.Type.(string)
			out[name] = kind
		}
	}
	return out
}

// configured returns the inputs that the project's AWF configuration sets.
func (l *lowering) configured() *text.Node {
	for _, ref := range []string{"../config.yaml", ".awf/config.yaml"} {
		f, err := l.files.Read(l.file, ref)
		if err != nil || !strings.HasSuffix(filepath.ToSlash(f.Path), ".awf/config.yaml") {
			continue
		}
		node, list := text.ParseYAML(f, 0, len(f.Text))
		if node == nil || list.Errors() {
			l.add(list)
			return nil
		}
		l.p.AddFile(f, "config")
		return node.Get("inputs")
	}
	return nil
}

// exports returns the inputs that commands receive as environment variables.
func (l *lowering) exports() []string {
	out := xslices.Map(l.doc.inputs, func(in *input) string { return in.name.Value })
	slices.Sort(out)
	return out
}

// known returns the value of {{.awf.NAME}}, which depends on where the file is, and false for other names.
func (l *lowering) known(name string) (json.RawMessage, bool) {
	base := filepath.Dir(l.folder())
	dir, ok := map[string]string{
		"scripts_dir": filepath.Join(base, "scripts"), "prompts_dir": filepath.Join(base, "prompts"),
		"templates_dir": filepath.Join(base, "templates"), "workflows_dir": l.folder(), "config_dir": base,
	}[name]
	return format.JSON(dir), ok
}
