package console

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Size is the size of a terminal.
type Size struct{ Columns, Rows int }

// withDefaults returns the size with defaults for unknown dimensions.
func (s Size) withDefaults() Size {
	if s.Columns <= 0 {
		s.Columns = 80
	}
	if s.Rows <= 0 {
		s.Rows = 24
	}
	return s
}

// spinner has the marks of the headline, which follow each other while a run works.
var spinner = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

// Area returns the lines of the status area at a time, the most important ones first if the terminal has no room for
// all.
func (p *Progress) Area(now time.Time, size Size, s Style) []string {
	if p.started == 0 {
		return nil
	}
	size = size.withDefaults()
	width := size.Columns - 1 // the last column would wrap on some terminals
	lines := []string{p.headline(now, width, &s)}
	room := max(size.Rows-2, 1)
	waits, works := p.sorted()
	// Steps that wait for the user come first, then those that are running, then finished ones as far as there is room.
	body := xslices.Map(slices.Concat(waits, works), func(a *active) string { return a.line(now, width, &s) })
	if over := len(body) - room; over > 0 {
		body = append(body[:room-1], clip(&s, report.Dim, fmt.Sprintf("  … %d more running", over+1), width))
	}
	var before []string
	if free := room - len(body); free > 0 {
		for _, n := range p.done[max(0, len(p.done)-min(free, 5)):] {
			before = append(before, p.doneLine(&n, width, &s))
		}
	}
	return slices.Concat(lines, before, body)
}

// clip returns a text in a color, shortened to a width. It is shortened first: the codes of a color have no width.
func clip(s *Style, c report.Color, text string, width int) string {
	return s.paint(c, report.Shorten(text, width))
}

// headline returns the line about the run as a whole.
func (p *Progress) headline(now time.Time, width int, s *Style) string {
	mark := string(spinner[int(now.UnixMilli()/100)%len(spinner)])
	budget := p.in.Budget(journal.Millis(now.UnixMilli()))
	var parts []string
	switch {
	case p.stopping:
		parts = append(parts, "canceling")
	case p.paused:
		mark, parts = "‖", append(parts, "paused")
	case p.exhaustedBudget != "":
		next, left := p.shortfall(p.exhaustedBudget)
		mark, parts = "‖", append(parts, exhausted(p.exhaustedBudget, &budget.Limits, next, left))
	}
	parts = append(parts, report.Duration(p.elapsed(now)))
	if p.offline != "" { // early, so that a narrow screen does not cut it
		parts = append(parts, string(p.offline))
	}
	name := report.Shorten(report.Clean(p.name), max(width/2, 1))
	room := width - report.Width(name) - 4
	rest := strings.Join(append(parts, spending(budget, true)...), " · ")
	if report.Width(rest) > room {
		rest = strings.Join(append(parts, spending(budget, false)...), " · ")
	}
	if report.Width(rest) > room {
		rest = report.Shorten(rest, room)
		if whole := strings.LastIndex(rest, ", "); whole > 0 { // without a budget that is cut
			rest = rest[:whole] + ", …"
		}
	}
	return report.Shorten(mark+" ", width) + s.paint(report.Bold, name) + "  " + rest
}

// spending returns how much of each budget has been used or, with a limit, how much of it is left. The limits are
// named if there is room for them.
func spending(budget *report.Budget, named bool) []string {
	used, limits := budget.Used, budget.Limits
	var parts, left []string
	limited := func(amount, unit, limit string) {
		if named {
			parts = append(parts, fmt.Sprintf("%s of %s left", amount, limit))
		} else {
			left = append(left, amount+unit)
		}
	}
	counted := func(used int64, limit *int64, what string) {
		if limit == nil {
			parts = append(parts, report.Plural(used, what))
			return
		}
		rest := max(*limit-used, 0)
		number := report.Number(rest)
		limited(number, strings.TrimPrefix(report.Plural(rest, what), number), report.Plural(*limit, what))
	}
	counted(used.Steps, limits.Steps, "step")
	if t := total(used); t > 0 || limits.Tokens != nil {
		counted(t, limits.Tokens, "token")
	}
	if limits.ToolCalls != nil {
		counted(used.ToolCalls, limits.ToolCalls, "tool call")
	}
	if m := limits.MicroDollars; m != nil {
		limited(price.Spent(max(*m-used.MicroDollars, 0)), "", price.Dollars(*m))
	} else if used.MicroDollars > 0 {
		parts = append(parts, price.Spent(used.MicroDollars))
	}
	if s := limits.ActiveSeconds; s != nil {
		whole := time.Duration(*s) * time.Second
		rest := max(whole-time.Duration(budget.Active)*time.Millisecond, 0)
		limited(report.Duration(rest), "", report.Duration(whole))
	}
	if len(left) > 0 {
		parts = append(parts, "left: "+strings.Join(left, ", "))
	}
	return parts
}

// sorted returns the open steps: those that wait for the user, and the others as a tree, each below its enclosing step,
// in the order in which they started.
func (p *Progress) sorted() (waits, works []*active) {
	below := map[*report.Step][]*active{}
	for _, a := range p.active {
		if a.wait != nil {
			waits = append(waits, a)
			continue
		}
		around := a.step.Parent
		if up := activeOf(around); up == nil || up.wait != nil {
			around = nil
		}
		below[around] = append(below[around], a)
	}
	var walk func(around *report.Step)
	walk = func(around *report.Step) {
		for _, a := range below[around] {
			works = append(works, a)
			walk(a.step)
		}
	}
	walk(nil)
	return waits, works
}

