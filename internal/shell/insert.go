package shell

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"mvdan.cc/sh/v3/syntax"

	"github.com/espalier-run/espalier/internal/lazyregexp"
)

// Part is a piece of a command: text by its author, or a value.
type Part struct {
	Text  string
	Value *Value
}

// Value is a value that a command uses.
type Value struct {
	Text    string
	Unknown bool // Text is not known yet: checks that depend on it pass
	OneWord bool // never split into words
	Escaped bool // quoted by the author, as code for a shell
	Trusted bool // becomes part of the command where it cannot be data
}

// Command is a command without its values.
type Command struct {
	Text   string
	Values []string // the values of the variables [Variable](0), [Variable](1), …
}

// Pass returns the command and its environment. A value that would exceed the system's limits, maxOne bytes for a
// variable and maxAll for all of them, is assigned at the beginning of the command instead.
func (c Command) Pass(maxOne, maxAll int) (text string, env []string) {
	var b strings.Builder
	text = c.Text
	if line, rest, ok := strings.Cut(text, "\n"); ok && strings.HasPrefix(line, "#!") {
		b.WriteString(line + "\n")
		text = rest
	}
	for i, v := range c.Values {
		if len(v) > maxOne || len(v) > maxAll {
			b.WriteString(Variable(i) + "=" + Quote(v) + "; ")
			continue
		}
		maxAll -= len(v)
		env = append(env, Variable(i)+"="+v)
	}
	return b.String() + text, env
}

// Standalone returns the command as one text for bash or sh, without an environment. An argument that is one word in
// the shell has its value in quotes; variables for the other values are assigned at the beginning.
func (c Command) Standalone() string {
	if len(c.Values) == 0 {
		return c.Text
	}
	text := c.Text
	if file, err := syntax.NewParser().Parse(strings.NewReader(text), ""); err == nil {
		var words []*syntax.Word
		heredoc := false // in which a value could contain the delimiter
		syntax.Walk(file, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.CallExpr:
				words = append(words, n.Args...)
			case *syntax.Redirect:
				heredoc = heredoc || n.Hdoc != nil
			}
			return true
		})
		for _, word := range words {
			if !heredoc {
				c.quoteValues(word)
			}
		}
		var b strings.Builder
		if syntax.NewPrinter().Print(&b, file) == nil {
			text = strings.TrimSuffix(b.String(), "\n")
		}
	}
	var b strings.Builder
	for i, v := range c.Values {
		if strings.Contains(text, "${"+Variable(i)+"}") {
			b.WriteString(Variable(i) + "=" + Quote(v) + "; ")
		}
	}
	return b.String() + text
}

// quoteValues replaces the variables in a word that the shell does not split by their values.
func (c Command) quoteValues(word *syntax.Word) {
	literal := func(part syntax.WordPart, whole bool) *syntax.Lit {
		pe, ok := part.(*syntax.ParamExp)
		if !ok || pe.Param == nil || pe.Index != nil || pe.Slice != nil || pe.Repl != nil || pe.Exp != nil || pe.Excl ||
			pe.Length || pe.Width {
			return nil
		}
		for i, v := range c.Values {
			if pe.Param.Value == Variable(i) && (whole || v != "" && !specialForm().MatchString(v)) {
				return &syntax.Lit{ValuePos: pe.Pos(), ValueEnd: pe.End(), Value: inDoubleQuotes.Replace(v)}
			}
		}
		return nil
	}
	for i, part := range word.Parts {
		if quoted, ok := part.(*syntax.DblQuoted); ok && !quoted.Dollar {
			for k, inner := range quoted.Parts {
				if lit := literal(inner, true); lit != nil {
					quoted.Parts[k] = lit
				}
			}
		} else if lit := literal(part, false); lit != nil {
			word.Parts[i] = &syntax.SglQuoted{Left: part.Pos(), Right: part.End(), Value: lit.Value}
		}
	}
}

// inDoubleQuotes escapes a value between double quotes.
var inDoubleQuotes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, "`", "\\`")

// Variable returns the name of the variable that holds a value of a command.
func Variable(i int) string { return "__espalier_" + strconv.Itoa(i+1) }

