package scaffold

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/xslices"
)

type editor struct{ name, path string }

// editors are where editors read commands of a project from; %s is a command's name.
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
		"The first word of the arguments is the name of a workflow, the rest is what it works on; @FILE means the " +
			"content of the file.\n\n" +
			"Run `espalier run NAME --input \"TEXT\"` and show its output. If it waits for an approval, show what it " +
			"asks (`espalier status RUN`) and ask the user; " +
			"never approve anything yourself.\n\nWithout espalier, read workflows/NAME/workflow.yaml and do its " +
			"steps in their order: the agent file is who you are, " +
			"the skill how you work, the goal what you do. Write each result to its path, and stop at gates. Run no " +
			"scripts but those in scripts/ide.",
	},
	{
		"create", "Generate a workflow from a description",
		"The first word of the arguments is the name of the new workflow, the rest is what it should do.\n\nRun " +
			"`espalier create NAME \"TEXT\"`, show the review that it prints, " +
			"and ask the user whether to promote it. Only then run `espalier promote NAME`.",
	},
	{"list", "List the workflows of this project", "Run `espalier list` and show what it prints."},
	{
		"continue", "Resume an interrupted generation or run",
		"With a name: run `espalier create NAME` if artifacts/NAME is there. Otherwise run `espalier runs`, and " +
			"`espalier resume RUN` for the newest unfinished run. " +
			"If it waits for an approval, ask the user.",
	},
}

// Editors returns the names of the editors that read commands of a project.
func Editors() []string { return xslices.Map(editors, func(e editor) string { return e.name }) }

// A Blocked editor cannot have commands, because a part of the path to their folder is something else.
type Blocked struct {
	Editor string
	Folder string
	File   bool // Folder is a file, which the editor reads as well; otherwise, it is a broken link
	Wanted bool // the editor was named or is installed; otherwise, nothing shows that the project needs it
}

// EditorCommands returns the files with the commands of editors in a project. Without names, they are those of the
// editors whose folders exist, or of all editors if none does.
func EditorCommands(root string, names []string) (files []File, blocked []Blocked) {
	wanted := names
	if len(names) == 0 {
		wanted = installedEditors(root)
	}
	for _, e := range editors {
		folder := obstacle(root, e.path)
		asked := slices.Contains(wanted, e.name)
		if len(wanted) > 0 && !asked && (len(names) > 0 || folder == "") {
			continue
		}
		if folder != "" {
			_, err := os.Stat(filepath.Join(root, filepath.FromSlash(folder)))
			blocked = append(blocked, Blocked{e.name, folder, err == nil, asked})
			continue
		}
		for _, c := range slashCommands {
			files = append(files, File{
				fmt.Sprintf(e.path, c.name),
				fmt.Sprintf("---\ndescription: %s\n---\n\n%s\n\nArguments: $ARGUMENTS\n", c.about, c.text),
			})
		}
	}
	return files, blocked
}

// installedEditors returns the editors whose folders a project has. Every project on GitHub may have .github, which
// therefore says nothing about an editor.
func installedEditors(root string) (names []string) {
	for _, e := range editors {
		first, _, _ := strings.Cut(e.path, "/")
		if info, err := os.Stat(filepath.Join(root, first)); err == nil && info.IsDir() && first != ".github" {
			names = append(names, e.name)
		}
	}
	return names
}

// foldersOf returns the folders of a path, the outermost first.
func foldersOf(file string) (out []string) {
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		out = append(out, dir)
	}
	slices.Reverse(out)
	return out
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
