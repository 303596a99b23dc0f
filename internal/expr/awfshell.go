package expr

import (
	"errors"
	"fmt"
	"html"
	"net/url"
	"reflect"
	"slices"
	"strings"
	gotemplate "text/template"

	"github.com/espalier-run/espalier/internal/jsonfast"
	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/shell"
)

// A template renders a command, and the output of steps, models and servers must not become part of its code. Such
// values are marked while the template is rendered; package shell passes them as data. Inputs are marked too, but a
// person who starts a run may execute commands anyway: where data is impossible, a trusted input becomes part of the
// command.

// ShellOptions configure how a command is rendered.
type ShellOptions struct {
	TemplateOptions
	// Untrusted are the roots of untrusted names. Without quotes around them, their values are split into words, as
	// those of variables are.
	Untrusted []string
	// OneWord are the roots in Untrusted whose values are never split.
	OneWord []string
	// Trusted are the roots of trusted names whose values are data where a value can be data, and code elsewhere.
	Trusted []string
	// Shell is the name of the shell that runs the command.
	Shell string
	// prompt says that the text is a prompt: it may contain any key, and files that the author names.
	prompt bool
}

// ShellText is a rendered command.
type ShellText struct {
	shell.Command
	Read string // for people: with the values in their places
}

// FillShell renders a template as a command for a POSIX shell. e must have the dialect AWFTemplate.
func (e *Expr) FillShell(env Env, o ShellOptions) (ShellText, error) {
	text, err := e.render(env, o.TemplateOptions, &o)
	if err != nil {
		return ShellText{}, err
	}
	command, err := shell.Insert(o.Shell, parts(text))
	if err != nil {
		return ShellText{}, err
	}
	return ShellText{Command: command, Read: readable(text)}, nil
}

// FillPath renders a template as the path of a program or a script. untrusted are the untrusted values in it.
func (e *Expr) FillPath(env Env, o ShellOptions) (path string, untrusted []string, err error) {
	text, err := e.render(env, o.TemplateOptions, &o)
	if err != nil {
		return "", nil, err
	}
	for _, p := range parts(text) {
		if p.Value != nil {
			untrusted = append(untrusted, p.Value.Text)
		}
	}
	return readable(text), untrusted, nil
}

// TextPart is a part of a rendered text: what the author wrote, or a value.
type TextPart struct {
	Text  string
	Value bool
}

// FillParts renders a template as a prompt. Inputs, the output of steps, loop items and errors are values in it, and so
// are files whose path depends on them. The function raw makes them a part of the text.
func (e *Expr) FillParts(env Env, o TemplateOptions) ([]TextPart, error) {
	text, err := e.render(env, o, &ShellOptions{Untrusted: []string{"inputs", "states", "loop", "error"}, prompt: true})
	if err != nil {
		return nil, err
	}
	var out []TextPart
	for {
		before, way, value, after, found := cutValue(text)
		if before != "" {
			out = append(out, TextPart{Text: before})
		}
		if !found {
			return out, nil
		}
		if way == asQuoted {
			value = shell.Quote(value)
		}
		out = append(out, TextPart{Text: value, Value: true})
		text = after
	}
}

// parts splits a marked text.
func parts(text string) []shell.Part {
	var out []shell.Part
	for {
		before, way, value, after, found := cutValue(text)
		out = append(out, shell.Part{Text: before})
		if !found {
			return out
		}
		out = append(out, shell.Part{Value: &shell.Value{
			Text: value, OneWord: way == asWord || way == asTrustedWord, Escaped: way == asQuoted,
			Trusted: way == asTrustedWords || way == asTrustedWord,
		}})
		text = after
	}
}

