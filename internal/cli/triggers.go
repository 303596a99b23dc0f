package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
)

// triggersCommand has the commands about triggers. They open the application with recordOnly: they must not drive the
// runs of the project beside what they are asked for.
func (a *invocation) triggersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "triggers",
		Short: "List, pause and run the triggers of workflows",
		Long: `Triggers start runs without a person: schedules, events, webhooks and files.
"espalier serve" and "espalier work" fire them. Name a trigger by the ID that
"espalier triggers list" shows, or by its workflow if that has only one trigger.`,
	}
	cmd.AddCommand(a.triggersList(), a.triggersNext(), a.triggersPause("pause", "Pause a trigger", true),
		a.triggersPause("resume", "Resume a paused trigger", false), a.triggersRun())
	return cmd
}

func (a *invocation) triggersList() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:   "list [--json]",
		Short: "List the triggers, and the firings that started no run",
		RunE: func(*cobra.Command, []string) error {
			list, err := a.app(recordOnly).Triggers(context.Background())
			if err != nil {
				return err
			}
			if a.json {
				return writeLines(a, list, api.NewTrigger)
			}
			t := table{header: []string{"TRIGGER", "WHEN", "NEXT", "STATE"}, whole: []int{0}}
			for i := range list {
				one := &list[i]
				t.add(one.ID, one.Words(), nextText(one.Next), triggerState(one))
				for _, m := range one.Missed {
					t.under("missed " + missedText(m.At, m.Until) + ": " + m.Reason)
				}
				if one.Problem != "" {
					t.under("last valid version: " + one.Problem)
				}
			}
			a.printTable(&t, "")
			if len(list) == 0 {
				a.note("No workflow here declares a trigger.")
			}
			return nil
		},
	})
}

func nextText(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.Format("Mon 2006-01-02 15:04:05 -07:00")
}

// missedText describes when firings were missed: a time, or a range of times with the same reason.
func missedText(at, until time.Time) string {
	if until.IsZero() {
		return at.Format(time.RFC3339)
	}
	return at.Format(time.RFC3339) + " to " + until.Format(time.RFC3339)
}

// triggerState describes the state of a trigger in a few words.
func triggerState(t *app.Trigger) string {
	text := "on"
	switch {
	case t.Off:
		return "disabled"
	case t.Paused:
		text = "paused"
	}
	if n := len(t.Active); n > 0 {
		text += ", " + plural(n, "run")
	}
	if n := len(t.Queue); n > 0 {
		text += fmt.Sprintf(", %d queued", n)
	}
	return text
}

func (a *invocation) triggersNext() *cobra.Command {
	var count int
	cmd := a.jsonFlag(&cobra.Command{
		Use:               "next TRIGGER [-n COUNT] [--json]",
		Short:             "Show when a schedule fires next",
		Args:              takes(1, 1, "a trigger"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(_ *cobra.Command, args []string) error {
			if count < 1 || count > 1000 {
				return usage("Use a number from 1 to 1000.", "-n %d is out of range", count)
			}
			t, times, err := a.app(recordOnly).UpcomingTimes(context.Background(), args[0], count)
			if err != nil {
				return err
			}
			if a.json {
				err = writeLines(a, times, func(at *time.Time) map[string]string {
					return map[string]string{"id": t.ID, "at": at.Format(time.RFC3339)}
				})
			} else {
				for _, at := range times {
					fmt.Fprintln(a.stdout, nextText(at))
				}
			}
			if t.Paused {
				a.note("The trigger is paused: it starts no runs until \"espalier triggers resume %s\".",
					shellWord(t.ID))
			}
			return err
		},
	})
	cmd.Flags().IntVarP(&count, "count", "n", 5, "how many times to show")
	return cmd
}

func (a *invocation) triggersPause(use, short string, paused bool) *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use: use + " TRIGGER [--json]", Short: short, Args: takes(1, 1, "a trigger"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(_ *cobra.Command, args []string) error {
			t, err := a.app(recordOnly).PauseTrigger(context.Background(), args[0], paused)
			if err != nil {
				return err
			}
			if a.json {
				return a.writeJSON(api.NewTrigger(&t))
			}
			if paused {
				a.note("%s is paused. \"espalier triggers resume %s\" resumes it.", t.ID, shellWord(t.ID))
			} else {
				a.note("%s is on. Next: %s.", t.ID, nextText(t.Next))
			}
			return nil
		},
	})
}

func (a *invocation) triggersRun() *cobra.Command {
	return a.resultFlag(&cobra.Command{
		Use:   "run TRIGGER [--json]",
		Short: "Fire a trigger now",
		Long: `Start a run with the input and the settings of a trigger, even if the trigger is
paused. A running "espalier serve" or "espalier work" drives the run.`,
		Args:              takes(1, 1, "a trigger"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(_ *cobra.Command, args []string) error {
			a.remedies = newFiring
			id, err := a.app(recordOnly).RunTrigger(context.Background(), args[0], actor(""))
			if err != nil {
				return err
			}
			a.app().Release()
			return a.print(map[string]string{"run_id": string(id)}, func() { fmt.Fprintln(a.stdout, id) })
		},
	})
}
