package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	gotemplate "text/template"
	goparse "text/template/parse"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/shell"
	"github.com/espalier-run/espalier/internal/xslices"
)

// template is a Go template.
type template struct {
	indexed []foreignPath // names read with the function index
	text    string
	parsed  *gotemplate.Template // nil if the text contains no action
	reads   []foreignPath
	calls   []*goparse.IdentifierNode
	trees   map[string]*goparse.Tree // the templates of the text by name, "" for the text itself
	keyed   bool                     // range assigns keys of objects to a variable
}

// TemplateOptions configure the rendering of a template.
type TemplateOptions struct {
	// ReadFile implements the function readFile; if nil, the function fails.
	ReadFile func(path string) (string, error)
}

// Fill renders a template. e must have the dialect AWFTemplate.
func (e *Expr) Fill(env Env, o TemplateOptions) (string, error) {
	return e.render(env, o, nil)
}

// render renders a template for a shell; sh is nil for other texts.
func (e *Expr) render(env Env, o TemplateOptions, sh *ShellOptions) (string, error) {
	t, ok := e.other.(*template)
	if !ok || e.broken {
		return "", &EvalError{
			Problem: ProblemNotParsed, Span: e.Span, Text: e.Text, Message: "The template is not valid.",
			Help: "Fix its errors first.",
		}
	}
	return t.render(env, o, sh)
}

// ReadsFiles reports whether a template reads files, which only tasks may do.
func (e *Expr) ReadsFiles() bool {
	if e == nil {
		return false
	}
	var all []*template
	switch other := e.other.(type) {
	case *template:
		all = []*template{other}
	case *items:
		all = append(slices.Clone(other.parts), other.fill)
	case *computed:
		all = []*template{other.fill}
	}
	return slices.ContainsFunc(all, func(t *template) bool {
		return t != nil && slices.ContainsFunc(t.calls, func(call *goparse.IdentifierNode) bool {
			return call.Ident == readFile
		})
	})
}

// readFile is the function that inserts the text of a file.
const readFile = "readFile"

// functions returns the template functions of AWF. Every function that takes texts handles marked values, too, and
// marks what it derives from them. Besides, each root of names is a function, because AWF's documentation also writes
// names without the dot in front: {{inputs.x}}.
func functions(o TemplateOptions, sh *ShellOptions, tree map[string]any) gotemplate.FuncMap {
	out := printers()
	maps.Copy(out, gotemplate.FuncMap{
		"escape": func(v any) any {
			if sh != nil {
				return quoted(unmarkedText(v))
			}
			return shell.Quote(unmarkedText(v))
		},
		"raw": func(v any) string { return unmarkedText(v) },
		"json": func(v any) any {
			if d := taintOf(v); d != code {
				return oneWord(d, jsonText(unmarked(v)))
			}
			return jsonText(v)
		},
		"split": func(v, by any) []any {
			parts := strings.Split(unmarkedText(v), unmarkedText(by))
			return xslices.Map(parts, func(part string) any { return derivedText(v, part) })
		},
		"join": func(list, by any) any {
			v := reflect.ValueOf(list)
			if v.Kind() != reflect.Slice {
				return list
			}
			var parts []string
			kind := by // or the element with the highest taint
			for i := range v.Len() {
				one := v.Index(i).Interface()
				parts = append(parts, unmarkedText(one))
				if d := taintOf(one); d != code && d >= taintOf(kind) {
					kind = one
				}
			}
			return derivedText(kind, strings.Join(parts, unmarkedText(by)))
		},
		"trimSpace": func(v any) any { return derivedText(v, strings.TrimSpace(unmarkedText(v))) },
		readFile: func(path any) (any, error) {
			if o.ReadFile == nil {
				return "", errors.New("files cannot be read here")
			}
			text, err := o.ReadFile(unmarkedText(path))
			if sh != nil && err == nil && (!sh.prompt || taintOf(path) != code) { // any step may have written the file
				return asData(text, asWords, false)
			}
			return text, err
		},
	})
	for _, root := range roots {
		out[root] = func() any { return tree[root] }
	}
	return out
}

