package chat

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// system returns the system prompt: the agent's instructions and role. A role that
// repeats the task, as that of a skill does, is left out.
func system(a *ir.Agent, task string) string {
	var out []string
	add := func(format, text string) {
		if text = strings.TrimSpace(text); text != "" {
			out = append(out, fmt.Sprintf(format, text))
		}
	}
	if a == nil {
		add("%s", "You carry out one step of a workflow. Do exactly what the task says and nothing else.")
	} else {
		add("%s", a.Instructions)
		add("%s", stepkind.Bundled(a))
		if a.Role != task {
			add("Role: %s", a.Role)
		}
		add("Goal: %s", a.Goal)
	}
	return strings.Join(append(out, AboutData), "\n\n")
}

// firstMessage returns the task, the data, and last the form of the reply.
func (t *Conversation) firstMessage(job *step.Job) []journal.Block {
	blocks := []journal.Block{}
	add := func(format, text string) {
		if text = strings.TrimSpace(text); text != "" {
			blocks = append(blocks, textBlock(fmt.Sprintf(format, text)))
		}
	}
	add("Task: %s", t.Task)
	for _, r := range job.Reads {
		blocks = append(blocks, readBlock(r, job.Untrusted))
	}
	for _, d := range t.Data {
		blocks = append(blocks, textBlock(DataBlock(d.Name, d.Value)))
	}
	if len(blocks) == 0 {
		blocks = append(blocks, textBlock("Task: Do what your role and your goal say."))
	}
	expected := t.Expected
	if t.Agent != nil {
		expected = cmp.Or(expected, t.Agent.Expected)
	}
	add("Expected output: %s", expected)
	add("%s", t.Form.Instructions())
	return blocks
}

// readBlock returns a value that the step reads, delimited as data.
func readBlock(r step.Read, untrusted bool) journal.Block {
	var text string
	switch {
	case r.Missing:
		return textBlock(fmt.Sprintf("There is no %s, because the step that produces it did not run.", r.Path))
	case r.Path == "input" && !untrusted && json.Unmarshal(r.Value, &text) == nil && text != "":
		// The text of a person to a skill is the request itself.
		return textBlock("The user's request:\n" + delimited("request", "", text))
	}
	return textBlock(DataBlock(r.Path, r.Value))
}

// textBlock returns a block of text.
func textBlock(text string) journal.Block { return journal.Block{Type: journal.BlockText, Text: text} }

// repairPrompt returns the prompt for another reply.
func (t *Conversation) repairPrompt(problems []string) []journal.Block {
	var b strings.Builder
	b.WriteString("Your reply does not meet the requirements:\n")
	for i, p := range problems {
		if i == maxProblems {
			fmt.Fprintf(&b, "- and %d more\n", len(problems)-i)
			break
		}
		fmt.Fprintf(&b, "- %s\n", p)
	}
	b.WriteString("\nReply again with the complete answer, not only with the corrected part. " +
		"Do not use placeholders. If you do not know the content of a text, say so in that text.\n")
	b.WriteString(t.Form.Instructions())
	return []journal.Block{textBlock(b.String())}
}

// maxProblems bounds the problems in a prompt for a repair.
const maxProblems = 20
