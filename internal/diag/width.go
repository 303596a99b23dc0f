package diag

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// maxLine is the maximum number of columns of a line in a frame.
const maxLine = 100

// tabStop is the width of tabs. Terminals differ, so a frame contains spaces instead of tabs to align the carets.
const tabStop = 4

// cropped is a line in the form that a frame shows.
type cropped struct {
	text   string
	before int // columns left of the marks
	width  int // columns of the marks
}

// crop returns a line in which each cell has a known width: tabs become spaces, and control characters become a
// replacement character. Of a long line it keeps only the neighborhood of [start, end).
func crop(line string, start, end int) cropped {
	line, start, end = around(line, start, end)
	type cell struct {
		text  string
		width int
	}
	var cells []cell
	column, total := 0, 0
	startCell, endCell := -1, -1
	for i := 0; i < len(line); {
		if i >= start && startCell < 0 {
			startCell = len(cells)
		}
		if i >= end && endCell < 0 {
			endCell = len(cells)
		}
		r, size := utf8.DecodeRuneInString(line[i:])
		c := cell{line[i : i+size], RuneWidth(r)}
		switch {
		case r == '\t':
			c.width = tabStop - column%tabStop
			c.text = strings.Repeat(" ", c.width)
		case r == utf8.RuneError && size == 1 || unicode.IsControl(r) || isDirection(r):
			c = cell{"\ufffd", 1}
		}
		if c.width == 0 && len(cells) > 0 {
			// A combining mark belongs to the letter before it, unless the span starts or ends between the two.
			if startCell != len(cells) && endCell != len(cells) {
				cells[len(cells)-1].text += c.text
				i += size
				continue
			}
		}
		cells = append(cells, c)
		column += c.width
		total += c.width
		i += size
	}
	if startCell < 0 {
		startCell = len(cells)
	}
	if endCell < 0 {
		endCell = len(cells)
	}
	endCell = max(endCell, startCell)

	from, to := 0, len(cells)
	if total > maxLine {
		// Start a third of the room before the span, and fill the rest.
		room := maxLine / 3
		for from = startCell; from > 0 && room > 0; from-- {
			room -= cells[from-1].width
		}
		room = maxLine
		for to = from; to < len(cells) && room > 0; to++ {
			room -= cells[to].width
		}
		for ; from > 0 && room > 0; from-- {
			room -= cells[from-1].width
		}
	}
	out := cropped{}
	var b strings.Builder
	if from > 0 {
		b.WriteString("…")
		out.before = 1
	}
	for i := from; i < to; i++ {
		b.WriteString(cells[i].text)
		switch {
		case i < startCell:
			out.before += cells[i].width
		case i < endCell:
			out.width += cells[i].width
		}
	}
	if to < len(cells) {
		b.WriteString("…")
	}
	out.text = strings.TrimRight(b.String(), " ")
	return out
}

// Width returns how many terminal columns a text without control characters takes.
func Width(text string) int {
	n := 0
	for _, r := range text {
		n += RuneWidth(r)
	}
	return n
}

// RuneWidth returns how many terminal columns a character takes.
func RuneWidth(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// isDirection reports whether a character changes the direction of text, which would reorder the characters of a frame.
func isDirection(r rune) bool {
	return r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' || r == '\u200e' || r == '\u200f'
}

// Shorten returns at most so many characters of a text, and an ellipsis if there are more.
func Shorten(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// Printable makes a message safe to print: names in it come from files, which must not send commands to a terminal or
// start new lines.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case unicode.IsControl(r) || isDirection(r):
			return utf8.RuneError
		}
		return r
	}, s)
}

// aroundBytes is how much of a line is read on each side of a span. It is more than a frame shows, so that a long line
// costs no more than a short one.
const aroundBytes = 2048

// around returns the part of a line that a frame can show, and the span in it.
func around(line string, start, end int) (string, int, int) {
	low, high := max(0, start-aroundBytes), min(len(line), min(end, start+aroundBytes)+aroundBytes)
	for low > 0 && !utf8.RuneStart(line[low]) {
		low--
	}
	for high < len(line) && !utf8.RuneStart(line[high]) {
		high++
	}
	return line[low:high], start - low, min(end, high) - low
}
