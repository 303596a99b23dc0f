package console

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/jsonfast"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/shell"
)

// Event names what a Notice reports. The names are part of the --json output.
type Event string

// Events.
const (
	RunStarted     Event = "run.started"
	RunFinished    Event = "run.finished"
	RunClaimed     Event = "run.claimed" // another process drives it now
	StepStarted    Event = "step.started"
	StepFinished   Event = "step.finished"
	StepSkipped    Event = "step.skipped"
	StepRetrying   Event = "step.retrying"
	StepLost       Event = "step.lost" // its process died
	ModelReplied   Event = "model.replied"
	ModelRetried   Event = "model.retried" // a call failed and is repeated
	ToolProgress   Event = "tool.progress"
	ToolFinished   Event = "tool.finished"
	ScriptRuns     Event = "script.started" // a script of the project is about to run
	StepMessage    Event = "step.said"      // a message that the author wrote
	BranchChosen   Event = "branch.chosen"  // by a decision
	WaitStarted    Event = "wait.started"
	WaitFinished   Event = "wait.finished"
	SignalReceived Event = "event.received" // nothing waits for it yet
	Paused         Event = "run.paused"
	Continued      Event = "run.continued"
	Canceling      Event = "run.cancelling"
	BudgetRaised   Event = "budget.raised"
	StateEdited    Event = "state.edited"
	Rewound        Event = "run.rewound" // to an earlier step
	InputRefused   Event = "input.refused"
)

// kindDecision is the kind of steps that only choose the next one.
const kindDecision = "decision"

// Notice is one thing that happened. Its JSON is a line of the --json output, without empty fields.
type Notice struct {
	Seq       journal.Seq     `json:"seq"` // in the journal
	At        Time            `json:"timestamp"`
	Run       journal.RunID   `json:"run_id"`
	Parent    journal.RunID   `json:"parent_run_id,omitempty"` // of a child run
	Event     Event           `json:"event"`
	Path      string          `json:"path,omitempty"`
	Iteration int             `json:"iteration,omitempty"`
	Name      string          `json:"name,omitempty"` // of the workflow
	Kind      string          `json:"kind,omitempty"` // of the step
	Agent     string          `json:"agent,omitempty"`
	Child     journal.RunID   `json:"child_run_id,omitempty"` // that the step calls
	Outcome   journal.Outcome `json:"outcome,omitempty"`
	Reason    string          `json:"reason,omitempty"`
	Error     string          `json:"error,omitempty"`
	Status    int             `json:"status,omitempty"` // exit code that the author chose
	Result    json.RawMessage `json:"result,omitempty"`
	// ResultHash replaces a result that is too large.
	ResultHash string `json:"result_sha256,omitempty"`
	Millis     int64  `json:"ms,omitempty"` // duration
	Tokens     int64  `json:"tokens,omitempty"`
	// MicroDollars is the cost in millionths of a dollar.
	MicroDollars int64           `json:"micro_dollars,omitempty"`
	Steps        int64           `json:"steps,omitempty"`   // of a run, so far
	Lost         journal.Lost    `json:"lost,omitzero"`     // share of a run's usage for model calls without a reply
	Offline      journal.Offline `json:"offline,omitempty"` // set if no real model answered
	Model        string          `json:"model,omitempty"`
	Tool         string          `json:"tool,omitempty"`
	Done         float64         `json:"done,omitempty"`    // progress of a tool
	Total        float64         `json:"total,omitempty"`   // 0 if unknown
	Script       string          `json:"script,omitempty"`  // a file of the project
	Command      string          `json:"command,omitempty"` // that runs it
	Attempt      int             `json:"attempt,omitempty"` // the next one, from 1
	Attempts     int             `json:"attempts,omitempty"`
	For          journal.AskKind `json:"for,omitempty"`    // what the wait is for
	Step         string          `json:"step,omitempty"`   // as approve, reject, --decide and --from take it
	Branch       string          `json:"branch,omitempty"` // that a decision has chosen
	Next         string          `json:"next,omitempty"`   // step that it leads to
	Signal       string          `json:"signal,omitempty"`
	Budget       string          `json:"budget,omitempty"`
	To           int64           `json:"to,omitempty"` // the new limit
	Due          Time            `json:"due,omitzero"`
	By           string          `json:"by,omitempty"`      // operating-system user
	Claimed      string          `json:"claimed,omitempty"` // name that the user claims
	Note         string          `json:"note,omitempty"`
	Variable     string          `json:"variable,omitempty"`
	// From is the run that this one continues, at Step.
	From journal.RunID `json:"from_run_id,omitempty"`

	color        report.Color   // of the step; see placeColor
	place        string         // path with the calling steps and the iteration
	root         journal.RunID  // the run that commands name
	limits       journal.Limits // of the run that waits for budget
	needs, left  int64          // what the request that waits for budget needs, and what is left
	printed      string         // output of a command
	next         string         // name of Next, as people know it
	quiet        bool           // another notice of the same event is more precise
	repeats      bool           // the line of a step has the same error
	markedFailed bool           // it is an end that the author marked as a failure
}