// object and list print themselves as JSON.
type (
	object map[string]any
	list   []any
)

func (o object) String() string { return jsonText(map[string]any(o)) }
func (l list) String() string   { return jsonText([]any(l)) }

// noItem is a loop item that is null. It prints as "null" and is false in a template, because it is an empty slice.
type noItem []any

func (noItem) String() string { return "null" }

// presentable returns a value that prints as AWF prints it.
func presentable(v any) any {
	switch x := wholeNumber(v).(type) {
	case map[string]any:
		out := make(object, len(x))
		for k, inner := range x {
			out[k] = presentable(inner)
		}
		return out
	case []any:
		out := make(list, len(x))
		for i := range x {
			out[i] = presentable(x[i])
		}
		return out
	default:
		return x
	}
}

// readTemplate parses a template. It returns nil after an error.
func readTemplate(text string, report reporter) foreign {
	t := &template{text: text}
	if !strings.Contains(text, "{{") {
		return t
	}
	known := functions(TemplateOptions{}, nil, nil)
	parsed, err := gotemplate.New("").Funcs(known).Option("missingkey=error").Parse(text)
	if err != nil && t.unknownCalls(known, report) {
		return nil
	}
	if err != nil {
		start, end, message := templateError(text, err)
		report(CodeForeign, start, end, "The template is invalid: "+message+".",
			"Write names like {{.inputs.file}} or {{.states.build.Output}}; "+
				"{{index .states \"my-step\" \"Output\"}} where a name is not all letters, digits and _.")
		return nil
	}
	t.parsed = parsed
	t.trees = map[string]*goparse.Tree{}
	for _, one := range parsed.Templates() {
		if one.Tree != nil && one.Tree.Root != nil {
			t.trees[one.Name()] = one.Tree
		}
	}
	t.collectAll()
	return t
}

// collectAll records the names that the template reads, including the templates that it calls.
func (t *template) collectAll() {
	if main := t.trees[""]; main != nil {
		root := &base{}
		t.collect(main.Root, scope{dot: root, vars: map[string]*base{"$": root}, in: []string{""}})
	}
}

// ofGo are the predefined functions of Go templates.
var ofGo = []string{
	"and", "call", "eq", "ge", "gt", "html", "index", "js", "le", "len", "lt", "ne", "not", "or",
	"print", "printf", "println", "slice", "urlquery",
}

// unknownCalls reports calls of unknown functions. It returns false if there are none or the template does not parse
// for another reason.
func (t *template) unknownCalls(known gotemplate.FuncMap, report reporter) bool {
	all := map[string]*goparse.Tree{}
	tree := goparse.New("")
	tree.Mode = goparse.SkipFuncCheck
	if _, err := tree.Parse(t.text, "", "", all); err != nil {
		return false
	}
	t.trees = all
	t.collectAll()
	ours := slices.DeleteFunc(slices.Sorted(maps.Keys(known)), func(name string) bool {
		return slices.Contains(roots, name) || slices.Contains(ofGo, name)
	})
	found := false
	for _, call := range t.calls {
		if known[call.Ident] != nil || slices.Contains(ofGo, call.Ident) {
			continue
		}
		found = true
		help := fmt.Sprintf("Besides the functions of Go templates there are %s. Let a command do the rest.",
			strings.Join(ours, ", "))
		if near := diag.Nearest(call.Ident, slices.Concat(ours, ofGo)); near != "" {
			help = fmt.Sprintf("Did you mean %q?", near)
		}
		report(CodeForeign, int(call.Pos), int(call.Pos)+len(call.Ident),
			fmt.Sprintf("There is no function %q in templates.", call.Ident), help)
	}
	return found
}

// templateErrorForm matches the errors of text/template.
var templateErrorForm = lazyregexp.New(`^template: :(\d+)(?::\d+)?: (?s)(.*)$`)

