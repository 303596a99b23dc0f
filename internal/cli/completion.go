package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/explain"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/xslices"
)

var shells = []string{"bash", "zsh", "fish", "powershell"}

func (a *invocation) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion " + strings.Join(shells, "|"),
		Short: "Print a script that completes commands in your shell",
		Long: `Print a script that completes commands, flags and their values in your shell:
workflows, inputs, models, runs, steps, gates, budgets and codes.`,
		Example: `  echo 'source <(espalier completion bash)' >> ~/.bashrc
  espalier completion zsh > "${fpath[1]}/_espalier"
  espalier completion fish > ~/.config/fish/completions/espalier.fish
  espalier completion powershell | Out-String | Invoke-Expression`,
		ValidArgs: shells,
		Args:      takes(1, 1, "the name of a shell: "+strings.Join(shells, ", ")),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneOf(args[0], shells, "unknown shell %q"); err != nil {
				return err
			}
			return WriteCompletion(a.stdout, cmd.Root(), args[0])
		},
	}
}

// WriteCompletion writes a script that completes the commands of root in bash, zsh, fish or PowerShell.
func WriteCompletion(w io.Writer, root *cobra.Command, shell string) error {
	switch shell {
	case "zsh":
		return root.GenZshCompletion(w)
	case "fish":
		return root.GenFishCompletion(w, true)
	case "powershell":
		return root.GenPowerShellCompletionWithDesc(w)
	}
	var b bytes.Buffer
	if err := root.GenBashCompletionV2(&b, true); err != nil {
		return err
	}
	_, err := withoutPackage.WriteString(w, b.String())
	return err
}

// withoutPackage replaces what the script for bash takes from the package bash-completion, which may not be installed.
// Bash splits words at "=" and ":"; the script needs them in one piece.
var withoutPackage = strings.NewReplacer(`    _get_comp_words_by_ref "$@" cur prev words cword
`, `    if declare -F _get_comp_words_by_ref >/dev/null 2>&1; then
        _get_comp_words_by_ref "$@" cur prev words cword
        return
    fi
    local line=${COMP_LINE:0:COMP_POINT}
    read -r -a words <<<"$line"
    if [[ $line == *[[:space:]] ]]; then
        words+=("")
    fi
    cword=$((${#words[@]} - 1))
    cur=${words[cword]}
    prev=${words[cword - 1]}
`, `__espalier_handle_activeHelp() {
`, `__espalier_folders() {
    if declare -F _filedir >/dev/null 2>&1; then
        _filedir -d
    else
        local IFS=$'\n'
        COMPREPLY=($(compgen -d -- "$cur"))
    fi
}

__espalier_handle_activeHelp() {
`, " _filedir -d", " __espalier_folders")

// offer completes an argument or a flag with words, and with no files. Functions that return words return none on
// errors: completion must not print anything else.
func offer(words func(args []string) []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		return words(args), cobra.ShellCompDirectiveNoFileComp
	}
}

// offerPrefixes is like offer, but adds no space after a completion.
func offerPrefixes(words func(args []string) []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		return words(args), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// completeWords completes the values of a flag, which are words of a fixed list.
func completeWords(cmd *cobra.Command, flag string, words []string) {
	cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// completeFolder completes an argument that is a folder.
var completeFolder = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)

// completeWorkflow offers the names of discovered workflows, and files.
func (a *invocation) completeWorkflow(
	cmd *cobra.Command, args []string, _ string,
) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeWorkflows(cmd, args, "")
}

// completeWorkflows is for commands that take any number of them.
func (a *invocation) completeWorkflows(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return a.workflowNames(nil), cobra.ShellCompDirectiveDefault
}

// workflowNames returns the names of discovered workflows with their descriptions. A name that a terminal cannot show
// as it is, is left out.
func (a *invocation) workflowNames([]string) (names []string) {
	found, err := a.app().Workflows(context.Background(), a.reading)
	if err != nil {
		return nil
	}
	for _, w := range found.Workflows {
		if w.Name == diag.Printable(w.Name) {
			names = append(names, w.Name+"\t"+diag.Printable(w.Description))
		}
	}
	return names
}