// Time is a time whose JSON is RFC 3339 in UTC with milliseconds.
type Time struct{ time.Time }

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	return t.UTC().AppendFormat(nil, `"2006-01-02T15:04:05.000Z07:00"`), nil
}

// JSON returns the notice as one line of JSON.
func (n *Notice) JSON() ([]byte, error) {
	line, err := jsonfast.Marshal(n)
	return append(line, '\n'), err
}

// Style configures the format of lines.
type Style struct {
	Color bool
	Zone  *time.Location // nil is UTC
	Width int            // columns; 0 means that lines are not cut
}

// paint returns a text in a color, if the style has colors.
func (s *Style) paint(c report.Color, text string) string {
	return report.Palette(s.Color).Paint(c, text)
}

// clock returns the time of day in the zone of the style.
func (s *Style) clock(t Time) string {
	if s.Zone == nil {
		return t.UTC().Format("15:04:05")
	}
	return t.In(s.Zone).Format("15:04:05")
}

// moment formats a time, with the date unless it is that of the notice.
func (s *Style) moment(t, at Time) string {
	zone := cmp.Or(s.Zone, time.UTC)
	const day = "2006-01-02"
	if t.In(zone).Format(day) == at.In(zone).Format(day) {
		return s.clock(t)
	}
	return t.In(zone).Format(day + " 15:04")
}

// Remark returns the notice as a line among those of a transcript, where the figures of each reply are of interest.
func (n *Notice) Remark(s Style) string {
	if n.Event == ModelReplied {
		model := n.Model
		if model == string(n.Offline) { // the last part says so
			model = "model"
		}
		parts := spent([]string{model + " replied: " + tokens(n.Tokens)}, 0, n.MicroDollars, n.Offline)
		return s.line(n, strings.Join(parts, ", "), report.Dim)
	}
	text, color := n.text(&s)
	if text == "" {
		return ""
	}
	return s.line(n, text, color)
}

// line assembles a line.
func (s *Style) line(n *Notice, text string, color report.Color) string {
	place := report.Clean(n.place)
	text = report.Clean(text)
	clock := s.clock(n.At)
	if s.Width > 0 {
		text = report.Shorten(text, max(s.Width-len(clock)-report.Width(place)-4, 10))
	}
	return s.paint(report.Dim, clock) + "  " + s.paint(n.placeColor(), place) + "  " + s.paint(color, text)
}

// placeColor returns the color of the step. Servers of earlier versions do not send it.
func (n *Notice) placeColor() report.Color { return cmp.Or(n.color, report.KindColor(n.Kind)) }

// Line returns the notice as one line, "" when it is not worth one.
func (n *Notice) Line(s Style) string {
	text, color := n.text(&s)
	if text == "" || n.quiet {
		return ""
	}
	return s.line(n, text, color)
}

// text returns the text of a line, "" for notices that are not worth one.
func (n *Notice) text(s *Style) (string, report.Color) {
	if phrase := phrases[n.Event]; phrase != nil {
		return phrase(n, s)
	}
	return "", report.Plain // model.replied: the line of the finished step has the total
}

// phrase returns the text and the color of a notice; "" if it has no line.
type phrase = func(n *Notice, s *Style) (string, report.Color)

func inColor(color report.Color, text func(n *Notice) string) phrase {
	return func(n *Notice, _ *Style) (string, report.Color) { return text(n), color }
}

