package text

import (
	"fmt"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
)

// lineReader looks for an error line by line in a text that the library could not parse. The library often stops far
// below the error: at the next quotation mark, or at the next line with a colon. lineReader reports only what is
// certain from the lines; for the rest, the position of the library is used.
type lineReader struct {
	m    mistake
	text string
	// The key above: its column, the offset of its colon, and whether it has a value on its line.
	column, colon int
	hasKey        bool
	hasValue      bool
	emptyBlock    bool // the value is | without any lines
	blockIndent   int  // of the block scalar that has just ended, or 0
	// The lines of the last two keys.
	above, before pairLine
	// The list entry above, unless it has a key: its column starting at 1, or 0; its line; and the number of entries.
	dash, entry, entries int
}

// pairLine is a line with a key: its offset, the column of the key, and whether it has a value.
type pairLine struct {
	at, column      int
	hasValue, entry bool
	known           bool
}

// lines reports the first error that lineReader finds.
func (m mistake) lines() bool {
	r := &lineReader{m: m, text: m.p.text}
	for at := 0; at < len(r.text) && at <= m.at; {
		next, found := r.line(at)
		if found {
			return true
		}
		at = next
	}
	return false
}

// report adds an error and returns true.
func (r *lineReader) report(code diag.Code, start, end int, help, format string, args ...any) bool {
	r.m.p.report(code, start, end, help, format, args...)
	return true
}

// reportDash reports an entry without a space after its dash.
func (r *lineReader) reportDash(start, end int, content string) bool {
	r.m.p.report(CodeNotAPair, start, end, fmt.Sprintf("Write %q.", "- "+content[1:]),
		"There is no space after the dash of this entry.").Write(r.m.p.span(start, start+1), "- ")
	return true
}

// after returns the start of the line after the one at an offset.
func (r *lineReader) after(at int) int {
	end := endOfLine(r.text, at)
	if end < len(r.text) {
		end += lineBreak(r.text[end:])
	}
	return end
}

// skipBlankLines returns the offset after empty lines and comments.
func (r *lineReader) skipBlankLines(at int) int {
	for at < len(r.text) && isBlank(lineAround(r.text, at)) {
		at = r.after(at)
	}
	return at
}

// indentAt returns the indentation of the line at an offset.
func (r *lineReader) indentAt(at int) int {
	line := lineAround(r.text, at)
	return len(line) - len(strings.TrimLeft(line, " "))
}

// line checks one line and returns the offset of the next.
func (r *lineReader) line(at int) (next int, found bool) {
	next = r.after(at)
	line, content, column := splitLine(r.text, at)
	if content == "" || content[0] == '#' || content[0] == '\t' || line == "---" || line == "..." {
		return next, false
	}
	entry := false
	parent := column
	for strings.HasPrefix(content, "- ") {
		entry, parent = true, column
		content = strings.TrimLeft(content[2:], " ")
		column = len(line) - len(content)
	}
	if content == "" || content == "-" || content[0] == '#' {
		r.hasKey = false
		return next, false
	}
	key, value, isPair := linePair(content)
	if !isPair {
		switch {
		case !entry && len(content) > 1 && content[0] == '-' && isLetter(content[1]) && r.dash == column+1:
			return next, r.reportDash(at+column, at+len(line), content)
		case entry:
			if r.entryMisplaced(at, parent) {
				return next, true
			}
			r.hasKey, r.dash, r.entry = false, parent+1, at
			r.entries++
			return r.value(at, at+column, parent, next)
		case r.hasKey && column > r.column && r.hasValue:
			return next, false // it continues the text above
		case r.hasKey && column > r.column:
			switch lines, pairs := r.below(at, column); {
			case lines < 2:
				return next, false
			case 2*pairs < lines:
				return next, r.reportBar()
			default:
				return next, r.notAPair(at+column, content, next)
			}
		case r.blockIndent > 0 && !looksLikePair(content):
			return next, r.report(CodeIndentation, at+column, at+len(line),
				fmt.Sprintf("Indent it by %d spaces if it belongs to the text; if not, write a key and a colon.",
					r.blockIndent), "This line is indented less than the text above it.")
		case r.emptyBlock:
			return next, r.report(CodeIndentation, at+column, at+len(line),
				fmt.Sprintf("Put %d spaces or more before each of its lines.", r.column+2),
				"The text that begins with | on the line above must be indented.")
		default:
			return next, r.notAPair(at+column, content, next)
		}
	}
	r.column, r.colon, r.hasKey, r.emptyBlock, r.blockIndent = column, at+column+len(key), true, false, 0
	r.dash, r.entries = 0, 0
	r.hasValue = value != "" && value[0] != '#'
	here := pairLine{at: at, column: column, hasValue: r.hasValue, entry: entry, known: true}
	if strings.HasPrefix(key, "-") && !entry {
		return next, r.reportDash(at+column, at+column+len(key), content)
	}
	if r.misplaced(here) {
		return next, true
	}
	r.before, r.above = r.above, here
	if !r.hasValue {
		return next, false
	}
	return r.value(at, at+len(line)-len(value), column, next)
}

