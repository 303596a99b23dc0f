package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
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
// place; if those are misjudged, the text may come out wrong, but it is never
// run.

// ShellOptions is how a command is written.
type ShellOptions struct {
	TemplateOptions
	// Doubts are the names, as dotted paths, of what nobody vouches for. Where
	// the template does not quote it, it is several words, as a variable is.
	Doubts []string
	// OneWord are those of Doubts that are one word everywhere.
	OneWord []string
	// Zsh says that it is zsh that will read the command, which does not split
	// variables into words by itself.
	Zsh bool
}

// ShellText is a command that a template wrote.
type ShellText struct {
	Run  string // for the shell
	Read string // for people: with the values in their places
	// Values is how many values stand in variables at its beginning.
	Values int
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
	w := weaver{zsh: o.Zsh, known: map[string]string{}}
	if err := w.weave(w.numbered(text), &quoting{}); err != nil {
		return ShellText{}, err
	}
	return ShellText{Run: w.text(), Read: readable(text), Values: len(w.order)}, nil
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

// bare is a value without marks.
func bare(v any) string {
	switch x := v.(type) {
	case words:
		return string(x)
	case word:
		return string(x)
	case quoted:
		return shellQuote(string(x))
	case doubtfulObject:
		return jsonText(map[string]any(x))
	case doubtfulList:
		return jsonText([]any(x))
	}
	return fmt.Sprint(v)
}

// like is a text that was made of a value, and as doubtful as that.
func like(v any, text string) any {
	switch v.(type) {
	case words:
		return words(text)
	case word, quoted, doubtfulObject, doubtfulList:
		return word(text)
	}
	return text
}

func doubtful(v any) bool {
	switch v.(type) {
	case words, word, quoted, doubtfulObject, doubtfulList:
		return true
	}
	return false
}

// printers are the functions that Go's templates bring along and that make
// texts of values: without them marks would be changed and lost.
func printers() gotemplate.FuncMap {
	keep := func(make func(args []any) string) func(args ...any) any {
		return func(args ...any) any {
			plain := slices.Clone(args)
			var doubt any
			for i, v := range args {
				if doubtful(v) {
					plain[i], doubt = bare(v), word("")
				}
			}
			return like(doubt, make(plain))
		}
	}
	joined := func(args []any) string { return fmt.Sprint(args...) }
	return gotemplate.FuncMap{
		"print":    keep(joined),
		"println":  keep(func(args []any) string { return fmt.Sprintln(args...) }),
		"html":     keep(func(args []any) string { return html.EscapeString(joined(args)) }),
		"js":       keep(func(args []any) string { return gotemplate.JSEscapeString(joined(args)) }),
		"urlquery": keep(func(args []any) string { return url.QueryEscape(joined(args)) }),
		"printf": func(format string, args ...any) any {
			return keep(func(args []any) string { return fmt.Sprintf(format, args...) })(args...)
		},
	}
}

// doubted prepares a value that a template reads: all of it, or the parts of it
// that nobody vouches for, are marked. keyed says that the template writes keys of
// objects, which cannot be marked.
func (o *ShellOptions) doubted(path []string, v any, keyed bool) (any, error) {
	name := strings.Join(path, ".")
	within := func(list []string) (all, some bool) {
		for _, one := range list {
			all = all || name == one || strings.HasPrefix(name, one+".")
			some = some || strings.HasPrefix(one, name+".")
		}
		return all, some
	}
	oneWord, _ := within(o.OneWord)
	all, some := within(o.Doubts)
	switch object, isObject := v.(map[string]any); {
	case all:
		return mistrust(v, oneWord, keyed)
	case some && isObject:
		out := make(map[string]any, len(object))
		for key, inner := range object {
			var err error
			if out[key], err = o.doubted(append(slices.Clone(path), key), inner, keyed); err != nil {
				return nil, err
			}
		}
		return doubtfulObject(out), nil
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

// readable is a marked text with the values in their places.
func readable(text string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, string(mark))
		b.WriteString(before)
		if !found || rest == "" {
			return b.String()
		}
		value, after, _ := strings.Cut(rest[1:], string(mark))
		if rest[0] == asQuoted {
			value = shellQuote(value)
		}
		b.WriteString(value)
		text = after
	}
}

// weaver writes a command with variables in the place of marked values.
type weaver struct {
	zsh    bool
	out    []string
	values []string          // that are marked, in their order
	known  map[string]string // the variable of a value
	order  []string          // values, in the order of their variables
}

// numbered is a marked text with numbers in the place of the values, which may
// look like anything.
func (w *weaver) numbered(text string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, string(mark))
		b.WriteString(before)
		if !found || rest == "" {
			return b.String()
		}
		value, after, _ := strings.Cut(rest[1:], string(mark))
		b.WriteString(marked(rest[0], strconv.Itoa(len(w.values))))
		w.values = append(w.values, value)
		text = after
	}
}