// phrases are the phrases of notices.
var phrases = map[Event]phrase{
	RunStarted:   inColor(report.Plain, (*Notice).runStarted),
	RunFinished:  func(n *Notice, _ *Style) (string, report.Color) { return n.finished() },
	RunClaimed:   inColor(report.Dim, func(*Notice) string { return "resumed in a new process" }),
	StepStarted:  inColor(report.Plain, (*Notice).stepStarted),
	StepFinished: func(n *Notice, _ *Style) (string, report.Color) { return n.stepFinished() },
	StepSkipped:  inColor(report.Dim, func(*Notice) string { return "skipped: condition is false" }),
	StepRetrying: inColor(report.Amber, (*Notice).stepRetrying),
	StepLost:     inColor(report.Amber, (*Notice).stepLost),
	BranchChosen: inColor(report.Green, (*Notice).chosen),
	StepMessage:  inColor(report.Plain, func(n *Notice) string { return strings.TrimSpace(n.Note) }),
	ModelRetried: inColor(report.Amber, func(n *Notice) string {
		return fmt.Sprintf("model call failed: %s; retrying in %s", n.Error, report.Duration(n.Due.Sub(n.At.Time)))
	}),
	ScriptRuns: inColor(report.Plain, func(n *Notice) string { return "running " + n.Script + ": " + n.Command }),
	ToolProgress: inColor(report.Dim, func(n *Notice) string {
		return "tool " + n.Tool + " " + toolProgress(n.Done, n.Total, n.Note)
	}),
	ToolFinished: func(n *Notice, _ *Style) (string, report.Color) { return n.toolFinished() },
	WaitStarted:  func(n *Notice, s *Style) (string, report.Color) { return n.waits(s), report.Amber },
	WaitFinished: func(n *Notice, _ *Style) (string, report.Color) { return n.decided() },
	SignalReceived: inColor(report.Plain, func(n *Notice) string {
		return "event " + n.Signal + " received" + n.actor(" from ") + "; nothing waits for it yet"
	}),
	Paused:    inColor(report.Amber, func(n *Notice) string { return "paused" + n.bySuffix() }),
	Continued: inColor(report.Plain, func(n *Notice) string { return "continued" + n.bySuffix() }),
	Canceling: inColor(report.Amber, func(n *Notice) string {
		return "cancellation requested" + n.bySuffix() + reasonSuffix(n.Reason)
	}),
	BudgetRaised: inColor(report.Plain, func(n *Notice) string {
		return fmt.Sprintf("%s raised to %s%s", journal.BudgetWords(n.Budget),
			report.BudgetFigure(n.Budget, n.To), n.bySuffix())
	}),
	Rewound: inColor(report.Amber, func(n *Notice) string {
		return "rewound to " + journal.PlaceName(n.Step) + n.bySuffix()
	}),
	StateEdited: inColor(report.Plain, func(n *Notice) string { return n.Variable + " changed" + n.bySuffix() }),
	InputRefused: inColor(report.Amber, func(n *Notice) string {
		return "refused input" + n.bySuffix() + ": " + n.Error
	}),
}

// runStarted says which run has started, and which one it continues.
func (n *Notice) runStarted() string {
	switch {
	case n.Parent != "":
		return "" // the step that calls it has a line
	case n.From != "":
		return fmt.Sprintf("run %s started: continues run %s from step %s", n.Run, n.From.Short(),
			journal.PlaceName(n.Step))
	}
	return "run " + string(n.Run) + " started"
}

// stepStarted says which kind of step has started.
func (n *Notice) stepStarted() string {
	switch n.Kind {
	case report.KindTerminal, kindDecision, ir.TypeHook:
		return "" // it takes no time
	}
	if n.Agent != "" {
		return "started (" + n.Kind + " " + n.Agent + ")"
	}
	return "started (" + n.Kind + ")"
}

// chosen returns which branch a decision has chosen.
func (n *Notice) chosen() string {
	if n.next == "" {
		return cmp.Or(n.Branch, "done")
	}
	return strings.TrimSpace(n.Branch + " → " + n.next)
}

// stepRetrying says why a step is tried again and when. Attempt 0 is a step that waits without having failed.
func (n *Notice) stepRetrying() string {
	if n.Attempt == 0 {
		return fmt.Sprintf("waits: %s; continues in %s", n.Error, report.Duration(n.Due.Sub(n.At.Time)))
	}
	attempt := strconv.Itoa(n.Attempt)
	if n.Attempts > 0 {
		attempt += fmt.Sprintf(" of %d", n.Attempts)
	}
	return fmt.Sprintf("failed: %s; retrying in %s (attempt %s)", n.Error, report.Duration(n.Due.Sub(n.At.Time)),
		attempt)
}

// stepLost says what happens to a task whose process died.
func (n *Notice) stepLost() string {
	if n.Reason != string(journal.RecoveryRerun) {
		return "interrupted; outcome unknown"
	}
	if n.Tokens == 0 {
		return "interrupted; to be repeated"
	}
	return "interrupted; to be repeated: a model call got no reply and is charged up to " +
		used(n.Tokens, n.MicroDollars)
}

// used returns tokens and their cost, if that is known.
func used(n, microDollars int64) string {
	if microDollars > 0 {
		return tokens(n) + " and " + price.Spent(microDollars)
	}
	return tokens(n)
}

