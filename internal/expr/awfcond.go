package expr

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	exprlang "github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	langparser "github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/xslices"
)

// condition is an expr-lang expression. Conditions are cached and shared (see recent), so they must not be changed;
// callers that need another one copy it.
type condition struct {
	program *vm.Program
	root    ast.Node
	reads   []foreignPath
	text    string
	unknown *ast.IdentifierNode // a function that does not exist
	// verbatim turns off the conversion of inputs to numbers, because version 1.10 must not become 1.1 if nothing is
	// computed.
	verbatim bool
}

// isName reports whether the expression is a single name.
func (c *condition) isName() bool {
	return len(c.reads) == 1 && strings.TrimSpace(c.text) == strings.Join(c.reads[0].written, ".")
}

// unstable are the builtins whose results may differ between evaluations: with the time or, since Go does not order the
// keys of maps, at random. They are disabled, because the same facts must always lead to the same decision.
var unstable = []string{"now", "keys", "values", "toPairs"}

// typedValue is the function that converts the output of a state to a number or a boolean. Files cannot name it.
const typedValue = "$typed"

// ownFunctions are the functions that AWF adds to expr-lang.
var ownFunctions = []string{"Contains", "StartsWith", "EndsWith", "has_prefix", "has_suffix", asText}

// asText is the function that formats a value like a template.
const asText = "text"

// conditionOptions returns the options for expr-lang, including ownFunctions. Names are capitalized where expr-lang has
// an operator of that name; sameLength renames the calls.
func conditionOptions() []exprlang.Option {
	texts := func(name string, do func(a, b string) bool) exprlang.Option {
		return exprlang.Function(name, func(args ...any) (any, error) {
			return do(fmt.Sprint(args[0]), fmt.Sprint(args[1])), nil
		}, new(func(any, any) bool))
	}
	out := []exprlang.Option{
		exprlang.AllowUndefinedVariables(),
		exprlang.MaxNodes(maxText),
		texts("Contains", strings.Contains),
		texts("StartsWith", strings.HasPrefix),
		texts("EndsWith", strings.HasSuffix),
		texts("has_prefix", strings.HasPrefix),
		texts("has_suffix", strings.HasSuffix),
		exprlang.Function(asText, func(args ...any) (any, error) {
			return asWritten(args[0]), nil
		}, new(func(any) string)),
		exprlang.Function(typedValue, func(args ...any) (any, error) {
			if s, ok := args[0].(string); ok {
				return coerced(strings.TrimSpace(s)), nil
			}
			return args[0], nil
		}, new(func(any) any)),
	}
	return append(out, xslices.Map(unstable, exprlang.DisableBuiltin)...)
}

// asWritten formats a value like a template.
func asWritten(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(presentable(v))
}

// readCondition parses a condition. It returns nil after an error.
func readCondition(text string, report reporter) foreign {
	c := recent.condition(text)
	if c == nil {
		if c = parseCondition(text, report); c == nil {
			return nil
		}
		recent.keep(c)
	}
	return c
}

// conditions caches parsed conditions. Workflows repeat the same ones, each is parsed when the file is read and again
// when a run starts, and parsing one takes longer than most of the work of a step.
type conditions struct {
	mu    sync.Mutex
	known map[string]*condition // by their texts
}

// maxConditions limits the cache; when it is full, it is cleared.
const maxConditions = 1000

// recent is the cache of this process. A parsed condition does not change, so runs share it.
var recent conditions

// condition returns the parsed condition with a text, or nil.
func (k *conditions) condition(text string) *condition {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known[text]
}

// keep adds a condition to the cache.
func (k *conditions) keep(c *condition) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil || len(k.known) >= maxConditions {
		k.known = map[string]*condition{}
	}
	k.known[c.text] = c
}

