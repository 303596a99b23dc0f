package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/manifest"
)

// firstConfig is an espalier.yaml with commented-out settings. Below the first
// empty line, everything behind "# " is a setting.
const firstConfig = `# Settings of this project. Everything is optional: remove the # from what you
# need. "espalier validate espalier.yaml" checks it, "espalier doctor" says what
# is missing. Never put keys in this file: they come from the environment, such as
# ANTHROPIC_API_KEY, or from a secret.

# models:
#   default: claude-sonnet-5-5        # for steps that name no model
#   providers:
#     groq:                           # any OpenAI-compatible endpoint
#       api: openai
#       base_url: https://api.groq.com/openai/v1
#       key: secret://groq
# secrets:
#   groq: {env: GROQ_API_KEY}         # or file: PATH, or command: [pass, show, groq]
#   mail: {env: MAIL_TOKEN}
# mcp:
#   notes: {command: [npx, notes-server]}
# tools:
#   crm.read:                         # the name used in workflows
#     use: notes.search               # maps to this MCP tool
#   mail.send:
#     url: https://mail.example.com/send
#     bearer: secret://mail
#     requires_approval: true         # a person is asked before every call
# allow:
#   shell: false                      # true: commands of workflows run without --allow-shell
# defaults:
#   max_tokens: 8000                  # of one reply
`

// initFlags are the flags of init.
type initFlags struct{ dir, workflow, format, pattern string }

func (a *invocation) initCommand() *cobra.Command {
	var f initFlags
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "init [DIR] [--workflow NAME [--format FORMAT] [--pattern PATTERN]] [--json]",
		Short: "Set up a project with a first workflow",
		Long: `Set up a project in the working folder, or in DIR, which is created if needed:
an espalier.yaml that lists the settings, a first workflow, and a file of
replies with which a CI job runs the workflow without a model. On a terminal,
init asks for the name, the format and the pattern of the workflow, and Enter
takes what it suggests; elsewhere, it creates a workflow only with --workflow.
Where there are Agentfile workflows, it adds what runs write to .gitignore.
Existing files stay as they are.

A project does not need this: the folder with .git, .awf or agentfile.yaml is a
project, too, and a workflow also runs without one.`,
		Example: `  espalier init
  espalier init my-project
  espalier init --workflow release-notes --format agent-flow --pattern gate`,
		Args:              takes(0, 1, "at most one folder"),
		ValidArgsFunction: completeFolder,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				f.dir = args[0]
				a.Dir = a.inDir(f.dir)
				if _, err := os.Stat(a.Dir); errors.Is(err, fs.ErrNotExist) {
					defer os.Remove(a.Dir) // which does nothing unless it is empty, after a mistake
				}
				if err := os.MkdirAll(a.Dir, 0o777); err != nil {
					return cannotCreate(f.dir, err)
				}
			}
			switch {
			case f.workflow != "":
			case a.interactive():
				if err := a.askForWorkflow(&f); err != nil {
					return err
				}
			case cmd.Flags().Changed("pattern") || cmd.Flags().Changed("format"):
				return usage("Add --workflow NAME.",
					"--format and --pattern are for a first workflow, which has no name")
			}
			return a.init(&f)
		},
	})
	flags := cmd.Flags()
	flags.StringVar(&f.workflow, "workflow", "", "the `NAME` of a first workflow")
	flags.StringVar(&f.format, "format", newFormats[0].name, "its format: one of "+strings.Join(newFormatNames(), ", "))
	flags.StringVar(&f.pattern, "pattern", patterns[0].name, "its pattern: one of "+strings.Join(patternNames(), ", "))
	cmd.RegisterFlagCompletionFunc("pattern", offer(func([]string) []string { return patternsOf(f.format) }))
	completeWords(cmd, "format", newFormatNames())
	return cmd
}

// noWorkflow is the answer of a person who wants no first workflow.
const noWorkflow = "none"

