package kinds

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/shell"
)

// Argument is the text of an argument of a tool, split at each {{path}}.
type Argument []ArgumentPart

// ArgumentPart is a piece of an argument: what the author wrote, or the value of a path.
type ArgumentPart struct {
	Text  string
	Path  string
	Value json.RawMessage // nil if it is not known yet
}

// ParseArgument splits a text at each {{path}} and looks up the values.
func ParseArgument(text string, lookup func(path string) (json.RawMessage, error)) (Argument, error) {
	var out Argument
	for {
		before, inner, opened := strings.Cut(text, "{{")
		path, after, closed := strings.Cut(inner, "}}")
		if !opened || !closed {
			return append(out, ArgumentPart{Text: text}), nil
		}
		path = strings.TrimSpace(path)
		value, err := lookup(path)
		if err != nil {
			return nil, err
		}
		out = append(out, ArgumentPart{Text: before}, ArgumentPart{Path: path, Value: value})
		text = after
	}
}

// IsValue reports whether the text is one {{path}}: it is the value itself.
func (a Argument) IsValue() bool { return len(a) == 3 && a[0].Text == "" && a[2].Text == "" }

// ArgumentHelp explains which values a command can contain, without a full stop.
const ArgumentHelp = "A value can be an argument of a command, but not code for a program"

// Command returns the text as code with values as data. untrusted says that the input of the run is not trusted.
func (a Argument) Command(untrusted bool) (shell.Command, *shell.Error) {
	var code []shell.Part
	for _, p := range a {
		if p.Path == "" {
			code = append(code, shell.Part{Text: p.Text})
			continue
		}
		code = append(code, shell.Part{Value: &shell.Value{
			Text: strings.ReplaceAll(ir.PlainText(p.Value), "\x00", ""), Unknown: p.Value == nil,
			Trusted: p.IsInput() && !untrusted, OneWord: p.IsInput() && untrusted,
		}})
	}
	command, err := shell.Insert(ir.ToolShell, code)
	var failed *shell.Error
	errors.As(err, &failed)
	return command, failed
}

// IsInput reports whether a value is of the input of the run.
func (p ArgumentPart) IsInput() bool { return p.Path == "input" || strings.HasPrefix(p.Path, "input.") }
