package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/builtin"
	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/explain"
	"github.com/espalier-run/espalier/internal/project"
	"github.com/espalier-run/espalier/internal/source"
)

func (a *app) validateCommand() *cobra.Command {
	var (
		strict, sarif     bool
		output, stdinName string
	)
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "validate PATH... [--strict] [--json|--sarif] [-o FILE]",
		Short: "Say everything that is wrong with workflows",
		Long: `Check workflows and say everything that is wrong with them: the place, what is
wrong and what to do. A folder means every workflow in it; "-" reads one from
standard input.

Ends with 0 when nothing is an error, and with 3 otherwise. --strict makes
errors of warnings and of what was let pass although a format does not allow
it.`,
		Example: `  espalier validate flow.md
  espalier validate . --strict
  espalier validate . --sarif -o espalier.sarif
  cat draft.md | espalier validate - --stdin-name flows/draft.md`,
		Args:              takes(1, -1, `at least one file or folder; "espalier validate ." checks every workflow here`),
		ValidArgsFunction: a.completeWorkflows,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := a.checkCompat(); err != nil {
				return err
			}
			v := &validation{app: a, stdinName: stdinName, files: source.Set{}, seen: map[string]bool{}}
			for _, arg := range args {
				err := v.add(arg)
				if err != nil && (len(args) == 1 || errors.Is(err, errNoName)) {
					return err
				}
				if err != nil {
					v.skip(arg, err)
				}
			}
			list := v.list.Sorted()
			if strict {
				list = list.Strict()
			}
			if err := a.deliver(output, func(w io.Writer) error {
				switch {
				case a.json:
					report := newReport(v.workflows, v.files, list, v.skipped)
					report.Commands = v.commands
					return encode(w, report)
				case sarif:
					return diag.SARIF{Files: v.files, Root: v.repository(), Version: readVersion().Version, Describe: title}.Write(w, list)
				}
				return a.printDiagnostics(w, v.files, list, output == "")
			}); err != nil {
				return err
			}
			err := v.finish(list)
			if code := heaviest(list); code != "" && !a.json && !sarif {
				a.note("Run \"espalier explain %s\" for details.", string(code))
			}
			return err
		},
	})
	flags := cmd.Flags()
	flags.BoolVar(&strict, "strict", false, "make errors of warnings and of what is only tolerated")
	a.compatFlag(cmd)
	a.envFlag(cmd)
	flags.BoolVar(&sarif, "sarif", false, "print SARIF 2.1.0, for code scanning")
	flags.StringVarP(&output, "output", "o", "", "write to this `FILE`")
	flags.StringVar(&stdinName, "stdin-name", "stdin.md", "the `PATH` that \"-\" would have as a file")
	exclusive(cmd, "json", "sarif")
	return cmd
}

// validation collects what several paths lead to.
type validation struct {
	*app
	stdinName string
	workflows []string
	list      diag.List
	files     source.Set
	seen      map[string]bool // a file may be reached by several paths
	skipped   []project.Skipped
	configs   int // files of configuration
	commands  []workflowCommand
}

func (v *validation) add(arg string) error {
	space, err := v.workspace()
	if err != nil {
		return err
	}
	switch {
	case arg == "":
		return errNoName
	case arg == "-":
		text, err := io.ReadAll(io.LimitReader(v.Stdin, project.MaxFileSize+1))
		if err != nil {
			return fmt.Errorf("standard input cannot be read: %w", err)
		}
		p, f, err := space.Text(v.stdinName, string(text))
		if err != nil {
			return err
		}
		v.take(analyse(v.reading, p, f))
	case space.IsDir(arg):
		p, err := space.At(arg)
		if err != nil {
			return err
		}
		var found discovered
		any := false
		err = v.discoverBelow(&found, p, arg, func(p *project.Project, f *source.File) {
			any = true
			if !v.seen[f.Abs] {
				v.take(analyse(v.reading, p, f))
			}
		})
		if err != nil {
			return err
		}
		v.skipped = append(v.skipped, found.skipped...)
		for _, name := range []string{config.FileName, config.MCPFileName} {
			if own := filepath.Join(arg, name); space.Exists(own) {
				any = true
				if err := v.addConfig(own); err != nil {
					return err
				}
			}
		}
		if !any && len(found.skipped) == 0 {
			return usage(`"espalier help formats" says which files are workflows.`, "there are no workflows in %q", arg)
		}
	case isConfig(arg):
		return v.addConfig(arg)
	default:
		an, err := v.resolve(arg)
		if err != nil {
			return err
		}
		v.take(an)
	}
	return nil
}

