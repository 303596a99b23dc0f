package shell

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/espalier-run/espalier/internal/lazyregexp"
)

// set is a set of values, by the indexes of their parts.
type set map[int]bool

func (s set) sorted() []int { return slices.Sorted(maps.Keys(s)) }

// positional is the name under which the positional parameters are followed.
const positional = "@"

// firstPositional is the name under which the first positional parameter is followed, which "$@" executes.
const firstPositional = "@1"

// stdin is the name under which the input of a function is followed.
func stdin(function string) string { return "<" + function }

// union returns a new set with the values of all sets.
func union(sets ...set) set {
	out := set{}
	for _, s := range sets {
		for n := range s {
			out[n] = true
		}
	}
	return out
}

// follow follows the values of a command through its variables, then checks what the command does with them. It visits
// the command until no variable gets another value: a later part can assign what an earlier one reads, for example in a
// loop. The sets of values only grow, so this ends. Errors are reported in one more visit, when the sets are complete.
func (c *insertion) follow(file *syntax.File) {
	c.declarations(file)
	// What a command writes to an open file or a coprocess can be read by any other command.
	in := func() set {
		if hasChannels(file) {
			return union(c.input, c.values(file))
		}
		return c.input
	}
	for c.changed = true; c.changed && *c.work < maxWork; {
		c.changed = false
		c.visit(file, in())
	}
	c.checks = true
	c.visit(file, in())
	if *c.work >= maxWork {
		c.err = &Error{Part: -1, Message: "the command is too complex to check", Help: "Move parts of it to a script"}
	}
}

// maxWork limits how many parts of a command are visited, in total. A here-document of 2,000 lines with values takes
// less than half of it.
const maxWork = 300_000

// walk visits the parts of a node until the work is too much.
func (c *insertion) walk(node syntax.Node, visit func(syntax.Node) bool) {
	syntax.Walk(node, func(n syntax.Node) bool {
		*c.work++
		return *c.work < maxWork && visit(n)
	})
}

// hasChannels reports whether a command has coprocesses, or opens files that stay open for the commands after it.
func hasChannels(file *syntax.File) (found bool) {
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CoprocClause:
			found = true
		case *syntax.Redirect:
			found = found || n.N != nil && strings.HasPrefix(n.N.Value, "{")
		case *syntax.Stmt:
			call, ok := n.Cmd.(*syntax.CallExpr)
			found = found || ok && len(n.Redirs) > 0 && len(call.Args) == 1 && call.Args[0].Lit() == "exec"
		}
		return !found
	})
	return found
}

// assigned records that a variable may hold values.
func (c *insertion) assigned(name string, values set) {
	for n := range values {
		if !c.vars[name][n] {
			*c.work += len(c.vars[name]) + len(values)
			c.vars[name], c.changed = union(c.vars[name], values), true
			return
		}
	}
}

// declarations collects the functions and arrays of a command, and its arithmetic.
func (c *insertion) declarations(file *syntax.File) {
	// All variables come first: whether an index is arithmetic depends on a declaration that may follow.
	syntax.Walk(file, func(n syntax.Node) bool { c.declared(n); return true })
	syntax.Walk(file, func(n syntax.Node) bool { c.operands(n); return true })
}

// declared records what a node declares: functions, variables, and the texts that are assigned.
func (c *insertion) declared(n syntax.Node) {
	switch n := n.(type) {
	case *syntax.CallExpr:
		c.shifts = c.shifts || len(n.Args) > 0 && (n.Args[0].Lit() == "shift" || n.Args[0].Lit() == "set")
	case *syntax.FuncDecl:
		if n.Name != nil {
			c.funcs[n.Name.Value] = true
		}
	case *syntax.DeclClause:
		options := declareOptions(n)
		for _, a := range n.Args {
			if a.Name != nil {
				c.arrays[a.Name.Value] = c.arrays[a.Name.Value] || strings.ContainsAny(options, "aA")
				c.assoc[a.Name.Value] = c.assoc[a.Name.Value] ||
					strings.Contains(options, "A") && c.shell != "mksh" && c.shell != "oksh"
				c.ints[a.Name.Value] = c.ints[a.Name.Value] || strings.ContainsAny(options, "iEF")
			}
		}
	case *syntax.Assign:
		if n.Name == nil {
			break
		}
		if n.Array != nil || n.Index != nil {
			c.arrays[n.Name.Value] = true
		}
		if n.Value != nil {
			c.written[n.Name.Value] = append(c.written[n.Name.Value], c.wordText(n.Value.Parts, false))
		}
	}
}

