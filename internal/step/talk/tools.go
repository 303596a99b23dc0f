package talk

import (
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
)

func toolUses(reply *provider.Reply) []provider.Block {
	var out []provider.Block
	for _, b := range reply.Blocks {
		if b.Type == provider.ToolUse {
			out = append(out, b)
		}
	}
	return out
}

// useTools does what the model asks for, several things at the same time, and
// tells it the results in its order. Nothing is done again that was noted.
func (c *conversation) useTools(ctx context.Context, uses []provider.Block) error {
	past, err := c.pastCalls()
	if err != nil {
		return err
	}
	results := make([]journal.ToolUse, len(uses))
	var calls []step.ToolCall
	var places []int // of the calls, among the uses
	for i, use := range uses {
		c.calls++
		id := use.ToolID
		if id == "" || slices.ContainsFunc(uses[:i], func(b provider.Block) bool { return b.ToolID == id }) {
			id = fmt.Sprintf("call-%d", c.calls)
		}
		before := past.of(id, c.job.CallKey(c.calls))
		if before.returned != nil {
			results[i] = *before.returned
			continue
		}
		calls, places = append(calls, step.ToolCall{
			Name: use.ToolName, CallID: id, N: c.calls, Agent: c.caller(), Input: use.Input, Made: before.made, Answer: before.answer,
		}), append(places, i)
	}
	if err := past.leftOver(c.job.Key); err != nil {
		return err
	}
	if len(calls) > 0 {
		if err := c.settled(); err != nil {
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
	for i, use := range uses {
		block := resultBlock(use.ToolID, results[i])
		block.Media = c.media(results[i].Media)
		message.Blocks = append(message.Blocks, block)
	}
	c.request.Messages = append(c.request.Messages, message)
	return c.loops(results)
}

// A call that fails again and again in the same way is pointed out after so
// many times, and ends the conversation after so many: models have been seen
// to spend all that they may on one mistake.
const (
	toldAfter = 3
	stopAfter = 5
)

// failedCall is a call that failed, and how.
type failedCall struct{ tool, input, problem string }

// loops counts calls that failed as they did before.
func (c *conversation) loops(results []journal.ToolUse) error {
	var told []journal.Block
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
			return step.Errorf(step.ClassInvalid, "%s called the tool %q %d times with the same arguments, and it failed in the same way each time: %s", c.who(), r.Name, n, r.Error)
		case n == toldAfter:
			told = append(told, textBlock(fmt.Sprintf("You have called the tool %q %d times with the same arguments, and it has failed in the same way each time. "+
				"It will fail again. Call it differently, do without it, or say what is in your way.", r.Name, n)))
		}
	}
	// Runs that are older than this go on as they began.
	if len(told) == 0 || len(c.past) > 0 && c.past[0].Kind != journal.NotePrompt {
		return nil
	}
	return c.say(journal.Prompt{Blocks: told})
}

// resultBlock tells the model what came of a call.
func resultBlock(id string, result journal.ToolUse) provider.Block {
	content := result.Output
	if len(content) == 0 {
		content = json.RawMessage("null")
		if result.Error != "" {
			content = step.JSON(result.Error)
		}
	}
	return provider.Block{Type: provider.ToolResult, ToolID: id, ToolName: result.Name, Content: content, IsError: result.Error != ""}
}

// media reads the files that a call returned. Of a file that is gone the
// placeholder in the output is left.
func (c *conversation) media(files []journal.Media) []provider.Media {
	var out []provider.Media
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(c.job.Dir, filepath.FromSlash(f.File)))
		if err == nil {
			out = append(out, provider.Media{Type: f.Type, Data: data})
		}
	}
	return out
}

// caller is the agent; one without tools when nobody in particular answers.
func (c *conversation) caller() *ir.Agent {
	if c.Agent == nil {
		return &ir.Agent{}
	}
	return c.Agent
}

// pastCall is what an earlier life has left of one call.
type pastCall struct {
	made, returned *journal.ToolUse
	answer         *journal.ToolAnswer
}

// pastCalls are what an earlier life has left of a turn's calls.
type pastCalls struct {
	uses    []pastUse
	answers []journal.ToolAnswer
}

type pastUse struct {
	returned, found bool
	journal.ToolUse
}

// pastCalls takes the notes about tools that come next.
func (c *conversation) pastCalls() (*pastCalls, error) {
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

// of is what is left of one call.
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
			out.answer = &p.answers[i] // the last one counts: it may have been asked anew
		}
	}
	return out
}

// leftOver is an error when notes are about calls that this turn has not.
func (p *pastCalls) leftOver(key string) error {
	for _, use := range p.uses {
		if !use.found {
			return step.Errorf(classInternal, "the notes of %s do not fit: a call of %q comes where it cannot", key, use.Name)
		}
	}
	return nil
}