// toolFinished says whether a tool call succeeded.
func (n *Notice) toolFinished() (string, report.Color) {
	text, color := "tool "+n.Tool+" returned", report.Plain
	switch {
	case n.Error != "" && n.Reason == "": // it ran, and its error may be what the workflow asks for
		text, color = text+" an error: "+n.Error, report.Amber
	case n.Error != "":
		text, color = "tool "+n.Tool+" failed: "+n.Error, report.Amber
	case n.Offline != "":
		text += ", " + string(n.Offline)
	}
	return text, color
}

// toolProgress formats the progress of a tool call.
func toolProgress(done, total float64, message string) string {
	text := ""
	switch {
	case total > 0:
		text = fmt.Sprintf("%.0f%%", 100*min(max(done/total, 0), 1))
	case message == "":
		text = fmt.Sprintf("running (%g so far)", done)
	}
	if message = strings.TrimSpace(message); message != "" && text != "" {
		text += ": "
	}
	return text + message
}

// bySuffix returns " by " and the actor, for the end of a sentence. A claimed name is shown beside the user, never
// instead of it.
func (n *Notice) bySuffix() string { return n.actor(" by ") }

// actor returns who acted, after a word such as "by"; "" if it is not known.
func (n *Notice) actor(before string) string {
	switch {
	case n.By == "" && n.Claimed == "":
		return ""
	case n.Claimed == "":
		return before + n.By
	}
	return before + n.By + " (as " + n.Claimed + ")"
}

