package text

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/espalier-run/espalier/internal/diag"
)

// explain reports why the library could not parse the text. It finds the cause in the text at the positions that the
// library reports, never in the wording of its message.
func (p *yamlParser) explain(err error, tooDeep bool) {
	var e *yaml.LoadError
	if !errors.As(err, &e) {
		p.report(CodeSyntax, 0, 0, lookHere, "This is not YAML: %s.", err.Error())
		return
	}
	if e.Stage == yaml.ReaderStage {
		p.explainCharacter(e)
		return
	}
	at, context := p.seek(e.Mark.Line, e.Mark.Column), -1
	if e.ContextMark.Line > 0 {
		context = p.seek(e.ContextMark.Line, e.ContextMark.Column)
	}
	if tooDeep {
		p.report(CodeTooMuch, at, at+1, "Flatten the structure.", "Values are nested more than %d deep here.", maxDepth)
		return
	}
	m := mistake{p: p, at: at, context: context, stage: e.Stage}
	for _, explained := range [...]func() bool{
		m.tab, m.alias, m.lines, m.openQuote, m.unclosedQuoteAbove, m.escape, m.openBracket, m.colon, m.listAfterKey,
		m.forbiddenStart,
		m.notAPair, m.outOfPlace, m.trailing, m.indentation,
	} {
		if explained() {
			return
		}
	}
	p.report(CodeSyntax, at, wordEnd(p.text, at), lookHere, "This is not YAML: %s.", e.Message)
}

// lookHere is help for errors whose cause is not known.
const lookHere = "Check the quotation marks, the indentation and the colons of this line and of the one above."

// explainCharacter reports a character that YAML does not allow. The library does not report its place.
func (p *yamlParser) explainCharacter(e *yaml.LoadError) {
	for i, r := range p.text {
		if r < 0x20 && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF {
			p.report(CodeCharacter, i, i+utf8.RuneLen(r),
				`Remove it; in double quotes it can be written as an escape such as "\x07".`,
				"The control character U+%04X is not allowed.", r)
			return
		}
	}
	p.report(CodeCharacter, 0, 0, "Save the file in the UTF-8 encoding.", "This cannot be read as text: %s.", e.Message)
}

// mistake is an error of the library. Each method checks for one cause, and reports it and returns true if it applies.
type mistake struct {
	p       *yamlParser
	at      int // where the library stopped
	context int // start of the construct being parsed, or -1
	stage   yaml.Stage
}

// char returns the byte at an offset, or 0 outside of the text.
func (m mistake) char(at int) byte {
	if at < 0 || at >= len(m.p.text) {
		return 0
	}
	return m.p.text[at]
}

// lineStart returns the offset of the start of the line at an offset.
func lineStart(s string, at int) int {
	at = min(at, len(s))
	for at > 0 && !endsWithBreak(s[:at]) {
		at--
	}
	return at
}

// splitLine returns the line at an offset without white space at its end, its content, and the column of the content.
func splitLine(s string, at int) (line, content string, column int) {
	line = strings.TrimRight(lineAround(s, at), " \t")
	content = strings.TrimLeft(line, " ")
	return line, content, len(line) - len(content)
}

// lineAround returns the line at an offset, without its line break.
func lineAround(s string, at int) string { return s[lineStart(s, at):endOfLine(s, at)] }

// wordEnd returns the end of the word at an offset, which has at least one byte.
func wordEnd(s string, at int) int {
	end := at
	for end < len(s) && !isSpace(s[end]) && lineBreak(s[end:]) == 0 {
		end++
	}
	return max(end, min(at+1, len(s)))
}