// operands records the operands of a node that the shell evaluates as numbers.
func (c *insertion) operands(n syntax.Node) {
	switch n := n.(type) {
	case *syntax.ArithmExp:
		c.calculated(n.X)
	case *syntax.ArithmCmd:
		c.calculated(n.X)
	case *syntax.LetClause:
		c.calculated(n.Exprs...)
	case *syntax.CStyleLoop:
		c.calculated(n.Init, n.Cond, n.Post)
	case *syntax.ParamExp:
		if n.Slice != nil {
			c.calculated(n.Slice.Offset, n.Slice.Length)
		}
		c.index(n.Param, n.Index)
	case *syntax.Assign:
		c.index(n.Name, n.Index)
		if n.Array != nil {
			for _, e := range n.Array.Elems {
				c.index(n.Name, e.Index)
			}
		}
	case *syntax.BinaryTest:
		if compares(n.Op) {
			c.numbers[n.X], c.numbers[n.Y] = true, true
		}
	}
}

// calculated records expressions as arithmetic; nil ones are absent.
func (c *insertion) calculated(list ...syntax.ArithmExpr) {
	for _, x := range list {
		if x != nil {
			c.numbers[x] = true
		}
	}
}

// index records the index of an array as arithmetic, and checks the key of an associative array.
func (c *insertion) index(name *syntax.Lit, x syntax.ArithmExpr) {
	if name == nil || !c.assoc[name.Value] {
		c.calculated(x)
	} else if _, ok := x.(*syntax.Word); !ok && x != nil { // read as an expression, it would be printed differently
		c.fail(-1, "", "the key of an associative array is not quoted", "Put the key in double quotes")
	}
}

// compares reports whether an operator of [[ … ]] compares numbers. The shell evaluates both sides as arithmetic, which
// can execute code.
func compares(op syntax.BinTestOperator) bool {
	switch op {
	case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
		return true
	}
	return false
}

// declareOptions returns the options of a declaration as letters.
func declareOptions(d *syntax.DeclClause) string {
	var b strings.Builder
	if d.Variant.Value == "nameref" {
		b.WriteString("n")
	}
	for _, a := range d.Args {
		if a.Naked && a.Name == nil && a.Value != nil {
			if lit := a.Value.Lit(); strings.HasPrefix(lit, "-") || strings.HasPrefix(lit, "+") {
				b.WriteString(lit[1:])
			}
		}
	}
	return b.String()
}

// values returns the values that nodes may contain, after expansion.
func (c *insertion) values(nodes ...syntax.Node) set {
	out := set{}
	text := func(s string) {
		for _, at := range c.form.FindAllStringSubmatch(s, -1) {
			out[c.number(at)] = true
		}
	}
	for _, node := range nodes {
		c.walk(node, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.Lit:
				text(n.Value)
			case *syntax.SglQuoted:
				text(n.Value)
			case *syntax.CmdSubst:
				if summarizes(n.Stmts) {
					return false
				}
				if c.readsInput(n.Stmts) {
					maps.Copy(out, c.input)
				}
			case *syntax.ParamExp:
				if n.Length {
					return false
				}
				if n.Excl && n.Names == 0 && !isList(n.Index) { // it may expand any variable
					for _, values := range c.vars {
						*c.work += len(values)
						maps.Copy(out, values)
					}
				}
				if n.Param != nil {
					values := c.vars[parameter(n.Param.Value)]
					*c.work += len(values)
					maps.Copy(out, values)
				}
			}
			return true
		})
	}
	delete(out, -1)
	return out
}

