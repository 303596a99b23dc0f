package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/lazyregexp"
)

const environmentHelp = `Espalier reads these variables:

  NO_COLOR         set to anything: no colors
  CLICOLOR_FORCE   set to anything but 0: colors even if the output is not a
                   terminal
  COLUMNS          the width of pages; if unset, that of the terminal, or 80
  HOME             your skills are in ~/.agents/skills and ~/.claude/skills
  XDG_CONFIG_HOME  and in $XDG_CONFIG_HOME/awf/skills (or ~/.config/awf/skills)
  XDG_STATE_HOME   approvals of "espalier trust" (default: ~/.local/state)
  XDG_CACHE_HOME   the Python of NOF workflows (default: ~/.cache)

  ESPALIER_STORE   the URL of the PostgreSQL database that keeps the runs
  ESPALIER_TEMPORAL
                   the address of the Temporal server that drives the runs
  ESPALIER_LABELS  labels of this machine, separated by commas: it drives runs
                   of workflows that need them
  ESPALIER_SERVER, ESPALIER_TOKEN
                   the server that commands talk to, and the token for it

  ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL, OPENAI_API_KEY, OPENAI_BASE_URL,
  GEMINI_API_KEY, GOOGLE_API_KEY, GOOGLE_GEMINI_BASE_URL, OLLAMA_HOST
                   keys and addresses of models, unless espalier.yaml names
                   others; programs such as claude and codex receive only
                   their own variables and no other secrets

  OTEL_EXPORTER_OTLP_ENDPOINT, and other variables of OpenTelemetry
                   endpoint for traces and metrics; if unset, none are sent
  TRACEPARENT      parent span of a run, if traces are exported

Secrets and servers that espalier.yaml or .mcp.json declare may name other
variables. Nothing is sent anywhere but to the models and tools of a run, and to
the stores, servers and collectors that you name. Commands ask questions only on
a terminal.
`

const modelsHelp = `Model resolution order (first match wins):

  --model MODEL                 of the command run
  the agent's or the workflow's own
  models: default:              in espalier.yaml
  the usual model of the first provider whose key is set

Write a model as its name (claude-…, gpt-…, gemini-…), as a name of your own
under models: aliases:, or as PROVIDER/MODEL:

  anthropic, openai, gemini, ollama
                                over the network; "help environment" lists the
                                variables with their keys
  a name of your own            a server, declared under models: providers:
  claude-code, codex, gemini-cli, copilot
                                a coding agent on the PATH, which uses its own
                                tools; without /MODEL, it chooses the model.
                                "claude" and "github_copilot" are accepted, too
  a name of your own            a program, declared under models: clis:

Run "espalier doctor" to see what is available. --simulate and --script need no
model.
`

const scriptHelp = `--script FILE replaces models and tools with scripted replies. The file is YAML:

  replies:                      # what models say
    - step: research            # which requests: step, agent, workflow or key,
      attempt: 1-2              #   and attempt, visit, iteration or turn, as
      fail: RATE_LIMIT          #   2, 1-3 or 2+, counted from 1
    - step: research
      tools:                    # asks for tools first
        - {name: web.search, input: {query: roses}}
      reply: {found: 3}         # a text, or anything else as JSON
      delay: 200ms
      usage: {input: 900, output: 40}
    - step: test                # a command, with "otherwise: simulate"
      attempt: 1
      exit: 75                  # its exit code; reply is what it prints
    - agent: critic
      visit: 2+                 # from the second time on
      reply: {approved: true}
  tools:                        # what tools return
    web.search:
      - input: {query: roses}   # if the call has at least this
        output: [{title: Roses}]
      - fail: {class: TIMEOUT, message: no answer}
    mail.send:
      side_effects: true        # must not be called twice
      answers:
        - output: {sent: true}
  otherwise: simulate           # simulate the rest, tools too; without it,
                                #   requests that nothing answers fail and
                                #   other tools are real

The most specific entry answers: key before step, then agent, then workflow;
then the one with most of attempt, visit, iteration and turn; then the first.
Nothing is counted, so a run that was killed and resumed gets the same replies.
`

const formatsHelp = `Espalier reads and runs workflows in these formats:

  agent-flow  Agent Flow: Markdown with "kind: agent-flow/workflow" in its
              frontmatter; and any SKILL.md, which is Layer 0 of it
  awf         YAML below .awf/workflows, or with "states:" and "initial:"
  nof         *.nof.md, or Markdown with "format: nof/..." in its frontmatter
  agentfile   a folder with a workflow.yaml
  aiflow      *.aiflow

The project root is the nearest folder, from the workflow upward, that contains
.espalier, espalier.yaml, .awf, agentfile.yaml, workflows/*/workflow.yaml or
.git. File references are resolved in the workflow's folder, then in the project
root, never outside of the project. Skills are found by the name of their folder
in .agents/skills, .claude/skills and .awf/skills of the project, then of the
user. Project skills take precedence over user skills.

A search for workflows skips other hidden folders, and folders with the name
node_modules, vendor or testdata. To search such a folder, name it.
`

