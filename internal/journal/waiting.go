package journal

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
)

// Wait is what a run waits for. The zero Wait is nothing.
type Wait struct {
	Kind WaitKind
	Name string // of the step, event or budget
	More int    // how many other things the run waits for
}

// WaitKind is the kind of thing that a run waits for.
type WaitKind string

// The kinds of things that a run waits for. The texts of stores contain them.
const (
	WaitApproval WaitKind = "approval" // of a step
	WaitEvent    WaitKind = "event"
	WaitOutcome  WaitKind = "doubt" // a person resolves a step whose outcome is unknown
	WaitRetry    WaitKind = "retry" // of a step
	WaitBudget   WaitKind = "budget"
	WaitContinue WaitKind = "paused" // a person continues the run
)

// Asks returns what a run asks for that waits for something of the kind; empty if it needs no answer: the time of a
// retry comes by itself, and a paused run is continued. text reports that the event carries text from a person.
// Approvals of steps and of tool calls have the same kind.
func (k WaitKind) Asks(text bool) AskKind {
	switch k {
	case WaitApproval:
		return AskApproval
	case WaitEvent:
		return GateEvent.Asks(text)
	case WaitOutcome:
		return AskOutcome
	case WaitBudget:
		return AskBudget
	}
	return ""
}

// unknownOutcome is the word of WaitOutcome for users.
const unknownOutcome = "unknown outcome"

// String returns the text that stores have, which ParseWait parses.
func (w Wait) String() string { return w.text(string(w.Kind), w.Name) }

// Label returns the text for JSON and logs: String has short names for unknown outcomes and budgets. ParseWait parses
// it, too.
func (w Wait) Label() string {
	switch w.Kind {
	case WaitOutcome:
		return w.text(unknownOutcome, w.Name)
	case WaitBudget:
		return w.text(string(WaitBudget), BudgetName(w.Name))
	}
	return w.String()
}

// Words returns the text for people, with the names of steps as they know them.
func (w Wait) Words() string {
	switch w.Kind {
	case WaitBudget:
		return BudgetWords(w.Name)
	case WaitApproval, WaitRetry, WaitOutcome:
		w.Name = PlaceName(w.Name)
	}
	return w.Label()
}

func (w Wait) text(kind, name string) string {
	text := name
	switch w.Kind {
	case "":
	case WaitContinue:
		text = kind
	default:
		text = kind + ": " + name
	}
	if w.More > 0 {
		text += " (+" + strconv.Itoa(w.More) + ")"
	}
	return text
}

// ParseWait parses the text of a Wait. The Name of a text of another form is that text.
func ParseWait(text string) Wait {
	if text == string(WaitContinue) {
		return Wait{Kind: WaitContinue}
	}
	word, name, _ := strings.Cut(text, ": ")
	w := Wait{Kind: WaitKind(word)}
	switch w.Kind {
	case WaitApproval, WaitEvent, WaitOutcome, WaitRetry:
	case WaitBudget:
		if name == CostBudget {
			name = ir.BudgetMoney
		}
	case unknownOutcome:
		w.Kind = WaitOutcome
	default:
		return Wait{Name: text}
	}
	w.Name = name
	if at := strings.LastIndex(name, " (+"); at >= 0 {
		rest := name[at:]
		more, err := strconv.Atoi(strings.TrimSuffix(rest[len(" (+"):], ")"))
		if several := (Wait{More: more}); err == nil && several.String() == rest {
			w.Name, w.More = name[:at], more
		}
	}
	return w
}

// MarshalText implements encoding.TextMarshaler.
func (w Wait) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (w *Wait) UnmarshalText(text []byte) error {
	*w = ParseWait(string(text))
	return nil
}

// CostBudget is the name of ir.BudgetMoney for users, who count in dollars.
const CostBudget = "cost_usd"

// BudgetName returns the name of a budget, as --raise takes it.
func BudgetName(budget string) string {
	if budget == ir.BudgetMoney {
		return CostBudget
	}
	return budget
}

// budgetWords are the words for budgets, by the names that people use.
var budgetWords = map[string]string{
	CostBudget: "cost budget", ir.BudgetSteps: "step budget", ir.BudgetTools: "tool call budget",
	ir.BudgetTokens: "token budget", ir.BudgetDeadline: "time budget",
}

// BudgetWords returns the words for a budget.
func BudgetWords(budget string) string {
	return cmp.Or(budgetWords[BudgetName(budget)], "budget "+budget)
}