// Error reports a value that cannot be passed as data, or a command that cannot be parsed.
type Error struct {
	Part    int    // the index of the part with the value; -1 if the command cannot be parsed
	Program string // the program that would execute the value, or ""
	Message string
	Help    string
}

func (e *Error) Error() string { return e.Message + ". " + e.Help }

// maxRounds limits how often a command is checked again after a trusted value became a part of it.
const maxRounds = 8

// Insert returns a command for the named shell. Every error is an [*Error].
func Insert(name string, parts []Part) (Command, error) {
	parts = slices.Clone(parts)
	for round := 0; ; round++ {
		command, failed := insert(name, parts)
		if failed == nil {
			failed = checkWords(name, parts)
		}
		if failed == nil {
			return command, nil
		}
		all := round >= maxRounds || failed.Part < 0 || !parts[failed.Part].Value.Trusted
		pasted := false
		for i, p := range parts {
			if p.Value != nil && p.Value.Trusted && (all || failed.Part == i) {
				parts[i], pasted = Part{Text: p.Value.Text}, true
			}
		}
		if !pasted {
			return Command{}, failed
		}
	}
}

// specialForm matches a character that may have a meaning in the shell. A value without one needs no quotes.
var specialForm = lazyregexp.New(`[^A-Za-z0-9_./:=@%+,-]`)

// checkWords checks the untrusted values of a command with trusted ones as words of it: one may be the option or the
// subcommand that makes a program execute its next argument.
func checkWords(name string, parts []Part) *Error {
	words, mixed := slices.Clone(parts), false
	for i, p := range parts {
		if p.Value == nil {
			continue
		}
		if mixed = mixed || !p.Value.Trusted; p.Value.Trusted {
			words[i] = Part{Text: specialForm().ReplaceAllStringFunc(p.Value.Text, func(s string) string {
				if strings.TrimSpace(s) == "" {
					return " "
				}
				return "x"
			})}
		}
	}
	if !mixed {
		return nil
	}
	_, failed := insert(name, words)
	return failed
}

// insert returns a command that passes every value as data.
func insert(name string, parts []Part) (Command, *Error) {
	if !slices.ContainsFunc(parts, func(p Part) bool { return p.Value != nil }) {
		var b strings.Builder
		for _, p := range parts {
			b.WriteString(p.Text)
		}
		return Command{Text: b.String()}, nil
	}
	c := newInsertion(name, parts)
	text := c.join()
	var shebang string
	if line, rest, ok := strings.Cut(text, "\n"); ok && strings.HasPrefix(line, "#!") &&
		!strings.Contains(line, c.prefix) {
		shebang, text = line+"\n", rest
	}
	file, err := c.parse(text)
	if err != nil {
		return Command{}, err
	}
	if c.follow(file); c.err == nil {
		c.rewrite(file)
	}
	if c.err != nil {
		return Command{}, c.err
	}
	var b strings.Builder
	if err := syntax.NewPrinter().Print(&b, file); err != nil {
		return Command{}, &Error{Part: -1, Message: "the command cannot be printed: " + err.Error(), Help: rawHelp}
	}
	if at := c.form.FindStringSubmatch(b.String()); at != nil {
		c.fail(c.number(at), "", "a value cannot be used in this place of a command", rawHelp)
		return Command{}, c.err
	}
	return Command{Text: shebang + b.String(), Values: c.order}, nil
}

// rawHelp is the help of an error for which there is no better place to put the value.
const rawHelp = "Use {{raw …}} if you trust the value"

// insertion is the work on one command. It has four phases: join puts a placeholder, which is a plain word that the
// author's text does not contain, in the place of each value; parse reads that text as shell code; follow checks where
// the values can reach; and rewrite replaces each placeholder by the expansion of a variable. The parser never sees a
// value, so no value can change how the command is read.
type insertion struct {
	shell  string
	parts  []Part
	prefix string         // of placeholders
	form   *regexp.Regexp // of placeholders
	nested bool           // the command is code in another command
	err    *Error         // the first error

	order []string       // the values of variables
	known map[string]int // indexes in order

	vars    map[string]set      // values that may be in a variable, by its name; see positional
	written map[string][]string // texts assigned to a variable, by its name
	funcs   map[string]bool     // functions of the command
	arrays  map[string]bool     // arrays of the command
	assoc   map[string]bool     // associative arrays of the command
	ints    map[string]bool     // integer variables of the command
	numbers map[syntax.Node]bool
	code    map[int]bool // escaped values in code for a shell
	oneWord map[int]bool // values that must not be split here
	checks  bool         // report errors
	changed bool         // vars changed
	shifts  bool         // the command changes its positional parameters
	work    *int         // how many parts have been visited; see maxWork
	output  set          // values in the command that is being visited
	input   set          // values in its standard input
}

