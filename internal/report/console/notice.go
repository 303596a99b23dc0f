package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/report"
)

// What happened in a Notice. The names are part of what --json promises.
type Event string

// The events.
const (
	RunStarted   Event = "run.started"
	RunFinished  Event = "run.finished"
	RunClaimed   Event = "run.claimed" // another process carries it on
	StepStarted  Event = "step.started"
	StepFinished Event = "step.finished"
	StepSkipped  Event = "step.skipped"
	StepRetrying Event = "step.retrying"
	StepLost     Event = "step.lost" // nobody knows how it ended
	ModelReplied Event = "model.replied"
	ModelRetried Event = "model.retried" // an attempt failed and is made again
	ToolProgress Event = "tool.progress"
	ToolFinished Event = "tool.finished"
	ScriptRuns   Event = "script.started" // a script of the project is about to run
	StepSaid     Event = "step.said"      // a line that the author wrote for people
	WaitStarted  Event = "wait.started"
	WaitFinished Event = "wait.finished"
	Signalled    Event = "event.received" // before anything waited for it
	Paused       Event = "run.paused"
	Continued    Event = "run.continued"
	Cancelling   Event = "run.cancelling"
	BudgetRaised Event = "budget.raised"
	StateEdited  Event = "state.edited"
	Rewound      Event = "run.rewound" // it goes on from an earlier step
	InputRefused Event = "input.refused"
)

// kindHook is what stands before and after steps that their authors wrote:
// lines for people and small commands, not worth lines of their own.
const kindHook = "hook"

// What a run waits for.
const (
	ForApproval = "approval"
	ForEvent    = "event"
	ForDecision = "decision" // what to do about a step that was lost
	ForBudget   = "budget"
)

// Notice is one thing that happened. Its JSON is what --json prints, a line
// for each; fields that say nothing are left out.
type Notice struct {
	Seq       journal.Seq     `json:"seq"` // of the journal
	At        Time            `json:"at"`
	Run       journal.RunID   `json:"run"`
	Parent    journal.RunID   `json:"parent,omitempty"` // of a child run
	Event     Event           `json:"event"`
	Path      string          `json:"path,omitempty"`
	Iteration int             `json:"iteration,omitempty"`
	Name      string          `json:"name,omitempty"` // of the workflow
	Kind      string          `json:"kind,omitempty"` // of the step
	Agent     string          `json:"agent,omitempty"`
	Child     journal.RunID   `json:"child,omitempty"` // that the step calls
	Outcome   string          `json:"outcome,omitempty"`
	Reason    string          `json:"reason,omitempty"`
	Error     string          `json:"error,omitempty"`
	Status    int             `json:"status,omitempty"` // exit code of the author's choice
	Result    json.RawMessage `json:"result,omitempty"`
	// ResultHash stands for a result that is too large to be repeated.
	ResultHash string `json:"result_sha256,omitempty"`
	Millis     int64  `json:"ms,omitempty"` // how long it took
	Tokens     int64  `json:"tokens,omitempty"`
	// MicroDollars is what it cost, in millionths of a dollar.
	MicroDollars int64        `json:"micro_dollars,omitempty"`
	Steps        int64        `json:"steps,omitempty"`   // of a run: done so far
	Lost         journal.Lost `json:"lost,omitzero"`     // of what a run used: for replies that never came
	Offline      string       `json:"offline,omitempty"` // simulated or scripted: no real model answered
	Model        string       `json:"model,omitempty"`
	Tool         string       `json:"tool,omitempty"`
	Done         float64      `json:"done,omitempty"`    // of a tool: how far it has come
	Total        float64      `json:"total,omitempty"`   // of how much; 0 is not known
	Script       string       `json:"script,omitempty"`  // a file of the project
	Command      string       `json:"command,omitempty"` // that runs it
	Attempt      int          `json:"attempt,omitempty"` // the one to come, from 1
	Attempts     int          `json:"attempts,omitempty"`
	For          string       `json:"for,omitempty"`  // what is waited for
	Step         string       `json:"step,omitempty"` // as approve, reject, --decide and --from take it
	Signal       string       `json:"signal,omitempty"`
	Budget       string       `json:"budget,omitempty"`
	To           int64        `json:"to,omitempty"` // the new limit
	Due          Time         `json:"due,omitzero"`
	By           string       `json:"by,omitempty"`      // the user of the machine
	Claimed      string       `json:"claimed,omitempty"` // whom they claim to be
	Note         string       `json:"note,omitempty"`
	Variable     string       `json:"variable,omitempty"`
	// From is another run, which this one goes on from at Step.
	From journal.RunID `json:"from,omitempty"`

	place string        // path as people see it, with the calling steps and the iteration
	root  journal.RunID // how commands name the run
	// printed is what a command said, for people.
	printed string
	quiet   bool // another notice of the same event says it better
	badly   bool // it is the end that the author has for what went wrong
}

