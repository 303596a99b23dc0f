package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/tool"
	"github.com/espalier-run/espalier/internal/xslices"
)

// toolUses returns the tool calls among the blocks of a reply.
func toolUses(blocks []provider.Block) []provider.Block {
	return xslices.Filter(blocks, func(b provider.Block) bool { return b.Type == provider.ToolUse })
}

// useTools makes the calls that the model requests, several at the same time, and adds the results to the
// request in the order of the calls. A call that an earlier execution noted is not repeated.
func (c *loop) useTools(ctx context.Context, uses []provider.Block) error {
	past, err := c.pastCalls()
	if err != nil {
		return err
	}
	// Take the results that are noted, refuse calls beyond the limit, and make the others. A call that was noted and
	// has no result is made again under the same key.
	results := make([]journal.ToolUse, len(uses))
	var calls []step.ToolCall
	var places []int // of the calls in uses
	made := len(uses)
	for i, use := range uses {
		if i >= stepkind.MaxCallsPerTurn && past.settled() { // earlier releases made all calls
			made = min(made, i)
			results[i] = journal.ToolUse{Name: use.ToolName, CallID: use.ToolID, Input: use.Input, Error: fmt.Sprintf(
				"This call was not made: one reply can make %d calls at most. Make it in your next reply if you "+
					"still need it.", stepkind.MaxCallsPerTurn,
			)}
			continue
		}
		c.calls++
		id := use.ToolID
		if id == "" || slices.ContainsFunc(uses[:i], func(b provider.Block) bool { return b.ToolID == id }) {
			id = callID(c.calls)
		}
		before := past.of(id, c.job.CallKey(c.calls))
		if before.returned != nil {
			results[i] = *before.returned
			continue
		}
		calls, places = append(calls, step.ToolCall{
			Name: use.ToolName, CallID: id, N: c.calls, Agent: c.caller().Agent, Input: use.Input,
			Made: before.made, Answer: before.answer,
		}), append(places, i)
	}
	if err := past.leftOver(c.job.Key); err != nil {
		return err
	}
	if len(calls) > 0 {
		if err := c.checkReplayed(); err != nil {
			return err
		}
		done, err := c.job.UseTools(ctx, calls, c.flush()...)
		c.pending = append(c.pending, done.Notes...)
		if err != nil {
			c.inFlight = done.InFlight
			return err
		}
		for k, i := range places {
			results[i] = done.Uses[k]
		}
	}
	message := provider.Message{Role: provider.User}
	for i, use := range toolUses(c.request.Messages[len(c.request.Messages)-1].Blocks) { // by the IDs that are sent
		block := resultBlock(use.ToolID, results[i])
		block.Media = c.media(results[i].Media)
		message.Blocks = append(message.Blocks, block)
	}
	c.request.Messages = append(c.request.Messages, message)
	return c.checkRepeats(results[:made])
}

// A call that fails repeatedly in the same way leads to a warning, and then ends
// the conversation: models have been seen to spend their budget on one mistake.
const (
	warnAfter = 3
	stopAfter = 5
)

// failedCall identifies a call that failed and its problem.
type failedCall struct{ tool, input, problem string }

// checkRepeats counts calls that failed as they did before.
func (c *loop) checkRepeats(results []journal.ToolUse) error {
	var warnings []journal.Block
	for _, r := range results {
		if r.Error == "" {
			c.failed = nil
			continue
		}
		if c.failed == nil {
			c.failed = map[failedCall]int{}
		}
		call := failedCall{r.Name, string(r.Input), r.Error}
		c.failed[call]++
		switch n := c.failed[call]; {
		case n >= stopAfter:
			return step.Errorf(ir.ClassInvalid,
				"%s called the tool %q %d times with the same arguments, and it failed in the same way each time: %s",
				c.agentName(), r.Name, n, r.Error)
		case n == warnAfter:
			// Without the name of the tool: the server may have another one for it.
			warnings = append(warnings, textBlock(fmt.Sprintf("You have called the same tool %d times with the "+
				"arguments %s, and it failed in the same way each time. It will fail again. Use different arguments, "+
				"continue without it, or explain what prevents you from finishing.", n, shortened(string(r.Input)))))
		}
	}
	// Runs of versions that did not warn continue without warnings.
	if len(warnings) == 0 || len(c.past) > 0 && c.past[0].Kind != journal.NotePrompt {
		return nil
	}
	return c.addPrompt(journal.Prompt{Blocks: warnings})
}