// looksLikePair reports whether two words could be a key and a value.
func looksLikePair(content string) bool {
	key, value, _ := strings.Cut(content, " ")
	return isKey(key) && isKey(strings.TrimSpace(value)) || strings.Contains(key, ":")
}

// linePair splits the content of a line at the colon of a simple key, which may be quoted.
func linePair(content string) (key, value string, ok bool) {
	end := 0
	if c := content[0]; c == '"' || c == '\'' {
		end = closingQuote(content, 0)
	} else {
		for end < len(content) && content[end] != ':' && isKey(content[end:end+1]) {
			end++
		}
		if end < len(content) && content[end] >= 0x80 { // a letter of another script
			end = max(strings.IndexByte(content, ':'), 0)
		}
	}
	if end == 0 || end >= len(content) || content[end] != ':' || end+1 < len(content) && !isSpace(content[end+1]) {
		return "", "", false
	}
	return content[:end], strings.TrimLeft(content[end+1:], " \t"), true
}

// value checks the value at an offset of a line. indent is the column of its key or dash.
func (r *lineReader) value(line, at, indent, next int) (int, bool) {
	switch c := r.text[at]; c {
	case '|', '>':
		return r.block(indent, next)
	case '"', '\'':
		end := closingQuote(r.text, at)
		if end <= endOfLine(r.text, at) {
			return next, false
		}
		if !r.endsBefore(next, indent) {
			return max(r.after(min(end, len(r.text))), next), false
		}
		r.m.reportQuote(at)
		return next, true
	case '[', '{':
		end := closingBracket(r.text, at)
		if end < 0 || end > endOfLine(r.text, at) {
			if !r.endsBefore(next, indent) {
				if end < 0 {
					return len(r.text), false
				}
				return max(r.after(end), next), false
			}
			written := strings.TrimRight(r.text[at:endOfLine(r.text, at)], " \t")
			help := fmt.Sprintf("Write a closing %c after the last entry", closingFor(c))
			if strings.ContainsAny(written[1:], "[{#\"'") {
				help += "."
			} else {
				help += ": " + written + string(closingFor(c))
			}
			return next, r.report(CodeBracket, at, at+1, help, "This bracket is never closed.")
		}
		rest := strings.TrimRight(r.text[end:endOfLine(r.text, end)], " \t")
		if rest != "" && isStray(rest) {
			start := end + len(rest) - len(strings.TrimLeft(rest, " \t"))
			found := r.report(CodeNeedsQuotes, start, end+len(rest),
				fmt.Sprintf("Remove it: %s", strings.TrimSpace(r.text[lineStart(r.text, line):end])),
				"There is something after the closing bracket.")
			if found && r.m.unchanged(end, end+len(rest)) {
				r.m.p.out[len(r.m.p.out)-1].Remove("it", r.m.p.span(end, end+len(rest)))
			}
			return next, found
		}
	}
	return next, false
}

