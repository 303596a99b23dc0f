package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

func (a *invocation) storeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Check or back up the store of this project's runs",
		Args:  takes(0, 0, "nothing"),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	check := &cobra.Command{
		Use:   "check",
		Short: "Check the store",
		Long: `Check the file of the store, the chain of hashes and the index of every run, the
tombstones of removed runs, and that every record belongs to a run. Nothing is
changed. The exit code is 1 when something is wrong.`,
		Args: takes(0, 0, "nothing"),
		RunE: func(*cobra.Command, []string) error { return a.checkStore() },
	}
	backup := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write a copy of the store to a file, while runs continue",
		Long: `Write a consistent copy of the store to FILE, which must not exist yet. Runs
continue meanwhile. To restore it, stop everything that uses the project and put
the file in the place of .espalier/espalier.db. Transcripts and audit logs are
derived from the store and are written again; files that runs have written to
their own folders are not part of the copy.`,
		Example: "  espalier store backup ../runs.db",
		Args:    takes(1, 1, "one file"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := a.app().Backup(context.Background(), a.inDir(args[0])); err != nil {
				return err
			}
			a.note("The store is copied to %s.", args[0])
			return nil
		},
	}
	cmd.AddCommand(a.jsonFlag(check), backup)
	return cmd
}

func (a *invocation) checkStore() error {
	report, err := a.app().CheckStore(context.Background())
	if err != nil {
		return err
	}
	if a.json {
		if err := a.writeJSON(report); err != nil {
			return err
		}
	} else {
		for _, problem := range report.Problems {
			fmt.Fprintln(a.stdout, problem)
		}
	}
	if n := len(report.Problems); n > 0 {
		return &failure{
			code: exitFailed, message: fmt.Sprintf("the store has %s", plural(n, "problem")),
			help: "\"espalier audit verify RUN\" shows what is left of a run. Restore the store from a backup.",
		}
	}
	a.note("Checked %s and %s: no problems.", plural(report.Runs, "run"), plural(report.Removed, "tombstone"))
	return nil
}
