package cli

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/xslices"
)

type editor struct{ name, path string }

// editors are where editors read commands of a project from; %s is a command's
// name.
var editors = []editor{
	{"claude-code", ".claude/commands/agentfile/%s.md"},
	{"cursor", ".cursor/commands/agentfile-%s.md"},
	{"windsurf", ".windsurf/workflows/agentfile-%s.md"},
	{"cline", ".clinerules/workflows/agentfile-%s.md"},
	{"roo", ".roo/commands/agentfile-%s.md"},
	{"copilot", ".github/prompts/agentfile-%s.prompt.md"},
}

// slashCommands are the instructions of each command for an editor's agent.
var slashCommands = []struct{ name, about, text string }{
	{
		"run", "Run a workflow of this project",
		"The first word of the arguments is the name of a workflow, the rest is what it works on; @FILE means what " +
			"the file holds.\n\n" +
			"Run `espalier run NAME --input \"TEXT\"` and show its output. If it waits for an approval, show what it " +
			"asks (`espalier status RUN`) and ask the user; " +
			"never approve anything yourself.\n\nWithout espalier, read workflows/NAME/workflow.yaml and do its " +
			"steps in their order: the agent file is who you are, " +
			"the skill how you work, the goal what you do. Write each result to its path, and stop at gates. Run no " +
			"scripts but those in scripts/ide.",
	},
	{
		"create", "Have a workflow made",
		"The first word of the arguments is the name of the new workflow, the rest is what it should do.\n\nRun " +
			"`espalier create NAME \"TEXT\"`, show the review that it prints, " +
			"and ask the user whether to promote it. Only then run `espalier promote NAME`.",
	},
	{"list", "List the workflows of this project", "Run `espalier list` and show what it prints."},
	{
		"continue", "Carry on what was interrupted",
		"With a name: run `espalier create NAME` if artifacts/NAME is there. Otherwise run `espalier runs`, and " +
			"`espalier resume RUN` for the newest run that is not over. " +
			"If it waits for an approval, ask the user.",
	},
}

func (a *invocation) setupIDECommand() *cobra.Command {
	names := xslices.Map(editors, func(e editor) string { return e.name })
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
				if err := oneOf(name, names, "there is no editor %q"); err != nil {
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

// setupIDE writes the commands of the editors that are wanted. It checks all folders before it writes, and removes the
// files and folders that it has made if one file cannot be written.
func (a *invocation) setupIDE(root string, wanted []string) error {
	named := len(wanted) > 0
	if !named {
		for _, e := range editors {
			first, _, _ := strings.Cut(e.path, "/")
			if info, err := os.Stat(filepath.Join(root, first)); err == nil && info.IsDir() && first != ".github" {
				wanted = append(wanted, e.name)
			}
		}
	}
	type file struct{ name, text string }
	var files []file
	for _, e := range editors {
		folder := obstacle(root, e.path)
		asked := slices.Contains(wanted, e.name)
		if len(wanted) > 0 && !asked && (named || folder == "") {
			continue
		}
		if folder != "" {
			is := "a file"
			help := fmt.Sprintf("Move it to %s/rules.md, for example, which %s reads too.", folder, e.name)
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(folder))); err != nil {
				is, help = "a broken link", "Create the folder that it leads to, or remove the link."
			}
			if asked {
				return fail(exitNotReady, help, "%s reads commands from the folder %s, which is %s here", e.name,
					folder, is)
			}
			a.note("%s is left out: it reads commands from the folder %s, which is %s here. %s",
				e.name, folder, is, help)
			continue
		}
		for _, c := range slashCommands {
			files = append(files, file{
				fmt.Sprintf(e.path, c.name),
				fmt.Sprintf("---\ndescription: %s\n---\n\n%s\n\nArguments: $ARGUMENTS\n", c.about, c.text),
			})
		}
	}
	written, missing := []string{}, []string{}
	for _, f := range files {
		missing = append(missing, missingFolders(root, f.name)...)
		made, err := newFile(filepath.Join(root, filepath.FromSlash(f.name)), f.name, f.text)
		switch {
		case err != nil:
			for _, name := range written { // all editors or none
				err = errors.Join(err, os.Remove(filepath.Join(root, filepath.FromSlash(name))))
			}
			for _, folder := range slices.Backward(missing) {
				os.Remove(filepath.Join(root, filepath.FromSlash(folder))) // it stays if it is not empty
			}
			return err
		case made:
			written = append(written, f.name)
		default:
			a.note(alreadyThere, f.name)
		}
	}
	return a.listWritten(written)
}

// foldersOf returns the folders of a path, the outermost first.
func foldersOf(file string) (out []string) {
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		out = append(out, dir)
	}
	slices.Reverse(out)
	return out
}

// missingFolders returns the folders of a path that do not exist, the outermost first.
func missingFolders(root, file string) []string {
	return xslices.Filter(foldersOf(file), func(folder string) bool {
		_, err := os.Lstat(filepath.Join(root, filepath.FromSlash(folder)))
		return err != nil
	})
}

// obstacle returns the first folder of a path that exists and is a file or a broken link; "" if there is none.
func obstacle(root, file string) string {
	for _, folder := range foldersOf(file) {
		full := filepath.Join(root, filepath.FromSlash(folder))
		if _, err := os.Lstat(full); err != nil {
			return ""
		}
		if info, err := os.Stat(full); err != nil || !info.IsDir() {
			return folder
		}
	}
	return ""
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