// reasonSuffix returns a reason after a colon; "" if there is none.
func reasonSuffix(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// sums returns duration and cost: "2.1 s, 1,240 tokens, simulated".
func (n *Notice) sums() string {
	parts := []string{report.Duration(time.Duration(n.Millis) * time.Millisecond)}
	return strings.Join(spent(parts, n.Tokens, n.MicroDollars, n.Offline), ", ")
}

// spent appends the cost to parts, as far as there is one.
func spent(parts []string, used, micro int64, offline journal.Offline) []string {
	if used > 0 {
		parts = append(parts, tokens(used))
	}
	if micro > 0 {
		parts = append(parts, price.Spent(micro))
	}
	if offline != "" {
		parts = append(parts, string(offline))
	}
	return parts
}

// tokens returns a number of tokens with the unit.
func tokens(n int64) string { return report.Plural(n, "token") }

// endings are the words, if they are not those of the outcome, and the colors of steps that did not simply succeed.
var endings = map[journal.Outcome]struct {
	words string
	color report.Color
}{
	journal.OutcomeFailed:   {"", report.Red},
	journal.OutcomeCanceled: {"", report.Dim},
	journal.OutcomeRejected: {"", report.Red},
	journal.OutcomeSkipped:  {"", report.Dim},
	journal.OutcomeJump:     {"left", report.Plain},
	journal.OutcomeEnd:      {"ended with the run", report.Plain},
}

// stepFinished says how a step ended. The last cases are steps that succeeded, which say what follows or what they
// used.
func (n *Notice) stepFinished() (string, report.Color) {
	end, special := endings[n.Outcome]
	switch {
	case special:
		text := cmp.Or(end.words, journal.OutcomeWord(n.Outcome)) + " after " + n.sums()
		if n.Outcome == journal.OutcomeFailed {
			text += reasonSuffix(withoutOutcome(n.Error))
		}
		return text, end.color
	case n.fails():
		return "ended the run as failed" + reasonSuffix(n.Error), report.Red
	case n.next != "" || n.Branch != "":
		return n.chosen(), report.Green
	case n.Kind == ir.TypeHook:
		return "", report.Plain // its messages have lines of their own
	case n.Reason == string(ir.ClassLoopLimit): // the work may not be done
		return "stopped after " + n.sums() + reasonSuffix(n.Note), report.Amber
	case n.Millis == 0 && n.Tokens == 0 && n.MicroDollars == 0 && n.printed == "":
		return "done", report.Green
	}
	return "done in " + n.sums() + reasonSuffix(n.printed), report.Green
}

// printed returns the output of a command: its only line, or the last one.
func printed(result json.RawMessage) string {
	var left struct{ Output string }
	if bytes.HasPrefix(result, []byte(`{"Output":"",`)) || json.Unmarshal(result, &left) != nil {
		return "" // there is none, it is stored by hash, or the result has another form
	}
	lines := strings.Split(strings.TrimSpace(left.Output), "\n")
	last := report.Shorten(report.Clean(strings.TrimSpace(lines[len(lines)-1])), maxPrinted)
	if len(lines) == 1 {
		return last
	}
	return fmt.Sprintf("%s, last: %s", report.Plural(int64(len(lines)), "line"), last)
}

// maxPrinted is how many columns of the output of a command are shown.
const maxPrinted = 100

// fails reports whether the step is an end that its author marked as a failure.
func (n *Notice) fails() bool { return n.markedFailed && n.Outcome == journal.OutcomeOK }

// finished says how the run ended and what it used.
func (n *Notice) finished() (string, report.Color) {
	if n.Parent != "" {
		return "", report.Plain // the step that called it has a line
	}
	parts := []string{report.Duration(time.Duration(n.Millis) * time.Millisecond), report.Plural(n.Steps, "step")}
	sums := strings.Join(spent(parts, n.Tokens, n.MicroDollars, n.Offline), ", ") + report.LostWords(n.Lost)
	switch text := journal.OutcomeWord(n.Outcome) + " after " + sums; {
	case n.Outcome == journal.OutcomeOK && n.Reason != "": // for example, a rule of the workflow aborted it
		return "ended early (" + report.ReasonWords(n.Reason) + ") after " + sums, report.Amber
	case n.Outcome == journal.OutcomeOK:
		return "finished in " + sums, report.Green
	case n.Outcome == journal.OutcomeCanceled:
		return text, report.Amber
	case n.Outcome == journal.OutcomeFailed && !n.repeats:
		return text + reasonSuffix(withoutOutcome(n.Error)), report.Red
	default:
		return text, report.Red
	}
}

// withoutOutcome returns an error without its outcome, which the line has already.
func withoutOutcome(problem string) string {
	return strings.TrimPrefix(report.ProblemWords(problem), string(journal.OutcomeFailed)+": ")
}

// exhausted returns which budget is exhausted, with its limit if it is known, or that the next request needs more of it
// than is left.
func exhausted(budget string, limits *journal.Limits, next, left int64) string {
	if words := report.ShortfallWords(budget, next, left); words != "" {
		return "paused: " + words
	}
	limit := (&plan.Ledger{Limits: *limits}).Limit(budget)
	if limit == nil {
		return "paused: " + journal.BudgetWords(budget) + " exhausted"
	}
	figure := report.BudgetFigure(budget, *limit)
	if budget == ir.BudgetDeadline {
		figure = report.Duration(time.Duration(*limit) * time.Second)
	}
	return fmt.Sprintf("paused: %s (%s) exhausted", journal.BudgetWords(budget), figure)
}

// waits returns what a step waits for, and the command to type.
func (n *Notice) waits(s *Style) string {
	what, command := n.waitsFor(s)
	if command == "" {
		return what
	}
	return what + ": " + command
}

// beforeRemark separates a command from a remark about it.
const beforeRemark = "   "

// waitsFor is waits in two parts; the command may be empty.
func (n *Notice) waitsFor(s *Style) (what, command string) {
	step := journal.LocalName(n.Step)
	if n.For == journal.AskOutcome {
		step = journal.LocalID(n.Step)
	}
	event := n.Signal
	if place := journal.PlaceName(n.Step); n.For == journal.AskInput && place != journal.StepName(n.Step) {
		event += " --step " + shell.Word(place) // other places can wait for the same event
	}
	ask := report.AskOf(n.For, n.root, step, event)
	what, command = ask.Waiting, ask.Command
	switch {
	case n.For == journal.AskEvent:
		what += " " + n.Signal
	case n.For == journal.AskBudget:
		what = exhausted(n.Budget, &n.limits, n.needs, n.left) // the end of the command says which limit suffices
	case n.Tool != "":
		what += " to call " + n.Tool
	case ask.Remark != "":
		command += beforeRemark + ask.Remark
	}
	if !n.Due.IsZero() { // before the command, which is there to be copied
		what += " until " + s.moment(n.Due, n.At)
	}
	return what, command
}

// decided says how a wait ended, and by whom.
func (n *Notice) decided() (string, report.Color) {
	text, color, before := string(n.Outcome), report.Green, " by "
	switch {
	case n.Reason == string(journal.MethodTimeout):
		text, color = "timed out", report.Red
	case n.For == journal.AskEvent, n.For == journal.AskInput:
		text, before = "event "+n.Signal+" received", " from "
	case n.For == journal.AskOutcome:
		text = "decided: " + report.ResolutionWords(n.Outcome)
	case n.Outcome == journal.OutcomeOK:
		text = "approved"
	case n.Outcome == journal.OutcomeRejected:
		text, color = "rejected", report.Red
	}
	if n.Tool != "" {
		text = "call to " + n.Tool + " " + text
	}
	return text + n.actor(before) + reasonSuffix(n.Note), color
}
