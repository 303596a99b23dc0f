package config

import (
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/text"
)

// The protocols by which Espalier drives a program that serves as a model.
const (
	ClaudeCode = "claude-code"
	Codex      = "codex"
	GeminiCLI  = "gemini-cli"
	Copilot    = "copilot"
	PlainText  = "text" // the prompt goes in as text, the reply comes out as text
)

// Protocols returns the supported protocols.
func Protocols() []string { return []string{ClaudeCode, Codex, GeminiCLI, Copilot, PlainText} }

// Known programs whose tools and spending Espalier cannot restrict. They are used only if the project has an entry for
// them.
const (
	OpenCode = "opencode"
	Vibe     = "vibe"
)

// BuiltInCLIs returns the programs that need no "speaks" and "command" in their entry.
func BuiltInCLIs() []string { return []string{ClaudeCode, Codex, GeminiCLI, Copilot, OpenCode, Vibe} }

// CLI configures a program that serves as a model, such as a coding agent.
type CLI struct {
	Speaks  string // empty: the protocol of the built-in program with the entry's name
	Command []text.Text
	Args    []text.Text
	Model   text.Text // the default if a workflow names only the program
	// Env adds variables to the minimal environment of the program; PassEnv names variables that Espalier passes on
	// from its own environment.
	Env     []Header
	PassEnv []text.Text
	Timeout time.Duration // limit for one step

	Unapproved bool // see PrivilegedSetting

	MaxConcurrent int64
}

// readCLI reads one program. Only programs that take text have placeholders in their command: the others have a command
// line of their own, to which arguments are added.
func readCLI(name text.Text, f *fields) CLI {
	c := CLI{
		Speaks: f.choice("speaks",
			"The protocol of the program; text suits any program that accepts a prompt and prints its reply.",
			Protocols()...),
		Command: f.texts("command",
			"The program and its arguments as a list; if not set, the program is searched for in PATH."),
		Args: f.texts("args",
			"Additional arguments. The command of a text program may contain {prompt} and {model}."),
		Model: f.text("model",
			"The model if a workflow names only the program; if not set, the program chooses."),
		Env: f.named("env",
			"Environment variables of the program; values may be secret://NAME or contain ${NAME}."),
		PassEnv: f.texts("pass_env",
			"Variables to pass on from Espalier's environment, in addition to those the program needs."),
		Timeout:       f.duration("timeout", "Time limit for one step."),
		MaxConcurrent: f.number("max_concurrent", "Maximum number of concurrent processes.", 1, 1000),
	}
	if name.Value == "" {
		return c
	}
	if strings.Contains(name.Value, "/") {
		f.out.Errorf(CodeBadValue, name.Span, "Use letters, digits and dashes.",
			"Invalid program name %q: models are written program/model.", name.Value)
	}
	if !slices.Contains(BuiltInCLIs(), name.Value) {
		if c.Speaks == "" && !f.r.Has("speaks") {
			f.out.Errorf(CodeMissing, name.Span,
				"Add a line such as speaks: text, or use a built-in program: "+strings.Join(BuiltInCLIs(), ", ")+".",
				"The program %q has no protocol.", name.Value)
		}
		if f.lacks("command") && c.Speaks == PlainText {
			f.out.Errorf(CodeMissing, name.Span, "Add a line such as command: [my-agent, --quiet].",
				"The program %q has no command.", name.Value)
		}
	}
	if c.Speaks != PlainText && !(c.Speaks == "" && (name.Value == OpenCode || name.Value == Vibe)) {
		for i, part := range c.Command {
			if strings.Contains(part.Value, "{prompt}") || strings.Contains(part.Value, "{model}") {
				found := f.out.Errorf(CodeBadValue, part.Span, "Remove it, or write speaks: text.",
					"The command contains %s, which only programs with speaks: text may use.", part.Value)
				if part.Value == "{prompt}" { // one that belongs to an option stays
					found.RemoveEntry(part.Value, text.ItemEntry(c.Command, i))
				}
				if speaks := f.r.Entry("speaks").Value; !speaks.IsZero() {
					found.WriteValue(speaks, PlainText)
				} else {
					found.AddEntry(f.r.PlaceFor("speaks"), "speaks", PlainText)
				}
			}
		}
	}
	return c
}

// CLI returns the entry of a program, or nil if there is none.
func (m *Models) CLI(name string) *CLI { return entry(m.CLIs, name) }
