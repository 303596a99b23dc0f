package scripted

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/tool"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Name is the model and provider name of scripted replies.
const Name = string(journal.OfflineScripted)

// Script is a parsed script.
type Script struct {
	path     string
	replies  []*entry
	tools    []toolScript
	simulate bool
}

// Simulates reports whether requests that the script does not answer are simulated.
func (s *Script) Simulates() bool { return s.simulate }

// StatesUsage reports whether an entry says how many tokens its reply uses.
func (s *Script) StatesUsage() bool {
	return slices.ContainsFunc(s.replies, func(e *entry) bool { return e.usage != provider.Usage{} })
}

// entry is one reply or result, with its selector.
type entry struct {
	when selector
	line int
	span source.Span

	delay time.Duration
	fail  *failure

	// The fields of entries for models.
	reply    *string
	thinking string
	calls    []call
	stop     provider.StopReason
	usage    provider.Usage

	exit *int // of a command; such an entry answers no model

	// Of a tool.
	input   json.RawMessage // must be contained in the input of the call; nil matches any
	output  json.RawMessage
	isError bool
}

type failure struct {
	class      string
	status     int
	retryAfter time.Duration
	message    string
}

type call struct {
	name  text.Text
	input json.RawMessage
}

type toolScript struct {
	name    text.Text
	spec    tool.Spec
	answers []*entry
}

// onlyCallsTools reports whether the entry calls tools and has no reply to send after them.
func (e *entry) onlyCallsTools() bool { return len(e.calls) > 0 && e.reply == nil && e.fail == nil }

// String returns the selector of the entry, for messages.
func (e *entry) String() string {
	if e.input != nil {
		return fmt.Sprintf("%s, with the input %s", e.when, e.input)
	}
	return e.when.String()
}

// Facts are what Check needs to know about a workflow besides its program.
type Facts struct {
	Bounds []Bound
	// Tools are the names and patterns of the tools that the workflow calls or names.
	Tools []string
	// OtherTools are tools that exist but are not named by the workflow. Calls of models to them are refused.
	OtherTools []string
	// Activities are the parts of steps that do something, by step; nil if they are not known.
	Activities map[string][]Activity
	// OtherWorkflows returns the names of the other workflows of the project; it may be nil.
	OtherWorkflows func() []string
}

// Activity is a part of a step that makes requests or runs a command.
type Activity struct {
	Agents  []string
	Command bool // it runs a command of its own
	Asks    bool // it can call a model or a tool
}

// Bound limits the visits of a step in a run and its model calls in one attempt; 0 means no limit.
type Bound struct {
	Step, Agent   string
	Visits, Turns int64
}

// Check reports entries that can never answer: the workflow does not contain what they name, or a step that makes no
// request. A script for several workflows names the workflow in its entries.
func (s *Script) Check(p *ir.Program, known Facts) diag.List {
	c := checker{p: p, known: known, names: map[string][]string{}}
	collect(p, c.names)
	c.covered(s.replies)
	for _, e := range s.replies {
		if c.check(e) {
			c.calls(s, e)
			c.commands(s, e)
		}
	}
	for _, t := range s.tools {
		c.covered(t.answers)
		used := false
		for _, e := range t.answers {
			used = c.check(e) || used
		}
		if used && !c.namesTool(t.spec.Name) {
			c.noTool(t.name, "its answers are never used")
		}
	}
	return c.out
}

type checker struct {
	p     *ir.Program
	known Facts
	names map[string][]string // parts of the workflow, by what they are
	out   diag.List
}