var (
	actionForm = lazyregexp.New(`\{\{[^{}]*\}\}`)
	branchForm = lazyregexp.New(`^\{\{-?\s*(if|else|end|range|with|define|template|block|` +
		`break|continue|\$\w+\s*:?=|/\*)`)
	stepForm   = lazyregexp.New(`\{\{[^{}]*\b(states|error|loop)\b[^{}]*\}\}`)
	rawForm    = lazyregexp.New(`^\{\{-?\s*raw\b|\|\s*raw\s*-?\}\}$`)
	escapeForm = lazyregexp.New(`^\{\{-?\s*escape\b|\|\s*escape\s*-?\}\}$`)
)

// StepActions returns the positions of the actions in a template of a command that insert the output of steps, and the
// items of loops if loops is set. Actions with the function raw do not count.
func StepActions(command string, loops bool) [][]int {
	return slices.DeleteFunc(stepForm().FindAllStringSubmatchIndex(command, -1), func(at []int) bool {
		return rawForm().MatchString(command[at[0]:at[1]]) || command[at[2]:at[3]] == "loop" && !loops
	})
}

// CheckShell checks a template of a command before its values are known. values are the positions of the actions with
// untrusted values. It returns nil if a command with branches cannot be parsed without its values: FillShell does so.
func CheckShell(name, command string, values [][]int) *shell.Error {
	var parts []shell.Part
	at, branches := 0, false
	for _, p := range actionForm().FindAllStringIndex(command, -1) {
		action := command[p[0]:p[1]]
		part := shell.Part{Text: "x"} // the value of a trusted action is unknown
		switch {
		case slices.ContainsFunc(values, func(v []int) bool { return v[0] == p[0] }):
			part = shell.Part{Value: &shell.Value{Unknown: true, Escaped: escapeForm().MatchString(action)}}
		case branchForm().MatchString(action):
			part, branches = shell.Part{}, true
		}
		parts = append(parts, shell.Part{Text: command[at:p[0]]}, part)
		at = p[1]
	}
	_, err := shell.Insert(name, append(parts, shell.Part{Text: command[at:]}))
	var failed *shell.Error
	if !errors.As(err, &failed) || failed.Part < 0 && branches {
		return nil
	}
	return failed
}

// mark surrounds values in a rendered text. No command contains a NUL.
const mark = '\x00'

// Ways to write a value.
const (
	asWords  = 'w' // the shell splits it
	asWord   = 'o' // one word
	asQuoted = 'q' // quoted by the author with escape

	asTrustedWords = 'W' // asWords, trusted
	asTrustedWord  = 'O' // asWord, trusted
)

// words, word and quoted are untrusted texts that print with marks, trustedWords and trustedWord are trusted ones.
type (
	words        string
	word         string
	quoted       string
	trustedWords string
	trustedWord  string
)

// marked returns a text between marks, with the way to write it. Values contain no marks: asData and withoutMarks
// remove them, so that no value can end its own mark early.
func marked(way byte, s string) string { return string([]byte{mark, way}) + s + string(mark) }

func (w words) String() string        { return marked(asWords, string(w)) }
func (w word) String() string         { return marked(asWord, string(w)) }
func (q quoted) String() string       { return marked(asQuoted, string(q)) }
func (w trustedWords) String() string { return marked(asTrustedWords, string(w)) }
func (w trustedWord) String() string  { return marked(asTrustedWord, string(w)) }

// untrustedObject and untrustedList contain untrusted values, trustedObject and trustedList trusted ones. They print as
// JSON, which is one word.
type (
	untrustedObject map[string]any
	untrustedList   []any
	trustedObject   map[string]any
	trustedList     []any
)

func (o untrustedObject) String() string { return marked(asWord, jsonText(map[string]any(o))) }
func (l untrustedList) String() string   { return marked(asWord, jsonText([]any(l))) }
func (o trustedObject) String() string   { return marked(asTrustedWord, jsonText(map[string]any(o))) }
func (l trustedList) String() string     { return marked(asTrustedWord, jsonText([]any(l))) }