const rootHelpTemplate = `{{.Long}}

Usage:
  espalier COMMAND [ARGUMENTS] [FLAGS]
{{range $group := .Groups}}
{{.Title}}
{{- range $.Commands}}{{if and (eq .GroupID $group.ID) (not .Hidden)}}
  {{rpad .Name 12}}{{.Short}}{{end}}{{end}}
{{end}}
Help topics:
{{- range .Commands}}{{if .IsAdditionalHelpTopicCommand}}
  help {{rpad .Name 14}}{{.Short}}{{end}}{{end}}

Examples:
{{.Example}}

Exit codes:
  0 success · 1 the run failed · 2 wrong usage or unknown file · 3 the workflow
  is invalid · 4 the run waits · 5 out of budget · 6 not ready;
  "espalier help exit-codes" lists all

Environment:
  NO_COLOR (or --no-color) and CLICOLOR_FORCE for colors, COLUMNS for the width

Run "espalier COMMAND --help" for details.
`

const commandHelpTemplate = `{{if .Long}}{{.Long}}{{else}}{{.Short}}.{{end}}
{{if .Runnable}}
Usage:
  {{.UseLine}}
{{end}}{{if .HasExample}}
Examples:
{{.Example}}
{{end}}{{if .HasAvailableSubCommands}}
Commands:
{{- range .Commands}}
  {{rpad .CommandPath .CommandPathPadding}}  {{.Short}}{{end}}
{{end}}{{if .HasAvailableLocalFlags}}
Flags:
{{.LocalFlags.FlagUsagesWrapped 80}}{{end}}`

// optionalValue matches a flag whose value can be left out, as pflag writes it.
var optionalValue = lazyregexp.New(`(--[a-z-]+) ([A-Z]+)(\[="[a-z]+"\])`)

// fitHelp wraps the line after "Usage:" to 80 columns, and writes flags whose value can be left out as --flag[=VALUE].
func fitHelp(text, use string) string {
	text = optionalValue().ReplaceAllStringFunc(text, func(flag string) string {
		m := optionalValue().FindStringSubmatch(flag)
		short := m[1] + "[=" + m[2] + "]"
		return short + strings.Repeat(" ", len(flag)-len(short))
	})
	wrapped := strings.Join(wrapPieces("  "+use, 80, usePiece(), "      "), "\n")
	return strings.Replace(text, "\n  "+use+"\n", "\n"+wrapped+"\n", 1)
}

// usePiece matches a part of a usage line that is not broken: a word, or what is in brackets.
var usePiece = lazyregexp.New(`(?:\[(?:[^\[\]]|\[[^\[\]]*\])*\]|[^\s\[])+`)

// addHelp replaces cobra's help: help of commands is at most 80 columns wide, topics are commands that cannot run, and
// "help" suggests what was probably meant.
func (a *invocation) addHelp(root *cobra.Command) {
	root.SetHelpTemplate(commandHelpTemplate)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		template := commandHelpTemplate
		switch {
		case cmd == root:
			template = rootHelpTemplate
		case !cmd.Runnable():
			fmt.Fprint(a.stdout, cmd.Long)
			return
		}
		cmd.SetUsageTemplate(template) // Usage prints to stderr, Help must not
		fmt.Fprint(a.stdout, fitHelp(cmd.UsageString(), cmd.UseLine()))
	})
	root.AddCommand(
		&cobra.Command{Use: "exit-codes", Short: "Exit codes", Long: exitCodesHelp},
		&cobra.Command{Use: "environment", Short: "Environment variables", Long: environmentHelp},
		&cobra.Command{Use: "formats", Short: "Which files are workflows, and where they are found", Long: formatsHelp},
		&cobra.Command{Use: "models", Short: "Model names, and how a model is selected", Long: modelsHelp},
		&cobra.Command{Use: "script", Short: "Scripted replies of models and tools, for tests", Long: scriptHelp},
	)
	help := &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Show help for a command or a topic",
		GroupID: groupHelp,
		ValidArgsFunction: offer(func(args []string) []string {
			if len(args) > 0 {
				return nil
			}
			return commandNames(root)
		}),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return root.Help()
			}
			cmd, rest, err := root.Find(args)
			if err == nil && len(rest) > 0 && cmd != root {
				return usage("Usage: espalier help [COMMAND]", "espalier help takes one command; %q is unexpected",
					rest[0])
			}
			if err != nil || cmd == root {
				help := `"espalier help" lists the commands and topics.`
				if other := otherWords[args[0]]; other != "" {
					help = other
				} else if near := diag.Nearest(args[0], commandNames(root)); near != "" {
					help = fmt.Sprintf("Did you mean \"espalier help %s\"? %s", near, help)
				}
				return usage(help, "unknown help topic %q", args[0])
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
	root.SetHelpCommand(help)
	root.AddCommand(help)
}