// Time is a moment; its JSON is RFC 3339 in UTC with milliseconds.
type Time struct{ time.Time }

// MarshalJSON writes it.
func (t Time) MarshalJSON() ([]byte, error) {
	return t.UTC().AppendFormat(nil, `"2006-01-02T15:04:05.000Z07:00"`), nil
}

// JSON is the notice as one line of JSON.
func (n *Notice) JSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(n)
	return b.Bytes(), err
}

// Style is how lines are written.
type Style struct {
	Colour bool
	Zone   *time.Location // nil is UTC
	Width  int            // columns; 0 does not cut
}

func (s *Style) paint(c report.Colour, text string) string {
	if !s.Colour {
		return text
	}
	return c.Paint(text)
}

func (s *Style) clock(t Time) string {
	if s.Zone == nil {
		return t.UTC().Format("15:04:05")
	}
	return t.In(s.Zone).Format("15:04:05")
}

// moment is a time that may lie on another day than the one it is told on.
func (s *Style) moment(t, told Time) string {
	zone := s.Zone
	if zone == nil {
		zone = time.UTC
	}
	const day = "2006-01-02"
	if t.In(zone).Format(day) == told.In(zone).Format(day) {
		return s.clock(t)
	}
	return t.In(zone).Format(day + " 15:04")
}

// Remark is the notice on one line among those of a transcript, which tells
// more of what models said than Line does.
func (n *Notice) Remark(s Style) string {
	if n.Event == ModelReplied {
		text := n.Model + " answered: " + tokens(n.Tokens)
		if n.MicroDollars > 0 {
			text += ", " + price.Dollars(n.MicroDollars)
		}
		if n.Offline != "" {
			text += ", " + n.Offline
		}
		return s.line(n, text, report.Dim)
	}
	text, colour := n.text(&s)
	if text == "" {
		return ""
	}
	return s.line(n, text, colour)
}

// line puts the parts of a line together.
func (s *Style) line(n *Notice, text string, colour report.Colour) string {
	place := report.Clean(n.place)
	text = report.Clean(text)
	clock := s.clock(n.At)
	if s.Width > 0 {
		text = report.Shorten(text, max(s.Width-len(clock)-report.Width(place)-4, 10))
	}
	return s.paint(report.Dim, clock) + "  " + s.paint(report.KindColour(n.Kind), place) + "  " + s.paint(colour, text)
}

// Line is the notice on one line, "" when it is not worth one.
func (n *Notice) Line(s Style) string {
	text, colour := n.text(&s)
	if text == "" || n.quiet {
		return ""
	}
	return s.line(n, text, colour)
}