// depth returns the number of enclosing open steps, those of calling runs included.
func depth(s *report.Step) int {
	if s.Run.Caller != nil {
		return s.Depth + 1 + depth(s.Run.Caller)
	}
	return s.Depth
}

// line returns the line of a step that is open.
func (a *active) line(now time.Time, width int, s *Style) string {
	indent := strings.Repeat("  ", min(depth(a.step), 4)+1)
	name := a.step.Name
	if a.step.Loop {
		name = fmt.Sprintf("%s[%d]", name, a.step.Index)
	}
	if a.wait != nil {
		return fit(s, indent, "?", a.step.Label(), a.wait.waits(s), a.step.Color(), report.Amber, width)
	}
	parts := []string{report.Duration(now.Sub(a.step.Started.Time()))}
	if agent := a.step.Agent; agent != "" && agent != a.step.Name {
		parts = append(parts, agent)
	}
	switch {
	case a.retry != 0:
		parts = append(parts, "next attempt in "+report.Duration(a.retry.Time().Sub(now)))
	case a.again != 0:
		parts = append(parts, "model call failed, retrying in "+report.Duration(a.again.Time().Sub(now)))
	case len(a.tools) == 1:
		parts = append(parts, "tool "+a.tools[0].Name+a.tools[0].progress)
	case len(a.tools) > 1:
		parts = append(parts,
			fmt.Sprintf("tool %s%s and %d more", a.tools[0].Name, a.tools[0].progress, len(a.tools)-1))
	case a.step.Attempt > 0:
		parts = append(parts, fmt.Sprintf("attempt %d", a.step.Attempt+1))
	}
	if all := a.step.Branches; all > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d done", a.over, all))
	} else if a.over > 0 {
		parts = append(parts, fmt.Sprintf("%d done", a.over))
	}
	parts = spent(parts, a.tokens, a.cost, a.offline)
	return fit(s, indent, "▸", name, strings.Join(parts, " · "), a.step.Color(), report.Dim, width)
}

// fit formats a mark, a name and a text within a width; the text is cut before the name.
func fit(s *Style, indent, mark, name, text string, nameColor, textColor report.Color, width int) string {
	name, text = report.Clean(name), report.Clean(text)
	start := indent
	if mark != "" {
		start += s.paint(textColor, mark) + " "
		width -= report.Width(mark) + 1
	}
	width -= len(indent)
	name = report.Shorten(name, max(width, 1))
	if text = report.Shorten(text, width-report.Width(name)-2); text == "" {
		return start + s.paint(nameColor, name)
	}
	return start + s.paint(nameColor, name) + "  " + s.paint(textColor, text)
}

// doneLine returns the line of a step that has ended, or of a message.
func (p *Progress) doneLine(n *Notice, width int, s *Style) string {
	text, color := n.text(s)
	mark := "✓"
	switch {
	case n.Event == StepMessage || n.Event == ScriptRuns:
		mark = "·"
	case n.Event == StepSkipped || n.Outcome == journal.OutcomeSkipped || n.Outcome == journal.OutcomeCanceled:
		mark = "–"
	case n.Outcome == journal.OutcomeFailed || n.Outcome == journal.OutcomeRejected || n.fails():
		mark = "✗"
	case n.Outcome == journal.OutcomeJump || n.Outcome == journal.OutcomeEnd:
		mark = "·"
	}
	return fit(s, "  ", mark, n.place, text, n.placeColor(), color, width)
}

// Summary returns what stays on the screen: a line for each outermost step, and how the run ended or what it waits for.
// The last lines are never cut: they have the commands to copy.
func (p *Progress) Summary(s Style) []string {
	width := s.Width
	if width <= 0 {
		width = uncut
	}
	var lines []string
	shown, before := p.last()
	if before > 0 {
		lines = append(lines, clip(&s, report.Dim, "  … "+report.Plural(int64(before), "earlier step"), width))
	}
	for i := range shown {
		lines = append(lines, p.doneLine(&shown[i], width, &s))
	}
	if p.end != nil {
		text, color := p.end.finished()
		return append(lines, fit(&s, "", "", p.name, text, report.Bold, color, uncut))
	}
	for _, a := range p.active {
		if a.wait != nil {
			lines = append(lines, waitLines(&s, a.step.Label(), a.wait, a.step.Color(), width)...)
		}
	}
	if p.exhaustedBudget != "" {
		n := Notice{For: journal.AskBudget, Budget: p.exhaustedBudget, root: p.run, limits: p.in.Budget(0).Limits}
		n.needs, n.left = p.shortfall(n.Budget)
		lines = append(lines, waitLines(&s, p.name, &n, report.Bold, width)...)
	}
	return lines
}

// uncut is the width of lines that are not cut.
const uncut = 1 << 20

// waitLines returns what a step waits for, with the command to type. If they do not fit on one line, the command has a
// line of its own, so that the terminal does not break it.
func waitLines(s *Style, place string, n *Notice, nameColor report.Color, width int) []string {
	what, command := n.waitsFor(s)
	line := func(what string) string { return fit(s, "  ", "?", place, what, nameColor, report.Amber, uncut) }
	whole := line(n.waits(s))
	if command == "" || report.Width(withoutColors(whole)) <= width {
		return []string{whole}
	}
	const indent = "      "
	lines := []string{line(what + ":")}
	if command = report.Clean(command); report.Width(indent+command) > width {
		remark := ""
		if command, remark, _ = strings.Cut(command, beforeRemark); remark != "" {
			return append(lines, indent+s.paint(report.Amber, command), indent+s.paint(report.Amber, remark))
		}
	}
	return append(lines, indent+s.paint(report.Amber, command))
}