// templateError returns the position and the message of a parse error.
func templateError(text string, err error) (start, end int, message string) {
	message, end = err.Error(), len(text)
	m := templateErrorForm().FindStringSubmatch(message)
	if m == nil {
		return 0, end, message
	}
	message = m[2]
	line, _ := strconv.Atoi(m[1])
	lines := strings.SplitAfter(text, "\n")
	for i := range min(line-1, len(lines)) {
		start += len(lines[i])
	}
	if line >= 1 && line <= len(lines) {
		end = start + len(strings.TrimRight(lines[line-1], "\r\n"))
	}
	if open := strings.Index(text[start:end], "{{"); open >= 0 {
		start += open
	}
	return start, max(start, end), strings.TrimSpace(strings.Split(message, "\n")[0])
}

// A base is the name that a dot or a variable of a template stands for. The root has an empty path.
type base struct {
	path []string
	// guarded is set if the template may skip what it reads from the base: the base is tested by with, or is nil if it
	// does not exist.
	guarded bool
}

// join returns the base for a part of b.
func (b *base) join(names ...string) *base {
	if b == nil {
		return nil
	}
	return &base{path: slices.Concat(b.path, names), guarded: b.guarded}
}

// states reports whether the base is the object of all states.
func (b *base) states() bool { return b != nil && len(b.path) == 1 && b.path[0] == "states" }

// scope holds what the dot and the variables of a template stand for; nil if that is not a name.
type scope struct {
	dot  *base
	vars map[string]*base
	// tested are names that may be missing and that an enclosing block tests, as in {{if index .states "a"}}.
	tested [][]string
	in     []string // the templates that are being expanded
}

// within returns a scope for a part of a template with another dot.
func (s scope) within(dot *base) scope {
	return scope{dot: dot, vars: maps.Clone(s.vars), tested: slices.Clone(s.tested), in: s.in}
}

// resolve returns the name that a part of a template stands for, or nil.
func (s scope) resolve(n goparse.Node) *base {
	switch x := n.(type) {
	case *goparse.DotNode:
		return s.dot
	case *goparse.FieldNode:
		return s.dot.join(x.Ident...)
	case *goparse.VariableNode:
		return s.vars[x.Ident[0]].join(x.Ident[1:]...)
	case *goparse.ChainNode:
		return s.resolve(x.Node).join(x.Field...)
	case *goparse.IdentifierNode:
		if slices.Contains(roots, x.Ident) {
			return &base{path: []string{x.Ident}}
		}
	case *goparse.PipeNode:
		if x != nil && len(x.Cmds) == 1 {
			return s.resolve(x.Cmds[0])
		}
	case *goparse.CommandNode:
		if len(x.Args) == 1 {
			return s.resolve(x.Args[0])
		}
		if keys := indexKeys(x); len(keys) > 0 && len(keys) == len(x.Args)-2 {
			if b := s.resolve(x.Args[1]); b != nil {
				return &base{path: slices.Concat(b.path, keys), guarded: true}
			}
		}
	}
	return nil
}

// indexKeys returns the leading literal keys of a call of index, or nil.
func indexKeys(c *goparse.CommandNode) []string {
	if id, ok := c.Args[0].(*goparse.IdentifierNode); !ok || id.Ident != "index" || len(c.Args) < 3 {
		return nil
	}
	var keys []string
	for _, a := range c.Args[2:] {
		name, ok := a.(*goparse.StringNode)
		if !ok {
			break
		}
		keys = append(keys, name.Text)
	}
	return keys
}