// check checks an entry, and reports whether it is for this workflow.
func (c *checker) check(e *entry) bool {
	if of := e.when.workflow; of.Value != "" && !slices.Contains(c.names["workflow"], of.Value) {
		if c.known.OtherWorkflows != nil && slices.Contains(c.known.OtherWorkflows(), of.Value) {
			c.out.Warnf(CodeNoSuch, of.Span, "Ignore this if the script is for both workflows.",
				"The entry is for the workflow %q, so it is not used here.", of.Value)
			return false
		}
		c.out.Errorf(CodeNoSuch, of.Span, cmp.Or(diag.DidYouMean(of.Value, c.names["workflow"]), "Remove the entry."),
			"There is no workflow %q, so this entry is never used.", of.Value)
		return false
	}
	for _, n := range e.when.names() {
		have := c.names[n.key]
		if n.value.Value == "" || slices.Contains(have, n.value.Value) {
			continue
		}
		message := fmt.Sprintf("The workflow has no %s %q, so this entry is never used.", n.key, n.value.Value)
		if n.key == "step" && slices.Contains(c.names[quietStep], n.value.Value) {
			message = fmt.Sprintf("Step %q asks no model, so this entry is never used.", n.value.Value)
		}
		c.out.Errorf(CodeNoSuch, n.value.Span, cmp.Or(diag.DidYouMean(n.value.Value, have), "Remove the entry."), "%s",
			message)
	}
	c.key(e.when.key)
	c.iterations(e)
	if why := unreachable(e, c.p); why != "" {
		c.out.Errorf(CodeNever, e.when.step.Span, "Change the entry, or remove it.", "%s, so this entry is never used.",
			why)
	}
	c.often(e)
	return true
}

// often reports numbers of visits and turns that no step reaches.
func (c *checker) often(e *entry) {
	if c.calledHas(e.when.step.Value) {
		return
	}
	visits, turns, found := int64(0), int64(0), false
	for _, b := range c.known.Bounds {
		if of := e.when.step.Value; of != "" && of != b.Step {
			continue
		}
		if of := e.when.agent.Value; of != "" && of != b.Agent {
			continue
		}
		if b.Visits == 0 {
			visits = math.MaxInt64
		}
		if b.Turns == 0 {
			turns = math.MaxInt64
		}
		visits, turns, found = max(visits, b.Visits), max(turns, b.Turns), true
	}
	if !found {
		return
	}
	report := func(key string, n numbers, most int64, happens string) {
		if int64(n.from) <= most {
			return
		}
		help := fmt.Sprintf("The only %s is 1.", key)
		if most > 1 {
			help = fmt.Sprintf("Use a %s from 1 to %d.", key, most)
		}
		c.out.Errorf(CodeNever, n.span, help, "There is no %s %s: %s %s, so this entry is never used.", key, n, happens,
			times(most))
	}
	report("visit", e.when.visit, visits, "a run comes here")
	report("turn", e.when.turn, turns, "an attempt asks its model")
}

// calledHas reports whether a called workflow has a step of this name; an empty name is that of any step.
func (c *checker) calledHas(step string) bool {
	for i := range c.p.Children {
		for p := range c.p.Children[i].All() {
			for s := range p.Steps() {
				if step == "" || s.ID == step {
					return true
				}
			}
		}
	}
	return false
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("at most %d times", n)
}

// calls reports tools that an entry asks for and that do not exist. An entry may ask for one that its agent may not
// call: the call is refused.
func (c *checker) calls(s *Script, e *entry) {
	for _, one := range e.calls {
		answered := slices.ContainsFunc(s.tools, func(t toolScript) bool { return t.spec.Name == one.name.Value })
		if one.name.Value != "" && !answered && !c.hasTool(one.name.Value) {
			c.noTool(one.name, "this call never reaches one")
		}
	}
}

func (c *checker) hasTool(name string) bool {
	return slices.Contains(c.known.OtherTools, name) || c.namesTool(name)
}

// namesTool reports whether the workflow calls or names a tool.
func (c *checker) namesTool(name string) bool {
	return slices.ContainsFunc(c.known.Tools, func(entry string) bool { return ir.MatchesTool(entry, name) })
}

// covered reports entries that an earlier entry always precedes.
func (c *checker) covered(entries []*entry) {
	for i, later := range entries {
		for _, earlier := range entries[:i] {
			if earlier.when.sameOrMore(later.when) && !earlier.onlyCallsTools() && !better(later, earlier) &&
				string(earlier.input) == string(later.input) {
				c.out.Errorf(CodeNever, later.span,
					"Remove one of the two, or distinguish them by attempt, visit, iteration, call or turn.",
					"This entry is never used: an earlier one also matches %s.", later).
					Relate(earlier.span, "this one answers")
				break
			}
		}
	}
}

