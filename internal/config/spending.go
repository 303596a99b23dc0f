package config

import (
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/text"
)

// Spending is a limit on what the models of all runs together may cost.
type Spending struct {
	MicroDollars int64     // in a day
	Workflow     text.Text // only runs of this workflow
	User         text.Text // only runs that this user has started
	Token        text.Text // only runs that this token has started, by its id
	Each         string    // EachWorkflow, EachUser or EachToken: one limit for each of them
}

// The values of Spending.Each.
const (
	EachWorkflow = "workflow"
	EachUser     = "user"
	EachToken    = "token"
)

// readSpending reads the spending section. Each limit has an amount, and may have conditions.
func readSpending(f *fields) []Named[Spending] {
	return entries(f, "spending", "spending limit", "What the models of all runs together may cost in a day.",
		func(name text.Text, f *fields) Spending {
			s := Spending{
				Workflow: f.text("workflow", "Only runs of this workflow count."),
				User:     f.text("user", "Only runs that this user has started count."),
				Token:    f.text("token", "Only runs that this token of the server has started count, by its id."),
				Each: f.choice("each", "One limit for each workflow, for each user, or for each token of the server.",
					EachWorkflow, EachUser, EachToken),
			}
			dollars := f.decimal("dollars_per_day", "The limit in US dollars. A day starts at midnight UTC.")
			if name.Value == "" {
				return s
			}
			rate, err := price.ParseRate(dollars.Value) // both count millionths
			if err != nil || rate <= 0 {
				f.out.Errorf(CodeMissing, name.Span, "Add dollars_per_day: 20.",
					"The spending limit %q does not say how much may be spent.", name.Value)
			}
			s.MicroDollars = int64(rate)
			return s
		})
}
