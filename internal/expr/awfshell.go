package expr

import (
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	gotemplate "text/template"
)

// Values in shell commands.
//
// A template writes a command, and what steps, models and servers gave must not
// become a part of its code. So such a value is put into a variable at the very
// beginning of the command, in quotes, and where the template writes it the
// variable is expanded. How it is expanded depends on the quotes around that
// place. Shells with arrays run what they find in arithmetic, even in the value of
// a variable: there only numbers may stand.

// ShellOptions is how a command is written.
type ShellOptions struct {
	TemplateOptions
	// Doubts are what names begin with that nobody vouches for. Where the
	// template does not quote what these stand for, it is several words, as a
	// variable is.
	Doubts []string
	// OneWord are those of Doubts that are one word everywhere.
	OneWord []string
	// Shell is the name of the shell that will read the command.
	Shell string
}

// ShellText is a command that a template wrote.
type ShellText struct {
	Run  string // for the shell
	Read string // for people: with the values in their places
	// Values is how many values stand in variables at its beginning.
	Values int
	// Reader is a program that reads one of them as code: see CodeReaders. ""
	// when there is none, or when it is so plain that it does not matter.
	Reader string
}

// FillShell writes a template's text as a command for a POSIX shell; e is of the
// dialect AWFTemplate.
func (e *Expr) FillShell(env Env, o ShellOptions) (ShellText, error) {
	t, ok := e.other.(*template)
	if !ok || e.broken {
		return ShellText{}, e.unusable()
	}
	text, err := t.render(env, o.TemplateOptions, &o)
	if err != nil {
		return ShellText{}, err
	}
	w := newWeaver(o.Shell)
	run, err := w.weave(w.numbered(text))
	if err != nil {
		return ShellText{}, err
	}
	return ShellText{Run: run, Read: readable(text), Values: len(w.order), Reader: w.readBy}, nil
}

// A doubtful value is marked where it is written. No shell takes a NUL, so no
// command has one.
const mark = '\x00'

// The ways in which a value is written.
const (
	asWords  = 'w' // the shell splits it
	asWord   = 'o'
	asQuoted = 'q' // the author has quoted it, with escape
)

// words, word and quoted are doubtful texts, and write themselves with marks.
type (
	words  string
	word   string
	quoted string
)

func marked(way byte, s string) string { return string([]byte{mark, way}) + s + string(mark) }

func (w words) String() string  { return marked(asWords, string(w)) }
func (w word) String() string   { return marked(asWord, string(w)) }
func (q quoted) String() string { return marked(asQuoted, string(q)) }

// doubtfulObject and doubtfulList hold doubtful values and write themselves as
// JSON, which is one word.
type (
	doubtfulObject map[string]any
	doubtfulList   []any
)

func (o doubtfulObject) String() string { return marked(asWord, jsonText(map[string]any(o))) }
func (l doubtfulList) String() string   { return marked(asWord, jsonText([]any(l))) }

// unmarked is a value without marks, and all that is in it.
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
		return shellQuote(string(x))
	case doubtfulObject:
		return presentable(object(x))
	case doubtfulList:
		return presentable(list(x))
	case map[string]any: // all that there is, of which some is doubtful
		return object(x)
	case []any: // what a function made
		return list(x)
	}
	return v
}

// bare is a value as a text without marks.
func bare(v any) string { return fmt.Sprint(unmarked(v)) }

// like is a text that was made of a value, and as doubtful as that.
func like(v any, text string) any {
	if _, several := v.(words); several {
		return words(text)
	}
	if doubtful(v) {
		return word(text)
	}
	return text
}

