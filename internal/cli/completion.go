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
	"github.com/espalier-run/espalier/internal/price"
)

var shells = []string{"bash", "zsh", "fish", "powershell"}

func (a *invocation) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion " + strings.Join(shells, "|"),
		Short: "Print a script that completes commands in your shell",
		Long: `Print a script that completes commands, flags and what they take in your shell:
workflows, inputs, models, runs, steps, gates, budgets and codes.`,
		Example: `  echo 'source <(espalier completion bash)' >> ~/.bashrc
  espalier completion zsh > "${fpath[1]}/_espalier"
  espalier completion fish > ~/.config/fish/completions/espalier.fish
  espalier completion powershell | Out-String | Invoke-Expression`,
		ValidArgs: shells,
		Args:      takes(1, 1, "the name of a shell: "+strings.Join(shells, ", ")),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(shells, args[0]) {
				return usage(diag.DidYouMean(args[0], shells), "there is no completion for %q", args[0])
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

// completeWorkflow offers the names of discovered workflows, and files.
func (a *invocation) completeWorkflow(
	cmd *cobra.Command, args []string, _ string,
) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeWorkflows(cmd, args, "")
}

// completeWorkflows is for commands that take any number of them. A name that
// a terminal cannot show as it is, is not offered.
func (a *invocation) completeWorkflows(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	found, err := a.app().Workflows(context.Background(), a.reading)
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var names []string
	for _, w := range found.Workflows {
		if w.Name == diag.Printable(w.Name) {
			names = append(names, w.Name+"\t"+diag.Printable(w.Description))
		}
	}
	return names, cobra.ShellCompDirectiveDefault
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

// completeInput offers the names of a workflow's inputs, and completes the value if it has to be one of a few.
func (a *invocation) completeInput(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	an, err := a.app().Analyze(context.Background(), app.AnalyzeRequest{Workflow: args[0], Reading: a.reading})
	if err != nil || an.Program == nil || an.Program.Input == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var contract struct {
		Properties map[string]struct {
			Description string `json:"description"`
			Enum        []any  `json:"enum"`
		} `json:"properties"`
	}
	if json.Unmarshal(an.Program.Input.Schema, &contract) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(contract.Properties)) {
		property := contract.Properties[name]
		if len(property.Enum) == 0 {
			out = append(out, name+"=\t"+diag.Printable(property.Description))
		}
		for _, value := range property.Enum {
			out = append(out, fmt.Sprintf("%s=%v", name, value))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeWords completes the values of a flag, which are words of a fixed list.
func completeWords(cmd *cobra.Command, flag string, words []string) {
	cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// completePattern offers the patterns that the format of a new workflow has.
func completePattern(cmd *cobra.Command, format *string) {
	cmd.RegisterFlagCompletionFunc("pattern",
		func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return patternsOf(*format), cobra.ShellCompDirectiveNoFileComp
		})
}

// statusOf returns the status of the run that the first argument names; nil if there is none.
func (a *invocation) statusOf(args []string) *app.Status {
	if len(args) == 0 {
		return nil
	}
	run, err := a.app().Find(context.Background(), args[0])
	if err != nil {
		return nil
	}
	status, err := a.app().Status(context.Background(), cmp.Or(run.Root, run.ID))
	if err != nil {
		return nil
	}
	return status
}

// completeWaitingStep offers the steps that a run waits at.
func (a *invocation) completeWaitingStep(
	_ *cobra.Command, args []string, _ string,
) ([]string, cobra.ShellCompDirective) {
	status := a.statusOf(args)
	if status == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for i := range status.Gates {
		out = append(out, diag.Printable(status.GateName(&status.Gates[i])))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completeStep offers the steps of a run, and the words for a place that resume knows.
func (a *invocation) completeStep(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	const done = cobra.ShellCompDirectiveNoFileComp
	if len(args) == 0 {
		return nil, done
	}
	run, err := a.app().Find(context.Background(), args[0])
	if err != nil {
		return nil, done
	}
	program, err := a.app().Program(context.Background(), run)
	if err != nil {
		return nil, done
	}
	var out []string
	if cmd.Name() == "resume" {
		out = []string{"current", "previous"}
	}
	return append(out, stepsOf(program)...), done
}

// completeStepOfWorkflow offers the steps of a workflow.
func (a *invocation) completeStepOfWorkflow(
	_ *cobra.Command, args []string, _ string,
) ([]string, cobra.ShellCompDirective) {
	const done = cobra.ShellCompDirectiveNoFileComp
	if len(args) == 0 {
		return nil, done
	}
	an, err := a.app().Analyze(context.Background(), app.AnalyzeRequest{Workflow: args[0], Reading: a.reading})
	if err != nil || an.Program == nil {
		return nil, done
	}
	return stepsOf(an.Program), done
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

// completeDecision offers the steps of a run whose outcome is unknown, with the answers.
func (a *invocation) completeDecision(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	const done = cobra.ShellCompDirectiveNoFileComp
	status := a.statusOf(args)
	if status == nil {
		return nil, done
	}
	var out []string
	for _, g := range status.Gates {
		if g.Kind != app.GateDoubt {
			continue
		}
		for _, answer := range []string{app.AnswerRerun, app.AnswerSkip, app.AnswerFail, app.AnswerResult + "="} {
			out = append(out, diag.Printable(g.Step)+"="+answer)
		}
	}
	return out, done | cobra.ShellCompDirectiveNoSpace
}

// completeBudget offers the budgets that can be raised.
func completeBudget(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	out := raisable()
	for i := range out {
		out[i] += "="
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// stepsOf returns the ids of the steps that the file of a program has.
func stepsOf(program *ir.Program) []string {
	var out []string
	for s := range program.Steps() {
		if !s.Implied {
			out = append(out, diag.Printable(s.ID))
		}
	}
	return out
}

// completeModel offers the models whose prices are known.
func completeModel(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return price.Models(), cobra.ShellCompDirectiveNoFileComp
}

// completeName offers the names of discovered workflows, without files.
func (a *invocation) completeName(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	names, _ := a.completeWorkflows(cmd, args, "")
	return names, cobra.ShellCompDirectiveNoFileComp
}