// isStray reports whether s consists of closing marks and separators, which may be left over after a flow list or map.
func isStray(s string) bool { return strings.Trim(s, " \t\"'`]},;") == "" }

// closingFor returns the closing bracket for an opening one.
func closingFor(opening byte) byte { return map[byte]byte{'[': ']', '{': '}'}[opening] }

// closingBracket returns the offset after the bracket that closes the one at an offset, or -1.
func closingBracket(s string, at int) int {
	depth := 0
	for i := at; i < len(s); i++ {
		switch c := s[i]; c {
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 {
				return i + 1
			}
		case '"', '\'':
			if isSpace(s[i-1]) || strings.IndexByte("[{,:\n", s[i-1]) >= 0 {
				i = closingQuote(s, i) - 1
			}
		}
	}
	return -1
}

// endsBefore reports whether the value of a key at a column must have ended before the line at an offset: the text ends
// there, or another key follows.
func (r *lineReader) endsBefore(at, column int) bool {
	at = r.skipBlankLines(at)
	if at >= len(r.text) {
		return true
	}
	_, content, is := splitLine(r.text, at)
	if is > column {
		return false
	}
	entry := strings.TrimLeft(strings.TrimPrefix(content, "- "), " ")
	if len(entry) < len(content) && is == column {
		return true // the next entry
	}
	if entry == "" {
		return false
	}
	_, _, isPair := linePair(entry)
	return isPair
}

// block skips the lines of a block scalar. Its first line determines the indentation.
func (r *lineReader) block(indent, at int) (int, bool) {
	first, own, lines := -1, 0, 0
	for ; at < len(r.text); at = r.after(at) {
		line, content, column := splitLine(r.text, at)
		if content == "" {
			continue
		}
		switch {
		case column <= indent:
			r.emptyBlock, r.blockIndent = first < 0, own
			return at, false
		case first < 0:
			first, own = at, column
		case column < own && content[0] == '#':
			continue
		case column < own && lines == 1 && r.columnBelow(at) < own:
			return at, r.report(CodeIndentation, first, first+own,
				fmt.Sprintf("Give all lines of the text the same indentation: %d spaces before %q.", column,
					firstWords(r.text, first)),
				"The first line of this text is indented further than the lines below it.")
		case column < own:
			return at, r.report(CodeIndentation, at+column, at+len(line),
				fmt.Sprintf("Indent it by %d spaces, as the lines above, or by %d if it is a key of its own.", own,
					indent), "This line is indented less than the text that it belongs to.")
		}
		lines++
	}
	return at, false
}

// firstWords returns the beginning of the content of a line.
func firstWords(s string, at int) string {
	words := strings.TrimSpace(lineAround(s, at))
	if runes := []rune(words); len(runes) > 30 {
		words = string(runes[:30]) + "…"
	}
	return words
}

// below counts the lines below a key without a value, at their indentation, and those of them with a key. It returns 0
// if the library stopped further down, because then the lines are correct.
func (r *lineReader) below(at, column int) (lines, pairs int) {
	for ; at < len(r.text); at = r.after(at) {
		_, content, is := splitLine(r.text, at)
		if content == "" {
			continue
		}
		if is <= r.column {
			break
		}
		if is == column {
			lines++
			_, _, isPair := linePair(content)
			_, _, isGlued := cutGlued(content)
			if isPair || isGlued {
				pairs++
			}
		}
	}
	if r.m.at > at {
		return 0, 0
	}
	return lines, pairs
}

// reportBar reports a key whose value is text on the lines below, without the mark for such a text.
func (r *lineReader) reportBar() bool {
	start := lineStart(r.text, r.colon)
	written := strings.TrimLeft(r.text[start:r.colon], " -") + ": |"
	r.m.p.report(CodeNotAPair, start+r.column, r.colon+1,
		fmt.Sprintf("Write %q and leave the lines below as they are.", written),
		"A text over several lines needs a | after the colon of its key.").Write(r.m.p.span(r.colon, r.colon+1), ": |")
	return true
}

