package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/explain"
	"github.com/espalier-run/espalier/internal/project"
	"github.com/espalier-run/espalier/internal/source"
)

// validateCommand checks workflows. "-" stands for a file that is not saved: its text counts as the content of
// --stdin-name, so that references are followed from there. Output comes before the summary, which says whether there
// were errors.
func (a *invocation) validateCommand() *cobra.Command {
	var (
		strict, sarif     bool
		output, stdinName string
	)
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "validate PATH... [--strict] [--json|--sarif] [-o FILE]",
		Short: "Report all problems in workflows",
		Long: `Check workflows and report all problems at once: where each one is, what is
wrong and how to fix it. A folder means all workflows in it; "-" reads a
workflow from standard input.

The exit code is 0 if there are no errors, and 3 otherwise. --strict turns
warnings into errors, and also deviations from a format that are tolerated
otherwise.`,
		Example: `  espalier validate flow.md
  espalier validate . --strict
  espalier validate . --sarif -o espalier.sarif
  cat draft.md | espalier validate - --stdin-name flows/draft.md`,
		Args: takes(1, -1,
			`at least one file or folder; "espalier validate ." checks every workflow here`),
		ValidArgsFunction: a.completeWorkflows,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := a.checkCompat(); err != nil {
				return err
			}
			unsaved := map[string]string{}
			for i, path := range args {
				if path != "-" {
					continue
				}
				args[i] = stdinName
				if _, read := unsaved[stdinName]; read {
					continue
				}
				text, err := a.readStdin()
				if err != nil {
					return err
				}
				unsaved[stdinName] = text
			}
			v, err := a.app().Validate(context.Background(), app.ValidateRequest{
				Paths: args, Unsaved: unsaved, Reading: a.reading,
			})
			if err != nil {
				return err
			}
			list := v.Diagnostics.Sorted()
			if strict {
				list = list.Strict()
			}
			if err := a.deliver(output, func(w io.Writer) error {
				switch {
				case a.json:
					report := newReport(v.Workflows, v.Files, list, v.Skipped)
					report.Commands = v.Commands
					return encode(w, report)
				case sarif:
					return diag.SARIF{
						Files: v.Files, Root: v.Repository(), Version: readVersion().Version,
						Describe: title, Help: pageText, HelpURI: pageAddress,
					}.Write(w, list)
				}
				return a.printDiagnostics(w, v.Files, list, output == "")
			}); err != nil {
				return err
			}
			err = a.summarizeValidation(v, list)
			if code := worstCode(list); code != "" && !a.json && !sarif {
				a.note("Run \"espalier explain %s\" for details.", string(code))
			}
			return err
		},
	})
	flags := cmd.Flags()
	flags.BoolVar(&strict, "strict", false, "turn warnings and tolerated deviations into errors")
	a.compatFlag(cmd)
	a.envFlag(cmd)
	flags.BoolVar(&sarif, "sarif", false, "print SARIF 2.1.0, for code scanning")
	flags.StringVarP(&output, "output", "o", "", "write to this `FILE`")
	flags.StringVar(&stdinName, "stdin-name", "stdin.md", "the `PATH` that \"-\" would have as a file")
	exclusive(cmd, "json", "sarif")
	return cmd
}

func (a *invocation) readStdin() (string, error) {
	text, err := io.ReadAll(io.LimitReader(a.Stdin, project.MaxFileSize+1))
	if err != nil {
		return "", fmt.Errorf("standard input cannot be read: %w", err)
	}
	return string(text), nil
}

