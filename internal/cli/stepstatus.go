package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/report"
)

// stepStatus shows what a step did.
func (a *invocation) stepStatus(id journal.RunID, name string) error {
	found, err := a.runs().Executions(context.Background(), id, name)
	if err != nil {
		return err
	}
	a.resulted = a.json
	return a.print(api.NewExecutions(id, found), func() {
		for i, rec := range found {
			if i > 0 {
				fmt.Fprintln(a.stdout)
			}
			a.printStep(rec, i == len(found)-1)
		}
	})
}

// printStep prints one execution; the whole state only behind the last one.
func (a *invocation) printStep(rec *app.Execution, last bool) {
	w := a.stdout
	fmt.Fprintf(w, "%s  %s\n", a.bold(journal.PlaceName(rec.Step)), rec.Type)
	if rec.Description != "" {
		fmt.Fprintf(w, "  %s\n", rec.Description)
	}
	outcome := cmp.Or(statusWord(string(rec.Outcome)), "not finished")
	if words := report.ReasonWords(rec.Reason); words != "" {
		outcome += ", " + words
	}
	if rec.Attempts > 1 {
		outcome += fmt.Sprintf(", after %d attempts", rec.Attempts)
	}
	if rec.For != "" {
		outcome += ", as the fallback for " + rec.For
	}
	fmt.Fprintf(w, "  %s\n", outcome)
	if rec.Next != "" {
		fmt.Fprintf(w, "  %s\n", strings.TrimSpace(rec.Branch+" → "+journal.PlaceName(rec.Next)))
	}
	if rec.Error != "" {
		fmt.Fprintf(w, "  %s\n", rec.Error)
	}
	if d := rec.Decided; d != nil {
		fmt.Fprintf(w, "  decided by %s\n", app.DescribeActor(d.By, d.Method, d.Note))
	}
	if n := rec.Used; n.ModelCalls > 0 || n.ToolCalls > 0 {
		parts := []string{
			plural(int(n.ModelCalls), "model call"), plural(int(n.ToolCalls), "tool call"),
			report.Number(n.InputTokens+n.OutputTokens) + " tokens",
		}
		if n.MicroDollars > 0 {
			parts = append(parts, price.Spent(n.MicroDollars))
		}
		fmt.Fprintf(w, "  used: %s%s\n", strings.Join(parts, ", "), report.LostWords(n.Lost))
	}
	values := func(title string, list map[string]json.RawMessage) {
		if len(list) == 0 {
			return
		}
		fmt.Fprintf(w, "  %s:\n", title)
		for _, name := range slices.Sorted(maps.Keys(list)) {
			note := ""
			if slices.Contains(rec.Missing, name) {
				note = "  (never written)"
			}
			fmt.Fprintf(w, "    %s:%s\n%s\n", name, note, indented(list[name], "      "))
		}
	}
	values("read", rec.Reads)
	if len(rec.Result) > 0 {
		to := ""
		if len(rec.Writes) > 0 {
			to = " → " + strings.Join(rec.Writes, ", ")
		}
		fmt.Fprintf(w, "  result%s:\n%s\n", to, indented(rec.Result, "    "))
	}
	if last {
		values("state after the step", rec.State)
	}
}
