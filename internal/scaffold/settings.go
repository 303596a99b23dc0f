package scaffold

import "fmt"

// SampleConfig is an espalier.yaml with commented-out settings. Below the first
// empty line, everything behind "# " is a setting.
const SampleConfig = `# Settings of this project. Everything is optional: remove the # from what you
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

// Config returns an espalier.yaml that has settings, and all others commented out.
func Config(settings string) string {
	if settings == "" {
		return SampleConfig
	}
	return SampleConfig + "\n" + settings
}

// settingsFor returns what a new workflow needs in espalier.yaml.
func settingsFor(name, format, pattern string) string {
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

// firstReplies answers in place of models, so that a CI job can run a new workflow.
const firstReplies = `# Replies in place of models, for a CI job:
#   espalier run %s --script %s --auto-approve%s
# Add replies that the workflow has to handle; "espalier help script" describes the file.
replies: []
otherwise: simulate
`

// Replies returns a file of replies for a workflow, and its name. inputs are the flags that give the workflow a value
// for each required input.
func Replies(workflow, path, inputs string) File {
	name := workflow + ".script.yaml"
	return File{name, fmt.Sprintf(firstReplies, path, name, inputs)}
}