// newInsertion returns the work on a command for the named shell. It chooses placeholders that no text of the author
// contains.
func newInsertion(name string, parts []Part) *insertion {
	c := &insertion{
		shell: path.Base(name), parts: parts, known: map[string]int{}, vars: map[string]set{},
		written: map[string][]string{},
		funcs:   map[string]bool{}, arrays: map[string]bool{}, assoc: map[string]bool{}, ints: map[string]bool{},
		numbers: map[syntax.Node]bool{}, code: map[int]bool{}, oneWord: map[int]bool{}, work: new(int),
	}
	c.prefix = "espalierValue"
	for slices.ContainsFunc(parts, func(p Part) bool { return p.Value == nil && strings.Contains(p.Text, c.prefix) }) {
		c.prefix += "x"
	}
	c.form = regexp.MustCompile(c.prefix + `([0-9]+)z`)
	return c
}

// join returns the command with a plain word, its placeholder, for each value.
func (c *insertion) join() string {
	var b strings.Builder
	for i, p := range c.parts {
		if p.Value == nil {
			b.WriteString(p.Text)
		} else {
			fmt.Fprintf(&b, "%s%dz", c.prefix, i)
		}
	}
	return b.String()
}

// parse parses a command. Everything that is not zsh or mksh is read as bash, whose syntax includes that of POSIX
// shells: sh is bash on some systems.
func (c *insertion) parse(text string) (*syntax.File, *Error) {
	lang := syntax.LangBash
	switch c.shell {
	case "zsh":
		lang = syntax.LangZsh
	case "mksh", "oksh":
		lang = syntax.LangMirBSDKorn
	}
	if lang == syntax.LangZsh && strings.Contains(text, "$[") { // arithmetic that the parser does not know
		return nil, &Error{
			Part: -1, Message: "$[…] is not supported in a command with values", Help: "Use $((…)) instead",
		}
	}
	if nesting(text) > maxNesting {
		return nil, &Error{Part: -1, Message: "the command is nested too deeply", Help: "Move parts of it to a script"}
	}
	file, err := syntax.NewParser(syntax.Variant(lang)).Parse(strings.NewReader(text), "")
	if err == nil {
		return file, nil
	}
	message := err.Error()
	var parse syntax.ParseError
	var language syntax.LangError
	if errors.As(err, &parse) {
		message = fmt.Sprintf("line %d: %s", parse.Pos.Line(), parse.Text)
	} else if errors.As(err, &language) {
		message = strings.TrimPrefix(message, ":")
	}
	message = c.form.ReplaceAllString(message, "{{…}}")
	return nil, &Error{
		Part: -1, Message: "the command cannot be parsed: " + message,
		Help: "A value can only be inserted into a command that is valid shell code",
	}
}

// maxNesting limits the depth of a command: the parser is recursive.
const maxNesting = 500

