package audit

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/auditevent"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/xmaps"
)

// PrettyOptions configure Pretty.
type PrettyOptions struct {
	Color bool
	Zone  *time.Location // of times; nil is UTC
	// Titles are labels of steps whose names are generated, by name.
	Titles map[string]string
	// Offline is set if the run does not call real models.
	Offline journal.Offline
}

// Pretty prints an audit log for people: what happened, who decided on what
// evidence, and what each step cost.
func Pretty(w io.Writer, file io.Reader, o PrettyOptions) error {
	o.Zone = cmp.Or(o.Zone, time.UTC)
	p := printer{w: bufio.NewWriter(w), o: o}
	n := 0
	for line, err := range report.Lines(file) {
		if err != nil {
			return errors.Join(err, p.w.Flush())
		}
		n++
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			p.flush("")
			fmt.Fprintf(p.w, "%s\n", p.paint(report.Red, fmt.Sprintf("line %d is damaged: %v", n, err)))
			continue
		}
		p.next(r)
	}
	p.flush("")
	p.costs()
	return p.w.Flush()
}

// printer writes the records of a log for people. The costs of steps are kept for the table at the end.
type printer struct {
	w     *bufio.Writer
	o     PrettyOptions
	steps []cost // the first ones
	more  int    // number of the others
	sum   spend  // of all steps that are not inside others
	total *spend
	last  time.Time // of the previous record

	decisions map[string]bool // open steps that only choose the next one
	held      []Record        // records whose lines depend on a later one
	chosen    string          // step that the decision in held has chosen
}

// next prints a record. The records of a decision are held until it is known what they have led to: the decision about
// a gate makes the run continue, which is printed after it, and a decision step names the step that it has chosen.
func (p *printer) next(r Record) {
	if len(p.held) > 0 {
		switch r.Event {
		case auditevent.StepOutput, auditevent.StepComplete, auditevent.BudgetCheck, auditevent.CheckpointSaved:
			p.held = append(p.held, r)
			return
		case auditevent.RunResumed:
			if p.held[0].Event != auditevent.StepComplete {
				p.record(&p.held[0])
				p.held[0] = r
				p.flush("")
				return
			}
		case auditevent.StepStart, auditevent.StepSkipped:
			p.flush(report.Titled(r.StepID, p.o.Titles))
		}
		p.flush("")
	}
	switch r.Event {
	case auditevent.GateDecision, auditevent.WaitpointPassed, auditevent.UnknownOutcomeDecided:
		p.held = append(p.held, r)
		return
	case auditevent.StepComplete:
		if p.decisions[r.StepID] {
			p.held = append(p.held, r)
			return
		}
	}
	p.record(&r)
}

// flush prints the records that are held. Decisions among them have chosen a step; "" if that is not known.
func (p *printer) flush(chosen string) {
	p.chosen = chosen
	for i := range p.held {
		p.record(&p.held[i])
	}
	p.held, p.chosen = p.held[:0], ""
}

// cost is a row of the table at the end.
type cost struct {
	step  string // its path
	name  string
	outer string // path of the outermost step around it that has ended
	spend
}

// place returns the path of a step as people know it, with the round of the loop around it.
func (p *printer) place(path string, d data) string {
	name := report.Titled(path, p.o.Titles)
	if d["iteration"] != nil {
		name += "[" + strconv.FormatInt(d.number("iteration"), 10) + "]"
	}
	return name
}

// data has the members of the data of a record.
type data map[string]json.RawMessage

// text returns a member that is a string, otherwise "".
func (d data) text(name string) (text string) {
	_ = json.Unmarshal(d[name], &text)
	return text
}

// number returns a member that is a number, otherwise 0.
func (d data) number(name string) (n int64) {
	_ = json.Unmarshal(d[name], &n)
	return n
}

// duration formats a member that is a number of milliseconds.
func (d data) duration(name string) string {
	return report.Duration(time.Duration(d.number(name)) * time.Millisecond)
}

// spend is the usage of a step or a run.
type spend struct{ models, tools, in, out, money, lostCalls, lostTokens, lostMoney int64 }

// members returns the numbers in the order in which the function spend reads them.
func (s *spend) members() []*int64 {
	return []*int64{&s.models, &s.tools, &s.in, &s.out, &s.money, &s.lostCalls, &s.lostTokens, &s.lostMoney}
}

