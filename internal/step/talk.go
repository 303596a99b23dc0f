package step

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
)

// Talk is a conversation with a model, as far as its cost goes.
type Talk struct {
	Known    int64 // tokens of the text that is known now, without the agent's own
	Reads    int64 // tokens of what the step reads, as far as one can guess
	MaxTurns int   // model calls at most of an agent that has tools; 0 is the usual number
	Repairs  int64 // further calls when a reply must have a form and has not
}

// Asks counts what a reply contract adds: the instructions, and further calls
// for a reply that can break it. Without a contract, it adds nothing.
func (t *Talk) Asks(c *contract.Contract) {
	if c == nil {
		return
	}
	t.Known += TextTokens(c.Instructions())
	if c.Strict() {
		t.Repairs = RepairCalls
	}
}

// Bound is what the conversation costs. Each call sends everything again that
// was said before, so the prompt grows with every turn. a may be nil.
func (t Talk) Bound(a *ir.Agent) Bound {
	turns := min(int64(Turns(a, t.MaxTurns)), mostTurns)
	known, reply := t.Known, ReplyCap(a)
	var b Bound
	if a != nil {
		known += TextTokens(a.Instructions, Bundled(a), a.Role, a.Goal, a.Expected)
		b.Agent, b.Model = a.ID, a.Model
		b.Reserve = int64(max(a.MaxTokens, 0))
	}
	b.Reserve += known + LeastReply(a)
	first := known + t.Reads
	b.Base = Cost{
		ModelCalls: N(1), PromptTokens: N(first), ReplyTokens: N(reply), Seconds: N(UsualModelSeconds),
	}
	calls, tools := turns+t.Repairs, turns-1
	// After call k the prompt has grown by k replies, the results of the
	// tools called so far, and a note for each repair.
	prompt := N(first).Times(calls).
		Plus(N(reply).Times(pairs(calls))).
		Plus(N(AssumedResultTokens).Times(pairs(turns) + tools*t.Repairs)).
		Plus(N(AssumedNoteTokens).Times(pairs(t.Repairs + 1)))
	b.Worst = Cost{
		ModelCalls: N(calls), ToolCalls: N(tools), PromptTokens: prompt,
		ReplyTokens: N(reply).Times(calls),
		Seconds:     N(ModelCallSeconds).Times(calls).Plus(N(ToolCallSeconds).Times(tools)),
	}
	return b
}

// Bundled tells an agent which files come with its instructions; "" when there
// are none. The names are such as its tools take.
func Bundled(a *ir.Agent) string {
	if a == nil || a.Bundle == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "These files come with your instructions, which name them as seen from the folder %s. Read one when you need it:", filepath.ToSlash(a.Bundle.Dir))
	for _, name := range a.Bundle.Files {
		fmt.Fprintf(&b, "\n- %s", filepath.ToSlash(filepath.Join(a.Bundle.Dir, name)))
	}
	return b.String()
}

// mostTurns keeps a silly number of turns from overflowing.
const mostTurns = 1 << 20

// pairs is 0+1+…+(n-1).
func pairs(n int64) int64 { return n * (n - 1) / 2 }
