package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/app"
)

func (a *invocation) memoryCommand() *cobra.Command {
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "memory [WORKFLOW [AGENT]] [--json]",
		Short: "Show agent notebooks",
		Long: `Show the notebooks of agents: what they have noted for their later runs. AIFLOW
files with "memory": {"enabled": true} give each agent one. Notes are kept in
the project's .espalier folder; simulated runs leave none.`,
		Example: `  espalier memory
  espalier memory rm support-desk triage`,
		Args:              takes(0, 2, "a workflow, and an agent"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(_ *cobra.Command, args []string) error {
			books, err := a.app().Notebooks()
			if err != nil {
				return err
			}
			books = slices.DeleteFunc(books, func(b app.Notebook) bool {
				return len(args) > 0 && b.Workflow != args[0] || len(args) > 1 && b.Agent != args[1]
			})
			if a.json {
				return a.writeJSON(orEmpty(books))
			}
			if len(books) == 0 {
				a.note("There are no notes.")
			}
			for _, b := range books {
				fmt.Fprintf(a.stdout, "%s  %s\n", b.Workflow, b.Agent)
				for _, n := range b.Notes {
					fmt.Fprintf(a.stdout, "  %s  %s\n", n.At.Local().Format(minutes), n.Text)
				}
			}
			return nil
		},
	})
	cmd.AddCommand(&cobra.Command{
		Use:               "rm WORKFLOW [AGENT]",
		Short:             "Remove the notebooks of a workflow or of one agent",
		Args:              takesWorkflow(2, "a workflow, and an agent"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(_ *cobra.Command, args []string) error {
			found, err := a.app().Forget(args[0], optional(args, 1))
			if err == nil && !found {
				return usage("\"espalier memory\" lists what there is.", "there are no notes to remove")
			}
			return err
		},
	})
	return cmd
}
