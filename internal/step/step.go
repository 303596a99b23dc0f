package step

import (
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
)

// Kind is one kind of leaf work.
type Kind interface {
	// Name is what ir.Task.Kind says.
	Name() string
	// Check looks at the settings of a task of this kind. s is the step that
	// the task belongs to.
	Check(p *ir.Program, s *ir.Step, t *ir.Task) diag.List
	// Bound is the worst case of one attempt.
	Bound(p *ir.Program, s *ir.Step, t *ir.Task) Bound
}

// Bound is what one attempt of a task can cost at worst.
type Bound struct {
	ModelCalls Amount `json:"model_calls"`
	ToolCalls  Amount `json:"tool_calls"`
	// PromptTokens is an estimate: the text that is known now, and the
	// largest replies that can flow into it.
	PromptTokens Amount `json:"prompt_tokens"`
	// ReplyTokens is a hard cap.
	ReplyTokens Amount `json:"reply_tokens"`
	Seconds     Amount `json:"seconds"` // active time
	// Agent is who makes the model calls, "" when nobody does.
	Agent string `json:"agent,omitempty"`
	Model string `json:"model,omitempty"`
}

// Amount is a number or, with a reason, none.
type Amount struct {
	N int64 `json:"n"`
	// Unbounded says why there is no bound; then N is meaningless.
	Unbounded string `json:"unbounded,omitempty"`
}

// Plus adds; without a bound on one side the sum has none either.
func (a Amount) Plus(b Amount) Amount {
	switch {
	case a.Unbounded != "":
		return a
	case b.Unbounded != "":
		return b
	}
	return Amount{N: saturate(a.N + b.N)}
}

// Times multiplies. Nothing, however often, stays nothing.
func (a Amount) Times(n int64) Amount {
	if a.Unbounded != "" {
		return a
	}
	if a.N == 0 || n == 0 {
		return Amount{}
	}
	if a.N > maxAmount/n {
		return Amount{N: maxAmount}
	}
	return Amount{N: a.N * n}
}

const maxAmount = int64(1) << 60 // far beyond any budget, far from overflow

func saturate(n int64) int64 { return min(n, maxAmount) }

// Set is the kinds that ship, by name.
type Set map[string]Kind

// NewSet indexes kinds by their names.
func NewSet(kinds ...Kind) Set {
	s := Set{}
	for _, k := range kinds {
		s[k.Name()] = k
	}
	return s
}