// unmarked returns a value without marks, recursively.
func unmarked(v any) any {
	object := func(x map[string]any) map[string]any {
		out := make(map[string]any, len(x))
		for key := range x {
			out[key] = unmarked(x[key])
		}
		return out
	}
	list := func(x []any) []any {
		out := make([]any, len(x))
		for i := range x {
			out[i] = unmarked(x[i])
		}
		return out
	}
	switch x := v.(type) {
	case words:
		return string(x)
	case word:
		return string(x)
	case quoted:
		return shell.Quote(string(x))
	case trustedWords:
		return string(x)
	case trustedWord:
		return string(x)
	case untrustedObject:
		return presentable(object(x))
	case trustedObject:
		return presentable(object(x))
	case untrustedList:
		return presentable(list(x))
	case trustedList:
		return presentable(list(x))
	case map[string]any: // partly untrusted
		return object(x)
	case []any: // the result of a function
		return list(x)
	}
	return v
}

// unmarkedText returns a value as a text without marks.
func unmarkedText(v any) string { return fmt.Sprint(unmarked(v)) }

// derivedText returns a text derived from a value, which is data if the value is.
func derivedText(v any, text string) any {
	switch v.(type) {
	case words:
		return words(text)
	case trustedWords:
		return trustedWords(text)
	}
	return oneWord(taintOf(v), text)
}

// oneWord returns a text derived from values with the given taint, as one word.
func oneWord(d taint, text string) any {
	switch d {
	case untrusted:
		return word(text)
	case trusted:
		return trustedWord(text)
	}
	return text
}

// taint is how a value may be used in a command, in increasing order of restriction. What is derived from several
// values has the highest taint of them.
type taint int

const (
	code      taint = iota // by the author
	trusted                // data where possible
	untrusted              // data
)

// taintOf returns the taint of a value: the highest of its parts.
func taintOf(v any) taint {
	most := code
	switch x := v.(type) {
	case words, word, quoted, untrustedObject, untrustedList:
		return untrusted
	case trustedWords, trustedWord, trustedObject, trustedList:
		return trusted
	case map[string]any:
		for _, inner := range x {
			most = max(most, taintOf(inner))
		}
	case []any:
		for _, inner := range x {
			most = max(most, taintOf(inner))
		}
	}
	return most
}

// printers returns replacements of the predefined template functions that format text: the originals would format marks
// as if they were part of the text. Each computes with the values themselves and marks its result.
func printers() gotemplate.FuncMap {
	keep := func(make func(args []any) string) func(args ...any) any {
		return func(args ...any) any {
			plain := slices.Clone(args)
			most := code
			for i, v := range args {
				if d := taintOf(v); d != code {
					plain[i], most = unmarked(v), max(most, d)
				}
			}
			text := make(plain)
			if most == trusted { // the author may have written several words
				return trustedWords(text)
			}
			return oneWord(most, text)
		}
	}
	joined := func(args []any) string { return fmt.Sprint(args...) }
	return gotemplate.FuncMap{
		"index":    indexed,
		"print":    keep(joined),
		"println":  keep(func(args []any) string { return fmt.Sprintln(args...) }),
		"html":     keep(func(args []any) string { return html.EscapeString(joined(args)) }),
		"js":       keep(func(args []any) string { return gotemplate.JSEscapeString(joined(args)) }),
		"urlquery": keep(func(args []any) string { return url.QueryEscape(joined(args)) }),
		"printf": func(format any, args ...any) any {
			return keep(func(args []any) string {
				return fmt.Sprintf(fmt.Sprint(args[0]), args[1:]...)
			})(slices.Insert(args, 0, format)...)
		},
	}
}