// notAPair explains a line without a key where one is required.
func (r *lineReader) notAPair(at int, content string, next int) bool {
	name, rest, hasColon := strings.Cut(content, ":")
	if hasColon && isKey(name) && rest != "" && !isSpace(rest[0]) && !strings.HasPrefix(rest, "//") {
		r.m.p.reportColon(at+len(name), name, name+": "+rest)
		return true
	}
	if glued, bracket, ok := cutGlued(content); ok {
		r.m.p.reportGlued(at, content, glued, bracket)
		return true
	}
	if strings.IndexByte("\"'[]{},|>@`%!&*?-", content[0]) >= 0 ||
		strings.Contains(content, ": ") || strings.HasSuffix(content, ":") {
		return false
	}
	help, meant := r.pairHelp(at, content, next)
	found := r.m.p.report(CodeNotAPair, at, at+len(content), help,
		"This line has no colon, so it is not a key with a value.")
	if meant != "" {
		found.Write(r.m.p.span(at, at+len(content)), meant)
	}
	return true
}

// cutGlued returns the key of a line without ": " between a key and a value in brackets, and the offset of the bracket.
func cutGlued(content string) (name string, bracket int, ok bool) {
	bracket = strings.IndexAny(content, "[{")
	if bracket <= 0 || closingBracket(content, bracket) != len(content) {
		return "", 0, false
	}
	before := strings.TrimRight(content[:bracket], " ")
	name = strings.TrimSuffix(before, ":")
	return name, bracket, isKey(name) && (len(name) == len(before) || len(before) == bracket) && content[0] != '"' &&
		content[0] != '\''
}

// reportGlued reports a line that cutGlued found.
func (p *yamlParser) reportGlued(at int, content, name string, bracket int) {
	meant := name + ": " + content[bracket:]
	if content[bracket-1] == ':' {
		p.reportColon(at+len(name), name, meant)
		return
	}
	p.report(CodeNotAPair, at, at+len(name), fmt.Sprintf("Write %q.", meant), "There is no colon after the key %q.",
		name).Write(p.span(at, at+bracket), name+": ")
}

// reportColon reports a colon without a space after it. meant is how the line should be written.
func (p *yamlParser) reportColon(colon int, name, meant string) {
	p.report(CodeColon, colon, colon+1, fmt.Sprintf("Write %q.", meant), "There is no space after the colon of %q.",
		name).Write(p.span(colon, colon+1), ": ")
}

// pairHelp returns the help for a line without a colon, and what was meant if that is certain.
func (r *lineReader) pairHelp(at int, content string, next int) (help, meant string) {
	word, rest, several := strings.Cut(content, " ")
	rest = strings.TrimSpace(rest)
	deeper := false
	if below := r.skipBlankLines(next); below < len(r.text) {
		column := at - lineStart(r.text, at)
		indent := r.indentAt(below)
		deeper = indent > column || indent == column && strings.HasPrefix(r.text[below+indent:], "- ")
	}
	switch {
	case !isKey(word) || word[0] == '"' || word[0] == '\'':
		return pairHelp, ""
	case !several && deeper:
		meant = word + ":"
		return fmt.Sprintf("Write %q.", meant), meant
	case !several:
		return fmt.Sprintf("Write %q and its value.", word+":"), ""
	case strings.HasPrefix(rest, "= "):
		meant = word + ": " + strings.TrimSpace(rest[1:])
		return fmt.Sprintf("Write %q.", meant), meant
	case strings.HasPrefix(rest, "[") || strings.HasPrefix(rest, "{") || !strings.Contains(rest, " ") ||
		word == strings.ToLower(word):
		return fmt.Sprintf("Write %q; or indent the line if it continues the value above.", word+": "+rest), ""
	}
	return pairHelp, ""
}
