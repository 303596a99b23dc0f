package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/report"
)

// PrettyOptions configure Pretty.
type PrettyOptions struct {
	Colour bool
	Zone   *time.Location // of times; nil is UTC
}

// Pretty prints an audit log for people: what happened, who decided on what
// evidence, and what each step cost.
func Pretty(w io.Writer, file []byte, o PrettyOptions) error {
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	p := printer{w: bufio.NewWriter(w), o: o}
	n := 0
	for line := range bytes.Lines(file) {
		n++
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			fmt.Fprintf(p.w, "%s\n", p.paint(report.Red, fmt.Sprintf("line %d is damaged: %v", n, err)))
			continue
		}
		p.record(&r)
	}
	p.costs()
	return p.w.Flush()
}

type printer struct {
	w     *bufio.Writer
	o     PrettyOptions
	steps []cost
	total *cost
	last  time.Time // of the previous record
}

// cost is a row of the table at the end.
type cost struct {
	step   string
	data   data
	nested bool
}

// data has the members of the data of all records that are printed.
type data struct {
	Workflow string `json:"workflow_name"`
	Version  string
	Actor    string
	Claimed  string `json:"actor_claimed"`
	Kind     string `json:"actor_kind"`
	Type     string
	Agent    string
	Status   string
	Reason   string `json:"reason_code"`
	Declared string `json:"declared_reason_code"`
	Error    string
	Result   string
	Method   string
	Evidence string
	Question string
	Digest   string
	Shown    json.RawMessage
	Waiting  string `json:"waiting_for"`
	Due      string
	Cond     string `json:"condition"`
	Model    string
	Offline  string
	Tool     string
	Command  json.RawMessage
	Cause    string
	Attempt  int
	Input    string
	Why      string
	Budget   string
	To       int64
	Path     string
	ToStep   string `json:"to_step"`
	Signal   string
	Worker   string
	Key      string
	How      string `json:"resolution"`
	For      string `json:"fallback_for"`

	Duration     int64 `json:"duration_ms"`
	Waited       int64 `json:"waited_ms"`
	In           int64 `json:"input_tokens"`
	Out          int64 `json:"output_tokens"`
	Cost         int64 `json:"cost_micro_dollars"`
	Models       int64 `json:"model_calls"`
	Tools        int64 `json:"tool_calls"`
	TotalTime    int64 `json:"total_duration_ms"`
	TotalIn      int64 `json:"total_input_tokens"`
	TotalOut     int64 `json:"total_output_tokens"`
	TotalCost    int64 `json:"total_cost_micro_dollars"`
	TotalModels  int64 `json:"total_model_calls"`
	TotalTools   int64 `json:"total_tool_calls"`
	CheckpointAt int64 `json:"journal_seq"`

	ChargedCalls  int64 `json:"charged_lost_model_calls"`
	ChargedTokens int64 `json:"charged_lost_tokens"`
	ChargedCost   int64 `json:"charged_lost_cost_micro_dollars"`
	LostCalls     int64 `json:"lost_model_calls"`
	LostTokens    int64 `json:"lost_tokens"`
	LostCost      int64 `json:"lost_cost_micro_dollars"`
	AllLostCalls  int64 `json:"total_lost_model_calls"`
	AllLostTokens int64 `json:"total_lost_tokens"`
	AllLostCost   int64 `json:"total_lost_cost_micro_dollars"`
}

func (p *printer) paint(c report.Colour, text string) string {
	if !p.o.Colour {
		return text
	}
	return c.Paint(text)
}