// indexed implements the template function index, which accepts only keys of type string.
func indexed(item any, keys ...any) (any, error) {
	for _, key := range keys {
		within := reflect.ValueOf(item)
		switch within.Kind() {
		case reflect.Map:
			name, ok := unmarked(key).(string)
			if !ok {
				return nil, fmt.Errorf("%v is not a name in an object", key)
			}
			item = nil
			if found := within.MapIndex(reflect.ValueOf(name)); found.IsValid() {
				item = found.Interface()
			}
		case reflect.Slice, reflect.String:
			n, ok := key.(int)
			if !ok || n < 0 || n >= within.Len() {
				return nil, fmt.Errorf("%v is not an index of a list of %d", unmarked(key), within.Len())
			}
			item = within.Index(n).Interface()
		default:
			return nil, fmt.Errorf("%v has no elements", unmarked(item))
		}
	}
	return item, nil
}

// markData marks a value that a template reads under a name that begins with root, if it is data. keyed reports whether
// the template writes keys of objects, which cannot be marked.
func (o *ShellOptions) markData(root string, v any, keyed bool) (any, error) {
	switch {
	case slices.Contains(o.Untrusted, root) && slices.Contains(o.OneWord, root):
		return asData(v, asWord, keyed)
	case slices.Contains(o.Untrusted, root):
		return asData(v, asWords, keyed)
	case slices.Contains(o.Trusted, root):
		return asData(v, asTrustedWords, false)
	}
	return withoutMarks(presentable(v)), nil
}

// plainKey matches a key of an object that has no special meaning in a shell, so it may become a part of a command.
var plainKey = lazyregexp.New(`^[A-Za-z0-9_./:@%+,-]*$`)

// asData marks the texts of a value, recursively. way is asWords, asWord or asTrustedWords.
func asData(v any, way byte, keyed bool) (any, error) {
	switch x := wholeNumber(v).(type) {
	case string:
		x = strings.ReplaceAll(x, string(mark), "")
		switch way {
		case asWord:
			return word(x), nil
		case asTrustedWords:
			return trustedWords(x), nil
		}
		return words(x), nil
	case map[string]any:
		out := make(map[string]any, len(x))
		for key, inner := range x {
			if keyed && !plainKey().MatchString(key) {
				return nil, fmt.Errorf("the key %q cannot be a part of a command", key)
			}
			var err error
			if out[key], err = asData(inner, way, keyed); err != nil {
				return nil, err
			}
		}
		if way == asTrustedWords {
			return trustedObject(out), nil
		}
		return untrustedObject(out), nil
	case []any:
		out := make([]any, len(x))
		for i := range x {
			var err error
			if out[i], err = asData(x[i], way, keyed); err != nil {
				return nil, err
			}
		}
		if way == asTrustedWords {
			return trustedList(out), nil
		}
		return untrustedList(out), nil
	default:
		return x, nil
	}
}

// withoutMarks removes marks from a trusted value.
func withoutMarks(v any) any {
	switch x := v.(type) {
	case string:
		return strings.ReplaceAll(x, string(mark), "")
	case object:
		for key := range x {
			x[key] = withoutMarks(x[key])
		}
	case list:
		for i := range x {
			x[i] = withoutMarks(x[i])
		}
	}
	return v
}

// cutValue cuts a marked text at its first value.
func cutValue(text string) (before string, way byte, value, after string, found bool) {
	before, rest, found := strings.Cut(text, string(mark))
	if !found || rest == "" {
		return before, 0, "", "", false
	}
	value, after, _ = strings.Cut(rest[1:], string(mark))
	return before, rest[0], value, after, true
}

// replaced returns a marked text with its values replaced.
func replaced(text string, by func(way byte, value string) string) string {
	var b strings.Builder
	for {
		before, way, value, after, found := cutValue(text)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString(by(way, value))
		text = after
	}
}

// readable returns a marked text with the values in their places.
func readable(text string) string {
	return replaced(text, func(way byte, value string) string {
		if way == asQuoted {
			return shell.Quote(value)
		}
		return value
	})
}

// jsonText returns a value as JSON.
func jsonText(v any) string {
	raw, err := jsonfast.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}