// parseCondition parses a condition: it rewrites AWF's own syntax, parses the result to find the names and unknown
// functions, and compiles it. It returns nil after an error.
func parseCondition(text string, report reporter) *condition {
	code := sameLength(text)
	config := conf.CreateNew()
	for _, o := range conditionOptions() {
		o(config)
	}
	tree, err := langparser.ParseWithConfig(code, config)
	if err != nil {
		start, end, message := syntax(text, err)
		help := conditionHelp
		if strings.Contains(message, `Operator("=")`) {
			help = "Use == to compare. " + help
		}
		report(CodeForeign, start, end, "The condition is invalid: "+message+".", help)
		return nil
	}
	// Clone the text, so that the cache does not keep the whole file in memory.
	c := &condition{text: strings.Clone(text), root: tree.Node}
	c.collect(tree.Node, code, nil)
	if c.unknown != nil {
		// expr-lang counts characters, diagnostics count bytes.
		start := byteOffset(code, c.unknown.Location().From)
		report(CodeForeign, start, min(start+len(c.unknown.Value), len(text)),
			fmt.Sprintf("There is no function %q.", c.unknown.Value),
			"Use contains, startsWith, endsWith, len, or another function of expr-lang that does not depend on the "+
				"time.")
		return nil
	}
	options := append(conditionOptions(), exprlang.Patch(optional{}), exprlang.Patch(typed{}))
	program, err := exprlang.Compile(code, options...)
	if err != nil {
		start, end, message := syntax(text, err)
		report(CodeForeign, start, end, "The condition is invalid: "+message+".", conditionHelp)
		return nil
	}
	c.program = program
	return c
}

const conditionHelp = `Write it like states.build.ExitCode == 0 and inputs.mode == "fast".`

// syntax returns the position and the message of an error of expr-lang.
func syntax(text string, err error) (start, end int, message string) {
	end = len(text)
	message = err.Error()
	if at, ok := errors.AsType[*file.Error](err); ok {
		message = at.Message
		runes := []rune(text)
		if at.From >= 0 && at.From <= len(runes) {
			start = len(string(runes[:at.From]))
			if to := min(at.To, len(runes)); to > at.From {
				end = len(string(runes[:to]))
			}
		}
		if start >= end {
			start, end = max(0, len(text)-1), len(text)
		}
	}
	message, _, _ = strings.Cut(message, "\n")
	return start, end, strings.TrimSuffix(message, ".")
}

// sameLength rewrites the syntax that AWF adds to expr-lang: contains(a, b) as a function, and names in template
// braces, which are texts inside of quotes. It keeps the length of the text, so that offsets stay valid.
func sameLength(text string) string {
	b := []byte(text)
	for i := 0; i < len(b); i++ {
		if b[i] == '\'' || b[i] == '"' || b[i] == '`' {
			end := closing(b, i)
			if end < 0 {
				break
			}
			asTexts(b, i, end)
			i = end
			continue
		}
		if b[i] == '{' && i+1 < len(b) && b[i+1] == '{' {
			end := strings.Index(string(b[i:]), "}}")
			if end < 0 {
				break
			}
			if name, ok := braced(string(b[i : i+end+2])); ok {
				blank(b, i, i+end+2, name)
			}
			i += end + 1
			continue
		}
		for _, word := range []string{"contains", "startsWith", "endsWith"} {
			if calls(b, i, word) {
				b[i] = byte(unicode.ToUpper(rune(b[i])))
			}
		}
	}
	return string(b)
}

// braced returns the name in {{.name}} or {{name}}.
func braced(s string) (string, bool) {
	inner, ok := strings.CutPrefix(s, "{{")
	if !ok {
		return "", false
	}
	inner, ok = strings.CutSuffix(inner, "}}")
	inner = strings.TrimSpace(strings.Trim(inner, "-"))
	if !ok || inner == "" || strings.ContainsAny(inner, "{} |") {
		return "", false
	}
	return strings.TrimPrefix(inner, "."), true
}

// asTexts rewrites the names in braces of a quoted text: a name that is the whole text is put in parentheses, others
// are concatenated with the rest.
func asTexts(b []byte, open, end int) {
	if name, ok := braced(strings.TrimSpace(string(b[open+1 : end]))); ok {
		nameText(b, open, end+1, name)
		b[open], b[end] = '(', ')'
		return
	}
	quote := b[open]
	for at := open + 1; at < end; {
		begin := strings.Index(string(b[at:end]), "{{")
		if begin < 0 {
			return
		}
		begin += at
		length := strings.Index(string(b[begin:end]), "}}")
		if length < 0 {
			return
		}
		at = begin + length + 2
		if name, ok := braced(string(b[begin:at])); ok && isName(name) {
			nameText(b, begin, at, name)
			b[begin], b[begin+1], b[at-2], b[at-1] = quote, '+', '+', quote
		}
	}
}

