package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/report"
)

// PrettyOptions are how Pretty prints.
type PrettyOptions struct {
	Colour bool
	Zone   *time.Location // of the times; nil is UTC
}

// Pretty prints an audit log for people: what happened, who decided on seeing
// what, and what each step cost.
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
	last  time.Time // of the record before
}

// cost is a line of the table at the end.
type cost struct {
	step   string
	data   data
	nested bool
}

// data is what the printer needs of the data of any record.
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
	// Members of another type than ours are left out; the file has them.
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
	name := d.Actor
	if name == "" {
		name = "somebody unknown"
	}
	if d.Claimed != "" {
		name += " (as " + d.Claimed + ")"
	}
	return name
}

// describe is the line of a record; empty for those that only repeat others.
func (p *printer) describe(r *Record, d *data) (report.Colour, string) {
	switch r.Event {
	case RunStart:
		text := fmt.Sprintf("run %s of %s", r.RunID, strings.TrimSpace(d.Workflow+" "+d.Version))
		if r.ParentRunID != "" {
			return report.Bold, text + ", called by run " + r.ParentRunID
		}
		return report.Bold, text + ", begun by " + who(d)
	case StepStart:
		text := d.Type + " begins"
		if d.Agent != "" {
			text += ", agent " + d.Agent
		}
		if d.For != "" {
			text += ", in the place of " + d.For
		}
		return report.KindColour(d.Type), text
	case StepOutput, BudgetCheck:
		return report.Plain, ""
	case StepComplete:
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
	case StepSkipped:
		return report.Dim, fmt.Sprintf("skipped, %s: %s", d.Reason, d.Cond)
	case WorkerSkipped:
		return report.Dim, fmt.Sprintf("worker %s skipped, %s: %s", d.Worker, d.Reason, d.Cond)
	case GateOpened:
		return report.Amber, "waits for a decision"
	case GateDecision:
		if d.Result == "approved" {
			return report.Green, fmt.Sprintf("approved by %s, %s", who(d), d.Method)
		}
		return report.Red, fmt.Sprintf("%s by %s, %s", d.Result, who(d), d.Method)
	case WaitpointOpened:
		return report.Amber, "waits for the event " + d.Waiting
	case WaitpointPassed:
		return report.Green, "the event came, sent by " + who(d)
	case WaitpointTimeout:
		return report.Red, "nobody came in time"
	case DoubtOpened:
		return report.Amber, "in doubt: nobody knows how it ended"
	case DoubtDecided:
		return report.Amber, fmt.Sprintf("doubt settled by %s: %s", who(d), d.Result)
	case ModelCall:
		return report.Cyan, strings.TrimSpace(fmt.Sprintf("model %s: %s tokens in, %s out%s", d.Model, report.Number(d.In), report.Number(d.Out), dollars(", ", d.Cost)))
	case ModelError:
		text := "model: " + d.Error
		if more := lost(d.LostCalls, d.LostTokens, d.LostCost); more != "" {
			text += "; " + more
		}
		return report.Red, text
	case ToolCall:
		if d.Error != "" {
			return report.Red, fmt.Sprintf("tool %s failed: %s", d.Tool, d.Error)
		}
		return report.Cyan, "tool " + d.Tool
	case CommandRun:
		var command string
		_ = json.Unmarshal(d.Command, &command) // a long one is told by the file
		return report.Cyan, "command " + report.Shorten(report.Clean(command), 100)
	case StepRetry:
		return report.Amber, fmt.Sprintf("attempt %d follows at %s: %s", d.Attempt, d.Due, d.Error)
	case MergeConflict:
		return report.Amber, fmt.Sprintf("conflict over %s, settled by %s", d.Key, d.How)
	case MergeDuplicate:
		return report.Dim, "duplicate of " + d.Key + " dropped"
	case RunSuspended:
		return report.Amber, "suspended, " + d.Waiting
	case RunResumed:
		if d.Cause == report.CauseTakenOver && d.Waited == 0 { // nobody had put it to rest
			return report.Amber, fmt.Sprintf("taken over by another process, %s after the last that is known", report.Duration(r.Timestamp.Sub(p.last)))
		}
		return report.Plain, fmt.Sprintf("resumed (%s) after %s", d.Cause, report.Duration(time.Duration(d.Waited)*time.Millisecond))
	case CheckpointSaved:
		return report.Dim, fmt.Sprintf("checkpoint %d", d.CheckpointAt)
	case InputRefused:
		return report.Red, fmt.Sprintf("refused a %s by %s: %s", d.Input, who(d), d.Why)
	case SignalReceived:
		return report.Plain, fmt.Sprintf("event %s, sent by %s; nothing waits for it yet", d.Signal, who(d))
	case BudgetRaised:
		return report.Amber, fmt.Sprintf("%s raises %s to %s", who(d), report.BudgetName(d.Budget), report.BudgetFigure(d.Budget, d.To))
	case BudgetWait:
		return report.Amber, "waits for budget: " + report.BudgetName(d.Budget)
	case BudgetRefused:
		return report.Red, "refused, the budget is used up: " + report.BudgetName(d.Budget)
	case StateEdited:
		return report.Amber, fmt.Sprintf("%s edits %s", who(d), d.Path)
	case RunRewound:
		return report.Amber, fmt.Sprintf("%s takes the run back to %s", who(d), d.ToStep)
	case RunPaused, RunContinued, CancelRequested:
		return report.Amber, strings.ReplaceAll(r.Event, "_", " ") + " by " + who(d)
	case StepLost:
		text := "interrupted: " + d.Why
		if more := lost(d.ChargedCalls, d.ChargedTokens, d.ChargedCost); more != "" {
			text += "; " + more
		}
		return report.Red, text
	case RunComplete:
		return report.Green, fmt.Sprintf("run %s (%s)", d.Status, report.Duration(time.Duration(d.TotalTime)*time.Millisecond))
	case RunFailed:
		return report.Red, fmt.Sprintf("run %s, %s: %s (%s)", d.Status, d.Reason, d.Error, report.Duration(time.Duration(d.TotalTime)*time.Millisecond))
	}
	return report.Plain, strings.ReplaceAll(r.Event, "_", " ")
}