// parameter returns the name under which a parameter is followed.
func parameter(name string) string {
	if name == "@" || name == "*" || name != "" && name[0] >= '1' && name[0] <= '9' {
		return positional
	}
	return name
}

// summarizes reports whether commands print only numbers about their input.
func summarizes(list []*syntax.Stmt) bool {
	if len(list) == 0 {
		return false
	}
	cmd := list[len(list)-1].Cmd
	if pipe, ok := cmd.(*syntax.BinaryCmd); ok && pipe.Op == syntax.Pipe {
		cmd = pipe.Y.Cmd
	} else if len(list) > 1 {
		return false
	}
	call, ok := cmd.(*syntax.CallExpr)
	named := func(w *syntax.Word) bool { return !strings.HasPrefix(w.Lit(), "-") } // wc prints the names of files
	if !ok || len(call.Args) == 0 || slices.ContainsFunc(call.Args[1:], named) {
		return false
	}
	switch call.Args[0].Lit() {
	case "wc", "cksum", "md5sum", "sha1sum", "sha256sum", "sha512sum":
		return true
	}
	return false
}

// readsInput reports whether commands print what is in their standard input, judging by their names.
func (c *insertion) readsInput(list []*syntax.Stmt) (found bool) {
	for _, s := range list {
		c.walk(s, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.CallExpr:
				found = found || len(n.Args) > 0 && slices.Contains(filters, path.Base(n.Args[0].Lit()))
			case *syntax.Redirect:
				found = found || n.Op == syntax.RdrIn && isInput(n.Word.Lit())
			}
			return !found
		})
	}
	return found
}

// filters are programs that print what they read.
var filters = []string{
	"awk", "base64", "cat", "cut", "dd", "grep", "head", "jq", "read", "rev", "sed", "sort", "tail", "tee", "tr",
	"uniq",
	"xargs",
}

// isInput reports whether a path is that of an open file, such as standard input.
func isInput(path string) bool {
	return path == "/dev/stdin" || strings.HasPrefix(path, "/dev/fd/") ||
		strings.HasPrefix(path, "/proc/") && strings.Contains(path, "/fd/")
}

// visit follows and checks the values in a node whose commands read in from their standard input.
func (c *insertion) visit(node syntax.Node, in set) {
	c.walk(node, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			c.statement(n, in)
			return false
		case *syntax.BinaryCmd:
			if n.Op == syntax.Pipe || n.Op == syntax.PipeAll {
				c.visit(n.X, in)
				c.visit(n.Y, union(in, c.values(n.X)))
				return false
			}
		case *syntax.FuncDecl:
			if n.Name != nil && n.Body != nil {
				c.visit(n.Body, c.vars[stdin(n.Name.Value)])
				return false
			}
		case *syntax.ProcSubst:
			if n.Op == syntax.CmdOut { // it reads what the command around it prints
				for _, s := range n.Stmts {
					c.visit(s, union(in, c.output))
				}
				return false
			}
		case *syntax.WordIter:
			for _, w := range n.Items {
				c.assigned(n.Name.Value, c.values(w))
			}
		case *syntax.Assign:
			c.assignment(n, "")
		case *syntax.DeclClause:
			options := declareOptions(n)
			for _, a := range n.Args {
				c.declaration(n.Variant.Value, options, a)
			}
		case *syntax.ParamExp:
			c.parameter(n)
		case *syntax.UnaryTest:
			if n.Op == syntax.TsVarSet || n.Op == syntax.TsFdTerm || n.Op == syntax.TsRefVar {
				c.mustBeName(c.values(n.X))
			}
		}
		if c.numbers[n] {
			c.arithmetic(n)
		}
		return true
	})
}

