package expr

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Reading a command as shells do, as far as it takes to know what stands around
// each value in it. Nothing is rejected here that a shell would reject: it will
// say so itself.

// weaver writes a command with variables in the place of marked values.
type weaver struct {
	shell    string
	values   []string            // that are marked, in their order
	known    map[string]string   // the variable of a value
	order    []string            // values, in the order of their variables
	texts    int                 // that follow commands, so far
	maps     map[string]bool     // variables whose subscripts are texts
	arrays   map[string]bool     // other variables that have subscripts
	given    map[string][]string // the values that the command gives to its own variables
	written  map[string][]string // how the command writes what it gives to them
	computed []string            // pieces of arithmetic
	readers  map[int]string      // of values, by their number: who reads them as code
	readBy   string              // one of these
	exports  bool                // it hands functions to other shells, with the values in them
	failed   map[attempt]bool
}

func newWeaver(shell string) *weaver {
	return &weaver{
		shell: shell, known: map[string]string{}, maps: map[string]bool{}, arrays: map[string]bool{},
		given: map[string][]string{}, written: map[string][]string{}, readers: map[int]string{},
		failed: map[attempt]bool{},
	}
}

// numbered is a marked text with numbers in the place of the values, which may
// look like anything.
func (w *weaver) numbered(text string) string {
	return replaced(text, func(way byte, value string) string {
		w.values = append(w.values, value)
		return marked(way, strconv.Itoa(len(w.values)-1))
	})
}

var (
	errWild    = errors.New("a value stands where the shell would run commands that are in it; check it in a step before, or write {{raw …}} if you trust it")
	errHereEnd = errors.New("the word that ends a text behind << cannot be a value")
	errCut     = errors.New("a value was cut in two")
	errTooDeep = errors.New("the command has too many quotes and brackets in one another")
)

// weave writes a numbered text as a command.
func (w *weaver) weave(text string) (string, error) {
	if strings.IndexByte(text, mark) < 0 {
		return text, nil
	}
	s := &scan{weaver: w, text: text}
	s.code(0)
	if s.err == nil {
		s.err = w.computable()
	}
	if s.err != nil {
		return "", s.err
	}
	var b strings.Builder
	body := string(s.out)
	if line, rest, ok := strings.Cut(body, "\n"); ok && strings.HasPrefix(line, "#!") { // it must stay the first
		b.WriteString(line + "\n")
		body = rest
	}
	for i, value := range w.order {
		if w.exports {
			b.WriteString("export ")
		}
		fmt.Fprintf(&b, "%s=%s; ", variable(i), shellQuote(value))
	}
	b.WriteString(body)
	return b.String(), nil
}

func variable(i int) string { return fmt.Sprintf("__espalier_%d", i+1) }

// name is the variable that holds a value.
func (w *weaver) name(value string) string {
	if name, ok := w.known[value]; ok {
		return name
	}
	name := variable(len(w.order))
	w.known[value], w.order = name, append(w.order, value)
	return name
}

var (
	numberForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[+-]?[0-9]+(\.[0-9]+)?$`) })
	letterForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z]$`) })
	namesForm  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`) })
	// harmless is a value that is nothing but a word to whoever reads it as code.
	harmless = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_.:@%+-]*$`) })
)

// expands tells whether a value can run something where a shell expands it once
// more; it could also name the variable of another value.
func expands(value string) bool {
	return strings.ContainsAny(value, "$`") || strings.Contains(value, "__espalier_")
}

// computable makes sure that what the command gives to its own variables can be
// computed with, where it does that: commands in subscripts would be run.
func (w *weaver) computable() error {
	done := map[string]bool{}
	for len(w.computed) > 0 {
		names := namesForm().FindAllString(w.computed[0], -1)
		w.computed = w.computed[1:]
		for _, name := range names {
			if slices.ContainsFunc(w.given[name], func(v string) bool {
				return expands(v) && (strings.Contains(v, "[") || strings.Contains(v, "__espalier_"))
			}) {
				return errWild
			}
			if !done[name] {
				done[name] = true
				w.computed = append(w.computed, w.written[name]...)
			}
		}
	}
	return nil
}

