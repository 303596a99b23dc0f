package web

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/espalier-run/espalier/internal/report"
)

// diffLine is a line of a comparison: added, deleted or in both.
type diffLine struct {
	Kind string // add, del or empty
	N    int    // number of the line
	Text string
	Old  int // number of a line in both before the change
}

// Sign returns the mark of the line.
func (l diffLine) Sign() string { return map[string]string{"add": "+", "del": "−"}[l.Kind] }

// changes is how many lines a difference adds and removes.
type changes struct{ Added, Removed int }

func changesOf(diff []diffLine) (out changes) {
	for _, line := range diff {
		switch line.Kind {
		case "add":
			out.Added++
		case "del":
			out.Removed++
		}
	}
	return out
}

// maxDiff is how many lines of each side are compared. The table of diffLines has the square of that many entries:
// 640,000, about 5 MB.
const maxDiff = 800

// diffValues compares two values line by line; nil if they are equal.
func diffValues(before, after json.RawMessage) []diffLine {
	if bytes.Equal(before, after) {
		return nil
	}
	return diffLines(lines(before), lines(after))
}

// lines returns a value as lines: of a text itself, or of indented JSON.
func lines(raw json.RawMessage) []string {
	all := strings.Split(visible(report.Readable(raw)), "\n")
	return all[:min(len(all), maxDiff)]
}

// diffLines returns the shortest edit from a to b, with three lines of context. It uses the textbook algorithm for the
// longest common subsequence, whose table is filled from the ends so that the edit can be read from the start. At equal
// lengths deletions come first, as in diff -u.
func diffLines(a, b []string) []diffLine {
	// longest[i][j] is the length of the longest common subsequence of a[i:] and b[j:].
	longest := make([][]int, len(a)+1)
	for i := range longest {
		longest[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				longest[i][j] = longest[i+1][j+1] + 1
			} else {
				longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			}
		}
	}
	var all []diffLine
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			all = append(all, diffLine{"", j + 1, b[j], i + 1})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && longest[i+1][j] >= longest[i][j+1]:
			all = append(all, diffLine{"del", i + 1, a[i], 0})
			i++
		default:
			all = append(all, diffLine{"add", j + 1, b[j], 0})
			j++
		}
	}
	return aroundChanges(all)
}

// aroundChanges keeps changed lines and three lines around each.
func aroundChanges(all []diffLine) []diffLine {
	const context = 3
	keep := make([]bool, len(all))
	for i, line := range all {
		if line.Kind == "" {
			continue
		}
		for k := max(0, i-context); k <= min(len(all)-1, i+context); k++ {
			keep[k] = true
		}
	}
	var out []diffLine
	for i, line := range all {
		if keep[i] {
			out = append(out, line)
		}
	}
	return out
}

// patchLines returns the lines of a file in the format of diff.
func patchLines(text string) []diffLine {
	var out []diffLine
	for i, line := range strings.Split(text, "\n") {
		l := diffLine{N: i + 1, Text: line}
		switch {
		case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"):
		case strings.HasPrefix(line, "+"):
			l.Kind, l.Text = "add", line[1:]
		case strings.HasPrefix(line, "-"):
			l.Kind, l.Text = "del", line[1:]
		}
		out = append(out, l)
	}
	return out
}

// diffPair is a line of both sides of a comparison; a side without a line is nil.
type diffPair struct{ A, B *diffLine }

// pairs places the lines of a comparison side by side.
func pairs(diff []diffLine) []diffPair {
	var out []diffPair
	open := 0 // index of the first pair whose second side is free
	for i := range diff {
		l := &diff[i]
		switch {
		case l.Kind == "del":
			out = append(out, diffPair{A: l})
		case l.Kind == "add" && open < len(out):
			out[open].B = l
			open++
		case l.Kind == "add":
			out = append(out, diffPair{B: l})
			open++
		default:
			out = append(out, diffPair{A: &diffLine{N: l.Old, Text: l.Text}, B: l})
			open = len(out)
		}
	}
	return out
}
