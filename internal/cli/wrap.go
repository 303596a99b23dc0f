package cli

import (
	"regexp"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/lazyregexp"
)

// wrapErr wraps a text for people to the width of the terminal that stderr is. Elsewhere, it returns the text as it is.
func (a *invocation) wrapErr(text string) string {
	if !a.IsTerminal(a.Stderr) {
		return text
	}
	columns, _ := terminalSize(a.Stderr)
	return wrapText(text, columns)
}

var (
	// suggested is a command at the end of a line, which is there to be copied.
	suggested = lazyregexp.New(`^(.*?\S:) (espalier [a-z].*)$`)
	// remarkAfter are the spaces between a command and what follows it on its line.
	remarkAfter = lazyregexp.New(` {3,}`)
	// wordOrQuote matches a part of a line that is not wrapped: a word, or words in quotes.
	wordOrQuote = lazyregexp.New("(?:\"[^\"]*\"|`[^`]*`|[^\\s\"`]|[\"`])+")
)

// wrapText breaks lines that are wider than a number of columns, between words. A command that ends a line moves to a
// line of its own, indented and whole. Words in quotes are not separated. Lines that are indented stay as they are:
// they are code, or part of a list.
func wrapText(text string, columns int) string {
	if columns <= 0 {
		return text
	}
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		if diag.Width(line) <= columns || strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") {
			out = append(out, line)
			continue
		}
		command := ""
		if m := suggested().FindStringSubmatch(line); m != nil {
			line, command = m[1], m[2]
		}
		out = append(out, wrapPieces(line, columns, wordOrQuote(), "")...)
		if command == "" {
			continue
		}
		if diag.Width(command)+2 <= columns {
			out = append(out, "  "+command)
			continue
		}
		for _, part := range remarkAfter().Split(command, -1) {
			out = append(out, "  "+part)
		}
	}
	return strings.Join(out, "\n")
}

// wrapPieces breaks a line between the pieces that match. Further lines begin with indent. Spaces between pieces stay
// unless a line ends there. A piece that is wider than columns gets a line of its own.
func wrapPieces(line string, columns int, piece *regexp.Regexp, indent string) (lines []string) {
	current, from := "", 0
	for _, at := range piece.FindAllStringIndex(line, -1) {
		space, word := line[from:at[0]], line[at[0]:at[1]]
		if current != "" && diag.Width(current+space+word) > columns {
			lines = append(lines, current)
			space, current = indent, ""
		}
		current += space + word
		from = at[1]
	}
	return append(lines, current+line[from:]) // a prompt ends with a space
}