// isName reports whether s is a name of AWF.
func isName(s string) bool {
	root, _, _ := strings.Cut(s, ".")
	return slices.Contains(roots, root) && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '.' && r < utf8.RuneSelf && !wordByte(byte(r))
	})
}

// nameText is like blank for a name that is replaced by the text of its value. It encodes the name as one identifier
// that does not occur in files; textName decodes it.
func nameText(b []byte, start, end int, name string) {
	at := blank(b, start, end, name)
	if !isName(name) {
		return // reported by the checks for unknown names
	}
	b[at] = '$'
	for i := range len(name) {
		if b[at+i] == '.' {
			b[at+i] = '$'
		}
	}
}

// textName returns the name that nameText encoded as an identifier.
func textName(word string) ([]string, bool) {
	rest, ok := strings.CutPrefix(word, "$")
	path := strings.Split(rest, "$")
	for _, root := range roots {
		if ok && root[1:] == path[0] {
			path[0] = root
			return path, true
		}
	}
	return nil, false
}

// blank replaces everything around a name by spaces and returns its offset.
func blank(b []byte, start, end int, name string) int {
	at := start + strings.Index(string(b[start:end]), name)
	for i := start; i < end; i++ {
		if i < at || i >= at+len(name) {
			b[i] = ' '
		}
	}
	return at
}

// closing returns the offset of the quote that closes the one at open, or -1.
func closing(b []byte, open int) int {
	for i := open + 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case b[open]:
			return i
		}
	}
	return -1
}

// calls reports whether the word at an offset is a function call rather than an operator between two operands.
func calls(b []byte, at int, word string) bool {
	if !strings.HasPrefix(string(b[at:]), word+"(") {
		return false
	}
	before := strings.TrimRight(string(b[:at]), " \t\n")
	if before == "" {
		return true
	}
	if len(before) == at && wordByte(before[len(before)-1]) {
		return false // a suffix of a longer word
	}
	switch last, _ := utf8.DecodeLastRuneInString(before); {
	case strings.ContainsRune("([,!&|=<>?:+", last):
		return true
	case !wordByte(before[len(before)-1]):
		return false
	}
	words := strings.FieldsFunc(before, func(r rune) bool { return r > 127 || !wordByte(byte(r)) })
	switch words[len(words)-1] {
	case "and", "or", "not":
		return true
	}
	return false
}

// wordByte reports whether a byte can be part of an identifier.
func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// collect records the names that a tree reads. Locals are the variables that "let" declares around it: the names that
// they stand for, or nil.
func (c *condition) collect(n ast.Node, code string, locals map[string][]string) {
	if path, ok := namePath(n); ok {
		known, local := locals[path[0]]
		if local && known == nil {
			return
		}
		start, end := extent(n, code)
		if local {
			path = append(slices.Clone(known), path[1:]...)
		}
		if path[0] == "$env" && len(path) > 1 {
			path = path[1:]
		}
		p := foreignPath{written: path, start: start, end: end}
		if name, ok := textName(path[0]); ok {
			p.text, p.written = path[0], name
		}
		c.reads = append(c.reads, p)
		return
	}
	if whole := computedMember(n); whole != nil {
		before := len(c.reads)
		c.collect(whole, code, locals)
		for i := range c.reads[before:] {
			c.reads[before+i].computed = true
		}
	}
	if call, ok := n.(*ast.CallNode); ok && c.unknown == nil {
		if callee, named := call.Callee.(*ast.IdentifierNode); named && !slices.Contains(ownFunctions, callee.Value) {
			c.unknown = callee
		}
	}
	if let, ok := n.(*ast.VariableDeclaratorNode); ok {
		c.collect(let.Value, code, locals)
		locals = maps.Clone(locals)
		if locals == nil {
			locals = map[string][]string{}
		}
		locals[let.Name], _ = namePath(let.Value)
		c.collect(let.Expr, code, locals)
		return
	}
	for _, kid := range kids(n) {
		if kid != nil {
			c.collect(kid, code, locals)
		}
	}
}