// nesting returns an upper bound for the depth of a command.
func nesting(text string) int {
	depth, most := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(', '{', '`':
			depth++
			most = max(most, depth)
		case ')', '}':
			depth = max(0, depth-1)
		}
	}
	return most
}

// number returns the index of the part of a match of form.
func (c *insertion) number(match []string) int {
	n, err := strconv.Atoi(match[1])
	if err != nil || n >= len(c.parts) || c.parts[n].Value == nil {
		return -1
	}
	return n
}

// fail records an error about a part. Only the first error is kept.
func (c *insertion) fail(part int, program, message, help string) {
	if c.err == nil {
		c.err = &Error{Part: part, Program: program, Message: message, Help: help}
	}
}

// variable returns the expansion of the variable that holds a text.
func (c *insertion) variable(text string) string {
	i, ok := c.known[text]
	if !ok {
		i = len(c.order)
		c.known[text], c.order = i, append(c.order, text)
	}
	return "${" + Variable(i) + "}"
}

// quoting is the kind of quotes around a placeholder.
type quoting int

const (
	plain  quoting = iota
	single         // '…' and $'…'
	text           // "…" and here-documents
)

// rewrite replaces the placeholders in a command by expansions.
func (c *insertion) rewrite(file *syntax.File) {
	var stack []syntax.Node
	ends := 0
	syntax.Walk(file, func(n syntax.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		switch n := n.(type) {
		case *syntax.Redirect:
			if n.Hdoc == nil {
				break
			}
			if at := c.form.FindStringSubmatch(rawText(n.Word)); at != nil {
				c.fail(c.number(at), "", "a value cannot be the delimiter of a here-document", "Use a fixed word")
			} else if at := c.form.FindStringSubmatch(rawText(n.Hdoc)); at != nil && quotedDelimiter(n.Word) {
				ends++
				if !literalHeredoc(n, ends) {
					c.fail(c.number(at), "", "the delimiter of a here-document is partly quoted", "Quote all of it")
				}
			}
		case *syntax.Word:
			c.expand(n.Parts, append(stack, n))
		case *syntax.DblQuoted:
			c.expand(n.Parts, append(stack, n))
		case *syntax.ExtGlob:
			n.Pattern.Value = c.replaced(n.Pattern.Value, plain, stack)
		}
		stack = append(stack, n)
		return true
	})
}

// dollars makes the "$" of "$VALUE" and the variable of "$nameVALUE" independent of the value.
func (c *insertion) dollars(parts []syntax.WordPart) {
	for i, p := range parts {
		pe, ok := p.(*syntax.ParamExp)
		if !ok || pe.Param == nil || !pe.Short {
			continue
		}
		at := c.form.FindStringIndex(pe.Param.Value)
		switch {
		case at != nil && pe.Index == nil:
			name, rest := pe.Param.Value[:at[0]], pe.Param.Value[at[0]:]
			if name == "" {
				name = `\$`
			} else {
				name = "${" + name + "}"
			}
			parts[i] = &syntax.Lit{ValuePos: pe.Pos(), ValueEnd: pe.End(), Value: name + rest}
		case at == nil && i+1 < len(parts):
			if lit, ok := parts[i+1].(*syntax.Lit); ok && c.form.FindStringIndex(lit.Value) != nil {
				pe.Short = false // zsh reads "$#$" as one parameter
			}
		}
	}
}

// expand replaces the placeholders in parts of a word.
func (c *insertion) expand(parts []syntax.WordPart, stack []syntax.Node) {
	c.dollars(parts)
	for i, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			p.Value = c.replaced(p.Value, c.quoting(stack), stack)
		case *syntax.SglQuoted:
			if c.inDefault(stack) { // there the quotes have no effect, and the parser does not know
				if at := c.form.FindStringSubmatch(p.Value); at != nil && strings.ContainsAny(p.Value, "$`\\\"") {
					c.fail(c.number(at), "", "a value cannot be used in these quotes", "Use double quotes instead")
				}
				p.Value = c.replaced(p.Value, text, stack)
			} else if c.form.MatchString(p.Value) {
				parts[i] = &syntax.Lit{ValuePos: p.Pos(), ValueEnd: p.End(), Value: c.single(p, stack)}
			}
		}
	}
}

// quoting returns the quotes around a node with the given ancestors.
func (c *insertion) quoting(stack []syntax.Node) quoting {
	for i, n := range slices.Backward(stack) {
		switch n := n.(type) {
		case *syntax.DblQuoted:
			return text
		case *syntax.Redirect:
			if n.Hdoc != nil && i+1 < len(stack) && stack[i+1] == n.Hdoc {
				return text
			}
			return plain
		case *syntax.CmdSubst, *syntax.ProcSubst, *syntax.Stmt:
			return plain
		case *syntax.ParamExp:
			if n.Repl != nil || n.Exp != nil && !isDefault(n.Exp.Op) { // quotes count in patterns
				return plain
			}
		}
	}
	return plain
}