// addConfig checks the configuration of a project.
func (v *validation) addConfig(path string) error {
	space, err := v.workspace()
	if err != nil {
		return err
	}
	_, f, err := space.File(path)
	if err != nil {
		return err
	}
	an := analyseConfig(f)
	v.configs++
	v.list = append(v.list, an.diagnostics...)
	v.files.Add(f)
	return nil
}

// skip leaves out one of several paths, so that the others are checked.
func (v *validation) skip(arg string, err error) {
	reason := sentence(err.Error())
	var ref *source.RefError
	if errors.As(err, &ref) && len(ref.Near) > 0 {
		reason += " " + unreadableFile(ref).help
	}
	v.skipped = append(v.skipped, project.Skipped{Path: arg, Reason: reason})
}

func (v *validation) take(an analysis) {
	if v.seen[an.file.Abs] {
		return
	}
	v.seen[an.file.Abs] = true
	v.workflows = append(v.workflows, an.file.Path)
	v.list = append(v.list, an.diagnostics...)
	for _, f := range an.files {
		v.files.Add(f)
	}
	if an.program != nil {
		for _, c := range builtin.Commands(an.program) {
			v.commands = append(v.commands, workflowCommand{an.file.Path, c})
		}
	}
}

// repository is the folder that code hosts want paths to begin at: the
// repository of the first workflow, or its project when there is none.
func (v *validation) repository() string {
	for _, path := range v.workflows {
		f := v.files[path]
		if f == nil || f.Abs == "" {
			continue
		}
		for dir := filepath.Dir(f.Abs); ; dir = filepath.Dir(dir) {
			if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
				return dir
			}
			if dir == filepath.Dir(dir) {
				return project.FindRoot(filepath.Dir(f.Abs))
			}
		}
	}
	return ""
}

func (v *validation) finish(list diag.List) error {
	for _, s := range v.skipped {
		v.note("%s was left out: %s", s.Path, sentence(s.Reason))
	}
	v.noteCommands()
	summary := diag.Summary(list)
	switch {
	case len(v.seen) == 0 && v.configs == 0:
		summary = "nothing was checked"
	case summary == "":
		summary = "ok"
	}
	checked := plural(len(v.seen), "workflow")
	switch {
	case v.configs > 0 && len(v.seen) == 0:
		checked = "configuration"
	case v.configs > 0:
		checked += " and the configuration"
	}
	v.note("%s: %s", checked, summary)
	switch {
	case list.Errors():
		return errInvalid
	case len(v.skipped) > 0:
		return &failure{code: exitUsage, message: "not everything could be checked"}
	}
	return nil
}

// noteCommands lists what the workflows run on this machine.
func (v *validation) noteCommands() {
	if v.json {
		return // the report has them
	}
	last := ""
	for _, c := range v.commands {
		if c.Workflow != last {
			v.note("%s runs commands on this machine:", diag.Printable(c.Workflow))
			last = c.Workflow
		}
		v.note("  %s", diag.Printable(c.String()))
	}
}

// heaviest is the code of the first of the worst diagnostics; "" without any.
func heaviest(list diag.List) diag.Code {
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
	Commands []workflowCommand `json:"commands,omitempty"`
}

type workflowCommand struct {
	Workflow string `json:"workflow"`
	builtin.Command
}

func newReport(workflows []string, files source.Set, list diag.List, skipped []project.Skipped) validationReport {
	r := validationReport{Outcome: "valid", Workflows: append([]string{}, workflows...), Report: diag.NewReport(files, list), Skipped: skipped}
	switch {
	case list.Errors():
		r.Outcome = "invalid"
	case len(skipped) > 0:
		r.Outcome = "incomplete"
	}
	return r
}

// printDiagnostics is for people; onScreen says that they see it right away.
func (a *app) printDiagnostics(w io.Writer, files source.Set, list diag.List, onScreen bool) error {
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