// spend returns the usage under names with a prefix.
func (d data) spend(prefix string) (out spend) {
	for i, name := range []string{
		"model_calls", "tool_calls", "input_tokens", "output_tokens", "cost_micro_dollars",
		"lost_model_calls", "lost_tokens", "lost_cost_micro_dollars",
	} {
		*out.members()[i] = d.number(prefix + name)
	}
	return out
}

// paint returns a text in a color, if there are colors.
func (p *printer) paint(c report.Color, text string) string {
	return report.Palette(p.o.Color).Paint(c, text)
}

// record prints a record as one line, and lines below it with what a person needs to judge it. A record without a text
// is left out.
func (p *printer) record(r *Record) {
	var d data
	// Data that is not an object is left out; the file has it.
	_ = json.Unmarshal(r.Data, &d)
	color, text := p.describe(r, d)
	p.last = r.Timestamp
	if text == "" {
		return
	}
	clock := r.Timestamp.In(p.o.Zone).Format("15:04:05")
	if r.Event == auditevent.RunStart {
		clock = r.Timestamp.In(p.o.Zone).Format(time.DateTime)
	}
	fmt.Fprintf(p.w, "%s  ", p.paint(report.Dim, clock))
	if r.StepID != "" {
		fmt.Fprintf(p.w, "%s  ", p.paint(report.Bold, report.Clean(p.place(r.StepID, d))))
	}
	fmt.Fprintln(p.w, p.paint(color, report.Clean(text)))
	switch r.Event {
	case auditevent.GateDecision:
		p.gate(d)
	case auditevent.GateOpened:
		if question := d.text("question"); question != "" {
			p.line("asks", question)
		}
	case auditevent.RunStart:
		if of := d.text("continues_run"); of != "" {
			p.line("from", "step "+journal.PlaceName(d.text("continues_from"))+" of run "+of)
		}
		var before []string
		if json.Unmarshal(d["approved_before"], &before) == nil && len(before) > 0 {
			p.line("", "approved in that run: "+strings.Join(before, ", "))
		}
	case auditevent.StateEdited:
		if value := d["value"]; len(value) > 0 {
			p.line("to", report.Readable(value))
		}
	case auditevent.StepComplete:
		p.spent(cost{step: r.StepID, name: p.place(r.StepID, d), spend: d.spend("")})
	case auditevent.RunComplete, auditevent.RunFailed:
		total := d.spend("total_")
		p.total = &total
	}
}

// who returns the person who acted, and how the person was established.
func who(d data) string {
	name := cmp.Or(d.text("actor"), "an unknown user")
	var about []string
	if method := d.text(actorMethod); method != "" {
		about = append(about, method)
	}
	if d.text("method") == string(journal.MethodAutoApprove) && name != plan.AutoApprove {
		about = append(about, plan.AutoApprove)
	}
	if claimed := d.text("actor_claimed"); claimed != "" {
		about = append(about, "as "+claimed)
	}
	if len(about) > 0 {
		name += " (" + strings.Join(about, ", ") + ")"
	}
	return name
}

// phrase returns the line of a record; "" if the record only repeats others.
type phrase = func(p *printer, r *Record, d data) (report.Color, string)

// fromTemplate returns a phrase of one color from a template with names of members.
func fromTemplate(color report.Color, template string) phrase {
	return func(_ *printer, _ *Record, d data) (report.Color, string) {
		return color, os.Expand(template, d.part)
	}
}

// part returns the text of a name in a template.
func (d data) part(name string) string {
	switch name {
	case "who":
		return who(d)
	case "budget":
		return journal.BudgetWords(d.text(name))
	case "to":
		return report.BudgetFigure(d.text("budget"), d.number(name))
	case "waiting_for":
		return journal.ParseWait(d.text(name)).Words()
	case "to_step":
		return journal.PlaceName(d.text(name))
	case "reason_code": // with what precedes it, because it may be empty
		if words := report.ReasonWords(d.text(name)); words != "" {
			return ", " + words
		}
		return ""
	case "condition":
		return d.with(": ", name, "")
	case "error":
		text := report.ProblemWords(d.text(name))
		if status := d.text("status"); status != "" {
			text = strings.TrimPrefix(strings.TrimPrefix(text, status), ": ")
		}
		if text == "" {
			return ""
		}
		return ": " + text
	case "journal_seq", "attempt":
		return strconv.FormatInt(d.number(name), 10)
	case "total_duration_ms":
		return d.duration(name)
	}
	return d.text(name)
}