// spot is what is known of where a value stands.
type spot struct {
	number bool   // the shell computes with it
	tame   bool   // the shell may expand it once more
	whole  bool   // the same, if it becomes several words
	reader string // the program that reads it as code
	around string // the program that reads as code what the command around it prints
	into   string // the variable that it becomes the value of
}

// quoting is which quotes are around a place.
type quoting int

const (
	inPlain   quoting = iota // none
	inPattern                // none, and nothing is split
	inSingle                 // '…'
	inAnsi                   // $'…'
	inDouble                 // "…"
	inBraces                 // "${…}"
	inHere                   // a text that follows a command, in which things are expanded
)

// scan copies a text and writes the values in it.
type scan struct {
	*weaver
	spot
	text  string
	at    int
	out   []byte
	here  []hereText // announced, and not there yet
	wrote []string   // the values in this word
	apart [][2]int   // what was read, and is no part of the arithmetic that it stands in
	line  pipeline
	depth int
	err   error // the first mistake
}

// pipeline is a number of commands, each of which reads what the one before prints.
type pipeline struct {
	more  bool  // there is one before this
	left  []int // the values in those before this
	whole []int // and in this
}

type hereText struct {
	end     string
	literal bool // nothing in it is expanded
	tabs    bool // leading ones are dropped
	own     string
	spot    spot
}

func (s *scan) more() bool             { return s.at < len(s.text) }
func (s *scan) rest() string           { return s.text[s.at:] }
func (s *scan) has(prefix string) bool { return strings.HasPrefix(s.text[s.at:], prefix) }
func (s *scan) put(text string)        { s.out = append(s.out, text...) }

func (s *scan) any(of string) bool { return s.more() && strings.IndexByte(of, s.text[s.at]) >= 0 }

func (s *scan) copy(n int) {
	n = min(n, len(s.text)-s.at)
	s.put(s.text[s.at : s.at+n])
	s.at += n
}

func (s *scan) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// mustBeNumber makes sure that a shell can compute with a value; nothing at all counts as 0.
func (s *scan) mustBeNumber(value string) {
	value = strings.TrimSpace(value)
	if value != "" && !numberForm().MatchString(value) {
		s.fail(fmt.Errorf("what stands in arithmetic has to be a number, and %q is none", strings.ToValidUTF8(value[:min(40, len(value))], "")))
	}
}

// within does something at a place, and forgets that place.
func (s *scan) within(p spot, do func()) {
	outer := s.spot
	s.spot = p
	if s.depth++; s.depth > 500 {
		s.fail(errTooDeep)
		s.at = len(s.text)
	}
	do()
	s.depth--
	s.spot = outer
}

// attempt is something that may stand at the beginning of a text.
type attempt struct{ what, text string }

// try reads something that may turn out to be something else: then nothing is read,
// and that is remembered, as what stands in it may be read many times.
func (s *scan) try(what string, read func() bool) bool {
	key := attempt{what, s.rest()}
	if s.failed[key] {
		return false
	}
	at, out, err, computed, apart := s.at, len(s.out), s.err, len(s.computed), len(s.apart)
	if read() {
		return true
	}
	s.at, s.out, s.err, s.computed, s.apart = at, s.out[:out], err, s.computed[:computed], s.apart[:apart]
	s.failed[key] = true
	return false
}

// inner reads a text that stands in this one, in other clothes.
func (s *scan) inner(text string, p spot, do func(*scan)) []byte {
	in := &scan{weaver: s.weaver, text: text, spot: p, depth: s.depth}
	do(in)
	if in.err != nil {
		s.fail(in.err)
	}
	return in.out
}

const (
	blanks     = " \t"
	endsOfWord = " \t\n;&|<>()"
)

