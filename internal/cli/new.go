package cli

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/project"
	"github.com/espalier-run/espalier/internal/xslices"
)

//go:embed templates
var templates embed.FS

// pattern is a workflow to start from.
type pattern struct {
	name, about string
	// cannot says why formats lack the pattern.
	cannot map[string]string
}

// patterns are the workflows that new creates, the default first.
var patterns = []pattern{
	{name: "pipeline", about: "steps one after the other"},
	{name: "review", about: "a loop: write, review, and revise until the reviewer approves"},
	{name: "fanout", about: "specialists side by side, then merged"},
	{name: "gate", about: "a person approves what the run returns"},
	{name: "schedule", about: "runs at fixed times"},
	{name: "tool", about: "calls a tool and reports what it found"},
	{name: "agentic", about: "a specialist works, a reviewer decides whether it may pass", cannot: map[string]string{
		"awf": onlyAgentFlow, "nof": onlyAgentFlow, "agentfile": onlyAgentFlow, "aiflow": onlyAgentFlow,
	}},
}

const onlyAgentFlow = "it is a pattern of Agent Flow"

type newFormat struct{ name, file string }

// newFormats are the formats of new workflows, the default first, with the file that holds one.
var newFormats = []newFormat{
	{"agent-flow", "NAME.md"},
	{"awf", "NAME.yaml"},
	{"nof", "NAME.nof.md"},
	{"agentfile", "workflows/NAME/workflow.yaml"},
	{"aiflow", "NAME.aiflow"},
}

// extras are the files that a workflow needs beside its own, of one pattern or of all.
var extras = []struct{ format, pattern, template, file string }{
	{"agentfile", "", "agentfile/writer", "agents/writer.md"},
	{"agentfile", "review", "agentfile/reviewer", "agents/reviewer.md"},
	{"agentfile", "fanout", "agentfile/benefits", "agents/benefits.md"},
	{"agentfile", "fanout", "agentfile/risks", "agents/risks.md"},
	{"agentfile", "tool", "agentfile/look-up", "scripts/look-up.sh"},
	{"awf", "gate", "awf/approval", "NAME-approval.md"},
	{"nof", "gate", "nof/pipeline", "NAME.nof.md"},
	{"nof", "tool", "nof/look-up", "agents/look-up.md"},
	{"nof", "tool", "nof/look-up-program", "agents/look-up.sh"},
}

// scheduled has the input of scheduled runs, by the formats whose files have no triggers. Their pattern is the default
// one, with a schedule in espalier.yaml.
var scheduled = map[string]string{
	"awf": "{topic: gardens}", "nof": "{period: 2026-01}", "aiflow": "{topic: gardens}",
}

// newSettings returns what a new workflow needs in espalier.yaml.
func newSettings(name, format, pattern string) string {
	if format == "agent-flow" && pattern == "tool" {
		return "tools:\n  WebFetch: {use: http.request}   # reads public addresses\n"
	}
	input := scheduled[format]
	if input == "" || pattern != "schedule" {
		return ""
	}
	return fmt.Sprintf("triggers:\n  %s:\n    schedule: \"0 9 * * 1\"   # Mondays at nine, UTC\n    input: %s\n",
		name, input)
}

func patternNames() []string {
	return xslices.Map(patterns, func(p pattern) string { return p.name })
}

func newFormatNames() []string {
	return xslices.Map(newFormats, func(f newFormat) string { return f.name })
}

func (a *invocation) newCommand() *cobra.Command {
	var format, chosen, dir string
	long := "Write a small valid workflow to start from, in any format:\n\n"
	long += strings.TrimPrefix(listPatterns(newFormats[0].name), "\n") + "\n"
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
			made, err := a.newWorkflow(args[0], format, chosen, dir)
			if err != nil {
				return err
			}
			if settings := newSettings(args[0], format, chosen); settings != "" {
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
	flags.StringVar(&chosen, "pattern", patterns[0].name, "one of "+strings.Join(patternNames(), ", "))
	flags.StringVar(&format, "format", newFormats[0].name, "one of "+strings.Join(newFormatNames(), ", "))
	flags.StringVarP(&dir, "output", "o", ".", "write into this folder, `DIR`")
	cmd.RegisterFlagCompletionFunc("pattern", offer(func([]string) []string { return patternsOf(format) }))
	completeWords(cmd, "format", newFormatNames())
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

// patternsOf returns the patterns that a format has.
func patternsOf(format string) (names []string) {
	for _, p := range patterns {
		if p.cannot[format] == "" {
			names = append(names, p.name)
		}
	}
	return names
}

// checkPattern checks that a format has a pattern.
func checkPattern(format, chosen string) error {
	if err := oneOf(format, newFormatNames(), "there is no format %q"); err != nil {
		return err
	}
	p := slices.IndexFunc(patterns, func(p pattern) bool { return p.name == chosen })
	if p < 0 {
		return usage(suggestPattern(format, chosen), "there is no pattern %q", chosen)
	}
	if why := patterns[p].cannot[format]; why != "" {
		var others []string
		for _, other := range newFormatNames() {
			if patterns[p].cannot[other] == "" {
				others = append(others, "--format "+other)
			}
		}
		return usage(fmt.Sprintf("Use %s, or one of the patterns of %s: %s.", strings.Join(others, ", "), format,
			strings.Join(patternsOf(format), ", ")), "%s has no pattern %q: %s", format, chosen, why)
	}
	return nil
}

// otherPatterns are words of other programs for patterns, with the names that the patterns have here.
var otherPatterns = map[string]string{
	"loop": "review", "refine": "review", "critic": "review", "reflection": "review", "evaluator": "review",
	"parallel": "fanout", "map": "fanout", "branch": "fanout", "merge": "fanout", "approval": "gate", "human": "gate",
	"cron": "schedule", "trigger": "schedule", "timer": "schedule", "sequence": "pipeline", "sequential": "pipeline",
	"chain": "pipeline", "linear": "pipeline", "mcp": "tool", "function": "tool", "supervisor": "agentic",
}

// suggestPattern returns the help for an unknown pattern: the patterns that are probably meant, and all patterns of the
// format.
func suggestPattern(format, name string) string {
	var meant []string
	add := func(word string) {
		word = strings.ToLower(word)
		for _, pattern := range []string{otherPatterns[word], diag.Nearest(word, patternsOf(format)), word} {
			if slices.Contains(patternsOf(format), pattern) && !slices.Contains(meant, strconv.Quote(pattern)) {
				meant = append(meant, strconv.Quote(pattern))
			}
		}
	}
	add(name)
	for _, word := range strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) }) {
		add(word)
	}
	help := ""
	if len(meant) > 0 {
		help = fmt.Sprintf("Did you mean %s? ", strings.Join(meant, " or "))
	}
	return help + "The patterns are:" + listPatterns(format)
}

