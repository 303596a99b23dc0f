package simulated

import (
	"fmt"
	"iter"
	"regexp/syntax"
	"strings"

	"github.com/espalier-run/espalier/internal/xslices"
)

// maxMatch limits the memory for patterns such as (a{1000}){1000}.
const maxMatch = 4096

// matches generates texts that probably match a regular expression; it ignores
// assertions such as \b, so the caller must check the result. Texts of usual
// lengths come first, then texts of increasing length.
func (d dice) matches(pattern, question string) iter.Seq[string] {
	return func(yield func(string) bool) {
		re, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			return
		}
		for i := range 12 {
			m := matcher{dice: d, question: fmt.Sprintf("%s match %d", question, i), extra: -1}
			m.write(re)
			if !yield(m.out.String()) {
				return
			}
		}
		for extra := range 200 {
			m := matcher{dice: d, question: question, extra: extra}
			m.write(re)
			if !yield(m.out.String()) || !m.grows {
				return
			}
		}
	}
}

// match returns the first of matches.
func (d dice) match(pattern, question string) string {
	for text := range d.matches(pattern, question) {
		return text
	}
	return ""
}

// matcher writes one text for a regular expression. extra is how often repetitions exceed their minimum, so texts grow
// with it.
type matcher struct {
	dice
	question string
	extra    int  // repetitions beyond the minimum; -1 chooses a few
	grows    bool // more repetitions would make the text longer
	n        int  // questions so far
	out      strings.Builder
}

func (m *matcher) choose(n int) int {
	m.n++
	return m.pick(fmt.Sprintf("%s~%d", m.question, m.n), n)
}

// write writes a text for an expression. Anchors and other assertions write nothing; whether they hold is checked by
// the caller.
func (m *matcher) write(re *syntax.Regexp) {
	if m.out.Len() > maxMatch {
		return
	}
	switch re.Op {
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			m.out.WriteRune(r)
		}
	case syntax.OpCharClass:
		m.out.WriteRune(m.from(re.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		m.out.WriteByte("abcdefghijklmnopqrstuvwxyz"[m.choose(26)])
	case syntax.OpCapture:
		m.write(re.Sub[0])
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			m.write(sub)
		}
	case syntax.OpAlternate:
		m.write(re.Sub[m.choose(len(re.Sub))])
	case syntax.OpQuest:
		m.repeat(re.Sub[0], 0, 1)
	case syntax.OpStar:
		m.repeat(re.Sub[0], 0, -1)
	case syntax.OpPlus:
		m.repeat(re.Sub[0], 1, -1)
	case syntax.OpRepeat:
		m.repeat(re.Sub[0], re.Min, re.Max)
	}
}

func (m *matcher) repeat(re *syntax.Regexp, least, most int) {
	n := least
	if m.extra >= 0 {
		n += m.extra
	} else {
		n += m.choose(4)
	}
	if most >= 0 {
		n = min(n, most)
	}
	m.grows = m.grows || most < 0 || most > n
	for range n {
		if m.out.Len() > maxMatch {
			return
		}
		m.write(re)
	}
}

// from chooses a character from ranges; it prefers lowercase letters and digits,
// then printable ASCII.
func (m *matcher) from(ranges []rune) rune {
	var plain []rune
	for i := 0; i+1 < len(ranges); i += 2 {
		for r := max(ranges[i], '!'); r <= min(ranges[i+1], '~'); r++ {
			plain = append(plain, r)
		}
	}
	letters := xslices.Filter(plain, func(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' })
	switch {
	case len(letters) > 0:
		return letters[m.choose(len(letters))]
	case len(plain) > 0:
		return plain[m.choose(len(plain))]
	case len(ranges) > 0:
		return ranges[0]
	}
	return ' '
}