// quoting is what is open around a place in a command.
type quoting struct {
	kind  quotingKind
	close byte // of code: what ends it
	depth int  // of code: brackets that are open in it
	up    *quoting
}

type quotingKind int

const (
	inCode  quotingKind = iota
	inSum               // arithmetic
	inText              // double quotes
	inHere              // a text that follows a command
	inParam             // ${…}
)

// quoted tells whether there are double quotes around a place.
func (q *quoting) quoted() bool {
	for ; q != nil; q = q.up {
		switch q.kind {
		case inText, inHere:
			return true
		case inCode, inSum:
			return false
		}
	}
	return false
}

type hereText struct {
	end     string
	literal bool // nothing in it is expanded
	tabs    bool // leading ones are dropped
	piece   int  // where its end is announced, in out
}

func (w *weaver) text() string {
	var b strings.Builder
	text := strings.Join(w.out, "")
	if line, rest, ok := strings.Cut(text, "\n"); ok && strings.HasPrefix(line, "#!") { // it must stay the first
		b.WriteString(line + "\n")
		text = rest
	}
	for i, value := range w.order {
		fmt.Fprintf(&b, "%s=%s; ", variable(i), shellQuote(value))
	}
	b.WriteString(text)
	return b.String()
}

func variable(i int) string { return fmt.Sprintf("__espalier_%d", i+1) }

func (w *weaver) put(s string) {
	if s != "" {
		w.out = append(w.out, s)
	}
}

// name is the variable that holds a value.
func (w *weaver) name(value string) string {
	if name, ok := w.known[value]; ok {
		return name
	}
	name := variable(len(w.order))
	w.known[value], w.order = name, append(w.order, value)
	return name
}

var numberForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[+-]?[0-9]+(\.[0-9]+)?$`) })

var (
	errNoNumber = errors.New("what stands in arithmetic has to be a number")
	errCut      = errors.New("a value was cut in two")
)

// value writes a marked value; at is behind the mark that begins it. It returns
// where the text goes on.
func (w *weaver) value(text string, at int, q *quoting, sum bool) (int, error) {
	end := strings.IndexByte(text[at:], mark)
	if end < 1 {
		return 0, errCut
	}
	number, err := strconv.Atoi(text[at+1 : at+end])
	if err != nil {
		return 0, errCut
	}
	way, value := text[at], w.values[number]
	next := at + end + 1
	if q.kind == inSum || sum {
		value = strings.TrimSpace(value)
		if !numberForm().MatchString(value) {
			return 0, errNoNumber
		}
		w.put(value)
		return next, nil
	}
	name := w.name(value)
	switch {
	case q.quoted() && way == asQuoted:
		w.put("'${" + name + "}'")
	case q.quoted():
		w.put("${" + name + "}")
	case way == asWords && w.zsh:
		w.put("${=~" + name + "}")
	case way == asWords:
		w.put("${" + name + "}")
	default:
		w.put(`"${` + name + `}"`)
	}
	return next, nil
}

var (
	testForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\s-(eq|ne|lt|le|gt|ge)\s`) })
	// commented is a value in a comment, where nobody needs it.
	commented = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\x00[a-z][0-9]+\x00`) })
	hereForm  = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^<<(-?)[ \t]*((?:[^\s'"\\;&|<>()\x00]|\\.|'[^'\x00]*'|"[^"\x00]*")+)`)
	})
)

