package check

import "github.com/espalier-run/espalier/internal/stepkind"

// Report is what a run can cost, from one happy pass to the worst case over
// all paths. Prompt tokens are estimates; everything else is a bound.
type Report struct {
	Steps         Range `json:"steps"`
	ModelCalls    Range `json:"model_calls"`
	ToolCalls     Range `json:"tool_calls"`
	PromptTokens  Range `json:"prompt_tokens"`
	ReplyTokens   Range `json:"reply_tokens"`
	Tokens        Range `json:"tokens"`
	ActiveSeconds Range `json:"active_seconds"`
	WaitSeconds   Range `json:"wait_seconds"` // for people and events

	PerStep  []StepCost   `json:"per_step"`
	PerAgent []AgentCost  `json:"per_agent"`
	Budgets  []BudgetLine `json:"budgets"`
}

// Range is a figure between two amounts.
type Range struct {
	// Base is one happy pass: no retries, no fallbacks, no repetitions. Of
	// several branches it is the dearest.
	Base  stepkind.Amount `json:"base"`
	Worst stepkind.Amount `json:"worst"`
}

// Totals is what something uses in all.
type Totals struct {
	Steps         stepkind.Amount `json:"steps"`
	ModelCalls    stepkind.Amount `json:"model_calls"`
	ToolCalls     stepkind.Amount `json:"tool_calls"`
	PromptTokens  stepkind.Amount `json:"prompt_tokens"`
	ReplyTokens   stepkind.Amount `json:"reply_tokens"`
	Tokens        stepkind.Amount `json:"tokens"`
	ActiveSeconds stepkind.Amount `json:"active_seconds"`
	WaitSeconds   stepkind.Amount `json:"wait_seconds"`
}

// StepCost is the share of one step. Steps on different branches never all
// reach their worst in one run, so the shares may add up to more than the
// report's figures.
type StepCost struct {
	Step     string          `json:"step"`            // with the steps that it lies inside: "extract/W1_ACTIONS"
	Label    string          `json:"label,omitempty"` // the same as people call it, if not so
	Type     string          `json:"type"`
	Attempts int             `json:"attempts"` // of one visit, retries included
	Visits   stepkind.Amount `json:"visits"`   // how often it can be entered
	Bound    stepkind.Bound  `json:"bound"`    // of one attempt
	Worst    Totals          `json:"worst"`    // of all attempts of all visits, without the steps inside it
}

// AgentCost is the share of one agent, added up over its steps.
type AgentCost struct {
	Agent        string          `json:"agent"`
	Model        string          `json:"model,omitempty"`
	ModelCalls   stepkind.Amount `json:"model_calls"`
	ToolCalls    stepkind.Amount `json:"tool_calls"`
	PromptTokens stepkind.Amount `json:"prompt_tokens"`
	ReplyTokens  stepkind.Amount `json:"reply_tokens"`
	Tokens       stepkind.Amount `json:"tokens"`
}

// Verdict is how a budget compares with the estimate.
type Verdict string

// The verdicts.
const (
	Fits         Verdict = "fits"
	ShouldFit    Verdict = "should fit" // the worst case is an estimate
	MayExceed    Verdict = "may exceed"
	CannotFinish Verdict = "cannot finish"
)

// BudgetLine compares one declared budget with the estimate.
type BudgetLine struct {
	Name    string          `json:"name"`            // "steps", "tool calls", "tokens", "active seconds"
	Scope   string          `json:"scope,omitempty"` // "extract/W1_ACTIONS" for a branch's budget; empty for the run's
	Limit   int64           `json:"limit"`
	Base    stepkind.Amount `json:"base"`
	Worst   stepkind.Amount `json:"worst"`
	Verdict Verdict         `json:"verdict"`
	Because string          `json:"because,omitempty"` // what makes it exceed
}

// The dimensions of a cost.
const (
	steps = iota
	modelCalls
	toolCalls
	promptTokens
	replyTokens
	tokens
	activeSeconds
	waitSeconds
	dimensions
)

// vector is a cost in all dimensions. Each is bounded for itself: the path
// with most tokens need not be the one with most steps.
type vector [dimensions]stepkind.Amount

func (v vector) plus(w vector) vector {
	for i := range v {
		v[i] = v[i].Plus(w[i])
	}
	return v
}

func (v vector) times(n stepkind.Amount) vector {
	for i := range v {
		v[i] = v[i].By(n)
	}
	return v
}

func (v vector) max(w vector) vector {
	for i := range v {
		v[i] = v[i].Max(w[i])
	}
	return v
}

func (v vector) totals() Totals {
	return Totals{
		Steps: v[steps], ModelCalls: v[modelCalls], ToolCalls: v[toolCalls], PromptTokens: v[promptTokens],
		ReplyTokens: v[replyTokens], Tokens: v[tokens], ActiveSeconds: v[activeSeconds], WaitSeconds: v[waitSeconds],
	}
}

func (t Totals) times(n stepkind.Amount) Totals {
	for _, a := range []*stepkind.Amount{
		&t.Steps, &t.ModelCalls, &t.ToolCalls, &t.PromptTokens, &t.ReplyTokens, &t.Tokens, &t.ActiveSeconds, &t.WaitSeconds,
	} {
		*a = a.By(n)
	}
	return t
}

func fromCost(c stepkind.Cost) vector {
	var v vector
	v[modelCalls], v[toolCalls] = c.ModelCalls, c.ToolCalls
	v[promptTokens], v[replyTokens] = c.PromptTokens, c.ReplyTokens
	v[tokens] = c.PromptTokens.Plus(c.ReplyTokens)
	v[activeSeconds] = c.Seconds
	return v
}