func (n *Notice) text(s *Style) (string, report.Colour) {
	switch n.Event {
	case RunStarted:
		if n.Parent != "" {
			return "", report.Plain // the step that calls it has been told
		}
		if n.From != "" {
			return fmt.Sprintf("run %s started: goes on from %s of run %s", n.Run, n.Step, short(n.From)), report.Plain
		}
		return "run " + string(n.Run) + " started", report.Plain
	case RunFinished:
		return n.finished()
	case RunClaimed:
		return "carried on by another process", report.Dim
	case StepStarted:
		what := n.Kind
		if n.Agent != "" {
			what += " " + n.Agent
		}
		if n.Kind == report.KindTerminal || n.Kind == "decision" || n.Kind == kindHook {
			return "", report.Plain // it takes no time; its end says all
		}
		return "started (" + what + ")", report.Plain
	case StepFinished:
		return n.stepFinished()
	case StepSkipped:
		return "skipped: its condition is false", report.Dim
	case StepRetrying:
		if n.Attempt == 0 {
			return fmt.Sprintf("waits: %s; continues in %s", n.Error, report.Duration(n.Due.Sub(n.At.Time))), report.Amber
		}
		text := fmt.Sprintf("failed: %s; attempt %d", n.Error, n.Attempt)
		if n.Attempts > 0 {
			text += fmt.Sprintf(" of %d", n.Attempts)
		}
		return text + " in " + report.Duration(n.Due.Sub(n.At.Time)), report.Amber
	case StepLost:
		if n.Reason == "rerun" {
			return "was interrupted and is taken up again" + n.lostSums(), report.Amber
		}
		return "was interrupted; nobody knows whether it was done", report.Amber
	case StepSaid:
		return strings.TrimSpace(n.Note), report.Plain
	case ModelRetried:
		return fmt.Sprintf("the model failed: %s; asked again in %s", n.Error, report.Duration(n.Due.Sub(n.At.Time))), report.Amber
	case ScriptRuns:
		return fmt.Sprintf("runs %s: %s", n.Script, n.Command), report.Plain
	case ToolProgress:
		return "tool " + n.Tool + " " + howFar(n.Done, n.Total, n.Note), report.Dim
	case ToolFinished:
		switch {
		case n.Error != "" && n.Reason == "": // it worked, and what it says may be what the workflow wants to know
			return "tool " + n.Tool + " said no: " + n.Error, report.Amber
		case n.Error != "":
			return "tool " + n.Tool + " failed: " + n.Error, report.Amber
		}
		if n.Offline != "" {
			return "tool " + n.Tool + " returned, " + n.Offline, report.Plain
		}
		return "tool " + n.Tool + " returned", report.Plain
	case WaitStarted:
		return n.waits(s), report.Amber
	case WaitFinished:
		return n.decided()
	case Signalled:
		return "the event " + n.Signal + " came before anything waits for it", report.Plain
	case Paused:
		return "paused" + n.who(), report.Amber
	case Continued:
		return "goes on" + n.who(), report.Plain
	case Cancelling:
		return "being cancelled" + n.who() + because(n.Reason), report.Amber
	case BudgetRaised:
		return fmt.Sprintf("the budget of %s is %s now%s", report.BudgetName(n.Budget), report.BudgetFigure(n.Budget, n.To), n.who()), report.Plain
	case Rewound:
		return "goes back to " + n.Step + n.who(), report.Amber
	case StateEdited:
		return "changed " + n.Variable + n.who(), report.Plain
	case InputRefused:
		return "refused" + n.who() + ": " + n.Error, report.Amber
	}
	return "", report.Plain // model.replied is told by the step's end
}

// howFar says how far a call has come.
func howFar(done, total float64, message string) string {
	text := ""
	switch {
	case total > 0:
		text = fmt.Sprintf("%.0f %%", 100*min(max(done/total, 0), 1))
	case message == "":
		text = fmt.Sprintf("at work (%g so far)", done)
	}
	if message = strings.TrimSpace(message); message != "" && text != "" {
		text += ": "
	}
	return text + message
}

// who says who did it, for the end of a sentence. A claimed name stands beside
// the user, never in its place.
func (n *Notice) who() string {
	switch {
	case n.By == "" && n.Claimed == "":
		return ""
	case n.Claimed == "":
		return " by " + n.By
	}
	return " by " + n.By + " (as " + n.Claimed + ")"
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// sums is what it cost: "in 2.1 s, 1,240 tokens, simulated".
func (n *Notice) sums() string {
	parts := []string{report.Duration(time.Duration(n.Millis) * time.Millisecond)}
	return strings.Join(spent(parts, n.Tokens, n.MicroDollars, n.Offline), ", ")
}

// spent adds what it cost, as far as it cost anything.
func spent(parts []string, used, micro int64, offline string) []string {
	if used > 0 {
		parts = append(parts, tokens(used))
	}
	if micro > 0 {
		parts = append(parts, price.Dollars(micro))
	}
	if offline != "" {
		parts = append(parts, offline)
	}
	return parts
}

// lostSums is what is charged for replies that never came.
func (n *Notice) lostSums() string {
	if n.Tokens == 0 {
		return ""
	}
	text := ": no reply came, and up to " + tokens(n.Tokens)
	if n.MicroDollars > 0 {
		text += " and " + price.Dollars(n.MicroDollars)
	}
	return text + " are charged"
}

func tokens(n int64) string { return plural(n, "token") }

func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return report.Number(n) + " " + what + "s"
}

