package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/client"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/report/audit"
	"github.com/espalier-run/espalier/internal/terminal"
)

func (a *invocation) auditCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit RUN",
		Short: "Show the audit log: decisions, evidence and cost",
		Long: `Print the audit log of a run for people; with --json, one record per line. Each
record has the hash of the one before. The log is derived from the journal. A
deleted log is regenerated. A log that does not match the journal is renamed and
kept; the exit code is then 1.`,
		Args:              takesRun(1, 1, "one run"),
		ValidArgsFunction: a.completeRun,
		RunE: func(_ *cobra.Command, args []string) error {
			ctx := context.Background()
			run, err := a.find(args[0])
			if err != nil {
				return err
			}
			text, err := a.runs().AuditLog(ctx, run)
			if err != nil {
				return err
			}
			defer text.Close()
			if a.json {
				_, err = io.Copy(terminal.JSON(a.stdout), text)
			} else {
				o := audit.PrettyOptions{Color: a.colorOut, Titles: a.titles(ctx, run)}
				if status, err := a.runs().Status(ctx, cmp.Or(run.Root, run.ID)); err == nil {
					o.Offline = status.Offline
				}
				err = audit.Pretty(a.painted(), text, o)
			}
			if err != nil {
				return err
			}
			return a.reportSetAside(run)
		},
	}
	cmd.AddCommand(a.auditVerifyCommand(), a.auditAnchorCommand(), a.auditKeygenCommand())
	return a.jsonFlag(cmd)
}

// titles returns the titles of steps whose names are generated; nil if they are not known.
func (a *invocation) titles(ctx context.Context, run *app.Run) (titles map[string]string) {
	if a.server != nil {
		_, _ = a.server.Follow(ctx, cmp.Or(run.Root, run.ID), run.Seq, client.Progress{
			Now: true, Titles: func(t map[string]string) { titles = t },
		}) // without them, the records have the names
		return titles
	}
	program, err := a.app().Program(ctx, run)
	if err != nil {
		return nil // the records have the names
	}
	return program.Labels()
}

// recordPath returns the path of a record as people read it: on another machine, it is the path there.
func (a *invocation) recordPath(path string) string {
	if a.elsewhere {
		return path
	}
	return a.display(path)
}

// reportSetAside returns a failure if records of a run did not match the journal.
func (a *invocation) reportSetAside(run *app.Run) error {
	files, err := a.runs().SetAside(context.Background(), run)
	if err != nil || len(files) == 0 {
		return err
	}
	for i := range files {
		files[i] = a.recordPath(files[i])
	}
	compare := "Compare it with the renamed file, then move that file away:\n  "
	if len(files) > 1 {
		compare = "Compare it with the renamed files, then move them away:\n  "
	}
	return fail(exitFailed, "The log above was regenerated from the journal. "+compare+strings.Join(files, "\n  "),
		"records of run %s did not match the journal: they may have been changed", run.ID.Short())
}

func (a *invocation) auditVerifyCommand() *cobra.Command {
	var anchor, key, command string
	cmd := &cobra.Command{
		Use:   "verify [RUN] [--anchor FILE --key FILE]",
		Short: "Verify the records of a run, or against an anchor",
		Long: `Verify everything that is stored of a run and of its child runs: the hash chain
of the journal, the values that it refers to, the list of runs, the snapshot,
and the audit log and the transcript, which must be, byte for byte, what the
journal implies. Nothing is changed. The exit code is 1 if there is a fault.

With --anchor, compare the journal of the whole project with an anchor that
"espalier audit anchor" has written: runs that were removed without a record
of the removal, rewritten or truncated since then are faults. A run that was
already damaged when "espalier runs rm" removed it is listed, not reported as a
fault. Its events can no longer be verified. --key is the public key.`,
		Args:              takes(0, 1, "at most one run"),
		ValidArgsFunction: a.completeRun,
		RunE: func(_ *cobra.Command, args []string) error {
			ctx := context.Background()
			if anchor != "" {
				if err := a.verifyAnchor(ctx, anchor, key, command); err != nil || len(args) == 0 {
					return err
				}
			}
			if len(args) == 0 {
				return usage("\"espalier runs\" lists the runs.", "audit verify needs a run or --anchor")
			}
			run, err := a.find(args[0])
			if err != nil {
				return err
			}
			reports, err := a.runs().VerifyAudit(ctx, run)
			if err != nil {
				return err
			}
			return a.verified(run, reports)
		},
	}
	flags := a.jsonFlag(cmd).Flags()
	flags.StringVar(&anchor, "anchor", "", "compare the journal with the anchor in this `FILE`")
	flags.StringVar(&key, "key", "", "verify the anchor with the public key in this `FILE`")
	flags.StringVar(&command, "check-command", "", "this shell `COMMAND` verifies the anchor: it receives the "+
		"statement on stdin, and $ESPALIER_SIGNATURE is the path of the signature")
	exclusive(cmd, "key", "check-command")
	return cmd
}