// listPatterns returns a line for each pattern that a format has.
func listPatterns(format string) (list string) {
	for _, p := range patterns {
		if p.cannot[format] != "" {
			continue
		}
		list += fmt.Sprintf("\n  %-9s %s", p.name, p.about)
	}
	return list
}

// newWorkflow creates the files of a workflow. It stops at the first file that exists or cannot be written; files that
// it has created by then stay.
func (a *invocation) newWorkflow(name, format, chosen, dir string) (*newFiles, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if err := checkPattern(format, chosen); err != nil {
		return nil, err
	}
	f := slices.IndexFunc(newFormats, func(f newFormat) bool { return f.name == format })
	made, file := &newFiles{Name: name, Format: format, Pattern: chosen}, newFormats[f].file
	if format == "nof" && chosen == "gate" { // nothing in NOF waits for a person: an Agent Flow workflow calls it
		made.Name, file = name+"-approval", "NAME-approval.md"
	}
	template := format + "/" + chosen
	if chosen == "schedule" && scheduled[format] != "" {
		template = format + "/" + patterns[0].name
	}
	create := func(template, path string) error {
		path = filepath.Join(dir, strings.ReplaceAll(path, "NAME", name))
		text, err := fromTemplate(template, name)
		if err == nil {
			err = a.createFile(path, text)
		}
		made.Files = append(made.Files, filepath.ToSlash(path))
		return err
	}
	if err := create(template, file); err != nil {
		return nil, err
	}
	made.Path = made.Files[0]
	for _, e := range extras {
		if e.format == format && (e.pattern == "" || e.pattern == chosen) {
			if err := create(e.template, path.Join(path.Dir(file), e.file)); err != nil {
				return nil, err
			}
		}
	}
	return made, nil
}

// configure creates an espalier.yaml with settings, and reports whether it did. If there is one, it says what to add.
func (a *invocation) configure(root, settings string) (made bool, err error) {
	text := firstConfig
	if settings != "" {
		text += "\n" + settings
	}
	made, err = newFile(filepath.Join(root, config.FileName), config.FileName, text)
	if err == nil && !made && settings != "" {
		a.note("The workflow needs these settings. Add them to %s:", config.FileName)
		for line := range strings.Lines(settings) {
			a.note("  %s", strings.TrimSuffix(line, "\n"))
		}
	}
	return made, err
}

func fromTemplate(template, name string) (string, error) {
	raw, err := templates.ReadFile("templates/" + template + ".tmpl")
	if err != nil {
		return "", err
	}
	now := time.Now().UTC().Format(time.RFC3339)
	return strings.NewReplacer("{{NAME}}", name, "{{NOW}}", now).Replace(string(raw)), nil
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
		return usage(help, "%q cannot be the name of a workflow", name)
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

// createFile writes a file that must not be there yet.
func (a *invocation) createFile(path, text string) error {
	made, err := newFile(a.inDir(path), path, text)
	if err == nil && !made {
		return usage("Choose another name or another folder.", "there is a file %q already", filepath.ToSlash(path))
	}
	return err
}

// newFile writes a file, whole or not at all, unless there is one already. name is what errors call it. O_EXCL makes
// the check and the creation one step, and does not follow a symbolic link.
func newFile(full, name, text string) (made bool, err error) {
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return false, cannotCreate(name, err)
	}
	f, err := os.OpenFile(full, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, cannotCreate(name, err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(full)
		return false, cannotCreate(name, err)
	}
	return true, nil
}