// statement visits a command with its redirections.
func (c *insertion) statement(s *syntax.Stmt, in set) {
	var here *syntax.Word
	outer, outerInput := c.output, c.input
	c.input = in
	c.output = c.values(s)
	defer func() { c.output, c.input = outer, outerInput }()
	for _, r := range s.Redirs {
		c.visit(r, in)
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
			if here = r.Hdoc; r.Op == syntax.WordHdoc {
				here = r.Word
			}
			if in = nil; here != nil { // it is nil if the document is empty
				in = c.values(here)
			}
		case syntax.RdrIn, syntax.RdrInOut:
			in, here = c.substituted(r.Word), nil
		case syntax.DplIn, syntax.DplOut:
			c.mustBeNumber(c.values(r.Word))
		}
	}
	if call, ok := s.Cmd.(*syntax.CallExpr); ok {
		c.call(call, in, here)
	}
	if s.Cmd != nil {
		c.visit(s.Cmd, in)
	}
}

// substituted returns the values that the commands of process substitutions in a word may print.
func (c *insertion) substituted(w *syntax.Word) set {
	out := set{}
	for _, p := range w.Parts {
		if sub, ok := p.(*syntax.ProcSubst); ok {
			out = union(out, c.values(sub))
		}
	}
	return out
}

// assignment follows an assignment. options are those of a declaration.
func (c *insertion) assignment(a *syntax.Assign, options string) {
	if a.Name == nil {
		return
	}
	name, values := a.Name.Value, set{}
	if a.Value != nil {
		values = c.values(a.Value)
	}
	if a.Array != nil {
		values = c.values(a.Array)
	}
	c.assigned(name, values)
	if c.ints[name] && a.Value != nil {
		c.arithmetic(a.Value)
	}
	if len(values) == 0 {
		return
	}
	switch {
	case Guarded(name):
		c.mustNotBeSet(name, values)
	case strings.Contains(options, "n"):
		c.mustNotExecute(values, "declare -n", "a value is used as the name of a variable")
	}
}

// declaration checks an argument of a declaration.
func (c *insertion) declaration(variant, options string, a *syntax.Assign) {
	if a.Name != nil {
		c.assignment(a, options)
		if a.Value != nil && (strings.ContainsAny(options, "aA") || c.arrays[a.Name.Value]) {
			c.mustNotExpand(c.values(a.Value)) // a value such as "($(command))" is evaluated
		}
		return
	}
	if a.Value == nil {
		return
	}
	values := c.values(a.Value)
	if len(values) == 0 {
		return
	}
	text := c.wordText(a.Value.Parts, false)
	if name, _, ok := strings.Cut(text, "="); ok && syntax.ValidName(name) && !c.form.MatchString(name) {
		c.assigned(name, values)
		c.mustNotBeSet(name, values)
		if variant != "export" || options != "" {
			c.mustNotExpand(values)
		}
		return
	}
	c.mustBeName(values)
}

// parameter checks an expansion.
func (c *insertion) parameter(p *syntax.ParamExp) {
	values := set{}
	if p.Param != nil {
		values = c.vars[parameter(p.Param.Value)]
	}
	if p.NestedParam != nil {
		values = union(values, c.values(p.NestedParam))
	}
	switch {
	case p.Excl && p.Names == 0 && !isList(p.Index):
		c.mustNotExecute(values, "${!…}", "a value is used as the name of a variable")
	case p.Exp != nil && p.Exp.Op == syntax.OtherParamOps && p.Exp.Word != nil && p.Exp.Word.Lit() == "P":
		c.mustNotExecute(values, "${…@P}", "a value is expanded as a prompt")
	case p.Flags != nil && strings.ContainsAny(p.Flags.Value, "eP%"):
		c.mustNotExecute(union(values, c.values(p)), "${(e)…}", "a value is expanded again")
	}
	if p.Exp != nil && p.Exp.Word != nil && p.Param != nil &&
		(p.Exp.Op == syntax.AssignUnset || p.Exp.Op == syntax.AssignUnsetOrNull) {
		c.assigned(p.Param.Value, c.values(p.Exp.Word))
	}
}

// isList reports whether an index is that of all elements.
func isList(index syntax.ArithmExpr) bool {
	w, ok := index.(*syntax.Word)
	return ok && (w.Lit() == "@" || w.Lit() == "*")
}