// computedMember returns the name whose member a node reads by a computed name, as in states[inputs.x]; nil if it reads
// none.
func computedMember(n ast.Node) ast.Node {
	var whole, key ast.Node
	switch x := n.(type) {
	case *ast.MemberNode:
		if !x.Method {
			whole, key = x.Node, x.Property
		}
	case *ast.BuiltinNode:
		if x.Name == "get" && len(x.Arguments) == 2 {
			whole, key = x.Arguments[0], x.Arguments[1]
		}
	}
	if whole == nil {
		return nil
	}
	if _, literal := key.(*ast.StringNode); literal {
		return nil
	}
	if _, named := namePath(whole); !named {
		return nil
	}
	return whole
}

// byteOffset returns the offset of the character with a number.
func byteOffset(s string, runes int) int {
	for i := range s {
		if runes == 0 {
			return i
		}
		runes--
	}
	return len(s)
}

// extent returns the bytes of a node that namePath accepts.
func extent(n ast.Node, code string) (start, end int) {
	start, end = byteOffset(code, n.Location().From), byteOffset(code, n.Location().To)
	switch x := n.(type) {
	case *ast.MemberNode:
		start, _ = extent(x.Node, code)
	case *ast.ChainNode:
		return extent(x.Node, code)
	case *ast.BuiltinNode:
		_, end = extent(x.Arguments[len(x.Arguments)-1], code)
		end += strings.IndexByte(code[end:], ')') + 1
	case *ast.BinaryNode:
		start, _ = extent(x.Left, code)
		_, end = extent(x.Right, code)
	}
	return start, end
}

// namePath returns the path of a node that is a dotted name. get(states, "a") is one, too, and so is "a" in states.
func namePath(n ast.Node) ([]string, bool) {
	switch x := n.(type) {
	case *ast.IdentifierNode:
		return []string{x.Value}, true
	case *ast.ChainNode:
		return namePath(x.Node)
	case *ast.MemberNode:
		if x.Method {
			return nil, false
		}
		path, ok := namePath(x.Node)
		if !ok {
			return nil, false
		}
		if p, ok := x.Property.(*ast.StringNode); ok {
			return append(path, p.Value), true
		}
	case *ast.BuiltinNode:
		if x.Name == "get" && len(x.Arguments) == 2 {
			path, ok := namePath(x.Arguments[0])
			if p, literal := x.Arguments[1].(*ast.StringNode); ok && literal {
				return append(path, p.Value), true
			}
		}
	case *ast.BinaryNode:
		if path, ok := namePath(x.Right); x.Operator == "in" && ok && slices.Contains(keyed, path[len(path)-1]) {
			if p, literal := x.Left.(*ast.StringNode); literal && len(path) == 1 {
				return append(path, p.Value), true
			}
		}
	}
	return nil, false
}

// keyed are the roots whose keys are names.
var keyed = []string{"states", "inputs", "env"}

// optional makes the properties of missing values missing, not errors.
type optional struct{}

// Visit implements ast.Visitor.
func (optional) Visit(n *ast.Node) {
	if m, ok := (*n).(*ast.MemberNode); ok && !m.Method && !m.Optional {
		m.Optional = true
		ast.Patch(n, &ast.ChainNode{Node: m})
	}
}

// typed converts the output of a state, which is a text, where it is compared with a number or a boolean.
type typed struct{}

// Visit implements ast.Visitor.
func (typed) Visit(n *ast.Node) {
	b, ok := (*n).(*ast.BinaryNode)
	if !ok || !slices.Contains([]string{"==", "!=", "<", "<=", ">", ">=", "in"}, b.Operator) {
		return
	}
	for i, side := range []*ast.Node{&b.Left, &b.Right} {
		path, named := namePath(*side)
		other := []ast.Node{b.Right, b.Left}[i]
		if named && path[0] == "states" && strings.EqualFold(path[len(path)-1], "Output") && hasType(other) {
			ast.Patch(side, &ast.CallNode{Callee: &ast.IdentifierNode{Value: typedValue}, Arguments: []ast.Node{*side}})
		}
	}
}

// hasType reports whether a node is a number or a boolean, or a list of them.
func hasType(n ast.Node) bool {
	if list, ok := n.(*ast.ArrayNode); ok {
		return len(list.Nodes) > 0 && !slices.ContainsFunc(list.Nodes, func(one ast.Node) bool { return !hasType(one) })
	}
	switch constant(n).(type) {
	case bool, float64:
		return true
	}
	return false
}