// collect records the names that a template reads.
func (t *template) collect(n goparse.Node, s scope) {
	switch x := n.(type) {
	case *goparse.ListNode:
		if x != nil {
			for _, one := range x.Nodes {
				t.collect(one, s)
			}
		}
	case *goparse.ActionNode:
		t.collect(x.Pipe, s)
	case *goparse.PipeNode:
		if x == nil {
			return
		}
		for _, c := range x.Cmds {
			t.collect(c, s)
		}
		if len(x.Decl) == 1 {
			s.vars[x.Decl[0].Ident[0]] = s.resolve(&goparse.PipeNode{Cmds: x.Cmds})
		}
	case *goparse.CommandNode:
		args := x.Args
		if t.spelled(x, s) {
			args = args[2:]
		}
		for _, a := range args {
			t.collect(a, s)
		}
	case *goparse.FieldNode:
		t.add(s, s.resolve(x), int(x.Pos), ".", x.Ident)
	case *goparse.VariableNode:
		b := s.resolve(x)
		switch {
		case len(x.Ident) > 1:
			t.add(s, b, int(x.Pos), x.Ident[0]+".", x.Ident[1:])
		case b != nil && len(b.path) == 0:
			t.everything(int(x.Pos))
		}
	case *goparse.ChainNode:
		if id, ok := x.Node.(*goparse.IdentifierNode); ok && slices.Contains(roots, id.Ident) {
			t.add(s, s.resolve(x), int(id.Pos), "", append([]string{id.Ident}, x.Field...))
			return
		}
		t.collect(x.Node, s)
		if b := s.resolve(x); b != nil && len(b.path) > len(x.Field) {
			t.indexed = append(t.indexed, foreignPath{written: b.path, start: int(x.Pos), end: int(x.Pos) + 1})
		}
	case *goparse.IdentifierNode:
		t.calls = append(t.calls, x)
		t.add(s, s.resolve(x), int(x.Pos), "", []string{x.Ident})
	case *goparse.DotNode:
		if s.dot != nil && len(s.dot.path) == 0 {
			t.everything(int(x.Pos))
		}
	case *goparse.IfNode:
		t.branch(&x.BranchNode, s, func(s scope) *base { return s.dot })
	case *goparse.RangeNode:
		t.keyed = t.keyed || len(x.Pipe.Decl) > 1
		t.visited(x.Pipe, s)
		t.branch(&x.BranchNode, s, func(s scope) *base {
			for _, v := range x.Pipe.Decl { // keys and elements
				delete(s.vars, v.Ident[0])
			}
			return nil
		})
	case *goparse.WithNode:
		t.visited(x.Pipe, s)
		t.branch(&x.BranchNode, s, func(s scope) *base { return s.resolve(&goparse.PipeNode{Cmds: x.Pipe.Cmds}) })
	case *goparse.TemplateNode:
		t.collect(x.Pipe, s)
		t.expand(x, s)
	}
}

// expand records the names that a called template reads.
func (t *template) expand(call *goparse.TemplateNode, s scope) {
	tree := t.trees[call.Name]
	if tree == nil || slices.Contains(s.in, call.Name) {
		return
	}
	dot := s.resolve(call.Pipe)
	t.collect(tree.Root, scope{dot: dot, vars: map[string]*base{"$": dot}, in: append(slices.Clone(s.in), call.Name)})
}

// everything records that a template reads all names, as in {{json .}}. Variables of the environment are excluded.
func (t *template) everything(pos int) {
	for _, root := range []string{"inputs", "states", "loop"} {
		t.reads = append(t.reads, foreignPath{written: []string{root}, start: pos, end: pos + 1, any: true})
	}
}

// visited records that a block is rendered only if there are states, as in {{range .states}}.
func (t *template) visited(p *goparse.PipeNode, s scope) {
	if b := s.resolve(&goparse.PipeNode{Cmds: p.Cmds}); b.states() {
		t.reads = append(t.reads, foreignPath{
			written: b.path, start: int(p.Pos), end: int(p.Pos) + len(p.String()), members: true,
		})
	}
}

// spelled records a name read with index, as in index .states "my-step". It returns true if the arguments are a
// complete name, as in index . "inputs" "x".
func (t *template) spelled(c *goparse.CommandNode, s scope) bool {
	keys := indexKeys(c)
	if len(keys) == 0 {
		return false
	}
	from := s.resolve(c.Args[1])
	if from == nil {
		return false
	}
	last := c.Args[1+len(keys)].(*goparse.StringNode)
	p := foreignPath{
		written: slices.Concat(from.path, keys), start: int(c.Args[2].Position()),
		end: int(last.Pos) + len(last.Quoted),
	}
	switch {
	case len(from.path) > 0:
		t.indexed = append(t.indexed, p)
	case slices.Contains(roots, keys[0]):
		t.reads = append(t.reads, p)
		return true
	}
	return false
}