// resultBlock returns the result of a call for the model.
func resultBlock(id string, result journal.ToolUse) provider.Block {
	content := result.Output
	if len(content) == 0 {
		content = json.RawMessage("null")
		if result.Error != "" {
			content = step.JSON(result.Error)
		}
	}
	return provider.Block{
		Type: provider.ToolResult, ToolID: id, ToolName: result.Name, Content: content, IsError: result.Error != "",
	}
}

// media returns the files that a call returned. A file that is gone is left out;
// the output has a placeholder for it.
func (c *loop) media(files []journal.Media) []provider.Media {
	var out []provider.Media
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(c.job.Dir, filepath.FromSlash(f.File)))
		if err == nil {
			out = append(out, provider.Media{Type: f.Type, Data: data})
		}
	}
	return out
}

// caller returns the caller of tools: the agent, or one without tools.
func (c *loop) caller() tool.Caller {
	return tool.Caller{Program: c.job.Workflow, Step: c.job.Step, Agent: cmp.Or(c.Agent, &ir.Agent{})}
}

// pastCall is what an earlier execution noted about one call.
type pastCall struct {
	made, returned *journal.ToolUse
	answer         *journal.ToolAnswer
}

// pastCalls is what an earlier execution noted about the calls of a turn.
type pastCalls struct {
	uses    []pastUse
	answers []journal.ToolAnswer
}

// pastUse is a noted call, or its noted result if returned is set. found is set when the turn has the call.
type pastUse struct {
	returned, found bool
	journal.ToolUse
}

// pastCalls replays the notes about tools that come next.
func (c *loop) pastCalls() (*pastCalls, error) {
	p := &pastCalls{}
	for {
		var use pastUse
		var answer journal.ToolAnswer
		if again, err := c.replay(journal.NoteToolAnswer, &answer); err != nil {
			return nil, err
		} else if again {
			p.answers = append(p.answers, answer)
			continue
		}
		again, err := c.replay(journal.NoteToolCall, &use.ToolUse)
		if err == nil && !again {
			again, err = c.replay(journal.NoteToolResult, &use.ToolUse)
			use.returned = again
		}
		if err != nil || !again {
			return p, err
		}
		p.uses = append(p.uses, use)
	}
}

// of returns the notes about one call.
func (p *pastCalls) of(id, key string) pastCall {
	var out pastCall
	for i := range p.uses {
		use := &p.uses[i]
		switch {
		case use.CallID != id:
			continue
		case use.returned:
			out.returned = &use.ToolUse
		default:
			out.made = &use.ToolUse
		}
		use.found = true
	}
	for i := range p.answers {
		if p.answers[i].Call == key {
			out.answer = &p.answers[i] // the last one counts: the question may have been repeated
		}
	}
	return out
}

// leftOver returns an error if notes are about calls that this turn does not have.
func (p *pastCalls) leftOver(key string) error {
	for _, use := range p.uses {
		if !use.found {
			return step.Errorf(ir.ClassInternal, "journal mismatch on resume of %s: unexpected call of tool %q; "+
				step.RepeatHelp, key, use.Name)
		}
	}
	return nil
}

// settled reports whether no note is left about a call of this turn.
func (p *pastCalls) settled() bool {
	return !slices.ContainsFunc(p.uses, func(use pastUse) bool { return !use.found })
}