// verified prints the reports of a run and its child runs, and turns their faults into a failure. A damaged journal is
// worse than damaged records, which can be derived again. If the only faults are files that were set aside, the records
// are correct and only these files remain.
func (a *invocation) verified(run *app.Run, reports []app.AuditReport) error {
	faults := 0
	var renamed []string
	for _, one := range reports {
		faults += len(one.Faults)
		for _, file := range one.SetAside() {
			renamed = append(renamed, a.recordPath(file))
		}
	}
	err := a.print(reports, func() {
		for i := range reports {
			a.printVerified(&reports[i])
		}
	})
	if err != nil || faults == 0 {
		return err
	}
	if damaged(reports) {
		return fail(exitFailed, "Copy the journal to keep the evidence. Then restore it from a backup.",
			"the journal is damaged")
	}
	if faults == len(renamed) {
		return fail(exitFailed, "Move these files away, then verify again:\n  "+strings.Join(renamed, "\n  "),
			"the records were regenerated; the changed files are kept")
	}
	return fail(exitFailed, fmt.Sprintf("Copy the files to keep the evidence. Run \"espalier audit %s\" to "+
		"regenerate the log from the journal.", run.ID.Short()), "the records are not valid")
}

// damaged reports whether the journal itself has a fault.
func damaged(reports []app.AuditReport) bool {
	return slices.ContainsFunc(reports, func(r app.AuditReport) bool {
		return slices.ContainsFunc(r.Faults, func(f audit.Fault) bool { return f.File == "" })
	})
}

// printVerified prints one report: the heads of its chains, or its first fault, from which the others usually follow.
func (a *invocation) printVerified(r *app.AuditReport) {
	w := a.stdout
	if r.OK {
		fmt.Fprintf(w, "%s  %d records verified, head %s\n", r.Run, r.Records, r.Head)
		if r.JournalHead != "" {
			fmt.Fprintf(w, "  journal head %s\n", r.JournalHead)
		}
	} else {
		fmt.Fprintf(w, "%s  %d records\n", r.Run, r.Records)
		first := r.Faults[0]
		where := "journal"
		if first.File != "" {
			where = a.recordPath(first.File)
		}
		if first.Line > 0 {
			where = fmt.Sprintf("%s:%d", where, first.Line)
		}
		fmt.Fprintf(w, "  %s: %s: %s\n", where, first.Check, diag.Printable(first.Message))
		if more := len(r.Faults) - 1; more > 0 {
			fmt.Fprintf(w, "  and %s after it\n", plural(more, "fault"))
		}
	}
	for _, note := range r.Notes {
		a.note("%s", note)
	}
}

// verifyAnchor compares the journal with an anchor. Its signature is verified first: an anchor that was changed proves
// nothing.
func (a *invocation) verifyAnchor(ctx context.Context, path, key, command string) error {
	check, err := signatureCheck(key, command)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return usage("", "%v", err)
	}
	report, err := a.app().VerifyAnchor(ctx, text, check)
	if errors.Is(err, audit.ErrSignature) {
		return fail(exitFailed, "Use the anchor and the key that belong together.", "%v", err)
	}
	if err != nil {
		return err
	}
	if err := a.print(report, func() { a.printAnchorReport(report) }); err != nil || report.OK {
		return err
	}
	return fail(exitFailed, "Copy the journal to keep the evidence.",
		"the journal does not match the anchor")
}

