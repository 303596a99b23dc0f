package check

import (
	"strings"

	"github.com/espalier-run/espalier/internal/stepkind"
)

// Report is the cost of a run, from one pass without failures to the worst case over all paths. Steps, calls and reply
// tokens are bounds. Prompt tokens, and the tokens that include them, are estimates. Times add up usual durations
// (base) and time limits (worst); they are not bounds, because providers and machines can delay a run.
type Report struct {
	Steps         Range `json:"steps"`
	ModelCalls    Range `json:"model_calls"`
	ToolCalls     Range `json:"tool_calls"`
	PromptTokens  Range `json:"prompt_tokens"`
	ReplyTokens   Range `json:"reply_tokens"`
	Tokens        Range `json:"tokens"`
	ActiveSeconds Range `json:"active_seconds"`
	WaitSeconds   Range `json:"wait_seconds"` // waiting for people and events

	// External reports that an external agent does a step: it makes calls by itself, which no budget bounds.
	External bool `json:"-"`

	PerStep  []StepCost   `json:"per_step"`
	PerAgent []AgentCost  `json:"per_agent"`
	Budgets  []BudgetLine `json:"budgets"`
}

// Range is an amount from a base case to a worst case.
type Range struct {
	// Base is one pass without retries, fallbacks and repetitions. At a branch, it is the most expensive path.
	Base  stepkind.Amount `json:"base"`
	Worst stepkind.Amount `json:"worst"`
}

// Totals is the total usage of a step or an agent.
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

// StepCost is the share of one step. Steps on different branches never all reach their worst case in one run, so the
// shares may add up to more than the totals of the report.
type StepCost struct {
	Step     string          `json:"step"`            // with its enclosing steps: "extract/W1_ACTIONS"
	Label    string          `json:"label,omitempty"` // its name for people, if it differs: "extract.W1_ACTIONS"
	Type     string          `json:"type"`
	Attempts int             `json:"attempts"` // per visit, including retries
	Visits   stepkind.Amount `json:"visits"`   // how often the step can be entered
	Starts   stepkind.Amount `json:"starts"`   // attempts of all visits, within the step budget
	Bound    stepkind.Bound  `json:"bound"`    // per attempt
	Worst    Totals          `json:"worst"`    // all attempts of all visits, without nested steps
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

// Verdict is the result of comparing a budget with the estimate.
type Verdict string

// Verdicts about a budget.
const (
	Fits         Verdict = "fits"       // certain for a run that is never taken back to an earlier step
	ShouldFit    Verdict = "should fit" // the worst case is an estimate, or lacks calls that a crash repeats
	MayExceed    Verdict = "may exceed"
	CannotFinish Verdict = "cannot finish"
)

// BudgetLineName returns the name that a BudgetLine has for a budget.
func BudgetLineName(budget string) string { return strings.ReplaceAll(budget, "_", " ") }

// BudgetLine compares one declared budget with the estimate.
type BudgetLine struct {
	Name string `json:"name"` // see BudgetLineName
	// "extract/W1_ACTIONS" for the budget of a branch; empty for that of the run
	Scope   string          `json:"scope,omitempty"`
	Limit   int64           `json:"limit"`
	Base    stepkind.Amount `json:"base"`
	Worst   stepkind.Amount `json:"worst"`
	Verdict Verdict         `json:"verdict"`
	Because string          `json:"because,omitempty"` // the reason for exceeding the budget
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

// vector is a cost in all dimensions. Each is bounded separately: the path with the most tokens need not be the one
// with the most steps.
type vector [dimensions]stepkind.Amount

// The operations on costs work in each dimension separately.
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

// totals returns a cost in the form of reports.
func (v vector) totals() Totals {
	return Totals{
		Steps: v[steps], ModelCalls: v[modelCalls], ToolCalls: v[toolCalls], PromptTokens: v[promptTokens],
		ReplyTokens: v[replyTokens], Tokens: v[tokens], ActiveSeconds: v[activeSeconds], WaitSeconds: v[waitSeconds],
	}
}

// vector is the reverse of totals.
func (t Totals) vector() vector {
	return vector{
		t.Steps, t.ModelCalls, t.ToolCalls, t.PromptTokens, t.ReplyTokens, t.Tokens, t.ActiveSeconds, t.WaitSeconds,
	}
}

// fromCost returns the cost that a step kind reports as a vector. The kind does not know about steps and waiting.
func fromCost(c stepkind.Cost) vector {
	var v vector
	v[modelCalls], v[toolCalls] = c.ModelCalls, c.ToolCalls
	v[promptTokens], v[replyTokens] = c.PromptTokens, c.ReplyTokens
	v[tokens] = c.PromptTokens.Plus(c.ReplyTokens)
	v[activeSeconds] = c.Seconds
	return v
}
