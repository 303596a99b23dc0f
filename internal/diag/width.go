package diag

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// maxLine is how many columns of a line a frame shows.
const maxLine = 100

// tabStop is where tabs go to. Every terminal has its own idea; a frame writes
// spaces, so that the carets are right everywhere.
const tabStop = 4

// cropped is a line as a frame shows it.
type cropped struct {
	text   string
	before int // columns left of the marks
	width  int // columns of the marks
}

// crop writes the line so that one column is one column: tabs become spaces,
// control characters become a replacement sign. Of a long line only the
// neighbourhood of [start, end) is kept.
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
			// A combining mark belongs to the letter before it, unless the
			// span begins or ends between the two.
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
		// Begin a third of the room before the span, and fill the rest.
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

// Width says how many columns a terminal gives to a text without control
// characters.
func Width(text string) int {
	n := 0
	for _, r := range text {
		n += RuneWidth(r)
	}
	return n
}

// RuneWidth says the same of a character.
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

// isDirection reports whether a character changes the direction of text, which
// would show a frame in another order than the file has.
func isDirection(r rune) bool {
	return r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' || r == '\u200e' || r == '\u200f'
}

// Printable makes a sentence fit to print: names in it come from files, which
// must not be able to send commands to a terminal or to begin new lines.
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

// aroundBytes is how much of a line is looked at on each side of a span: more
// than is ever shown, so that a long line costs no more than a short one.
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