// tab explains a tab in the indentation of the line or of the construct being parsed.
func (m mistake) tab() bool {
	from := lineStart(m.p.text, m.at)
	if m.context >= 0 && m.char(m.context) != '"' && m.char(m.context) != '\'' {
		from = min(from, lineStart(m.p.text, m.context))
	}
	for start := from; start <= m.at && start < len(m.p.text); {
		line := lineAround(m.p.text, start)
		white := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		if t := strings.IndexByte(white, '\t'); t >= 0 && white != line {
			m.p.report(CodeTab, start+t, start+len(white), "Indent with spaces; YAML does not allow tabs there.",
				"This line is indented with a tab.")
			return true
		}
		start = endOfLine(m.p.text, start)
		if start < len(m.p.text) {
			start += lineBreak(m.p.text[start:])
		}
	}
	if m.char(m.at) == '\t' {
		found := m.p.report(CodeTab, m.at, m.at+1, "Use spaces between the key and its value.",
			"There is a tab where a value is expected.")
		end := m.at
		for isSpace(m.char(end)) {
			end++
		}
		if next := m.char(end); m.char(m.at-1) == ':' && next != 0 && strings.IndexByte("-?\r\n", next) < 0 {
			found.Change("Write a space", " ", m.p.span(m.at, end))
		}
		return true
	}
	return false
}

// alias explains an alias without an anchor.
func (m mistake) alias() bool {
	if m.stage != yaml.ComposerStage || m.char(m.at) != '*' {
		return false
	}
	end := wordEnd(m.p.text, m.at)
	m.p.report(CodeAnchor, m.at, end, "Put the value in quotes if the asterisk is part of the string.",
		"There is no anchor %q that this alias could repeat.", "&"+m.p.text[m.at+1:end])
	return true
}

// openQuote explains a quotation mark that is never closed.
func (m mistake) openQuote() bool {
	quote := m.char(m.context)
	if m.stage != yaml.ScannerStage || quote != '"' && quote != '\'' ||
		closingQuote(m.p.text, m.context) < len(m.p.text) || m.char(m.at) == '\\' {
		return false
	}
	m.reportQuote(m.context)
	return true
}

// unclosedQuoteAbove reports a missing quotation mark further up: the string extends to the next mark in the file,
// after which the text is invalid.
func (m mistake) unclosedQuoteAbove() bool {
	if m.stage != yaml.ParserStage || m.at >= len(m.p.text) {
		return false
	}
	end := len(strings.TrimRight(m.p.text[:m.at], " "))
	quote := m.char(end - 1)
	if quote != '"' && quote != '\'' {
		return false
	}
	for start := lineStart(m.p.text, m.at); start > 0; {
		start = lineStart(m.p.text, start-1)
		line := lineAround(m.p.text, start)
		_, value, found := cutPair(line)
		if !found || value == "" || value[0] != quote {
			continue
		}
		opening := start + len(line) - len(value)
		if closingQuote(m.p.text, opening) == end {
			m.reportQuote(opening)
			return true
		}
	}
	return false
}

// reportQuote reports the quotation mark at an offset as not closed.
func (m mistake) reportQuote(at int) {
	written := strings.TrimSpace(m.p.text[at:endOfLine(m.p.text, at)])
	help := fmt.Sprintf("Write a closing %c at the end of the string", m.char(at))
	if strings.ContainsAny(written, `\#`) || strings.IndexByte(written[1:], written[0]) >= 0 {
		help += "."
	} else {
		help += ": " + written + written[:1]
	}
	m.p.report(CodeQuote, at, at+1, help, "This quotation mark is never closed.")
}

// quote adds a fix that puts the rest of a line in quotes, unless something else may be meant: a comment, a value that
// continues below, or a part of a value in brackets.
func (m mistake) quote(found *diag.Diagnostic, at int) {
	rest := strings.TrimRight(m.p.text[at:lineStart(m.p.text, at)+len(lineAround(m.p.text, at))], " \t\r")
	lead := strings.TrimLeft(m.p.text[lineStart(m.p.text, at):at], " -")
	key, _, found2 := cutPair(lead)
	if lead != "" && (!found2 || !isKey(key)) || strings.ContainsAny(rest, "\r\t") || strings.Contains(rest, " #") ||
		!m.endsHere(at) || !m.unchanged(at, at+len(rest)) {
		return
	}
	found.Change("Put the value in quotes", quoted(rest), m.p.span(at, at+len(rest)))
}

