package scaffold

import (
	"slices"
	"strings"
	"unicode"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/xslices"
)

// A Pattern is a workflow to start from.
type Pattern struct {
	Name, About string
	// cannot says why formats lack the pattern.
	cannot map[string]string
}

// Patterns are the patterns of new workflows, the default first.
var Patterns = []Pattern{
	{Name: "pipeline", About: "steps one after the other"},
	{Name: "review", About: "a loop: write, review, and revise until the reviewer approves"},
	{Name: "fanout", About: "specialists side by side, then merged"},
	{Name: "gate", About: "a person approves what the run returns"},
	{Name: "schedule", About: "runs at fixed times"},
	{Name: "tool", About: "calls a tool and reports what it found"},
	{Name: "agentic", About: "a specialist works, a reviewer decides whether it may pass", cannot: map[string]string{
		"awf": onlyAgentFlow, "nof": onlyAgentFlow, "agentfile": onlyAgentFlow, "aiflow": onlyAgentFlow,
	}},
}

const onlyAgentFlow = "it is a pattern of Agent Flow"

// MissingIn returns why a format lacks the pattern; it is empty if the format has it.
func (p Pattern) MissingIn(format string) string { return p.cannot[format] }

// PatternNames returns the names of all patterns, the default first.
func PatternNames() []string {
	return xslices.Map(Patterns, func(p Pattern) string { return p.Name })
}

// PatternsOf returns the patterns that a format has.
func PatternsOf(format string) []Pattern {
	return xslices.Filter(Patterns, func(p Pattern) bool { return p.MissingIn(format) == "" })
}

// PatternNamesOf returns the names of the patterns that a format has.
func PatternNamesOf(format string) []string {
	return xslices.Map(PatternsOf(format), func(p Pattern) string { return p.Name })
}

// otherPatterns are words of other programs for patterns, with the names that the patterns have here.
var otherPatterns = map[string]string{
	"loop": "review", "refine": "review", "critic": "review", "reflection": "review", "evaluator": "review",
	"parallel": "fanout", "map": "fanout", "branch": "fanout", "merge": "fanout", "approval": "gate", "human": "gate",
	"cron": "schedule", "trigger": "schedule", "timer": "schedule", "sequence": "pipeline", "sequential": "pipeline",
	"chain": "pipeline", "linear": "pipeline", "mcp": "tool", "function": "tool", "supervisor": "agentic",
}

// SimilarPatterns returns the patterns of a format that a person probably means by a name.
func SimilarPatterns(format, name string) []string {
	names := PatternNamesOf(format)
	var meant []string
	add := func(word string) {
		word = strings.ToLower(word)
		for _, pattern := range []string{otherPatterns[word], diag.Nearest(word, names), word} {
			if slices.Contains(names, pattern) && !slices.Contains(meant, pattern) {
				meant = append(meant, pattern)
			}
		}
	}
	add(name)
	for _, word := range strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) }) {
		add(word)
	}
	return meant
}
