package diag

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of suggestions. Comparing names takes time in proportion to their number and to the square of their length,
// and names come from files that may be hostile.
const (
	maxCandidates = 1000
	maxNameLength = 100
)

// Nearest returns the candidate that was probably meant by name, or "" when
// none is close: at most a third of its letters may differ, and at least one,
// but never all. Of equally close candidates, it returns the first in the order
// of the alphabet.
func Nearest(name string, candidates []string) string {
	if len(name) > maxNameLength || len(candidates) > maxCandidates {
		return ""
	}
	best, bestDistance := "", max(1, utf8.RuneCountInString(name)/3)+1
	for _, c := range candidates {
		d, length := 0, utf8.RuneCountInString(c)
		switch apart := length - utf8.RuneCountInString(name); {
		case strings.EqualFold(c, name) && c != name:
		case len(c) > maxNameLength || max(apart, -apart) > bestDistance:
			continue
		default:
			if d = distance(name, c); d >= max(utf8.RuneCountInString(name), length) {
				continue
			}
		}
		if d < bestDistance || d == bestDistance && best != "" && c < best {
			best, bestDistance = c, d
		}
	}
	return best
}

// DidYouMean returns the help text for an unknown name: the nearest candidate if there is one, otherwise the list of
// candidates.
func DidYouMean(name string, candidates []string) string {
	if near := Nearest(name, candidates); near != "" {
		return fmt.Sprintf("Did you mean %q?", near)
	}
	switch list := Enumerate(candidates); {
	case list == "":
		return ""
	case slices.Contains(candidates, list):
		return fmt.Sprintf("There is only %s.", list)
	default:
		return "There are " + list + "."
	}
}

// Enumerate returns names as a part of a sentence, in the order of the alphabet: "a, b and c". Of many, it has the
// first ones and the number of the others; of too many or none, it returns "".
func Enumerate(names []string) string {
	if len(names) == 0 || len(names) > maxCandidates {
		return ""
	}
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	const most = 12
	if len(sorted) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(sorted[:most], ", "), len(sorted)-most)
	}
	last := len(sorted) - 1
	if last == 0 {
		return sorted[0]
	}
	return strings.Join(sorted[:last], ", ") + " and " + sorted[last]
}

// distance returns the number of letters to insert, delete, replace or swap with their neighbor to turn a into b.
func distance(a, b string) int {
	s, t := []rune(strings.ToLower(a)), []rune(strings.ToLower(b))
	before, previous, row := make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(s); i++ {
		row[0] = i
		for j := 1; j <= len(t); j++ {
			cost := 1
			if s[i-1] == t[j-1] {
				cost = 0
			}
			row[j] = min(previous[j]+1, row[j-1]+1, previous[j-1]+cost)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, previous, row = previous, row, before
	}
	return previous[len(t)]
}