// keyword tells whether a word stands here, unquoted.
func (s *scan) keyword(word string) bool {
	if !s.has(word) {
		return false
	}
	after := s.at + len(word)
	return after == len(s.text) || strings.IndexByte(endsOfWord, s.text[after]) >= 0
}

// code reads commands, up to and with what ends them: 0 is the end of the text, and ';'
// what ends a branch of case, which is left there.
func (s *scan) code(until byte) {
	start, wrote, line := s.at, s.wrote, s.line
	s.line = pipeline{}
	s.within(spot{around: cmp.Or(s.reader, s.around)}, func() { s.commands(until) })
	s.wrote, s.line = wrote, line
	s.setApart(start, s.at)
}

// setApart notes what is no part of the arithmetic around it.
func (s *scan) setApart(start, end int) {
	for len(s.apart) > 0 && s.apart[len(s.apart)-1][0] >= start { // it is in there
		s.apart = s.apart[:len(s.apart)-1]
	}
	s.apart = append(s.apart, [2]int{start, end})
}

// computes notes that the shell computes with what has been read.
func (s *scan) computes(start int) { s.computed = append(s.computed, s.own(start)) }

// own is the text that was read since a place, without commands in it.
func (s *scan) own(start int) string {
	text := []byte(s.text[start:s.at])
	for _, a := range slices.Backward(s.apart) {
		if a[0] < start {
			break
		}
		for i := a[0]; i < min(a[1], s.at); i++ {
			text[i-start] = ' '
		}
	}
	return string(text)
}

func (s *scan) commands(until byte) {
	var c command
	defer func() { s.ends(c, false) }()
	for s.more() {
		switch {
		case until == ')' && s.has(")"), until == '}' && len(c.words) == 0 && s.has("}"):
			s.copy(1)
			return
		case until == ';' && (s.has(";;") || s.has(";&") || s.has(";|") || c.begins() && s.keyword("esac")):
			return
		case s.space():
		case s.has("\n"):
			s.ends(c, false)
			s.newline()
			c = command{}
		case s.has("((") && (c.begins() || len(c.words) == 1 && c.words[0] == "for") && s.sum("((", "))"):
		case s.has("<("), s.has(">("):
			s.copy(2)
			s.code(')')
		case s.has("()"): // of a function, whose body follows
			s.copy(2)
			c = command{}
		case s.has("("):
			s.copy(1)
			s.code(')')
		case s.any("<>"), s.has("&>"):
			s.redirection(c)
		case s.has("||"):
			s.ends(c, false)
			s.copy(2)
			c = command{}
		case s.any(";&|)"):
			s.ends(c, s.has("|"))
			s.copy(1)
			c = command{}
		case c.begins() && s.keyword("case"):
			s.cases()
			c.words = append(c.words, "case")
		case c.begins() && s.keyword("[["):
			s.test()
			c.words = append(c.words, "[[")
		default:
			s.argument(&c)
		}
	}
}

// ends notes that a command has been read; piped says that another one reads what it
// prints.
func (s *scan) ends(c command, piped bool) {
	if reader := inputReader(c.words); reader != "" && s.line.more {
		for _, n := range s.line.left {
			s.readAsCode(n, reader)
		}
		for i := range s.here {
			s.here[i].spot.reader = cmp.Or(s.here[i].spot.reader, reader)
		}
	}
	if s.line.more, s.line.left = piped, slices.Clone(s.line.whole); !piped {
		s.line = pipeline{}
	}
}

// readAsCode notes that a program reads a value as code.
func (s *scan) readAsCode(n int, reader string) {
	if s.readers[n] = reader; !harmless().MatchString(s.values[n]) {
		s.readBy = reader
	}
}

// space reads blanks, continued lines and comments.
func (s *scan) space() bool {
	switch {
	case s.any(blanks):
		s.copy(1)
	case s.has("\\\n"):
		s.copy(2)
	case s.has("#"):
		line, _, _ := strings.Cut(s.rest(), "\n")
		s.put(replaced(line, func(byte, string) string { return "…" })) // nobody needs it there
		s.at += len(line)
	default:
		return false
	}
	return true
}