// inDefault reports whether a node is in the default value of a parameter in double quotes.
func (c *insertion) inDefault(stack []syntax.Node) bool {
	for i, n := range slices.Backward(stack) {
		switch n := n.(type) {
		case *syntax.ParamExp:
			return n.Exp != nil && isDefault(n.Exp.Op) && c.quoting(stack[:i]) == text
		case *syntax.DblQuoted, *syntax.CmdSubst, *syntax.ProcSubst, *syntax.Stmt:
			return false
		}
	}
	return false
}

// isDefault reports whether an operator is followed by a plain word, as in ${name:-word}, and not by a pattern. If the
// expansion is in double quotes, single quotes in that word have no effect.
func isDefault(op syntax.ParExpOperator) bool {
	switch op {
	case syntax.AlternateUnset, syntax.AlternateUnsetOrNull, syntax.DefaultUnset, syntax.DefaultUnsetOrNull,
		syntax.ErrorUnset, syntax.ErrorUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull:
		return true
	}
	return false
}

// computed reports whether a node with the given ancestors is part of arithmetic.
func (c *insertion) computed(stack []syntax.Node) bool {
	for _, n := range slices.Backward(stack) {
		if c.numbers[n] {
			return true
		}
		switch n.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst, *syntax.Stmt:
			return false
		}
	}
	return false
}

// splits reports whether the shell splits the word that a node belongs to.
func splits(stack []syntax.Node) bool {
	if len(stack) < 2 {
		return false
	}
	switch stack[len(stack)-2].(type) {
	case *syntax.CallExpr, *syntax.WordIter, *syntax.ArrayElem, *syntax.ArrayExpr:
		return true
	}
	return false
}

// declares reports whether a node is an argument of a declaration such as export.
func declares(stack []syntax.Node) bool {
	for _, n := range slices.Backward(stack) {
		switch n.(type) {
		case *syntax.DeclClause:
			return true
		case *syntax.Stmt, *syntax.ArrayExpr:
			return false
		}
	}
	return false
}

var (
	numberForm = lazyregexp.New(`^[+-]?[0-9]+(\.[0-9]+)?$`)
	rangeForm  = lazyregexp.New(`^([+-]?[0-9]+|[A-Za-z])$`)
)

