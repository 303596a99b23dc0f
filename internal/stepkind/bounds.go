package stepkind

import (
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/price"
)

// The limits that apply if the workflow sets none. Estimates and runs use the same.
const (
	DefaultReplyTokens = 4096 // cap of one model reply
	MinReplyTokens     = 256  // a call without a cap of its own gets at least this
	DefaultMaxTurns    = 20   // model calls of an agent that has tools
	MaxCallsPerTurn    = 16   // tool calls of one reply that are made; the others are refused
	RepairCalls        = 2    // further calls for a reply that breaks its contract
	ModelCallSeconds   = 120  // after which a call fails
	ToolCallSeconds    = 60
	ScriptSeconds      = 600
)

// Typical durations, for the base cost.
const (
	UsualModelSeconds  = 20
	UsualToolSeconds   = 5
	UsualScriptSeconds = 10
)

// What an estimate assumes about texts whose size is only known at run time.
const (
	AssumedInputTokens  = 2000 // one value of the run's input
	AssumedResultTokens = 1000 // one result of a tool, a script or a child workflow
	AssumedNoteTokens   = 100  // the result of a gate, or the prompt of a repair
)

// TextTokens estimates how many tokens the texts have.
func TextTokens(texts ...string) int64 { return price.EstimateTokens(texts...) }

// Turns returns how many model calls an agent has for a task, apart from repairs:
// one without tools, else most, or the default if most is 0. a may be nil.
func Turns(a *ir.Agent, most int) int {
	switch {
	case a == nil || len(a.Tools) == 0:
		return 1
	case most > 0:
		return most
	}
	return DefaultMaxTurns
}

// ReplyCap returns the cap on one reply of the agent, which may be nil.
func ReplyCap(a *ir.Agent) int64 {
	if a == nil || a.MaxTokens <= 0 {
		return DefaultReplyTokens
	}
	return min(int64(a.MaxTokens), maxReply)
}

const maxReply = 1 << 40 // sums of these stay far from overflow

// LeastReply returns how far the cap on a reply of the agent may be lowered when
// the budget is short; 0 if the agent sets its own cap, which is never lowered.
func LeastReply(a *ir.Agent) int64 {
	if a == nil || a.MaxTokens <= 0 {
		return MinReplyTokens
	}
	return 0
}

// ReadTokens estimates how many tokens the step's reads have: the largest
// results of the steps that write them, and an assumption about the rest.
func ReadTokens(p *ir.Program, s *ir.Step) int64 {
	var sum int64
	for _, r := range s.Reads {
		sum += readTokens(p, r.Path)
	}
	return sum
}

// readTokens estimates one value: the largest result of a step that writes it or a part of it.
func readTokens(p *ir.Program, path string) int64 {
	var largest int64
	for b := range p.Blocks {
		for i := range p.Blocks[b].Steps {
			s := &p.Blocks[b].Steps[i]
			for _, w := range s.Writes {
				if ir.Overlap(w.Path, path) {
					largest = max(largest, ResultTokens(p, s.Action))
					break
				}
			}
		}
	}
	if largest == 0 {
		return AssumedInputTokens
	}
	return largest
}

// ResultTokens estimates the result of an action.
func ResultTokens(p *ir.Program, a ir.Action) int64 { return resultTokens(p, a, 0) }

// resultTokens implements ResultTokens. depth guards against a block that
// contains itself, which no format writes.
func resultTokens(p *ir.Program, a ir.Action, depth int) int64 {
	const deepest = 8
	switch a := a.(type) {
	case ir.Task:
		return taskTokens(p, &a)
	case ir.End:
		if a.Work != nil {
			return taskTokens(p, a.Work)
		}
	case ir.Gate:
		if a.Verdict != nil {
			return AssumedNoteTokens + taskTokens(p, a.Verdict)
		}
		return AssumedNoteTokens
	case ir.Parallel:
		// One result per branch: assume the largest of its steps.
		var sum int64
		for _, b := range a.Branches {
			if depth > deepest || int(b.Block) >= len(p.Blocks) || b.Block < 0 {
				continue
			}
			var largest int64
			for i := range p.Blocks[b.Block].Steps {
				largest = max(largest, resultTokens(p, p.Blocks[b.Block].Steps[i].Action, depth+1))
			}
			sum += largest
		}
		return max(sum, AssumedResultTokens)
	}
	return AssumedResultTokens
}

// taskTokens estimates the result of a task: the reply of its agent, if it has one.
func taskTokens(p *ir.Program, t *ir.Task) int64 {
	for _, setting := range []string{"agent", "critic"} {
		if name, ok := nameOf(t, setting); ok {
			return ReplyCap(p.Agent(name.Name))
		}
	}
	return AssumedResultTokens
}