// phrases make the text of a record. An event without one is printed by its name.
var phrases = map[string]phrase{
	auditevent.RunStart:        (*printer).runStart,
	auditevent.RunComplete:     fromTemplate(report.Green, "run $status ($total_duration_ms)"),
	auditevent.RunFailed:       fromTemplate(report.Red, "run $status$reason_code$error ($total_duration_ms)"),
	auditevent.RunSuspended:    fromTemplate(report.Amber, "suspended, $waiting_for"),
	auditevent.RunResumed:      (*printer).runResumed,
	auditevent.RunPaused:       fromTemplate(report.Amber, "run paused by $who"),
	auditevent.RunContinued:    fromTemplate(report.Amber, "run continued by $who"),
	auditevent.RunRewound:      fromTemplate(report.Amber, "rewound to $to_step by $who"),
	auditevent.CancelRequested: fromTemplate(report.Amber, "cancel requested by $who"),
	auditevent.CheckpointSaved: fromTemplate(report.Dim, "checkpoint $journal_seq"),
	auditevent.StateEdited:     fromTemplate(report.Amber, "$path changed by $who"),
	auditevent.SignalReceived: fromTemplate(report.Plain,
		"event $signal received from $who; nothing waits for it yet"),
	auditevent.InputRefused:          fromTemplate(report.Red, "refused $input by $who: $why"),
	auditevent.StepStart:             (*printer).stepStart,
	auditevent.StepOutput:            fromTemplate(report.Plain, ""),
	auditevent.StepComplete:          (*printer).stepComplete,
	auditevent.StepSkipped:           fromTemplate(report.Dim, "skipped$reason_code$condition"),
	auditevent.StepRetry:             fromTemplate(report.Amber, "attempt $attempt at $due$error"),
	auditevent.StepLost:              (*printer).stepLost,
	auditevent.WorkerSkipped:         fromTemplate(report.Dim, "worker $worker skipped$reason_code$condition"),
	auditevent.GateOpened:            fromTemplate(report.Amber, "waiting for a decision"),
	auditevent.GateApproval:          fromTemplate(report.Green, "approved by $who; more approvals are needed"),
	auditevent.GateEscalated:         fromTemplate(report.Amber, "escalated to more people"),
	auditevent.GateDecision:          (*printer).gateDecision,
	auditevent.WaitpointOpened:       fromTemplate(report.Amber, "waiting for event $waiting_for"),
	auditevent.WaitpointPassed:       fromTemplate(report.Green, "event received from $who"),
	auditevent.WaitpointTimeout:      fromTemplate(report.Red, "timed out"),
	auditevent.UnknownOutcomeOpened:  fromTemplate(report.Amber, "interrupted, outcome unknown"),
	auditevent.UnknownOutcomeDecided: fromTemplate(report.Amber, "outcome decided by $who: $result"),
	auditevent.ModelCall:             (*printer).modelCall,
	auditevent.ModelError:            (*printer).modelError,
	auditevent.ToolCall:              (*printer).toolCall,
	auditevent.CommandRun:            (*printer).commandRun,
	auditevent.MergeConflict:         fromTemplate(report.Amber, "conflict over $key, resolved by $resolution"),
	auditevent.MergeDuplicate:        fromTemplate(report.Dim, "duplicate of $key dropped"),
	auditevent.BudgetCheck:           fromTemplate(report.Plain, ""),
	auditevent.BudgetWait:            fromTemplate(report.Amber, "waiting for the $budget"),
	auditevent.BudgetRefused:         fromTemplate(report.Red, "refused, $budget exhausted"),
	auditevent.BudgetRaised:          fromTemplate(report.Amber, "$budget raised to $to by $who"),
}

// describe returns the line of a record. Records of other releases have their name.
func (p *printer) describe(r *Record, d data) (report.Color, string) {
	if phrase := phrases[r.Event]; phrase != nil {
		return phrase(p, r, d)
	}
	return report.Plain, words(r.Event)
}

func (p *printer) runStart(r *Record, d data) (report.Color, string) {
	text := fmt.Sprintf("run %s of %s", r.RunID, strings.TrimSpace(d.text("workflow_name")+" "+d.text("version")))
	if r.ParentRunID != "" {
		return report.Bold, text + ", called by run " + r.ParentRunID
	}
	if p.o.Offline != "" {
		text += ", " + string(p.o.Offline)
	}
	return report.Bold, text + ", started by " + who(d)
}