func (p *printer) record(r *Record) {
	var d data
	// Members of another type are left out; the file has them.
	_ = json.Unmarshal(r.Data, &d)
	colour, text := p.describe(r, &d)
	p.last = r.Timestamp
	if text == "" {
		return
	}
	clock := r.Timestamp.In(p.o.Zone).Format("15:04:05")
	if r.Event == RunStart {
		clock = r.Timestamp.In(p.o.Zone).Format(time.DateTime)
	}
	fmt.Fprintf(p.w, "%s  ", p.paint(report.Dim, clock))
	if r.StepID != "" {
		fmt.Fprintf(p.w, "%s  ", p.paint(report.Bold, report.Clean(r.StepID)))
	}
	fmt.Fprintln(p.w, p.paint(colour, report.Clean(text)))
	switch r.Event {
	case GateDecision:
		p.gate(&d)
	case GateOpened:
		if d.Question != "" {
			p.line("asks", d.Question)
		}
	case StepComplete:
		p.steps = append(p.steps, cost{step: r.StepID, data: d, nested: strings.Contains(r.StepID, ".")})
	case RunComplete, RunFailed:
		p.total = &cost{data: d}
	}
}

func who(d *data) string {
	name := cmp.Or(d.Actor, "an unknown user")
	if d.Claimed != "" {
		name += " (as " + d.Claimed + ")"
	}
	return name
}

// phrase returns the line of a record; "" if the record only repeats others.
type phrase = func(p *printer, r *Record, d *data) (report.Colour, string)

// say makes a phrase of one colour from a template.
func say(colour report.Colour, template string) phrase {
	return func(_ *printer, _ *Record, d *data) (report.Colour, string) {
		return colour, os.Expand(template, d.part)
	}
}

// part returns the text of a name in a template.
func (d *data) part(name string) string {
	switch name {
	case "who":
		return who(d)
	case "budget":
		return report.BudgetName(d.Budget)
	case "limit":
		return report.BudgetFigure(d.Budget, d.To)
	case "checkpoint":
		return strconv.FormatInt(d.CheckpointAt, 10)
	case "attempt":
		return strconv.Itoa(d.Attempt)
	case "total":
		return report.Duration(time.Duration(d.TotalTime) * time.Millisecond)
	}
	return map[string]string{
		"condition": d.Cond, "due": d.Due, "error": d.Error, "how": d.How, "input": d.Input, "key": d.Key, "path": d.Path,
		"reason": d.Reason, "result": d.Result, "signal": d.Signal, "status": d.Status, "step": d.ToStep, "waiting": d.Waiting,
		"why": d.Why, "worker": d.Worker,
	}[name]
}

var phrases = map[string]phrase{
	RunStart:         (*printer).runStart,
	RunComplete:      say(report.Green, "run $status ($total)"),
	RunFailed:        say(report.Red, "run $status, $reason: $error ($total)"),
	RunSuspended:     say(report.Amber, "suspended, $waiting"),
	RunResumed:       (*printer).runResumed,
	RunPaused:        say(report.Amber, "run paused by $who"),
	RunContinued:     say(report.Amber, "run continued by $who"),
	RunRewound:       say(report.Amber, "rewound to $step by $who"),
	CancelRequested:  say(report.Amber, "cancel requested by $who"),
	CheckpointSaved:  say(report.Dim, "checkpoint $checkpoint"),
	StateEdited:      say(report.Amber, "$path changed by $who"),
	SignalReceived:   say(report.Plain, "event $signal received from $who; nothing waits for it yet"),
	InputRefused:     say(report.Red, "refused $input by $who: $why"),
	StepStart:        (*printer).stepStart,
	StepOutput:       say(report.Plain, ""),
	StepComplete:     (*printer).stepComplete,
	StepSkipped:      say(report.Dim, "skipped, $reason: $condition"),
	StepRetry:        say(report.Amber, "attempt $attempt at $due: $error"),
	StepLost:         (*printer).stepLost,
	WorkerSkipped:    say(report.Dim, "worker $worker skipped, $reason: $condition"),
	GateOpened:       say(report.Amber, "waiting for a decision"),
	GateDecision:     (*printer).gateDecision,
	WaitpointOpened:  say(report.Amber, "waiting for event $waiting"),
	WaitpointPassed:  say(report.Green, "event received from $who"),
	WaitpointTimeout: say(report.Red, "timed out"),
	DoubtOpened:      say(report.Amber, "interrupted, outcome unknown"),
	DoubtDecided:     say(report.Amber, "outcome decided by $who: $result"),
	ModelCall:        (*printer).modelCall,
	ModelError:       (*printer).modelError,
	ToolCall:         (*printer).toolCall,
	CommandRun:       (*printer).commandRun,
	MergeConflict:    say(report.Amber, "conflict over $key, resolved by $how"),
	MergeDuplicate:   say(report.Dim, "duplicate of $key dropped"),
	BudgetCheck:      say(report.Plain, ""),
	BudgetWait:       say(report.Amber, "waiting for budget: $budget"),
	BudgetRefused:    say(report.Red, "refused, budget exhausted: $budget"),
	BudgetRaised:     say(report.Amber, "budget $budget raised to $limit by $who"),
}

