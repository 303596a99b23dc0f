package stepkind

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
)

// ModelCallBound computes the cost of a conversation with a model.
type ModelCallBound struct {
	Known    int64 // tokens of the prompt that are known, without the agent's own text
	Reads    int64 // estimated tokens of what the step reads
	MaxTurns int   // model calls of an agent with tools; 0 is the default
	Repairs  int64 // further calls for a reply that breaks its contract
}

// Asks adds the cost of a reply contract: its instructions, and repairs if a reply
// can break it. A nil contract adds nothing.
func (m *ModelCallBound) Asks(c *contract.Contract) {
	if c == nil {
		return
	}
	m.Known += TextTokens(c.Instructions())
	if c.Strict() {
		m.Repairs = RepairCalls
	}
}

// Bound returns the cost of the conversation. Each call sends all earlier
// messages, so the prompt grows with every turn. a may be nil.
func (m ModelCallBound) Bound(a *ir.Agent) Bound {
	turns := min(int64(Turns(a, m.MaxTurns)), maxTurns)
	known, reply := m.Known, ReplyCap(a)
	var b Bound
	if a != nil {
		known += TextTokens(a.Instructions, Bundled(a), a.Role, a.Goal, a.Expected)
		b.Agent, b.Model = a.ID, a.Model
		b.Reserve = int64(max(a.MaxTokens, 0))
	}
	// Only what is certainly sent counts: the size of what the step reads is an estimate.
	b.Reserve += known + LeastReply(a)
	first := known + m.Reads
	b.Base = Cost{
		ModelCalls: N(1), PromptTokens: N(first), ReplyTokens: N(reply), Seconds: N(UsualModelSeconds),
	}
	calls, tools := turns+m.Repairs, (turns-1)*MaxCallsPerTurn
	// After call k the prompt has grown by k replies, the results of the
	// tools called so far, and a note for each repair.
	prompt := N(first).Times(calls).
		Plus(N(reply).Times(pairs(calls))).
		Plus(N(AssumedResultTokens).Times(MaxCallsPerTurn*pairs(turns) + tools*m.Repairs)).
		Plus(N(AssumedNoteTokens).Times(pairs(m.Repairs + 1)))
	b.Worst = Cost{
		ModelCalls: N(calls), ToolCalls: N(tools), PromptTokens: prompt,
		ReplyTokens: N(reply).Times(calls),
		Seconds:     N(ModelCallSeconds).Times(calls).Plus(N(ToolCallSeconds).Times(tools)),
	}
	return b
}

// Bundled returns the part of an agent's prompt that lists the files of its
// instructions, by the names that its tools take; "" if there are none.
func Bundled(a *ir.Agent) string {
	if a == nil || a.Bundle == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "These files come with your instructions, which name them relative to the folder %s. "+
		"Read one when you need it:", filepath.ToSlash(a.Bundle.Dir))
	for _, name := range a.Bundle.Files {
		fmt.Fprintf(&b, "\n- %s", filepath.ToSlash(filepath.Join(a.Bundle.Dir, name)))
	}
	return b.String()
}

// maxTurns keeps products from overflowing.
const maxTurns = 1 << 20

// pairs returns 0+1+…+(n-1).
func pairs(n int64) int64 { return n * (n - 1) / 2 }

// OneCallBound returns the cost of one call of a tool.
func OneCallBound() Bound {
	return Bound{
		Base:  Cost{ToolCalls: N(1), Seconds: N(UsualToolSeconds)},
		Worst: Cost{ToolCalls: N(1), Seconds: N(ToolCallSeconds)},
	}
}