// kids returns the children of a node that can read names. The name of a called function is no child.
func kids(n ast.Node) []ast.Node {
	switch x := n.(type) {
	case *ast.UnaryNode:
		return []ast.Node{x.Node}
	case *ast.BinaryNode:
		return []ast.Node{x.Left, x.Right}
	case *ast.ChainNode:
		return []ast.Node{x.Node}
	case *ast.MemberNode:
		return []ast.Node{x.Node, x.Property}
	case *ast.SliceNode:
		return []ast.Node{x.Node, x.From, x.To}
	case *ast.CallNode:
		if _, named := x.Callee.(*ast.IdentifierNode); named {
			return x.Arguments
		}
		return append([]ast.Node{x.Callee}, x.Arguments...)
	case *ast.BuiltinNode:
		return x.Arguments
	case *ast.PredicateNode:
		return []ast.Node{x.Node}
	case *ast.ConditionalNode:
		return []ast.Node{x.Cond, x.Exp1, x.Exp2}
	case *ast.VariableDeclaratorNode:
		return []ast.Node{x.Value, x.Expr}
	case *ast.SequenceNode:
		return x.Nodes
	case *ast.ArrayNode:
		return x.Nodes
	case *ast.MapNode:
		return x.Pairs
	case *ast.PairNode:
		return []ast.Node{x.Key, x.Value}
	}
	return nil
}

// paths implements foreign.
func (c *condition) paths() []foreignPath { return c.reads }

// eval returns the value. Missing values are nil. A test that fails because of one is false, not an error.
func (c *condition) eval(env Env) (any, error) {
	v, missing, err := c.run(env)
	if err == nil || !missing {
		return v, err
	}
	v, err = c.parts(env)
	if v == nil && err == nil {
		return false, nil
	}
	return v, err
}

// run evaluates the program. It also reports whether a value that the condition reads is missing.
func (c *condition) run(env Env) (v any, missing bool, err error) {
	tree, missing := valueTree(env, c.reads, func(written []string, v any) any {
		if s, ok := v.(string); ok && !c.verbatim && written[0] == "inputs" && len(written) == 2 {
			return coerced(s)
		}
		return withIntegers(v)
	})
	for _, p := range c.reads {
		missing = missing || p.computed
		if p.text != "" {
			if v, ok := lookup(env, p.written); ok {
				tree[p.text] = asWritten(v)
			}
		}
	}
	v, err = exprlang.Run(c.program, tree)
	if err != nil {
		_, _, message := syntax(c.text, err)
		return nil, missing, typeError(c.text, "Compare values of one type.", "%s has no value: %s.", c.text, message)
	}
	v, err = plainData(v)
	return v, missing, err
}

// parts evaluates a condition that fails as a whole because a value is missing, operand by operand. An operand that
// fails because of the missing value is nil.
func (c *condition) parts(env Env) (any, error) {
	operand := func(n ast.Node) (any, error) {
		part, ok := readCondition(n.String(), func(diag.Code, int, int, string, string) {}).(*condition)
		if !ok || part == nil {
			return nil, nil
		}
		own := *part // the cached condition is shared
		own.verbatim = c.verbatim
		v, missing, err := own.run(env)
		if err != nil && missing {
			return own.parts(env)
		}
		return v, err
	}
	truth := func(n ast.Node) (bool, error) {
		v, err := operand(n)
		b, ok := v.(bool)
		if err == nil && v != nil && !ok {
			err = typeError(c.text, "Compare values of one type.", "%s is neither true nor false.", n)
		}
		return b, err
	}
	switch x := c.root.(type) {
	case *ast.UnaryNode:
		if x.Operator == "not" || x.Operator == "!" {
			b, err := truth(x.Node)
			return !b, err
		}
	case *ast.ConditionalNode:
		b, err := truth(x.Cond)
		switch {
		case err != nil:
			return nil, err
		case b:
			return operand(x.Exp1)
		}
		return operand(x.Exp2)
	case *ast.VariableDeclaratorNode:
		return operand(inlined(x))
	case *ast.BinaryNode:
		switch x.Operator {
		case "and", "&&", "or", "||":
			b, err := truth(x.Left)
			if either := x.Operator == "or" || x.Operator == "||"; err != nil || b == either {
				return b, err
			}
			return truth(x.Right)
		case "??":
			if v, err := operand(x.Left); v != nil || err != nil {
				return v, err
			}
			return operand(x.Right)
		case "==", "!=":
			left, err := operand(x.Left)
			if err != nil {
				return nil, err
			}
			right, err := operand(x.Right)
			return reflect.DeepEqual(left, right) == (x.Operator == "=="), err
		}
	}
	return nil, nil
}

