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
	"github.com/espalier-run/espalier/internal/scaffold"
)

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
accepts the suggestion; elsewhere, it creates a workflow only with --workflow.
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
	formats, patterns := scaffold.Formats(), scaffold.PatternNames()
	flags.StringVar(&f.format, "format", formats[0], "its format: one of "+strings.Join(formats, ", "))
	flags.StringVar(&f.pattern, "pattern", patterns[0], "its pattern: one of "+strings.Join(patterns, ", "))
	cmd.RegisterFlagCompletionFunc("pattern", offer(func([]string) []string {
		return scaffold.PatternNamesOf(f.format)
	}))
	completeWords(cmd, "format", formats)
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
				err = fail(ExitInterrupted, "", "nothing was created")
			} else if err == nil && answer == "" && a.stdinEnded {
				err = usage("Press Enter to accept the suggestion, or use --workflow NAME.",
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
	f.format = ask(fmt.Sprintf("Format (%s) [%s]: ", strings.Join(scaffold.Formats(), ", "), f.format), f.format,
		func(format string) error { return checkPattern(format, scaffold.Patterns[0].Name) })
	names := scaffold.PatternNamesOf(f.format)
	f.pattern = ask(fmt.Sprintf("Pattern (%s) [%s]: ", strings.Join(names, ", "), f.pattern), f.pattern,
		func(chosen string) error {
			if slices.Contains(names, chosen) {
				return nil
			}
			return usage(suggestPattern(f.format, chosen), "the format %s has no pattern %q", f.format, chosen)
		})
	return err
}

// init creates the files of a project. An espalier.yaml and a .gitignore that exist stay as they are. If the workflow
// exists, init fails before it creates anything.
func (a *invocation) init(f *initFlags) error {
	written := []string{}
	next := []string{"espalier new NAME"}
	settings := ""
	if f.workflow != "" { // first, because its name and pattern can be wrong
		created, needed, err := a.newWorkflow(f.workflow, f.format, f.pattern, ".")
		if err != nil {
			return err
		}
		an, err := a.usable(created.Path)
		if err != nil {
			return err
		}
		inputs := sampleInputs(an)
		script := scaffold.Replies(f.workflow, created.Path, inputs)
		if _, err := a.createFiles(".", script); err != nil {
			return err
		}
		written, settings = append(append(written, created.Files...), script.Name), needed
		next = []string{"espalier show " + created.Name, "espalier run " + created.Name + " --simulate" + inputs}
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