func (p *printer) runResumed(r *Record, d data) (report.Color, string) {
	if d.text("cause") == report.CauseTakenOver && d.number("waited_ms") == 0 { // it was not suspended
		since := report.Duration(r.Timestamp.Sub(p.last))
		return report.Amber, "continued by another process, " + since + " after the last record"
	}
	return report.Plain, fmt.Sprintf("resumed (%s) after %s", words(d.text("cause")), d.duration("waited_ms"))
}

// with returns before and a member, if the record has it.
func (d data) with(before, name, after string) string {
	text := d.text(name)
	if text == "" {
		return ""
	}
	return before + text + after
}

func (p *printer) stepStart(r *Record, d data) (report.Color, string) {
	kind := d.text("type")
	if kind == "decision" {
		xmaps.Set(&p.decisions, r.StepID, true)
	}
	text := kind + " started" + d.with(", agent ", "agent", "") + d.with(", fallback for ", "fallback_for", "")
	if child := d.text("child_run_id"); child != "" {
		text += fmt.Sprintf(", called run %[1]s (espalier audit %[1]s)", journal.RunID(child).Short())
	}
	return report.KindColor(kind), text
}

func (p *printer) stepComplete(r *Record, d data) (report.Color, string) {
	status, color := d.text("status"), report.Red
	if status == "completed" {
		color = report.Green
	}
	if p.decisions[r.StepID] {
		delete(p.decisions, r.StepID)
		if p.chosen != "" {
			status += " → " + p.chosen
		}
	}
	return color, status + d.part("reason_code") + d.with(" (", "declared_reason_code", ")") +
		d.part("error") + " (" + d.duration("duration_ms") + ")"
}

func (p *printer) stepLost(_ *Record, d data) (report.Color, string) {
	return report.Red, "interrupted: " + d.text("why") + lostCharge(d.spend("charged_"))
}

func (p *printer) gateDecision(_ *Record, d data) (report.Color, string) {
	color := report.Red
	if d.text("result") == string(ir.GateApproved) {
		color = report.Green
	}
	return color, fmt.Sprintf("%s by %s, %s", d.text("result"), who(d), words(d.text("method")))
}

// words returns a name of the records as people read it.
func words(name string) string { return strings.ReplaceAll(name, "_", " ") }

func (p *printer) modelCall(_ *Record, d data) (report.Color, string) {
	s := d.spend("")
	return report.Cyan, fmt.Sprintf("model %s: %s tokens in, %s out%s",
		d.text("model"), report.Number(s.in), report.Number(s.out), dollars(", ", s.money))
}

func (p *printer) modelError(_ *Record, d data) (report.Color, string) {
	return report.Red, "model: " + d.text("error") + lostCharge(d.spend(""))
}

func (p *printer) toolCall(_ *Record, d data) (report.Color, string) {
	text := "tool " + d.text("tool") + d.arguments()
	if d.text("error") != "" {
		return report.Red, text + " failed: " + d.text("error")
	}
	return report.Cyan, text + d.with(", ", "offline", "")
}

// arguments returns the command of a tool call, or the start of its arguments. The record of long ones has their start.
func (d data) arguments() string {
	text := string(d["input_summary"])
	var input struct {
		Command   string `json:"command"`
		Shortened struct {
			Begins string `json:"begins"`
		} `json:"shortened"`
	}
	switch err := json.Unmarshal(d["input_summary"], &input); {
	case err == nil && input.Command != "":
		return ": " + report.CommandLine(input.Command)
	case err == nil && input.Shortened.Begins != "":
		text = input.Shortened.Begins + "…"
	}
	if text == "" || text == "{}" || text == "null" {
		return ""
	}
	return " " + report.Shorten(report.Clean(text), 100)
}

func (p *printer) commandRun(_ *Record, d data) (report.Color, string) {
	text, simulated := strings.CutPrefix(d.text("command"), journal.SimulatedMark) // a long one is an object
	text = "command " + report.CommandLine(text)
	if simulated {
		text += ", simulated"
	}
	return report.Cyan, text
}

// line prints a text below a record, under a name in the margin.
func (p *printer) line(name, text string) {
	margin := strings.Repeat(" ", 12)
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	fmt.Fprintf(p.w, "%s%s  %s\n", margin[:10], p.paint(report.Dim, fmt.Sprintf("%-8s", name)), report.Clean(lines[0]))
	for _, more := range lines[1:] {
		fmt.Fprintf(p.w, "%s%s  %s\n", margin[:10], strings.Repeat(" ", 8), report.Clean(more))
	}
}