// describe returns the line of a record. Records of other releases have their name.
func (p *printer) describe(r *Record, d *data) (report.Colour, string) {
	if phrase := phrases[r.Event]; phrase != nil {
		return phrase(p, r, d)
	}
	return report.Plain, strings.ReplaceAll(r.Event, "_", " ")
}

func (p *printer) runStart(r *Record, d *data) (report.Colour, string) {
	text := fmt.Sprintf("run %s of %s", r.RunID, strings.TrimSpace(d.Workflow+" "+d.Version))
	if r.ParentRunID != "" {
		return report.Bold, text + ", called by run " + r.ParentRunID
	}
	return report.Bold, text + ", started by " + who(d)
}

func (p *printer) runResumed(r *Record, d *data) (report.Colour, string) {
	if d.Cause == report.CauseTakenOver && d.Waited == 0 { // it was not suspended
		return report.Amber, fmt.Sprintf("taken over by another process, %s after the last record", report.Duration(r.Timestamp.Sub(p.last)))
	}
	return report.Plain, fmt.Sprintf("resumed (%s) after %s", d.Cause, report.Duration(time.Duration(d.Waited)*time.Millisecond))
}

func (p *printer) stepStart(_ *Record, d *data) (report.Colour, string) {
	text := d.Type + " started"
	if d.Agent != "" {
		text += ", agent " + d.Agent
	}
	if d.For != "" {
		text += ", fallback for " + d.For
	}
	return report.KindColour(d.Type), text
}

func (p *printer) stepComplete(_ *Record, d *data) (report.Colour, string) {
	text := d.Status + ", " + d.Reason
	if d.Declared != "" {
		text += " (" + d.Declared + ")"
	}
	if d.Error != "" {
		text += ": " + d.Error
	}
	text += " (" + report.Duration(time.Duration(d.Duration)*time.Millisecond) + ")"
	if d.Status == "completed" {
		return report.Green, text
	}
	return report.Red, text
}

func (p *printer) stepLost(_ *Record, d *data) (report.Colour, string) {
	return report.Red, "interrupted: " + d.Why + lost(d.ChargedCalls, d.ChargedTokens, d.ChargedCost)
}

func (p *printer) gateDecision(_ *Record, d *data) (report.Colour, string) {
	colour := report.Red
	if d.Result == "approved" {
		colour = report.Green
	}
	return colour, fmt.Sprintf("%s by %s, %s", d.Result, who(d), d.Method)
}

func (p *printer) modelCall(_ *Record, d *data) (report.Colour, string) {
	return report.Cyan, fmt.Sprintf("model %s: %s tokens in, %s out%s", d.Model, report.Number(d.In), report.Number(d.Out), dollars(", ", d.Cost))
}

func (p *printer) modelError(_ *Record, d *data) (report.Colour, string) {
	return report.Red, "model: " + d.Error + lost(d.LostCalls, d.LostTokens, d.LostCost)
}

func (p *printer) toolCall(_ *Record, d *data) (report.Colour, string) {
	if d.Error != "" {
		return report.Red, fmt.Sprintf("tool %s failed: %s", d.Tool, d.Error)
	}
	return report.Cyan, "tool " + d.Tool
}

func (p *printer) commandRun(_ *Record, d *data) (report.Colour, string) {
	var command string
	_ = json.Unmarshal(d.Command, &command) // a long one is an object, which the file has
	return report.Cyan, "command " + report.Shorten(report.Clean(command), 100)
}