func completeCode(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, code := range explain.Codes() {
		if page, ok := explain.Lookup(code); ok && len(args) == 0 && strings.HasPrefix(code, strings.ToUpper(prefix)) {
			out = append(out, fmt.Sprintf("%s\t%s", code, page.Title))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// programOf returns the program of the workflow that the first argument names; nil if there is none.
func (a *invocation) programOf(args []string) *ir.Program {
	if len(args) == 0 {
		return nil
	}
	an, err := a.app().Analyze(context.Background(), app.AnalyzeRequest{Workflow: args[0], Reading: a.reading})
	if err != nil {
		return nil
	}
	return an.Program
}

// inputsOf returns the names of a workflow's inputs, with the values of those that have to be one of a few.
func (a *invocation) inputsOf(args []string) (out []string) {
	program := a.programOf(args)
	if program == nil || program.Input == nil {
		return nil
	}
	var contract struct {
		Properties map[string]struct {
			Description string `json:"description"`
			Enum        []any  `json:"enum"`
		} `json:"properties"`
	}
	if json.Unmarshal(program.Input.Schema, &contract) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(contract.Properties)) {
		property := contract.Properties[name]
		if len(property.Enum) == 0 {
			out = append(out, name+"=\t"+diag.Printable(property.Description))
		}
		for _, value := range property.Enum {
			out = append(out, fmt.Sprintf("%s=%v", name, value))
		}
	}
	return out
}

// runOf returns the run that the first argument names; nil if there is none.
func (a *invocation) runOf(args []string) *app.Run {
	if len(args) == 0 {
		return nil
	}
	run, err := a.app().Find(context.Background(), args[0])
	if err != nil {
		return nil
	}
	return run
}

// gatesOf calls add for each open gate of the run that the first argument names.
func (a *invocation) gatesOf(args []string, add func(s *app.Status, g *app.Gate)) {
	run := a.runOf(args)
	if run == nil {
		return
	}
	status, err := a.app().Status(context.Background(), cmp.Or(run.Root, run.ID))
	if err != nil {
		return
	}
	for i := range status.Gates {
		add(status, &status.Gates[i])
	}
}

// completeRun completes the ids of runs that a command applies to, and then the steps or events that they wait for.
func (a *invocation) completeRun(
	cmd *cobra.Command, args []string, prefix string,
) ([]string, cobra.ShellCompDirective) {
	const done = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 {
		return a.gateNames(cmd, args), done
	}
	filter := app.Filter{Prefix: prefix, Limit: 30}
	switch cmd.Name() {
	case "approve", "reject", "signal":
		filter.Status = journal.Waiting
	case "resume":
		filter.Unfinished = !cmd.Flags().Changed("from") // which begins a new run after a finished one
	case "pause", "cancel", "edit":
		filter.Unfinished = true
	case "rm":
		filter.Status = journal.Finished
	}
	runs, err := a.app().Runs(context.Background(), filter)
	if err != nil {
		return nil, done
	}
	return xslices.Map(runs, func(r app.Run) string {
		return fmt.Sprintf("%s\t%s, %s", r.ID.Short(), r.Name, statusText(&r))
	}), done
}

// gateNames returns the argument after a run: the steps of its open gates, or the events that it waits for.
func (a *invocation) gateNames(cmd *cobra.Command, args []string) (out []string) {
	signals := cmd.Name() == "signal"
	if len(args) > 1 || cmd.Name() != "approve" && cmd.Name() != "reject" && !signals {
		return nil
	}
	a.gatesOf(args, func(s *app.Status, g *app.Gate) {
		if event := g.Kind == journal.AskEvent || g.Kind == journal.AskInput; event != signals {
			return
		}
		what := s.GateName(g)
		if signals {
			what = g.Event
		}
		out = append(out, diag.Printable(what)+"\t"+diag.Printable(g.Description))
	})
	return out
}

// completeWorkflowOrRun offers workflows, files, and the ids of runs.
func (a *invocation) completeWorkflowOrRun(
	cmd *cobra.Command, args []string, prefix string,
) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	runs, _ := a.completeRun(cmd, args, prefix)
	workflows, files := a.completeWorkflow(cmd, args, prefix)
	return append(workflows, runs...), files
}

// waitingSteps returns the steps that a run waits at.
func (a *invocation) waitingSteps(args []string) (out []string) {
	a.gatesOf(args, func(s *app.Status, g *app.Gate) { out = append(out, diag.Printable(s.GateName(g))) })
	return out
}

// unknownOutcomes returns the steps of a run whose outcome is unknown, with the answers.
func (a *invocation) unknownOutcomes(args []string) (out []string) {
	a.gatesOf(args, func(_ *app.Status, g *app.Gate) {
		if g.Kind != journal.AskOutcome {
			return
		}
		for _, answer := range journal.OutcomeAnswers {
			if answer == journal.AnswerResult {
				answer += "="
			}
			out = append(out, diag.Printable(g.Step)+"="+string(answer))
		}
	})
	return out
}

// stepsOfRun returns the steps of a run.
func (a *invocation) stepsOfRun(args []string) []string {
	run := a.runOf(args)
	if run == nil {
		return nil
	}
	program, _ := a.app().Program(context.Background(), run)
	return stepsOf(program)
}

// placesOfRun returns the steps of a run, and the words for a place that resume knows.
func (a *invocation) placesOfRun(args []string) []string {
	if steps := a.stepsOfRun(args); steps != nil {
		return append([]string{"current", "previous"}, steps...)
	}
	return nil
}

// stepsOfWorkflow returns the steps of a workflow.
func (a *invocation) stepsOfWorkflow(args []string) []string { return stepsOf(a.programOf(args)) }

// stepsOf returns the ids of the steps that the file of a program has.
func stepsOf(program *ir.Program) (out []string) {
	if program == nil {
		return nil
	}
	for s := range program.Steps() {
		if !s.Implied {
			out = append(out, diag.Printable(s.ID))
		}
	}
	return out
}

// budgetsToRaise returns the budgets that can be raised, for --raise.
func budgetsToRaise([]string) []string {
	return xslices.Map(raisable(), func(budget string) string { return budget + "=" })
}

// pricedModels returns the models whose prices are known.
func pricedModels([]string) []string { return price.Models() }
