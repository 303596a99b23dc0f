package cli

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/manifest"
)

// firstConfig is an espalier.yaml that says what could stand in it. Below the
// first empty line, everything behind "# " is a setting.
const firstConfig = `# Settings of this project. Everything is optional: take the # away from what you
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
# mcp:
#   notes: {command: [npx, notes-server]}
# tools:
#   crm.read:                         # the name used in workflows
#     use: notes.search               # maps to this MCP tool
#   mail.send:
#     url: https://mail.example.com/send
#     bearer: secret://groq
#     requires_approval: true         # a person is asked before every call
# allow:
#   shell: false                      # scripts of workflows run
# defaults:
#   max_tokens: 8000                  # of one reply
`

func (a *invocation) initCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:   "init [--json]",
		Short: "Make this folder a project",
		Long: `Make a project of the working folder: an espalier.yaml that says what can be
set, and, where there are Agentfile workflows, lines in .gitignore for what runs
make. What is there already stays as it is.

Nothing needs this: a project is also the folder with .git, .awf or
agentfile.yaml, and a workflow runs without any.`,
		Example:           "  espalier init",
		Args:              takes(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			written := []string{}
			made, err := newFile(a.inDir(config.FileName), config.FileName, firstConfig)
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
					return cannotWrite(".gitignore", err)
				}
			}
			if err := a.tellWritten(written); err != nil {
				return err
			}
			a.note("\"espalier new NAME\" begins a workflow; \"espalier doctor\" says which models are there.")
			return nil
		},
	})
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