func (p *printer) line(name, text string) {
	margin := strings.Repeat(" ", 12)
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	fmt.Fprintf(p.w, "%s%s  %s\n", margin[:10], p.paint(report.Dim, fmt.Sprintf("%-8s", name)), report.Clean(lines[0]))
	for _, more := range lines[1:] {
		fmt.Fprintf(p.w, "%s%s  %s\n", margin[:10], strings.Repeat(" ", 8), report.Clean(more))
	}
}

// gate prints what was asked, why it was decided so, and what was shown.
func (p *printer) gate(d *data) {
	if d.Question != "" {
		p.line("asked", d.Question)
	}
	if d.Evidence != "" {
		p.line("because", d.Evidence)
	}
	var shown struct {
		Reads map[string]json.RawMessage `json:"reads"`
	}
	if json.Unmarshal(d.Shown, &shown) == nil && len(shown.Reads) > 0 {
		for _, name := range slices.Sorted(maps.Keys(shown.Reads)) {
			p.line("on", name+" = "+readable(shown.Reads[name]))
		}
	} else if len(d.Shown) > 0 {
		p.line("on", readable(d.Shown))
	}
	if d.Digest != "" {
		p.line("digest", d.Digest)
	}
}

func readable(raw json.RawMessage) string {
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

// lost returns what is charged for model calls without a reply, for the end of
// a sentence.
func lost(calls, tokens, micro int64) string {
	if calls == 0 {
		return ""
	}
	text := "; no reply arrived, so it is charged in full: "
	if calls > 1 {
		text = fmt.Sprintf("; no replies arrived to %d model calls, so they are charged in full: ", calls)
	}
	return text + report.Number(tokens) + " tokens" + dollars(", ", micro)
}

// dollars returns an amount of money; "" when it is 0.
func dollars(before string, micro int64) string {
	if micro == 0 {
		return ""
	}
	return before + fmt.Sprintf("$%.6f", float64(micro)/1e6)
}

// costs prints what each step and the whole run cost. The figures of a step
// include those of the steps inside it.
func (p *printer) costs() {
	if len(p.steps) == 0 {
		return
	}
	width := len("the run so far")
	for _, c := range p.steps {
		width = max(width, report.Width(c.step)+2)
	}
	row := func(name string, models, tools, in, out, money int64) {
		fmt.Fprintf(p.w, "  %s%s  %11d  %10d  %10s  %10s  %12s\n", report.Clean(name), strings.Repeat(" ", max(width-report.Width(name), 0)), models, tools,
			report.Number(in), report.Number(out), dollars("", money))
	}
	fmt.Fprintf(p.w, "\n  %s%s  %s\n", "step", strings.Repeat(" ", width-4), p.paint(report.Dim, "model calls  tool calls   tokens in  tokens out          cost"))
	var sum data
	for _, c := range p.steps {
		name := c.step
		if c.nested {
			name = "  " + name
		} else {
			sum.TotalModels += c.data.Models
			sum.TotalTools += c.data.Tools
			sum.TotalIn += c.data.In
			sum.TotalOut += c.data.Out
			sum.TotalCost += c.data.Cost
			sum.AllLostCalls += c.data.LostCalls
			sum.AllLostTokens += c.data.LostTokens
			sum.AllLostCost += c.data.LostCost
		}
		row(name, c.data.Models, c.data.Tools, c.data.In, c.data.Out, c.data.Cost)
	}
	name := "the run so far"
	if p.total != nil {
		name, sum = "the run", p.total.data
	}
	row(name, sum.TotalModels, sum.TotalTools, sum.TotalIn, sum.TotalOut, sum.TotalCost)
	if n := sum.AllLostCalls; n > 0 {
		calls := "1 model call"
		if n > 1 {
			calls = fmt.Sprintf("%d model calls", n)
		}
		fmt.Fprintf(p.w, "  of these, at most %s tokens%s for %s without a reply\n",
			report.Number(sum.AllLostTokens), dollars(" and ", sum.AllLostCost), calls)
	}
}