// guards reports whether an enclosing block tests a name, or what it is part of.
func (s scope) guards(path []string) bool {
	return slices.ContainsFunc(s.tested, func(tested []string) bool {
		return len(tested) < len(path) && slices.Equal(tested, path[:len(tested)])
	})
}

// tests appends the names that a condition tests and that may be missing or empty.
func (s scope) tests(out [][]string, n goparse.Node) [][]string {
	if b := s.resolve(n); b != nil && (b.guarded || b.states()) { // {{with .states.a}} fails if the state has not run
		return append(out, b.path)
	}
	switch x := n.(type) {
	case *goparse.PipeNode:
		for _, c := range x.Cmds {
			out = s.tests(out, c)
		}
	case *goparse.CommandNode:
		for _, a := range x.Args {
			out = s.tests(out, a)
		}
	}
	return out
}

// branch records the names that a block reads. inner returns its dot; it may change the variables of the block.
func (t *template) branch(b *goparse.BranchNode, s scope, inner func(scope) *base) {
	in := s.within(s.dot) // variables of the pipe end with the block
	t.collect(b.Pipe, in)
	t.collect(b.ElseList, in.within(s.dot))
	in.tested = in.tests(in.tested, b.Pipe)
	in.dot = inner(in)
	t.collect(b.List, in)
}

// add records a name. The parser reports the position of some part of it, so add searches for the name around there.
func (t *template) add(s scope, b *base, pos int, lead string, names []string) {
	if b == nil || len(b.path) == 0 {
		return
	}
	word := lead + strings.Join(names, ".")
	p := foreignPath{written: b.path, start: 0, end: len(t.text), guarded: b.guarded || s.guards(b.path)}
	from := max(0, min(pos, len(t.text))-len(word))
	if i := strings.Index(t.text[from:], word); i >= 0 {
		p.start = from + i + len(lead)
		p.end = from + i + len(word)
	}
	t.reads = append(t.reads, p)
}

// paths implements foreign.
func (t *template) paths() []foreignPath { return t.reads }

// eval implements foreign.
func (t *template) eval(env Env) (any, error) { return t.render(env, TemplateOptions{}, nil) }

// maxFilled limits the result of a template.
const maxFilled = 64 << 20

var errTooLarge = errors.New("the text exceeds 64 MiB")

// bounded is a text of limited size.
type bounded struct{ strings.Builder }

// Write implements io.Writer. An error ends the template that is being rendered.
func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxFilled {
		return 0, errTooLarge
	}
	return b.Builder.Write(p)
}

// render returns the text. sh is nil if the text is not for a shell.
func (t *template) render(env Env, o TemplateOptions, sh *ShellOptions) (string, error) {
	if t.parsed == nil {
		return t.text, nil
	}
	var refused error
	tree, _ := valueTree(env, t.reads, func(written []string, v any) any {
		if v == nil && written[0] == "loop" && plainName(written[len(written)-1]) == "item" {
			return noItem(nil)
		}
		if sh == nil {
			return presentable(v)
		}
		marked, err := sh.markData(written[0], v, t.keyed && !sh.prompt)
		if err != nil && refused == nil {
			refused = err
		}
		return marked
	})
	if refused != nil {
		return "", typeError(t.text, fillHelp, "The template could not be filled in: %v.", refused)
	}
	// The functions depend on the values, and templates are rendered concurrently: each rendering has its own copy.
	clone, err := t.parsed.Clone()
	if err != nil {
		return "", err
	}
	var b bounded
	if err := clone.Funcs(functions(o, sh, tree)).Execute(&b, tree); err != nil {
		return "", t.explain(env, err)
	}
	return b.String(), nil
}

