package web

import (
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/report"
)

// functions are what templates can call. Those that return template.HTML escape their arguments; all others are escaped
// by the template. Functions that show text from models, tools and files pass it through visible.
func (h *Handler) functions() template.FuncMap {
	return template.FuncMap{
		"url":   func(address string) string { return h.o.Base + address },
		"asset": func(name string) string { return h.o.Base + h.assets[name].address },
		"icon":  icon,
		"short": short,
		"n":     number,
		"plural": func(n int, one, many string) string {
			return report.Number(n) + " " + map[bool]string{true: one, false: many}[n == 1]
		},
		"money":   price.Spent,
		"ago":     func(t time.Time) template.HTML { return h.ago(t) },
		"clock":   func(t time.Time) string { return t.Local().Format("15:04:05") },
		"stamp":   stamp,
		"when":    func(t time.Time) string { return t.Format("Mon 2 Jan 15:04 MST") },
		"iso":     func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"took":    report.Duration,
		"state":   func(r api.Run) stateView { return stateOf(r.State, r.Outcome) },
		"st":      func(state journal.State) stateView { return stateView{state} },
		"who":     whoMayDecide,
		"person":  func(by journal.Actor) string { return visible(app.DescribeActor(by, "", "")) },
		"join":    func(list []string) string { return visible(strings.Join(list, " or ")) },
		"value":   showValue,
		"json":    jsonTree,
		"reply":   showReply,
		"text":    visible,
		"escape":  url.PathEscape,
		"query":   url.QueryEscape,
		"percent": func(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) + "%" },
		"add":     func(a, b int) int { return a + b },
		"date":    func(t time.Time) string { return t.Format("Mon 2 Jan") },
		"dict":    dict,
		"changes": changesOf,

		"sentence": sentence,
		"about": func(text string) string { // a name alone stays as it is
			if !strings.Contains(text, " ") {
				return visible(text)
			}
			return sentence(visible(text))
		},
		"plain": report.Readable,
		"deref": func(b *bool) bool { return b != nil && *b },

		"triggerIcon": triggerIcon, "triggerWords": triggerWords,
	}
}

// dict returns a map of names and values, for templates with several arguments. It panics on a name that is no string,
// which the tests of the template find.
func dict(pairs ...any) map[string]any {
	out := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		out[pairs[i].(string)] = pairs[i+1]
	}
	return out
}

// icon returns a reference to a symbol of icons.html, which each page contains once.
func icon(name string) template.HTML {
	return template.HTML(`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><use href="#` +
		template.HTMLEscapeString(name) + `"/></svg>`)
}

// short returns the part of the ID of a run, or of a hash, that people see.
func short(id string) string { return journal.RunID(id).Short() }

// number formats an integer for templates.
func number(v any) string {
	switch x := v.(type) {
	case int:
		return report.Number(x)
	case int64:
		return report.Number(x)
	}
	return fmt.Sprint(v)
}

// stateView is a state in pages. It selects the icon and the color.
type stateView struct{ journal.State }

// stateOf returns the state of a run; that of a finished one is its outcome.
func stateOf(state journal.State, outcome journal.Outcome) stateView {
	if state == journal.StateFinished {
		state = journal.State(outcome)
	}
	return stateView{state}
}

// iconOf returns the static file of the icon that shows the state of a run in the tab of a browser.
func iconOf(state journal.State, outcome journal.Outcome) string {
	switch s := stateOf(state, outcome).State; s {
	case journal.StateRunning, journal.StateOK, journal.StateFailed:
		return "icon-" + string(s) + ".svg"
	case journal.StateWaiting, journal.StateBudget, journal.StateUnknown:
		return "icon-waiting.svg"
	}
	return ""
}

// Icon returns the name of the symbol of a state.
func (s stateView) Icon() string { return "i-s-" + string(s.State) }

// ago returns a time relative to now. The browser keeps it up to date.
func (h *Handler) ago(t time.Time) template.HTML {
	if t.IsZero() {
		return "—"
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s" data-ago>%s</time>`, t.UTC().Format(time.RFC3339),
		stamp(t), relative(h.o.Now().Sub(t))))
}

// relative returns how long ago something was; static/clock.js has the same rules.
func relative(d time.Duration) string {
	suffix := " ago"
	if d < -time.Second {
		d = -d
		return "in " + span(d)
	}
	return span(max(d, 0)) + suffix
}

func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// visible returns a text in which control characters and characters that reorder text can be seen, because text from
// models and files can use them to look like something else. Control characters of ASCII become their symbols (U+2400
// and following), others their code points. Bytes that are not UTF-8 become U+FFFD.
func visible(s string) string {
	if !strings.ContainsFunc(s, hidden) && utf8.ValidString(s) {
		return s
	}
	var out strings.Builder
	for _, r := range s {
		switch {
		case r < ' ' && hidden(r):
			out.WriteRune('␀' + r)
		case hidden(r):
			fmt.Fprintf(&out, "⟨U+%04X⟩", r)
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// hidden reports whether a character is invisible and changes how the text around it looks: the bidirectional controls
// of Unicode (UAX #9), the byte order mark, and control characters other than tabs and line ends.
func hidden(r rune) bool {
	switch {
	case r == '\n' || r == '\t' || r == '\r':
		return false
	case r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x2069, r == 0x200E, r == 0x200F, r == 0x061C, r == 0xFEFF:
		return true
	}
	return unicode.IsControl(r)
}
