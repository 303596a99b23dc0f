package config

import (
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/text"
)

// The ways in which programs that work as models are spoken with.
const (
	ClaudeCode = "claude-code"
	Codex      = "codex"
	GeminiCLI  = "gemini-cli"
	Copilot    = "copilot"
	PlainText  = "text" // a prompt in, an answer out
)

// Speaks lists them.
func Speaks() []string { return []string{ClaudeCode, Codex, GeminiCLI, Copilot, PlainText} }

// The programs that are known, but cannot be held to anything: they are used
// only where the project has an entry for them.
const (
	OpenCode = "opencode"
	Vibe     = "vibe"
)

// BuiltInCLIs are the programs whose entry needs to say nothing.
func BuiltInCLIs() []string { return []string{ClaudeCode, Codex, GeminiCLI, Copilot, OpenCode, Vibe} }

// CLI is a program that works as a model: a coding agent.
type CLI struct {
	Speaks  string // empty is how the program of that name speaks
	Command []text.Text
	Args    []text.Text
	Model   text.Text // when only the program is named
	// Env is what it gets to see besides what it needs; PassEnv are variables
	// of our own that it gets to see as well.
	Env     []Header
	PassEnv []text.Text
	Timeout time.Duration // of one piece of work

	Withheld bool // see Power

	MaxConcurrent int64
}

func readCLI(name text.Text, f *fields) CLI {
	c := CLI{
		Speaks:        f.choice("speaks", "How the program is spoken with; text is any program that takes a prompt and writes its answer.", Speaks()...),
		Command:       f.texts("command", "The program, as a list of its words; without it the program is looked for on the PATH."),
		Args:          f.texts("args", "Arguments besides those that Espalier gives it. A text program may have {prompt} and {model} in its command."),
		Model:         f.text("model", "The model when only the program is named; without it the program chooses."),
		Env:           f.named("env", "Variables for the program; secret://NAME and ${NAME} may stand for a value."),
		PassEnv:       f.texts("pass_env", "Variables of the environment that the program gets to see, besides those that it needs."),
		Timeout:       f.duration("timeout", "How long it may work on one step."),
		MaxConcurrent: f.number("max_concurrent", "How many may work at the same time.", 1, 1000),
	}
	if name.Value == "" {
		return c
	}
	if strings.Contains(name.Value, "/") {
		f.report(CodeBadValue, name.Span, "Use letters, digits and dashes.", "%q cannot be the name of a program, because models are written program/model.", name.Value)
	}
	if !slices.Contains(BuiltInCLIs(), name.Value) {
		if c.Speaks == "" && !f.r.Has("speaks") {
			f.report(CodeMissing, name.Span, "Add a line such as speaks: text, or name a program that is known: "+strings.Join(BuiltInCLIs(), ", ")+".",
				"The program %q does not say how it is spoken with.", name.Value)
		}
		if f.lacks("command") && c.Speaks == PlainText {
			f.report(CodeMissing, name.Span, "Add a line such as command: [my-agent, --quiet].", "The program %q does not say what is run.", name.Value)
		}
	}
	if c.Speaks != PlainText && !(c.Speaks == "" && (name.Value == OpenCode || name.Value == Vibe)) {
		for _, part := range c.Command {
			if strings.Contains(part.Value, "{prompt}") || strings.Contains(part.Value, "{model}") {
				f.report(CodeBadValue, part.Span, "Leave it out, or write speaks: text.", "Only programs that speak text have a place for %s in their command.", part.Value)
			}
		}
	}
	return c
}

// CLI finds the entry of a program; nil when there is none.
func (m *Models) CLI(name string) *CLI {
	for i := range m.CLIs {
		if m.CLIs[i].Name.Value == name {
			return &m.CLIs[i].Is
		}
	}
	return nil
}