// explain returns the error for a template that failed. The most likely reason, and the one that a person can do
// something about, is a name without a value.
func (t *template) explain(env Env, err error) error {
	for _, p := range t.reads {
		if _, ok := lookup(env, p.written); !ok && !p.guarded {
			help := "Check that the step ran before, and the spelling of the name."
			switch p.written[0] {
			case "inputs":
				help = "Pass the input, or declare a default."
			case "env":
				help = "Set the variable in the environment of the run."
			}
			return typeError(t.text, help, "There is no %s.", strings.Join(p.written, "."))
		}
	}
	message := err.Error()
	if exec, ok := errors.AsType[gotemplate.ExecError](err); ok {
		if inner := errors.Unwrap(exec.Err); inner != nil {
			message = inner.Error()
		}
		if m := templateErrorForm().FindStringSubmatch(message); m != nil {
			message = m[2]
		}
	}
	return typeError(t.text, fillHelp, "The template could not be filled in: %s.", message)
}

const fillHelp = "Check what the template does with its values."

// items is a list: a YAML or JSON list with templates in its texts, or the result of a template.
type items struct {
	fixed []any       // with a *template for each text that contains actions
	parts []*template // the templates in fixed
	fill  *template
}

// readItems parses a list. It returns nil after an error.
func readItems(text string, report reporter) foreign {
	it := &items{}
	if json.Unmarshal([]byte(text), &it.fixed) == nil {
		whole := func(code diag.Code, _, _ int, message, help string) { report(code, 0, len(text), message, help) }
		if !it.prepare(it.fixed, whole) {
			return nil
		}
		return it
	}
	t, ok := readTemplate(text, report).(*template)
	if !ok || t == nil {
		return nil
	}
	return &items{fill: t}
}

// prepare parses all templates in a value, recursively.
func (it *items) prepare(v any, report reporter) bool {
	text := func(v any) (any, bool) {
		s, isText := v.(string)
		if !isText || !strings.Contains(s, "{{") {
			return v, it.prepare(v, report)
		}
		t, ok := readTemplate(s, report).(*template)
		it.parts = append(it.parts, t)
		return t, ok && t != nil
	}
	ok := true
	switch x := v.(type) {
	case []any:
		for i := range x {
			var fine bool
			x[i], fine = text(x[i])
			ok = ok && fine
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(x)) {
			var fine bool
			x[key], fine = text(x[key])
			ok = ok && fine
		}
	}
	return ok
}

// filled returns a prepared value with its templates rendered.
func filled(v any, env Env) (any, error) {
	var err error
	switch x := v.(type) {
	case *template:
		return x.render(env, TemplateOptions{}, nil)
	case []any:
		out := make([]any, len(x))
		for i := range x {
			if out[i], err = filled(x[i], env); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(x))
		for key := range x {
			if out[key], err = filled(x[key], env); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return v, nil
}

// paths implements foreign.
func (it *items) paths() []foreignPath {
	if it.fill != nil {
		return it.fill.reads
	}
	var out []foreignPath
	for _, t := range it.parts {
		for _, p := range t.reads {
			// the position is not known
			out = append(out, foreignPath{written: p.written, start: 0, end: -1, any: p.any})
		}
	}
	return out
}

// eval returns the items of a list.
func (it *items) eval(env Env) (any, error) {
	if it.fill == nil {
		return filled(it.fixed, env)
	}
	// If the template is a single name of a list, return that list: rendering it as text and splitting it may not yield
	// the same elements.
	if _, onlyName := braced(strings.TrimSpace(it.fill.text)); onlyName && len(it.fill.reads) == 1 {
		if v, ok := lookup(env, it.fill.reads[0].written); ok {
			if l, isList := v.([]any); isList {
				return l, nil
			}
		}
	}
	text, err := it.fill.render(env, TemplateOptions{}, nil)
	if err != nil {
		return nil, err
	}
	return splitItems(text), nil
}

// splitItems parses a list: JSON, or words separated by commas.
func splitItems(text string) any {
	text = strings.TrimSpace(text)
	var out []any
	if json.Unmarshal([]byte(text), &out) == nil {
		return out
	}
	if text == "" {
		return []any{}
	}
	return xslices.Map(strings.Split(text, ","), func(part string) any { return strings.TrimSpace(part) })
}