// arithmetic checks the values that the shell computes with: those written there, and those in the variables named
// there.
func (c *insertion) arithmetic(x syntax.Node) {
	values := c.values(x)
	syntax.Walk(x, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst:
			return false
		case *syntax.ParamExp:
			return !n.Length
		case *syntax.Lit:
			for _, name := range namesForm().FindAllString(n.Value, -1) {
				values = union(values, c.computedWith(name, map[string]bool{}))
			}
		}
		return true
	})
	c.mustBeNumber(values)
}

// computedWith returns the values that arithmetic with a variable evaluates: the text of the variable may name others.
func (c *insertion) computedWith(name string, done map[string]bool) set {
	if done[name] {
		return nil
	}
	done[name] = true
	out := c.vars[name]
	for _, text := range c.written[name] {
		for _, other := range namesForm().FindAllString(text, -1) {
			out = union(out, c.computedWith(other, done))
		}
	}
	return out
}

var (
	namesForm = lazyregexp.New(`[A-Za-z_][A-Za-z0-9_]*`)
	wordForm  = lazyregexp.New(`^[A-Za-z0-9_]*$`)
	fileForm  = lazyregexp.New(`^[A-Za-z0-9_+-][A-Za-z0-9_.+-]*$`)
)

// must reports an error for the first value that does not satisfy a condition.
func (c *insertion) must(values set, ok func(text string) bool, message, help string) {
	if !c.checks {
		return
	}
	for _, n := range values.sorted() {
		if v := c.parts[n].Value; !v.Unknown && !ok(v.Text) {
			c.fail(n, "", fmt.Sprintf("%s: %q", message, shortened(v.Text)), help)
			return
		}
	}
}

// shortened returns the beginning of a text, for a message.
func shortened(s string) string {
	if len(s) > 40 {
		return strings.ToValidUTF8(s[:40], "") + "…"
	}
	return s
}

// mustBeNumber checks values that the shell evaluates as arithmetic, in which an index such as a[$(command)] executes
// code.
func (c *insertion) mustBeNumber(values set) {
	c.must(values, func(text string) bool {
		text = strings.TrimSpace(text)
		return text == "" || numberForm().MatchString(text)
	}, "a value that the shell computes with is not a number", "Check the value in an earlier step")
}

// mustBeName checks values that name a variable. The shell evaluates the index in such a name, as in arithmetic.
func (c *insertion) mustBeName(values set) {
	c.must(values, wordForm().MatchString, "a value is used as the name of a variable and is not a name",
		"Check the value in an earlier step")
}

// mustNotExpand checks values that the shell may expand again.
func (c *insertion) mustNotExpand(values set) {
	c.must(values, func(text string) bool { return !strings.ContainsAny(text, "$`") },
		"the shell would expand the value again",
		"Put the value in double quotes, or assign it to a plain variable first")
}

// mustNotBeSet rejects values in a variable that changes which code is executed.
func (c *insertion) mustNotBeSet(name string, values set) {
	if Guarded(name) {
		c.mustNotExecute(values, name, "the variable "+name+" changes which code is executed")
	}
}

// mustNotExecute rejects values in code.
func (c *insertion) mustNotExecute(values set, program, message string) {
	if c.checks && len(values) > 0 {
		c.fail(values.sorted()[0], program, message, help(program))
	}
}

// wordText returns the text of a word without its quotes. Expansions become NUL.
func (c *insertion) wordText(parts []syntax.WordPart, quoted bool) string {
	var b strings.Builder
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			for i := 0; i < len(p.Value); i++ {
				if p.Value[i] != '\\' || i+1 == len(p.Value) {
					b.WriteByte(p.Value[i])
					continue
				}
				next := p.Value[i+1]
				if next == '\n' {
					i++
					continue
				}
				if quoted && !strings.ContainsRune("$`\"\\", rune(next)) {
					b.WriteByte('\\')
				}
				if i++; next != '\n' {
					b.WriteByte(next)
				}
			}
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			b.WriteString(c.wordText(p.Parts, true))
		default:
			b.WriteByte(0)
		}
	}
	return b.String()
}