func (p *printer) line(name, text string) {
	margin := strings.Repeat(" ", 12)
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	fmt.Fprintf(p.w, "%s%s  %s\n", margin[:10], p.paint(report.Dim, fmt.Sprintf("%-8s", name)), report.Clean(lines[0]))
	for _, more := range lines[1:] {
		fmt.Fprintf(p.w, "%s%s  %s\n", margin[:10], strings.Repeat(" ", 8), report.Clean(more))
	}
}

// gate prints the answer to who, why and on seeing what.
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

// lost says what is charged for calls of models whose replies nobody got.
func lost(calls, tokens, micro int64) string {
	if calls == 0 {
		return ""
	}
	text := "no reply came, so all that it may have used is charged: "
	if calls > 1 {
		text = fmt.Sprintf("no replies came to %d calls of models, so all that they may have used is charged: ", calls)
	}
	return text + report.Number(tokens) + " tokens" + dollars(", ", micro)
}

// dollars is an amount of money, nothing when there is none.
func dollars(before string, micro int64) string {
	if micro == 0 {
		return ""
	}
	return before + fmt.Sprintf("$%.6f", float64(micro)/1e6)
}

// costs prints what each step and the whole run cost. What is inside another
// step is part of that one's figures, too.
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
		which := "1 model call whose reply never came"
		if n > 1 {
			which = fmt.Sprintf("%d model calls whose replies never came", n)
		}
		fmt.Fprintf(p.w, "  of these, at most %s tokens%s for %s\n", report.Number(sum.AllLostTokens), dollars(" and ", sum.AllLostCost), which)
	}
}
