package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// promoteCommand installs a staged workflow. It starts no run and needs no model.
func (a *invocation) promoteCommand() *cobra.Command {
	var force bool
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "promote NAME [RUN] [--force]",
		Short: "Install a generated workflow",
		Long: `Install a workflow that "espalier create" has staged in workflows/NAME. The
generation must have passed its check. All staged files are copied to
outputs/NAME/RUN/build and compared before they are removed from artifacts/.`,
		Args:              takes(1, 2, "a name, and a run when several are staged"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := checkName(args[0]); err != nil {
				return err
			}
			m, err := a.app().Promote(args[0], optional(args, 1), force)
			if err != nil {
				return err
			}
			return a.print(m, func() {
				fmt.Fprintln(a.stdout, m.Promotion.Target)
				a.note("Kept in %s. \"espalier run %s\" runs it.", m.Promotion.ArchivePath, args[0])
			})
		},
	})
	cmd.Flags().BoolVar(&force, "force", false, "promote a generation that has not passed its check")
	return cmd
}