// endsHere reports whether the value at an offset ends with its line: the lines below are not indented further.
func (m mistake) endsHere(at int) bool {
	line := lineAround(m.p.text, at)
	start := lineStart(m.p.text, at)
	column := len(line) - len(strings.TrimLeft(line, " -"))
	for next := start + len(line); next < len(m.p.text); {
		next += max(lineBreak(m.p.text[next:]), 1)
		if next >= len(m.p.text) {
			break
		}
		below := lineAround(m.p.text, next)
		if strings.TrimSpace(below) != "" {
			return len(below)-len(strings.TrimLeft(below, " ")) <= column
		}
		next += len(below)
	}
	return true
}

// unchanged reports whether the file has a part of the text as it is here, without repairs.
func (m mistake) unchanged(start, end int) bool {
	return m.p.file.Text[m.p.base+start:m.p.base+end] == m.p.text[start:end]
}

// cutPair splits a line at the colon of its key. The value has no leading white space.
func cutPair(line string) (key, value string, found bool) {
	for i := range len(line) {
		if line[i] == ':' && i+1 < len(line) && isSpace(line[i+1]) {
			return strings.TrimLeft(line[:i], " -"), strings.TrimLeft(line[i+1:], " \t"), true
		}
	}
	return "", "", false
}

// escape explains a backslash in double quotes before a character that it does not escape.
func (m mistake) escape() bool {
	if m.stage != yaml.ScannerStage || m.char(m.context) != '"' || m.char(m.at) != '\\' {
		return false
	}
	end := m.at + 1
	if end < len(m.p.text) && lineBreak(m.p.text[end:]) == 0 {
		_, size := utf8.DecodeRuneInString(m.p.text[end:])
		end += size
	}
	m.p.report(CodeEscape, m.at, end, `Write the backslash twice, or use single quotes, in which it has no meaning.`,
		"%s is not a valid YAML escape sequence.", m.p.text[m.at:end]).
		Change("Write the backslash twice", `\\`, m.p.span(m.at, m.at+1))
	return true
}

// openBracket explains a flow list or map that is not closed, or lacks a comma.
func (m mistake) openBracket() bool {
	opening := m.char(m.context)
	if m.stage != yaml.ParserStage || opening != '[' && opening != '{' {
		return false
	}
	closing := closingFor(opening)
	if m.at < len(m.p.text) &&
		(lineStart(m.p.text, m.at) == lineStart(m.p.text, m.context) || closingBracket(m.p.text, m.context) > 0) {
		m.p.report(CodeBracket, m.at, wordEnd(m.p.text, m.at),
			"Separate the entries with commas, and put strings that contain commas, colons or brackets in quotes.",
			"A comma or a closing %c is missing before this.", closing)
		return true
	}
	m.p.report(CodeBracket, m.context, m.context+1, fmt.Sprintf("Write a closing %c after the last entry.", closing),
		"This bracket is never closed.")
	return true
}

// colon explains a colon where no key is allowed.
func (m mistake) colon() bool {
	if m.stage != yaml.ScannerStage || m.char(m.at) != ':' {
		return false
	}
	start := lineStart(m.p.text, m.at)
	line := lineAround(m.p.text, m.at)
	before := line[:m.at-start]
	if _, first, found := cutPair(before); found && first != "" {
		key, value, _ := cutPair(line)
		value = strings.TrimSpace(value)
		opening := start + len(line) - len(strings.TrimLeft(line[len(line)-len(first)-len(line[m.at-start:]):], " \t"))
		if missing := missingOpening(value); missing != "" {
			m.p.report(CodeColon, opening, start+len(line), fmt.Sprintf("Write %s: %s%s", key, missing, value),
				"The %s that opens this value is missing.", missing).Write(m.p.span(opening, opening), missing)
			return true
		}
		problem := m.p.report(CodeColon, m.at, m.at+1,
			fmt.Sprintf("Put the value in quotes: %s: %s", key, quoted(value)),
			"This value contains a colon and a space, which YAML reads as another key.")
		if value != "" && strings.IndexByte("\"'[{&*!|>", value[0]) < 0 &&
			strings.IndexByte("]},", value[len(value)-1]) < 0 {
			m.quote(problem, opening)
		}
		return true
	}
	above := lineStart(m.p.text, max(start-1, 0))
	for above > 0 && isBlank(lineAround(m.p.text, above)) {
		above = lineStart(m.p.text, above-1)
	}
	if start == 0 {
		return false
	}
	aboveLine := strings.TrimRight(lineAround(m.p.text, above), " \t")
	name, rest, found := strings.Cut(aboveLine, ":")
	switch {
	case found && rest != "" && !isSpace(rest[0]) && !strings.Contains(rest, ": ") &&
		isKey(strings.TrimLeft(name, " -")):
		m.p.reportColon(above+len(name), strings.TrimLeft(name, " -"), strings.TrimSpace(name)+": "+rest)
	case found && strings.HasPrefix(before, " ") && !isKey(strings.TrimLeft(before, " -")):
		m.p.report(CodeColon, m.at, m.at+1,
			"Put the whole value in quotes, or begin it with |- on the line of its key.",
			"This line continues the value above, and YAML reads the colon and the space in it as another key.")
	case found && strings.HasPrefix(before, " "):
		text := start + len(before) - len(strings.TrimLeft(before, " "))
		m.p.report(CodeIndentation, text, m.at,
			likeAbove(aboveLine)+", or put the value above in quotes if this line is part of it.",
			"This line is indented, but the key above it already has a value.")
	case !found:
		text := above + len(aboveLine) - len(strings.TrimLeft(aboveLine, " "))
		m.p.report(CodeNotAPair, text, above+len(aboveLine), pairHelp,
			"This line has no colon, so it is not a key with a value.")
	default:
		return false
	}
	return true
}

