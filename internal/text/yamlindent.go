package text

import (
	"fmt"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
)

// misplaced explains a line with inconsistent indentation. The library stops at it or at the line after it.
func (r *lineReader) misplaced(here pairLine) bool {
	above, parent := r.above, r.before
	switch {
	case !above.known || lineStart(r.text, r.m.at) != here.at || here.column == above.column:
		return false
	case above.entry:
		return r.dashMisplaced(above, here)
	case here.entry || !above.hasValue:
		return false
	case parent.hasValue && parent.column == here.column && here.column > above.column && here.hasValue:
		return r.indent(above, here.column) // it is between two lines that agree
	}
	follows := r.columnBelow(here.at)
	if parent.known && (parent.hasValue || parent.column > above.column) {
		return here.column < above.column && here.hasValue && follows == above.column && r.indent(here, above.column)
	}
	// The line above is the first one of its map; parent is the key of the map, if known. The line that agrees with the
	// next one is correct.
	if here.column > above.column && parent.known && r.dashFollows(here.at, above.column) {
		key := above.at + above.column
		found := r.m.p.report(CodeNotAPair, key, key+1,
			fmt.Sprintf("Write %q.", "- "+strings.TrimSpace(lineAround(r.text, above.at))),
			"This is the first key of a list entry, and its dash is missing.")
		if here.column == above.column+2 { // the other keys are aligned with it
			found.Write(r.m.p.span(key, key), "- ")
		}
		return true
	}
	usual := 0
	if parent.known {
		usual = parent.column + 2
	}
	odd := above.column != usual
	switch {
	case parent.known && here.column <= parent.column:
		return false
	case parent.known && above.column == parent.column, follows == here.column:
		odd = true
	case follows == above.column:
		odd = false
	}
	if odd {
		return r.indent(above, here.column)
	}
	return here.column < above.column && here.hasValue && r.indent(here, above.column)
}

// indent reports a line with wrong indentation.
func (r *lineReader) indent(line pairLine, wanted int) bool {
	message := "This line is indented less than the lines that it belongs with."
	if line.column > wanted {
		message = "This line is indented further than the lines that it belongs with."
	}
	end := line.at + len(strings.TrimRight(lineAround(r.text, line.at), " \t"))
	found := r.m.p.report(CodeIndentation, line.at+line.column, end, indentHelp(wanted, line.column), "%s", message)
	r.m.p.fixIndent(found, line.at, line.column, wanted)
	return true
}

// fixIndent adds a fix for the indentation of the line at an offset.
func (p *yamlParser) fixIndent(d *diag.Diagnostic, line, is, wanted int) {
	title := "Put " + spaces(wanted) + " before it"
	if wanted == 0 {
		title = "Remove the spaces before it"
	}
	if p.text[line:line+is] == strings.Repeat(" ", is) {
		d.Change(title, strings.Repeat(" ", wanted), p.span(line, line+is))
	}
}

// indentHelp returns how to correct the indentation of a line.
func indentHelp(wanted, is int) string {
	if wanted == 0 {
		return "Remove the spaces before it."
	}
	return fmt.Sprintf("Put %s before it instead of %d.", spaces(wanted), is)
}

// spaces returns a number of spaces in words.
func spaces(n int) string {
	if n == 1 {
		return "1 space"
	}
	return fmt.Sprintf("%d spaces", n)
}

// dashMisplaced explains an entry with keys whose dash is not aligned with those below it, so that its second key is
// misplaced.
func (r *lineReader) dashMisplaced(above, here pairLine) bool {
	for at := r.after(here.at); at < len(r.text); at = r.after(at) {
		column := r.indentAt(at)
		if !strings.HasPrefix(r.text[at+column:], "- ") {
			continue
		}
		is := r.indentAt(above.at)
		return column != is && here.column == column+2 && r.indent(pairLine{at: above.at, column: is}, column)
	}
	return false
}

// entryMisplaced explains an entry that is indented less than its siblings, or a first entry that is indented further.
func (r *lineReader) entryMisplaced(at, column int) bool {
	if column >= r.dash-1 || lineStart(r.text, r.m.at) != at {
		return false
	}
	if r.columnBelow(at) == r.dash-1 {
		return r.indent(pairLine{at: at, column: column}, r.dash-1)
	}
	return r.entries == 1 && r.indent(pairLine{at: r.entry, column: r.dash - 1}, column)
}

// columnBelow returns the indentation of the next line with content, or -1.
func (r *lineReader) columnBelow(at int) int {
	if at = r.skipBlankLines(r.after(at)); at < len(r.text) {
		return r.indentAt(at)
	}
	return -1
}

// dashFollows reports whether a list continues below at a column.
func (r *lineReader) dashFollows(at, column int) bool {
	for ; at < len(r.text); at = r.after(at) {
		indent := r.indentAt(at)
		switch {
		case strings.TrimSpace(lineAround(r.text, at)) == "", indent > column:
		default:
			return indent == column && strings.HasPrefix(r.text[at+indent:], "- ")
		}
	}
	return false
}