func (a *invocation) printAnchorReport(r *app.AnchorReport) {
	fmt.Fprintf(a.stdout, "anchor of %s: %s, %d removed since, %d new\n", r.At.Format(time.RFC3339),
		plural(r.Runs, "run"), r.Removed, r.New)
	for _, t := range r.Tombstones {
		damaged, lost, why := "", "", ""
		if t.Damaged {
			damaged, lost = "damaged; ", ": its events could not be verified"
		}
		if t.Why != "" {
			why = ": " + diag.Printable(t.Why)
		}
		fmt.Fprintf(a.stdout, "  %s  %sremoved by %s at %s%s%s\n", t.Run, damaged,
			diag.Printable(cmp.Or(t.By.User, "unknown")), t.At.Format(time.RFC3339), lost, why)
	}
	for _, f := range r.Faults {
		fmt.Fprintf(a.stdout, "  %s: %s\n", cmp.Or(string(f.Run), "journal"), diag.Printable(f.Message))
	}
}

// signatureCheck returns how an anchor is verified. The public key has to come from elsewhere than the anchor.
func signatureCheck(key, command string) (audit.SignatureCheck, error) {
	if command != "" {
		return audit.CommandCheck(command), nil
	}
	return fromKey(key, audit.KeyCheck, usage("The key in the anchor itself would prove nothing.",
		"--anchor needs --key or --check-command"))
}

// fromKey returns what read makes of the content of a key file, or missing if none is named.
func fromKey[T any](key string, read func([]byte) (T, error), missing error) (made T, err error) {
	if key == "" {
		return made, missing
	}
	raw, err := os.ReadFile(key)
	if err != nil {
		return made, usage("", "%v", err)
	}
	if made, err = read(raw); err != nil {
		return made, usage("", "%s: %v", key, err)
	}
	return made, nil
}

func (a *invocation) auditAnchorCommand() *cobra.Command {
	var key, command, out string
	cmd := &cobra.Command{
		Use:   "anchor --key FILE [--out FILE]",
		Short: "Write a signed anchor over the journal of all runs",
		Long: `Verify the hash chains of all runs and write a signed anchor over them: one line
per run, a statement and its signature. Store the anchor where people who
can change the journal cannot change it. "espalier audit verify --anchor" then
finds runs that were removed, rewritten or truncated since the anchor was
written.

"espalier audit keygen" creates a key. With --sign-command, a shell command
receives the statement on stdin and prints the signature.`,
		Args: takes(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			sign, err := signer(key, command)
			if err != nil {
				return err
			}
			if out == "" {
				_, err := a.app().Anchor(context.Background(), a.stdout, sign)
				return err
			}
			var text bytes.Buffer
			made, err := a.app().Anchor(context.Background(), &text, sign)
			if err != nil {
				return err
			}
			if err := a.replaceFile(out, text.Bytes(), 0o600); err != nil {
				return err
			}
			a.note("The anchor over %s is in %s.", plural(made.Runs, "run"), out)
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&key, "key", "", "sign with the private key in this `FILE`")
	flags.StringVar(&command, "sign-command", "", "sign with this shell `COMMAND`")
	flags.StringVar(&out, "out", "", "write the anchor to this `FILE`")
	exclusive(cmd, "key", "sign-command")
	return cmd
}

func signer(key, command string) (audit.Signer, error) {
	if command != "" {
		return audit.CommandSigner(command), nil
	}
	return fromKey(key, audit.KeySigner, usage("\"espalier audit keygen FILE\" creates a key.",
		"audit anchor needs --key or --sign-command"))
}

// auditKeygenCommand creates a key pair. It overwrites neither file.
func (a *invocation) auditKeygenCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "keygen FILE",
		Short: "Create a key that signs anchors",
		Long: `Create an ed25519 key pair: the private key in FILE, which only you can read,
and the public key in FILE.pub, both PEM encoded. Keep the private key away
from people who can change the journal.`,
		Args: takes(1, 1, "one file"),
		RunE: func(_ *cobra.Command, args []string) error {
			private, public, err := audit.GenerateKey()
			if err != nil {
				return err
			}
			if err := create(args[0], private, 0o600); err != nil {
				return err
			}
			if err := create(args[0]+".pub", public, 0o644); err != nil {
				return err
			}
			a.note("The private key is in %s, the public key in %s.", args[0], args[0]+".pub")
			return nil
		},
	}
}

// create writes a file that must not exist.
func create(path string, content []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return usage("A key is never overwritten.", "%v", err)
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