// replaced returns a literal with expansions for its placeholders.
func (c *insertion) replaced(lit string, q quoting, stack []syntax.Node) string {
	var b strings.Builder
	for {
		at := c.form.FindStringSubmatchIndex(lit)
		if at == nil {
			b.WriteString(lit)
			return b.String()
		}
		before := lit[:at[0]]
		n := c.number([]string{lit[at[0]:at[1]], lit[at[2]:at[3]]})
		lit = lit[at[1]:]
		if slashes := len(before) - len(strings.TrimRight(before, `\`)); slashes%2 == 1 { // it would escape the value
			if before = before[:len(before)-1]; q != plain {
				before += `\\`
			}
		}
		b.WriteString(before)
		if n < 0 {
			c.fail(-1, "", "a value cannot be used in this place of a command", rawHelp)
			return ""
		}
		v := c.parts[n].Value
		trimmed := strings.TrimSpace(v.Text)
		switch oneWord := v.OneWord || v.Escaped || c.oneWord[n] || declares(stack); {
		case c.computed(stack):
			if numberForm().MatchString(trimmed) {
				b.WriteString(trimmed)
			}
		case q == text && v.Escaped:
			b.WriteString(c.variable(Quote(v.Text)))
		case q == text:
			b.WriteString(c.variable(v.Text))
		case strings.HasSuffix(before, "..") && rangeForm().MatchString(v.Text): // {1..9}
			b.WriteString(v.Text)
		case v.Escaped && c.code[n]:
			b.WriteString(`"` + c.variable(Quote(v.Text)) + `"`)
		case oneWord:
			b.WriteString(`"` + c.variable(v.Text) + `"`)
		case c.shell == "zsh" && splits(stack):
			b.WriteString("${=" + strings.TrimPrefix(c.variable(v.Text), "${"))
		default:
			b.WriteString(c.variable(v.Text))
		}
	}
}

// single returns a text in single quotes with expansions between them. It has no empty quotes: some shells do not
// ignore them.
func (c *insertion) single(p *syntax.SglQuoted, stack []syntax.Node) string {
	open, value := "'", p.Value
	if p.Dollar {
		open = "$'"
	}
	var b strings.Builder
	quote := func(s string) {
		if slashes := len(s) - len(strings.TrimRight(s, `\`)); p.Dollar && slashes%2 == 1 {
			s += `\`
		}
		if s != "" {
			b.WriteString(open + s + "'")
		}
	}
	for {
		at := c.form.FindStringSubmatchIndex(value)
		if at == nil {
			quote(value)
			return b.String()
		}
		n := c.number([]string{value[at[0]:at[1]], value[at[2]:at[3]]})
		quote(value[:at[0]])
		value = value[at[1]:]
		if n < 0 {
			c.fail(-1, "", "a value cannot be used in this place of a command", rawHelp)
			return ""
		}
		v := c.parts[n].Value
		switch {
		case c.computed(stack):
			b.WriteString(strings.TrimSpace(v.Text))
		case v.Escaped && c.code[n]:
			b.WriteString(`"` + c.variable(Quote(v.Text)) + `"`)
		default:
			b.WriteString(`"` + c.variable(v.Text) + `"`)
		}
	}
}

// quotedDelimiter reports whether the delimiter of a here-document is quoted.
func quotedDelimiter(w *syntax.Word) bool { return strings.ContainsAny(rawText(w), `'"\`) }

// rawText returns a word as it is printed.
func rawText(w *syntax.Word) string {
	var b strings.Builder
	_ = syntax.NewPrinter().Print(&b, w)
	return b.String()
}

// literally escapes a text of a here-document whose delimiter was quoted. The delimiter becomes unquoted, so that the
// variables of values are expanded.
var literally = strings.NewReplacer(`\`, `\\`, "$", `\$`, "`", "\\`")

// literalHeredoc turns a here-document without expansions into one in which everything but placeholders is escaped. It
// returns false if the parser found expansions.
func literalHeredoc(r *syntax.Redirect, number int) bool {
	r.Word = &syntax.Word{Parts: []syntax.WordPart{&syntax.Lit{Value: fmt.Sprintf("__espalier_end_%d", number)}}}
	for _, p := range r.Hdoc.Parts {
		lit, ok := p.(*syntax.Lit)
		if !ok {
			return false
		}
		lit.Value = literally.Replace(lit.Value)
	}
	return true
}

// Quote returns a text as one word of shell code.
func Quote(s string) string {
	if s == "" {
		return "''"
	}
	var b strings.Builder
	for i, piece := range strings.Split(s, "'") { // no '' in the result: with RC_QUOTES it is a quote to zsh
		if i > 0 {
			b.WriteString(`\'`)
		}
		if piece != "" {
			b.WriteString("'" + piece + "'")
		}
	}
	return b.String()
}

// Word returns a text as one word of shell code, in quotes if it needs them.
func Word(s string) string {
	special := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-./@%+=:,", r)
	}
	if s == "" || strings.ContainsFunc(s, special) {
		return Quote(s)
	}
	return s
}

// IsFileName reports whether a text is the name of a file that leads to no other folder and is no option.
func IsFileName(s string) bool { return fileForm().MatchString(s) && s[0] != '-' }

// IsShell reports whether a program is a shell with the syntax of sh.
func IsShell(name string) bool {
	switch name {
	case "sh", "bash", "dash", "zsh", "ksh", "ksh93", "mksh", "oksh", "ash", "yash", "busybox":
		return true
	}
	return false
}

// Interpreter returns the name of the program in the first line of a script, or "".
func Interpreter(script string) string {
	line, _, _ := strings.Cut(script, "\n")
	line, ok := strings.CutPrefix(line, "#!")
	if !ok {
		return ""
	}
	words := strings.Fields(line)
	if len(words) > 1 && path.Base(words[0]) == "env" {
		words = slices.DeleteFunc(words[1:], func(w string) bool {
			return strings.HasPrefix(w, "-") || strings.Contains(w, "=")
		})
	}
	if len(words) == 0 {
		return ""
	}
	return path.Base(words[0])
}