// commands reports entries for commands that are real, and exit codes where there is no command.
func (c *checker) commands(s *Script, e *entry) {
	works := c.works(e)
	every := func(is func(Activity) bool) bool {
		return len(works) > 0 && !slices.ContainsFunc(works, func(w Activity) bool { return !is(w) })
	}
	const simulate = `Add "otherwise: simulate" to the script: commands are simulated then.`
	switch {
	case e.exit != nil && every(func(w Activity) bool { return !w.Command }):
		c.out.Errorf(CodeNever, e.span, `Replace "exit" with "reply" or "fail".`,
			"There is no command and no exit code for %s, so this entry is never used.", e)
	case e.exit != nil && e.when.step.Value == "" && e.when.agent.Value == "" && e.when.key.Value == "":
		c.out.Errorf(CodeNever, e.span, `Add the step of the command, such as "step: test".`,
			"This entry selects no command, so it is never used.")
	case s.simulate:
	case e.exit != nil, every(func(w Activity) bool { return w.Command && !w.Asks }):
		c.out.Errorf(CodeNever, e.span, simulate, "The command of %s is real, so this entry is never used.", e)
	}
}

// works returns what the steps that an entry selects by their name or agent do.
func (c *checker) works(e *entry) []Activity {
	id := e.when.step.Value
	if id == "" && e.when.key.Value != "" {
		id = lastStep(e.when.key.Value)
	}
	if id != "" {
		return c.known.Activities[id]
	}
	var out []Activity
	if agent := e.when.agent.Value; agent != "" {
		for _, works := range c.known.Activities {
			out = append(out,
				xslices.Filter(works, func(w Activity) bool { return slices.Contains(w.Agents, agent) })...)
		}
	}
	return out
}

// noTool reports a tool that the workflow does not call; so says what follows from that.
func (c *checker) noTool(name text.Text, so string) {
	have := xslices.Map(c.known.Tools, ir.ToolName)
	help := diag.DidYouMean(name.Value, have)
	if len(have) == 0 {
		help = "It calls no tools."
	}
	c.out.Errorf(CodeNoSuch, name.Span, help, "The workflow calls no tool %q, so %s.", name.Value, so)
}

// unreachable returns why an entry that names a step can never answer it: the step has fewer attempts, or
// it has no code. It returns "" if the entry may answer.
func unreachable(e *entry, p *ir.Program) string {
	var steps []*ir.Step
	for s := range p.Steps() {
		if s.ID == e.when.step.Value {
			steps = append(steps, s)
		}
	}
	// Steps of called workflows can have the same name, and are not considered.
	if len(steps) == 0 || len(p.Children) > 0 {
		return ""
	}
	every := func(is func(s *ir.Step, kind string) bool) bool {
		return !slices.ContainsFunc(steps, func(s *ir.Step) bool {
			t := s.Task()
			return t == nil || !is(s, t.Kind)
		})
	}
	name := e.when.step.Value
	switch {
	case !e.when.attempt.any() && every(func(s *ir.Step, _ string) bool { return e.when.attempt.from > s.Attempts() }):
		return fmt.Sprintf("Step %q has no attempt %s", name, e.when.attempt)
	case e.when.call.from > 1 && every(func(_ *ir.Step, kind string) bool { return kind != "node" }):
		return fmt.Sprintf("Step %q has no code that calls agents", name)
	}
	return ""
}

// quietStep is the key of the steps that request nothing: those that choose, end or wait for a person.
const quietStep = "quiet step"

// collect adds the names of a program and of those that it calls, by what they are.
func collect(p *ir.Program, names map[string][]string) {
	names["workflow"] = append(names["workflow"], p.Name)
	names["agent"] = append(names["agent"], xslices.Map(p.Agents, func(a ir.Agent) string { return a.ID })...)
	for _, b := range p.Blocks {
		for i := range b.Steps {
			kind := "step"
			switch a := b.Steps[i].Action.(type) {
			case ir.Route, ir.End:
				kind = quietStep
			case ir.Gate:
				if a.Verdict == nil {
					kind = quietStep
				}
			}
			names[kind] = append(names[kind], b.Steps[i].ID)
		}
	}
	for i := range p.Children {
		collect(&p.Children[i], names)
	}
}
