package cli

import (
	"math"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/xmaps"
	"github.com/espalier-run/espalier/internal/xslices"
)

// table is text in columns that fits a width: the widest columns give way and
// their cells wrap.
type table struct {
	header []string
	rows   [][]string
	below  map[int]string      // text under a row, across all columns
	right  []int               // columns of numbers
	whole  []int               // columns that are to be copied, and so never break
	last   bool                // the last column has a line of its own
	paint  func(string) string // of the header; nil for none
}

// add appends a row. What it says may come from a file.
func (t *table) add(cells ...string) {
	for i := range cells {
		cells[i] = diag.Printable(cells[i])
	}
	t.rows = append(t.rows, cells)
}

// under puts text below the last row.
func (t *table) under(text string) {
	xmaps.Set(&t.below, len(t.rows)-1, text)
}

const (
	columnGap = 2
	minCell   = 6
	// underIndent sets text below a row apart from the next row.
	underIndent = 4
	// wholeWord is how long a word may be and still count as one that a
	// column should not break.
	wholeWord = 24
)

// text returns the table, each line after indent. Columns that are empty in
// every row are left out.
func (t *table) text(columns int, indent string) string {
	keep := t.filled()
	own := -1 // the column below its row
	if t.last && len(keep) > 1 {
		own, keep = keep[len(keep)-1], keep[:len(keep)-1]
	}
	if len(keep) == 0 {
		return ""
	}
	columns -= diag.Width(indent)
	widths := t.widths(keep, columns)
	below := indent + strings.Repeat(" ", underIndent)
	var out strings.Builder
	for _, line := range t.lines(t.header, keep, widths) {
		if t.paint != nil {
			line = t.paint(line)
		}
		out.WriteString(strings.TrimRight(indent+line, " ") + "\n")
	}
	for n, row := range t.rows {
		for _, line := range t.lines(row, keep, widths) {
			out.WriteString(strings.TrimRight(indent+line, " ") + "\n")
		}
		if own >= 0 && own < len(row) && row[own] != "" {
			out.WriteString(below + row[own] + "\n")
		}
		for _, line := range wrap(t.below[n], columns-underIndent) {
			out.WriteString(below + line + "\n")
		}
	}
	return out.String()
}

// widths returns the widths of the columns to keep, which fit into columns if that is possible. Columns shrink in two
// rounds: first all but those of numbers and those that are copied, then also the numbers. Columns that are copied
// never shrink; the table is wider than the page then.
func (t *table) widths(keep []int, columns int) []int {
	widths, words := make([]int, len(keep)), make([]int, len(keep))
	for _, row := range append(t.rows[:len(t.rows):len(t.rows)], t.header) {
		for i, c := range keep {
			if c < len(row) {
				widths[i] = max(widths[i], diag.Width(row[c]))
				for word := range strings.FieldsSeq(row[c]) {
					words[i] = max(words[i], min(diag.Width(word), wholeWord))
				}
			}
		}
	}
	room := columns - columnGap*(len(widths)-1)
	numbers := slices.Clone(words)
	for i, c := range keep {
		switch {
		case slices.Contains(t.whole, c):
			words[i], numbers[i] = unbroken, unbroken
		case slices.Contains(t.right, c): // with their units, such as 5 h 44 min
			numbers[i] = unbroken
		}
	}
	shrink(widths, numbers, room)
	shrink(widths, words, room) // if the other columns are too narrow already
	return widths
}

// lines returns the lines of a row, whose cells wrap; none for a nil row. Every line is padded, so that columns align,
// and trimmed at its end.
func (t *table) lines(row []string, keep, widths []int) []string {
	if row == nil {
		return nil
	}
	cells := make([][]string, len(keep))
	lines := make([]string, 1)
	for i, c := range keep {
		if c < len(row) {
			cells[i] = wrap(row[c], max(widths[i], 1))
			lines = make([]string, max(len(lines), len(cells[i])))
		}
	}
	for l := range lines {
		for i := range keep {
			text := ""
			if l < len(cells[i]) {
				text = cells[i][l]
			}
			room := strings.Repeat(" ", max(0, widths[i]-diag.Width(text)))
			if slices.Contains(t.right, keep[i]) {
				text, room = room+text, ""
			}
			lines[l] += text + room + strings.Repeat(" ", columnGap)
		}
		lines[l] = strings.TrimRight(lines[l], " ")
	}
	return lines
}

// naturalWidth is how wide the table is when nothing gives way.
func (t *table) naturalWidth() int {
	total := -columnGap
	for _, width := range t.widths(t.filled(), math.MaxInt) {
		total += width + columnGap
	}
	return total
}

// filled returns the columns that are not empty in every row.
func (t *table) filled() []int {
	var keep []int
	for _, row := range t.rows {
		for c, text := range row {
			if text != "" {
				keep = xslices.AppendNew(keep, c)
			}
		}
	}
	slices.Sort(keep)
	return keep
}

// unbroken is the longest word of a column that never gives way.
const unbroken = math.MaxInt

// shrink takes from the widest column, one character at a time, until all fit into room: first from those that are
// wider than their longest word, and if there is none, from those that have to break words. words has the widths of the
// longest words; unbroken marks a column that keeps its width. No column becomes narrower than minCell.
func shrink(widths, words []int, room int) {
	total := 0
	for _, w := range widths {
		total += w
	}
	for total > room {
		widest := -1
		for _, breaks := range []bool{false, true} {
			for i, w := range widths {
				may := w > words[i] || breaks && words[i] != unbroken
				if w > minCell && may && (widest < 0 || w > widths[widest]) {
					widest = i
				}
			}
			if widest >= 0 {
				break
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
		total--
	}
}

// fit keeps as many words as there is room for on one line.
func fit(text string, columns int) string {
	text = strings.Join(strings.Fields(text), " ")
	if diag.Width(text) <= columns {
		return text
	}
	return wrap(text, columns-1)[0] + "…"
}

// wrap breaks text into lines of at most so many columns, between words where
// it can. Line breaks in the text count as spaces.
func wrap(text string, columns int) []string {
	var lines []string
	line, used := "", 0
	for word := range strings.FieldsSeq(diag.Printable(text)) {
		n := diag.Width(word)
		if used > 0 && used+1+n > columns {
			lines = append(lines, line)
			line, used = "", 0
		}
		for n > columns {
			head, tail := split(word, columns)
			lines = append(lines, head)
			word, n = tail, diag.Width(tail)
		}
		if used > 0 {
			line += " "
			used++
		}
		line += word
		used += n
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// split cuts a word that is too long for a line, after a slash, hyphen or the like when there is one in the second
// half. It takes at least one character, so that wrap always ends.
func split(word string, columns int) (head, tail string) {
	used, cut := 0, 0
	for i, r := range word {
		w := diag.RuneWidth(r)
		if used+w > columns && i > 0 {
			if cut == 0 {
				cut = i
			}
			break
		}
		used += w
		if strings.ContainsRune("/-_,", r) && used > columns/2 {
			cut = i + 1
		}
	}
	if cut == 0 {
		return word, ""
	}
	return word[:cut], word[cut:]
}
