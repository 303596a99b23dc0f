package scripted

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/tool"
)

// Name is the model and provider name of scripted replies.
const Name = "scripted"

// Script is a parsed script.
type Script struct {
	path     string
	replies  []*entry
	tools    []toolScript
	simulate bool
}

// Simulates reports whether requests that the script does not answer are simulated.
func (s *Script) Simulates() bool { return s.simulate }

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
	name  string
	input json.RawMessage
}

type toolScript struct {
	spec    tool.Spec
	answers []*entry
}

// usedUp reports whether the entry only calls tools and has no reply to send after them.
func (e *entry) usedUp() bool { return len(e.calls) > 0 && e.reply == nil && e.fail == nil }

// String returns the selector of the entry, for messages.
func (e *entry) String() string {
	if e.input != nil {
		return fmt.Sprintf("%s, with the input %s", e.when, e.input)
	}
	return e.when.String()
}

// Check reports entries that can never answer: the workflow does not contain what they name, or a step that makes no
// request. A script for several workflows names the workflow in its entries.
func (s *Script) Check(p *ir.Program) diag.List {
	names := map[string][]string{}
	collect(p, names)
	var out diag.List
	check := func(e *entry) {
		if of := e.when.workflow; of.Value != "" && !slices.Contains(names["workflow"], of.Value) {
			out.Report(CodeNoSuch, diag.Warning, of.Span,
				fmt.Sprintf("The entry is for the workflow %q, so it is not used here.", of.Value),
				or(diag.DidYouMean(of.Value, names["workflow"]), "Remove the entry."))
			return
		}
		for _, n := range e.when.names() {
			have := names[n.key]
			if n.value.Value == "" || slices.Contains(have, n.value.Value) {
				continue
			}
			message := fmt.Sprintf("The workflow has no %s %q, so this entry is never used.", n.key, n.value.Value)
			if n.key == "step" && slices.Contains(names[quietStep], n.value.Value) {
				message = fmt.Sprintf("Step %q asks no model, so this entry is never used.", n.value.Value)
			}
			out.Report(CodeNoSuch, diag.Error, n.value.Span,
				message, or(diag.DidYouMean(n.value.Value, have), "Remove the entry."))
		}
		if why := unreachable(e, p); why != "" {
			out.Report(CodeNever, diag.Error, e.when.step.Span, why+", so this entry is never used.",
				"Change the entry, or remove it.")
		}
	}
	for _, e := range s.replies {
		check(e)
	}
	for _, t := range s.tools {
		for _, e := range t.answers {
			check(e)
		}
	}
	return out
}

// unreachable returns why an entry that names a step can never answer it: the step has fewer attempts, no loop contains
// it, or it is of another kind. It returns "" if the entry may answer.
func unreachable(e *entry, p *ir.Program) string {
	var steps []*ir.Step
	loops := false
	for s := range p.Steps() {
		if s.ID == e.when.step.Value {
			steps = append(steps, s)
		}
		switch a := s.Action.(type) {
		case ir.Loop:
			loops = true
		case ir.Parallel:
			loops = loops || a.Each != nil
		}
	}
	// The steps of called workflows are not looked at: they may have the same name.
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
	case e.when.iteration.from > 1 && !loops:
		return fmt.Sprintf("The workflow has no loop, and step %q no iteration %s", name, e.when.iteration)
	case e.when.call.from > 1 && every(func(_ *ir.Step, kind string) bool { return kind != "node" }):
		return fmt.Sprintf("Step %q has no code that calls agents", name)
	case e.exit != nil && every(func(_ *ir.Step, kind string) bool { return slices.Contains(modelKinds, kind) }):
		return fmt.Sprintf("Step %q is not a command and has no exit code", name)
	}
	return ""
}

// modelKinds are the kinds of steps that ask a model and run no command.
var modelKinds = []string{"agent", "prompt", "conversation"}

// quietStep is the key of the steps that request nothing: those that choose, end or wait for a person.
const quietStep = "quiet step"

func collect(p *ir.Program, names map[string][]string) {
	names["workflow"] = append(names["workflow"], p.Name)
	for _, a := range p.Agents {
		names["agent"] = append(names["agent"], a.ID)
	}
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
