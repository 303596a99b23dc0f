package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/journal"
)

func (a *invocation) storeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Check, back up or move the store of this project's runs",
	}
	check := &cobra.Command{
		Use:   "check",
		Short: "Check the store",
		Long: `Check the file of the store, the hash chain and the index of every run, the
records of removed runs, and that every record belongs to a run. Nothing is
changed. The exit code is 1 if there is a fault.`,
		RunE: func(*cobra.Command, []string) error { return a.checkStore() },
	}
	backup := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write a copy of the store while runs continue",
		Long: `Write a consistent copy of the store to FILE, which must not exist yet. Runs
continue meanwhile. To restore it, stop everything that uses the project and put
the file in the place of .espalier/espalier.db. Transcripts and audit logs are
derived from the store and are regenerated; files that runs have written to
their own folders are not part of the copy.`,
		Example: "  espalier store backup ../runs.db",
		Args:    takes(1, 1, "one file"),
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := a.target(args[0])
			if err != nil {
				return err
			}
			if err := a.app().Backup(context.Background(), file); err != nil {
				return err
			}
			a.note("The store is copied to %s.", args[0])
			return nil
		},
	}
	migrate := &cobra.Command{
		Use:   "migrate [URL]",
		Short: "Move all runs to a PostgreSQL database",
		Long: `Move all runs from the project's folder to a PostgreSQL database: finished and
unfinished ones, waiting decisions, the state of schedules, and the records
of removed runs. Every run keeps its ID, its events and its hash chain, so
"espalier audit verify" and anchors hold as before. Runs that have not finished
continue in the database.

Without a URL, the runs move to the store that ESPALIER_STORE or espalier.yaml
names. Stop everything that uses the project first. The file in the folder is
kept under another name, and no longer used. A migration that was interrupted
can be repeated.`,
		Example: "  espalier store migrate postgres://espalier@db.example.com/espalier",
		Args:    takes(0, 1, "the URL of a database"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.migrateStore(optional(args, 0)) },
	}
	cmd.AddCommand(a.jsonFlag(check), backup, a.jsonFlag(migrate))
	return cmd
}

// migrateStore moves the runs to a database. With a URL as argument, the settings still name the old store, so the last
// note says what to change.
func (a *invocation) migrateStore(url string) error {
	done, kept, err := a.app().Migrate(context.Background(), url)
	if err != nil {
		return err
	}
	if a.json {
		return a.writeJSON(struct {
			journal.Copied
			Kept string `json:"kept"`
		}{done, kept})
	}
	a.note("Moved %s, %d of them unfinished, and %s.", plural(done.Runs, "run"), done.Unfinished,
		removals(done.Tombstones))
	a.note("The file that had them is kept as %s.", kept)
	if url != "" {
		a.note("Set \"store\" in espalier.yaml, or ESPALIER_STORE, to the URL of the database.")
	}
	return nil
}

// checkStore prints the problems of the store; any problem ends the command with exit code 1.
func (a *invocation) checkStore() error {
	report, err := a.app().CheckStore(context.Background())
	if err != nil {
		return err
	}
	err = a.print(report, func() {
		for _, problem := range report.Problems {
			fmt.Fprintln(a.stdout, problem)
		}
	})
	if err != nil {
		return err
	}
	if n := len(report.Problems); n > 0 {
		return fail(exitFailed,
			"\"espalier audit verify RUN\" shows what is left of a run. Restore the store from a backup.",
			"the store has %s", plural(n, "problem"))
	}
	a.note("Checked %s and %s: no problems.", plural(report.Runs, "run"), removals(report.Removed))
	return nil
}

// removals writes how many runs were removed, of which the store keeps a record.
func removals(n int) string {
	if n == 1 {
		return "the record of 1 removed run"
	}
	return fmt.Sprintf("the records of %d removed runs", n)
}
