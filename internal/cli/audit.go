package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/report/audit"
	"github.com/espalier-run/espalier/internal/terminal"
)

func (a *invocation) auditCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit RUN",
		Short: "Show the audit log: decisions, evidence and cost",
		Long: `Print the audit log of a run for people; with --json, one record per line. Each
record has the hash of the one before. The log is derived from the journal: one
that was deleted is written again.`,
		Args:              takesRun(1, 1, "one run"),
		ValidArgsFunction: a.completeRun,
		RunE: func(_ *cobra.Command, args []string) error {
			ctx := context.Background()
			run, err := a.app().Find(ctx, args[0])
			if err != nil {
				return err
			}
			text, err := a.app().AuditLog(ctx, run)
			if err != nil {
				return err
			}
			if a.json {
				_, err = terminal.JSON(a.stdout).Write(text)
				return err
			}
			return audit.Pretty(a.painted(), text, audit.PrettyOptions{Colour: a.colorOut})
		},
	}
	cmd.AddCommand(a.auditVerifyCommand())
	return a.jsonFlag(cmd)
}

func (a *invocation) auditVerifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify RUN",
		Short: "Verify the audit log of a run",
		Long: `Check the audit logs of a run and of its child runs: the chain of hashes, the
ids and events that must be there, the agreement with the journal and with the
transcript, and the definition that the run has pinned. The first record that
does not hold is named. Nothing is changed. The exit code is 1 when there is a
fault.`,
		Args:              takesRun(1, 1, "one run"),
		ValidArgsFunction: a.completeRun,
		RunE: func(_ *cobra.Command, args []string) error {
			ctx := context.Background()
			run, err := a.app().Find(ctx, args[0])
			if err != nil {
				return err
			}
			reports, err := a.app().VerifyAudit(ctx, run)
			if err != nil {
				return err
			}
			return a.verified(reports)
		},
	}
	return a.jsonFlag(cmd)
}

func (a *invocation) verified(reports []app.AuditReport) error {
	faults := 0
	for _, one := range reports {
		faults += len(one.Faults)
	}
	if a.json {
		if err := a.writeJSON(reports); err != nil {
			return err
		}
	} else {
		for _, one := range reports {
			a.printVerified(&one)
		}
	}
	if faults == 0 {
		return nil
	}
	return &failure{
		code: exitFailed, message: "the audit log is not valid",
		help: "Take a copy of the file: it shows what was changed. \"espalier audit RUN\" then makes the log as the " +
			"journal has it.",
	}
}

func (a *invocation) printVerified(r *app.AuditReport) {
	w := a.stdout
	if r.OK {
		fmt.Fprintf(w, "%s  %d records verified, head %s\n", r.Run, r.Records, r.Head)
	} else {
		fmt.Fprintf(w, "%s  %d records\n", r.Run, r.Records)
		first := r.Faults[0]
		where := a.display(r.Path)
		if first.Line > 0 {
			where = fmt.Sprintf("%s:%d", where, first.Line)
		}
		fmt.Fprintf(w, "  %s: %s: %s\n", where, first.Check, first.Message)
		if more := len(r.Faults) - 1; more > 0 {
			fmt.Fprintf(w, "  and %s after it\n", plural(more, "fault"))
		}
	}
	for _, note := range r.Notes {
		a.note("%s", note)
	}
}