// summarizeValidation prints what was skipped, which commands there are and the verdict.
func (a *invocation) summarizeValidation(v *app.Validation, list diag.List) error {
	for _, s := range v.Skipped {
		a.note("%s was skipped: %s", s.Path, sentence(s.Reason))
	}
	a.noteCommands(v.Commands)
	summary := diag.Summary(list)
	switch {
	case len(v.Workflows) == 0 && v.Configurations == 0:
		summary = "nothing was checked"
	case summary == "":
		summary = "ok"
	}
	checked := plural(len(v.Workflows), "workflow")
	switch {
	case v.Configurations > 0 && len(v.Workflows) == 0:
		checked = "configuration"
	case v.Configurations > 0:
		checked += " and the configuration"
	}
	a.note("%s: %s", checked, summary)
	switch {
	case list.Errors():
		return errInvalid
	case len(v.Skipped) > 0:
		return usage("", "not everything could be checked")
	}
	return nil
}

// noteCommands lists what the workflows run on this machine.
func (a *invocation) noteCommands(commands []app.WorkflowCommand) {
	if a.json {
		return // the report has them
	}
	last := ""
	for _, c := range commands {
		if c.Workflow != last {
			a.note("%s runs commands on this machine:", diag.Printable(c.Workflow))
			last = c.Workflow
		}
		for line := range strings.SplitSeq(c.String(), "\n") {
			a.note("  %s", diag.Printable(line))
		}
	}
}

// worstCode returns the code of the first diagnostic of the highest severity; "" without any.
func worstCode(list diag.List) diag.Code {
	if len(list) == 0 {
		return ""
	}
	return slices.MaxFunc(list, func(a, b diag.Diagnostic) int { return int(a.Severity) - int(b.Severity) }).Code
}

// validationReport is what validate prints as JSON.
type validationReport struct {
	Outcome   string   `json:"outcome"` // valid, invalid, or incomplete when something was left out
	Workflows []string `json:"workflows"`
	diag.Report
	Skipped []project.Skipped `json:"skipped,omitempty"`
	// Commands are what runs of the workflows start on this machine.
	Commands []app.WorkflowCommand `json:"commands,omitempty"`
}

// newReport returns the JSON form of a validation.
func newReport(workflows []string, files source.Set, list diag.List, skipped []project.Skipped) validationReport {
	r := validationReport{
		Outcome: "valid", Workflows: append([]string{}, workflows...),
		Report: diag.NewReport(files, list), Skipped: skipped,
	}
	switch {
	case list.Errors():
		r.Outcome = "invalid"
	case len(skipped) > 0:
		r.Outcome = "incomplete"
	}
	return r
}

// printDiagnostics is for people; onScreen says that they see it right away.
func (a *invocation) printDiagnostics(w io.Writer, files source.Set, list diag.List, onScreen bool) error {
	if err := (diag.Printer{Files: files, Color: a.colorOut && onScreen}).Print(a.screen.Mark(w), list); err != nil {
		return err
	}
	if len(list) == 0 || !onScreen {
		return nil
	}
	_, err := fmt.Fprintln(w) // before the summary
	return err
}

func title(code diag.Code) string {
	page, _ := explain.Lookup(string(code))
	return page.Title
}

func pageText(code diag.Code) string {
	page, _ := explain.Lookup(string(code))
	return page.Text
}

// pageAddress returns the address of the page of a code in the repository.
func pageAddress(code diag.Code) string {
	if _, ok := explain.Lookup(string(code)); !ok {
		return ""
	}
	return "https://github.com/espalier-run/espalier/blob/main/internal/explain/pages/" + string(code) + ".txtar"
}

// ofWorkflow makes a command take one workflow and do something with it.
func (a *invocation) ofWorkflow(cmd *cobra.Command, do func(an *app.Analysis) error) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = takesWorkflow(1, "one workflow"), a.completeWorkflow
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		an, err := a.usable(args[0])
		if err != nil {
			return err
		}
		return do(an)
	}
	return cmd
}

// usable returns a workflow whose program can be used: without errors.
func (a *invocation) usable(name string) (*app.Analysis, error) {
	an, err := a.app().Analyze(context.Background(), app.AnalyzeRequest{Workflow: name, Reading: a.reading})
	if err != nil {
		return nil, err
	}
	return an, an.Err()
}
