package cli

import (
	"bufio"
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/config"
)

func (a *invocation) trustCommand() *cobra.Command {
	var yes, list, revoke bool
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "trust [DIR] [--yes] [--json] | --list | --revoke [DIR]",
		Short: "Approve the commands and permissions of a project",
		Long: `Approve what the files of a project may do on this machine: commands of
workflows, and the commands, servers, addresses and permissions in espalier.yaml
and .mcp.json. The command lists all of it and asks; --yes approves without
asking.

An approval holds for the contents that you have seen: a file that changes needs
a new one. Approvals are kept in your own state folder ($XDG_STATE_HOME, or
~/.local/state), never in the project, so that a repository cannot approve
itself.`,
		Example: `  espalier trust                review and approve the project here
  espalier trust --yes ci/proj  approve without asking, as in CI
  espalier trust --list         what is approved on this machine
  espalier trust --revoke       take the approval back`,
		Args: takes(0, 1, "at most one folder"),
		RunE: func(_ *cobra.Command, args []string) error {
			if list {
				return a.listTrust()
			}
			dir := cmp.Or(optional(args, 0), ".")
			if revoke {
				return a.revokeTrust(dir)
			}
			return a.approve(dir, yes)
		},
	})
	flags := cmd.Flags()
	flags.BoolVar(&yes, "yes", false, "approve without asking")
	flags.BoolVar(&list, "list", false, "list what is approved on this machine")
	flags.BoolVar(&revoke, "revoke", false, "revoke the approval of a project")
	exclusive(cmd, "yes", "list")
	exclusive(cmd, "yes", "revoke")
	exclusive(cmd, "list", "revoke")
	return cmd
}

// approve lists everything that the files of a project may do, and approves exactly what it has listed: r has the
// hashes of the files as they were read. Nothing is approved without --yes unless a person at a terminal agrees.
func (a *invocation) approve(dir string, yes bool) error {
	r, err := a.app().Review(context.Background(), dir, a.reading)
	if err != nil {
		return err
	}
	switch {
	case len(r.Files) == 0 && !r.State:
		return a.print(r, func() { a.note("There is nothing to approve in %s.", a.folder(r.Root)) })
	case a.json && !yes:
		return a.writeJSON(r)
	}
	if !a.json {
		a.printReview(r)
	}
	if !yes {
		if !a.IsTerminal(a.Stderr) {
			return usage("Review the list, then use --yes.",
				"an approval has to be confirmed, and there is no terminal to ask on")
		}
		fmt.Fprint(a.stderr, "Approve all of this? [y/N] ")
		answer, _ := bufio.NewReader(a.Stdin).ReadString('\n') // without an answer nothing is approved
		if !isYes(answer) {
			return fail(ExitNotReady, "", "nothing was approved")
		}
	}
	if err := a.app().Approve(r); err != nil {
		return err
	}
	return a.print(r, func() { a.note("Approved %s in %s.", plural(len(r.Files), "file"), a.folder(r.Root)) })
}

// printReview prints everything that an approval covers, by the file that it is in.
func (a *invocation) printReview(r *app.Review) {
	fmt.Fprintf(a.stdout, "%s\n", r.Root)
	for _, file := range []struct {
		name string
		mcp  bool
	}{{config.FileName, false}, {config.MCPFileName, true}} {
		for _, p := range r.Settings {
			if p.MCPFile == file.mcp {
				fmt.Fprintf(a.stdout, "  %s: %s: %s\n", file.name, p.Where, p.What)
			}
		}
	}
	for _, c := range r.Commands {
		fmt.Fprintf(a.stdout, "  %s: %s\n", c.Workflow, c)
	}
	if r.State {
		fmt.Fprintln(a.stdout,
			"  .espalier: a state folder that you did not create on this machine, including its runs")
	}
}

// listTrust lists the approvals of this user, and says which of them no longer count.
func (a *invocation) listTrust() error {
	projects, err := a.app().Approvals()
	if err != nil {
		return err
	}
	if a.json {
		return a.writeJSON(projects)
	}
	if len(projects) == 0 {
		a.note("Nothing is approved on this machine.")
	}
	states := map[app.FileState]string{app.FileGone: "  (gone)", app.FileChanged: "  (changed: no longer approved)"}
	for _, p := range projects {
		fmt.Fprintf(a.stdout, "%s  (%s)\n", a.display(p.Root), p.At.Local().Format(minutes))
		for _, f := range p.Files {
			fmt.Fprintf(a.stdout, "  %.12s  %s%s\n", f.SHA256, f.Path, states[f.State])
		}
	}
	return nil
}

func (a *invocation) revokeTrust(dir string) error {
	root, revoked, err := a.app().Revoke(dir)
	switch {
	case err != nil:
		return err
	case a.json:
		return a.writeJSON(map[string]any{"root": root, "revoked": revoked})
	case !revoked:
		return usage("\"espalier trust --list\" shows what is approved.", "nothing is approved in %s", a.folder(root))
	}
	a.note("Revoked the approval of %s.", a.folder(root))
	return nil
}