// weave copies a text, and writes what is marked in it.
func (w *weaver) weave(text string, q *quoting) error {
	var pending []hereText
	numbers := 0 // up to here only numbers may stand: a test compares them
	from := 0    // what is not copied yet
	flush := func(to int) {
		w.put(text[from:to])
		from = to
	}
	push := func(kind quotingKind, closing byte, depth int) {
		q = &quoting{kind: kind, close: closing, depth: depth, up: q}
	}
	for i := 0; i < len(text); {
		c := text[i]
		rest := text[i:]
		code := q.kind == inCode || q.kind == inSum
		switch {
		case c == mark:
			flush(i)
			next, err := w.value(text, i+1, q, i < numbers)
			if err != nil {
				return err
			}
			from, i = next, next
		case c == '\\' && i+1 < len(text):
			if text[i+1] == mark { // it would quote the first letter of the value
				flush(i)
				from = i + 1
				i++
				break
			}
			i += 2
		case c == '\'' && !q.quoted():
			next, err := w.single(text, i, `'`, &from)
			if err != nil {
				return err
			}
			i = next
		case c == '$' && strings.HasPrefix(rest, "$'") && !q.quoted():
			next, err := w.single(text, i+1, `$'`, &from)
			if err != nil {
				return err
			}
			i = next
		case c == '$' && strings.HasPrefix(rest, "$(("):
			push(inSum, ')', 1)
			i += 3
		case c == '$' && strings.HasPrefix(rest, "$("):
			push(inCode, ')', 0)
			i += 2
		case c == '$' && strings.HasPrefix(rest, "$["):
			push(inSum, ']', 0)
			i += 2
		case c == '$' && strings.HasPrefix(rest, "${"):
			push(inParam, '}', 0)
			i += 2
		case c == '}' && q.kind == inParam:
			q = q.up
			i++
		case c == '"' && q.kind == inText:
			q = q.up
			i++
		case c == '"' && q.kind != inHere:
			push(inText, '"', 0)
			i++
		case c == '`' && q.kind == inCode && q.close == '`':
			q = q.up
			i++
		case c == '`':
			push(inCode, '`', 0)
			i++
		case !code:
			i++
		case c == '(' && strings.HasPrefix(rest, "((") && q.kind == inCode:
			push(inSum, ')', 1)
			i += 2
		case c == '(' && q.close != ']':
			q.depth++
			i++
		case c == q.close && q.up != nil:
			if q.depth--; q.depth < 0 {
				q = q.up
			}
			i++
		case q.kind == inSum:
			i++
		case c == '#' && wordBegins(text, i):
			end := strings.IndexByte(rest, '\n')
			if end < 0 {
				end = len(rest)
			}
			flush(i)
			w.put(commented().ReplaceAllString(rest[:end], "…"))
			from, i = i+end, i+end
		case c == '[' && strings.HasPrefix(rest, "[[") && wordBegins(text, i):
			if end := strings.Index(rest, "]]"); end >= 0 && testForm().MatchString(rest[:end]) {
				numbers = i + end
			}
			i += 2
		case strings.HasPrefix(rest, "<<<"):
			i += 3
		case strings.HasPrefix(rest, "<<"):
			m := hereForm().FindStringSubmatchIndex(rest)
			if m == nil {
				i += 2
				break
			}
			flush(i + m[4])
			written := rest[m[4]:m[5]]
			w.out = append(w.out, written)
			pending = append(pending, hereText{
				end: unquoted(written), literal: strings.ContainsAny(written, `'"\`), tabs: m[3] > m[2], piece: len(w.out) - 1,
			})
			from, i = i+m[5], i+m[5]
		case c == '\n' && len(pending) > 0:
			i++
			flush(i)
			for _, h := range pending {
				next, err := w.here(text, i, h)
				if err != nil {
					return err
				}
				from, i = next, next
			}
			pending = nil
		default:
			i++
		}
	}
	flush(len(text))
	return nil
}

// wordBegins tells whether a word begins at a place in code.
func wordBegins(text string, i int) bool {
	return i == 0 || strings.IndexByte(" \t\n;&|(", text[i-1]) >= 0
}

// single copies what stands in single quotes, which begin at a place; values
// in it end the quotes and begin them again.
func (w *weaver) single(text string, at int, again string, from *int) (next int, err error) {
	w.put(text[*from : at+1])
	*from = at + 1
	for i := at + 1; i < len(text); {
		switch c := text[i]; {
		case c == '\\' && again != "'" && i+1 < len(text) && text[i+1] != mark:
			i += 2
		case c == '\'':
			return i + 1, nil
		case c == mark:
			w.put(text[*from:i] + "'")
			next, err := w.value(text, i+1, &quoting{kind: inText}, false)
			if err != nil {
				return 0, err
			}
			last := len(w.out) - 1
			w.out[last] = `"` + strings.Trim(w.out[last], "'") + `"` + again // quoted it is already
			*from, i = next, next
		default:
			i++
		}
	}
	return len(text), nil // they are never closed: the shell will say so
}

// unquoted is the word that a shell makes of one without values in it.
func unquoted(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case c != '\'' && c != '"':
			b.WriteByte(c)
		}
	}
	return b.String()
}

var literally = strings.NewReplacer(`\`, `\\`, "$", `\$`, "`", "\\`")

// here copies a text that follows a command, with the line that ends it. One in
// which nothing is expanded becomes one in which nothing but our values is.
func (w *weaver) here(text string, at int, h hereText) (next int, err error) {
	end, after := len(text), len(text)
	for i := at; i < len(text); {
		line, _, found := strings.Cut(text[i:], "\n")
		compared := line
		if h.tabs {
			compared = strings.TrimLeft(line, "\t")
		}
		if compared == h.end {
			end, after = i, i+len(line)
			break
		}
		if i += len(line); found {
			i++
		}
	}
	body := text[at:end]
	if !h.literal {
		if err := w.weave(body, &quoting{kind: inHere}); err != nil {
			return 0, err
		}
		w.put(text[end:after])
		return after, nil
	}
	if strings.IndexByte(body, mark) < 0 {
		w.put(text[at:after])
		return after, nil
	}
	for {
		before, rest, found := strings.Cut(body, string(mark))
		w.put(literally.Replace(before))
		if !found {
			break
		}
		next, err := w.value(string(mark)+rest, 1, &quoting{kind: inHere}, false)
		if err != nil {
			return 0, err
		}
		body = rest[next-1:]
	}
	own := fmt.Sprintf("__espalier_end_%d", h.piece)
	w.out[h.piece] = own
	if end < after { // it does end
		w.put(own)
	}
	return after, nil
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