// inlined returns the expression of a "let", with the value in place of the variable.
func inlined(let *ast.VariableDeclaratorNode) ast.Node {
	tree, err := langparser.Parse(let.Expr.String()) // a copy
	if err != nil {
		return let.Expr
	}
	ast.Walk(&tree.Node, variable{let.Name, let.Value})
	return tree.Node
}

// variable replaces a variable by its value.
type variable struct {
	name  string
	value ast.Node
}

// Visit implements ast.Visitor.
func (v variable) Visit(n *ast.Node) {
	if id, ok := (*n).(*ast.IdentifierNode); ok && id.Value == v.name {
		*n = v.value
	}
}

// computed is a number, or an expression or template that yields one.
type computed struct {
	direct foreign   // an expression without braces, or entirely in braces
	fill   *template // otherwise a template, whose result is evaluated
}

// readNumber parses a number: 5, {{.inputs.n}}, {{.inputs.a * .inputs.b}}, {{.inputs.n}} + 1.
func readNumber(text string, report reporter) foreign {
	trimmed := strings.TrimSpace(text)
	inner, opened := strings.CutPrefix(trimmed, "{{")
	inner, closed := strings.CutSuffix(inner, "}}")
	switch {
	case !strings.Contains(text, "{{"):
		if c := readCondition(text, report); c != nil {
			return &computed{direct: c}
		}
		return nil
	case opened && closed && !strings.Contains(inner, "{{") && strings.ContainsAny(inner, "+*/%-"):
		// The documented form is not a Go template: it computes with dotted names.
		shift := strings.Index(text, inner)
		within := func(code diag.Code, start, end int, message, help string) {
			report(code, start+shift, end+shift, message, help)
		}
		if c, ok := readCondition(undotted(inner), within).(*condition); ok && c != nil {
			here := *c // the cached condition is shared
			here.reads = slices.Clone(c.reads)
			for i := range here.reads {
				here.reads[i].start += shift
				here.reads[i].end += shift
			}
			return &computed{direct: &here}
		}
		return nil
	}
	if t, ok := readTemplate(text, report).(*template); ok && t != nil {
		return &computed{fill: t}
	}
	return nil
}

// undotted replaces the dot before a name by a space.
func undotted(s string) string {
	b := []byte(s)
	for i := range b {
		begins := i == 0 || !wordByte(b[i-1]) && b[i-1] != ')' && b[i-1] != ']'
		if b[i] == '.' && begins && i+1 < len(b) && (b[i+1] < '0' || b[i+1] > '9') {
			b[i] = ' '
		}
	}
	return string(b)
}

// paths implements foreign.
func (n *computed) paths() []foreignPath {
	if n.fill != nil {
		return n.fill.paths()
	}
	return n.direct.paths()
}

// eval returns the number. A template is filled first; its text must be a number or a computation without names,
// because values must not become code.
func (n *computed) eval(env Env) (any, error) {
	direct := n.direct
	if n.fill != nil {
		text, err := n.fill.render(env, TemplateOptions{}, nil)
		if err != nil {
			return nil, err
		}
		wrong := ""
		direct = readCondition(text, func(_ diag.Code, _, _ int, message, _ string) { wrong = message })
		if wrong != "" || direct == nil || len(direct.paths()) > 0 { // a name instead of a number
			return nil, typeError(text, "Use an integer or an integer expression.", "%q is not a number.", text)
		}
	}
	v, err := direct.eval(env)
	if err != nil {
		return nil, err
	}
	if s, ok := v.(string); ok {
		if f, isInt := coerced(strings.TrimSpace(s)).(int); isInt {
			return float64(f), nil
		}
	}
	return v, nil
}