// spaces reads all that separates words, lines included.
func (s *scan) spaces() {
	for s.more() {
		if s.has("\n") {
			s.newline()
		} else if !s.space() {
			return
		}
	}
}

// newline reads the end of a line, and the texts that follow it.
func (s *scan) newline() {
	s.copy(1)
	announced := s.here
	s.here = nil
	for _, h := range announced {
		s.following(h)
	}
}

// command is what has been read of one.
type command struct {
	words    []string // without quotes; what is not known is a mark
	assigned bool     // to variables, before it
}

func (c command) begins() bool { return len(c.words) == 0 && !c.assigned }

// opening are the words after which another command begins.
var opening = []string{"if", "then", "elif", "else", "while", "until", "do", "!", "{", "time", "coproc"}

var assignment = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)(\[[^\]]*\])?\+?=`) })

func (s *scan) argument(c *command) {
	start := s.at
	p := s.role(c.words)
	p.around = s.around
	declaring := len(c.words) > 0 && declares(c.words[0])
	assigned := assignment().FindStringSubmatch(s.rest())
	if assigned != nil && (len(c.words) == 0 || declaring) {
		p.into = assigned[1]
		p.tame = declaring && (special(c.words) || s.arrays[p.into])
	}
	if declaring && special(c.words) {
		s.declare(c.words)
	}
	var word string
	s.within(p, func() { word = s.argumentWord(declaring || len(c.words) == 0) })
	if p.into != "" {
		s.written[p.into] = append(s.written[p.into], s.own(start))
	}
	if p.number {
		s.computes(start)
	}
	switch {
	case declaring && isOption(word):
		s.exports = s.exports || strings.Contains(word, "f") && (c.words[0] == "export" || strings.Contains(word, "x"))
		c.words = append(c.words, word)
	case s.at == start: // it cannot be
		s.copy(1)
	case assigned != nil && len(c.words) == 0:
		c.assigned = true
	case c.begins() && slices.Contains(opening, word):
	case len(c.words) == 1 && c.words[0] == "function", len(c.words) == 2 && c.words[0] == "for" && word == "do":
		*c = command{}
	case s.any("<>") && numberForm().MatchString(word): // which file, of a redirection
	default:
		c.words = append(c.words, word)
	}
}

// declares tells whether a command declares variables.
func declares(name string) bool {
	return slices.Contains([]string{"declare", "typeset", "local", "readonly", "export", "integer", "float", "nameref"}, name)
}

// special tells whether variables are declared that are more than texts.
func special(words []string) bool {
	return slices.ContainsFunc(words[1:], func(w string) bool {
		return len(w) > 1 && (w[0] == '-' || w[0] == '+') && strings.ContainsAny(w, "aAinEFT")
	}) || slices.Contains([]string{"integer", "float", "nameref"}, words[0])
}

// declare notes the variable whose declaration comes next.
func (s *scan) declare(words []string) {
	name := namesForm().FindStringIndex(s.rest())
	if name == nil || name[0] != 0 {
		return
	}
	has := func(letter string) bool {
		return slices.ContainsFunc(words[1:], func(w string) bool { return strings.HasPrefix(w, "-") && strings.Contains(w, letter) })
	}
	variable := s.rest()[:name[1]]
	if s.arrays[variable] = true; has("A") && s.shell != "mksh" && s.shell != "oksh" {
		s.maps[variable] = true
	}
	if has("i") || words[0] == "integer" || words[0] == "float" {
		s.computed = append(s.computed, variable)
	}
}

// role is what the next argument of a command is, given its words so far.
func (s *scan) role(words []string) spot {
	if len(words) == 0 {
		return spot{}
	}
	last := words[len(words)-1]
	switch name := words[0]; name {
	case "let":
		return spot{number: true}
	case "read", "unset", "mapfile", "readarray", "getopts", "exit", "return", "shift", "break", "continue", "repeat":
		return spot{tame: true}
	case "test", "[":
		return spot{tame: last == "-v" || last == "-t" || last == "-R", whole: true}
	case "set":
		return spot{tame: len(words) == 2 && (last == "-A" || last == "+A")}
	case "printf", "print":
		if last == "-v" {
			return spot{tame: true}
		}
		return spot{tame: s.shell == "zsh" && len(words) > 1 && (name == "print" && isOption(words[1]) || name == "printf" && !printsTexts().MatchString(words[1]))}
	case "for", "select":
		if len(words) > 2 && words[2] == "in" {
			return spot{into: words[1]}
		}
		return spot{}
	default:
		if declares(name) {
			return spot{tame: true}
		}
		return spot{reader: codeReader(words, s.has("-"))}
	}
}

// printsTexts is a format of printf that makes no number of what it prints.
var printsTexts = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([^%\x00]|%%|%[-0-9. ]*[sbqc])*$`) })