func (n *Notice) stepFinished() (string, report.Colour) {
	switch n.Outcome {
	case report.OutcomeFailed:
		return "failed after " + n.sums() + because(why(n.Error)), report.Red
	case report.OutcomeCancelled:
		return "cancelled after " + n.sums(), report.Dim
	case report.OutcomeRejected:
		return "rejected after " + n.sums(), report.Red
	case report.OutcomeSkipped:
		return "skipped after " + n.sums(), report.Dim
	case plan.OutcomeJump:
		return "left after " + n.sums(), report.Plain
	case plan.OutcomeEnd:
		return "ended with the run after " + n.sums(), report.Plain
	}
	if n.fails() {
		return "ends the run as failed" + because(n.Error), report.Red
	}
	if n.Kind == kindHook {
		return "", report.Plain // what it had to say, it has said
	}
	if n.Reason == plan.ClassLoopLimit { // the work may not be done
		return "ended after " + n.sums() + because(n.Note), report.Amber
	}
	if n.Millis == 0 && n.Tokens == 0 && n.MicroDollars == 0 && n.printed == "" {
		return "done", report.Green
	}
	return "done in " + n.sums() + because(n.printed), report.Green
}

// printed is what a command said: its only line, or the last one.
func printed(result json.RawMessage) string {
	var left struct{ Output string }
	if bytes.HasPrefix(result, []byte(`{"Output":"",`)) || json.Unmarshal(result, &left) != nil {
		return "" // nothing; or too much of it to be here, or of another kind
	}
	lines := strings.Split(strings.TrimSpace(left.Output), "\n")
	last := report.Shorten(report.Clean(strings.TrimSpace(lines[len(lines)-1])), mostPrinted)
	if len(lines) == 1 {
		return last
	}
	return fmt.Sprintf("%s, the last: %s", plural(int64(len(lines)), "line"), last)
}

// mostPrinted is how many columns of what a command printed are shown.
const mostPrinted = 100

// fails tells whether this is the end that the author has for what went wrong.
func (n *Notice) fails() bool {
	return n.badly && n.Outcome == report.OutcomeOK
}

func (n *Notice) finished() (string, report.Colour) {
	if n.Parent != "" {
		return "", report.Plain // the step that called it tells
	}
	parts := []string{report.Duration(time.Duration(n.Millis) * time.Millisecond), plural(n.Steps, "step")}
	sums := strings.Join(spent(parts, n.Tokens, n.MicroDollars, n.Offline), ", ") + report.LostWords(n.Lost)
	switch n.Outcome {
	case report.OutcomeOK:
		return "finished in " + sums, report.Green
	case report.OutcomeRejected:
		return "rejected after " + sums, report.Red
	case report.OutcomeCancelled:
		return "cancelled after " + sums, report.Amber
	}
	return "failed after " + sums + because(why(n.Error)), report.Red
}

// why is an error without the outcome, which has been said already.
func why(problem string) string { return strings.TrimPrefix(problem, report.OutcomeFailed+": ") }

// waits says what is waited for, and what to type.
func (n *Notice) waits(s *Style) string {
	run := short(n.root)
	var what, command string
	switch n.For {
	case ForApproval:
		if what = "approval"; n.Tool != "" {
			what = "approval of a call of " + n.Tool
		}
		command = fmt.Sprintf("approve %s %s", run, n.Step)
	case ForEvent:
		what, command = "the event "+n.Signal, fmt.Sprintf("signal %s %s", run, n.Signal)
	case ForDecision:
		what, command = "a decision", fmt.Sprintf("resume %s --decide %s=rerun|skip|fail|result=JSON", run, n.Step)
	case ForBudget:
		name := report.BudgetName(n.Budget)
		what, command = "budget: "+name+" is used up", fmt.Sprintf("resume %s --raise %s=N", run, name)
	}
	if !n.Due.IsZero() { // before the command, which is there to be copied
		what += " until " + s.moment(n.Due, n.At)
	}
	return "waiting for " + what + ": espalier " + command
}

func (n *Notice) decided() (string, report.Colour) {
	text, colour := "", report.Green
	switch {
	case n.Reason == "timeout":
		text, colour = "nobody came in time", report.Red
	case n.For == ForEvent:
		text = "the event " + n.Signal + " came"
	case n.For == ForDecision:
		text = "decided: " + n.Outcome
	case n.Outcome == report.OutcomeOK:
		text = "approved"
	case n.Outcome == report.OutcomeRejected:
		text, colour = "rejected", report.Red
	default:
		text = n.Outcome
	}
	if n.Tool != "" {
		text = "the call of " + n.Tool + ": " + text
	}
	text += n.who()
	if n.Note != "" {
		text += ": " + n.Note
	}
	return text, colour
}

// short is the beginning of a run's id, enough to name it.
func short(run journal.RunID) string {
	if len(run) > 8 {
		return string(run[:8])
	}
	return string(run)
}