// missingOpening returns the opening quotation mark or bracket that is missing from a value that ends with the closing
// one.
func missingOpening(value string) string {
	last := len(value) - 1
	if last < 1 {
		return ""
	}
	switch c := value[last]; c {
	case '"', '\'':
		if strings.IndexByte(value, c) == last {
			return string(c)
		}
	case ']', '}':
		opening := map[byte]string{']': "[", '}': "{"}[c]
		if strings.Count(value, opening) == strings.Count(value, string(c))-1 {
			return opening
		}
	}
	return ""
}

// likeAbove returns the help for indenting a line like the key above it.
func likeAbove(line string) string {
	column := len(line) - len(strings.TrimLeft(line, " -"))
	if column == 0 {
		return "Remove the spaces before it"
	}
	return fmt.Sprintf("Put %s before it, as before the key above", spaces(column))
}

// isBlank reports whether a line is empty or a comment.
func isBlank(line string) bool {
	rest := strings.TrimLeft(line, " \t")
	return rest == "" || rest[0] == '#'
}

const pairHelp = `Write "key: value" or, in a list, "- entry"; indent the line if it continues the value above.`

// isKey reports whether s looks like the name of a key.
func isKey(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r < utf8.RuneSelf && !isWordByte(byte(r)) && !strings.ContainsRune("$/<>\"'", r)
	})
}

// quoted returns s in YAML quotes.
func quoted(s string) string {
	if !strings.ContainsAny(s, `"\`) {
		return `"` + s + `"`
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

// listAfterKey explains a dash on the line of a key.
func (m mistake) listAfterKey() bool {
	if m.stage != yaml.ScannerStage || m.char(m.at) != '-' {
		return false
	}
	m.p.report(CodeSyntax, m.at, m.at+1, "Put each entry on a line of its own below the key, or write [one, two].",
		"A list with dashes cannot begin on the line of its key.")
	return true
}

// forbiddenStart explains a value that begins with a reserved character.
func (m mistake) forbiddenStart() bool {
	if m.stage != yaml.ScannerStage {
		return false
	}
	at := m.at
	if m.context >= 0 && strings.IndexByte("|>!&*%", m.char(m.context)) >= 0 {
		at = m.context
	}
	c := m.char(at)
	if c == 0 || strings.IndexByte("@`%|>!&*?", c) < 0 {
		return false
	}
	end := endOfLine(m.p.text, at)
	found := m.p.report(CodeNeedsQuotes, at, at+1,
		fmt.Sprintf("Put the value in quotes: %s", quoted(strings.TrimSpace(m.p.text[at:end]))),
		"A value without quotes cannot begin with %c, which has a special meaning in YAML.", c)
	if strings.IndexByte("@`%", c) >= 0 {
		m.quote(found, at)
	}
	return true
}