// askForWorkflow asks the three questions of init. An empty answer is the default, which is a workflow named like the
// folder unless the project has workflows.
func (a *invocation) askForWorkflow(f *initFlags) (err error) {
	ask := func(question, otherwise string, check func(answer string) error) string {
		for err == nil {
			var answer string
			answer, err = a.ask(question)
			if errors.Is(err, errSignal) {
				err = fail(exitInterrupted, "", "nothing was created")
			} else if err == nil && answer == "" && a.stdinEnded {
				err = usage("Press Enter to take what is suggested, or use --workflow NAME.",
					"the questions were not answered: nothing was created")
			}
			answer = cmp.Or(answer, otherwise)
			wrong := new(failure)
			if err != nil || answer == "" || !errors.As(check(answer), &wrong) {
				return answer
			}
			first, rest, _ := strings.Cut(wrong.help, "\n")
			a.note("%s %s", sentence(upper(wrong.message)), first)
			for line := range strings.Lines(rest) {
				a.note("%s", strings.TrimRight(line, "\n"))
			}
		}
		return ""
	}
	name := cmp.Or(suggestName(a.inDir(".")), "hello")
	if found, err := a.app().Workflows(context.Background(), a.reading); err == nil && len(found.Workflows) > 0 {
		name = noWorkflow
	}
	a.note("Press Enter to take the answer in brackets.")
	f.workflow = ask(fmt.Sprintf("Name of the first workflow, or %q to create none [%s]: ", noWorkflow, name), name,
		checkName)
	if f.workflow == noWorkflow {
		f.workflow = ""
	}
	if f.workflow == "" {
		return err
	}
	f.format = ask(fmt.Sprintf("Format (%s) [%s]: ", strings.Join(newFormatNames(), ", "), f.format), f.format,
		func(format string) error { return checkPattern(format, patterns[0].name) })
	f.pattern = ask(fmt.Sprintf("Pattern (%s) [%s]: ", strings.Join(patternsOf(f.format), ", "), f.pattern), f.pattern,
		func(chosen string) error {
			if slices.Contains(patternsOf(f.format), chosen) {
				return nil
			}
			return usage(suggestPattern(f.format, chosen), "the format %s has no pattern %q", f.format, chosen)
		})
	return err
}

// firstScript answers in place of models, so that a CI job can run a new workflow.
const firstScript = `# Replies in place of models, for a CI job:
#   espalier run %s --script %s --auto-approve%s
# Add replies that the workflow has to handle; "espalier help script" describes the file.
replies: []
otherwise: simulate
`

// init creates the files of a project. Existing files stay: init can be repeated in a project that has some of them.
func (a *invocation) init(f *initFlags) error {
	written := []string{}
	next := []string{"espalier new NAME"}
	if f.workflow != "" { // first, because its name and pattern can be wrong
		created, err := a.newWorkflow(f.workflow, f.format, f.pattern, ".")
		if err != nil {
			return err
		}
		an, err := a.usable(created.Path)
		if err != nil {
			return err
		}
		script, inputs := f.workflow+".script.yaml", sampleInputs(an)
		if err := a.createFile(script, fmt.Sprintf(firstScript, created.Path, script, inputs)); err != nil {
			return err
		}
		written = append(append(written, created.Files...), script)
		next = []string{"espalier show " + created.Name, "espalier run " + created.Name + " --simulate" + inputs}
	}
	settings := ""
	if f.workflow != "" {
		settings = newSettings(f.workflow, f.format, f.pattern)
	}
	made, err := a.configure(a.inDir("."), settings)
	switch {
	case err != nil:
		return err
	case made:
		written = append(written, config.FileName)
	default:
		a.note(alreadyThere, config.FileName)
	}
	if a.hasAgentfiles() {
		if err := manifest.IgnoreRuns(a.inDir(".")); err != nil {
			return cannotCreate(".gitignore", err)
		}
	}
	if err := a.listWritten(written); err != nil {
		return err
	}
	if f.dir != "" && filepath.Clean(f.dir) != "." {
		next = append([]string{"cd " + shellWord(f.dir)}, next...)
	}
	a.note("Next:")
	for _, command := range append(next, "espalier doctor   # which models are available") {
		a.note("  %s", command)
	}
	return nil
}

// sampleInputs returns the flags that give a workflow a value for each required input without a default: the name of
// the input in upper case for texts, so that it is seen where it ends up.
func sampleInputs(an *app.Analysis) string {
	var flags strings.Builder
	for _, in := range fields(an.Program.Input) {
		if !in.Required || len(in.Default) > 0 {
			continue
		}
		value := map[string]string{
			"integer": "1", "number": "1", "boolean": "true", "array": "[]", "object": "{}",
		}[in.Type]
		fmt.Fprintf(&flags, " --input %s=%s", in.Name, cmp.Or(value, strings.ToUpper(in.Name)))
	}
	return flags.String()
}

// hasAgentfiles reports whether the working folder is a project of the Agentfile
// format.
func (a *invocation) hasAgentfiles() bool {
	if _, err := os.Stat(a.inDir("agentfile.yaml")); err == nil {
		return true
	}
	found, err := filepath.Glob(filepath.Join(a.inDir("workflows"), "*", "workflow.yaml"))
	return err == nil && len(found) > 0
}
