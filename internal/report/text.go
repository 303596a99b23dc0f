package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/price"
)

// Clean returns text that is safe for a terminal and fits on one line: output of
// models, tools and files may contain control sequences or change the direction
// of writing.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t', r == '\r', r == '\u2028', r == '\u2029':
			return ' '
		case r == utf8.RuneError, unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			return '\uFFFD'
		}
		return r
	}, text)
}

// Width returns how many columns a clean text takes on a terminal.
func Width(text string) int { return diag.Width(text) }

// Shorten cuts a text to a number of columns, the last of which is an ellipsis.
func Shorten(text string, columns int) string {
	if columns <= 0 {
		return ""
	}
	if len(text) <= columns || Width(text) <= columns {
		return text
	}
	n := 0
	for i, r := range text {
		if n+diag.RuneWidth(r) > columns-1 {
			return text[:i] + "…"
		}
		n += diag.RuneWidth(r)
	}
	return text
}

// Titled returns the path of a step with the title of the step, which titles has by the IDs of steps.
func Titled(path string, titles map[string]string) string {
	for name, title := range titles {
		if before, ok := strings.CutSuffix(path, name); ok && (before == "" || strings.HasSuffix(before, ".")) {
			return before + title
		}
	}
	return path
}

// DigestDigits is how many digits of a digest people see.
const DigestDigits = 12

// ShortDigest returns the first digits of a digest.
func ShortDigest(digest string) string { return digest[:min(len(digest), DigestDigits)] }

// Duration formats a duration for people, with at most two units: 250 ms, 2.1 s, 3 min 5 s, 2 h 5 min, 2 days 3 h.
func Duration(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < time.Minute-50*time.Millisecond:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	}
	switch d = d.Round(time.Second); {
	case d >= 48*time.Hour:
		d = d.Truncate(time.Hour)
	case d >= time.Hour:
		d = d.Truncate(time.Minute)
	}
	return ir.Millis(d.Milliseconds()).Words()
}

// Readable returns a value as people read it: a text as it is, anything else as indented JSON.
func Readable(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") == nil {
		return b.String()
	}
	return string(raw)
}

// Number formats a number with commas between thousands.
func Number[T int | int64](n T) string {
	text := strconv.FormatInt(int64(n), 10)
	sign := ""
	if n < 0 {
		sign, text = "-", text[1:]
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return sign + text
}

// Plural formats a number of things, of which what is the singular.
func Plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return Number(n) + " " + what + "s"
}

// TokensAndMoney formats both; an unknown cost is left out.
func TokensAndMoney(tokens, microDollars int64) string {
	out := Number(tokens) + " tokens"
	if microDollars > 0 {
		out += " and " + price.Spent(microDollars)
	}
	return out
}

// BudgetFigure formats an amount of a budget.
func BudgetFigure(budget string, n int64) string {
	if budget == ir.BudgetMoney {
		return price.Dollars(n)
	}
	return Number(n)
}

// ShortfallWords returns that the next request needs more of a budget than is left; "" if nothing is left, or if it
// fits.
func ShortfallWords(budget string, next, left int64) string {
	if left <= 0 || next <= left {
		return ""
	}
	needs := fmt.Sprintf(cmp.Or(map[string]string{
		ir.BudgetMoney:  "the next model call may cost %s",
		ir.BudgetTokens: "the next model call may use %s tokens",
		ir.BudgetTools:  "the next step may make %s tool calls",
	}[budget], "the next step needs %s"), BudgetFigure(budget, next))
	return fmt.Sprintf("%s, and %s of the %s is left", needs, BudgetFigure(budget, left), journal.BudgetWords(budget))
}

// LostWords returns the share of usage for model calls without a reply and tool calls without a result, for the end of
// a sentence; "" when there is none.
func LostWords(l journal.Lost) string {
	var words string
	switch {
	case l == (journal.Lost{ToolCalls: l.ToolCalls}):
	case l.InputTokens+l.OutputTokens+l.MicroDollars == 0:
		words = "; " + Plural(l.ModelCalls, "model call") + " without a reply"
	default:
		words = fmt.Sprintf("; of these at most %s for %s without a reply",
			TokensAndMoney(l.InputTokens+l.OutputTokens, l.MicroDollars), Plural(l.ModelCalls, "model call"))
	}
	if l.ToolCalls > 0 {
		words += "; of these " + Plural(l.ToolCalls, "tool call") + " without a result"
	}
	return words
}