// notAPair explains a line of words in the middle of a map.
func (m mistake) notAPair() bool {
	if m.stage != yaml.ScannerStage || m.context < 0 || strings.IndexByte("|>\"'", m.char(m.context)) >= 0 {
		return false
	}
	end := endOfLine(m.p.text, m.context)
	if lineStart(m.p.text, m.context) == lineStart(m.p.text, m.at) && m.at < len(m.p.text) {
		return false
	}
	m.p.report(CodeNotAPair, m.context, end, pairHelp, "This line has no colon, so it is not a key with a value.")
	return true
}

// outOfPlace explains indicators in the wrong place.
func (m mistake) outOfPlace() bool {
	if m.stage != yaml.ParserStage {
		return false
	}
	switch c := m.char(m.at); c {
	case ',', ']', '}':
		m.p.report(CodeNeedsQuotes, m.at, m.at+1,
			"Remove it, or put the whole value in quotes if it is part of a string.", "Unexpected %c.",
			c)
	case ':':
		m.p.report(CodeNotAPair, m.at, m.at+1, `Write a key before it: "key: value".`,
			"There is no key before this colon.")
	case '%':
		m.p.report(CodeSyntax, m.at, wordEnd(m.p.text, m.at), "Remove the line.", "This directive is not supported.").
			Remove("the line", m.p.span(lineStart(m.p.text, m.at), endOfLine(m.p.text, m.at)))
	default:
		return false
	}
	return true
}

// trailing explains text after a complete value: [a] b, "a" b.
func (m mistake) trailing() bool {
	start := lineStart(m.p.text, m.at)
	before := strings.TrimLeft(m.p.text[start:min(m.at, len(m.p.text))], " -")
	if m.stage != yaml.ParserStage || before == "" || m.at >= len(m.p.text) || lineBreak(m.p.text[m.at:]) > 0 {
		return false
	}
	end := endOfLine(m.p.text, m.at)
	value := m.p.text[start:end]
	if _, after, found := cutPair(value); found {
		value = after
	}
	m.p.report(CodeNeedsQuotes, m.at, end, "Put the whole value in quotes: "+quoted(strings.TrimSpace(value)),
		"There is text after the end of the value.")
	return true
}

// indentation explains a line that matches no level of indentation.
func (m mistake) indentation() bool {
	if m.stage != yaml.ParserStage {
		return false
	}
	start := lineStart(m.p.text, m.at)
	line := lineAround(m.p.text, m.at)
	if strings.TrimSpace(line) == "" {
		return false
	}
	first := start + len(line) - len(strings.TrimLeft(line, " "))
	what := "The indentation of this line matches none of the lines above."
	help := "Give it as many spaces as the lines that it belongs with."
	if m.char(m.context) == '-' && m.char(first) != '-' {
		what = "This key is among the entries of a list."
		help = `Begin the entry with "- ", or indent the list deeper than the key.`
	} else if m.char(first) == '-' && first == start && m.context >= 0 {
		what = "This list entry is among the keys of a map."
		help = "Indent it below the key that the list belongs to."
	}
	if name, column, ok := m.nearColumn(start, first-start); ok {
		help = fmt.Sprintf("There are %d spaces before it, and %d before %q; give both the same.", first-start, column,
			name)
	}
	m.p.report(CodeIndentation, first, wordEnd(m.p.text, first), help, "%s", what)
	return true
}

// nearColumn returns the key above a line that has nearly the same indentation and nested lines.
func (m mistake) nearColumn(start, column int) (key string, at int, ok bool) {
	least := 2
	for start > 0 {
		start = lineStart(m.p.text, start-1)
		line, content, is := splitLine(m.p.text, start)
		if isBlank(line) || !strings.HasSuffix(line, ":") {
			continue
		}
		if off := max(is-column, column-is); off > 0 && off <= least {
			key, at, ok, least = strings.TrimSuffix(content, ":"), is, true, off
		}
		if is < column {
			break
		}
	}
	return key, at, ok
}

// repairable reports whether an error can be repaired by quoting the value of the line.
func repairable(code diag.Code) bool {
	switch code {
	case CodeColon, CodeNeedsQuotes, CodeAnchor, CodeTag:
		return true
	}
	return false
}