// expanded returns the values that reach a word through expansions.
func (c *insertion) expanded(parts []syntax.WordPart) set {
	out := set{}
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit, *syntax.SglQuoted:
		case *syntax.DblQuoted:
			out = union(out, c.expanded(p.Parts))
		default:
			out = union(out, c.values(p))
		}
	}
	return out
}

// isAllArguments reports whether a word is "$@".
func isAllArguments(w *syntax.Word) bool {
	parts := w.Parts
	if len(parts) == 1 {
		if quoted, ok := parts[0].(*syntax.DblQuoted); ok {
			parts = quoted.Parts
		}
	}
	if len(parts) != 1 {
		return false
	}
	p, ok := parts[0].(*syntax.ParamExp)
	return ok && p.Param != nil && p.Param.Value == "@" && p.Exp == nil && p.Slice == nil && p.Repl == nil &&
		p.Index == nil
}

// unquoted returns the values that a word contains without quotes around them.
func (c *insertion) unquoted(w *syntax.Word) set {
	out := set{}
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			for _, at := range c.form.FindAllStringSubmatch(p.Value, -1) {
				if n := c.number(at); n >= 0 && !c.parts[n].Value.OneWord && !c.parts[n].Value.Escaped {
					out[n] = true
				}
			}
		case *syntax.SglQuoted, *syntax.DblQuoted:
		default:
			out = union(out, c.values(p))
		}
	}
	return out
}

// shellCode checks code for another shell. It inherits the variables, and its standard input contains in. Values may be
// words of the code only if the author has escaped them.
func (c *insertion) shellCode(program, code string, parameters map[string]set, in set) {
	if !c.checks || c.err != nil {
		return
	}
	found := set{}
	for _, at := range c.form.FindAllStringSubmatch(code, -1) {
		n := c.number(at)
		if n < 0 {
			continue
		}
		if !c.parts[n].Value.Escaped || c.nested {
			c.fail(n, program, program+" executes the value as code", help(program))
			return
		}
		found[n] = true
	}
	inner := newInsertion("sh", c.parts)
	inner.prefix, inner.form, inner.nested, inner.input = c.prefix, c.form, true, in
	inner.vars, inner.work = maps.Clone(c.vars), c.work
	*c.work += len(code)
	maps.Copy(inner.vars, parameters)
	if len(found) == 0 && len(in) == 0 && len(inner.vars) == 0 {
		return
	}
	file, err := inner.parse(strings.ReplaceAll(code, "\x00", "x"))
	if err != nil {
		if len(found) > 0 || IsShell(program) { // the shell of another machine may be any
			c.err = err
		}
		return
	}
	inner.follow(file)
	if inner.err != nil {
		c.err = inner.err
		return
	}
	inner.words(file, found)
	for n := range found {
		c.code[n] = true
	}
	for _, n := range found.sorted() {
		if inner.oneWord[n] {
			continue
		}
		c.fail(n, program, program+" executes the value as code: {{escape …}} has no effect inside of quotes",
			"Remove the quotes around {{escape …}}")
		return
	}
}

// words records the values that are used only as words of a command, outside of quotes.
func (c *insertion) words(file *syntax.File, found set) {
	uses, safe := map[int]int{}, map[int]int{}
	var stack []syntax.Node
	syntax.Walk(file, func(n syntax.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		count := func(s string, counts map[int]int) {
			for _, at := range c.form.FindAllStringSubmatch(s, -1) {
				counts[c.number(at)]++
			}
		}
		switch n := n.(type) {
		case *syntax.Lit:
			count(n.Value, uses)
		case *syntax.SglQuoted:
			count(n.Value, uses)
		case *syntax.Word:
			if stack := append(stack, n); c.quoting(stack) == plain && !c.computed(stack) {
				for _, p := range n.Parts {
					if lit, ok := p.(*syntax.Lit); ok && !strings.Contains(lit.Value, `\`) {
						count(lit.Value, safe)
					}
				}
			}
		}
		stack = append(stack, n)
		return true
	})
	for n := range found {
		c.oneWord[n] = uses[n] > 0 && uses[n] == safe[n]
	}
}