// doubtful tells whether nobody vouches for a value, or for a part of it.
func doubtful(v any) bool {
	switch x := v.(type) {
	case words, word, quoted, doubtfulObject, doubtfulList:
		return true
	case map[string]any:
		for _, inner := range x {
			if doubtful(inner) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(x, doubtful)
	}
	return false
}

// printers are the functions that Go's templates bring along and that make
// texts of values, or take texts: marks would be changed and lost by them, or
// be in their way.
func printers() gotemplate.FuncMap {
	keep := func(make func(args []any) string) func(args ...any) any {
		return func(args ...any) any {
			plain := slices.Clone(args)
			var doubt any
			for i, v := range args {
				if doubtful(v) {
					plain[i], doubt = unmarked(v), word("")
				}
			}
			return like(doubt, make(plain))
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
			return keep(func(args []any) string { return fmt.Sprintf(fmt.Sprint(args[0]), args[1:]...) })(slices.Insert(args, 0, format)...)
		},
	}
}

// indexed is "index" of Go's templates, which takes no key of another type than string.
func indexed(item any, keys ...any) (any, error) {
	for _, key := range keys {
		within := reflect.ValueOf(item)
		switch within.Kind() {
		case reflect.Map:
			name, ok := unmarked(key).(string)
			if !ok {
				return nil, fmt.Errorf("%v is no name in an object", key)
			}
			item = nil
			if found := within.MapIndex(reflect.ValueOf(name)); found.IsValid() {
				item = found.Interface()
			}
		case reflect.Slice, reflect.String:
			n, ok := key.(int)
			if !ok || n < 0 || n >= within.Len() {
				return nil, fmt.Errorf("%v is no place in a list of %d", unmarked(key), within.Len())
			}
			item = within.Index(n).Interface()
		default:
			return nil, fmt.Errorf("there is nothing in %v", unmarked(item))
		}
	}
	return item, nil
}

// doubted prepares a value that a template reads under a name that begins with
// root: what nobody vouches for is marked. keyed says that the template writes
// keys of objects, which cannot be marked.
func (o *ShellOptions) doubted(root string, v any, keyed bool) (any, error) {
	if slices.Contains(o.Doubts, root) {
		return mistrust(v, slices.Contains(o.OneWord, root), keyed)
	}
	return withoutMarks(presentable(v)), nil
}

var plainKey = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_./:@%+,-]*$`) })

func mistrust(v any, oneWord, keyed bool) (any, error) {
	switch x := whole(v).(type) {
	case string:
		x = strings.ReplaceAll(x, string(mark), "")
		if oneWord {
			return word(x), nil
		}
		return words(x), nil
	case map[string]any:
		out := make(doubtfulObject, len(x))
		for key, inner := range x {
			if keyed && !plainKey().MatchString(key) {
				return nil, fmt.Errorf("the key %q cannot be a part of a command", key)
			}
			var err error
			if out[key], err = mistrust(inner, oneWord, keyed); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []any:
		out := make(doubtfulList, len(x))
		for i := range x {
			var err error
			if out[i], err = mistrust(x[i], oneWord, keyed); err != nil {
				return nil, err
			}
		}
		return out, nil
	default:
		return x, nil
	}
}

// withoutMarks makes sure that nobody else writes marks.
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

// cutValue cuts a marked text at the first value in it.
func cutValue(text string) (before string, way byte, value, after string, found bool) {
	before, rest, found := strings.Cut(text, string(mark))
	if !found || rest == "" {
		return before, 0, "", "", false
	}
	value, after, _ = strings.Cut(rest[1:], string(mark))
	return before, rest[0], value, after, true
}

// replaced is a marked text with something else in the place of each value.
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

// readable is a marked text with the values in their places.
func readable(text string) string {
	return replaced(text, func(way byte, value string) string {
		if way == asQuoted {
			return shellQuote(value)
		}
		return value
	})
}

// unusable is the error of an expression that could not be read.
func (e *Expr) unusable() error {
	return &EvalError{Problem: ProblemNotParsed, Span: e.Span, Text: e.Text, Message: "The template cannot be used.", Help: "Mend its mistakes first."}
}

// jsonText is a value as JSON.
func jsonText(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// shellQuote makes one word of a text, whatever is in it.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// IsShell tells whether a program is a shell with the quotes and variables of sh.
func IsShell(name string) bool {
	return slices.Contains([]string{"sh", "bash", "dash", "zsh", "ksh", "ksh93", "mksh", "oksh", "ash", "yash", "busybox"}, name)
}

// Interpreter is the name of the program that the first line of a script says
// it is for; "" when it says nothing.
func Interpreter(script string) string {
	line, _, _ := strings.Cut(script, "\n")
	line, ok := strings.CutPrefix(line, "#!")
	if !ok {
		return ""
	}
	words := strings.Fields(line)
	if len(words) > 1 && path.Base(words[0]) == "env" {
		words = slices.DeleteFunc(words[1:], func(w string) bool { return strings.HasPrefix(w, "-") || strings.Contains(w, "=") })
	}
	if len(words) == 0 {
		return ""
	}
	return path.Base(words[0])
}