// redirection reads where a command reads from or writes to.
func (s *scan) redirection(c command) {
	p := spot{around: s.around}
	switch {
	case s.has("<<<"):
		s.copy(3)
		p.reader = inputReader(c.words)
	case s.has("<<"):
		s.announce(c)
		return
	default:
		for s.any("<>&|") {
			p.tame = s.has("&") // which file, or its number: bash looks twice
			s.copy(1)
		}
	}
	for s.any(blanks) {
		s.copy(1)
	}
	s.within(p, func() { s.word() })
}

var hereForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(<<-?[ \t]*)((?:[^ \t\n'"\\;&|<>()]|\\.|'[^']*'|"[^"]*")+)`)
})

// announce reads the word that will end a text.
func (s *scan) announce(c command) {
	m := hereForm().FindStringSubmatch(s.rest())
	if m == nil { // it is not there
		s.copy(2)
		return
	}
	s.at += len(m[0])
	if strings.IndexByte(m[2], mark) >= 0 {
		s.fail(errHereEnd)
	}
	s.put(m[1])
	h := hereText{end: unquoted(m[2]), literal: strings.ContainsAny(m[2], `'"\`), tabs: strings.HasPrefix(m[1], "<<-"), own: m[2]}
	h.spot = spot{reader: inputReader(c.words), around: s.around}
	if h.literal {
		s.texts++
		h.own = fmt.Sprintf("__espalier_end_%d", s.texts)
	}
	s.put(h.own)
	s.here = append(s.here, h)
}

// unquoted is the word that a shell makes of one in which it expands nothing.
func unquoted(s string) string {
	var b strings.Builder
	var open byte
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && open != '\'' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case c == open:
			open = 0
		case open == 0 && (c == '\'' || c == '"'):
			open = c
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

var literally = strings.NewReplacer(`\`, `\\`, "$", `\$`, "`", "\\`")

// following reads a text that follows a command, with the line that ends it. One in
// which nothing is expanded becomes one in which nothing but our values is.
func (s *scan) following(h hereText) {
	end, after := len(s.text), len(s.text)
	continued := false
	for i := s.at; i < len(s.text); {
		line, _, found := strings.Cut(s.text[i:], "\n")
		compared := line
		if h.tabs {
			compared = strings.TrimLeft(line, "\t")
		}
		if compared == h.end && !continued {
			end, after = i, i+len(line)
			break
		}
		slashes := len(line) - len(strings.TrimRight(line, `\`))
		continued = !h.literal && slashes%2 == 1
		if i += len(line); found {
			i++
		}
	}
	s.put(string(s.inner(s.text[s.at:end], h.spot, func(in *scan) {
		for in.more() {
			switch {
			case !h.literal || in.text[in.at] == mark:
				in.piece(inHere)
			default:
				before, _, _ := strings.Cut(in.rest(), string(mark))
				in.put(literally.Replace(before))
				in.at += len(before)
			}
		}
	})))
	if s.at = after; end < after || h.end == "" && end < len(s.text) { // it does end
		s.put(h.own)
	}
}

// cases reads case … esac.
func (s *scan) cases() {
	s.copy(len("case"))
	s.spaces()
	s.word()
	s.spaces()
	if !s.keyword("in") {
		return
	}
	s.copy(len("in"))
	for {
		s.spaces()
		if !s.more() {
			return
		}
		if s.keyword("esac") {
			s.copy(len("esac"))
			return
		}
		if s.has("(") {
			s.copy(1)
		}
		for s.more() && !s.has(")") {
			before := s.at
			if s.word(); s.at > before {
				continue
			}
			if s.copy(1); s.text[before] == '(' {
				s.code(')')
			}
		}
		s.copy(1)
		s.code(';')
		if s.has(";") {
			s.copy(2)
			if s.has("&") {
				s.copy(1)
			}
		}
	}
}

var comparesNumbers = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:\s|\\\n)+-(?:eq|ne|lt|le|gt|ge)(?:\s|\\\n)`) })

// test reads [[ … ]].
func (s *scan) test() {
	s.copy(2)
	last := ""
	for s.more() {
		start := s.at
		switch {
		case s.keyword("]]"):
			s.copy(2)
			return
		case s.any(endsOfWord):
			s.copy(1)
			continue
		}
		s.wrote = nil
		p := spot{around: s.around, tame: last == "-v" || last == "-t" || last == "-R"}
		compared := slices.Contains([]string{"-eq", "-ne", "-lt", "-le", "-gt", "-ge"}, last)
		s.within(p, func() { last = s.word() })
		if compared || comparesNumbers().MatchString(s.rest()) {
			s.computes(start)
			for _, value := range s.wrote {
				s.mustBeNumber(value)
			}
		}
	}
}

// word reads one word. What it is without quotes is returned; a mark if nobody
// knows.
func (s *scan) word() string { return s.argumentWord(false) }

// argumentWord reads one that may assign something to an element of an array.
func (s *scan) argumentWord(assigns bool) string {
	start := s.at
	if name := namesForm().FindStringIndex(s.rest()); assigns && name != nil && name[0] == 0 && strings.HasPrefix(s.rest()[name[1]:], "[") {
		s.try("[", func() bool {
			s.copy(name[1])
			return s.subscript(s.text[start:s.at]) && (s.has("=") || s.has("+="))
		})
	}
	for s.more() {
		if s.has("(") && s.at > start && s.text[s.at-1] == '=' {
			s.copy(1)
			s.list(start)
			continue
		}
		if s.any(endsOfWord) {
			break
		}
		s.piece(inPlain)
	}
	written := s.text[start:s.at]
	if strings.ContainsAny(written, "$`"+string(mark)) {
		return string(mark)
	}
	return unquoted(written)
}

// list reads the elements of an array whose name is written at a place.
func (s *scan) list(nameAt int) {
	name := namesForm().FindString(s.text[nameAt:s.at])
	s.arrays[name] = true
	for s.more() {
		before := s.at
		s.spaces()
		switch {
		case s.has(")"):
			s.copy(1)
			return
		case s.has("["):
			s.try("[", func() bool {
				return s.subscript(name) && (s.has("=") || s.has("+="))
			})
		}
		if s.word(); s.at == before {
			s.copy(1)
		}
	}
}

// subscript reads that of a variable. It is arithmetic, unless the variable is
// known for texts. False is one that does not end.
func (s *scan) subscript(name string) (ends bool) {
	start := s.at
	p := spot{number: s.number || !s.maps[name], reader: s.reader, around: s.around, tame: s.tame}
	s.within(p, func() {
		s.copy(1)
		for depth := 0; s.more(); {
			switch {
			case s.has("["):
				depth++
				s.copy(1)
			case s.has("]"):
				s.copy(1)
				if depth--; depth < 0 {
					ends = true
					return
				}
			default:
				s.piece(inPattern)
			}
		}
	})
	if p.number {
		s.computes(start)
	}
	return ends
}

// piece reads one piece of a word: something in quotes, something to be expanded,
// a value, or a letter.
func (s *scan) piece(q quoting) {
	quotes := q == inPlain || q == inPattern
	switch {
	case s.text[s.at] == mark:
		s.value(q)
	case s.has("\\" + string(mark)): // it would quote the first letter of the value
		if s.at++; !quotes {
			s.put(`\\`)
		}
	case s.has(`\`):
		s.copy(2)
	case quotes && s.has("'"):
		s.single("'", inSingle)
	case quotes && s.has("$'"):
		s.single("$'", inAnsi)
	case (quotes || q == inBraces) && s.has(`"`):
		s.copy(1)
		s.quoted()
	case s.has("$"):
		s.dollar(q)
	case s.has("`"):
		s.backticks(q)
	default:
		s.copy(1)
	}
}

// quoted reads up to the end of double quotes that have begun.
func (s *scan) quoted() {
	for s.more() && !s.has(`"`) {
		s.piece(inDouble)
	}
	s.copy(1)
}

// single reads single quotes. Values in them end the quotes and begin them again; quotes
// with nothing in between are left out, as some shells take them for more than that.
func (s *scan) single(open string, q quoting) {
	began := len(s.out)
	s.copy(len(open))
	empty := len(s.out)
	valued := false
	for s.more() && !s.has("'") {
		switch {
		case s.text[s.at] == mark && s.number:
			s.value(q)
		case s.text[s.at] == mark:
			if valued = true; len(s.out) == empty {
				s.out = s.out[:began]
			} else {
				s.put("'")
			}
			s.value(q)
			began = len(s.out)
			s.put(open)
			empty = len(s.out)
		case q == inAnsi && s.has("\\"+string(mark)):
			s.at++
			s.put(`\\`)
		case q == inAnsi && s.has(`\`):
			s.copy(2)
		default:
			s.copy(1)
		}
	}
	if s.more() && valued && len(s.out) == empty {
		s.out = s.out[:began]
		s.at++
		return
	}
	s.copy(1)
}

var dollarName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\$([A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])`) })

// dollar reads what begins with $.
func (s *scan) dollar(q quoting) {
	switch {
	case s.has("$((") && s.sum("$((", "))"):
	case s.has("$("):
		s.copy(2)
		s.code(')')
	case s.has("$[") && s.sum("$[", "]"):
	case s.has("${"):
		s.within(s.spot, func() { s.parameter(q) })
	case s.has("$" + string(mark)): // it is no name
		s.at++
		s.put(`\$`)
	default:
		name := dollarName().FindString(s.rest())
		if len(name) == 2 && s.has(name+string(mark)) { // zsh would take $#$ for one
			s.put("${" + name[1:] + "}")
			s.at += 2
			return
		}
		s.copy(max(1, len(name)))
		if s.shell == "zsh" && len(name) > 1 && s.has("[") {
			s.try("[", func() bool { return s.subscript(name[1:]) })
		}
	}
}

// sum reads arithmetic, and says whether it is: two brackets may also be one command in
// another.
func (s *scan) sum(open, closing string) bool {
	start := s.at
	is := true
	read := func() {
		s.copy(len(open))
		nested := open[len(open)-1:]
		for depth := 0; s.more(); {
			switch {
			case depth == 0 && s.has(closing):
				s.copy(len(closing))
				s.computes(start)
				return
			case depth == 0 && s.has(closing[:1]):
				is = false
				return
			case s.has(nested):
				depth++
				s.copy(1)
			case s.has(closing[:1]):
				depth--
				s.copy(1)
			default:
				s.piece(inHere)
			}
		}
	}
	return s.try(open, func() bool {
		s.within(spot{number: true, around: s.around}, read)
		return is
	})
}

var parameterName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[#!=~^+]*([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*?$!#-])?`)
})

// parameter reads ${…}.
func (s *scan) parameter(q quoting) {
	s.copy(2)
	if s.any(" \t\n|") { // what a command prints
		s.copy(1)
		s.code('}')
		return
	}
	upTo := func(end string, q quoting) {
		for s.more() && !s.has(end) {
			s.piece(q)
		}
		s.copy(1)
	}
	if s.has("(") { // of zsh
		s.within(spot{number: true}, func() { upTo(")", inHere) })
	}
	name := parameterName().FindStringSubmatch(s.rest())
	if strings.HasPrefix(name[0], "#") { // how long it is, is a number
		s.setApart(s.at, s.at+len(name[0]))
	}
	s.copy(len(name[0]))
	if s.has("[") {
		s.subscript(name[1])
	}
	if q == inDouble {
		q = inBraces
	}
	switch {
	case s.has(":") && !(s.has(":-") || s.has(":=") || s.has(":+") || s.has(":?")): // a part of it
		start := s.at
		s.number = true
		upTo("}", q)
		s.computes(start)
	case s.any("#%/^,"): // in patterns quotes are quotes, whatever is around them
		upTo("}", inPattern)
	default:
		upTo("}", q)
	}
}

var backticksEscape = strings.NewReplacer(`\`, `\\`, "`", "\\`")

// backticks reads `…`: a command in which some letters have a \ more than elsewhere.
func (s *scan) backticks(q quoting) {
	removed := "$`\\"
	if q == inDouble {
		removed += `"`
	}
	var body strings.Builder
	end := s.at + 1
	for ; end < len(s.text) && s.text[end] != '`'; end++ {
		if s.text[end] == '\\' && end+1 < len(s.text) && s.text[end+1] != mark {
			if end++; strings.IndexByte(removed, s.text[end]) < 0 {
				body.WriteByte('\\')
			}
		}
		body.WriteByte(s.text[end])
	}
	if strings.IndexByte(body.String(), mark) < 0 {
		s.copy(end + 1 - s.at)
		return
	}
	woven := backticksEscape.Replace(string(s.inner(body.String(), spot{around: cmp.Or(s.reader, s.around)}, func(in *scan) { in.code(0) })))
	if q == inDouble && strings.Contains(s.text[s.at:end], `\"`) { // as the author does; bash can have trouble with either
		woven = strings.ReplaceAll(woven, `"`, `\"`)
	}
	s.put("`" + woven)
	s.setApart(s.at, end)
	s.at = min(end, len(s.text))
	s.copy(1)
}

// value writes a value.
func (s *scan) value(q quoting) {
	before := s.text[:s.at]
	_, way, digits, after, found := cutValue(s.rest())
	n, err := strconv.Atoi(digits)
	if !found || err != nil || n >= len(s.values) {
		s.fail(errCut)
		s.at = len(s.text)
		return
	}
	s.at = len(s.text) - len(after)
	value := s.values[n]
	s.line.whole = append(s.line.whole, n)
	if reader := cmp.Or(s.reader, s.around); reader != "" && !(way == asQuoted && ReadsWords(s.reader)) {
		s.readAsCode(n, reader)
	}
	if s.into != "" {
		s.given[s.into] = append(s.given[s.into], value)
	}
	switch {
	case s.number:
		s.mustBeNumber(value)
		s.put(strings.TrimSpace(value))
		return
	case (s.tame || s.whole && q == inPlain && way == asWords) && expands(value):
		s.fail(errWild)
	case q == inPlain && strings.HasSuffix(before, "..") && (numberForm().MatchString(value) || letterForm().MatchString(value)):
		s.put(value) // no variable may stand in {1..9}
		return
	}
	texts := q == inDouble || q == inBraces || q == inHere
	if way == asQuoted && (texts || ReadsWords(s.reader)) {
		value = shellQuote(value) // these quotes are for others
	}
	s.wrote = append(s.wrote, value)
	name := s.name(value)
	switch {
	case texts || q == inPattern && way == asWords:
		s.put("${" + name + "}")
	case q == inSingle || q == inAnsi:
		s.put(`"${` + name + `}"`)
	case way == asWords && s.shell == "zsh": // it does not split by itself; as patterns its values could run commands
		s.put("${=" + name + "}")
	case way == asWords:
		s.put("${" + name + "}")
	default:
		s.put(`"${` + name + `}"`)
	}
}
