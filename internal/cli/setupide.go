package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/scaffold"
)

func (a *invocation) setupIDECommand() *cobra.Command {
	names := scaffold.Editors()
	return a.jsonFlag(&cobra.Command{
		Use:   "setup-ide [EDITOR…]",
		Short: "Write slash commands for editors",
		Long: `Write the commands /agentfile:run, :create, :list and :continue for editors,
where they read such files. Without names, the command sets up the editors whose
folders exist, or all of them if none does. It does not overwrite existing
files. If one file cannot be written, it writes none.

Editors: ` + strings.Join(names, ", ") + `.`,
		Args:      cobra.ArbitraryArgs,
		ValidArgs: names,
		RunE: func(_ *cobra.Command, args []string) error {
			for _, name := range args {
				if err := oneOf(name, names, "unknown editor %q"); err != nil {
					return err
				}
			}
			root, err := a.app().Root()
			if err != nil {
				return err
			}
			return a.setupIDE(root, args)
		},
	})
}

// setupIDE writes the commands of editors, of all of them or of none. It checks all folders before it writes.
func (a *invocation) setupIDE(root string, names []string) error {
	files, blocked := scaffold.EditorCommands(root, names)
	for _, b := range blocked {
		is, help := "a broken link", "Create the folder that it leads to, or remove the link."
		if b.File {
			is = "a file"
			help = fmt.Sprintf("Move it to %s/rules.md, for example, which %s reads too.", b.Folder, b.Editor)
		}
		if b.Wanted {
			return fail(ExitNotReady, help, "%s reads commands from the folder %s, which is %s here", b.Editor,
				b.Folder, is)
		}
		a.note("%s is left out: it reads commands from the folder %s, which is %s here. %s", b.Editor, b.Folder, is,
			help)
	}
	created, kept, err := scaffold.CreateAll(root, files)
	if err != nil {
		return writeError(err)
	}
	for _, name := range kept {
		a.note(alreadyThere, name)
	}
	return a.listWritten(created)
}

const alreadyThere = "%s already exists and is not changed."

// listWritten prints the files that a command has written.
func (a *invocation) listWritten(names []string) error {
	return a.print(map[string]any{"written": names}, func() {
		for _, name := range names {
			fmt.Fprintln(a.stdout, name)
		}
	})
}