// gate prints what was asked, why it was decided so, and what was shown.
func (p *printer) gate(d data) {
	if question := d.text("question"); question != "" {
		p.line("asked", question)
	}
	if evidence := d.text("evidence"); evidence != "" {
		p.line("because", evidence)
	}
	var shown struct {
		Reads map[string]json.RawMessage `json:"reads"`
	}
	if json.Unmarshal(d["shown"], &shown) == nil && len(shown.Reads) > 0 {
		for _, name := range slices.Sorted(maps.Keys(shown.Reads)) {
			p.line("on", name+" = "+report.Readable(shown.Reads[name]))
		}
	} else if len(d["shown"]) > 0 {
		p.line("on", report.Readable(d["shown"]))
	}
	if digest := d.text("digest"); digest != "" {
		p.line("digest", report.ShortDigest(digest))
	}
}

// lostCharge returns what is charged for model calls without a reply, as the end of
// a sentence.
func lostCharge(s spend) string {
	if s.lostCalls == 0 {
		return ""
	}
	if s.lostTokens+s.lostMoney == 0 {
		return "; not charged"
	}
	text := "; no reply arrived, so it is charged in full: "
	if s.lostCalls > 1 {
		text = fmt.Sprintf("; no replies arrived to %d model calls, so they are charged in full: ", s.lostCalls)
	}
	return text + report.Number(s.lostTokens) + " tokens" + dollars(", ", s.lostMoney)
}

// dollars returns an amount of money; "" when it is 0.
func dollars(before string, micro int64) string {
	if micro == 0 {
		return ""
	}
	return before + fmt.Sprintf("$%.6f", float64(micro)/1e6)
}

// maxCosts is how many steps the table of costs has. A loop can have any number.
const maxCosts = 200

// spent adds the cost of a step.
func (p *printer) spent(c cost) {
	if !strings.Contains(c.step, ".") {
		for k, n := range c.members() {
			*p.sum.members()[k] += *n
		}
	}
	// Steps inside have ended before it. They follow it in the table.
	var others, inside []cost
	for _, one := range p.steps {
		if strings.HasPrefix(one.step, c.step+".") && (one.outer == "" || len(one.outer) > len(c.step)) {
			one.outer = c.step
			inside = append(inside, one)
		} else { // also those of earlier visits
			others = append(others, one)
		}
	}
	if len(p.steps) >= maxCosts && len(inside) == 0 {
		p.more++
		return
	}
	p.steps = slices.Concat(others, []cost{c}, inside)
}

// costs prints what each step and the whole run cost. The figures of a step
// include those of the steps inside it.
func (p *printer) costs() {
	if len(p.steps) == 0 {
		return
	}
	width := len("the run so far")
	for _, c := range p.steps {
		width = max(width, report.Width(c.name)+2)
	}
	row := func(name string, s *spend) {
		pad := strings.Repeat(" ", max(width-report.Width(name), 0))
		fmt.Fprintf(p.w, "  %s%s  %11d  %10d  %10s  %10s  %12s\n", report.Clean(name), pad, s.models, s.tools,
			report.Number(s.in), report.Number(s.out), dollars("", s.money))
	}
	fmt.Fprintf(p.w, "\n  %s%s  %s\n", "step", strings.Repeat(" ", width-4),
		p.paint(report.Dim, "model calls  tool calls   tokens in  tokens out          cost"))
	name, sum := "the run so far", p.sum
	outer := ""
	for i := range p.steps {
		c := &p.steps[i]
		name := c.name
		if outer != "" && strings.HasPrefix(c.step, outer+".") {
			name = "  " + name
		} else {
			outer = c.step
		}
		row(name, &c.spend)
	}
	if p.more > 0 {
		fmt.Fprintf(p.w, "  … and %s more steps\n", report.Number(int64(p.more)))
	}
	if p.total != nil {
		name, sum = "the run", *p.total
	}
	row(name, &sum)
	if n := sum.lostCalls; n > 0 {
		calls := "1 model call"
		if n > 1 {
			calls = fmt.Sprintf("%d model calls", n)
		}
		if sum.lostTokens+sum.lostMoney == 0 {
			fmt.Fprintf(p.w, "  of these, %s without a reply, not charged\n", calls)
			return
		}
		fmt.Fprintf(p.w, "  of these, at most %s tokens%s for %s without a reply\n",
			report.Number(sum.lostTokens), dollars(" and ", sum.lostMoney), calls)
	}
}
