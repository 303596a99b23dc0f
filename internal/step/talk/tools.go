package talk

import (
	"context"
	"encoding/json"
	"fmt"

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

// useTools does what the model asks for, in its order, and tells it the results.
func (c *conversation) useTools(ctx context.Context, uses []provider.Block) error {
	message := provider.Message{Role: provider.User}
	for _, use := range uses {
		c.calls++
		result, err := c.useTool(ctx, use)
		if err != nil {
			return err
		}
		message.Blocks = append(message.Blocks, resultBlock(use.ToolID, result))
	}
	c.request.Messages = append(c.request.Messages, message)
	return nil
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

// useTool does one call: nothing if its result was noted.
func (c *conversation) useTool(ctx context.Context, use provider.Block) (journal.ToolUse, error) {
	call := journal.ToolUse{Name: use.ToolName, CallID: use.ToolID, Input: use.Input}
	if call.CallID == "" {
		call.CallID = fmt.Sprintf("call-%d", c.calls)
	}
	past, err := c.pastCall()
	if err != nil {
		return call, err
	}
	if past.returned != nil {
		return *past.returned, nil
	}
	if past.made != nil {
		call.Name, call.CallID = past.made.Name, past.made.CallID
	}
	if err := c.settled(); err != nil {
		return call, err
	}
	done, err := c.job.UseTool(ctx, step.ToolCall{
		Name: call.Name, CallID: call.CallID, N: c.calls, Agent: c.caller(), Input: call.Input, Made: past.made, Answer: past.answer,
	}, c.flush()...)
	if err != nil {
		c.inFlight = done.InFlight
		return call, err
	}
	for _, n := range done.Notes {
		c.note(n)
	}
	return done.Use, nil
}

// caller is the agent; one without tools when nobody in particular answers.
func (c *conversation) caller() *ir.Agent {
	if c.Agent == nil {
		return &ir.Agent{}
	}
	return c.Agent
}

// pastCall is what an earlier life has left of the next call.
type pastCall struct {
	made, returned *journal.ToolUse
	answer         *journal.ToolAnswer
}

func (c *conversation) pastCall() (p pastCall, err error) {
	for {
		var answer journal.ToolAnswer
		again, err := c.replay(journal.NoteToolAnswer, &answer)
		if err != nil {
			return p, err
		}
		if !again {
			break
		}
		p.answer = &answer // the last one counts: it may have been asked anew
	}
	var made, returned journal.ToolUse
	again, err := c.replay(journal.NoteToolCall, &made)
	if err != nil || !again {
		return p, err
	}
	p.made = &made
	if again, err = c.replay(journal.NoteToolResult, &returned); again {
		p.returned = &returned
	}
	return p, err
}
