package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/project"
	"github.com/espalier-run/espalier/internal/scaffold"
	"github.com/espalier-run/espalier/internal/xslices"
)

func (a *invocation) newCommand() *cobra.Command {
	var format, chosen, dir string
	long := "Write a small valid workflow to start from, in any format:\n\n"
	long += strings.TrimPrefix(listPatterns(scaffold.Formats()[0]), "\n") + "\n"
	long += `
Some patterns differ, because a format lacks what they need. Agentfile has no
loops, so its review is one round. In Agentfile and AIFLOW, the specialists of
fanout work one after the other. Nothing in AWF and NOF waits for an approval:
the gate is in an Agent Flow workflow, which the AWF file calls, and which calls
the NOF file. Only Agent Flow has the pattern agentic. An existing file is never
overwritten.`
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "new NAME [--pattern PATTERN] [--format FORMAT] [-o DIR] [--json]",
		Short: "Create a valid workflow to start from",
		Long:  long,
		Example: `  espalier new invoice-check
  espalier new contract-review --pattern gate -o workflows
  espalier new digest --format awf --pattern review`,
		Args:              takes(1, 1, "a name"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(_ *cobra.Command, args []string) error {
			made, settings, err := a.newWorkflow(args[0], format, chosen, dir)
			if err != nil {
				return err
			}
			if settings != "" {
				root := project.FindRoot(a.inDir(dir)) // the project of the workflow
				written, err := a.configure(root, settings)
				if err != nil {
					return err
				}
				if written {
					made.Files = append(made.Files, a.display(filepath.Join(root, config.FileName)))
				}
			}
			return a.print(made, func() {
				for _, file := range made.Files {
					fmt.Fprintln(a.stdout, file)
				}
				word := shellWord(made.Path)
				a.note("Next: describe what it does, then run \"espalier validate %s\" and \"espalier show %s\".",
					word, word)
				if an, err := a.usable(made.Path); err == nil {
					a.note("To try it without a model: espalier run %s --simulate%s", word, sampleInputs(an))
				}
			})
		},
	})
	flags := cmd.Flags()
	formats, patterns := scaffold.Formats(), scaffold.PatternNames()
	flags.StringVar(&chosen, "pattern", patterns[0], "one of "+strings.Join(patterns, ", "))
	flags.StringVar(&format, "format", formats[0], "one of "+strings.Join(formats, ", "))
	flags.StringVarP(&dir, "output", "o", ".", "write into this folder, `DIR`")
	cmd.RegisterFlagCompletionFunc("pattern", offer(func([]string) []string { return scaffold.PatternNamesOf(format) }))
	completeWords(cmd, "format", formats)
	cmd.MarkFlagDirname("output")
	return cmd
}

// newFiles are the files of a new workflow, the one to run first.
type newFiles struct {
	Files   []string `json:"files"`
	Format  string   `json:"format"`
	Name    string   `json:"name"` // of the workflow
	Path    string   `json:"path"`
	Pattern string   `json:"pattern"`
}

// checkPattern checks that a format has a pattern.
func checkPattern(format, chosen string) error {
	if err := oneOf(format, scaffold.Formats(), "unknown format %q"); err != nil {
		return err
	}
	p := slices.IndexFunc(scaffold.Patterns, func(p scaffold.Pattern) bool { return p.Name == chosen })
	if p < 0 {
		return usage(suggestPattern(format, chosen), "unknown pattern %q", chosen)
	}
	if why := scaffold.Patterns[p].MissingIn(format); why != "" {
		var others []string
		for _, other := range scaffold.Formats() {
			if scaffold.Patterns[p].MissingIn(other) == "" {
				others = append(others, "--format "+other)
			}
		}
		return usage(fmt.Sprintf("Use %s, or one of the patterns of %s: %s.", strings.Join(others, ", "), format,
			strings.Join(scaffold.PatternNamesOf(format), ", ")), "%s has no pattern %q: %s", format, chosen, why)
	}
	return nil
}

// suggestPattern returns the help for an unknown pattern: the patterns that are probably meant, and all patterns of the
// format.
func suggestPattern(format, name string) string {
	help := ""
	if meant := xslices.Map(scaffold.SimilarPatterns(format, name), strconv.Quote); len(meant) > 0 {
		help = fmt.Sprintf("Did you mean %s? ", strings.Join(meant, " or "))
	}
	return help + "The patterns are:" + listPatterns(format)
}

// listPatterns returns a line for each pattern that a format has.
func listPatterns(format string) (list string) {
	for _, p := range scaffold.PatternsOf(format) {
		list += fmt.Sprintf("\n  %-9s %s", p.Name, p.About)
	}
	return list
}

// newWorkflow creates the files of a workflow, all or none, and returns the settings that it needs.
func (a *invocation) newWorkflow(name, format, chosen, dir string) (made *newFiles, settings string, err error) {
	if err := checkName(name); err != nil {
		return nil, "", err
	}
	if err := checkPattern(format, chosen); err != nil {
		return nil, "", err
	}
	w, err := scaffold.NewWorkflow(name, format, chosen, a.Now())
	if err != nil {
		return nil, "", err
	}
	files, err := a.createFiles(dir, w.Files...)
	if err != nil {
		return nil, "", err
	}
	return &newFiles{Files: files, Name: w.Name, Path: files[0], Format: format, Pattern: chosen}, w.Settings, nil
}

// configure creates an espalier.yaml with settings, and reports whether it did. If there is one, it says what to add.
func (a *invocation) configure(root, settings string) (made bool, err error) {
	made, err = scaffold.Create(root, scaffold.File{Name: config.FileName, Text: scaffold.Config(settings)})
	if err == nil && !made && settings != "" {
		a.note("The workflow needs these settings. Add them to %s:", config.FileName)
		for line := range strings.Lines(settings) {
			a.note("  %s", strings.TrimSuffix(line, "\n"))
		}
	}
	return made, writeError(err)
}

// checkName asks for what Agent Flow and Agent Skills both accept.
func checkName(name string) error {
	const longest = 64
	ok, _ := regexp.MatchString(`^[a-z0-9]+(-[a-z0-9]+)*$`, name)
	switch {
	case !ok:
		help := "Use lower-case letters, digits and single hyphens."
		if better := suggestName(name); better != "" {
			help += fmt.Sprintf(" How about %q?", better)
		}
		return usage(help, "invalid workflow name %q", name)
	case len(name) > longest:
		return usage(fmt.Sprintf("Use at most %d characters.", longest), "the name is %d characters long", len(name))
	}
	return nil
}

func suggestName(name string) string {
	words := strings.FieldsFunc(strings.ToLower(strings.TrimSuffix(filepath.Base(name), ".md")), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	return strings.Join(words, "-")
}

// createFiles creates files below a folder, all or none, and returns their paths. None may exist yet.
func (a *invocation) createFiles(dir string, files ...scaffold.File) (paths []string, err error) {
	root := a.inDir(dir)
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if _, err := os.Lstat(a.inDir(path)); err == nil {
			return nil, usage("Choose another name or another folder.", "the file %q already exists", path)
		}
		paths = append(paths, filepath.ToSlash(path))
	}
	_, _, err = scaffold.CreateAll(root, files)
	return paths, writeError(err)
}

// writeError adds advice to the error of a file that cannot be written.
func writeError(err error) error {
	if file, ok := errors.AsType[*scaffold.WriteError](err); ok {
		return cannotCreate(file.Name, file.Err)
	}
	return err
}
